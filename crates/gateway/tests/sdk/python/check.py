"""OpenAI's Python SDK, unchanged, against a running gateway.

MEDIAGATE_URL and MEDIAGATE_KEY are the gateway and its key; MEDIAGATE_SLOW_KEY is a key with
a limit of 60 requests a minute.
"""

import asyncio
import base64
import http.server
import os
import pathlib
import queue
import re
import struct
import subprocess
import tempfile
import threading
import unittest
import uuid
import zlib

import httpx2
import openai
import standardwebhooks.webhooks

URL = os.environ["MEDIAGATE_URL"]
KEY = os.environ["MEDIAGATE_KEY"]
SMALL = {"size": "480x480", "seconds": 1}


def client(key=KEY, **options):
    return openai.OpenAI(base_url=f"{URL}/v1", api_key=key, timeout=120, **options)


def counting_client(key=KEY, **options):
    """A client, and the list of the statuses of its answers."""
    statuses = []
    hooks = {"response": [lambda response: statuses.append(response.status_code)]}
    http = openai.DefaultHttpxClient(event_hooks=hooks)
    return client(key, http_client=http, **options), statuses


def picture():
    """A PNG of 64 by 64 pixels, red to blue."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\0" + b"".join(bytes((4 * x, 80, 4 * y)) for x in range(64)) for y in range(64))
    header = struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def is_mp4(data):
    return data[4:8] == b"ftyp"


def unique(text):
    """A prompt that no earlier request has used."""
    return f"{text} {uuid.uuid4()}"


class Receiver:
    """A server that receives webhooks."""

    def __enter__(self):
        received = self.received = queue.Queue()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                received.put(({name.lower(): value for name, value in self.headers.items()}, body.decode()))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.2", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.2:{self.server.server_port}/hook"
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def next(self):
        return self.received.get(timeout=60)


def api(path, body):
    headers = {"authorization": f"Bearer {KEY}"}
    answer = httpx2.post(f"{URL}{path}", json=body, headers=headers)
    answer.raise_for_status()
    return answer.json()


def snippet(language):
    """The example in docs/webhooks.md."""
    root = pathlib.Path(__file__).parents[5]
    page = (root / "docs/webhooks.md").read_text()
    return re.search(rf"^```{language} [^\n]*\n(.*?)^```", page, re.M | re.S)[1]


GO = """package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

