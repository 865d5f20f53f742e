#!/usr/bin/env python3
"""Renders songs with known stems, to train and to judge the built-in separator.

Each song of a preset file (see presets.py) is composed by compose.py, rendered to vocals, drums,
bass and other (44.1 kHz stereo, 32-bit float WAV), mastered with gains shared by all stems, and
summed: mix == vocals + drums + bass + other by construction. The same preset gives the same song.

Needs numpy, scipy, soundfile, mido and pyworld; the programs fluidsynth, espeak-ng and (for some
voices) festival's text2wave; and the sound fonts FluidR3_GM and TimGM6mb.

Usage: render.py PRESETS.json OUTDIR [--only NAME] [--jobs N] [--mono]
"""

import argparse
import json
import os
import subprocess
import tempfile
from concurrent.futures import ProcessPoolExecutor

import mido
import numpy as np
import soundfile as sf
from compose import Song
from effects import SR, active_rms, apply_gain, comp_gain, compress, envelope_db, filt, fit, pan, reverb, shelf
from voice import sing

SF2_DIR = os.environ.get("SF2_DIR", "/usr/share/sounds/sf2")
SF2 = {"fluid": "FluidR3_GM.sf2", "tim": "TimGM6mb.sf2"}


def fluid(events, program, font, bank=0, channel=0, gain=0.5, tail=2.0):
    mf = mido.MidiFile(ticks_per_beat=960)
    tr = mido.MidiTrack()
    mf.tracks.append(tr)
    tr.append(mido.MetaMessage("set_tempo", tempo=500000))
    if channel != 9:
        tr.append(mido.Message("control_change", channel=channel, control=0, value=bank))
    tr.append(mido.Message("program_change", channel=channel, program=program))
    msgs = []
    for t, d, n, v in events:
        t = max(0.0, t)
        msgs.append((t, 1, n, int(np.clip(v, 1, 127))))
        msgs.append((t + max(0.03, d), 0, n, 0))
    msgs.sort(key=lambda m: (m[0], m[1]))
    last = 0
    for t, on, n, v in msgs:
        tick = int(round(t * 1920))
        tr.append(
            mido.Message(
                "note_on" if on else "note_off", channel=channel, note=int(n), velocity=v, time=max(0, tick - last)
            )
        )
        last = max(last, tick)
    tr.append(mido.MetaMessage("end_of_track", time=int(tail * 1920)))
    with tempfile.TemporaryDirectory() as d:
        mid, wav = os.path.join(d, "a.mid"), os.path.join(d, "a.wav")
        mf.save(mid)
        subprocess.run(
            [
                "fluidsynth",
                "-ni",
                "-q",
                "-g",
                str(gain),
                "-R",
                "0",
                "-C",
                "0",
                "-r",
                str(SR),
                "-O",
                "float",
                "-F",
                wav,
                os.path.join(SF2_DIR, SF2[font]),
                mid,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        x, _ = sf.read(wav, always_2d=True)
    return x.T.astype(np.float64)


def render_song(spec, seed, words, out):
    song = Song(spec, seed)
    seconds = song.nbars * song.bar + 1.2
    n = int(seconds * SR)
    stems = {}
    # drums
    d = spec["drums"]
    x = fit(fluid(song.drums(), d["kit"], d["font"], channel=9), n)
    x = pan(x, 0, d.get("width", 1.0))
    x = compress(x / (active_rms(x) + 1e-9) * 0.1, -22, d.get("ratio", 2.5), att=0.012, rel=0.12)
    stems["drums"] = reverb(x, song.r("drumrev"), d.get("rt", 0.5), 0.008, d.get("wet", 0.18))
    # bass
    b = spec["bass"]
    x = fit(fluid(song.bassline(), b["program"], b["font"]), n).mean(0)
    x = x / (np.sqrt((x**2).mean()) + 1e-9) * 0.12
    drive = b.get("drive", 1.5)
    x = np.tanh(x * drive) / drive
    x = np.stack([x, x])
    x = compress(filt(x, "high", 32), -22, 3)
    if b.get("chorus"):
        m = int(0.012 * SR)
        s = np.roll(filt(x[0], "high", 250), m) * b["chorus"]
        x = x + np.stack([s, -s])
    stems["bass"] = x
    # other
    o = np.zeros((2, n))
    for tr in spec["other"]:
        takes = 2 if tr.get("double") else 1
        for k in range(takes):
            x = fit(fluid(song.part(tr, k), tr["program"], tr["font"]), n)
            p = tr.get("pan", 0.0) * (1 if k == 0 else -1)
            x = pan(filt(x, "high", tr.get("hp", 110)), p, tr.get("width", 0.7))
            if tr.get("drive"):
                s = active_rms(x)
                x = np.tanh(x / s * tr["drive"]) * s / tr["drive"]
            x = x / (active_rms(x) + 1e-9) * 0.1
            if tr.get("echo"):
                for c in (1, 2, 3):
                    q = int(c * tr["echo"] * song.step * SR)
                    y = np.zeros_like(x)
                    y[:, q:] = x[:, :-q]
                    x = x + (0.45**c) * (y[::-1] if c % 2 else y)
            o += (
                reverb(x, song.r(f"orev{tr['program']}{k}"), tr.get("rt", 1.2), 0.015, tr.get("wet", 0.25))
                * 10 ** (tr.get("db", 0) / 20)
                / np.sqrt(takes)
            )
    stems["other"] = o
    # vocals
    v = spec["voice"]
    mel = song.melody()
    x = sing(song, mel, v, words, 0, seconds)
    lead = compress(x / (active_rms(x) + 1e-9) * 0.1, -24, 3.5, att=0.006, rel=0.1)
    lead = shelf(lead, 4500, v.get("air", 3))
    tot = lead
    scale = [song.key % 12 + s for s in song.scale]
    for k in range(v.get("doubles", 0)):
        y = sing(song, [(t + 0.012 + 0.01 * k, dd, m, nw) for t, dd, m, nw in mel], v, words, k + 1, seconds)
        y = y / (active_rms(y) + 1e-9) * 0.1
        tot = tot + pan(y, (-1) ** k * v.get("double_pan", 0.7), 0) * 10 ** (v.get("double_db", -11) / 20)
    if v.get("harmony"):

        def third(m):
            up = [q for q in range(m + 3, m + 5) if (q % 12) in {s % 12 for s in scale}]
            return up[0] if up else m + 4

        late = [q for q in mel if q[0] > seconds * 0.5]
        if late:
            y = sing(song, late, v, words, 9, seconds, third)
            y = y / (active_rms(y) + 1e-9) * 0.1
            tot = tot + (pan(y, 0.45, 0)) * 10 ** (v["harmony"] / 20)
    if v.get("echo"):
        q = int(v["echo"] * song.beat * SR)
        y = np.zeros_like(tot)
        y[:, q:] = filt(tot[:, :-q], "low", 3500, 1)
        tot = tot + 0.22 * np.stack([y[0], 0.6 * y[1]])
    stems["vocals"] = reverb(tot, song.r("vrev"), v.get("rt", 1.3), 0.03, v.get("wet", 0.22), width=0)
    # balance: each stem to its active RMS, then mastering with gains shared by all stems
    for k in stems:
        stems[k] = stems[k] / (active_rms(stems[k]) + 1e-9) * 0.1 * 10 ** (spec["levels"][k] / 20)
        if spec.get("mono"):
            stems[k] = np.repeat(stems[k].mean(0, keepdims=True), 2, 0)
    ms = spec.get("master", {})
    for k in stems:
        stems[k] = shelf(shelf(stems[k], 120, ms.get("low", 1.0)), 7000, ms.get("high", 1.0))
    mix = sum(stems.values())
    g0 = 0.14 / active_rms(mix)
    for k in stems:
        stems[k] *= g0
    mix = sum(stems.values())
    g = comp_gain(envelope_db(mix), ms.get("thr", -20), ms.get("ratio", 2.0), att=0.02, rel=0.2)
    for k in stems:
        stems[k] = apply_gain(stems[k], g)
    mix = sum(stems.values())
    drive = 10 ** (ms.get("push", 3) / 20)
    pk = np.abs(mix).max(0) * drive
    hop, look = 64, 6
    m = -(-n // hop)
    pk = np.pad(pk, (0, m * hop - n)).reshape(m, hop).max(1)
    pkm = np.array([pk[max(0, i - look) : i + look + 1].max() for i in range(m)])
    lim = np.minimum(1, 0.93 / np.maximum(pkm, 1e-9))
    lim = np.convolve(np.pad(lim, look, "edge"), np.ones(2 * look + 1) / (2 * look + 1), "valid")
    fade = np.minimum(1, np.minimum(np.arange(n) / (0.02 * SR), (n - np.arange(n)) / (0.6 * SR)))
    for k in stems:
        stems[k] = (apply_gain(stems[k] * drive, lim) * fade).astype(np.float32)
    top = np.abs(sum(s.astype(np.float64) for s in stems.values())).max()
    if top > 0.985:
        for k in stems:
            stems[k] = (stems[k] * np.float32(0.985 / top)).astype(np.float32)
    mix = (((stems["vocals"] + stems["drums"]) + stems["bass"]) + stems["other"]).astype(np.float32)
    dst = os.path.join(out, spec["name"])
    os.makedirs(dst, exist_ok=True)
    for k, x in list(stems.items()) + [("mix", mix)]:
        sf.write(os.path.join(dst, k + ".wav"), x.T, SR, subtype="FLOAT")
    e = {
        k: float(10 * np.log10((x.astype(np.float64) ** 2).mean() / (mix.astype(np.float64) ** 2).mean()))
        for k, x in stems.items()
    }
    return {
        "name": spec["name"],
        "seconds": n / SR,
        "bpm": spec["bpm"],
        "style": spec["drums"]["pattern"],
        "level_db_rel_mix": {k: round(q, 2) for k, q in e.items()},
        "peak": float(np.abs(mix).max()),
    }


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("preset")
    ap.add_argument("out")
    ap.add_argument("--only")
    ap.add_argument("--jobs", type=int, default=2)
    ap.add_argument("--mono", action="store_true", help="fold every stem to mono before mastering")
    a = ap.parse_args()
    pre = json.load(open(a.preset))
    os.makedirs(a.out, exist_ok=True)
    songs = [dict(s, mono=True) if a.mono else s for s in pre["songs"] if not a.only or s["name"] == a.only]
    with ProcessPoolExecutor(a.jobs) as ex:
        info = list(
            ex.map(
                render_song,
                songs,
                [pre["seed"]] * len(songs),
                [s.get("words") or pre["words"] for s in songs],
                [a.out] * len(songs),
            )
        )
    json.dump(
        {"preset": pre["set"], "sample_rate": SR, "songs": info}, open(os.path.join(a.out, "index.json"), "w"), indent=1
    )
    for i in info:
        print(i["name"], f"{i['seconds']:.1f}s", i["level_db_rel_mix"], f"peak {i['peak']:.2f}")


if __name__ == "__main__":
    main()
