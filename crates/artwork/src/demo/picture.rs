//! The demo's picture: a lake below mountains at sunrise, painted pixel by pixel and rich enough in detail that a
//! camera moving over it has something to find.
//!
//! Owns sky, mountains, far shore and water; what stands in front is in [`super::foreground`]. Pure and deterministic.

#![expect(clippy::cast_precision_loss, reason = "pixel numbers")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to pixels and bytes"
)]

use super::foreground;
use crate::ArtworkError;
use crate::canvas::encode_rgb;

/// A 1280×720 picture as PNG bytes.
pub fn picture_png() -> Result<Vec<u8>, ArtworkError> {
    let mut scene = Scene {
        pixels: vec![[0.0; 3]; WIDTH * HEIGHT],
    };
    scene.paint_sky();
    for range in &RANGES {
        scene.paint_range(range);
    }
    scene.paint_far_shore();
    scene.paint_lake();
    let mut rgb = scene.bytes();
    foreground::paint(&mut rgb, WIDTH as u32, HEIGHT as u32);
    encode_rgb(&rgb, WIDTH as u32, HEIGHT as u32)
}

/// Linear-ish colour per pixel, each 0–1, row after row.
struct Scene {
    pixels: Vec<[f32; 3]>,
}

/// One line of mountains.
struct Range {
    /// The height of its mean ridge, in rows from the top.
    ridge: f32,
    /// How far peaks rise above it, in rows.
    rise: f32,
    /// Peaks per thousand columns, about.
    pace: f32,
    /// Which mountains: another number, another line.
    seed: u32,
    /// Its stone in the sun and in the shade.
    lit: [f32; 3],
    shaded: [f32; 3],
    /// How much of the air's colour lies over it, 0–1.
    haze: f32,
    /// Rows below the ridge down to which snow lies; 0 for none.
    snow: f32,
}

impl Scene {
    fn paint_sky(&mut self) {
        for y in 0..WATERLINE {
            let height = y as f32 / WATERLINE as f32;
            for x in 0..WIDTH {
                let (dx, dy) = ((x as f32 - SUN.0) / 1.25, y as f32 - SUN.1);
                let away = (dx * dx + dy * dy).sqrt();
                let mut colour = mix(ZENITH, MIDDLE, (height * 1.7).min(1.0));
                colour = mix(colour, GLOW, ((height - 0.35) * 1.5).clamp(0.0, 1.0) * 0.85);
                colour = mix(colour, [1.0, 0.80, 0.50], 0.75 * (-away / 170.0).exp());
                // Clouds are noise drawn out sideways; their lower edges catch the sun.
                let (cx, cy) = (x as f32 / 210.0, y as f32 / 46.0);
                let cover = noise(cx, cy, 5, 11);
                let below = noise(cx, cy + 0.35, 3, 11);
                let thick = ((cover - 0.50) * 3.4).clamp(0.0, 1.0) * (1.0 - height * 0.55);
                let warmth = (0.45 + (cover - below) * 3.0).clamp(0.0, 1.0)
                    * (0.35 + 0.65 * (-away / 420.0).exp());
                colour = mix(
                    colour,
                    mix([0.50, 0.50, 0.66], [1.0, 0.84, 0.66], warmth),
                    thick * 0.85,
                );
                let disc = ((away_round(x, y) - 27.0) / 2.5).clamp(0.0, 1.0);
                colour = mix([1.0, 0.96, 0.84], colour, disc);
                self.set(x, y, colour);
            }
        }
    }

    fn paint_range(&mut self, range: &Range) {
        for x in 0..WIDTH {
            let ridge = ridge_row(range, x as f32);
            for y in (ridge.max(0.0) as usize)..WATERLINE {
                let depth = y as f32 - ridge;
                // The slope of a rough relief, lit from the sun's side, gives gullies and faces.
                let (u, v) = (x as f32 / 62.0, (y as f32 - ridge * 0.55) / 74.0);
                let relief = |du: f32, dv: f32| crest(u + du, v + dv + u * 0.35, range.seed + 40);
                let slope = (relief(0.05, 0.0) - relief(-0.05, 0.0)) * 2.6
                    + (relief(0.0, 0.05) - relief(0.0, -0.05));
                let side = ((SUN.0 - x as f32) / 200.0).clamp(-1.0, 1.0);
                let light = (0.46 - slope * side * 0.9).clamp(0.0, 1.0);
                let mut colour = mix(range.shaded, range.lit, light);
                if range.snow > 0.0 {
                    // Snow keeps to the heights: a low ridge carries little.
                    let high = ((range.ridge + 70.0 - ridge) / 110.0).clamp(0.15, 1.5);
                    let reach =
                        range.snow * high * (0.35 + 1.3 * relief(0.0, 0.0)) * (0.7 + 0.6 * light);
                    let lies = ((reach - depth) / 9.0).clamp(0.0, 1.0);
                    colour = mix(
                        colour,
                        mix([0.46, 0.53, 0.72], [1.0, 0.93, 0.86], light * 1.15),
                        lies,
                    );
                }
                // Air gathers towards the foot of the mountains and glows below the sun.
                let low = ((y as f32 - 200.0) / 230.0).clamp(0.0, 1.0);
                let near_sun = (-((x as f32 - SUN.0) / 330.0).powi(2)).exp();
                let air = mix([0.60, 0.67, 0.80], [1.0, 0.80, 0.60], 0.25 + 0.7 * near_sun);
                colour = mix(colour, air, (range.haze + 0.42 * low * low).min(0.92));
                let edge = (depth + 0.5).clamp(0.0, 1.0);
                self.set(x, y, mix(self.at(x, y), colour, edge));
            }
        }
    }

