"""Every example of the documentation, against a running gateway.

An example runs if its fence has `run`, or `run then` to run after the earlier ones of its page. Settings (`toml`) must
pass `mediagate config check`; a `part` of settings is only parsed. Every other fence gives a reason: `not run: …`.

MEDIAGATE_URL, MEDIAGATE_KEY and MEDIAGATE_DATA are the gateway, its key and its data folder; MEDIAGATE_BIN is the
program. The Node tests run the examples in JavaScript.
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
# Output of programs, and diagrams of text.
NOT_CODE = {"json", "text"}
# Without it a failing command in the middle of an example would not be noticed.
STRICT = "set -euo pipefail\n"
# Credentials with a special format.
SECRETS = {
    "KLING_KEY": "access:secret",
    "TENCENT_PAIR": "id:key",
    "DATABASE_URL": "postgres://user:secret@localhost/media",
    "DIRECT_URL": "postgres://user:secret@localhost/media",
}


def blocks():
    """Each example with its page, its line, its language and the rest of its fence."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text()
        for match in FENCE.finditer(text):
            language, info, code = match.groups()
            line = text.count("\n", 0, match.start()) + 1
            yield page, f"{page.relative_to(DOCS)}:{line}", language, info.strip(), code


def command(language, code, folder):
    match language:
        case "sh":
            # By default curl succeeds with an error status.
            code = re.sub(r"curl -s(\w*) ", r"curl -sS\1 --fail-with-body ", code)
            return ["bash", "-c", STRICT + code]
        case "python":
            return [sys.executable, "-c", code]
        case "go":
            source = folder / "main.go"
            source.write_text(code)
            return ["go", "run", str(source)]


def examples():
    """The examples that run, each after the earlier ones of its page that it needs."""
    code_by_page = {}
    for page, name, language, info, code in blocks():
        if info not in {"run", "run then"} or language == "js":
            continue
        if info == "run then":
            code = code_by_page[page] + code
        code_by_page[page] = code
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
        listed = list(examples())
        self.assertGreater(len(listed), 15)
        path = f"{pathlib.Path(os.environ['MEDIAGATE_BIN']).parent}:{os.environ['PATH']}"
        for name, language, code in listed:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                song(pathlib.Path(folder) / "song.flac")
                go = {"GOCACHE": f"{folder}/cache", "GO111MODULE": "off", "HOME": folder}
                result = subprocess.run(
                    command(language, code, pathlib.Path(folder)),
                    cwd=folder,
                    env={**os.environ, **go, "PATH": path},
                    capture_output=True,
                    text=True,
                    timeout=120,
                )
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertTrue(result.stdout.strip(), f"it prints nothing: {result.stderr}")
                print(f"{name}: {result.stdout.strip()[:100]}")

    def test_settings_are_valid(self):
        for _, name, language, info, code in blocks():
            if language != "toml" or info.startswith("not run: "):
                continue
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                if info in {"part", "recipe"}:
                    tomllib.loads(code)
                    continue
                file = pathlib.Path(folder) / "mediagate.toml"
                file.write_text(code)
                names = re.findall(r"env:(\w+)", code)
                secrets = {name: SECRETS.get(name, f"a-secret-for-{name}-that-is-long-enough") for name in names}
                env = {name: value for name, value in os.environ.items() if not name.startswith("MEDIAGATE_")}
                result = subprocess.run(
                    [os.environ["MEDIAGATE_BIN"], "config", "check", "--config", str(file)],
                    cwd=folder,
                    env={**env, **secrets},
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_examples_that_do_not_run_give_a_reason(self):
        for _, name, language, info, _ in blocks():
            if language in NOT_CODE or language == "toml":
                continue
            with self.subTest(name):
                self.assertRegex(info, r"^(run|run then|not run: \S.*)$")


if __name__ == "__main__":
    unittest.main()
