//! Stem shares of each bin: four shares that sum to one.

use crate::parallel::{CancelCheck, WorkCancelled, fill_rows};
use crate::stem::STEMS;
use crate::stft::{ChannelSpectra, MAIN};
use crate::wiener::WienerFilter;

/// Four shares for each bin: frame by frame, and within a frame stem by stem.
pub(crate) struct StemShares(Vec<f32>);

const BINS: usize = MAIN.size / 2 + 1;
const FRAME_LEN: usize = STEMS * BINS;

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