    /// A band of firs on the far shore, each a column of its own height.
    fn paint_far_shore(&mut self) {
        for x in 0..WIDTH {
            let bank = 17.0 * noise(x as f32 / 170.0, 3.0, 3, 77) + 3.0;
            let tree = (0..3)
                .map(|row| fir_height(x as f32, row))
                .fold(0.0, f32::max);
            let top = WATERLINE as f32 - bank - tree;
            let near_sun = (-((x as f32 - SUN.0) / 260.0).powi(2)).exp();
            for y in (top as usize)..WATERLINE {
                let grain = noise(x as f32 / 3.0, y as f32 / 5.0, 2, 78);
                let depth = (y as f32 - top) / (bank + tree);
                let mut colour = mix([0.10, 0.20, 0.19], [0.22, 0.33, 0.24], grain);
                colour = mix(colour, [0.85, 0.62, 0.40], near_sun * 0.35 * (1.0 - depth));
                colour = mix(colour, [0.66, 0.70, 0.76], 0.34 * depth * depth);
                let edge = (y as f32 - top + 0.3).clamp(0.0, 1.0);
                self.set(x, y, mix(self.at(x, y), colour, edge));
            }
        }
    }

    /// Water: what is above it upside down, drawn out by ripples that grow towards the viewer.
    fn paint_lake(&mut self) {
        for y in WATERLINE..HEIGHT {
            let depth = (y - WATERLINE) as f32;
            let near = depth / (HEIGHT - WATERLINE) as f32;
            for x in 0..WIDTH {
                let column = x as f32;
                let ripple = noise(
                    column / (34.0 + 150.0 * near),
                    depth / (1.6 + 9.0 * near),
                    3,
                    5,
                ) - 0.5;
                let across = ripple * (5.0 + 46.0 * near);
                let up = depth * 1.18 + ripple * (4.0 + 60.0 * near);
                let from_x = (column + across).clamp(0.0, WIDTH as f32 - 1.0) as usize;
                let from_y =
                    (WATERLINE as f32 - 1.0 - up.abs()).clamp(0.0, WATERLINE as f32 - 1.0) as usize;
                let mirrored = self.at(from_x, from_y);
                let mut colour = mix(mirrored, [0.07, 0.20, 0.29], 0.22 + 0.42 * near);
                let road =
                    (-((column - SUN.0 - ripple * 60.0) / (16.0 + 120.0 * near)).powi(2)).exp();
                let spark = ((ripple + 0.07) * 7.0).clamp(0.0, 1.0);
                colour = mix(colour, [1.0, 0.86, 0.62], road * spark * 0.85);
                let line = (1.0 - depth / 3.0).clamp(0.0, 1.0);
                colour = mix(colour, [0.88, 0.84, 0.80], line * 0.45);
                self.set(x, y, colour);
            }
        }
    }

    fn at(&self, x: usize, y: usize) -> [f32; 3] {
        self.pixels.get(y * WIDTH + x).copied().unwrap_or([0.0; 3])
    }

