//! Sub-fingerprints of 32 bits, 86 a second, after J. Haitsma and T. Kalker, "A Highly Robust
//! Audio Fingerprinting System" (ISMIR 2002): the signs of the differences of energy between
//! neighbouring bands and frames. This module knows nothing of files or codecs.

use std::collections::HashMap;

use dsp::{Complex32, fft};

use super::PrintMatch;

/// Maximum number of seconds of sound in one print.
pub const MAX_SECONDS: usize = 3600;
/// The paper's threshold for blocks of 256, at which it expects one false alarm in 10^19.
pub const THRESHOLD: f32 = 0.35;
/// Sub-fingerprints that have to overlap: the paper's block, of 3 s.
const BLOCK: usize = 256;
/// Samples per second, per frame, and from one frame to the next.
const RATE: f64 = 5512.5;
const FRAME: usize = 2048;
const STEP: usize = 64;
const BANDS: usize = 33;
const LOWEST: f32 = 300.0;
const HIGHEST: f32 = 2000.0;
/// Half the resampler's length in periods of the lower rate.
const REACH: f64 = 12.0;
/// Maximum number of positions of one sub-fingerprint, and of offsets, that are examined.
const MAX_POSITIONS: usize = 64;
const MAX_OFFSETS: usize = 64;

/// A recording's sub-fingerprints.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SoundPrint {
    words: Vec<u32>,
}

/// Why there is no print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SoundPrintError {
    #[error("sound of {0} samples a second cannot be fingerprinted")]
    Rate(u32),
    #[error("a print covers at most {MAX_SECONDS} s")]
    TooLong,
    /// Stored bytes that are not a print.
    #[error("not a stored print")]
    Stored,
}

impl SoundPrint {
    /// The print of one channel; callers add up several channels. Less than 0.4 s gives an empty
    /// print.
    pub fn from_mono(mono: &[f32], rate: u32) -> Result<Self, SoundPrintError> {
        if !(8_000..=384_000).contains(&rate) {
            return Err(SoundPrintError::Rate(rate));
        }
        if mono.len() / rate as usize >= MAX_SECONDS {
            return Err(SoundPrintError::TooLong);
        }
        let low = resample(mono, f64::from(rate));
        let energies = energies(&low);
        let words = energies.windows(2).map(|pair| match pair {
            [previous, current] => word(previous, current),
            _ => 0,
        });
        Ok(Self {
            words: words.collect(),
        })
    }

    /// The fingerprint's sub-fingerprints.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Keys under which an index finds recordings that may be alike: one sub-fingerprint in 32,
    /// chosen by its value, so that an excerpt chooses the same. At most `max_keys` of them.
    pub fn keys(&self, max_keys: usize) -> Vec<u32> {
        let rank = |word: u32| word.wrapping_mul(0x9e37_79b1);
        let mut keys: Vec<u32> = self
            .words
            .iter()
            .copied()
            .filter(|word| is_distinctive(*word))
            .collect();
        keys.retain(|word| rank(*word) < u32::MAX / 32);
        keys.sort_unstable_by_key(|word| rank(*word));
        keys.dedup();
        keys.truncate(max_keys);
        keys
    }

