#!/usr/bin/env python3
"""Fills a folder with what the ONNX tests need: small graphs of each family with their manifests, a
mix, and what the reference makes of it. Prints where the runtime's library is.

    make.py FOLDER          all of it
    make.py --unet FILE     one convolutional graph with an MDX-Net's sizes, for the bench
    make.py --time FILE N   runs that graph N times on one thread; prints CPU and wall seconds instead
"""

import pathlib
import sys
import time

import numpy as np
import onnx
import onnxruntime
import reference
from onnx import TensorProto, helper, numpy_helper

RATE = 44100


def main():
    library = next(pathlib.Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so*"))
    if sys.argv[1] == "--unet":
        unet(pathlib.Path(sys.argv[2]))
    elif sys.argv[1] == "--time":
        return time_runs(pathlib.Path(sys.argv[2]), int(sys.argv[3]))
    else:
        folder = pathlib.Path(sys.argv[1])
        folder.mkdir(parents=True)
        mdx_models(folder)
        htdemucs_models(folder)
        openunmix_models(folder)
        bad_graphs(folder)
    print(library)


# --- Graphs -------------------------------------------------------------------


def save(path, inputs, outputs, nodes, constants=(), kind=TensorProto.FLOAT):
    """Ports are (name, shape). A dimension that is text is dynamic."""

    def port(name_shape):
        return helper.make_tensor_value_info(name_shape[0], kind, name_shape[1])

    graph = helper.make_graph(
        [helper.make_node(op, list(takes), list(gives), **more) for op, takes, gives, more in nodes],
        "test",
        [port(p) for p in inputs],
        [port(p) for p in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())


def number(x):
    return np.float32(x)


def runner(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(*tensors):
        # A graph's inputs may come in any order; ranks tell them apart.
        by_rank = {tensor.ndim: np.ascontiguousarray(tensor, np.float32) for tensor in tensors}
        given = {port.name: by_rank[len(port.shape)] for port in session.get_inputs()}
        made = session.run(None, given)
        return sorted(made, key=lambda tensor: -tensor.ndim)

    return run


def noise(seconds, seed):
    """Bursts of coloured noise and tones, different left and right."""
    random, n = np.random.default_rng(seed), int(seconds * RATE)
    t = np.arange(n) / RATE
    hiss = np.cumsum(random.normal(size=(2, n)), axis=1)
    hiss -= np.stack([np.convolve(side, np.ones(500) / 500, "same") for side in hiss])
    tones = [np.sin(2 * np.pi * hz * t) * (1 + np.sin(3 * t)) for hz in (110, 523)]
    mix = hiss / np.abs(hiss).max() + 0.2 * np.stack(tones) + 0.02
    return (0.6 * mix / np.abs(mix).max()).astype(np.float32)


def put(folder, name, **sounds):
    for key, sound in sounds.items():
        (folder / f"{name}.{key}.f32").write_bytes(np.ascontiguousarray(sound, "<f4").tobytes())


# --- MDX-Net ------------------------------------------------------------------


def mdx_models(folder):
    published = dict(n_fft=7680, hop=1024, dim_f=3072, dim_t=256)
    small = dict(n_fft=1200, hop=160, dim_f=500, dim_t=24)
    half = [("Mul", ("input", "c"), ("output",), {})], [("c", number(0.5))]
    # Swaps left and right: planes 2, 3, 0, 1.
    swap = [("Gather", ("input", "c"), ("output",), {"axis": 1})], [("c", np.array([2, 3, 0, 1]))]
    # The result depends on where frames start, so every mistake in the chunks' positions shows.
    relu = [("Relu", ("input",), ("output",), {})], []
    bias = [("Add", ("input", "c"), ("output",), {})], [("c", number(0.25))]
    for name, (nodes, constants), size, stem, more in [
        ("mdx-identity", ([("Identity", ("input",), ("output",), {})], []), published, "vocals", {}),
        ("mdx-half", half, small, "Instrumental", {"compensate": 1.043}),
        ("mdx-swap", swap, small, "drums", {"overlap": 0.0}),
        ("mdx-relu", relu, small, "vocals", {"overlap": 0.6}),
        ("mdx-bias", bias, small, "vocals", {"denoise": True}),
    ]:
        shape = [1, 4, size["dim_f"], size["dim_t"]]
        path = folder / f"{name}.onnx"
        save(path, [("input", shape)], [("output", shape)], nodes, constants)
        settings = {**size, **more}
        manifest(folder, name, "mdx", [stem], settings)
        mix = noise(14.3 if size is published else 1.17, len(name))
        full = {"compensate": 1.0, "overlap": 0.25, **settings}
        put(folder, name, mix=mix, **{stem.lower(): reference.mdx(runner(path), mix, **full)})


def manifest(folder, name, kind, stems, settings):
    def as_text(value):
        return str(value).lower() if isinstance(value, bool) else repr(value)

    lines = [f'name = "{name}"', f'kind = "{kind}"', f'file = "{name}.onnx"']
    lines += [f"stems = {stems}".replace("'", '"'), f"[{kind}]"]
    lines += [f"{key} = {as_text(value)}".replace("'", '"') for key, value in settings.items()]
    (folder / f"{name}.toml").write_text("\n".join(lines) + "\n")


# --- HT-Demucs ----------------------------------------------------------------


def htdemucs_models(folder):
    four = ["drums", "bass", "other", "vocals"]
    six = [*four, "guitar", "piano"]
    for name, stems, segment, seconds, outside in [
        ("ht-inside", four, 20000, 1.7, False),
        ("ht-outside", six, 20000, 1.7, True),
        ("ht-published", four, 343980, 12.0, True),
        ("ht-short", four, 20000, 0.2, True),
    ]:
        path, count = folder / f"{name}.onnx", len(stems)
        shares = (np.arange(count, dtype=np.float32) + 1) / 10
        frames = -(-segment // 1024)
        # The waveform, rectified, times a share for each stem.
        nodes = [
            ("Relu", ("mix",), ("loud",), {}),
            ("Unsqueeze", ("loud", "one"), ("wide",), {}),
            ("Mul", ("wide", "shares"), ("time",), {}),
        ]
        constants = [("one", np.array([1])), ("shares", shares.reshape(1, count, 1, 1))]
        inputs, outputs = [("mix", [1, 2, segment])], [("time", [1, count, 2, segment])]
        if outside:
            nodes += [
                ("Unsqueeze", ("mag", "one"), ("tall",), {}),
                ("Clip", ("tall", "low", "high"), ("clipped",), {}),
                ("Mul", ("clipped", "shares5"), ("freq",), {}),
            ]
            constants += [("low", number(-0.3)), ("high", number(0.2))]
            constants += [("shares5", shares.reshape(1, count, 1, 1, 1))]
            # The spectrum first, as some exports have it.
            inputs.insert(0, ("mag", [1, 4, 2048, frames]))
            outputs.insert(0, ("freq", [1, count, 4, 2048, frames]))
        save(path, inputs, outputs, nodes, constants)
        settings = {"segment": segment, "overlap": 0.25}
        manifest(folder, name, "htdemucs", stems, {**settings, "stft": "outside" if outside else "inside"})
        mix = noise(seconds, len(name))
        made = reference.htdemucs(runner(path), mix, **settings, outside=outside)
        put(folder, name, mix=mix, **dict(zip(stems, made)))


# --- Open-Unmix ---------------------------------------------------------------


def openunmix_models(folder):
    four = ["vocals", "drums", "bass", "other"]
    for name, stems, frames, seconds, wiener in [
        ("unmix-fixed", four, 40, 2.6, True),
        ("unmix-open", four, None, 3.1, False),
        ("unmix-lone", ["vocals"], None, 1.2, True),
        ("unmix-long", four, 330, 9.0, True),
    ]:
        random = np.random.default_rng(len(name))
        lines = [f'name = "{name}"', 'kind = "openunmix"', "[openunmix]", f"wiener = {str(wiener).lower()}"]
        lines += ["[openunmix.files]"]
        for stem in stems:
            shape = [1, 2, 2049, frames or "frames"]
            mask = random.uniform(0, 0.6, (1, 2, 2049, 1)).astype(np.float32)
            nodes = [("Mul", ("spec", "mask"), ("masked",), {}), ("Relu", ("masked",), ("out",), {})]
            save(folder / f"{name}-{stem}.onnx", [("spec", shape)], [("out", shape)], nodes, [("mask", mask)])
            lines += [f'{stem} = "{name}-{stem}.onnx"']
        (folder / f"{name}.toml").write_text("\n".join(lines) + "\n")
        mix = noise(seconds, len(name))
        segment = (frames - 1) * 1024 if frames else mix.shape[1]
        runs = [runner(folder / f"{name}-{stem}.onnx") for stem in stems]
        made = reference.openunmix(runs, mix, segment, 0.25, wiener, "other" in stems)
        put(folder, name, mix=mix, **dict(zip(stems, made)))


# --- What must be refused -----------------------------------------------------


def bad_graphs(folder):
    bad = folder / "bad"
    bad.mkdir()
    shape = [1, 4, 500, 24]
    same = [("Identity", ("input",), ("output",), {})]
    save(bad / "fine.onnx", [("input", shape)], [("output", shape)], same)
    save(bad / "open.onnx", [("input", [1, 4, "f", "t"])], [("output", [1, 4, "f", "t"])], same)
    save(bad / "half-floats.onnx", [("input", shape)], [("output", shape)], same, kind=TensorProto.FLOAT16)
    # Fewer frames come out than go in. The runtime can infer that of the first graph, whose input is fixed, and not of
    # the second.
    cut = [("Slice", ("input", "from", "to", "axis"), ("output",), {})]
    constants = [("from", np.array([0])), ("to", np.array([20])), ("axis", np.array([3]))]
    save(bad / "short.onnx", [("input", shape)], [("output", [1, 4, 500, "t"])], cut, constants)
    ports = [("input", [1, 4, "f", "t"])], [("output", [1, 4, "f", "u"])]
    save(bad / "short-open.onnx", *ports, cut, constants)
    flat = [("Squeeze", ("input", "axis"), ("output",), {})]
    save(bad / "flat.onnx", [("input", shape)], [("output", shape[1:])], flat, [("axis", np.array([0]))])
    # Zero divided by zero, if the input is silence.
    nan = [("Div", ("input", "input"), ("output",), {})]
    save(bad / "nan.onnx", [("input", shape)], [("output", shape)], nan)
    # A number for silence, but infinity for loud sounds.
    late = [
        ("Mul", ("input", "large"), ("larger",), {}),
        ("Exp", ("larger",), ("output",), {}),
    ]
    save(bad / "late.onnx", [("input", shape)], [("output", shape)], late, [("large", number(1e6))])
    two = [("Add", ("input", "more"), ("output",), {})]
    save(bad / "two.onnx", [("input", shape), ("more", shape)], [("output", shape)], two)


# --- The bench ----------------------------------------------------------------


def unet(path):
    """Convolutions on [1, 4, 3072, 256] in two levels, random weights."""
    random, nodes, constants = np.random.default_rng(1), [], []

    def conv(source, target, cin, cout, stride=1):
        weight = random.normal(0, (cin * 9) ** -0.5, (cout, cin, 3, 3)).astype(np.float32)
        constants.append((f"w-{target}", weight))
        more = {"strides": [stride, stride], "pads": [1, 1, 1, 1]}
        nodes.append(("Conv", (source, f"w-{target}"), (f"{target}-linear",), more))
        nodes.append(("Relu", (f"{target}-linear",), (target,), {}))

    conv("input", "a", 4, 32)
    conv("a", "b", 32, 32)
    conv("b", "c", 32, 64, stride=2)
    conv("c", "d", 64, 64)
    conv("d", "e", 64, 64)
    weight = random.normal(0, 0.1, (64, 4, 2, 2)).astype(np.float32)
    constants.append(("w-up", weight))
    nodes.append(("ConvTranspose", ("e", "w-up"), ("output",), {"strides": [2, 2]}))
    shape = [1, 4, 3072, 256]
    save(path, [("input", shape)], [("output", shape)], nodes, constants)


def time_runs(path, count):
    run = runner(path)
    tensor = np.random.default_rng(2).normal(size=(1, 4, 3072, 256)).astype(np.float32)
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(count):
        run(tensor)
    print(time.process_time() - cpu, time.perf_counter() - wall)


main()
