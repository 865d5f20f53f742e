"""Every example of the guides that says `run` does, against a running gateway.

MEDIAGATE_URL, MEDIAGATE_KEY and MEDIAGATE_DATA say where, who and its data folder; MEDIAGATE_BIN is the
program. Examples in JavaScript are the Node tests'.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

DOCS = pathlib.Path(__file__).parents[5] / "docs"
BLOCK = re.compile(r"^```(\w+) run\n(.*?)^```", re.S | re.M)
# Without it a failing command in the middle of an example would go unnoticed.
STRICT = "set -euo pipefail\n"


def command(language, code, folder):
    match language:
        case "sh":
            # curl says what failed by its status alone.
            code = code.replace("curl -s ", "curl -sS --fail-with-body ")
            return ["bash", "-c", STRICT + code]
        case "python":
            return [sys.executable, "-c", code]
        case "go":
            source = folder / "main.go"
            source.write_text(code)
            return ["go", "run", str(source)]


def examples():
    for page in sorted(DOCS.glob("*.md")):
        for number, (language, code) in enumerate(BLOCK.findall(page.read_text())):
            if language != "js":
                yield f"{page.stem} {number} {language}", language, code


class Guides(unittest.TestCase):
    def test_each(self):
        found = list(examples())
        self.assertGreater(len(found), 10)
        path = f"{pathlib.Path(os.environ['MEDIAGATE_BIN']).parent}:{os.environ['PATH']}"
        for name, language, code in found:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
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


if __name__ == "__main__":
    unittest.main()