    fn set(&mut self, x: usize, y: usize, colour: [f32; 3]) {
        if let Some(pixel) = self.pixels.get_mut(y * WIDTH + x) {
            *pixel = colour;
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let to_byte = |value: f32| (value.clamp(0.0, 1.0) * 255.0 + 0.5) as u8;
        self.pixels
            .iter()
            .flat_map(|colour| colour.map(to_byte))
            .collect()
    }
}

/// The row where a range's ridge crosses a column.
fn ridge_row(range: &Range, x: f32) -> f32 {
    let along = x * range.pace / 1_000.0;
    let peaks =
        crest(along, 0.5, range.seed) * 0.75 + noise(along * 0.5, 9.0, 2, range.seed + 1) * 0.5;
    let rough = noise(along * 9.0, 2.0, 3, range.seed + 2) - 0.5;
    range.ridge - (peaks - 0.55) * range.rise * 2.0 - rough * range.rise * 0.16
}

/// How high the firs of one row stand at this column.
fn fir_height(x: f32, row: u32) -> f32 {
    let spacing = 8.5 + 2.0 * row as f32;
    let place = x / spacing + 0.37 * row as f32;
    [place.floor() - 1.0, place.floor(), place.floor() + 1.0]
        .into_iter()
        .map(|tree| {
            let number = (tree + 8.0) as u32;
            let tall = 10.0 + 27.0 * chance(number, row, 91);
            let middle = tree + 0.5 + 0.5 * (chance(number, row, 92) - 0.5);
            let away = ((place - middle) * spacing).abs();
            // Boughs make the flank of a fir uneven.
            tall - away * 4.6 + 1.4 * (away * 2.4).sin()
        })
        .fold(0.0, f32::max)
}

fn away_round(x: usize, y: usize) -> f32 {
    (x as f32 - SUN.0).hypot(y as f32 - SUN.1)
}

pub(super) fn mix(from: [f32; 3], to: [f32; 3], share: f32) -> [f32; 3] {
    let share = share.clamp(0.0, 1.0);
    std::array::from_fn(|i| from[i] + (to[i] - from[i]) * share)
}

/// Noise folded at its middle, which makes sharp crests.
fn crest(x: f32, y: f32, seed: u32) -> f32 {
    let mut sum = 0.0;
    let (mut size, mut scale) = (0.55, 1.0);
    for octave in 0..4 {
        let folded = 1.0 - (2.0 * value(x * scale, y * scale, seed + octave * 101) - 1.0).abs();
        sum += size * folded * folded;
        size *= 0.48;
        scale *= 2.07;
    }
    sum
}

/// Smooth noise of some octaves, 0–1, about 0.5 in the mean.
pub(super) fn noise(x: f32, y: f32, octaves: u32, seed: u32) -> f32 {
    let (mut sum, mut total) = (0.0, 0.0);
    let (mut size, mut scale) = (1.0, 1.0);
    for octave in 0..octaves {
        sum += size * value(x * scale, y * scale, seed + octave * 101);
        total += size;
        size *= 0.5;
        scale *= 2.03;
    }
    sum / total
}

/// One octave: chance at whole numbers, smoothly joined.
fn value(x: f32, y: f32, seed: u32) -> f32 {
    let (left, top) = (x.floor(), y.floor());
    let ease = |t: f32| t * t * (3.0 - 2.0 * t);
    let (across, down) = (ease(x - left), ease(y - top));
    let (column, row) = ((left as i32).cast_unsigned(), (top as i32).cast_unsigned());
    let at = |dx: u32, dy: u32| chance(column.wrapping_add(dx), row.wrapping_add(dy), seed);
    let upper = at(0, 0) + (at(1, 0) - at(0, 0)) * across;
    let lower = at(0, 1) + (at(1, 1) - at(0, 1)) * across;
    upper + (lower - upper) * down
}

/// A number 0–1 that depends on the three and looks like chance.
pub(super) fn chance(a: u32, b: u32, seed: u32) -> f32 {
    let mut h =
        a.wrapping_mul(0x85eb_ca6b) ^ b.wrapping_mul(0xc2b2_ae35) ^ seed.wrapping_mul(0x27d4_eb2f);
    h ^= h >> 15;
    h = h.wrapping_mul(0x2c1b_3c6d);
    h ^= h >> 12;
    h = h.wrapping_mul(0x297a_2d39);
    h ^= h >> 15;
    (h >> 8) as f32 / 16_777_216.0
}

const WIDTH: usize = 1280;
const HEIGHT: usize = 720;
/// The row where water begins.
const WATERLINE: usize = 432;
/// The middle of the sun.
const SUN: (f32, f32) = (776.0, 116.0);
const ZENITH: [f32; 3] = [0.20, 0.36, 0.62];
const MIDDLE: [f32; 3] = [0.56, 0.66, 0.82];
const GLOW: [f32; 3] = [1.0, 0.78, 0.58];

const RANGES: [Range; 4] = [
    Range {
        ridge: 258.0,
        rise: 120.0,
        pace: 5.2,
        seed: 21,
        lit: [0.66, 0.62, 0.70],
        shaded: [0.44, 0.48, 0.64],
        haze: 0.52,
        snow: 34.0,
    },
    Range {
        ridge: 282.0,
        rise: 205.0,
        pace: 3.1,
        seed: 33,
        lit: [0.60, 0.50, 0.48],
        shaded: [0.24, 0.29, 0.44],
        haze: 0.20,
        snow: 74.0,
    },
    Range {
        ridge: 352.0,
        rise: 52.0,
        pace: 4.6,
        seed: 58,
        lit: [0.40, 0.46, 0.38],
        shaded: [0.18, 0.27, 0.34],
        haze: 0.20,
        snow: 0.0,
    },
    Range {
        ridge: 396.0,
        rise: 26.0,
        pace: 5.6,
        seed: 64,
        lit: [0.28, 0.38, 0.28],
        shaded: [0.12, 0.22, 0.24],
        haze: 0.08,
        snow: 0.0,
    },
];

#[cfg(test)]
mod tests {
    use super::picture_png;

    #[test]
    fn is_a_png_under_two_megabytes() {
        let bytes = picture_png().unwrap();
        assert!(bytes.len() < 2_000_000, "{} bytes", bytes.len());
        let picture = image::load_from_memory_with_format(&bytes, image::ImageFormat::Png).unwrap();
        assert_eq!((picture.width(), picture.height()), (1280, 720));
    }
}
