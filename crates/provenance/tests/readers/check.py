"""The official reader of Content Credentials finds every kind of file valid, and its signer untrusted.

check.py FOLDER: what the example `sign_files` wrote.
"""

import json
import pathlib
import sys

import c2pa

KINDS = {
    "mp4": "video/mp4",
    "m4a": "audio/mp4",
    "wav": "audio/wav",
    "flac": "audio/flac",
    "mp3": "audio/mpeg",
    "png": "image/png",
    "jpg": "image/jpeg",
}

files = {file.suffix[1:]: file for file in pathlib.Path(sys.argv[1]).iterdir()}
assert files.keys() == KINDS.keys(), f"not these kinds: {sorted(files)}"
for suffix, file in sorted(files.items()):
    with open(file, "rb") as opened:
        told = json.loads(c2pa.Reader(KINDS[suffix], opened).json())
    problems = [problem["code"] for problem in told.get("validation_status", [])]
    # Nobody vouches for a self-made chain.
    assert told["validation_state"] == "Valid", f"{file.name}: {told['validation_state']} {problems}"
    assert problems == ["signingCredential.untrusted"], f"{file.name}: {problems}"
    changed = bytearray(file.read_bytes())
    at = changed.index(b"mdat") + 40 if suffix in ("mp4", "m4a") else len(changed) - 40
    changed[at] ^= 1
    spoilt = file.with_name(f"changed.{suffix}")
    spoilt.write_bytes(changed)
    with open(spoilt, "rb") as opened:
        told = json.loads(c2pa.Reader(KINDS[suffix], opened).json())
    assert told["validation_state"] == "Invalid", f"{spoilt.name}: {told['validation_state']}"
    print(f"{file.name}: valid, and invalid when a byte is changed")
