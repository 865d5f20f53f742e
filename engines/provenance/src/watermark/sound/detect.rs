//! The sound detector: reads the mark from each band's loudness minus that of its surroundings,
//! folded into one tile.

use std::sync::Arc;

use dsp::Complex32;
use dsp::fft::{self, Fft};

use super::super::code::{CODED_BITS, decode};
use super::super::{MarkKey, WatermarkError};
use super::layout::SoundTileLayout;
use super::{BANDS, RATES, STEP, STEPS, SoundMark, bands, window_length};

/// Maximum number of seconds that are analysed.
pub const MAX_SECONDS: usize = 600;
/// Positions within a step at which the tile may begin.
const POSITIONS_PER_STEP: usize = 8;
const POSITIONS: usize = STEPS * POSITIONS_PER_STEP;
/// Positions that are decoded.
const DECODED_POSITIONS: usize = 4;
/// Surroundings of a cell: steps to either side, and bands.
const AROUND_STEPS: f32 = 1.5;
const AROUND_BANDS: usize = 8;
/// Limit of a cell's value, in dB, because sudden onsets of sound are not part of a mark.
const LIMIT: f32 = 6.0;
/// Steps to either side over which a band's variance is measured, which determines its weight; and
/// the constant added to it, in dB squared.
const VARIANCE_STEPS: f32 = 6.0;
const VARIANCE_FLOOR: f32 = 0.3;
/// Energy below this fraction of the mean counts as silence.
const SILENCE: f32 = 1e-7;

/// Collects sound and reads the mark in it.
pub struct SoundDetector {
    rate: u32,
    bands: Vec<Option<usize>>,
    window: Vec<f32>,
    forward: Arc<dyn Fft<f32>>,
    scratch: Vec<Complex32>,
    pending: Vec<f32>,
    /// The energy of each band in each window.
    energies: Vec<[f32; BANDS]>,
}

impl SoundDetector {
    pub fn new(rate: u32) -> Result<Self, WatermarkError> {
        if !RATES.contains(&rate) {
            return Err(WatermarkError::Rate(rate));
        }
        let length = window_length(rate);
        let forward = fft::forward(length);
        #[expect(clippy::cast_precision_loss, reason = "at most 8192")]
        let window = (0..length).map(|index| {
            0.5 - 0.5 * (std::f32::consts::TAU * (index as f32 + 0.5) / length as f32).cos()
        });
        Ok(Self {
            rate,
            bands: bands(length, rate),
            window: window.collect(),
            scratch: vec![Complex32::default(); forward.get_inplace_scratch_len()],
            forward,
            pending: Vec::new(),
            energies: Vec::new(),
        })
    }

    /// The collected sound, which is the same for every key, so that a process without keys can
    /// collect it for another one. Samples of an incomplete window are left out.
    pub fn to_bytes(&self) -> Vec<u8> {
        let energies = self.energies.iter().flatten();
        let energies = energies.map(|energy| energy.to_le_bytes());
        let rate = self.rate.to_le_bytes();
        [rate].into_iter().chain(energies).flatten().collect()
    }

