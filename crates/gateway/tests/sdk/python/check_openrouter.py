"""OpenRouter's Python SDK, unchanged, against a gateway of its own: each film is paid once, and each is had.

MEDIAGATE_PROGRAM is the program.
"""

import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request
import uuid

import openrouter
from openrouter import errors

VIDEOS = "/api/v1/videos"
CHAT = "/api/v1/chat/completions"
PRICE = '[models.animatic-1]\nprice = { unit = "second", usd = "0.10" }\n'


class Gateway:
    """A gateway at which a second of video costs 0.10 USD."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mediagate-sdk-"))
        config = self.folder / "mediagate.toml"
        config.write_text(PRICE)
        call = ["serve", "--listen", "127.0.0.1:0", "--data", str(self.folder / "data"), "--config", str(config)]
        # Settings in the environment would beat those of the test.
        env = {name: value for name, value in os.environ.items() if not name.startswith("MEDIAGATE_")}
        self.process = subprocess.Popen(
            [os.environ["MEDIAGATE_PROGRAM"], *call],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        printed = ""
        while line := self.process.stdout.readline():
            printed += line
            url = re.search(r"ready at (http://[\d.:]+)", printed)
            key = re.search(r"^ *(sk-mg-\w+)$", printed, re.M)
            if url and key:
                break
        self.url, self.key = url[1], key[1]

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def get(self, path):
        request = urllib.request.Request(self.url + path, headers={"authorization": f"Bearer {self.key}"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def tasks(self):
        return len(self.get("/v1/tasks?limit=100")["data"])

    def spent(self):
        return float(self.get("/v1/account")["spent_usd"])


class Relay:
    """A relay before a gateway, which loses the answer to the first order at this path.

    The connection to the gateway ends before the answer or, with `is_answer_read`, after it, and then the client's.
    """

    def __init__(self, gateway, path, is_answer_read=False):
        relay = self
        self.losses = 0

        class Server(http.server.ThreadingHTTPServer):
            # Without the end of the answer that the base class announces first: the SDK repeats what was reset.
            def shutdown_request(self, request):
                self.close_request(request)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.relay(b"")

            def do_POST(self):
                self.relay(self.rfile.read(int(self.headers["content-length"])))

            def relay(self, body):
                is_lost = self.command == "POST" and self.path == path and relay.losses == 0
                if is_lost:
                    relay.losses += 1
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    if not is_answer_read:
                        send_and_leave(gateway, self, body)
                        self.close_connection = True
                        return
                connection = http.client.HTTPConnection(gateway.url.removeprefix("http://"))
                # With the client's Host header, so that URLs in the answer lead here.
                connection.request(self.command, self.path, body or None, dict(self.headers.items()))
                answer = connection.getresponse()
                content = answer.read()
                connection.close()
                self.close_connection = True
                if is_lost:
                    return
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in {"transfer-encoding", "content-length", "connection", "date", "server"}:
                        self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def send_and_leave(gateway, request, body):
    """Sends an order, and leaves when the gateway has accepted it, before its answer."""
    before = gateway.tasks()
    lines = [f"{request.command} {request.path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in request.headers.items()]
    host, port = gateway.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        # Whoever leaves before the order is accepted has ordered nothing.
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        for _ in range(300):
            if gateway.tasks() > before:
                return
            time.sleep(0.1)
    raise AssertionError("the gateway did not accept the order")


def order():
    return {"model": "animatic-1", "prompt": f"A lake {uuid.uuid4()}", "duration": 1, "size": "480x480"}


class OpenRouterTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.gateway = Gateway()
        cls.addClassCleanup(cls.gateway.stop)

    def client(self, at=None, key=None):
        return openrouter.OpenRouter(
            api_key=key or self.gateway.key, server_url=f"{(at or self.gateway).url}/api/v1", timeout_ms=120_000
        )

    def film(self, at=None, **options):
        """Makes a film, which must be paid once, and returns its bytes."""
        tasks, spent = self.gateway.tasks(), self.gateway.spent()
        client = self.client(at)
        video = client.video_generation.generate(**order(), **options)
        for _ in range(600):
            video = client.video_generation.get_generation(job_id=video.id)
            if video.status not in {"pending", "in_progress"}:
                break
            time.sleep(0.1)
        self.assertEqual((video.status, video.error), ("completed", None))
        self.assertEqual((video.usage.cost, video.usage.is_byok), (0.1, False))
        self.assertGreater(video.expires_at, time.time())
        content = client.video_generation.get_video_content(job_id=video.id).read()
        for url in [video.urls[0], video.unsigned_urls[0]]:
            with urllib.request.urlopen(url) as file:
                self.assertEqual(file.read(), content)
        self.assertEqual(content[4:8], b"ftyp")
        self.assertEqual(self.gateway.tasks(), tasks + 1)
        self.assertAlmostEqual(self.gateway.spent() - spent, 0.1)

    def test_a_film_is_ordered_polled_and_downloaded(self):
        self.film()

    def test_with_a_key_an_answer_may_be_lost_at_any_time(self):
        with Relay(self.gateway, VIDEOS, is_answer_read=True) as relay:
            headers = {"Idempotency-Key": str(uuid.uuid4())}
            self.film(relay, http_headers=headers)
            self.assertEqual(relay.losses, 1)

    def test_a_chat_joins_too(self):
        tasks = self.gateway.tasks()
        messages = [{"role": "user", "content": f"A lake, 2 seconds {uuid.uuid4()}"}]
        with Relay(self.gateway, CHAT) as relay:
            completion = self.client(relay).chat.send(model="animatic-1", messages=messages, stream=False)
            self.assertEqual(relay.losses, 1)
        self.assertRegex(completion.choices[0].message.content, r"\.mp4$")
        self.assertGreater(completion.usage.cost, 0)
        with self.client().chat.send(model="animatic-1", messages=messages, stream=True) as stream:
            chunks = list(stream)
        text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
        self.assertRegex(text, r"\.mp4$")
        self.assertGreater(chunks[-1].usage.cost, 0)
        self.assertEqual(self.gateway.tasks(), tasks + 2)

    def test_models_are_listed(self):
        models = self.client().video_generation.list_videos_models().data
        model = next(model for model in models if model.id == "animatic-1")
        self.assertEqual(model.pricing_skus, {"duration_seconds": "0.10"})
        self.assertIn(1, model.supported_durations)
        names = [model.id for model in self.client().models.list().result.data]
        self.assertLessEqual({"animatic-1", "stems-dsp-1"}, set(names))

    def test_errors_have_their_classes(self):
        videos = self.client().video_generation
        stranger = self.client(key="sk-mg-wrong").video_generation
        for kind, code, call in [
            (errors.UnauthorizedResponseError, "invalid_api_key", lambda: stranger.generate(**order())),
            (
                errors.BadRequestResponseError,
                "unsupported_value",
                lambda: videos.generate(**order() | {"duration": 900}),
            ),
            (errors.NotFoundResponseError, "model_not_found", lambda: videos.generate(**order() | {"model": "none"})),
            (errors.NotFoundResponseError, "task_not_found", lambda: videos.get_generation(job_id="job-1")),
        ]:
            with self.subTest(code), self.assertRaises(kind) as raised:
                call()
            error = raised.exception
            self.assertEqual((error.data.error.code, error.data.error.metadata["code"]), (error.status_code, code))
            self.assertEqual(error.data.error.metadata["request_id"], error.headers["x-request-id"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
