#!/usr/bin/env python3
"""Draws presets for render.py: random songs of many kits, instruments, voices and mixes.

Usage: presets.py SEED COUNT OUT.json [--seconds 14]
"""

import argparse
import json
import random

from compose import BASS, DRUMS

VARIANTS = (
    "f1 f2 f3 f4 f5 m1 m2 m3 m4 m5 m6 m7 m8 Annie Andy Alicia linda steph belinda Alex Andrea Denis Gene Hugo "
    "Jacky Lee Marco Mario Michael Mike adam anika antonio aunty benjamin boris david ed edward gustave iven john "
    "max miguel paul pedro quincy rob robert sandro shelby steph2 travis victor zac"
).split()
LANGUAGES = ["en-us"] * 8 + "en-gb en-gb-scotland de it es fr-fr pt-br sv nl pl fi id".split()
WORDS = (
    "day night run over water hold me slow dream fly gold sun wait here never know away tell moon dance feel world "
    "sing ever lost found hope cloud mountain paper city tomorrow fire paint shadow kiss leave stand spring seven "
    "tender chase river morning silver under always nothing winter heart blue road again only baby little yesterday "
    "free rain falling light inside stay remember alone together touch believe summer wild ocean turn back home "
    "lovely"
).split()
CHORDS = [
    [0, 4, 5, 3],
    [0, 5, 3, 4],
    [0, 3, 0, 4],
    [0, 5, 1, 4],
    [0, 2, 5, 4],
    [0, 0, 3, 3],
    [0, 3, 4, 0],
    [5, 3, 0, 4],
    [0, 6, 5, 6],
    [0, 0, 5, 6],
    [1, 4, 0, 0],
    [0, 3, 5, 4],
    [0, 1, 3, 4],
]
# General MIDI programs that can play each role.
POOL = {
    "comp": list(range(0, 9)) + [11, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 27, 28, 61, 62],
    "pad": [16, 18, 19, 20, 42, 44, 48, 49, 50, 51, 52, 54, 60, 61, 63] + list(range(88, 97)),
    "strum": [24, 25, 26, 27, 28, 15, 106],
    "arp": [0, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 27, 45, 46, 80, 81, 84, 98, 104, 108],
    "skank": [0, 4, 7, 16, 17, 18, 26, 27, 28, 61, 62, 80],
    "power": [29, 30],
    "riff": [7, 22, 26, 27, 28, 29, 30, 56, 57, 61, 62, 63, 65, 66, 80, 81, 84, 85, 87, 105, 107, 110],
    "counter": [40, 41, 42, 56, 57, 58, 59, 60, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 77, 79, 82, 109, 111],
}
KITS = [0, 0, 8, 16, 24, 25, 32, 40]


def instrument(r, k, role, narrow):
    tr = dict(
        role=role,
        program=r.choice(POOL[role]),
        font=r.choice(["fluid", "tim"]),
        centre=r.randint(55, 71),
        pan=round(r.uniform(-0.15, 0.15) if narrow else r.choice([-1, 1]) * r.uniform(0, 0.85), 2),
        width=round(r.uniform(0.05, 0.25) if narrow else r.uniform(0.4, 1), 2),
        db=0 if k == 0 else round(r.uniform(-6, 0), 1),
        wet=round(r.uniform(0.03, 0.38), 2),
        rt=round(r.uniform(0.4, 2.4), 2),
        hp=r.randint(70, 150),
    )
    if role in ("strum", "power") and r.random() < 0.6 and not narrow:
        tr.update(double=True, pan=round(r.uniform(0.5, 0.95), 2))
    if role in ("arp", "riff") and r.random() < 0.4:
        tr["echo"] = r.choice([2, 3, 4])
    if r.random() < 0.12:
        tr["drive"] = round(r.uniform(0.5, 2.5), 1)
    return tr


