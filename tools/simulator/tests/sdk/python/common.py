"""What all SDKs are run with: the simulator, the same input, and a record of
what they send."""

import importlib.metadata
import json
import os
import ssl
import sys
import time
import unittest
import urllib.request

KEY = "sk-check"
PROMPT = "a lighthouse in a storm"
# The same files that our adapters are given. They are not real media.
PICTURE = b"\x89PNG\r\n\x1a\n"
PICTURE_DATA = "data:image/png;base64,iVBORw0KGgo="
LARGE_PICTURE = PICTURE.ljust(5_000_000, b"\0")
DESCRIPTION = "slow blues"
PICTURE_URL = "https://example.com/picture.png"
SONG = b"ID3\x04"
SONG_DATA = "data:audio/mpeg;base64,SUQzBA=="

_recorded = []


class Simulator:
    """A simulator, through its own API."""

    def __init__(self, url):
        self.url = url

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        content = fetch(f"{self.url}/_/{path}", method, data)
        return json.loads(content) if content else None

    def begin(self):
        """Resets the simulator, so that every test gets the same ids."""
        self._call("POST", "reset")

    def plan(self, **plan):
        """Sets the plan of new jobs."""
        self._call("POST", "plan", plan)

    def journal(self, provider):
        # The simulator's address is not compared.
        journal = self._call("GET", f"journal?provider={provider}")
        return json.loads(json.dumps(journal).replace(self.url, "SIMULATOR"))


def fetch(address, method="GET", data=None):
    """Fetches a URL, because SDKs leave it to their users to fetch results."""
    request = urllib.request.Request(address, data, method=method)
    # Certificates are the SDKs' business, not ours.
    context = ssl._create_unverified_context() if address.startswith("https:") else None
    with urllib.request.urlopen(request, context=context) as answer:
        return answer.read()


HTTP = Simulator(os.environ["SIMULATOR_URL"])
# For SDKs that accept only https.
HTTPS = Simulator(os.environ["SIMULATOR_TLS_URL"])


class Check(unittest.TestCase):
    """One SDK at one provider. Each test's name, without `test_` and with spaces,
    is the name of one of our cases."""

    sdk = ""
    provider = ""
    # What precedes the test's name in the names of our cases.
    also = ""
    simulator = HTTP

    @property
    def base(self):
        return f"{self.simulator.url}/{self.provider}"

    def setUp(self):
        self.simulator.begin()
        if "cancel" in self._testMethodName:
            self.simulator.plan(queued=60_000)
        else:
            # The first poll finds the job running, the next one finished.
            self.simulator.plan(queued=0, running=0, polls=1)

    def run(self, result=None):
        before = len(result.failures) + len(result.errors)
        super().run(result)
        # What a failed test sent is not worth comparing.
        if len(result.failures) + len(result.errors) > before:
            return
        test = self._testMethodName.removeprefix("test_").replace("_", " ")
        _recorded.append(
            {
                "sdk": self.sdk,
                "version": importlib.metadata.version(self.sdk),
                "case": f"{self.provider}: {self.also}{test}",
                "journal": self.simulator.journal(self.provider),
            }
        )

    def wait(self, poll, done):
        """Polls until `done` accepts the answer."""
        for _ in range(200):
            answer = poll()
            if done(answer):
                return answer
            time.sleep(0.05)
        self.fail(f"it does not end: {answer}")

    def assert_video(self, content):
        self.assertEqual(content[4:8], b"ftyp")

    def assert_audio(self, content):
        self.assertEqual(content[:4], b"RIFF")


def main():
    """Runs the checks of a file, and writes what was sent to the file named last."""
    into = sys.argv.pop()
    # Deprecation warnings are the SDKs' own business.
    result = unittest.main(verbosity=2, warnings="ignore", exit=False).result
    with open(into, "w") as file:
        json.dump(_recorded, file)
    sys.exit(not result.wasSuccessful())