    /// A detector with the collected sound of another one; `None` if the bytes are not from
    /// [`Self::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<4>() else {
            return None;
        };
        let (rate, energies) = words.split_first()?;
        let mut detector = Self::new(u32::from_le_bytes(*rate)).ok()?;
        let energies: Vec<f32> = energies
            .iter()
            .map(|word| f32::from_le_bytes(*word))
            .collect();
        let (rows, []) = energies.as_chunks::<BANDS>() else {
            return None;
        };
        let max_windows = MAX_SECONDS * detector.rate as usize / detector.hop();
        let is_energy = |energy: &f32| energy.is_finite() && *energy >= 0.0;
        let is_sound = rows.len() <= max_windows && energies.iter().all(is_energy);
        detector.energies = rows.to_vec();
        is_sound.then_some(detector)
    }

    /// Adds the next samples of every channel; those after [`MAX_SECONDS`] are ignored.
    pub fn push_samples(&mut self, new_samples: &[Vec<f32>]) {
        let count = new_samples.first().map_or(0, Vec::len);
        let old_length = self.pending.len();
        self.pending.resize(old_length + count, 0.0);
        for channel in new_samples {
            for (sum, sample) in self.pending.iter_mut().skip(old_length).zip(channel) {
                // All channels have the same mark, so it adds up, and survives a mix to mono.
                *sum += sample;
            }
        }
        let hop = self.hop();
        let max_windows = MAX_SECONDS * self.rate as usize / hop;
        let mut start = 0;
        while let Some(samples) = self.pending.get(start..start + self.window.len()) {
            if self.energies.len() >= max_windows {
                break;
            }
            let windowed = samples.iter().zip(&self.window);
            let mut frame: Vec<Complex32> = windowed
                .map(|(sample, window)| Complex32::new(sample * window, 0.0))
                .collect();
            self.forward
                .process_with_scratch(&mut frame, &mut self.scratch);
            let mut energies = [0.0; BANDS];
            for (value, band) in frame.iter().zip(&self.bands) {
                if let Some(sum) = band.and_then(|band| energies.get_mut(band)) {
                    *sum += value.norm_sqr();
                }
            }
            self.energies.push(energies);
            start += hop;
        }
        self.pending.drain(..start.min(self.pending.len()));
        if self.energies.len() >= max_windows {
            self.pending.clear();
        }
    }

    /// Reads the mark of a key, if the sound has one.
    pub fn read(&self, key: &MarkKey) -> Option<SoundMark> {
        let folded = self.fold();
        let layout = SoundTileLayout::for_key(key);
        let mut scores = scores(&folded, &layout);
        let deviation = {
            let squares: f32 = scores.iter().map(|score| score * score).sum();
            #[expect(clippy::cast_precision_loss, reason = "440 positions")]
            let mean = squares / POSITIONS as f32;
            mean.sqrt().max(f32::MIN_POSITIVE)
        };
        for _ in 0..DECODED_POSITIONS {
            let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
            let (position, score) = best.map(|(position, score)| (position, *score))?;
            let soft = layout.bits(|cell| value(&folded, position, cell));
            if let Some(mark) = decode_mark(&soft).filter(|mark| mark.key_id == key.id) {
                return Some(SoundMark {
                    score: score / deviation,
                    ..mark
                });
            }
            // Neighbouring positions are nearly the same, so they are not tried too.
            for neighbour in 0..POSITIONS_PER_STEP {
                let neighbour =
                    (position + POSITIONS + neighbour - POSITIONS_PER_STEP / 2) % POSITIONS;
                if let Some(score) = scores.get_mut(neighbour) {
                    *score = f32::NEG_INFINITY;
                }
            }
        }
        None
    }

    /// How far the likeliest position stands out, in standard deviations: unmarked sound shows what
    /// chance alone gives.
    pub fn score(&self, key: &MarkKey) -> f32 {
        let scores = scores(&self.fold(), &SoundTileLayout::for_key(key));
        let squares: f32 = scores.iter().map(|score| score * score).sum();
        #[expect(clippy::cast_precision_loss, reason = "440 positions")]
        let deviation = (squares / scores.len() as f32).sqrt();
        let best = scores.iter().copied().fold(0.0, f32::max);
        best / deviation.max(f32::MIN_POSITIVE)
    }

    fn hop(&self) -> usize {
        self.window.len() / 4
    }

    /// The weighted loudness folded into one tile, with the windows of a step added up: for each
    /// position, the values that the tile's first row would have there.
    fn fold(&self) -> Vec<[f32; BANDS]> {
        let values = self.weighted_loudness();
        let mut fine = vec![[0.0f32; BANDS]; POSITIONS];
        let unit = STEP.0 * u64::from(self.rate);
        for (number, row) in values.iter().enumerate() {
            // The window's start is used in place of its middle. A constant shift does not matter,
            // as the tile's beginning is searched for anyway.
            let sample = (number * self.hop()) as u64;
            let position =
                (sample * STEP.1 * POSITIONS_PER_STEP as u64 + unit / 2) / unit % POSITIONS as u64;
            let sums = usize::try_from(position)
                .ok()
                .and_then(|index| fine.get_mut(index));
            for (sum, value) in sums.into_iter().flatten().zip(row) {
                *sum += value;
            }
        }
        let steps = (0..POSITIONS).map(|index| {
            let mut sums = [0.0f32; BANDS];
            for row in fine.iter().cycle().skip(index).take(POSITIONS_PER_STEP) {
                for (sum, value) in sums.iter_mut().zip(row) {
                    *sum += value;
                }
            }
            sums
        });
        steps.collect()
    }

    /// The loudness of each band in dB minus its surroundings, weighted by the band's variance.
    fn weighted_loudness(&self) -> Vec<[f32; BANDS]> {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "a mean over some ten thousand windows"
        )]
        let mean = {
            let sum: f64 = self.energies.iter().flatten().copied().map(f64::from).sum();
            (sum / (self.energies.len().max(1) * BANDS) as f64) as f32
        };
        let floor = mean * SILENCE + f32::MIN_POSITIVE;
        let loudness: Vec<[f32; BANDS]> = self
            .energies
            .iter()
            .map(|row| row.map(|energy| 10.0 * (energy + floor).log10()))
            .collect();
        let surroundings = means(&loudness, self.windows(AROUND_STEPS));
        let differences: Vec<[f32; BANDS]> = loudness
            .iter()
            .zip(&surroundings)
            .map(|(row, surroundings)| subtract_surroundings(row, surroundings))
            .collect();
        let squares: Vec<[f32; BANDS]> = differences
            .iter()
            .map(|row| row.map(|value| value * value))
            .collect();
        let variances = means(&squares, self.windows(VARIANCE_STEPS));
        let weighted = differences.iter().zip(&variances).map(|(row, variances)| {
            std::array::from_fn(|band| match (row.get(band), variances.get(band)) {
                (Some(value), Some(variance)) => value / (variance + VARIANCE_FLOOR),
                _ => 0.0,
            })
        });
        weighted.collect()
    }

    /// The number of windows in this many steps.
    fn windows(&self, steps: f32) -> usize {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a hundred"
        )]
        {
            let seconds = steps * STEP.0 as f32 / STEP.1 as f32;
            (seconds * self.rate as f32 / self.hop() as f32).round() as usize
        }
    }
}