def singer(r):
    lo = r.randint(45, 62)
    v = dict(
        engine="espeak",
        name=r.choice(LANGUAGES) + "+" + r.choice(VARIANTS),
        range=[lo, lo + r.randint(12, 18)],
        vib_cents=r.randint(10, 70),
        vib_hz=round(r.uniform(4.8, 6.5), 2),
        formant=round(r.uniform(0.9, 1.14), 3),
        wet=round(r.uniform(0.04, 0.36), 2),
        rt=round(r.uniform(0.5, 2.2), 2),
        enter=r.choice([0, 1, 1, 2]),
        breath=round(r.uniform(0.01, 0.15), 3),
        scoop=round(r.uniform(0, 0.6), 2),
        air=round(r.uniform(1, 5), 1),
        glide=round(r.uniform(0.03, 0.08), 3),
        speed=r.randint(105, 145),
    )
    if r.random() < 0.22:
        v.update(engine="festival", name="kal")
    if r.random() < 0.35:
        v.update(doubles=r.choice([1, 2, 2]), double_db=-round(r.uniform(8, 14), 1))
    if r.random() < 0.2:
        v["harmony"] = -round(r.uniform(6, 12), 1)
    if r.random() < 0.25:
        v["echo"] = r.choice([0.5, 0.75, 1])
    return v


def song(r, i, seconds):
    pattern = r.choice(list(DRUMS))
    roles = [
        r.choice(["comp", "strum", "power", "skank", "arp"]),
        r.choice(["pad", "comp", "arp", "skank"]),
        r.choice(["riff", "counter", "counter", "pad", "arp"]),
    ][: r.choice([2, 3, 3])]
    narrow = r.random() < 0.2
    return dict(
        name=f"r{i:03d}_{pattern}",
        bpm=r.randint(72, 160),
        key=r.randint(48, 59),
        scale=r.choice(["major", "minor", "dorian", "mixo"]),
        chords=r.choice(CHORDS),
        sevenths=r.random() < 0.35,
        seconds=seconds,
        swing=round(r.choice([0, 0, 0.05, 0.15]), 2),
        drums=dict(
            pattern=pattern,
            chorus=r.choice(list(DRUMS)),
            kit=r.choice(KITS),
            font=r.choice(["fluid", "fluid", "tim"]),
            wet=round(r.uniform(0.03, 0.32), 2),
            rt=round(r.uniform(0.3, 1), 2),
            ratio=round(r.uniform(1.5, 4), 1),
            width=round(r.uniform(0.2, 1), 2),
        ),
        bass=dict(
            program=r.choice(list(range(32, 40))),
            font=r.choice(["fluid", "tim"]),
            pattern=r.choice(list(BASS)),
            drive=round(r.uniform(1, 4), 1),
            **({"chorus": round(r.uniform(0.1, 0.4), 2)} if r.random() < 0.15 else {}),
        ),
        other=[instrument(r, k, role, narrow) for k, role in enumerate(roles)],
        voice=singer(r),
        levels=dict(
            vocals=round(r.uniform(-3, 2.5), 1),
            drums=round(r.uniform(-3, 2.5), 1),
            bass=round(r.uniform(-3.5, 2), 1),
            other=round(r.uniform(-2.5, 2), 1),
        ),
        master=dict(
            push=round(r.uniform(0, 6), 1),
            ratio=round(r.uniform(1.3, 3), 1),
            low=round(r.uniform(0, 2), 1),
            high=round(r.uniform(0, 2), 1),
        ),
    )


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("seed", type=int)
    ap.add_argument("count", type=int)
    ap.add_argument("out")
    ap.add_argument("--seconds", type=float, default=14)
    a = ap.parse_args()
    r = random.Random(a.seed)
    with open(a.out, "w") as f:
        json.dump(
            {
                "set": f"random{a.seed}",
                "seed": a.seed,
                "words": WORDS,
                "songs": [song(r, i, a.seconds) for i in range(a.count)],
            },
            f,
            indent=1,
        )


if __name__ == "__main__":
    main()
