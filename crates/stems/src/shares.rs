//! Stem shares of each bin: four shares that sum to one.

use crate::parallel::{CancelCheck, WorkCancelled, fill_rows};
use crate::stem::STEMS;
use crate::stft::{ChannelSpectra, MAIN};
use crate::wiener::WienerFilter;

/// Four shares for each bin: frame by frame, and within a frame stem by stem.
pub(crate) struct StemShares(Vec<f32>);

const BINS: usize = MAIN.size / 2 + 1;
const FRAME: usize = STEMS * BINS;

impl StemShares {
    /// Calls `write` with the number and the shares of each of `frames`, on several threads.
    pub(crate) fn build(
        frames: usize,
        stop: CancelCheck<'_>,
        write: impl Fn(usize, &mut [f32]) + Sync,
    ) -> Result<Self, WorkCancelled> {
        let mut data = vec![0.0; frames * FRAME];
        fill_rows(&mut data, FRAME, stop, write)?;
        Ok(Self(data))
    }

    /// A quarter of every bin to each stem.
    #[cfg(test)]
    pub(crate) fn even(frames: usize) -> Self {
        Self(vec![0.25; frames * FRAME])
    }

    pub(crate) fn frames(&self) -> usize {
        self.0.len() / FRAME
    }

    /// One stem's shares of a frame.
    pub(crate) fn stem(&self, t: usize, stem: usize) -> &[f32] {
        &self.0[t * FRAME + stem * BINS..][..BINS]
    }

    /// The position of each stem in the stereo image, at every frequency.
    pub(crate) fn spatial_filter(
        &self,
        spectra: &[ChannelSpectra; 2],
        anywhere: f32,
        stop: CancelCheck<'_>,
    ) -> Result<WienerFilter, WorkCancelled> {
        let [left, right] = spectra;
        let rows = |t: usize| [left.row(t), right.row(t)];
        WienerFilter::learn(
            self.frames(),
            BINS,
            rows,
            |t, stem| self.stem(t, stem),
            anywhere,
            stop,
        )
    }
}
