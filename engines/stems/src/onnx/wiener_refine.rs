//! The multichannel Wiener filter for stems that were estimated one by one.
//!
//! It uses the local Gaussian model of the built-in engine's filter (N. Q. K. Duong, E. Vincent &
//! R. Gribonval 2010; A. A. Nugraha et al. 2016) in a single iteration, for any number of stems,
//! whose estimates need not sum to the mix. If no stem represents all other sounds, the remainder
//! is used as one more stem.

use dsp::Complex32;

use crate::parallel::{CancelCheck, WorkCancelled, map};
use crate::wiener::SpatialCovariance;

/// Frames over which a stem is assumed to have one position.
const BLOCK: usize = 300;

/// The part of each stem assumed to come from all directions.
const DIFFUSE_SHARE: f32 = 0.05;

/// Keeps the sum invertible if all stems have the same position.
const NOISE: f32 = 1e-3;

type StereoSpectra = [Vec<Complex32>; 2];
type StereoBin = [Complex32; 2];

/// Refines the stems' spectra, which have `bins` values for each frame, like the mix's. With
/// `complete`, the stems sum to the whole mix.
pub(super) fn refine(
    mix: &StereoSpectra,
    stems: &mut [StereoSpectra],
    bins: usize,
    complete: bool,
    stop: CancelCheck<'_>,
) -> Result<(), WorkCancelled> {
    let frames = mix[0].len() / bins;
    for first in (0..frames).step_by(BLOCK) {
        let block = first..frames.min(first + BLOCK);
        let refined = map(bins, stop, |bin| {
            refine_bin(mix, stems, complete, block.clone().map(|t| t * bins + bin))
        })?;
        for (bin, column) in refined.into_iter().enumerate() {
            let mut values = column.into_iter();
            for t in block.clone() {
                for (stem, value) in stems.iter_mut().zip(&mut values) {
                    stem[0][t * bins + bin] = value[0];
                    stem[1][t * bins + bin] = value[1];
                }
            }
        }
    }
    Ok(())
}

/// New values of all stems in one bin, frame by frame.
fn refine_bin(
    mix: &StereoSpectra,
    stems: &[StereoSpectra],
    complete: bool,
    indices: impl Iterator<Item = usize> + Clone,
) -> Vec<StereoBin> {
    let sources = stems.len() + usize::from(!complete);
    // The estimates in one frame, and the remainder if they do not sum to the whole mix.
    let estimates = |i: usize| {
        let mut values: Vec<StereoBin> = stems.iter().map(|stem| bin_at(stem, i)).collect();
        if !complete {
            values.push(
                values
                    .iter()
                    .fold(bin_at(mix, i), |remainder, value| minus(remainder, *value)),
            );
        }
        values
    };
    let mut covariances = vec![SpatialCovariance::default(); sources];
    for i in indices.clone() {
        for (covariance, value) in covariances.iter_mut().zip(estimates(i)) {
            covariance.add(value, 1.0);
        }
    }
    for covariance in &mut covariances {
        covariance.normalise(DIFFUSE_SHARE);
    }
    #[expect(clippy::cast_precision_loss, reason = "a handful of stems")]
    let equal_share = 1.0 / sources as f32;
    let mut refined = Vec::new();
    for i in indices {
        let x = bin_at(mix, i);
        let mix_power = 0.5 * power(x);
        let mut values = estimates(i);
        if mix_power < 1e-20 {
            values.fill(StereoBin::default());
        } else {
            // Powers relative to the mix's keep the inverse well scaled for quiet and loud frames.
            let shares: Vec<f32> = values.iter().map(|v| 0.5 * power(*v) / mix_power).collect();
            let mut sum = SpatialCovariance::white(NOISE);
            let weighted = covariances.iter().zip(&shares);
            weighted.for_each(|(covariance, share)| sum.mix(covariance, *share));
            let whitened = sum.solve(x);
            let mut remainder = x;
            for ((value, covariance), share) in values.iter_mut().zip(&covariances).zip(shares) {
                *value = covariance.times(whitened).map(|v| v * share);
                remainder = minus(remainder, *value);
            }
            for value in &mut values {
                *value = std::array::from_fn(|side| value[side] + remainder[side] * equal_share);
            }
        }
        refined.extend(values.into_iter().take(stems.len()));
    }
    refined
}

fn bin_at(spectra: &StereoSpectra, i: usize) -> StereoBin {
    [spectra[0][i], spectra[1][i]]
}

fn minus(a: StereoBin, b: StereoBin) -> StereoBin {
    [a[0] - b[0], a[1] - b[1]]
}

fn power(x: StereoBin) -> f32 {
    x[0].norm_sqr() + x[1].norm_sqr()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sources, one on the left and one on the right, in two bins of 400 frames.
    fn scene() -> (StereoSpectra, [StereoSpectra; 2]) {
        let wave = |i: u16| Complex32::new(f32::from(i % 7) - 3.0, f32::from(i % 5) - 2.0);
        let left: Vec<_> = (0..800).map(wave).collect();
        let right: Vec<_> = (0..800).map(|i| wave(i * 3 + 1)).collect();
        let silence = vec![Complex32::default(); 800];
        let mix = [left.clone(), right.clone()];
        (mix, [[left, silence.clone()], [silence, right]])
    }

    #[test]
    fn complete_stems_sum_to_the_mix() {
        let (mix, mut stems) = scene();
        // These estimates are far too loud.
        stems
            .as_flattened_mut()
            .iter_mut()
            .flatten()
            .for_each(|x| *x *= 3.0);
        refine(&mix, &mut stems, 2, true, CancelCheck(&|| false)).unwrap();
        for i in 0..800 {
            for side in 0..2 {
                let sum = stems[0][side][i] + stems[1][side][i];
                assert!((sum - mix[side][i]).norm() < 1e-4);
            }
        }
    }

    #[test]
    fn a_single_stem_does_not_absorb_the_remainder() {
        let (mix, stems) = scene();
        let mut estimate = [stems[0].clone()];
        refine(&mix, &mut estimate, 2, false, CancelCheck(&|| false)).unwrap();
        let energy = |x: &[Complex32]| x.iter().map(Complex32::norm_sqr).sum::<f32>();
        let error: Vec<_> = estimate[0][0]
            .iter()
            .zip(&stems[0][0])
            .map(|(a, b)| a - b)
            .collect();
        let total = energy(&stems[0][0]);
        assert!(energy(&error) < 0.02 * total && energy(&estimate[0][1]) < 0.02 * total);
    }
}
