"""Makes the files in tests/data that other programs signed and tagged.

elsewhere.py FOLDER: `signed_elsewhere.mp4` by the official library for Python with a certificate of an
authority of its own, `elsewhere_root.pem`, and a time stamp by OpenSSL; `tagged_elsewhere.mp4` and `.jpg`
by ExifTool. It needs the packages of requirements.txt, ffmpeg, exiftool and openssl. Keys are made anew
each time and not kept.
"""

import datetime
import http.server
import json
import pathlib
import subprocess
import sys
import tempfile
import threading

import c2pa
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID as Use
from cryptography.x509.oid import NameOID

DATA = pathlib.Path(__file__).parent.parent / "data"
TRAINED = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia"
BEGIN = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
# Without a time stamp, readers check certificates against the clock, and the tests should pass for years.
END = BEGIN.replace(year=2056)


def name(common):
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "AT"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Elsewhere Films"),
            x509.NameAttribute(NameOID.COMMON_NAME, common),
        ]
    )


def certificate(common, use, issuer=None):
    """A key and its certificate, of an authority or signed by one, as C2PA's profile wants them."""
    key = ec.generate_private_key(ec.SECP256R1())
    by_name, by_key = (issuer[1].subject, issuer[0]) if issuer else (name(common), key)
    authority = use is None
    usage = dict.fromkeys(
        [
            "digital_signature",
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "key_cert_sign",
            "crl_sign",
            "encipher_only",
            "decipher_only",
        ],
        False,
    )
    usage.update({"key_cert_sign": True, "crl_sign": True} if authority else {"digital_signature": True})
    builder = (
        x509.CertificateBuilder()
        .subject_name(name(common))
        .issuer_name(by_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(BEGIN)
        .not_valid_after(END)
        .add_extension(x509.BasicConstraints(authority, None), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by_key.public_key()), critical=False)
    )
    if use:
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=True)
    return key, builder.sign(by_key, hashes.SHA256())


def pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM)


def pem_key(key):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def time_stamps(folder, root):
    """An authority of RFC 3161 on this machine; its address."""
    key, stamping = certificate("Elsewhere Time Stamps", Use.TIME_STAMPING, root)
    (folder / "tsa.pem").write_bytes(pem(stamping))
    (folder / "tsa.key").write_bytes(pem_key(key))
    (folder / "root.pem").write_bytes(pem(root[1]))
    (folder / "serial").write_text("01")
    (folder / "tsa.cnf").write_text(
        f"[tsa]\ndir = {folder}\nserial = $dir/serial\nsigner_cert = $dir/tsa.pem\ncerts = $dir/root.pem\n"
        "signer_key = $dir/tsa.key\nsigner_digest = sha256\ndefault_policy = 1.2.3.4.1\n"
        "digests = sha256, sha384, sha512\naccuracy = secs:1\n"
    )

    class Stamps(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            request = folder / "request"
            request.write_bytes(self.rfile.read(int(self.headers["content-length"])))
            reply = subprocess.run(
                ["openssl", "ts", "-reply", "-config", folder / "tsa.cnf", "-section", "tsa", "-queryfile", request],
                check=True,
                capture_output=True,
            ).stdout
            self.send_response(200)
            self.send_header("content-type", "application/timestamp-reply")
            self.send_header("content-length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Stamps)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def film(to):
    subprocess.run(
        [
            "ffmpeg",
            "-v",
            "error",
            "-y",
            "-f",
            "lavfi",
            "-i",
            "testsrc2=s=160x96:r=12:d=2",
            "-f",
            "lavfi",
            "-i",
            "sine=330:r=44100:d=2",
            "-c:v",
            "libx264",
            "-b:v",
            "60k",
            "-pix_fmt",
            "yuv420p",
            "-c:a",
            "aac",
            "-b:a",
            "32k",
            "-shortest",
            "-movflags",
            "+faststart",
            to,
        ],
        check=True,
    )


def signed(source, to, folder):
    root = certificate("Elsewhere Root", None)
    key, signing = certificate("Elsewhere Signing", Use.EMAIL_PROTECTION, root)
    signer = c2pa.Signer.from_info(
        c2pa.C2paSignerInfo(
            alg=b"es256",
            sign_cert=pem(signing) + pem(root[1]),
            private_key=pem_key(key),
            ta_url=time_stamps(folder, root).encode(),
        )
    )
    manifest = {
        "claim_generator_info": [{"name": "Elsewhere Video", "version": "3.2"}],
        "title": "output.mp4",
        "assertions": [
            {
                "label": "c2pa.actions.v2",
                "data": {
                    "actions": [
                        {
                            "action": "c2pa.created",
                            "digitalSourceType": TRAINED,
                            "softwareAgent": {"name": "elsewhere-film-3"},
                        }
                    ]
                },
            }
        ],
    }
    to.with_name("elsewhere_root.pem").write_bytes(pem(root[1]))
    to.unlink(missing_ok=True)
    with c2pa.Builder(json.dumps(manifest)) as builder:
        builder.sign_file(source, to, signer)


def tagged(source, to, *tags):
    to.unlink(missing_ok=True)
    subprocess.run(["exiftool", "-q", *tags, "-o", to, source], check=True)


to = pathlib.Path(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    film(folder / "film.mp4")
    signed(folder / "film.mp4", to / "signed_elsewhere.mp4", folder)
    xmp = [f"-XMP-iptcExt:DigitalSourceType={TRAINED}", "-XMP-xmp:CreatorTool=Elsewhere Video 3.2"]
    tagged(folder / "film.mp4", to / "tagged_elsewhere.mp4", *xmp)
    tagged(DATA / "picture.jpg", to / "tagged_elsewhere.jpg", *xmp, "-IPTC:By-line=Elsewhere", "-IPTC:Writer-Editor=E")
