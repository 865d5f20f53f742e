//! One U-Net: from the magnitudes of a mix to those of one of its parts.
//!
//! Six layers halve time and frequency, and six double them again. Each of those also sees what the
//! layer of its size saw on the way down. The last layer makes a mask for the mix.

use super::convolution::{FeatureMap, double, halve};
use super::weights::{ChannelScale, INPUTS, KernelWeights, LAST_KERNEL, UNetWeights};
use crate::parallel::{CancelCheck, WorkCancelled};

/// Frames and bins of the input must be multiples of this.
pub(super) const STRIDE: usize = 64;

/// The slope of the activation below zero.
const LEAK: f32 = 0.2;

impl UNetWeights {
    /// The magnitudes of the part that this net hears in a mix.
    pub(super) fn hear(
        &self,
        mix: &FeatureMap,
        stop: CancelCheck<'_>,
    ) -> Result<FeatureMap, WorkCancelled> {
        let mut seen: Vec<FeatureMap> = Vec::with_capacity(self.down.len());
        let mut next: Option<FeatureMap> = None;
        for (i, layer) in self.down.iter().enumerate() {
            stop.check()?;
            let halved = halve(next.as_ref().unwrap_or(mix), layer);
            next = self.down_scales.get(i).map(|scale| {
                let mut scaled = halved.clone();
                scale.apply(&mut scaled, |x| x, |x| if x > 0.0 { x } else { LEAK * x });
                scaled
            });
            // Later layers see what no normalisation has changed.
            seen.push(halved);
        }
        drop(next);
        let mut map = seen.pop().unwrap_or_else(|| mix.clone());
        for (layer, scale) in self.up.iter().zip(&self.up_scales) {
            stop.check()?;
            map = double(&map, layer);
            scale.apply(&mut map, |x| x.max(0.0), |x| x);
            if let Some(seen) = seen.pop() {
                map = seen.joined(&map);
            }
        }
        stop.check()?;
        Ok(masked(mix, &map, &self.last))
    }
}

impl ChannelScale {
    /// Scales every channel, between two functions.
    fn apply(&self, map: &mut FeatureMap, before: impl Fn(f32) -> f32, after: impl Fn(f32) -> f32) {
        let plane = map.plane();
        let channels = map.values.chunks_exact_mut(plane);
        for ((channel, factor), addend) in channels.zip(&self.factor).zip(&self.addend) {
            for x in channel {
                *x = after(before(*x) * factor + addend);
            }
        }
    }
}

/// The mix times the mask that the last layer makes of the only channel of `map`.
fn masked(mix: &FeatureMap, map: &FeatureMap, last: &KernelWeights) -> FeatureMap {
    let mut result = FeatureMap::zeros(INPUTS, mix.rows, mix.columns);
    let columns = mix.columns;
    for (index, sums) in result.values.chunks_exact_mut(columns).enumerate() {
        let (output, row) = (index / mix.rows, index % mix.rows);
        sums.fill(last.bias[output]);
        for ky in 0..LAST_KERNEL {
            // Every second row and column around the middle, with three zeros on all sides.
            let source = (row + 2 * ky).checked_sub(3);
            let Some(source) = source.filter(|source| *source < map.rows) else {
                continue;
            };
            let source = map.row(0, source);
            for kx in 0..LAST_KERNEL {
                let weight = last.kernel[(ky * LAST_KERNEL + kx) * INPUTS + output];
                let (skipped, start) = (3usize.saturating_sub(2 * kx), (2 * kx).saturating_sub(3));
                for (sum, x) in sums[skipped..].iter_mut().zip(&source[start..]) {
                    *sum += weight * x;
                }
            }
        }
        for (sum, x) in sums.iter_mut().zip(mix.row(output, row)) {
            *sum = x / (1.0 + (-*sum).exp());
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::super::weights::NetWeights;
    use super::*;

    #[test]
    fn hears_what_numpy_computes() {
        let mut state = 7u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from(state.to_le_bytes()[3]) / 16.0
        };
        let mut mix = FeatureMap::zeros(INPUTS, STRIDE, 2 * STRIDE);
        mix.values.iter_mut().for_each(|x| *x = next());
        let weights = NetWeights::made_up();
        let points = [
            (0, 0, 0),
            (0, 5, 17),
            (0, 63, 127),
            (1, 0, 127),
            (1, 31, 64),
            (1, 63, 0),
        ];
        // Printed by tests/spleeter/reference.py.
        let expected = [
            (
                3.999_303,
                [2.188_03, 9.644_74, 5.462_91, 6.495_10, 3.455_96, 1.760_60],
            ),
            (
                3.063_426,
                [2.617_80, 0.443_41, 3.629_62, 5.904_34, 1.823_44, 1.332_87],
            ),
        ];
        for (net, (mean, values)) in [&weights.voice, &weights.accompaniment]
            .into_iter()
            .zip(expected)
        {
            let heard = net.hear(&mix, CancelCheck(&|| false)).unwrap();
            let sum: f64 = heard.values.iter().map(|x| f64::from(*x)).sum();
            let found_mean = sum / f64::from(2 * 64 * 128);
            assert!((found_mean - mean).abs() < 1e-4, "{found_mean} {mean}");
            for ((channel, row, column), value) in points.into_iter().zip(values) {
                let found = heard.row(channel, row)[column];
                assert!((found - value).abs() < 1e-3, "{found} {value}");
            }
        }
        assert!(weights.voice.hear(&mix, CancelCheck(&|| true)).is_err());
    }
}
