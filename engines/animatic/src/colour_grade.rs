//! Colour grading: colours, vignette, grain and fades of a finished frame.
//!
//! Every look is a matrix over red, green and blue followed by a curve. Looks are combined by
//! multiplying the matrices and chaining the curves, so any number of them costs one pass over the
//! frame. A frame without a look or a fade is left alone.

use crate::direction::{Direction, FadeColour, FilmLook};
use crate::options::RenderOptions;
use crate::scene::noise::{GRAIN_SIDE, blur, lattice, smoothstep, tile};

/// The grading of a shot's frames.
pub(crate) struct ColourGrade {
    /// What red, green and blue each contribute to the three; the fourth number is padding.
    matrix: [[f32; 4]; 3],
    curve: Vec<[f32; 3]>,
    ungraded: bool,
    /// How much of the light the corners lose.
    vignette: f32,
    /// Grain in eight-bit steps.
    grain: f32,
    noise: Vec<f32>,
    fade_in: Option<FadeColour>,
    fade_out: Option<FadeColour>,
    frames: f32,
    fade_frames: f32,
    seed: u64,
}

impl ColourGrade {
    pub(crate) fn new(direction: &Direction, options: &RenderOptions) -> Self {
        let mut matrix = [
            [1.0, 0.0, 0.0, 0.0],
            [0.0, 1.0, 0.0, 0.0],
            [0.0, 0.0, 1.0, 0.0],
        ];
        let mut curve: Vec<[f32; 3]> = (0..STEPS)
            .map(|i| [to_f32(i) / to_f32(STEPS - 1); 3])
            .collect();
        let (mut vignette, mut grain) = (0.0, 0.0_f32);
        for look in &direction.looks {
            matrix = chain_matrices(&matrix, &look_matrix(*look));
            for values in &mut curve {
                *values = apply_look_curve(*look, *values);
            }
            match look {
                FilmLook::Vignette => vignette += 0.55,
                FilmLook::Vintage => {
                    vignette += 0.28;
                    grain = grain.max(3.0);
                }
                FilmLook::Sepia => vignette += 0.25,
                FilmLook::FilmGrain => grain = 9.0,
                _ => {}
            }
        }
        let frames = to_f32(options.frames() as usize);
        Self {
            matrix,
            curve,
            ungraded: direction.looks.is_empty(),
            vignette,
            grain,
            noise: if grain > 0.0 {
                film_grain(options.seed)
            } else {
                Vec::new()
            },
            fade_in: direction.fade_in,
            fade_out: direction.fade_out,
            frames,
            // A second, but at most a third of the film.
            fade_frames: to_f32(options.fps as usize).min(frames / 3.0).max(1.0),
            seed: options.seed,
        }
    }

    /// Whether `frame` is graded exactly like the previous one.
    pub(crate) fn is_steady(&self, frame: usize) -> bool {
        // Grain differs in every frame, so with it no frame repeats the one before.
        self.grain == 0.0 && frame > 0 && self.fade(frame) == self.fade(frame - 1)
    }

    /// Grades a frame of `width` pixels per row.
    pub(crate) fn apply(&self, frame: usize, width: usize, rgba: &mut [u8]) {
        let fade = self.fade(frame);
        if self.ungraded && fade.is_none() {
            return;
        }
        // The fade goes into the table, so it costs nothing for each pixel.
        let table = self.table(fade);
        let height = rgba.len() / 4 / width;
        let (across, down) = (to_f32(width) / 2.0, to_f32(height) / 2.0);
        let squares: Vec<f32> = (0..width)
            .map(|x| ((to_f32(x) + 0.5) / across - 1.0).powi(2))
            .collect();
        // Each frame takes the grain from another place: grain that stands still looks like a dirty
        // lens.
        let shift = |n: i32| scatter(lattice(i32::try_from(frame).unwrap_or(0), n, self.seed));
        let (dx, dy) = (shift(1), shift(2));
        for (y, row) in rgba.chunks_exact_mut(width * 4).enumerate() {
            let y_squared = ((to_f32(y) + 0.5) / down - 1.0).powi(2);
            let (pixels, _) = row.as_chunks_mut::<4>();
            for (x, (pixel, x_squared)) in pixels.iter_mut().zip(&squares).enumerate() {
                let distance_squared = (y_squared + x_squared) * 0.5;
                // This is the cube of the distance: the middle stays clear.
                let light = 1.0 - self.vignette * distance_squared * distance_squared.sqrt();
                let noise = if self.grain > 0.0 {
                    self.noise[((y + dy) % GRAIN_SIDE) * GRAIN_SIDE + (x + dx) % GRAIN_SIDE]
                        * self.grain
                } else {
                    0.0
                };
                *pixel = self.grade_pixel(*pixel, light, noise, &table);
            }
        }
    }

