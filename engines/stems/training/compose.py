"""Composes songs from a preset: drum grids, bass lines, chords, parts and a melody, as lists of notes.

Everything is drawn from random numbers seeded by the preset, so that a preset always gives the same song.
"""

import hashlib

import numpy as np

SCALES = {
    "major": [0, 2, 4, 5, 7, 9, 11],
    "minor": [0, 2, 3, 5, 7, 8, 10],
    "dorian": [0, 2, 3, 5, 7, 9, 10],
    "mixo": [0, 2, 4, 5, 7, 9, 10],
}

# ----------------------------------------------------------------- drum grids
# 16 steps a bar, by General MIDI drum note: X strong, x medium, o soft and sometimes left out.
# The letters of FILLS are drums: S snare, T high tom, F floor tom.
DRUMS = {
    "rock": {36: "X.....X.X.......", 38: "....X.......X...", 42: "x.x.x.x.x.x.x.x."},
    "drive": {36: "X..X..X.X..X....", 38: "....X.......X..o", 46: "x...x...x...x...", 42: "..x...x...x...x."},
    "ballad": {36: "X.........X.....", 37: "........X.......", 42: "x...o...x...o..."},
    "funk": {36: "X..X....o.X..X..", 38: "....X..o.o..X..o", 42: "xoxoxoxoxoxoxoxo", 46: "..............x."},
    "edm": {36: "X...X...X...X...", 39: "....X.......X...", 46: "..x...x...x...x.", 42: "ooooooooooooooox"},
    "hiphop": {36: "X.....X..X......", 38: "....X.......X...", 42: "x.x.x.xox.x.xoxo"},
    "bossa": {36: "X..xX..xX..xX..x", 37: "X..X..X...X..X..", 42: "xoxoxoxoxoxoxoxo"},
    "folk": {36: "X.......X.......", 38: "....o.......o...", 70: "x.o.x.o.x.o.x.o."},
    "reggae": {36: "........X.......", 37: "........X.......", 42: "x.x.x.xxx.x.x.x.", 38: "...............o"},
    "disco": {36: "X...X...X...X...", 38: "....X.......X...", 46: "..X...X...X...X.", 42: "xx.xxx.xxx.xxx.x"},
    "swing": {36: "X.....o...o.....", 51: "X...X..xX...X..x", 44: "....X.......X...", 38: "..o....o......o."},
    "half": {36: "X.........X.....", 38: "........X.......", 42: "x.x.x.x.x.x.x.x.", 51: "x...x...x...x..."},
}
FILLS = ["S.S.SSSS", "SSTTTFFF", "S.ST.TF.", "..S.S.SS"]
BASS = {
    "root8": [(i, 2, 0) for i in range(0, 16, 2)],
    "roots": [(0, 6, 0), (6, 2, 0), (8, 6, 0), (14, 2, 7)],
    "octave": [(0, 2, 0), (2, 2, 12), (4, 2, 0), (6, 2, 12), (8, 2, 0), (10, 2, 12), (12, 2, 0), (14, 2, 12)],
    "funk": [(0, 2, 0), (3, 1, 0), (5, 1, 12), (7, 2, 10), (10, 2, 0), (13, 1, 7), (14, 2, 12)],
    "long": [(0, 12, 0), (12, 4, 7)],
    "walk": [(0, 4, 0), (4, 4, 4), (8, 4, 7), (12, 4, 9)],
    "offb": [(2, 2, 0), (6, 2, 0), (10, 2, 0), (14, 2, 0)],
    "bossa": [(0, 5, 0), (6, 2, 7), (8, 5, 7), (14, 2, 0)],
    "dub": [(0, 3, 0), (4, 2, 0), (8, 3, 7), (12, 2, 3)],
}
RHYTHMS = [  # melody: (start step, length) inside a bar
    [(0, 4), (4, 2), (6, 2), (8, 6)],
    [(0, 2), (2, 2), (4, 4), (8, 2), (10, 4)],
    [(0, 6), (6, 2), (8, 4), (12, 4)],
    [(2, 2), (4, 2), (6, 4), (10, 6)],
    [(0, 3), (3, 3), (6, 4), (10, 2), (12, 4)],
    [(0, 8), (8, 6)],
    [(4, 2), (6, 2), (8, 2), (10, 6)],
    [(0, 4), (4, 4), (8, 8)],
]


