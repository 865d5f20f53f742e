//! The blend of two estimates of the voice: the engine's own shares and those of the pretrained nets.
//!
//! The nets heard real music, and the engine's own knows generated songs better. How certain each is
//! of a song tells which of the two to believe.

use crate::parallel::{CancelCheck, WorkCancelled};
use crate::plane::SpectralPlane;
use crate::shares::StemShares;
use crate::stft::ChannelSpectra;

/// The nets' weight where the engine's own shares are as certain as they are on generated songs.
const LEAST_WEIGHT: f32 = 0.42;

/// The nets' weight where they are much more certain.
const MOST_WEIGHT: f32 = 0.90;

/// The differences between the two certainties from which on the weight rises, and no longer does.
const RISE: [f32; 2] = [0.10, 0.16];

/// Gives the voice its share by both estimates, weighted by how certain each is. What the voice
/// gains or loses is taken from the other stems or given to them, in proportion to their shares.
pub(crate) fn blend_voice(
    shares: &mut StemShares,
    heard: &SpectralPlane,
    spectra: &[ChannelSpectra; 2],
    stop: CancelCheck<'_>,
) -> Result<(), WorkCancelled> {
    let mut sums = CertaintySums::default();
    for t in 0..shares.frames() {
        stop.check()?;
        sums.add(
            shares.voice(t),
            heard.row(t),
            [spectra[0].row(t), spectra[1].row(t)],
        );
    }
    let weight = weight(sums.gap());
    shares.mix_voice(heard, weight, stop)
}

/// The nets' weight, by how much more certain than the engine they are.
fn weight(gap: f32) -> f32 {
    let [low, high] = RISE;
    let part = ((gap - low) / (high - low)).clamp(0.0, 1.0);
    let smooth = part * part * (3.0 - 2.0 * part);
    LEAST_WEIGHT + (MOST_WEIGHT - LEAST_WEIGHT) * smooth
}

/// Sums over the bins of a clip, weighted by their power.
#[derive(Default)]
struct CertaintySums {
    power: f64,
    /// The uncertainty of the engine's shares and of the nets'.
    own: f64,
    heard: f64,
}

impl CertaintySums {
    fn add(&mut self, own: &[f32], heard: &[f32], spectra: [&[dsp::Complex32]; 2]) {
        let [left, right] = spectra;
        for (((own, heard), left), right) in own.iter().zip(heard).zip(left).zip(right) {
            let power = f64::from(left.norm_sqr() + right.norm_sqr());
            // 1 for an even share, 0 for all or nothing.
            let uncertainty = |share: f32| f64::from(4.0 * share * (1.0 - share));
            self.power += power;
            self.own += power * uncertainty(*own);
            self.heard += power * uncertainty(*heard);
        }
    }

    /// The certainty of the nets minus that of the engine's own shares.
    #[expect(clippy::cast_possible_truncation, reason = "-1 to 1")]
    fn gap(&self) -> f32 {
        ((self.own - self.heard) / self.power.max(1e-30)) as f32
    }
}

#[cfg(test)]
mod tests {
    use dsp::Complex32;

    use super::*;

    #[test]
    fn the_more_certain_the_nets_are_the_more_they_weigh() {
        let weights = [-1.0, 0.05, 0.10, 0.13, 0.16, 1.0].map(weight);
        assert!(weights.is_sorted());
        assert!((weights[2] - LEAST_WEIGHT).abs() < 1e-6);
        assert!((weights[3] - 0.66).abs() < 1e-6);
        assert!((weights[4] - MOST_WEIGHT).abs() < 1e-6);
    }

    #[test]
    fn certainty_counts_by_power() {
        let mut sums = CertaintySums::default();
        let (loud, quiet) = (Complex32::new(0.0, 3.0), Complex32::new(0.1, 0.0));
        let row = [loud, quiet];
        sums.add(&[0.5, 1.0], &[1.0, 0.5], [&row, &row]);
        assert!((sums.gap() - 1.0).abs() < 0.01, "{}", sums.gap());
        assert!(CertaintySums::default().gap().abs() < 1e-9);
    }
}
