//! The multichannel Wiener filter: spectra that respect the stereo position of each source.
//!
//! The local Gaussian model: each source has a power for each bin and one 2x2 spatial covariance
//! for each frequency; the multichannel Wiener filter is the best linear estimate under it. N. Q.
//! K. Duong, E. Vincent & R. Gribonval, "Under-determined reverberant audio source separation using
//! a full-rank spatial covariance model", 2010; A. A. Nugraha et al. 2016. One round only, because
//! more rounds made the stems worse.

use dsp::Complex32;

use crate::parallel::{CancelCheck, WorkCancelled};
use crate::stem::STEMS;

/// A Hermitian 2x2 matrix: two real numbers on the diagonal, one complex number off it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SpatialCovariance {
    left: f32,
    right: f32,
    cross: Complex32,
}

/// The positions of the stems, for every frequency.
pub(crate) struct WienerFilter {
    covariances: Vec<[SpatialCovariance; STEMS]>,
}

impl WienerFilter {
    /// Learns the positions from `shares(frame, stem)[bin]` of the two channels' spectra; see
    /// [`SpatialCovariance::normalise`] for `diffuse_share`.
    pub(crate) fn learn<'a>(
        frames: usize,
        bins: usize,
        spectra: impl Fn(usize) -> [&'a [Complex32]; 2],
        shares: impl Fn(usize, usize) -> &'a [f32],
        diffuse_share: f32,
        stop: CancelCheck<'_>,
    ) -> Result<Self, WorkCancelled> {
        let mut covariances = vec![[SpatialCovariance::default(); STEMS]; bins];
        for t in 0..frames {
            stop.check()?;
            let [left, right] = spectra(t);
            for stem in 0..STEMS {
                let shares = shares(t, stem);
                for (k, covariance) in covariances.iter_mut().enumerate() {
                    // The estimate is the share times the mix, so its covariance takes the share's
                    // square.
                    covariance[stem].add([left[k], right[k]], shares[k] * shares[k]);
                }
            }
        }
        let all_covariances = covariances.iter_mut().flatten();
        all_covariances.for_each(|covariance| covariance.normalise(diffuse_share));
        Ok(Self { covariances })
    }

    /// How well each stem explains the stereo position of this bin: the logarithm of the Gaussian's
    /// density, minus the part common to all stems.
    pub(crate) fn likelihoods(&self, bin: usize, mix: [Complex32; 2]) -> [f32; STEMS] {
        let power = mix[0].norm_sqr() + mix[1].norm_sqr() + 1e-20;
        self.covariances[bin].map(|covariance| {
            // The bin's own power is taken as the source's, so that loud bins have no more weight
            // than quiet ones.
            let whitened = covariance.solve(mix);
            let inner_product = mix[0] * whitened[0].conj() + mix[1] * whitened[1].conj();
            -covariance.determinant().ln() - 2.0 * inner_product.re / power
        })
    }

    /// Both channels of each stem in one bin. The filter's remainder is spread evenly, so that the
    /// stems sum to the mix.
    pub(crate) fn filter(
        &self,
        bin: usize,
        mix: [Complex32; 2],
        shares: [f32; STEMS],
    ) -> [[Complex32; 2]; STEMS] {
        let power = mix[0].norm_sqr() + mix[1].norm_sqr();
        if power < 1e-20 {
            return [[Complex32::default(); 2]; STEMS];
        }
        // Powers relative to the mix's keep the inverse well scaled for quiet and loud bins.
        let covariances = &self.covariances[bin];
        let mut sum = SpatialCovariance::white(NOISE);
        for (covariance, share) in covariances.iter().zip(shares) {
            sum.mix(covariance, share);
        }
        // The multichannel Wiener filter of Duong et al., with the shares as the sources' powers:
        // share times covariance, times the inverse of the sum of these, times the mix.
        let whitened = sum.solve(mix);
        let mut stems = [[Complex32::default(); 2]; STEMS];
        let mut remainder = mix;
        for ((stem, covariance), share) in stems.iter_mut().zip(covariances).zip(shares) {
            *stem = covariance.times(whitened).map(|x| x * share);
            remainder[0] -= stem[0];
            remainder[1] -= stem[1];
        }
        for stem in &mut stems {
            stem[0] += remainder[0] * EQUAL_SHARE;
            stem[1] += remainder[1] * EQUAL_SHARE;
        }
        stems
    }
}

