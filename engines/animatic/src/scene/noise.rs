//! Noise: seeded and smooth. Pure functions of position and seed.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    reason = "hashing wraps on purpose, and positions are small numbers"
)]

/// A number in 0..1 for each point of the whole-number grid.
pub(crate) fn lattice(x: i32, y: i32, seed: u64) -> f32 {
    let mut h = (x as u32).wrapping_mul(0x9E37_79B1)
        ^ (y as u32).wrapping_mul(0x85EB_CA77)
        ^ (seed as u32)
        ^ ((seed >> 32) as u32).wrapping_mul(0x27D4_EB2F);
    h = (h ^ (h >> 15)).wrapping_mul(0x2C1B_3C6D);
    h = (h ^ (h >> 12)).wrapping_mul(0x297A_2D39);
    h = (h ^ (h >> 15)).wrapping_mul(0x9E37_79B1);
    h ^= h >> 16;
    (h >> 8) as f32 / 16_777_216.0
}

/// Side of a tile of noise, in pixels.
pub(crate) const GRAIN_SIDE: usize = 256;

/// A tile of grain with an amplitude of one to two eight-bit steps and a size of two pixels.
///
/// The video encoder discards finer or fainter grain, such as a dither of half a step, and colour
/// banding would be visible again.
pub(crate) fn grain(seed: u64) -> Vec<f32> {
    const STRENGTH: f32 = 20.0;
    let raw = tile(|x, y| lattice(x, y, seed) - 0.5);
    let blurred = blur(&raw, [0.054, 0.244, 0.404, 0.244, 0.054]);
    blurred
        .iter()
        .zip(&raw)
        .map(|(b, r)| STRENGTH * b + r)
        .collect()
}

/// A square tile of values, [`GRAIN_SIDE`] on a side.
pub(crate) fn tile(value_at: impl Fn(i32, i32) -> f32) -> Vec<f32> {
    (0..GRAIN_SIDE * GRAIN_SIDE)
        .map(|i| value_at((i % GRAIN_SIDE) as i32, (i / GRAIN_SIDE) as i32))
        .collect()
}

/// Blurs the tile with the kernel in both directions. The blur wraps around at the edges, so that
/// no seam is visible where tiles meet.
pub(crate) fn blur<const N: usize>(tile: &[f32], kernel: [f32; N]) -> Vec<f32> {
    // Along an axis, points are `stride` values apart: 1 in a row, a row's length in a column.
    let pass = |source: &[f32], stride: usize| -> Vec<f32> {
        let neighbour = |i: usize, k: usize| {
            let (block, position) = (i / (stride * GRAIN_SIDE), i / stride % GRAIN_SIDE);
            let position = (position + GRAIN_SIDE + k - N / 2) % GRAIN_SIDE;
            source[(block * GRAIN_SIDE + position) * stride + i % stride]
        };
        let sum = |i: usize| {
            kernel
                .iter()
                .enumerate()
                .map(|(k, weight)| weight * neighbour(i, k))
                .sum()
        };
        (0..source.len()).map(sum).collect()
    };
    pass(&pass(tile, 1), GRAIN_SIDE)
}

/// Smooth noise in 0..1 with features about one unit across.
pub(crate) fn value(x: f32, y: f32, seed: u64) -> f32 {
    let (left, top) = (x.floor(), y.floor());
    let (fx, fy) = (fade(x - left), fade(y - top));
    let (i, j) = (left as i32, top as i32);
    let corner = |di: i32, dj: i32| lattice(i.wrapping_add(di), j.wrapping_add(dj), seed);
    let upper = mix(corner(0, 0), corner(1, 0), fx);
    let lower = mix(corner(0, 1), corner(1, 1), fx);
    mix(upper, lower, fy)
}

/// Noise of several sizes summed, each half the size and weight of the one before; 0..1.
pub(crate) fn fractal(x: f32, y: f32, octaves: u32, seed: u64) -> f32 {
    let (mut sum, mut weight, mut total) = (0.0, 1.0, 0.0);
    let (mut x, mut y) = (x, y);
    for octave in 0..octaves {
        sum += weight * value(x, y, seed.wrapping_add(u64::from(octave) * 7919));
        total += weight;
        weight *= 0.5;
        // Rotated a little at each step, so that the grids' lines do not coincide.
        (x, y) = (x * 1.62 - y * 1.18 + 17.3, x * 1.18 + y * 1.62 + 5.1);
    }
    sum / total
}

/// Fractal noise with sharp crests in one dimension; 0..1.
pub(crate) fn ridged_1d(x: f32, octaves: u32, seed: u64) -> f32 {
    let (mut sum, mut weight, mut total, mut x) = (0.0, 1.0, 0.0, x);
    for octave in 0..octaves {
        let n = value(x, 0.5, seed.wrapping_add(u64::from(octave) * 7919));
        sum += weight * (1.0 - (2.0 * n - 1.0).abs());
        total += weight;
        weight *= 0.48;
        x = x * 2.07 + 31.7;
    }
    sum / total
}

/// Fractal noise with sharp crests in two dimensions; 0..1.
pub(crate) fn ridged_2d(x: f32, y: f32, octaves: u32, seed: u64) -> f32 {
    let (mut sum, mut weight, mut total) = (0.0, 1.0, 0.0);
    let (mut x, mut y) = (x, y);
    for octave in 0..octaves {
        let n = value(x, y, seed.wrapping_add(u64::from(octave) * 7919));
        sum += weight * (1.0 - (2.0 * n - 1.0).abs());
        total += weight;
        weight *= 0.55;
        (x, y) = (x * 1.75 - y * 0.9 + 11.7, x * 0.9 + y * 1.75 + 3.9);
    }
    sum / total
}

/// Smooth noise in one dimension within -1..1, with about one swing per unit.
pub(crate) fn smooth_1d(t: f64, seed: u64) -> f64 {
    let start = t.floor();
    let f = t - start;
    let f = f * f * f * (f * (f * 6.0 - 15.0) + 10.0);
    let point = |i: i32| f64::from(lattice((start as i32).wrapping_add(i), 0, seed)) * 2.0 - 1.0;
    let (a, b) = (point(0), point(1));
    a + (b - a) * f
}

pub(crate) fn mix(a: f32, b: f32, t: f32) -> f32 {
    a + (b - a) * t
}

/// 0 below `low`, 1 above `high`, an S between.
pub(crate) fn smoothstep(low: f32, high: f32, x: f32) -> f32 {
    let t = ((x - low) / (high - low)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

/// An S whose second derivative is zero at the ends: no creases at the grid's lines.
fn fade(t: f32) -> f32 {
    t * t * t * (t * (t * 6.0 - 15.0) + 10.0)
}
