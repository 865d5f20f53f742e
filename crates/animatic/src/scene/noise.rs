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

/// Side of a square of noise that is repeated, in pixels.
pub(crate) const GRAIN_SIDE: usize = 256;

/// A square of grain in eight-bit steps, to be repeated: one to two steps strong, two pixels wide.
///
/// Finer or fainter grain, such as a dither of half a step, is below what the video's encoder keeps,
/// and the bands come back.
pub(crate) fn grain(seed: u64) -> Vec<f32> {
    const STRENGTH: f32 = 20.0;
    let raw = square(|x, y| lattice(x, y, seed) - 0.5);
    let soft = softened(&raw, [0.054, 0.244, 0.404, 0.244, 0.054]);
    soft.iter()
        .zip(&raw)
        .map(|(s, r)| STRENGTH * s + r)
        .collect()
}

/// A square of random values, [`GRAIN_SIDE`] on a side.
pub(crate) fn square(value_at: impl Fn(i32, i32) -> f32) -> Vec<f32> {
    (0..GRAIN_SIDE * GRAIN_SIDE)
        .map(|i| value_at((i % GRAIN_SIDE) as i32, (i / GRAIN_SIDE) as i32))
        .collect()
}

/// A square in which each point takes these shares of the points around it, in both directions. It
/// wraps around at its edges, so that no seam shows where squares meet.
pub(crate) fn softened<const N: usize>(square: &[f32], shares: [f32; N]) -> Vec<f32> {
    let pass = |from: &[f32], step: usize| -> Vec<f32> {
        let neighbour = |i: usize, k: usize| {
            let (row, column) = (i / (step * GRAIN_SIDE), i / step % GRAIN_SIDE);
            let column = (column + GRAIN_SIDE + k - N / 2) % GRAIN_SIDE;
            from[(row * GRAIN_SIDE + column) * step + i % step]
        };
        let sum = |i: usize| {
            shares
                .iter()
                .enumerate()
                .map(|(k, w)| w * neighbour(i, k))
                .sum()
        };
        (0..from.len()).map(sum).collect()
    };
    pass(&pass(square, 1), GRAIN_SIDE)
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
        // Turned a little at each step, so that the grids' lines do not add up.
        (x, y) = (x * 1.62 - y * 1.18 + 17.3, x * 1.18 + y * 1.62 + 5.1);
    }
    sum / total
}

/// Fractal noise with sharp crests, for ridges; 0..1.
pub(crate) fn ridged(x: f32, octaves: u32, seed: u64) -> f32 {
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

/// Crests and gullies in two dimensions; 0..1.
pub(crate) fn gullies(x: f32, y: f32, octaves: u32, seed: u64) -> f32 {
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

/// A smooth wandering of time within -1..1, one swing per unit or so.
pub(crate) fn wave(t: f64, seed: u64) -> f64 {
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
