//! The parts of a voice: noise, filters, slow random walks, decaying tones.
//!
//! Filters follow R. Bristow-Johnson's *Audio EQ Cookbook*. All state is in the parts; all
//! randomness comes from [`PcgRandom`], a PCG generator (M. O'Neill, 2014, `XSH-RR`).

use std::f32::consts::TAU;

use super::voice::{RATE_HZ, StereoSample};

/// Pseudo-random numbers.
#[derive(Debug, Clone)]
pub(super) struct PcgRandom(u64);

impl PcgRandom {
    /// A separate random stream for every pair of a seed and a part.
    pub(super) fn new(seed: u64, part: u64) -> Self {
        let mut random = Self(seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // Neighbouring seeds begin with similar numbers; a few steps separate them.
        for _ in 0..4 {
            random.step();
        }
        random
    }

    fn step(&mut self) -> u32 {
        let old = self.0;
        // Multiplier and increment of PCG's reference implementation.
        self.0 = old
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        #[expect(clippy::cast_possible_truncation, reason = "the generator's output")]
        let (mixed, rotation) = ((((old >> 18) ^ old) >> 27) as u32, (old >> 59) as u32);
        mixed.rotate_right(rotation)
    }

    /// A random number from 0 to 1.
    pub(super) fn unit(&mut self) -> f32 {
        #[expect(clippy::cast_precision_loss, reason = "24 bits fit")]
        let unit = (self.step() >> 8) as f32 / 16_777_216.0;
        unit
    }

    /// A random number from −1 to 1; a sequence of them is white noise.
    pub(super) fn noise(&mut self) -> f32 {
        self.unit() * 2.0 - 1.0
    }

    pub(super) fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    /// A random number between two positive ones, every octave equally likely.
    pub(super) fn octaves(&mut self, low: f32, high: f32) -> f32 {
        low * (high / low).powf(self.unit())
    }

    /// Whether an event of a Poisson process of `rate` events a second falls on this sample.
    pub(super) fn happens(&mut self, rate: f32) -> bool {
        self.unit() < rate / RATE_HZ
    }
}

/// A first-order low-pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct LowPass {
    share: f32,
    state: f32,
}

impl LowPass {
    pub(super) fn new(hertz: f32) -> Self {
        Self {
            share: 1.0 - (-TAU * hertz / RATE_HZ).exp(),
            state: 0.0,
        }
    }

    pub(super) fn next(&mut self, input: f32) -> f32 {
        self.state += self.share * (input - self.state);
        self.state
    }
}

/// A second-order filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct BiquadFilter {
    b: [f32; 3],
    a: [f32; 2],
    state: [f32; 2],
}

impl BiquadFilter {
    pub(super) fn low_pass(hertz: f32, q: f32) -> Self {
        let (cos, alpha) = Self::angle(hertz, q);
        let side = (1.0 - cos) / 2.0;
        Self::normal([side, 1.0 - cos, side], cos, alpha)
    }

    pub(super) fn high_pass(hertz: f32, q: f32) -> Self {
        let (cos, alpha) = Self::angle(hertz, q);
        let side = f32::midpoint(1.0, cos);
        Self::normal([side, -1.0 - cos, side], cos, alpha)
    }

    /// Unity gain at the centre.
    pub(super) fn band_pass(hertz: f32, q: f32) -> Self {
        let (cos, alpha) = Self::angle(hertz, q);
        Self::normal([alpha, 0.0, -alpha], cos, alpha)
    }

    /// Takes over the coefficients of another filter but keeps its own state, so that a moving
    /// filter rings on.
    pub(super) fn reshape(&mut self, other: Self) {
        (self.b, self.a) = (other.b, other.a);
    }

    pub(super) fn next(&mut self, input: f32) -> f32 {
        // Transposed direct form II: only two states, and little rounding in single precision.
        let output = self.b[0] * input + self.state[0];
        self.state[0] = self.b[1] * input - self.a[0] * output + self.state[1];
        self.state[1] = self.b[2] * input - self.a[1] * output;
        output
    }

    fn angle(hertz: f32, q: f32) -> (f32, f32) {
        // At half the sample rate alpha is zero, and the filter would ring for ever.
        let angle = TAU * hertz.clamp(10.0, RATE_HZ * 0.45) / RATE_HZ;
        (angle.cos(), angle.sin() / (2.0 * q))
    }

    fn normal(b: [f32; 3], cos: f32, alpha: f32) -> Self {
        let a0 = 1.0 + alpha;
        Self {
            b: b.map(|b| b / a0),
            a: [-2.0 * cos / a0, (1.0 - alpha) / a0],
            state: [0.0; 2],
        }
    }
}

/// A random walk between 0 and 1 that turns at a given rate: for gusts and swells.
#[derive(Debug, Clone)]
pub(super) struct RandomWalk {
    random: PcgRandom,
    step: f32,
    phase: f32,
    ends: [f32; 2],
}

impl RandomWalk {
    /// Turns about `hertz` times a second.
    pub(super) fn new(mut random: PcgRandom, hertz: f32) -> Self {
        let ends = [random.unit(), random.unit()];
        let phase = random.unit();
        Self {
            random,
            step: hertz / RATE_HZ,
            phase,
            ends,
        }
    }

