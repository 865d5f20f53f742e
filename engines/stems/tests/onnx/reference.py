"""How the three families of models are run, from their published parameters, in NumPy.

Written to be compared with, not to be fast: whole arrays, double precision wherever the graph is
not concerned, one function per family. Shares nothing with the Rust code but the parameters.
"""

import numpy as np


def hann(n):
    return 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n)


def stft(sound, n_fft, hop):
    """Centred, edges reflected: [..., samples] to [..., bins, frames]."""
    pad = [(0, 0)] * (sound.ndim - 1) + [(n_fft // 2, n_fft // 2)]
    padded = np.pad(sound, pad, mode="reflect")
    starts = hop * np.arange(1 + sound.shape[-1] // hop)
    frames = padded[..., starts[:, None] + np.arange(n_fft)]
    return np.fft.rfft(frames * hann(n_fft)).swapaxes(-1, -2)


def istft(spectra, n_fft, hop, length):
    frames = np.fft.irfft(spectra.swapaxes(-1, -2), n=n_fft) * hann(n_fft)
    count = frames.shape[-2]
    size = max((count - 1) * hop + n_fft, n_fft // 2 + length)
    out, weight = np.zeros(spectra.shape[:-2] + (size,)), np.full(size, 1e-11)
    for t in range(count):
        out[..., t * hop : t * hop + n_fft] += frames[..., t, :]
        weight[t * hop : t * hop + n_fft] += hann(n_fft) ** 2
    return (out / weight)[..., n_fft // 2 : n_fft // 2 + length]


def planes(spectra):
    """[2, bins, frames] complex to [1, 4, bins, frames]: L re, L im, R re, R im."""
    parts = np.stack([spectra.real, spectra.imag], axis=1)
    return parts.reshape(1, 4, *spectra.shape[1:]).astype(np.float32)


def complexes(tensor):
    """[..., 4, bins, frames] to [..., 2, bins, frames] complex."""
    pairs = tensor.astype(np.float64).reshape(*tensor.shape[:-3], 2, 2, *tensor.shape[-2:])
    return pairs[..., 0, :, :] + 1j * pairs[..., 1, :, :]


def mdx(run, mix, n_fft, hop, dim_f, dim_t, compensate, overlap, denoise=False):
    """`run` is the graph; the stem is [2, samples]."""
    peak = np.abs(mix).max()
    mix = mix * (0.9 / peak)
    chunk, trim = hop * (dim_t - 1), n_fft // 2
    gen = chunk - 2 * trim
    behind = gen + trim - mix.shape[1] % gen
    padded = np.pad(mix, ((0, 0), (trim, behind)))

    def through_graph(part):
        tensor = np.array(planes(stft(part, n_fft, hop)[:, :dim_f]))
        tensor[:, :, :3] = 0
        made = run(tensor)[0]
        if denoise:
            made = (made - run(-tensor)[0]) / 2
        spectra = np.zeros((2, n_fft // 2 + 1, dim_t), complex)
        spectra[:, :dim_f] = complexes(made[0])
        return istft(spectra, n_fft, hop, chunk)

    total = padded.shape[1]
    out, weight = np.zeros_like(padded), np.zeros(total)
    for start in range(0, total, int((1 - overlap) * chunk)):
        end = min(start + chunk, total)
        part = np.pad(padded[:, start:end], ((0, 0), (0, chunk - (end - start))))
        window = np.hanning(end - start) if overlap > 0 else np.ones(end - start)
        out[:, start:end] += through_graph(part)[:, : end - start] * window
        weight[start:end] += window
    with np.errstate(invalid="ignore", divide="ignore"):
        stem = (out / weight)[:, trim : trim + mix.shape[1]]
    return stem * compensate * (peak / 0.9)


def triangle(length):
    rising = np.arange(1, length // 2 + 1)
    falling = np.arange(length - length // 2, 0, -1)
    weight = np.concatenate([rising, falling])
    return weight / weight.max()


def in_segments(segment_to_stems, mix, segment, overlap):
    """Triangular weights; the short last segment stands in the middle of a full one."""
    length = mix.shape[1]
    out, weight = 0, np.zeros(length)
    for offset in range(0, length, int((1 - overlap) * segment)):
        size = min(segment, length - offset)
        start = offset - (segment - size) // 2
        first, last = max(0, start), min(length, start + segment)
        part = np.pad(mix[:, first:last], ((0, 0), (first - start, start + segment - last)))
        stems = segment_to_stems(part)[..., offset - start : offset - start + size]
        if offset == 0:
            out = np.zeros((len(stems), 2, length))
        out[..., offset : offset + size] += stems * triangle(segment)[:size]
        weight[offset : offset + size] += triangle(segment)[:size]
    return out / weight


def htdemucs(run, mix, segment, overlap, outside):
    """`run` takes the waveform, or the waveform and the spectrum; all stems are [S, 2, samples]."""
    n_fft, hop, margin = 4096, 1024, 1536
    frames = -(-segment // hop)

    def through_graph(part):
        waveform = part[None].astype(np.float32)
        if not outside:
            return run(waveform)[0][0]
        behind = margin + frames * hop - segment
        padded = np.pad(part, ((0, 0), (margin, behind)), mode="reflect")
        spectra = stft(padded, n_fft, hop) / np.sqrt(n_fft)
        made, direct = run(waveform, planes(spectra[:, :-1, 2:-2]))
        made = np.pad(complexes(made[0]), ((0, 0), (0, 0), (0, 1), (2, 2)))
        sound = istft(made * np.sqrt(n_fft), n_fft, hop, frames * hop + 2 * margin)
        return sound[..., margin : margin + segment] + direct[0]

    mono = mix.mean(axis=0)
    mean, deviation = mono.mean(), mono.std()
    stems = in_segments(through_graph, (mix - mean) / deviation, segment, overlap)
    return stems * deviation + mean


def openunmix(runs, mix, segment, overlap, wiener, complete, n_fft=4096, hop=1024):
    """`runs` are the stems' graphs; all stems are [S, 2, samples]."""

    def through_graphs(part):
        spectra = stft(part, n_fft, hop)
        magnitudes = np.abs(spectra)[None].astype(np.float32)
        made = np.stack([run(magnitudes)[0][0] for run in runs])
        stems = made * np.exp(1j * np.angle(spectra))
        if wiener:
            blocks = range(0, spectra.shape[-1], 300)
            stems = np.concatenate(
                [refine(spectra[..., t : t + 300], stems[..., t : t + 300], complete) for t in blocks],
                axis=-1,
            )
        return istft(stems, n_fft, hop, part.shape[1])

    return in_segments(through_graphs, mix, segment, overlap)


def refine(mix, stems, complete):
    """One round of the multichannel Wiener filter. Stems that are not complete get a residual."""
    count = len(stems)
    if not complete:
        stems = np.concatenate([stems, (mix - stems.sum(axis=0))[None]])
    powers = (np.abs(stems) ** 2).mean(axis=1)
    spatial = np.einsum("jaft,jbft->jfab", stems, stems.conj())
    trace = np.einsum("jfaa->jf", spatial).real
    scale = np.where(trace > 1e-20, 2 / np.maximum(trace, 1e-20), 0)
    kept = np.where(trace > 1e-20, 0.95, 0.0)[..., None, None]
    spatial = kept * scale[..., None, None] * spatial + (1 - kept) * np.eye(2)
    half = (np.abs(mix) ** 2).sum(axis=0) / 2
    total = np.einsum("jft,jfab->ftab", powers, spatial)
    total = total + (1e-3 * half)[..., None, None] * np.eye(2)
    silent = half < 1e-20
    total[silent] = np.eye(2)
    white = np.einsum("ftab,bft->aft", np.linalg.inv(total), mix)
    refined = np.einsum("jft,jfab,bft->jaft", powers, spatial, white)
    refined = refined + (mix - refined.sum(axis=0)) / len(stems)
    refined[..., silent] = 0
    return refined[:count]
