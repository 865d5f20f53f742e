"""The actions of a user, on a gateway in whatever form it is installed. scripts/installed runs them.

    actions.py URL use               all of them, one line each: name, outcome, seconds, reason
    actions.py URL order COUNT       orders films, and prints the ids of their tasks
    actions.py URL ended TASK…       waits until these tasks have ended, and fails unless they succeeded

The key is in MEDIAGATE_KEY. Needs only Python.
"""

import base64
import io
import json
import math
import os
import struct
import sys
import time
import urllib.error
import urllib.request
import wave
import zlib

KEY = os.environ["MEDIAGATE_KEY"]
# Longer than any of the actions takes on a slow machine.
PATIENCE = 240


class Failed(Exception):
    """Why an action failed."""


def request(path, body=None, kind="application/json", with_key=True):
    url = path if path.startswith("http") else URL + path
    headers = {"Authorization": f"Bearer {KEY}"} if with_key else {}
    if body is not None:
        headers["Content-Type"] = kind
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
    asked = urllib.request.Request(url, data=body, headers=headers)
    try:
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def call(path, body=None, kind="application/json"):
    status, text = request(path, body, kind)
    if status != 200:
        raise Failed(f"{path}: {status} {text[:300].decode(errors='replace')}")
    return json.loads(text)


# A signed recording has its credentials in front.
FLAC = (b"fLaC", b"ID3")


def fetch(url, begins, at=0):
    """A media URL needs no key. The file must begin as its kind does."""
    status, data = request(url, with_key=False)
    if status != 200 or not data[at:].startswith(begins):
        raise Failed(f"{url.split('?')[0]}: {status}, {data[:12]!r}")
    return data


def form(name, filename, data):
    head = f'--part\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\n\r\n'
    return head.encode() + data + b"\r\n--part--\r\n", "multipart/form-data; boundary=part"


def ended(task):
    """The record of a task that succeeded."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        record = call(f"/v1/tasks/{task}?wait=20")
        if record["finished_at"]:
            if record["status"] != "succeeded":
                raise Failed(f"the task {record['status']}: {record['error']}")
            return record
    raise Failed(f"the task has not ended in {PATIENCE} s")


def order_film(**fields):
    return call("/v1/videos", {"model": "animatic-1", "prompt": "a lake at dawn, slow push in", **fields})


def task_of(video):
    text = video["id"].removeprefix("video_")
    return "-".join([text[:8], text[8:12], text[12:16], text[16:20], text[20:]])


def picture():
    """A PNG with a gradient."""
    width, height = 320, 240
    rows = b"".join(
        b"\0" + bytes(value for x in range(width) for value in (x % 256, y % 256, 90)) for y in range(height)
    )

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def recording():
    """Three seconds of a chord, as WAV."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(2)
        out.setsampwidth(2)
        out.setframerate(44100)
        tones = [220.0, 277.2, 329.6]

        def sample(at):
            return int(9000 * sum(math.sin(2 * math.pi * tone * at / 44100) for tone in tones) / len(tones))

        out.writeframes(b"".join(struct.pack("<hh", sample(at), sample(at)) for at in range(3 * 44100)))
    return file.getvalue()


def signed(data, name):
    found = call("/v1/provenance/check", *form("file", name, data))
    if found["provenance"]["status"] != "valid" or not found["ours"]["signed"]:
        raise Failed(f"{name} is not signed: {found['provenance']}, {found['ours']}")


# --- The actions, in order. What one made is there for the next. ---------------

made = {}


def is_ready():
    answer = call("/readyz?verbose")
    if answer["status"] != "ok":
        raise Failed(str(answer))
    return json.dumps(answer["verbose"])


def makes_a_film():
    record = ended(task_of(order_film(seconds="2")))
    made["film"] = fetch(record["output"]["videos"][0]["url"], b"ftyp", at=4)


def films_a_picture():
    url = "data:image/png;base64," + base64.b64encode(picture()).decode()
    record = ended(task_of(order_film(seconds="1", input_reference={"image_url": url})))
    fetch(record["output"]["videos"][0]["url"], b"ftyp", at=4)
    fetch(record["poster_url"], b"\xff\xd8\xff")


def rejects_a_damaged_picture():
    url = "data:image/png;base64," + base64.b64encode(picture()[:60]).decode()
    status, text = request("/v1/videos", {"model": "animatic-1", "prompt": "x", "input_reference": {"image_url": url}})
    if status not in (400, 422):
        raise Failed(f"{status} {text[:200].decode(errors='replace')}")


def accepts_a_recording():
    clip = call("/musicgen/uploads/audio", *form("file", "chord.wav", recording()))
    fetch(clip["audio_url"], FLAC)
    made["clip"] = clip


def separates_it():
    order = {"task": "gen_stem", "continue_clip_id": made["clip"]["id"], "stem_task": "two"}
    record = ended(call("/musicgen/submit/music", order)["id"])
    stems = [fetch(clip["audio_url"], FLAC) for clip in record["output"]["clips"]]
    if len(stems) != 2:
        raise Failed(f"{len(stems)} stems")
    made["stem"] = stems[0]


def makes_a_song():
    order = {"prompt": "rain on a tin roof", "tags": "slow blues", "title": "Rain", "mv": "singer"}
    record = ended(call("/musicgen/submit/music", order)["id"])
    clip = record["output"]["clips"][0]
    made["song"] = fetch(clip["audio_url"], FLAC)
    made["cover"] = fetch(record["poster_url"], b"\x89PNG")


def signs_all_of_it():
    for what, name in [("film", "film.mp4"), ("stem", "stem.flac"), ("song", "song.flac"), ("cover", "cover.png")]:
        if what not in made:
            raise Failed(f"there is no {what}")
        signed(made[what], name)


ACTIONS = {
    "ready": is_ready,
    "film": makes_a_film,
    "film of a picture": films_a_picture,
    "damaged picture": rejects_a_damaged_picture,
    "recording": accepts_a_recording,
    "stems": separates_it,
    "song, cover": makes_a_song,
    "c2pa": signs_all_of_it,
}


def main(command, *arguments):
    if command == "order":
        for number in range(int(arguments[0])):
            print(task_of(order_film(prompt=f"wave {number}, slow push in", seconds="4")))
        return 0
    if command == "ended":
        for task in arguments:
            ended(task)
        return 0
    failed = 0
    for name, action in ACTIONS.items():
        began = time.monotonic()
        try:
            outcome, note = "yes", action() or ""
        except Failed as reason:
            outcome, note = "NO", str(reason)
        except (OSError, KeyError, IndexError, TypeError, ValueError) as error:
            outcome, note = "NO", repr(error)
        failed += outcome == "NO"
        print(
            "\t".join([name, outcome, f"{time.monotonic() - began:.1f}", note.replace("\t", " ").replace("\n", " ")]),
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    URL = sys.argv[1]
    try:
        sys.exit(main(*sys.argv[2:]))
    except Failed as reason:
        sys.exit(str(reason))
