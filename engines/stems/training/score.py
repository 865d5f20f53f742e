#!/usr/bin/env python3
"""Scores separated songs against the true stems that render.py wrote.

Usage: score.py SONGS STEMS [--two]

SONGS/<song>/<stem>.wav are true, STEMS/<song>/<stem>.wav are estimates, all five of them. The
measure is the signal-to-distortion ratio of the music demixing challenges (Mitsufuji et al. 2022):
10 log10(|s|^2 / |s - e|^2) over both channels of the whole song, in dB. With --two, only the voice
and the instrumental are scored, for songs whose other stems are not known.
"""

import sys
from pathlib import Path

import numpy as np
import soundfile as sf

FOUR = ["vocals", "drums", "bass", "other"]
ALL = FOUR + ["instrumental"]


def read(path):
    sound, _ = sf.read(path, always_2d=True, dtype="float64")
    return sound


def score(true_dir, made_dir, stems):
    """One song's ratios, and how far the sums of its stems are from the mix."""
    mix = read(true_dir / "mix.wav")
    true = {stem: read(true_dir / f"{stem}.wav") for stem in FOUR}
    true["instrumental"] = mix - true["vocals"]
    made = {stem: read(made_dir / f"{stem}.wav") for stem in ALL}
    ratios = [10 * np.log10((true[s] ** 2).sum() / ((true[s] - made[s]) ** 2).sum()) for s in stems]
    four = np.abs(sum(made[s] for s in FOUR) - mix).max()
    two = np.abs(made["vocals"] + made["instrumental"] - mix).max()
    return ratios, max(four, two)


def main():
    stems = ["vocals", "instrumental"] if "--two" in sys.argv else ALL
    true_dir, made_dir = map(Path, sys.argv[1:3])
    songs = sorted(path.parent.name for path in true_dir.glob("*/mix.wav"))
    rows, worst = [], 0.0
    print(f"{'song':16}" + "".join(f"{stem:>14}" for stem in stems))
    for song in songs:
        ratios, off = score(true_dir / song, made_dir / song, stems)
        rows.append(ratios)
        worst = max(worst, off)
        print(f"{song:16}" + "".join(f"{ratio:14.2f}" for ratio in ratios))
    mean = np.mean(rows, axis=0)
    print(f"{'mean':16}" + "".join(f"{ratio:14.2f}" for ratio in mean))
    if stems is ALL:
        print(f"mean of the four {mean[:4].mean():.2f} dB")
    print(f"lowest of all {np.min(rows):.2f} dB, sums within {worst:.1e} of the mix")


if __name__ == "__main__":
    main()
