//! Stereo position of a bin, between left and right.
//!
//! C. Avendano, "Frequency-domain source identification and manipulation in stereo mixes", 2003:
//! voices are nearly always mixed to the centre, so the part common to both channels may be a
//! voice.

use crate::parallel::{CancelCheck, WorkCancelled};
use crate::plane::{SpectralPlane, running_mean};
use crate::stft::{ChannelSpectra, MAIN};

pub(super) struct StereoImage {
    /// Twice the smoothed cross power over the smoothed power, -1..1.
    pub(super) centre: SpectralPlane,
}

impl StereoImage {
    pub(super) fn measure(
        spectra: &[ChannelSpectra; 2],
        amplitude: &SpectralPlane,
        stop: CancelCheck<'_>,
    ) -> Result<Self, WorkCancelled> {
        let [left, right] = spectra;
        let frames = amplitude.rows();
        let last = frames.cast_signed() - 1;
        // Neighbouring frames first, then neighbouring bins: the mean of a small square.
        let smooth = |t: usize, row: &mut [f32], value: &dyn Fn(usize, usize) -> f32| {
            let frames_around = (t.cast_signed() - 1..=t.cast_signed() + 1)
                .map(|t| t.clamp(0, last).cast_unsigned());
            let mut sums = vec![0.0; MAIN.bins()];
            for t in frames_around {
                sums.iter_mut()
                    .enumerate()
                    .for_each(|(k, sum)| *sum += value(t, k));
            }
            running_mean(&sums, 3, row);
        };
        let cross = |t: usize, k: usize| {
            let (l, r) = (left.row(t)[k], right.row(t)[k]);
            2.0 * (l.re * r.re + l.im * r.im)
        };
        let power = |t: usize, k: usize| amplitude.row(t)[k].powi(2);
        let centre = SpectralPlane::build(frames, MAIN.bins(), stop, |t, row| {
            let mut powers = vec![0.0; MAIN.bins()];
            smooth(t, row, &cross);
            smooth(t, &mut powers, &power);
            for (cross, power) in row.iter_mut().zip(powers) {
                *cross = (*cross / (power + EPS)).clamp(-1.0, 1.0);
            }
        })?;
        Ok(Self { centre })
    }
}

/// Root of the difference signal's share of the power, 0..1, from `centre`: `|S|^2 = (P - cross) /
/// 2` and `|M|^2 + |S|^2 = P`.
pub(super) fn side(centre: f32) -> f32 {
    ((1.0 - centre) * 0.5).max(0.0).sqrt()
}

const EPS: f32 = 1e-10;
