//! A stem's cover: its spectrogram, low notes at the bottom, time from left to right.
//!
//! Loudness is drawn as lightness alone (hue only follows it), so that it reads the same for a
//! colour-blind viewer and on a dark or a light page.

use dsp::Complex32;
use dsp::fft::{self, RealToComplex};

use super::ArtworkError;
use super::canvas::{Canvas, byte};
use super::colour::{OklchColour, SeededRandom};
use super::waveform::longest;

/// Square cover art of a clip by its frequencies, PNG bytes. `rate` is in samples a second; 0 is
/// read as 44,100.
pub fn spectrogram_cover(
    seed: &str,
    channels: &[Vec<f32>],
    rate: u32,
    side: u32,
) -> Result<Vec<u8>, ArtworkError> {
    let mut sketch = SpectrogramSketch::new(seed, longest(channels), rate);
    sketch.push(channels);
    sketch.draw_cover(side)
}

/// The data for a cover, collected from a clip that arrives in pieces: the spectrum at a few
/// hundred moments.
pub struct SpectrogramSketch {
    seed: String,
    frames: usize,
    fft: BandAnalyser,
    /// The channels' sum from sample `start` on; earlier samples are no longer needed.
    sound: Vec<f32>,
    start: usize,
    /// Moments analysed so far.
    columns: usize,
    cells: Vec<f32>,
}

impl SpectrogramSketch {
    /// Prepares for a clip of `frames` samples in each channel.
    pub fn new(seed: &str, frames: usize, rate: u32) -> Self {
        Self {
            seed: seed.to_owned(),
            frames,
            fft: BandAnalyser::new(if rate == 0 { 44_100 } else { rate }),
            sound: Vec::new(),
            start: 0,
            columns: 0,
            cells: vec![0.0; COLUMNS * ROWS],
        }
    }

    /// Adds the next samples of every channel.
    pub fn push(&mut self, channels: &[Vec<f32>]) {
        let length = self.sound.len();
        self.sound.resize(length + longest(channels), 0.0);
        // Broken samples count as silence, because one of them would spoil every transform that
        // contains it.
        for channel in channels {
            for (sum, sample) in self.sound[length..].iter_mut().zip(channel) {
                *sum += if sample.is_finite() {
                    sample.clamp(-4.0, 4.0)
                } else {
                    0.0
                };
            }
        }
        while self.columns < COLUMNS
            && self.centre(self.columns) + WINDOW / 2 <= self.start + self.sound.len()
        {
            self.analyse_next_column();
        }
        // What lies before the next moment's window is no longer needed.
        let next = match self.columns {
            COLUMNS => self.start + self.sound.len(),
            column => self.centre(column).saturating_sub(WINDOW / 2),
        };
        let unneeded = next.saturating_sub(self.start).min(self.sound.len());
        self.sound.drain(..unneeded);
        self.start += unneeded;
    }

    /// Draws the cover of the samples so far; PNG bytes.
    pub fn draw_cover(&mut self, side: u32) -> Result<Vec<u8>, ArtworkError> {
        let mut canvas = Canvas::new(side)?;
        // Missing samples count as silence.
        while self.columns < COLUMNS {
            self.analyse_next_column();
        }
        let ramp = colour_ramp(&mut SeededRandom::new("spectrogram", &[&self.seed]));
        let field = LoudnessGrid::from_strengths(&self.cells);
        canvas.shade(|x, y| {
            let level = usize::from(byte(field.loudness_at(x, 1.0 - y)));
            ramp.get(level).copied().unwrap_or([0; 3])
        });
        canvas.into_png()
    }

    /// The middle sample of a moment; moments are spread evenly.
    fn centre(&self, column: usize) -> usize {
        let centre = (2 * column + 1) as u128 * self.frames as u128 / (2 * COLUMNS) as u128;
        usize::try_from(centre).unwrap_or(0)
    }

    /// Analyses the next moment.
    fn analyse_next_column(&mut self) {
        let centre = self.centre(self.columns);
        let rows = self.fft.band_strengths(&self.sound, self.start, centre);
        for (row, power) in rows.into_iter().enumerate() {
            if let Some(cell) = self.cells.get_mut(row * COLUMNS + self.columns) {
                *cell = power;
            }
        }
        self.columns += 1;
    }
}

/// 256 colours from dark to light with even steps of lightness.
fn colour_ramp(random: &mut SeededRandom) -> Vec<[u8; 3]> {
    let hue = random.range(0.0, 360.0);
    let hue_range = random.range(70.0, 130.0) * if random.chance(0.5) { 1.0 } else { -1.0 };
    (0..=255_u8)
        .map(|level| {
            let t = f32::from(level) / 255.0;
            let chroma = 0.06 + 0.14 * (t * std::f32::consts::PI).sin().powf(0.8);
            OklchColour::new(0.16 + 0.80 * t, chroma, hue + hue_range * t)
                .rgb()
                .map(byte)
        })
        .collect()
}

/// Loudness over time and frequency, each value 0–1.
struct LoudnessGrid {
    /// Row after row from the lowest note, each of `COLUMNS` moments.
    cells: Vec<f32>,
}

impl LoudnessGrid {
    /// Strengths as loudness relative to the loudest.
    fn from_strengths(strengths: &[f32]) -> Self {
        // Relative to the loudest, so that a quiet stem gets as clear a picture as a loud one.
        let max = strengths.iter().copied().fold(0.0, f32::max);
        let relative = |strength: &f32| {
            if max < 1.0e-9 {
                0.0
            } else {
                brightness(*strength / max)
            }
        };
        Self {
            cells: strengths.iter().map(relative).collect(),
        }
    }