    pub(super) fn next(&mut self) -> f32 {
        self.phase += self.step;
        if self.phase >= 1.0 {
            self.phase -= 1.0;
            self.ends = [self.ends[1], self.random.unit()];
        }
        // Level at both ends, so that the walk has no corners.
        let eased = self.phase * self.phase * (3.0 - 2.0 * self.phase);
        self.ends[0] + (self.ends[1] - self.ends[0]) * eased
    }
}

/// A sine that dies away: a drop, a ping, a note. Its pitch may glide.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecayingTone {
    phase: f32,
    phase_step: f32,
    glide: f32,
    level: f32,
    decay: f32,
    gains: StereoSample,
}

impl DecayingTone {
    /// `seconds` is the time until the level is a thousandth; `glide` is the pitch at that time
    /// divided by the pitch at the start.
    pub(super) fn new(hertz: f32, seconds: f32, glide: f32, level: f32, pan: f32) -> Self {
        let samples = seconds * RATE_HZ;
        Self {
            phase: 0.0,
            phase_step: TAU * hertz / RATE_HZ,
            glide: glide.powf(1.0 / samples),
            level,
            decay: 0.001_f32.powf(1.0 / samples),
            gains: pan_gains(pan),
        }
    }

    fn next(&mut self) -> StereoSample {
        let value = self.phase.sin() * self.level;
        self.phase = (self.phase + self.phase_step) % TAU;
        self.phase_step *= self.glide;
        self.level *= self.decay;
        self.gains.map(|share| share * value)
    }
}

/// Tones that sound together; the oldest makes room when there are too many.
#[derive(Debug, Default)]
pub(super) struct ToneBank(Vec<DecayingTone>);

impl ToneBank {
    pub(super) fn strike(&mut self, tone: DecayingTone) {
        if self.0.len() >= 48 {
            self.0.remove(0);
        }
        self.0.push(tone);
    }

    pub(super) fn next(&mut self) -> StereoSample {
        let mut sum = [0.0; 2];
        for tone in &mut self.0 {
            sum = add(sum, tone.next());
        }
        self.0.retain(|tone| tone.level > 1e-4);
        sum
    }
}

/// The gains of left and right at a pan position from −1 to 1, at equal power.
pub(super) fn pan_gains(pan: f32) -> StereoSample {
    let angle = (pan.clamp(-1.0, 1.0) + 1.0) * std::f32::consts::FRAC_PI_4;
    [angle.cos(), angle.sin()]
}

pub(super) fn add(first: StereoSample, second: StereoSample) -> StereoSample {
    [first[0] + second[0], first[1] + second[1]]
}

/// Two random sources, one per channel: what differs between them sounds wide.
pub(super) fn stereo_noise(seed: u64, part: u64) -> [PcgRandom; 2] {
    [
        PcgRandom::new(seed, part * 2),
        PcgRandom::new(seed, part * 2 + 1),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain(mut filter: BiquadFilter, hertz: f32) -> f32 {
        let mut peak = 0.0_f32;
        for i in 0_u16..24_000 {
            let out = filter.next((TAU * hertz * f32::from(i) / RATE_HZ).sin());
            if i > 12_000 {
                peak = peak.max(out.abs());
            }
        }
        peak
    }

    #[test]
    fn filters_pass_and_stop_the_right_frequencies() {
        assert!((gain(BiquadFilter::low_pass(1000.0, 0.707), 50.0) - 1.0).abs() < 0.02);
        assert!(gain(BiquadFilter::low_pass(1000.0, 0.707), 8000.0) < 0.03);
        assert!((gain(BiquadFilter::high_pass(1000.0, 0.707), 9000.0) - 1.0).abs() < 0.02);
        assert!(gain(BiquadFilter::high_pass(1000.0, 0.707), 80.0) < 0.02);
        assert!((gain(BiquadFilter::band_pass(1000.0, 4.0), 1000.0) - 1.0).abs() < 0.02);
        assert!(gain(BiquadFilter::band_pass(1000.0, 4.0), 200.0) < 0.1);
    }

    #[test]
    fn walks_stay_between_their_ends_and_never_leap() {
        let mut walk = RandomWalk::new(PcgRandom::new(3, 1), 5.0);
        let values: Vec<f32> = (0..96_000).map(|_| walk.next()).collect();
        assert!(values.iter().all(|x| (0.0..=1.0).contains(x)));
        assert!(values.windows(2).all(|w| (w[1] - w[0]).abs() < 0.001));
        let spread =
            values.iter().copied().fold(0.0, f32::max) - values.iter().copied().fold(1.0, f32::min);
        assert!(spread > 0.3, "{spread}");
    }

    #[test]
    fn noise_is_even_and_seeds_differ() {
        let mut random = PcgRandom::new(1, 1);
        let mean = (0..100_000).map(|_| random.noise()).sum::<f32>() / 100_000.0;
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((PcgRandom::new(1, 1).unit() - PcgRandom::new(2, 1).unit()).abs() > 1e-6);
        assert!((PcgRandom::new(1, 1).unit() - PcgRandom::new(1, 2).unit()).abs() > 1e-6);
    }
}
