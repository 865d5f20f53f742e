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
# The same files as our adapters are given; not real ones.
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
        """Back to the beginning, so that ids are the same for everyone."""
        self._call("POST", "reset")

    def plan(self, **plan):
        """How jobs go from now on."""
        self._call("POST", "plan", plan)

    def journal(self, provider):
        # Where it listens is no part of what is compared.
        journal = self._call("GET", f"journal?provider={provider}")
        return json.loads(json.dumps(journal).replace(self.url, "SIMULATOR"))


def fetch(address, method="GET", data=None):
    """What is at an address: SDKs leave it to their users to fetch results."""
    request = urllib.request.Request(address, data, method=method)
    # Certificates are the SDKs' business, not ours.
    context = ssl._create_unverified_context() if address.startswith("https:") else None
    with urllib.request.urlopen(request, context=context) as answer:
        return answer.read()


HTTP = Simulator(os.environ["SIMULATOR_URL"])
# For SDKs that know https only.
HTTPS = Simulator(os.environ["SIMULATOR_TLS_URL"])


class Check(unittest.TestCase):
    """One SDK at one provider. Each test's name, without `test_` and with blanks,
    is the name of one of our cases."""

    sdk = ""
    provider = ""
    # What the names of our cases have before the test's.
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
            # Seen at work once, and not waited for.
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
        """Asks until the answer is as it should be in the end."""
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
    """Runs the checks of a file; what was sent goes into the file that is named."""
    into = sys.argv.pop()
    # Deprecation warnings are the SDKs' own business.
    result = unittest.main(verbosity=2, warnings="ignore", exit=False).result
    with open(into, "w") as file:
        json.dump(_recorded, file)
    sys.exit(not result.wasSuccessful())