%s
func main() {
	body, _ := io.ReadAll(os.Stdin)
	header := http.Header{}
	for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
		header.Set(name, os.Getenv(name))
	}
	fmt.Println(verify(os.Getenv("secret"), header, body))
}
"""


class Webhooks(unittest.TestCase):
    """Each example of the documentation accepts a delivery, and refuses a changed one."""

    @classmethod
    def setUpClass(cls):
        with Receiver() as receiver:
            endpoint = api("/v1/webhooks", {"url": receiver.url})
            api(f"/v1/webhooks/{endpoint['id']}/test", {})
            cls.secret = endpoint["secret"]
            cls.headers, cls.body = receiver.next()

    def test_python(self):
        names = {"secret": self.secret, "body": self.body, "headers": self.headers}
        exec(snippet("python"), names)
        self.assertEqual(names["event"]["type"], "test")
        with self.assertRaises(standardwebhooks.webhooks.WebhookVerificationError):
            exec(snippet("python"), {**names, "body": self.body + " "})

    def test_shell(self):
        def run(body):
            variables = {
                "secret": self.secret,
                "body": body,
                "id": self.headers["webhook-id"],
                "timestamp": self.headers["webhook-timestamp"],
                "signatures": self.headers["webhook-signature"],
            }
            result = subprocess.run(
                ["bash", "-c", snippet("bash")], env={**os.environ, **variables}, capture_output=True
            )
            return result.stdout.decode().strip()

        self.assertEqual(run(self.body), "from the gateway")
        self.assertEqual(run(self.body + " "), "")

    def test_go(self):
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "main.go"
            source.write_text(GO % snippet("go"))
            build_env = {**os.environ, "GOCACHE": f"{folder}/cache", "GO111MODULE": "off"}
            program = f"{folder}/verify"
            subprocess.run(["go", "build", "-o", program, str(source)], env=build_env, check=True)

            def run(body):
                env = {**os.environ, **self.headers, "secret": self.secret}
                result = subprocess.run([program], env=env, input=body.encode(), capture_output=True, check=True)
                return result.stdout.decode().strip()

            self.assertEqual(run(self.body), "true")
            self.assertEqual(run(self.body + " "), "false")


class Models(unittest.TestCase):
    def test_list_and_retrieve(self):
        models = {model.id: model for model in client().models.list()}
        self.assertLessEqual({"animatic-1", "stems-dsp-1"}, models.keys())
        for name, kind in (("animatic-1", "video"), ("stems-dsp-1", "music")):
            model = client().models.retrieve(name)
            self.assertEqual((model.object, model.kind), ("model", kind))
            # Other clients' films move this figure.
            listed, retrieved = models[name].to_dict(), model.to_dict()
            self.assertEqual({**retrieved, "median_seconds": listed["median_seconds"]}, listed)

    def test_an_unknown_one_is_not_found(self):
        with self.assertRaises(openai.NotFoundError) as raised:
            client().models.retrieve("no-such-model")
        self.assertEqual(raised.exception.code, "model_not_found")


class Chat(unittest.TestCase):
    def check_video(self, completion):
        choice = completion.choices[0]
        self.assertEqual(completion.object, "chat.completion")
        self.assertRegex(completion.system_fingerprint, r"^fp_[0-9a-f]{10}$")
        self.assertEqual((choice.message.role, choice.finish_reason), ("assistant", "stop"))
        video = choice.message.video
        self.assertEqual(choice.message.content, video["url"])
        self.assertEqual((video["width"], video["height"], video["mime_type"]), (480, 480, "video/mp4"))
        # The URL needs no key.
        answer = httpx2.get(choice.message.content)
        self.assertEqual(answer.status_code, 200)
        self.assertTrue(is_mp4(answer.content))
        self.assertEqual(len(answer.content), video["bytes"])

    def test_a_prompt_becomes_a_video(self):
        completion = client().chat.completions.create(
            model="animatic-1",
            messages=[{"role": "user", "content": unique("A lake at dawn")}],
            extra_body={"video": SMALL},
        )
        self.check_video(completion)
        usage = completion.usage
        self.assertGreater(usage.prompt_tokens, 3)
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
        self.assertAlmostEqual(usage.completion_tokens_details.video_seconds, 1, delta=0.1)
        self.assertEqual(usage.cost, 0)
        self.assertTrue(completion._request_id)

    def test_a_prompt_and_a_picture_become_a_video(self):
        url = "data:image/png;base64," + base64.b64encode(picture()).decode()
        completion = client().chat.completions.create(
            model="animatic-1",
            messages=[
                {"role": "system", "content": "You make videos."},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": unique("Slow zoom")},
                        {"type": "image_url", "image_url": {"url": url}},
                    ],
                },
            ],
            max_tokens=1000,
            extra_body={"video": SMALL},
        )
        self.check_video(completion)

    def test_a_stream_ends_with_the_url_and_the_usage(self):
        stream = client().chat.completions.create(
            model="animatic-1",
            messages=[{"role": "user", "content": unique("Rain over a town")}],
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"video": SMALL},
        )
        chunks = list(stream)
        self.assertEqual({chunk.object for chunk in chunks}, {"chat.completion.chunk"})
        self.assertEqual(len({chunk.id for chunk in chunks}), 1)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        deltas = [choice for chunk in chunks for choice in chunk.choices]
        content = "".join(choice.delta.content or "" for choice in deltas)
        self.assertTrue(is_mp4(httpx2.get(content).content))
        self.assertEqual([choice.finish_reason for choice in deltas if choice.finish_reason], ["stop"])
        progress = [chunk.task["progress"] for chunk in chunks if getattr(chunk, "task", None)]
        self.assertEqual(progress, sorted(progress))
        self.assertEqual(progress[-1], 100)
        self.assertEqual(chunks[-1].choices, [])
        self.assertGreater(chunks[-1].usage.total_tokens, 0)
        self.assertTrue(all(chunk.usage is None for chunk in chunks[:-1]))

    def test_the_helper_for_streams_works(self):
        with client().chat.completions.stream(
            model="animatic-1",
            messages=[{"role": "user", "content": unique("Snow on a hill")}],
            extra_body={"video": SMALL},
        ) as stream:
            completion = stream.get_final_completion()
        self.assertTrue(completion.choices[0].message.content.endswith(".mp4"))

    def test_the_asynchronous_client_works(self):
        async def run():
            async with openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY) as gateway:
                return await gateway.chat.completions.create(
                    model="animatic-1",
                    messages=[{"role": "user", "content": unique("Fog in a valley")}],
                    extra_body={"video": SMALL},
                )

        self.check_video(asyncio.run(run()))


class Videos(unittest.TestCase):
    def make(self, **options):
        options = {"model": "animatic-1", "prompt": unique("A harbour"), "size": "480x480", "seconds": "1"} | options
        return client().videos.create_and_poll(**options)

    def test_create_poll_download_delete(self):
        video = self.make()
        self.assertEqual((video.status, video.progress, video.error), ("completed", 100, None))
        self.assertEqual((video.size, video.seconds, video.model), ("480x480", "1", "animatic-1"))
        self.assertTrue(video.id.startswith("video_"))
        self.assertGreaterEqual(video.completed_at, video.created_at)
        retrieved = client().videos.retrieve(video.id)
        self.assertEqual((retrieved.id, retrieved.status), (video.id, "completed"))
        self.assertTrue(is_mp4(client().videos.download_content(video.id).read()))
        for variant in ("thumbnail", "spritesheet"):
            content = client().videos.download_content(video.id, variant=variant)
            self.assertTrue(content.read().startswith(b"\xff\xd8"), variant)
        deleted = client().videos.delete(video.id)
        self.assertEqual((deleted.id, deleted.deleted, deleted.object), (video.id, True, "video.deleted"))
        with self.assertRaises(openai.NotFoundError):
            client().videos.retrieve(video.id)

    def test_a_file_is_the_first_frame(self):
        video = self.make(input_reference=("first.png", picture(), "image/png"), extra_body={"seed": 7})
        self.assertEqual(video.status, "completed", video.error)

    def test_a_data_url_is_the_first_frame(self):
        url = "data:image/png;base64," + base64.b64encode(picture()).decode()
        # The SDK's types allow an object here, but its code takes files only.
        video = self.make(extra_body={"input_reference": {"image_url": url}})
        self.assertEqual(video.status, "completed", video.error)

    def test_the_list_pages_by_itself(self):
        created = [self.start() for _ in range(3)]
        listed = []
        for video in client().videos.list(limit=1):
            listed.append(video.id)
            if len(listed) == 20 or created[0] in listed:
                break
        self.assertEqual(listed[: listed.index(created[0]) + 1][-1], created[0])
        self.assertLessEqual(set(created), set(listed))
        self.assertEqual(len(listed), len(set(listed)))
        page = client().videos.list(limit=2)
        self.assertEqual((len(page.data), page.has_next_page()), (2, True))
        oldest = client().videos.list(limit=2, order="asc").data
        self.assertLessEqual(oldest[0].created_at, oldest[1].created_at)
        for video in created:
            client().videos.delete(video)

    def start(self):
        return client().videos.create(prompt=unique("Waves"), size="480x480", seconds="1").id


class Errors(unittest.TestCase):
    def refused(self, kind, body=None, key=KEY, **options):
        """The error of a refused request, which must not be repeated by the SDK."""
        gateway, statuses = counting_client(key)
        messages = [{"role": "user", "content": "A lake"}]
        with self.assertRaises(kind) as raised:
            gateway.chat.completions.create(
                **{"model": "animatic-1", "messages": messages, "extra_body": body} | options
            )
        self.assertEqual(statuses, [raised.exception.status_code])
        self.assertEqual(raised.exception.body["request_id"], raised.exception.request_id)
        return raised.exception

    def test_a_bad_key(self):
        self.assertEqual(self.refused(openai.AuthenticationError, key="sk-mg-wrong").code, "invalid_api_key")

    def test_an_unknown_model(self):
        error = self.refused(openai.NotFoundError, model="no-such-model")
        self.assertEqual((error.code, error.param), ("model_not_found", "model"))

    def test_a_bad_field_is_named(self):
        error = self.refused(openai.BadRequestError, max_tokens=0)
        self.assertEqual((error.param, error.type), ("max_tokens", "invalid_request_error"))
        error = self.refused(openai.BadRequestError, messages=[])
        self.assertEqual(error.param, "messages")
        error = self.refused(openai.BadRequestError, body={"video": {"size": "big"}})
        self.assertEqual((error.param, error.code), ("video.size", "invalid_value"))

    def test_a_private_address_is_blocked(self):
        inside = [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": f"{URL}/favicon.ico"}}]
        error = self.refused(openai.UnprocessableEntityError, messages=[{"role": "user", "content": inside}])
        self.assertEqual((error.code, error.param), ("image_fetch_blocked", "messages[0].content[1].image_url.url"))

    def test_a_conflict_is_not_repeated(self):
        """The SDK repeats a 409 unless a header of the answer forbids it."""
        gateway, statuses = counting_client()
        video = gateway.videos.create(prompt=unique("A long road"), size="1280x720", seconds="8")
        with self.assertRaises(openai.ConflictError) as raised:
            gateway.videos.download_content(video.id)
        self.assertEqual(raised.exception.code, "video_not_ready")
        self.assertEqual(statuses, [200, 409])
        gateway.videos.delete(video.id)

    def test_too_many_requests_are_repeated_until_they_pass(self):
        gateway, statuses = counting_client(os.environ["MEDIAGATE_SLOW_KEY"], max_retries=5)
        while 429 not in statuses:
            gateway.models.list()
            self.assertLess(len(statuses), 200)
        # Other clients use this key at the same time, so a repetition may be refused as well.
        self.assertEqual((set(statuses), statuses[-1]), ({200, 429}, 200))

    def test_without_retries_the_limit_is_an_error(self):
        gateway = client(os.environ["MEDIAGATE_SLOW_KEY"], max_retries=0)
        with self.assertRaises(openai.RateLimitError) as raised:
            for _ in range(200):
                gateway.models.list()
        self.assertEqual(raised.exception.code, "rate_limit_exceeded")
        self.assertGreaterEqual(int(raised.exception.response.headers["retry-after"]), 1)
        self.assertEqual(raised.exception.response.headers["x-should-retry"], "true")


class RequestIds(unittest.TestCase):
    def test_they_are_on_answers_and_on_errors(self):
        self.assertTrue(client().models.list()._request_id)
        sent = {"x-request-id": f"sdk-{uuid.uuid4()}"}
        self.assertEqual(client().models.list(extra_headers=sent)._request_id, sent["x-request-id"])
        with self.assertRaises(openai.NotFoundError) as raised:
            client().videos.retrieve("video_unknown", extra_headers=sent)
        self.assertEqual(raised.exception.request_id, sent["x-request-id"])


if __name__ == "__main__":
    # The SDK marks its video methods as deprecated since OpenAI closed its own service.
    unittest.main(verbosity=2, warnings="ignore")
