//! Loudness: how loud a track is to the ear, and bringing it to a level.
//!
//! The measure is that of ITU-R BS.1770-4 for 48 kHz without its gate: mean square after the
//! K-weighting filter, in LUFS. The gate keeps silence between words out of the mean, and an
//! ambience has no such silence.

use super::voice::StereoSample;

/// Scales a track to a loudness in LUFS; leaves silence alone.
pub(super) fn level(track: &mut [StereoSample], lufs: f64) {
    let current = measure(track);
    if current < SILENCE {
        return;
    }
    #[expect(clippy::cast_possible_truncation, reason = "a factor near 1")]
    let gain = 10_f64.powf((lufs - current) / 20.0) as f32;
    for sample in track {
        *sample = sample.map(|s| s * gain);
    }
}

/// Bends peaks that would come near full scale, so that no clap of thunder clips.
pub(super) fn limit(track: &mut [StereoSample]) {
    for channel in track.iter_mut().flatten() {
        let excess = channel.abs() - KNEE;
        if excess > 0.0 {
            *channel = (KNEE + (1.0 - KNEE) * HEADROOM * (excess / (1.0 - KNEE)).tanh())
                .copysign(*channel);
        }
    }
}

/// Loudness in LUFS.
pub(super) fn measure(track: &[StereoSample]) -> f64 {
    let mut sum = 0.0;
    for channel in 0..2 {
        let mut stages = [FilterStage::new(SHELF), FilterStage::new(HIGH_PASS)];
        for sample in track {
            let weighted = stages
                .iter_mut()
                .fold(f64::from(sample[channel]), |x, stage| stage.next(x));
            sum += weighted * weighted;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a minute of samples at most")]
    let mean = sum / track.len().max(1) as f64;
    // BS.1770-4, equation 2, with the weight 1 for left and right. The offset takes back the gain
    // of the filter at 997 Hz.
    10.0 * mean.max(1e-12).log10() - 0.691
}

/// A second-order stage in double precision: coefficients b0, b1, b2, a1, a2.
struct FilterStage {
    coefficients: [f64; 5],
    state: [f64; 2],
}

impl FilterStage {
    fn new(coefficients: [f64; 5]) -> Self {
        Self {
            coefficients,
            state: [0.0; 2],
        }
    }

    fn next(&mut self, input: f64) -> f64 {
        let [b0, b1, b2, a1, a2] = self.coefficients;
        let output = b0 * input + self.state[0];
        self.state = [
            b1 * input - a1 * output + self.state[1],
            b2 * input - a2 * output,
        ];
        output
    }
}

/// BS.1770-4, table 1.
const SHELF: [f64; 5] = [
    1.535_124_859_586_97,
    -2.691_696_189_406_38,
    1.198_392_810_852_85,
    -1.690_659_293_182_41,
    0.732_480_774_215_85,
];

/// BS.1770-4, table 2.
const HIGH_PASS: [f64; 5] = [1.0, -2.0, 1.0, -1.990_047_454_833_98, 0.990_072_250_366_21];

/// Below this loudness a track counts as silent and is not amplified.
const SILENCE: f64 = -100.0;

/// The level from which the signal is bent.
const KNEE: f32 = 0.5;

/// The highest peak is `KNEE + (1 - KNEE) * HEADROOM`, −2 dB.
const HEADROOM: f32 = 0.6;

#[cfg(test)]
#[expect(
    clippy::float_cmp,
    reason = "what is left alone is the same to the bit"
)]
mod tests {
    use super::*;

    fn sine(hertz: f64, peak: f64) -> Vec<StereoSample> {
        (0..96_000)
            .map(|i| {
                let value = peak * (std::f64::consts::TAU * hertz * f64::from(i) / 48_000.0).sin();
                #[expect(clippy::cast_possible_truncation, reason = "a sample")]
                let value = value as f32;
                [value, 0.0]
            })
            .collect()
    }

    #[test]
    fn the_reference_tone_has_its_loudness() {
        // BS.1770: a full-scale sine of 997 Hz on one channel is −3.01 LUFS.
        assert!((measure(&sine(997.0, 1.0)) + 3.01).abs() < 0.05);
        assert!(measure(&sine(40.0, 1.0)) < measure(&sine(997.0, 1.0)) - 3.0);
    }

    #[test]
    fn a_track_comes_to_the_level_and_silence_stays() {
        let mut track = sine(440.0, 0.9);
        level(&mut track, -26.0);
        assert!((measure(&track) + 26.0).abs() < 0.01);
        let mut silence = vec![[0.0; 2]; 4800];
        level(&mut silence, -26.0);
        assert!(silence.iter().all(|s| *s == [0.0; 2]));
    }

    #[test]
    fn no_peak_passes_the_limit_and_quiet_samples_are_left_alone() {
        let mut track = vec![[0.3, -0.3], [0.9, -7.0]];
        limit(&mut track);
        assert_eq!(track[0], [0.3, -0.3]);
        assert!(track[1].iter().all(|s| s.abs() <= 0.8 && s.abs() > 0.5));
    }
}
