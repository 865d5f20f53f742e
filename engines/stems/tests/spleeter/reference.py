"""What a U-Net of made-up weights makes of made-up magnitudes, computed with numpy alone.

`src/spleeter/unet.rs` has the printed numbers in its tests.
Usage: python3 reference.py
"""

import numpy as np

f32 = np.float32


class Generator:
    def __init__(self, seed):
        self.state = seed

    def high(self):
        self.state = (self.state * 1664525 + 1013904223) % 2**32
        return self.state >> 24

    def numbers(self, shape, mean, spread):
        count = int(np.prod(shape))
        values = [f32(mean) + f32(spread) * f32(f32(self.high()) / f32(128) - f32(1)) for _ in range(count)]
        return np.array(values, f32).astype(np.float16).astype(f32).reshape(shape)

    def kernel(self, shape, inputs, outputs):
        spread = f32(2) / np.sqrt(f32(shape[0] * shape[1] * inputs))
        return self.numbers(shape, 0, spread), self.numbers([outputs], 0, 0.5)

    def scale(self, channels):
        return self.numbers([channels], 1, 0.5), self.numbers([channels], 0, 0.5)

    def net(self):
        down, down_scales, up, up_scales = [], [], [], []
        widths = [2, 1, 2, 4, 8, 16, 32]
        for i in range(6):
            down.append(self.kernel([5, 5, widths[i], widths[i + 1]], widths[i], widths[i + 1]))
            if i < 5:
                down_scales.append(self.scale(widths[i + 1]))
        for inputs, outputs in [(32, 16), (32, 8), (16, 4), (8, 2), (4, 1), (2, 1)]:
            up.append(self.kernel([5, 5, outputs, inputs], inputs, outputs))
            up_scales.append(self.scale(outputs))
        return down, down_scales, up, up_scales, self.kernel([4, 4, 1, 2], 1, 2)


def convolution(x, kernel, bias, stride, before, after, dilation=1):
    """x: rows, columns, channels."""
    kh, kw, _, outputs = kernel.shape
    padded = np.pad(x.astype(np.float64), ((before, after), (before, after), (0, 0)))
    rows, columns = x.shape[0] // stride, x.shape[1] // stride
    y = np.zeros((rows, columns, outputs)) + bias
    for a in range(kh):
        for b in range(kw):
            part = padded[a * dilation :, b * dilation :][: rows * stride : stride, : columns * stride : stride]
            y += part @ kernel[a, b].astype(np.float64)
    return y


def transposed(x, kernel, bias):
    kh, kw, outputs, _ = kernel.shape
    full = np.zeros((2 * x.shape[0] + 3, 2 * x.shape[1] + 3, outputs))
    for a in range(kh):
        for b in range(kw):
            full[a : a + 2 * x.shape[0] : 2, b : b + 2 * x.shape[1] : 2] += x @ kernel[a, b].T.astype(np.float64)
    return full[1:-2, 1:-2] + bias


def hear(net, mix):
    down, down_scales, up, up_scales, last = net
    x, seen = mix, []
    for i, (kernel, bias) in enumerate(down):
        x = convolution(x, kernel, bias, 2, 1, 2)
        seen.append(x)
        if i < 5:
            factor, addend = down_scales[i]
            x = x * factor + addend
            x = np.where(x > 0, x, 0.2 * x)
    x = seen.pop()
    for (kernel, bias), (factor, addend) in zip(up, up_scales):
        x = np.maximum(transposed(x, kernel, bias), 0) * factor + addend
        if seen:
            x = np.concatenate([seen.pop(), x], axis=2)
    mask = 1 / (1 + np.exp(-convolution(x, *last, 1, 3, 3, 2)))
    return mix * mask


def main():
    generator = Generator(1)
    nets = [generator.net(), generator.net()]
    rows, columns = 64, 128
    random = Generator(7)
    mix = np.array([random.high() / 16 for _ in range(2 * rows * columns)]).reshape(2, rows, columns)
    for net in nets:
        heard = hear(net, mix.transpose(1, 2, 0)).transpose(2, 0, 1)
        points = [(0, 0, 0), (0, 5, 17), (0, 63, 127), (1, 0, 127), (1, 31, 64), (1, 63, 0)]
        print(f"mean {heard.mean():.6f}:", ", ".join(f"{heard[p]:.5f}" for p in points))


main()
