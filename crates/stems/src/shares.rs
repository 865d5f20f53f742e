//! What each bin's cues mean for the stems: four shares that sum to one.
//!
//! The opinions are written by hand: for each stem a sum of cues, and the softmax over the four
//! sums. Evidence adds up and no cue can decide alone. The numbers are small and round on purpose;
//! nothing here was fitted to recordings. The module sees one frame's cues and nothing else, so
//! that a better judge of the same cues can take its place.

use crate::cues::{Row, at, hertz};
use crate::stft::MAIN;

/// Vocals, drums, bass, other.
pub(crate) const STEMS: usize = 4;

/// One frame's shares: for each stem a share for each bin.
pub(crate) type FrameShares = [Vec<f32>; STEMS];

/// Room for the shares of a frame.
pub(crate) fn frame() -> FrameShares {
    std::array::from_fn(|_| vec![0.0; MAIN.bins()])
}

/// Knows the parts that depend on the frequency alone, which are computed once.
pub(crate) struct Judge {
    bands: Vec<Band>,
}

/// What the frequency alone says: for each stem a sum to start from.
#[derive(Clone, Copy)]
struct Band {
    start: [f32; STEMS],
    /// 1 in the range of kick and bass, falling to 0 at 300 Hz.
    low: f32,
    /// 1 below 90 Hz, where hardly any other instrument plays in the centre.
    deep: f32,
}

impl Judge {
    /// Prepares the main resolution's bins.
    pub(crate) fn new() -> Self {
        Self {
            bands: (0..MAIN.bins()).map(|k| Band::at(hertz(k))).collect(),
        }
    }

    /// Judges every bin of a frame.
    pub(crate) fn judge(&self, cues: &Row, out: &mut FrameShares) {
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
        let low = 1.0 - above(120.0, 300.0);
        // The lower half of the voice's range, where it is stronger than accompaniment.
        let chest = 1.0 - above(600.0, 900.0);
        Self {
            start: [
                -4.0 * (1.0 - above(70.0, 180.0)) - 1.5 * above(5_000.0, 10_000.0),
                1.2 * low - 0.4 * above(150.0, 300.0) * chest + 3.0 * above(4_000.0, 9_000.0),
                2.5 - 7.0 * above(120.0, 450.0) - 4.0 * above(450.0, 1_500.0),
                0.5 - 0.6 * above(200.0, 300.0) * chest + 0.2 * above(600.0, 1_000.0),
            ],
            low,
            deep: 1.0 - above(90.0, 200.0),
        }
    }

    fn weigh(self, cue: &dyn Fn(usize) -> f32) -> [f32; STEMS] {
        let [vocals, drums, bass, other] = self.start;
        let centre = cue(at::CENTRE).clamp(0.0, 1.0);
        let side = cue(at::SIDE);
        // Harmonic shares around zero: above it a tone, below it a hit.
        let [short, mid, long] = [at::SHORT, at::MID, at::LONG].map(|c| cue(c) - 0.5);
        let (repeat, hits_repeat) = (cue(at::REPEAT) - 0.5, cue(at::REPEAT_P) - 0.5);
        let (rise, fall, onset) = (cue(at::RISE), cue(at::FALL), cue(at::FRAME_ONSET));
        let (peak, level) = (cue(at::PEAK_F), cue(at::LEVEL));
        let attack = rise + 0.4 * onset;
        [
            // In the centre, on the melody, wavering, and different each time.
            vocals + 2.5 * cue(at::MELODY_C) * cue(at::VOICED) - 0.5 * cue(at::BETWEEN)
                + 1.3 * (centre - 0.6)
                - 1.5 * side
                + 1.5 * short
                - 2.5 * (repeat - 0.1)
                - 0.2 * (onset + rise),
            // Hits that come suddenly, fade at once and return.
            drums - 1.0 * (short + mid + long) + 0.7 * attack + fall - 0.7 * side
                + 2.5 * hits_repeat
                - 0.7 * peak.max(0.0) * (1.0 - self.low)
                - 0.2 * cue(at::FRAME_TILT),
            // Low, steady, in the middle, and on the line that the tracker follows.
            bass + 2.0 * cue(at::BASS) * cue(at::BASS_ON)
                + 0.8 * (cue(at::BASS_ON) - 0.7)
                + 1.3 * (long + mid)
                - 1.5 * side
                - 0.7 * attack
                - 0.8 * fall
                - 0.5 * (hits_repeat + level),
            // To the sides, steady and repeating.
            other + 2.0 * side + 0.2 * (long + mid) + 1.2 * repeat + 0.4 * (level + peak)
                - 3.0 * self.deep * centre
                - 0.3 * fall,
        ]
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