def rng_for(*keys):
    h = hashlib.sha256("|".join(map(str, keys)).encode()).digest()
    return np.random.default_rng(np.frombuffer(h[:16], dtype=np.uint32))


# -------------------------------------------------------------------- composer
class Song:
    def __init__(self, spec, seed):
        self.s, self.seed = spec, seed
        self.beat = 60.0 / spec["bpm"]
        self.step = self.beat / 4
        self.bar = self.beat * 4
        self.nbars = max(8, int(round(spec["seconds"] / self.bar)))
        self.scale = SCALES[spec["scale"]]
        self.key = spec["key"]
        self.swing = spec.get("swing", 0.0)

    def r(self, tag):
        return rng_for(self.seed, self.s["name"], tag)

    def t(self, bar, step):
        off = self.swing * self.step if int(step) % 2 else 0.0
        return bar * self.bar + step * self.step + off

    def degree(self, d, octave=0):
        return self.key + 12 * (octave + d // 7) + self.scale[d % 7]

    def chord(self, bar):
        d = self.s["chords"][bar % len(self.s["chords"])]
        size = 4 if self.s.get("sevenths") else 3
        return d, [self.degree(d + 2 * k) for k in range(size)]

    def drums(self):
        r, ev = self.r("drums"), []
        pat = DRUMS[self.s["drums"]["pattern"]]
        alt = DRUMS[self.s["drums"].get("chorus", self.s["drums"]["pattern"])]
        start = self.s["drums"].get("enter", 0)
        for b in range(start, self.nbars):
            p = alt if (b // 4) % 2 else pat
            fill = b % 4 == 3 and r.random() < 0.6
            for note, row in p.items():
                for i, c in enumerate(row):
                    if c == "." or (fill and i >= 8 and note not in (36,)):
                        continue
                    if c == "o" and r.random() < 0.25:
                        continue
                    vel = {"X": 112, "x": 86, "o": 52}[c] + r.normal(0, 7)
                    ev.append((self.t(b, i) + r.normal(0, 0.004), 0.12, note, vel))
            if fill:
                for i, c in enumerate(FILLS[r.integers(len(FILLS))]):
                    n = {"S": 38, "T": 48, "F": 43}.get(c)
                    if n:
                        ev.append((self.t(b, 8 + i) + r.normal(0, 0.005), 0.15, n, 88 + 3 * i + r.normal(0, 6)))
            if b % 8 == start % 8 and b > 0 or (b == start and start > 0):
                ev.append((self.t(b, 0), 1.0, 49, 98))
        return ev

    def bassline(self):
        r, ev = self.r("bass"), []
        pat = BASS[self.s["bass"]["pattern"]]
        for b in range(self.s["bass"].get("enter", 0), self.nbars):
            d, ch = self.chord(b)
            root = 28 + (ch[0] - 28) % 12
            for st, ln, iv in pat:
                if r.random() < 0.08:
                    continue
                n = root + iv
                if iv in (3, 4):
                    n = root + (ch[1] - ch[0])
                if r.random() < 0.07:
                    n += int(r.choice([-2, 2, 12, 7]))
                ev.append(
                    (
                        self.t(b, st) + r.normal(0, 0.005),
                        ln * self.step * r.uniform(0.75, 0.97),
                        int(np.clip(n, 28, 55)),
                        92 + r.normal(0, 8),
                    )
                )
        return ev

    def voicing(self, ch, centre):
        out = []
        for n in ch:
            n = n % 12
            k = round((centre - n) / 12)
            out.append(n + 12 * k)
        return sorted(out)

    def part(self, tr, take=0):
        r, ev = self.r(f"{tr['role']}{tr['program']}{take}"), []
        centre, role = tr.get("centre", 60), tr["role"]
        for b in range(tr.get("enter", 0), self.nbars):
            d, ch = self.chord(b)
            v = self.voicing(ch, centre)

            def hum(s=0.007):
                return r.normal(0, s)

            def vel(m):
                return m + r.normal(0, 8)

            if role == "pad":
                for n in v:
                    ev.append((self.t(b, 0) + hum(), self.bar * 0.98, n, vel(72)))
            elif role == "comp":
                for st, ln in [
                    [(0, 6), (6, 4), (10, 6)],
                    [(0, 4), (4, 4), (8, 4), (12, 4)],
                    [(2, 2), (6, 2), (10, 2), (14, 2)],
                ][(b // 4) % 3 if tr.get("vary", 1) else 1]:
                    for n in v:
                        ev.append((self.t(b, st) + hum(), ln * self.step * 0.9, n, vel(78)))
            elif role == "strum":
                for i, st in enumerate([0, 3, 4, 6, 8, 11, 12, 14]):
                    if r.random() < 0.12:
                        continue
                    notes = v + [v[0] + 12] + ([v[1] + 12] if len(v) > 1 else [])
                    if i % 2:
                        notes = notes[::-1]
                    for k, n in enumerate(notes):
                        ev.append(
                            (self.t(b, st) + 0.011 * k + hum(), 2.2 * self.step, n, vel(84 if i in (0, 4) else 68))
                        )
            elif role == "arp":
                seq = v + [v[0] + 12] + v[::-1]
                for i in range(0, 16, tr.get("every", 2)):
                    n = seq[(i // tr.get("every", 2) + r.integers(2)) % len(seq)]
                    ev.append((self.t(b, i) + hum(), tr.get("every", 2) * self.step * 1.3, n, vel(76)))
            elif role == "skank":
                for st in (2, 6, 10, 14):
                    for n in v:
                        ev.append((self.t(b, st) + hum(), 0.8 * self.step, n, vel(88)))
            elif role == "power":
                root = 40 + (ch[0] - 40) % 12
                for st in range(0, 16, 2):
                    for n in (root, root + 7, root + 12):
                        ev.append((self.t(b, st) + hum(0.005), 1.9 * self.step, n, vel(88)))
            elif role == "riff":
                rr = rng_for(self.seed, self.s["name"], "riff", tr["program"], b % 2)
                for st in sorted(rr.choice(16, 6, replace=False)):
                    n = v[rr.integers(len(v))] + 12 * int(rr.integers(2))
                    ev.append((self.t(b, int(st)) + hum(), 2 * self.step, n, vel(80)))
            elif role == "counter":
                if b % 2 == 1:
                    for st in (4, 8, 12):
                        ev.append((self.t(b, st) + hum(0.012), 4 * self.step, v[r.integers(len(v))] + 12, vel(76)))
        return ev

    def melody(self):
        """[(t, dur, midi, newsyllable)] phrases of two bars with breaths."""
        r, out = self.r("melody"), []
        lo, hi = self.s["voice"]["range"]
        cur = (lo + hi) // 2
        b = self.s["voice"].get("enter", 2)
        pent = {self.scale[i] for i in ([0, 1, 2, 4, 5] if self.s["scale"] in ("major", "mixo") else [0, 2, 3, 4, 6])}
        pool = [n for n in range(lo, hi + 1) if (n - self.key) % 12 in {self.scale[i] for i in range(7)}]
        while b + 1 < self.nbars:
            if (b - self.s["voice"].get("enter", 2)) % 8 >= 6 and self.s["voice"].get("gaps", True):
                b += 2
                continue
            for half in (0, 1):
                rh = RHYTHMS[r.integers(len(RHYTHMS))]
                if half:
                    rh = rh[: max(2, len(rh) - r.integers(0, 2))]
                d, ch = self.chord(b + half)
                pcs = {c % 12 for c in ch}
                for st, ln in rh:
                    cand = [n for n in pool if abs(n - cur) <= 7]
                    w = np.array(
                        [
                            np.exp(-abs(n - cur) / 2.2)
                            * (3 if n % 12 in pcs and st % 4 == 0 else 1)
                            * (1.6 if (n - self.key) % 12 in pent else 0.6)
                            * (0.5 if n == cur else 1)
                            * np.exp(-(((n - (lo + hi) / 2) / 6) ** 2))
                            for n in cand
                        ]
                    )
                    cur = int(r.choice(cand, p=w / w.sum()))
                    out.append(
                        [self.t(b + half, st) + r.normal(0, 0.012), ln * self.step * 0.97, cur, r.random() > 0.12]
                    )
            b += 2
        return out
