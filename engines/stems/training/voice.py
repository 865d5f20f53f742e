"""Sings a melody with the timbre of a speech synthesiser.

Each word is spoken once by espeak-ng or festival, taken apart by the WORLD vocoder, stretched to
its notes, given the melody's pitch with vibrato, glides and drift, and put together again.
"""

import os
import subprocess
import tempfile

import numpy as np
import pyworld
import soundfile as sf
from effects import SR, filt, fit
from scipy.signal import resample_poly

FPS = 200  # parameter frames a second (5 ms)


def speak(word, voice):
    with tempfile.TemporaryDirectory() as d:
        w = os.path.join(d, "w.wav")
        if voice["engine"] == "espeak":
            subprocess.run(
                [
                    "espeak-ng",
                    "-v",
                    voice["name"],
                    "-s",
                    str(voice.get("speed", 125)),
                    "-p",
                    str(voice.get("tts_pitch", 50)),
                    "-w",
                    w,
                    word,
                ],
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        else:
            subprocess.run(
                [
                    "text2wave",
                    "-o",
                    w,
                    "-eval",
                    "(voice_kal_diphone)",
                    "-eval",
                    "(Parameter.set 'Duration_Stretch 1.35)",
                ],
                input=word.encode(),
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        x, sr = sf.read(w)
    if sr != 22050:
        x = resample_poly(x, 22050, sr)
    return x.astype(np.float64), sr


# The analysis of each word of a voice.
cache = {}


def analyse(word, voice):
    key = (word, voice["engine"], voice["name"])
    if key in cache:
        return cache[key]
    x, sr0 = speak(word, voice)
    x = np.concatenate([np.zeros(400), x, np.zeros(400)])
    f0, t = pyworld.harvest(x, 22050, frame_period=1000 / FPS)
    sp = pyworld.cheaptrick(x, f0, t, 22050, fft_size=1024)
    ap = pyworld.d4c(x, f0, t, 22050, fft_size=1024)
    e = 10 * np.log10(sp.mean(1) + 1e-14)
    on = np.where(e > e.max() - 45)[0]
    a, b = max(0, on[0] - 1), min(len(e), on[-1] + 2)
    f0, sp, ap, e = f0[a:b], sp[a:b], ap[a:b], e[a:b]
    # extend the band above the source's reach with a falling noise-like slope
    top = int((min(sr0 / 2 - 1000, 9200)) / 22050 * 1024)
    ref = sp[:, top - 60 : top].mean(1, keepdims=True)
    f = np.arange(1025) / 2048 * 44100.0
    slope = np.where(f0 > 0, 2.6, 1.2)[:, None]
    full = np.empty((len(f0), 1025))
    apf = np.ones((len(f0), 1025))
    full[:, :513] = sp
    apf[:, :513] = ap
    full[:, top:] = ref * (f[None, top:] / f[top]) ** -(2 * slope)
    apf[:, top:] = np.maximum(apf[:, top - 1 : top], 0.8)
    v = f0 > 0
    runs, i = [], 0
    while i < len(v):
        if v[i]:
            j = i
            while j < len(v) and v[j]:
                j += 1
            runs.append((e[i:j].sum() - (e.min() - 1) * (j - i), i, j))
            i = j
        else:
            i += 1
    _, i, j = max(runs) if runs else (0, 0, len(v))
    loud = e[i:j] > e[i:j].max() - 9
    k = np.where(loud)[0]
    c0 = i + k[0] + int(0.25 * (k[-1] - k[0]))
    c1 = i + k[0] + int(0.7 * (k[-1] - k[0])) + 2
    cache[key] = (v, full, apf, c0, min(c1, len(v) - 1))
    return cache[key]


def warp_formants(sp, alpha):
    if abs(alpha - 1) < 1e-3:
        return sp
    idx = np.clip(np.arange(1025) / alpha, 0, 1024)
    i = idx.astype(int)
    fr = idx - i
    j = np.minimum(i + 1, 1024)
    logs = np.log(sp + 1e-16)
    return np.exp(logs[:, i] * (1 - fr) + logs[:, j] * fr)


def sing(song, melody, voice, words, take, seconds, shift=None):
    r = song.r(f"voice{take}")
    n = int(seconds * FPS) + FPS
    F0, V = np.zeros(n), np.zeros(n)
    SP, AP = np.full((n, 1025), 1e-12), np.ones((n, 1025))
    # group notes into syllables (melisma joins a note to the one before)
    syl = []
    for t, d, m, new in melody:
        if syl and not new and abs(syl[-1][-1][0] + syl[-1][-1][1] - t) < 0.12:
            syl[-1].append((t, d, m))
        else:
            syl.append([(t, d, m)])
    target = np.full(n, np.nan)
    wi = 0
    for notes in syl:
        t0, t1 = notes[0][0], notes[-1][0] + notes[-1][1]
        word = words[wi % len(words)]
        wi += 1
        v, sp, ap, c0, c1 = analyse(word, voice)
        L = int((t1 - t0) * FPS)
        pre, post = c0, len(v) - c1
        budget = max(6, int(0.62 * L) + min(pre, 16))
        k = min(1.0, budget / max(1, pre + post))
        pre_n, post_n = max(2, int(pre * k)), max(2, int(post * k))
        lead = min(pre_n, int(0.075 * FPS))  # consonant sits before the beat
        body = max(3, L + lead - pre_n - post_n)
        idx = np.concatenate(
            [
                np.linspace(0, c0, pre_n, endpoint=False),
                np.linspace(c0, c1, body, endpoint=False),
                np.linspace(c1, len(v) - 1, post_n),
            ]
        )
        a = int(t0 * FPS) - lead
        if a < 0:
            idx = idx[-a:]
            a = 0
        b = min(n, a + len(idx))
        idx = idx[: b - a]
        i = idx.astype(int)
        fr = (idx - i)[:, None]
        j = np.minimum(i + 1, len(v) - 1)
        S = np.exp(np.log(sp[i] + 1e-16) * (1 - fr) + np.log(sp[j] + 1e-16) * fr)
        gain = 10 ** ((r.normal(0, 1.2) + (1.5 if (t1 - t0) > 0.6 else 0)) / 10)
        env = np.ones(b - a)
        q = min(6, len(env) // 3)
        if q:
            env[-q:] = np.linspace(1, 0.15, q)
        S = S * gain * env[:, None]
        Aq = ap[i] * (1 - fr) + ap[j] * fr
        louder = S.sum(1) > SP[a:b].sum(1)
        SP[a:b] = np.where(louder[:, None], S, SP[a:b])
        AP[a:b] = np.where(louder[:, None], Aq, AP[a:b])
        V[a:b] = np.where(louder, v[i], V[a:b])
        for nt, nd, m in notes:
            m2 = m if shift is None else shift(m)
            p0, p1 = int(nt * FPS) - (lead if nt == t0 else 0), int((nt + nd) * FPS) + post_n
            p0, p1 = max(0, p0), min(n, p1)
            target[p0:p1] = m2
            if nt == t0 and r.random() < voice.get("scoop", 0.3):
                q = min(p1 - p0, int(0.14 * FPS))
                target[p0 : p0 + q] -= 1.6 * np.linspace(1, 0, q) ** 1.5
            if nd > 0.34:  # vibrato grows after a delay
                tt = np.arange(p1 - p0) / FPS
                depth = voice.get("vib_cents", 45) / 100 * np.clip((tt - 0.18) / 0.3, 0, 1) * r.uniform(0.7, 1.2)
                target[p0:p1] += depth * np.sin(
                    2 * np.pi * (voice.get("vib_hz", 5.5) + r.normal(0, 0.15)) * tt + r.uniform(0, 6.28)
                )
    ok = ~np.isnan(target)
    if not ok.any():
        return np.zeros((2, int(seconds * SR)))
    target = np.interp(np.arange(n), np.where(ok)[0], target[ok])
    ker = np.hanning(2 * int(voice.get("glide", 0.05) * FPS) + 3)
    ker /= ker.sum()
    target = np.convolve(np.pad(target, len(ker), "edge"), ker, "same")[len(ker) : -len(ker)]
    drift = np.convolve(r.normal(size=n + 80), np.hanning(80) / np.sqrt((np.hanning(80) ** 2).sum()), "valid")[:n]
    target = target + 0.10 * drift + r.normal(0, 0.02, n)
    F0 = np.where(V > 0.5, 440 * 2 ** ((target - 69) / 12), 0.0)
    SP = warp_formants(SP, voice.get("formant", 1.0))
    AP = np.clip(AP + voice.get("breath", 0.03), 0, 1)
    y = pyworld.synthesize(F0, np.ascontiguousarray(SP), np.ascontiguousarray(AP), SR, frame_period=1000 / FPS)
    y = filt(y, "high", 85)
    y = np.stack([y, y])
    return fit(y, int(seconds * SR))
