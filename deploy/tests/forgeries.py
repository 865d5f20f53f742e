"""Speaks through a proxy as a caller who forges the headers that say where a request comes from.

Behind the proxy is a small server of our own, which keeps what arrives. The proxy must have set each header once, to
the address and the scheme of its caller.
"""

import contextlib
import http.server
import socket
import ssl
import subprocess
import threading
import time

# Not the address at which the proxies of a laptop listen, so that the two cannot be confused.
CALLER = "127.0.0.2"
FORGERIES = [
    [],
    ["X-Forwarded-For: 203.0.113.7"],
    ["x-forwarded-for: 203.0.113.7", "X-FORWARDED-FOR: 203.0.113.8"],
    ["X-Forwarded-For: 203.0.113.7, 127.0.0.1, 10.89.64.2"],
    ["X-Forwarded-For:"],
    ["X-Forwarded-For: 203.0.113.7", "Connection: close, X-Forwarded-For"],
    ["X-Forwarded-Proto: https"],
    ["X-Forwarded-Proto: http", "X-Forwarded-Proto: https"],
]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def server():
    """A server on loopback, as its port and the list of headers that arrived with each request."""
    arrived = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            # The proxy's own checks of the server do not count.
            if self.path == "/forged":
                arrived.append(self.headers)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listener.serve_forever)
    thread.start()
    try:
        yield listener.server_address[1], arrived
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()


def request(port, encrypted, headers):
    """Sends one request and returns the line with the response's status."""
    with socket.create_connection(("127.0.0.1", port), timeout=10, source_address=(CALLER, 0)) as connection:
        if encrypted:
            context = ssl.create_default_context()
            # The certificate is made for this check.
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            connection = context.wrap_socket(connection, server_hostname="media.example.com")
        with connection:
            closing = [] if any(header.startswith("Connection") for header in headers) else ["Connection: close"]
            lines = ["GET /forged HTTP/1.1", "Host: media.example.com", *closing, *headers, "", ""]
            connection.sendall("\r\n".join(lines).encode())
            with connection.makefile("rb") as response:
                return response.readline().decode().strip()


def found(command, port, encrypted, arrived, **options):
    """Runs a proxy that listens at the port, and returns what is wrong with it."""
    proxy = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    try:
        begin = time.monotonic()
        # A proxy may know its server only a moment after it listens.
        while (status := first_status(port, encrypted)) is None or " 200" not in status:
            if proxy.poll() is not None or time.monotonic() - begin > 20:
                proxy.kill()
                return [f"it does not respond ({status}):\n{proxy.stdout.read()}"]
            time.sleep(0.1)
        wrong = []
        for headers in FORGERIES:
            arrived.clear()
            status = request(port, encrypted, headers)
            if " 200" not in status or len(arrived) != 1:
                wrong.append(f"{headers}: {status}")
                continue
            for name, right in [("X-Forwarded-For", CALLER), ("X-Forwarded-Proto", "https" if encrypted else "http")]:
                values = arrived[0].get_all(name)
                if values != [right]:
                    wrong.append(f"{headers} arrive as {name} {values}")
        return wrong
    finally:
        proxy.terminate()
        proxy.wait()


def first_status(port, encrypted):
    try:
        return request(port, encrypted, [])
    except OSError:
        return None