    /// Four bytes for each sub-fingerprint: 345 a second.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect()
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, SoundPrintError> {
        let (words, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(SoundPrintError::Stored);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "under a hundred"
        )]
        if words.len() > MAX_SECONDS * (RATE as usize / STEP + 1) {
            return Err(SoundPrintError::TooLong);
        }
        Ok(Self {
            words: words.iter().map(|word| u32::from_le_bytes(*word)).collect(),
        })
    }

    /// The best match of `other` with this one, among the offsets at which sub-fingerprints are
    /// equal; `None` if there is no such offset, or less than three seconds overlap.
    pub fn compare(&self, other: &Self) -> Option<PrintMatch> {
        // As in the paper, only offsets at which some word is equal are compared. Trying all would
        // cost the product of both lengths.
        let mut positions: HashMap<u32, Vec<usize>> = HashMap::new();
        for (index, word) in self
            .words
            .iter()
            .enumerate()
            .filter(|(_, word)| is_distinctive(**word))
        {
            let positions = positions.entry(*word).or_default();
            // A held note repeats one word many times, and each would suggest another offset.
            if positions.len() < MAX_POSITIONS {
                positions.push(index);
            }
        }
        let mut votes: HashMap<isize, u32> = HashMap::new();
        for (index, word) in other
            .words
            .iter()
            .enumerate()
            .filter(|(_, word)| is_distinctive(**word))
        {
            for position in positions.get(word).into_iter().flatten() {
                let offset = position.cast_signed() - index.cast_signed();
                *votes.entry(offset).or_default() += 1;
            }
        }
        let mut votes: Vec<(isize, u32)> = votes.into_iter().collect();
        votes.sort_by_key(|(offset, votes)| (std::cmp::Reverse(*votes), *offset));
        votes
            .into_iter()
            .take(MAX_OFFSETS)
            .filter_map(|(offset, _)| self.compare_at(other, offset))
            .min_by(|a, b| a.distance.total_cmp(&b.distance))
    }

    /// The best match, if the other recording counts as similar.
    pub fn match_within_threshold(&self, other: &Self) -> Option<PrintMatch> {
        self.compare(other)
            .filter(|candidate| candidate.distance < THRESHOLD)
    }

    fn compare_at(&self, other: &Self, offset: isize) -> Option<PrintMatch> {
        let a = self.words.get(offset.max(0).cast_unsigned()..)?;
        let b = other.words.get(offset.min(0).unsigned_abs()..)?;
        let (mut bits, mut count) = (0u32, 0usize);
        for (a, b) in a
            .iter()
            .zip(b)
            .filter(|(a, b)| is_distinctive(**a) || is_distinctive(**b))
        {
            bits += (a ^ b).count_ones();
            count += 1;
        }
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "at most 32 bits for an hour's words"
        )]
        (count >= BLOCK).then(|| {
            let seconds = STEP as f32 / RATE as f32;
            PrintMatch {
                distance: bits as f32 / (count * 32) as f32,
                offset_seconds: offset as f32 * seconds,
                overlap_seconds: count as f32 * seconds,
            }
        })
    }
}

/// Whether a word can identify a recording. One of equal bits, such as silence gives, cannot.
fn is_distinctive(word: u32) -> bool {
    word != 0 && word != u32::MAX
}

/// Resamples to [`RATE`] with a windowed sinc.
fn resample(samples: &[f32], rate: f64) -> Vec<f32> {
    let ratio = rate / RATE;
    let reach = REACH * ratio;
    let table = table();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positions in an hour of sound"
    )]
    (0..(samples.len() as f64 / ratio) as usize)
        .map(|out| {
            let centre = out as f64 * ratio;
            let from = (centre - reach).max(0.0).ceil() as usize;
            let to = ((centre + reach) as usize).min(samples.len().saturating_sub(1));
            let window = samples.get(from..=to).unwrap_or_default();
            let sum: f64 = window
                .iter()
                .enumerate()
                .map(|(index, sample)| {
                    let distance = ((from + index) as f64 - centre).abs() / ratio;
                    let kernel = table.get((distance * FINENESS) as usize).copied();
                    f64::from(*sample) * kernel.unwrap_or(0.0)
                })
                .sum();
            (sum / ratio) as f32
        })
        .collect()
}

/// Values of the kernel in one period of the lower rate: finer than 16-bit sound can represent.
const FINENESS: f64 = 4096.0;

/// The kernel's right half; its sines, if computed for each sample, would take most of the time.
fn table() -> Vec<f64> {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "some ten thousand values"
    )]
    (0..=(REACH * FINENESS) as usize)
        .map(|index| kernel((index as f64 + 0.5) / FINENESS))
        .collect()
}

/// Passes up to 0.45 of the lower rate: above the highest band there is room for the filter's
/// slope.
fn kernel(distance: f64) -> f64 {
    let pi = std::f64::consts::PI;
    let cutoff = 0.9;
    let sinc = if distance.abs() < 1e-9 {
        cutoff
    } else {
        (pi * cutoff * distance).sin() / (pi * distance)
    };
    sinc * (0.5 + 0.5 * (pi * distance / REACH).cos())
}

fn energies(samples: &[f32]) -> Vec<[f32; BANDS]> {
    let plan = fft::forward(FRAME);
    #[expect(clippy::cast_precision_loss, reason = "2048")]
    let window: Vec<f32> = (0..FRAME)
        .map(|index| {
            0.5 - 0.5 * (std::f32::consts::TAU * (index as f32 + 0.5) / FRAME as f32).cos()
        })
        .collect();
    let edges = edges();
    let mut buffer = vec![Complex32::default(); FRAME];
    let mut scratch = vec![Complex32::default(); plan.get_inplace_scratch_len()];
    let mut energies = Vec::with_capacity(samples.len() / STEP);
    for frame in samples.windows(FRAME).step_by(STEP) {
        for ((out, sample), window) in buffer.iter_mut().zip(frame).zip(&window) {
            *out = Complex32::new(sample * window, 0.0);
        }
        plan.process_with_scratch(&mut buffer, &mut scratch);
        energies.push(std::array::from_fn(|band| {
            let bins = edges.get(band).zip(edges.get(band + 1));
            let bins = bins.and_then(|(from, to)| buffer.get(*from..*to));
            bins.unwrap_or_default()
                .iter()
                .map(Complex32::norm_sqr)
                .sum()
        }));
    }
    energies
}