    #[inline]
    fn grade_pixel(&self, pixel: [u8; 4], light: f32, noise: f32, table: &CurveTable) -> [u8; 4] {
        let [r, g, b, _] = pixel.map(f32::from);
        let [red, green, blue] = &self.matrix;
        let mut out = [0, 0, 0, u8::MAX];
        for (c, byte) in out.iter_mut().take(3).enumerate() {
            let value = (r * red[c] + g * green[c] + b * blue[c]) * light + noise;
            // Above 2^23 a float has no fraction: its last bits are the integer.
            let step = (value * STEPS_PER_LEVEL).clamp(0.0, LAST_STEP) + 8_388_608.0;
            let index = (step.to_bits() & 0x3FF) as usize;
            *byte = table[index][c];
        }
        out
    }

    /// The curve in bytes, faded.
    fn table(&self, fade: Option<(FadeColour, f32)>) -> Box<CurveTable> {
        let mut table = Box::new([[0; 4]; 1024]);
        for (bytes, values) in table.iter_mut().zip(&self.curve) {
            for (byte, value) in bytes.iter_mut().zip(values) {
                let faded = match fade {
                    None => *value,
                    Some((FadeColour::Black, shown)) => value * shown,
                    Some((FadeColour::White, shown)) => 1.0 - (1.0 - value) * shown,
                };
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "clamped to a byte"
                )]
                let rounded = (faded * 255.0 + 0.5).clamp(0.0, 255.0) as u8;
                *byte = rounded;
            }
        }
        table
    }

    /// The fade at a frame, and how much of the picture is left, 0 to 1.
    fn fade(&self, frame: usize) -> Option<(FadeColour, f32)> {
        let frame = to_f32(frame);
        let fade_in_level = smoothstep(0.0, self.fade_frames, frame);
        let fade_out_level = smoothstep(0.0, self.fade_frames, self.frames - 1.0 - frame);
        match (self.fade_in, self.fade_out) {
            (Some(from), _) if fade_in_level < 1.0 => Some((from, fade_in_level)),
            (_, Some(to)) if fade_out_level < 1.0 => Some((to, fade_out_level)),
            _ => None,
        }
    }
}

/// A look's matrix: what red, green and blue each contribute to the three.
fn look_matrix(look: FilmLook) -> [[f32; 3]; 3] {
    // Panchromatic film sees red a little less than the eye and blue a little more.
    let grey = [0.27, 0.60, 0.13];
    let towards_grey = |share: f32, tint: [f32; 3]| {
        [0, 1, 2].map(|row: usize| {
            [0, 1, 2].map(|column: usize| {
                let identity = f32::from(u8::from(row == column));
                tint[row] * (identity + (grey[column] - identity) * share)
            })
        })
    };
    match look {
        FilmLook::BlackAndWhite => towards_grey(1.0, [1.0; 3]),
        FilmLook::Sepia => towards_grey(1.0, [1.08, 0.90, 0.68]),
        FilmLook::Vintage => towards_grey(0.30, [1.03, 0.99, 0.90]),
        FilmLook::Warm => towards_grey(0.0, [1.08, 1.0, 0.85]),
        FilmLook::Cold => towards_grey(0.10, [0.87, 0.99, 1.11]),
        FilmLook::DayForNight => towards_grey(0.62, [0.36, 0.46, 0.70]),
        FilmLook::HighContrast | FilmLook::Vignette | FilmLook::FilmGrain => {
            towards_grey(0.0, [1.0; 3])
        }
    }
}

/// A look's curve.
fn apply_look_curve(look: FilmLook, values: [f32; 3]) -> [f32; 3] {
    // An S through the middle; 1 is as steep as smoothstep.
    let steeper = |v: f32, amount: f32| v + (v * v * (3.0 - 2.0 * v) - v) * amount;
    match look {
        FilmLook::BlackAndWhite => values.map(|v| steeper(v, 0.45)),
        FilmLook::Sepia => values.map(|v| 0.03 + 0.95 * steeper(v, 0.3)),
        FilmLook::HighContrast => values.map(|v| steeper(steeper(v, 0.75), 0.35)),
        // Old prints lose their blacks first, above all in the blue layer.
        FilmLook::Vintage => {
            let [r, g, b] = values.map(|v| steeper(v, 0.25));
            [0.06 + 0.92 * r, 0.05 + 0.90 * g, 0.13 + 0.74 * b]
        }
        // A daytime sky is darkened more than the shadows.
        FilmLook::DayForNight => values.map(|v| steeper(v * (1.12 - 0.22 * v), 0.35)),
        FilmLook::Warm | FilmLook::Cold | FilmLook::Vignette | FilmLook::FilmGrain => values,
    }
}

