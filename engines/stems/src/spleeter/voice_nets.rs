//! The share of the voice in every bin, as the two nets hear it.
//!
//! The nets see the magnitudes of both channels below 11 kHz, in windows of about twelve seconds.
//! What they hear in a window depends a little on what surrounds it, so no window is filled up with
//! silence: the last one moves back, and a short clip is mirrored.

use super::convolution::FeatureMap;
use super::unet::STRIDE;
use super::weights::{INPUTS, NetWeights};
use crate::parallel::{CancelCheck, WorkCancelled, run_both};
use crate::plane::SpectralPlane;
use crate::stft::{ChannelSpectra, MAIN};

/// Bins that the nets see.
const SEEN_BINS: usize = 1_024;

/// Frames of the windows on which the nets were trained.
const TRAINED_FRAMES: usize = 512;

/// Frames of the longest window: a little more, so that two cover one of the engine's blocks.
const MAX_FRAMES: usize = TRAINED_FRAMES + STRIDE;

/// The two nets, ready to run.
pub struct VoiceNets {
    weights: NetWeights,
}

impl VoiceNets {
    #[must_use]
    pub const fn new(weights: NetWeights) -> Self {
        Self { weights }
    }

    /// The share of the voice in every bin of `frames` frames.
    pub(crate) fn voice_shares(
        &self,
        spectra: &[ChannelSpectra; 2],
        frames: usize,
        stop: CancelCheck<'_>,
    ) -> Result<SpectralPlane, WorkCancelled> {
        let windows = NetWindows::cover(frames);
        let mut shares = SpectralPlane::zeros(frames, MAIN.bins());
        let mut counts = vec![0.0; frames];
        for start in &windows.starts {
            let mix = windows.magnitudes(spectra, *start, frames, stop)?;
            let (voice, accompaniment) = run_both(
                || self.weights.voice.hear(&mix, stop),
                || self.weights.accompaniment.hear(&mix, stop),
            )?;
            for row in 0..windows.length.min(frames - start) {
                let t = start + row;
                add_shares(shares.row_mut(t), &voice, &accompaniment, row);
                counts[t] += 1.0;
            }
        }
        for (t, count) in counts.into_iter().enumerate() {
            finish_shares(shares.row_mut(t), count);
        }
        Ok(shares)
    }
}

/// Windows of equal length that cover some frames.
#[derive(Debug, PartialEq, Eq)]
struct NetWindows {
    length: usize,
    starts: Vec<usize>,
}

impl NetWindows {
    fn cover(frames: usize) -> Self {
        let count = frames.div_ceil(MAX_FRAMES).max(1);
        let length = frames.div_ceil(count).next_multiple_of(STRIDE);
        let length = length.max(TRAINED_FRAMES);
        let last = frames.saturating_sub(length);
        Self {
            length,
            starts: (0..count).map(|i| last.min(i * length)).collect(),
        }
    }

    /// The nets' input for the window at `start`.
    fn magnitudes(
        &self,
        spectra: &[ChannelSpectra; 2],
        start: usize,
        frames: usize,
        stop: CancelCheck<'_>,
    ) -> Result<FeatureMap, WorkCancelled> {
        let mut map = FeatureMap::zeros(INPUTS, self.length, SEEN_BINS);
        for (index, row) in map.values.chunks_exact_mut(SEEN_BINS).enumerate() {
            stop.check()?;
            let (channel, t) = (
                index / self.length,
                mirrored(start + index % self.length, frames),
            );
            for (magnitude, x) in row.iter_mut().zip(spectra[channel].row(t)) {
                *magnitude = x.norm();
            }
        }
        Ok(map)
    }
}

/// A frame of an endless mirror image of `frames` frames.
fn mirrored(t: usize, frames: usize) -> usize {
    let last = frames.saturating_sub(1);
    if last == 0 {
        return 0;
    }
    let t = t % (2 * last);
    t.min(2 * last - t)
}

/// Adds a row's shares of the voice, by the powers that the nets hear.
fn add_shares(shares: &mut [f32], voice: &FeatureMap, accompaniment: &FeatureMap, row: usize) {
    for (k, share) in shares.iter_mut().take(SEEN_BINS).enumerate() {
        let power = |map: &FeatureMap| -> f32 {
            (0..INPUTS)
                .map(|channel| map.row(channel, row)[k].powi(2))
                .sum()
        };
        let (voice, rest) = (power(voice), power(accompaniment));
        *share += (voice + FLOOR) / (voice + rest + 2.0 * FLOOR);
    }
}

/// A power far below anything audible: a bin in which neither net hears anything is shared evenly.
const FLOOR: f32 = 1e-12;

/// Divides by the number of windows that saw the frame. The nets do not see high bins, which get
/// the mean of the others.
#[expect(clippy::cast_precision_loss, reason = "a handful of bins")]
fn finish_shares(shares: &mut [f32], count: f32) {
    let (seen, rest) = shares.split_at_mut(SEEN_BINS);
    for share in &mut *seen {
        *share /= count;
    }
    rest.fill(seen.iter().sum::<f32>() / SEEN_BINS as f32);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_every_frame() {
        for frames in 1..4_000 {
            let windows = NetWindows::cover(frames);
            assert!((TRAINED_FRAMES..=MAX_FRAMES).contains(&windows.length));
            let mut covered = 0;
            for start in &windows.starts {
                assert!(*start <= covered);
                assert!(*start == 0 || start + windows.length <= frames);
                covered = start + windows.length;
            }
            assert!(covered >= frames, "{frames}");
        }
        // A block of 24 s needs two windows.
        let expected = NetWindows {
            length: 576,
            starts: vec![0, 459],
        };
        assert_eq!(NetWindows::cover(1_035), expected);
    }

    #[test]
    fn short_clips_are_mirrored() {
        let frames: Vec<usize> = (0..8).map(|t| mirrored(t, 4)).collect();
        assert_eq!(frames, [0, 1, 2, 3, 2, 1, 0, 1]);
        assert_eq!((mirrored(511, 1), mirrored(511, 2)), (0, 1));
    }
}