/// The bins at which bands begin, evenly on a logarithmic scale.
fn edges() -> [usize; BANDS + 1] {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bins of 2048"
    )]
    std::array::from_fn(|edge| {
        let fraction = edge as f32 / BANDS as f32;
        let frequency = LOWEST * (HIGHEST / LOWEST).powf(fraction);
        (frequency * FRAME as f32 / RATE as f32).round() as usize
    })
}

fn word(previous: &[f32; BANDS], current: &[f32; BANDS]) -> u32 {
    let differences = current.windows(2).zip(previous.windows(2));
    differences.fold(0, |word, pair| {
        // The paper's F(n, m): the sign of how the difference of two bands changed since the last
        // frame.
        let bit = match pair {
            ([low, high], [low_before, high_before]) => {
                (low - high) - (low_before - high_before) > 0.0
            }
            _ => false,
        };
        word << 1 | u32::from(bit)
    })
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a few seconds of sound"
    )]

    use super::*;

    /// Notes that follow each other, from a seed.
    fn tune(seed: u32, rate: u32, seconds: u32) -> Vec<f32> {
        let note = |number: u32| {
            let mixed = (seed * 1000 + number).wrapping_mul(2_654_435_761) >> 16;
            220.0 * 2.0f32.powf((mixed % 37) as f32 / 12.0)
        };
        (0..rate * seconds)
            .map(|index| {
                let time = index as f32 / rate as f32;
                let number = (time * 5.0) as u32;
                let fade = (-(time * 5.0).fract() * 2.0).exp();
                let voice = |pitch: f32| (std::f32::consts::TAU * pitch * time).sin();
                fade * 0.2
                    * (voice(note(number))
                        + 0.5 * voice(note(number) * 2.0)
                        + voice(note(number / 2 + 500)))
            })
            .collect()
    }

    #[test]
    fn another_rate_or_loudness_matches_and_another_tune_does_not() {
        let print = SoundPrint::from_mono(&tune(1, 44_100, 10), 44_100).unwrap();
        let quiet: Vec<f32> = tune(1, 32_000, 10)
            .iter()
            .map(|sample| sample * 0.3)
            .collect();
        let same = print
            .match_within_threshold(&SoundPrint::from_mono(&quiet, 32_000).unwrap())
            .unwrap();
        assert!(same.distance < 0.1, "{same:?}");
        assert!(
            print
                .match_within_threshold(
                    &SoundPrint::from_mono(&tune(2, 44_100, 10), 44_100).unwrap()
                )
                .is_none()
        );
    }

    #[test]
    fn a_part_is_found_at_its_place() {
        let whole = tune(3, 16_000, 16);
        let print = SoundPrint::from_mono(&whole, 16_000).unwrap();
        let part = SoundPrint::from_mono(&whole[16_000 * 5..16_000 * 12], 16_000).unwrap();
        let result = print.match_within_threshold(&part).unwrap();
        assert!((result.offset_seconds - 5.0).abs() < 0.05, "{result:?}");
    }

    #[test]
    fn silence_matches_nothing() {
        let print = SoundPrint::from_mono(&vec![0.0; 16_000 * 8], 16_000).unwrap();
        assert_eq!(print.compare(&print), None);
    }

    #[test]
    fn is_stored_and_read() {
        let print = SoundPrint::from_mono(&tune(1, 8_000, 2), 8_000).unwrap();
        assert!(!print.words().is_empty());
        assert_eq!(SoundPrint::from_bytes(&print.to_bytes()), Ok(print));
        assert_eq!(
            SoundPrint::from_bytes(&[0; 5]),
            Err(SoundPrintError::Stored)
        );
    }

    #[test]
    fn unsupported_rates_are_refused() {
        assert_eq!(
            SoundPrint::from_mono(&[], 100),
            Err(SoundPrintError::Rate(100))
        );
        assert_eq!(SoundPrint::from_mono(&[], 8_000), Ok(SoundPrint::default()));
    }
}