/// The matrix that applies `first`, then `second`, by columns as [`ColourGrade`] holds them.
fn chain_matrices(first: &[[f32; 4]; 3], second: &[[f32; 3]; 3]) -> [[f32; 4]; 3] {
    first.map(|column| {
        let product = |row: usize| (0..3).map(|k| second[row][k] * column[k]).sum();
        [product(0), product(1), product(2), 0.0]
    })
}

/// A tile of grain: noise around zero, mostly within 1, in specks a little larger than a pixel.
fn film_grain(seed: u64) -> Vec<f32> {
    let raw = tile(|x, y| {
        // The sum of three uniform numbers is nearly normally distributed, like film grain.
        let uniform = |n: u64| lattice(x, y, seed.wrapping_add(n));
        1.1 * (uniform(11) + uniform(12) + uniform(13) - 1.5)
    });
    blur(&raw, [0.22, 0.79, 0.22])
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "chance is below 1"
)]
fn scatter(chance: f32) -> usize {
    (chance * 255.0) as usize
}

#[expect(
    clippy::cast_precision_loss,
    reason = "pixels and frames are small numbers"
)]
fn to_f32(n: usize) -> f32 {
    n as f32
}

/// Bytes for each step of red's, green's and blue's curves; one entry for each ten-bit number.
type CurveTable = [[u8; 4]; 1024];

/// Steps of a curve: four for each eight-bit step.
const STEPS: usize = 1021;
const STEPS_PER_LEVEL: f32 = 4.0;
const LAST_STEP: f32 = 1020.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::RequestedOptions;

    fn grade(prompt: &str, frame: usize, colour: [u8; 3]) -> [u8; 3] {
        let direction = Direction::parse(prompt);
        let options = RenderOptions::resolve(&RequestedOptions::default(), &direction).unwrap();
        let mut rgba = [colour[0], colour[1], colour[2], 255].repeat(33 * 33);
        ColourGrade::new(&direction, &options).apply(frame, 33, &mut rgba);
        let middle = (16 * 33 + 16) * 4;
        [rgba[middle], rgba[middle + 1], rgba[middle + 2]]
    }

    #[test]
    fn looks_do_what_they_say() {
        let [r, g, b] = grade("black and white", 60, [200, 120, 40]);
        assert!(r == g && g == b, "{r} {g} {b}");
        let [r, g, b] = grade("sepia", 60, [120; 3]);
        assert!(r > g && g > b, "{r} {g} {b}");
        let [r, _, b] = grade("warm look", 60, [120; 3]);
        assert!(r > 120 && b < 120);
        let [r, _, b] = grade("cold light", 60, [120; 3]);
        assert!(r < 120 && b > 120);
        let [r, g, b] = grade("day for night", 60, [180; 3]);
        assert!(b > r && g < 120, "{r} {g} {b}");
        assert!(grade("high contrast", 60, [60; 3])[0] < 50);
        assert!(grade("high contrast", 60, [200; 3])[0] > 210);
        assert_eq!(grade("static", 60, [1, 2, 3]), [1, 2, 3]);
    }

    #[test]
    fn fades_begin_and_end_in_their_colour() {
        assert_eq!(grade("fade in", 0, [90; 3]), [0; 3]);
        assert_eq!(grade("fade in, fade out to white", 149, [90; 3]), [255; 3]);
        assert_eq!(grade("fade in and out", 75, [90; 3]), [90; 3]);
        let half = grade("fade out", 135, [90; 3])[0];
        assert!((20..70).contains(&half), "{half}");
    }

    #[test]
    fn a_vignette_darkens_the_corners_alone() {
        let direction = Direction::parse("vignette");
        let options = RenderOptions::resolve(&RequestedOptions::default(), &direction).unwrap();
        let mut rgba = vec![200; 33 * 33 * 4];
        ColourGrade::new(&direction, &options).apply(9, 33, &mut rgba);
        assert!(rgba[0] < 140, "{}", rgba[0]);
        assert_eq!(rgba[(16 * 33 + 16) * 4], 200);
    }
}
