"""Effects of the song renderer: filters, reverberation, dynamics, panning.

Sounds are arrays of two rows (left, right) at 44.1 kHz.
"""

import numpy as np
from scipy.signal import butter, fftconvolve, sosfilt

SR = 44100


def fit(x, n):
    y = np.zeros((2, n))
    m = min(n, x.shape[1])
    y[:, :m] = x[:, :m]
    return y


def filt(x, kind, fc, order=2):
    return sosfilt(butter(order, fc, kind, fs=SR, output="sos"), x, axis=-1)


def shelf(x, fc, gain_db):
    low = filt(x, "low", fc, 1)
    return x + (10 ** (gain_db / 20) - 1) * low if fc < 1000 else low + (x - low) * 10 ** (gain_db / 20)


def reverb(x, r, rt, pre, wet, bright=6000, width=1.0):
    n = int(SR * (rt * 1.2 + pre) + 1)
    t = np.arange(n) / SR
    ir = r.normal(size=(2, n)) * 10 ** (-3 * np.maximum(t - pre, 0) / rt)
    ir[:, t < pre] = 0
    dark = filt(ir, "low", bright / 3, 1)
    mixw = np.clip((t - pre) / rt, 0, 1)
    ir = filt(ir * (1 - mixw) + dark * mixw, "low", bright, 1)
    for k in range(6):
        p = int((pre * 0.5 + r.uniform(0.004, 0.04)) * SR)
        ir[r.integers(2), p] += r.choice([-1, 1]) * 8 * 0.7**k
    ir = filt(ir, "high", 180, 1)
    ir /= np.sqrt((ir**2).sum() / 2)
    send = x if width > 0.5 else np.repeat(x.mean(0, keepdims=True), 2, 0)
    w = np.stack([fftconvolve(send[c], ir[c])[: x.shape[1]] for c in (0, 1)])
    return x + wet * w


def comp_gain(level_db, thr, ratio, att=0.01, rel=0.15, hop=64):
    over = np.maximum(level_db - thr, 0) * (1 - 1 / ratio)
    a, b = np.exp(-hop / SR / att), np.exp(-hop / SR / rel)
    g, out = 0.0, np.empty_like(over)
    for i, o in enumerate(over):
        c = a if o > g else b
        g = c * g + (1 - c) * o
        out[i] = g
    return 10 ** (-out / 20)


def envelope_db(x, hop=64, win=8):
    p = (x**2).mean(0)
    n = -(-len(p) // hop)
    p = np.pad(p, (0, n * hop - len(p))).reshape(n, hop).mean(1)
    p = np.convolve(p, np.ones(win) / win, "same")
    return 10 * np.log10(p + 1e-12)


def apply_gain(x, g, hop=64):
    full = np.interp(np.arange(x.shape[1]), (np.arange(len(g)) + 0.5) * hop, g)
    return x * full


def compress(x, thr, ratio, **k):
    return apply_gain(x, comp_gain(envelope_db(x), thr, ratio, **k))


def active_rms(x):
    p = envelope_db(filt(x, "high", 60, 1), hop=4410, win=1)
    p = p[p > p.max() - 25]
    return np.sqrt(np.mean(10 ** (p / 10)))


def pan(mono_or_stereo, p, width=1.0):
    x = mono_or_stereo
    m, s = x.mean(0), (x[0] - x[1]) / 2
    th = (p + 1) * np.pi / 4
    return np.stack([np.cos(th) * m * np.sqrt(2) + width * s, np.sin(th) * m * np.sqrt(2) - width * s])
