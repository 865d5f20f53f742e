"""Checks that two readers of Content Credentials find every kind of file valid, and its signer untrusted.

check.py FOLDER takes the folder that the example `sign_files` wrote. The official reader is the library
that signed the files. encypher-c2pa was written from scratch: its list of parts does not name that library.
"""

import json
import os
import pathlib
import sys

# Telemetry is off by default; this makes sure.
os.environ["ENCYPHER_C2PA_TELEMETRY"] = "off"

import c2pa
import encypher_c2pa

KINDS = {
    "mp4": "video/mp4",
    "m4a": "audio/mp4",
    "wav": "audio/wav",
    "flac": "audio/flac",
    "mp3": "audio/mpeg",
    "png": "image/png",
    "jpg": "image/jpeg",
}


def official(file):
    """The validation state, and the codes of failed checks."""
    with open(file, "rb") as opened:
        report = json.loads(c2pa.Reader(KINDS[file.suffix[1:]], opened).json())
    return report["validation_state"], [problem["code"] for problem in report.get("validation_status", [])]


def other(file):
    """The other reader's results for the whole, the signature, the file's bytes and the signer."""
    report = encypher_c2pa.verify(file, mime_type=KINDS[file.suffix[1:]])
    return report["integrity"], report["signature"], report["hard_binding"], report["trust"]["status"]


files = {file.suffix[1:]: file for file in pathlib.Path(sys.argv[1]).iterdir()}
assert files.keys() == KINDS.keys(), f"not these kinds: {sorted(files)}"
for suffix, file in sorted(files.items()):
    # Nobody vouches for a self-made chain.
    assert official(file) == ("Valid", ["signingCredential.untrusted"]), f"{file.name}: {official(file)}"
    result = other(file)
    assert result == ("valid", "valid", "match", "not_valid_for_supplied_material"), f"{file.name}: {result}"
    changed = bytearray(file.read_bytes())
    # A byte of what is shown or played, not of the credentials.
    head = {"mp4": b"mdat", "m4a": b"mdat", "wav": b"data"}.get(suffix)
    position = changed.index(head) + 40 if head else len(changed) - 40
    changed[position] ^= 1
    spoilt = file.with_name(f"changed.{suffix}")
    spoilt.write_bytes(changed)
    assert official(spoilt)[0] == "Invalid", f"{spoilt.name}: {official(spoilt)}"
    result = other(spoilt)
    assert result[:3] == ("invalid", "valid", "mismatch"), f"{spoilt.name}: {result}"
    print(f"{file.name}: both find it valid, and invalid when a byte is changed")
