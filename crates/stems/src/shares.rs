//! What each bin's cues mean for the stems: four shares that sum to one.
//!
//! The opinions are written by hand: for each stem a sum of cues, and the softmax over the four
//! sums. Evidence adds up and no cue can decide alone. The numbers are small and round on purpose;
//! nothing here was fitted to recordings. The module sees one frame's cues and nothing else, so
//! that a better judge of the same cues can take its place.

use crate::cues::{Row, at, hertz};
use crate::stft::MAIN;

/// Vocals, drums, bass, other.
pub const STEMS: usize = 4;

/// One frame's shares: for each stem a share for each bin.
pub type FrameShares = [Vec<f32>; STEMS];

/// Room for the shares of a frame.
pub fn frame() -> FrameShares {
    std::array::from_fn(|_| vec![0.0; MAIN.bins()])
}

/// Knows the parts that depend on the frequency alone, which are computed once.
pub struct Judge {
    bands: Vec<Band>,
}

/// How likely each stem is to be heard at a frequency at all, as sums to start from.
#[derive(Clone, Copy)]
struct Band {
    vocals: f32,
    drums: f32,
    bass: f32,
    low: f32,
}

impl Judge {
    /// Prepares the main resolution's bins.
    pub fn new() -> Self {
        Self {
            bands: (0..MAIN.bins()).map(|k| Band::at(hertz(k))).collect(),
        }
    }

    /// Judges every bin of a frame.
    pub fn judge(&self, cues: &Row, out: &mut FrameShares) {
        for (k, band) in self.bands.iter().enumerate() {
            let sums = band.weigh(&|cue| cues.cue(cue)[k]);
            let top = sums.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let weights = sums.map(|s| (s - top).exp());
            let total: f32 = weights.iter().sum();
            for (out, weight) in out.iter_mut().zip(weights) {
                out[k] = weight / total;
            }
        }
    }
}

impl Default for Judge {
    fn default() -> Self {
        Self::new()
    }
}

impl Band {
    fn at(hz: f32) -> Self {
        let above = |low: f32, high: f32| ((hz - low) / (high - low)).clamp(0.0, 1.0);
        Self {
            vocals: -4.0 * (1.0 - above(70.0, 200.0)) - 1.5 * above(5_000.0, 10_000.0),
            drums: 2.0 * above(4_000.0, 9_000.0),
            bass: 2.5 - 7.0 * above(120.0, 500.0) - 4.0 * above(500.0, 1_500.0),
            low: 1.0 - above(120.0, 300.0),
        }
    }

    fn weigh(self, cue: &dyn Fn(usize) -> f32) -> [f32; STEMS] {
        let centre = cue(at::CENTRE).clamp(0.0, 1.0);
        let side = cue(at::SIDE);
        // Harmonic shares around zero: above it a tone, below it a hit.
        let [short, mid, long] = [at::SHORT, at::MID, at::LONG].map(|c| cue(c) - 0.5);
        let hit = -short - mid - long;
        let attack = cue(at::RISE) + 0.5 * cue(at::FRAME_ONSET);
        let vocals = self.vocals + 3.0 * cue(at::MELODY_C) * cue(at::VOICED)
            - 1.2 * cue(at::BETWEEN)
            + 1.5 * (centre - 0.6)
            - 2.0 * side
            + 1.2 * short
            - 1.0 * long
            - 2.0 * (cue(at::REPEAT) - 0.6);
        let drums = self.drums + 2.0 * hit + 0.8 * attack - 1.0 * side
            + 1.0 * (cue(at::REPEAT_P) - 0.5)
            - 1.5 * cue(at::PEAK_F).max(0.0) * (1.0 - self.low);
        let bass = self.bass + 1.5 * cue(at::BASS) * cue(at::BASS_ON) + 1.0 * long + 1.0 * mid
            - 1.5 * side
            - 0.7 * attack;
        let other = 0.5 + 2.0 * side + 1.0 * long + 0.5 * mid + 1.0 * (cue(at::REPEAT) - 0.5)
            - 3.0 * self.low * centre;
        [vocals, drums, bass, other]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_sum_to_one() {
        let (cues, mut out) = (Row::new(), frame());
        Judge::new().judge(&cues, &mut out);
        for k in 0..MAIN.bins() {
            let sum: f32 = out.iter().map(|stem| stem[k]).sum();
            assert!((sum - 1.0).abs() < 1e-5);
        }
    }
}