/// One of [`STEMS`] equal parts.
const EQUAL_SHARE: f32 = 0.25;

/// Keeps the sum invertible if all stems have the same position, as in a mono mix.
const NOISE: f32 = 1e-3;

impl SpatialCovariance {
    /// The same power everywhere.
    pub(crate) fn white(power: f32) -> Self {
        Self {
            left: power,
            right: power,
            cross: Complex32::default(),
        }
    }

    /// Adds the two channels of one bin.
    pub(crate) fn add(&mut self, [left, right]: [Complex32; 2], weight: f32) {
        self.left += weight * left.norm_sqr();
        self.right += weight * right.norm_sqr();
        self.cross += left * right.conj() * weight;
    }

    /// Adds a share of another covariance.
    pub(crate) fn mix(&mut self, other: &Self, share: f32) {
        self.left += share * other.left;
        self.right += share * other.right;
        self.cross += other.cross * share;
    }

    /// Scales to a trace of 2 and makes the part `diffuse_share` of it come from all directions.
    pub(crate) fn normalise(&mut self, diffuse_share: f32) {
        let trace = self.left + self.right;
        let scale = if trace > 1e-20 { 2.0 / trace } else { 0.0 };
        // A stem that is silent at a frequency has no position there, so it may come from anywhere.
        let diffuse_share = if scale > 0.0 { diffuse_share } else { 1.0 };
        let directional = (1.0 - diffuse_share) * scale;
        self.left = self.left * directional + diffuse_share;
        self.right = self.right * directional + diffuse_share;
        self.cross *= directional;
    }

    pub(crate) fn times(&self, v: [Complex32; 2]) -> [Complex32; 2] {
        [
            v[0] * self.left + self.cross * v[1],
            self.cross.conj() * v[0] + v[1] * self.right,
        ]
    }

    fn determinant(&self) -> f32 {
        (self.left * self.right - self.cross.norm_sqr()).max(1e-12)
    }

    /// The vector that [`Self::times`] turns into `v`.
    pub(crate) fn solve(&self, v: [Complex32; 2]) -> [Complex32; 2] {
        let scale = 1.0 / self.determinant();
        [
            (v[0] * self.right - self.cross * v[1]) * scale,
            (v[1] * self.left - self.cross.conj() * v[0]) * scale,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_sum_to_the_mix_and_keep_their_positions() {
        let (l, r) = (Complex32::new(1.0, 0.3), Complex32::new(-0.2, 0.8));
        let (left, right) = ([l, l * 2.0], [Complex32::default(), r]);
        let shares = [[0.9, 0.4], [0.05, 0.3], [0.02, 0.2], [0.03, 0.1]];
        let wiener = WienerFilter::learn(
            1,
            2,
            |_| [&left, &right],
            |_, stem| &shares[stem],
            0.05,
            CancelCheck(&|| false),
        )
        .unwrap();
        for k in 0..2 {
            let stems = wiener.filter(k, [left[k], right[k]], shares.map(|s| s[k]));
            let sum = stems
                .iter()
                .fold([Complex32::default(); 2], |a, s| [a[0] + s[0], a[1] + s[1]]);
            assert!((sum[0] - left[k]).norm() < 1e-5 && (sum[1] - right[k]).norm() < 1e-5);
        }
        let stems = wiener.filter(0, [left[0], right[0]], shares.map(|s| s[0]));
        assert!(stems[0][0].norm() > 0.7 && stems[0][1].norm() < 0.01);
    }
}
