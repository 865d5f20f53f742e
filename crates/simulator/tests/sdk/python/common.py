"""What all SDKs are run with: the simulator, the same input, and a record of
what they send."""

import atexit
import json
import os
import sys
import time
import unittest
import urllib.request

URL = os.environ["SIMULATOR_URL"]
KEY = "sk-check"
PROMPT = "a lighthouse in a storm"
# The same as our adapters are given; not a real picture.
PICTURE = b"\x89PNG\r\n\x1a\n"

_recorded = {}


class Simulator:
    """A simulator, through its own API."""

    def __init__(self, url):
        self.url = url

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/_/{path}", data=data, method=method)
        with urllib.request.urlopen(request) as answer:
            content = answer.read()
        return json.loads(content) if content else None

    def begin(self):
        """Back to the beginning, so that ids are the same for everyone."""
        self._call("POST", "reset")
        # Long enough to be seen at work, short enough not to be waited for.
        self._call("POST", "plan", {"queued": 0, "running": 150})

    def journal(self, provider):
        # Where it listens is no part of what is compared.
        journal = self._call("GET", f"journal?provider={provider}")
        return json.loads(json.dumps(journal).replace(self.url, "SIMULATOR"))


class Check(unittest.TestCase):
    """One SDK at one provider."""

    provider = ""
    simulator = Simulator(URL)

    @property
    def base(self):
        return f"{self.simulator.url}/{self.provider}"

    def setUp(self):
        self.simulator.begin()

    def tearDown(self):
        # What a failed test sent is not worth comparing.
        if self._outcome.success:
            _recorded[self.id().removeprefix("__main__.")] = self.simulator.journal(self.provider)

    def wait(self, poll, done):
        """Asks until the answer is as it should be in the end."""
        for _ in range(100):
            answer = poll()
            if done(answer):
                return answer
            time.sleep(0.1)
        self.fail(f"it does not end: {answer}")

    def assert_video(self, content):
        self.assertEqual(content[4:8], b"ftyp")

    def fetch(self, address):
        """A result, as SDKs leave it to their users to fetch."""
        with urllib.request.urlopen(address) as answer:
            return answer.read()


def main():
    """Runs the checks of a file; what was sent goes into the file that is named."""
    into = sys.argv.pop()
    atexit.register(lambda: open(into, "w").write(json.dumps(_recorded)))
    # Deprecation warnings are the SDKs' own business.
    unittest.main(verbosity=2, warnings="ignore")
