//! Stem shares of each bin: four shares that sum to one.

use crate::parallel::{CancelCheck, WorkCancelled, fill_rows};
use crate::plane::SpectralPlane;
use crate::stem::STEMS;
use crate::stft::{ChannelSpectra, MAIN};
use crate::wiener::WienerFilter;

/// Four shares for each bin: frame by frame, and within a frame stem by stem.
pub(crate) struct StemShares(Vec<f32>);

const BINS: usize = MAIN.size / 2 + 1;
const FRAME_LEN: usize = STEMS * BINS;

/// The first of the stems.
const VOICE: usize = 0;

/// The last of the stems after the voice: what is neither drums nor bass.
const REST: usize = STEMS - 2;

/// A share too small to be divided.
const LEAST_SHARE: f32 = 1e-6;

impl StemShares {
    /// Calls `write` with the index and the shares of each of `frames` frames, on several threads.
    pub(crate) fn build(
        frames: usize,
        stop: CancelCheck<'_>,
        write: impl Fn(usize, &mut [f32]) + Sync,
    ) -> Result<Self, WorkCancelled> {
        let mut data = vec![0.0; frames * FRAME_LEN];
        fill_rows(&mut data, FRAME_LEN, stop, write)?;
        Ok(Self(data))
    }

    /// A quarter of every bin to each stem.
    #[cfg(test)]
    pub(crate) fn even(frames: usize) -> Self {
        Self(vec![0.25; frames * FRAME_LEN])
    }

    pub(crate) fn frames(&self) -> usize {
        self.0.len() / FRAME_LEN
    }

    /// One stem's shares of a frame.
    pub(crate) fn stem(&self, t: usize, stem: usize) -> &[f32] {
        &self.0[t * FRAME_LEN + stem * BINS..][..BINS]
    }

    /// The shares of the voice in a frame.
    pub(crate) fn voice(&self, t: usize) -> &[f32] {
        self.stem(t, VOICE)
    }

    /// Makes the share of the voice a mean of its own, and of `heard` with this `weight`. The other
    /// stems keep their proportions to each other.
    pub(crate) fn mix_voice(
        &mut self,
        heard: &SpectralPlane,
        weight: f32,
        stop: CancelCheck<'_>,
    ) -> Result<(), WorkCancelled> {
        fill_rows(&mut self.0, FRAME_LEN, stop, |t, row| {
            let (voice, others) = row.split_at_mut(BINS);
            for (k, (voice, heard)) in voice.iter_mut().zip(heard.row(t)).enumerate() {
                let before = 1.0 - *voice;
                *voice += weight * (heard - *voice);
                let after = 1.0 - *voice;
                // Nothing has no proportions: what the voice loses is then what is left over.
                if before < LEAST_SHARE {
                    others[REST * BINS + k] += after - before;
                } else {
                    for stem in 0..STEMS - 1 {
                        others[stem * BINS + k] *= after / before;
                    }
                }
            }
        })
    }

    /// Learns the position of each stem in the stereo image, at every frequency.
    pub(crate) fn spatial_filter(
        &self,
        spectra: &[ChannelSpectra; 2],
        diffuse_share: f32,
        stop: CancelCheck<'_>,
    ) -> Result<WienerFilter, WorkCancelled> {
        let [left, right] = spectra;
        let rows = |t: usize| [left.row(t), right.row(t)];
        WienerFilter::learn(
            self.frames(),
            BINS,
            rows,
            |t, stem| self.stem(t, stem),
            diffuse_share,
            stop,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_stems_share_what_the_voice_gives_or_takes() {
        let write = |_: usize, row: &mut [f32]| {
            for (stem, share) in [0.4, 0.3, 0.2, 0.1].into_iter().enumerate() {
                row[stem * BINS..][..BINS].fill(share);
            }
            // All of this bin is voice.
            for (stem, share) in [1.0, 0.0, 0.0, 0.0].into_iter().enumerate() {
                row[stem * BINS + 1] = share;
            }
        };
        let mut shares = StemShares::build(2, CancelCheck(&|| false), write).unwrap();
        let mut heard = SpectralPlane::zeros(2, BINS);
        heard.values_mut().fill(1.0);
        heard.values_mut()[1] = 0.5;
        shares
            .mix_voice(&heard, 0.5, CancelCheck(&|| false))
            .unwrap();
        for (bin, expected) in [(0, [0.7, 0.15, 0.1, 0.05]), (1, [0.75, 0.0, 0.0, 0.25])] {
            for (stem, expected) in expected.into_iter().enumerate() {
                assert!((shares.stem(0, stem)[bin] - expected).abs() < 1e-6);
            }
        }
    }
}