/// How well the pilot fits at each position.
fn scores(folded: &[[f32; BANDS]], layout: &SoundTileLayout) -> Vec<f32> {
    let pilot: Vec<(usize, f32)> = layout.pilot().collect();
    let fit = |position: usize| -> f32 {
        let values = pilot
            .iter()
            .map(|(cell, sign)| value(folded, position, *cell) * sign);
        values.sum()
    };
    (0..POSITIONS).map(fit).collect()
}

/// A cell's value if the tile begins at this position.
fn value(folded: &[[f32; BANDS]], start: usize, cell: usize) -> f32 {
    let row_position = (start + cell / BANDS * POSITIONS_PER_STEP) % POSITIONS;
    let row = folded.get(row_position);
    row.and_then(|row| row.get(cell % BANDS))
        .copied()
        .unwrap_or(0.0)
}

fn decode_mark(soft: &[f32; CODED_BITS]) -> Option<SoundMark> {
    let mark = decode(soft, None)?;
    Some(SoundMark {
        key_id: mark.key_id,
        media_id: mark.media_id,
        score: 0.0,
        corrected: mark.corrected,
    })
}

/// A row minus its surroundings in time and then in frequency, limited to [`LIMIT`].
fn subtract_surroundings(row: &[f32; BANDS], surroundings: &[f32; BANDS]) -> [f32; BANDS] {
    let mut differences = [0.0; BANDS];
    for ((difference, value), surrounding) in differences.iter_mut().zip(row).zip(surroundings) {
        *difference = value - surrounding;
    }
    std::array::from_fn(|band| {
        let neighbours = differences
            .get(band.saturating_sub(AROUND_BANDS)..(band + AROUND_BANDS + 1).min(BANDS))
            .unwrap_or_default();
        #[expect(clippy::cast_precision_loss, reason = "17 bands")]
        let mean = neighbours.iter().sum::<f32>() / neighbours.len().max(1) as f32;
        (differences.get(band).unwrap_or(&mean) - mean).clamp(-LIMIT, LIMIT)
    })
}

/// Means over `reach` rows to either side, fewer at the ends.
fn means(rows: &[[f32; BANDS]], reach: usize) -> Vec<[f32; BANDS]> {
    let mut sums = vec![[0.0f64; BANDS]];
    let mut sum = [0.0f64; BANDS];
    for row in rows {
        for (sum, value) in sum.iter_mut().zip(row) {
            *sum += f64::from(*value);
        }
        sums.push(sum);
    }
    let mean = |index: usize| {
        let (from, to) = (
            index.saturating_sub(reach),
            (index + reach + 1).min(rows.len()),
        );
        let (before, after) = (sums.get(from), sums.get(to));
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "a mean of few values"
        )]
        std::array::from_fn(|band| {
            let (before, after) = (
                before.and_then(|row| row.get(band)).unwrap_or(&0.0),
                after.and_then(|row| row.get(band)).unwrap_or(&0.0),
            );
            ((after - before) / (to - from) as f64) as f32
        })
    };
    (0..rows.len()).map(mean).collect()
}
