"""Every example of the documentation, against a running gateway.

An example runs if its fence says `run`, after those before it on the page if it says `run then`; settings (`toml`) pass
`mediagate config check`, or are a `part` of some and are only read. Any other says why it is not run: `not run: …`.

MEDIAGATE_URL, MEDIAGATE_KEY and MEDIAGATE_DATA say where, who and its data folder; MEDIAGATE_BIN is the
program. Examples in JavaScript are the Node tests'.
"""

import math
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import tomllib
import unittest
import wave

DOCS = pathlib.Path(__file__).parents[5] / "docs"
FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.S | re.M)
# What a program answers, and pictures made of letters.
NO_CODE = {"json", "text"}
# Without it a failing command in the middle of an example would go unnoticed.
STRICT = "set -euo pipefail\n"
# Credentials have a form of their own at these.
SECRETS = {
    "KLING_KEY": "access:secret",
    "TENCENT_PAIR": "id:key",
    "DATABASE_URL": "postgres://user:secret@localhost/media",
    "DIRECT_URL": "postgres://user:secret@localhost/media",
}


def blocks():
    """Each example with its page, its line, its language and what its fence says."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text()
        for found in FENCE.finditer(text):
            language, said, code = found.groups()
            line = text.count("\n", 0, found.start()) + 1
            yield page, f"{page.relative_to(DOCS)}:{line}", language, said.strip(), code


def command(language, code, folder):
    match language:
        case "sh":
            # curl says what failed by its status alone.
            code = re.sub(r"curl -s(\w*) ", r"curl -sS\1 --fail-with-body ", code)
            return ["bash", "-c", STRICT + code]
        case "python":
            return [sys.executable, "-c", code]
        case "go":
            source = folder / "main.go"
            source.write_text(code)
            return ["go", "run", str(source)]


def examples():
    """Those that run, each behind those of its page that it goes on from."""
    before = {}
    for page, name, language, said, code in blocks():
        if said not in {"run", "run then"} or language == "js":
            continue
        if said == "run then":
            code = before[page] + code
        before[page] = code
        yield name, language, code


def song(path):
    """Two seconds of a chord, for examples that have a `song.flac`."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(44_100)
        tones = [220, 277.2, 329.6]
        for frame in range(2 * 44_100):
            value = sum(math.sin(2 * math.pi * tone * frame / 44_100) for tone in tones)
            file.writeframesraw(struct.pack("<h", int(6000 * value)))


class Guides(unittest.TestCase):
    def test_each(self):
        found = list(examples())
        self.assertGreater(len(found), 15)
        path = f"{pathlib.Path(os.environ['MEDIAGATE_BIN']).parent}:{os.environ['PATH']}"
        for name, language, code in found:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                song(pathlib.Path(folder) / "song.flac")
                go = {"GOCACHE": f"{folder}/cache", "GO111MODULE": "off", "HOME": folder}
                ran = subprocess.run(
                    command(language, code, pathlib.Path(folder)),
                    cwd=folder,
                    env={**os.environ, **go, "PATH": path},
                    capture_output=True,
                    text=True,
                    timeout=120,
                )
                self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
                self.assertTrue(ran.stdout.strip(), f"it says nothing: {ran.stderr}")
                print(f"{name}: {ran.stdout.strip()[:100]}")

    def test_settings_are_good(self):
        for _, name, language, said, code in blocks():
            if language != "toml" or said.startswith("not run: "):
                continue
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                if said in {"part", "recipe"}:
                    tomllib.loads(code)
                    continue
                file = pathlib.Path(folder) / "mediagate.toml"
                file.write_text(code)
                names = re.findall(r"env:(\w+)", code)
                secrets = {name: SECRETS.get(name, f"a-secret-for-{name}-that-is-long-enough") for name in names}
                env = {name: value for name, value in os.environ.items() if not name.startswith("MEDIAGATE_")}
                checked = subprocess.run(
                    [os.environ["MEDIAGATE_BIN"], "config", "check", "--config", str(file)],
                    cwd=folder,
                    env={**env, **secrets},
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
                self.assertEqual(checked.returncode, 0, checked.stderr)

    def test_what_is_not_run_says_why(self):
        for _, name, language, said, _ in blocks():
            if language in NO_CODE or language == "toml":
                continue
            with self.subTest(name):
                self.assertRegex(said, r"^(run|run then|not run: \S.*)$")


if __name__ == "__main__":
    unittest.main()