    /// The value interpolated between the four nearest cells; `time` and `height` are 0–1.
    fn loudness_at(&self, time: f32, height: f32) -> f32 {
        let (column, across) = split(time, COLUMNS);
        let (row, up) = split(height, ROWS);
        let cell = |r: usize, c: usize| self.cells.get(r * COLUMNS + c).copied().unwrap_or(0.0);
        let low = cell(row, column) + (cell(row, column + 1) - cell(row, column)) * across;
        let high =
            cell(row + 1, column) + (cell(row + 1, column + 1) - cell(row + 1, column)) * across;
        low + (high - low) * up
    }
}

/// Measures the strength of the notes around one moment.
struct BandAnalyser {
    transform: std::sync::Arc<dyn RealToComplex<f32>>,
    input: Vec<f32>,
    output: Vec<Complex32>,
    scratch: Vec<Complex32>,
    window: Vec<f32>,
    /// For each row, its first and last position in the transform's output.
    bands: Vec<(f32, f32)>,
}

impl BandAnalyser {
    fn new(rate: u32) -> Self {
        let transform = fft::real_forward(WINDOW);
        let window = (0..WINDOW_U16)
            .map(|index| {
                0.5 - 0.5 * (f32::from(index) * std::f32::consts::TAU / f32::from(WINDOW_U16)).cos()
            })
            .collect();
        Self {
            input: transform.make_input_vec(),
            output: transform.make_output_vec(),
            scratch: transform.make_scratch_vec(),
            window,
            bands: bands(rate),
            transform,
        }
    }

    /// The strength of each row's band in the window around `centre` of a sound whose first sample
    /// is number `start`; silence where the sound has no sample.
    fn band_strengths(&mut self, sound: &[f32], start: usize, centre: usize) -> Vec<f32> {
        for (index, (slot, weight)) in self.input.iter_mut().zip(&self.window).enumerate() {
            let position = (centre + index).checked_sub(WINDOW / 2 + start);
            let sample = position.and_then(|position| sound.get(position));
            *slot = sample.map_or(0.0, |sample| sample * weight);
        }
        // The buffers have the plan's own lengths, so the transform cannot fail. A failure would be
        // drawn as silence.
        if self
            .transform
            .process_with_scratch(&mut self.input, &mut self.output, &mut self.scratch)
            .is_err()
        {
            return vec![0.0; ROWS];
        }
        let magnitudes: Vec<f32> = self.output.iter().map(|bin| bin.norm()).collect();
        self.bands
            .iter()
            .map(|band| strongest(&magnitudes, *band))
            .collect()
    }
}

/// Row limits as positions in the transform's output: equal musical intervals from 45 Hz to 14 kHz.
#[expect(
    clippy::cast_precision_loss,
    reason = "a sample rate needs no more than 24 bits here"
)]
fn bands(rate: u32) -> Vec<(f32, f32)> {
    let rate = rate as f32;
    // Recordings at low rates do not reach 14 kHz: their rows end at half the rate.
    let (low, high) = (45.0_f32.min(rate / 8.0), 14_000.0_f32.min(rate / 2.0));
    let bin_position = |row: u16| {
        let hertz = low * (high / low).powf(f32::from(row) / f32::from(ROWS_U16));
        hertz * f32::from(WINDOW_U16) / rate
    };
    (0..ROWS_U16)
        .map(|row| (bin_position(row), bin_position(row + 1)))
        .collect()
}

/// The largest value within a band, or, where the band is narrower than one value, the mix of its
/// neighbours.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bands lie inside the output"
)]
fn strongest(magnitudes: &[f32], (from, to): (f32, f32)) -> f32 {
    let middle = f32::midpoint(from, to).max(0.0);
    let (below, fraction) = (middle.floor() as usize, middle.fract());
    let value = |index: usize| magnitudes.get(index).copied().unwrap_or(0.0);
    let interpolated = value(below) + (value(below + 1) - value(below)) * fraction;
    let band = magnitudes
        .get(from.ceil().max(0.0) as usize..(to.ceil().max(0.0) as usize).min(magnitudes.len()));
    band.unwrap_or(&[])
        .iter()
        .copied()
        .fold(interpolated, f32::max)
}

/// The lightness for a strength relative to the loudest (0–1). It shows 66 dB, with a little more
/// contrast in loud parts.
fn brightness(strength: f32) -> f32 {
    let decibel = 20.0 * strength.max(1.0e-6).log10();
    (1.0 + decibel / 66.0).clamp(0.0, 1.0).powf(1.25)
}

/// A position 0–1 on a scale of `count` cells: the cell before it and how far past that.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the cells"
)]
#[expect(clippy::cast_precision_loss, reason = "a few hundred cells")]
fn split(position: f32, count: usize) -> (usize, f32) {
    let scaled = position.clamp(0.0, 1.0) * (count - 1) as f32;
    let cell = (scaled.floor() as usize).min(count - 2);
    (cell, scaled - cell as f32)
}

/// Number of moments that are analysed.
const COLUMNS: usize = 320;
/// Bands of frequency.
const ROWS: usize = ROWS_U16 as usize;
const ROWS_U16: u16 = 200;
/// Samples in one window: 93 ms at 44.1 kHz, long enough to distinguish bass notes.
const WINDOW: usize = WINDOW_U16 as usize;
const WINDOW_U16: u16 = 4096;
