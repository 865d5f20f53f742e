//! Water: the sea and a brook.

use crate::sound::dsp::{
    BiquadFilter, DecayingTone, LowPass, PcgRandom, RandomWalk, ToneBank, pan_gains, stereo_noise,
};
use crate::sound::voice::{AmbienceVoice, RATE_HZ, StereoSample};

/// Three trains of waves: each swells, breaks and runs back with a hiss.
pub(super) struct SeaVoice {
    noise: [PcgRandom; 2],
    waves: Vec<WaveTrain>,
    deep: [LowPass; 2],
    surf: [BiquadFilter; 2],
    foam: [BiquadFilter; 2],
}

/// One train of waves.
struct WaveTrain {
    random: PcgRandom,
    /// From 0, where a wave begins to rise, to 1, where the next one does.
    phase: f32,
    step: f32,
    size: f32,
    gains: StereoSample,
}

impl WaveTrain {
    fn new(mut random: PcgRandom, phase: f32) -> Self {
        let mut wave = Self {
            phase,
            step: 0.0,
            size: 0.0,
            gains: pan_gains(random.noise() * 0.6),
            random,
        };
        wave.renew();
        wave
    }

    fn renew(&mut self) {
        self.step = 1.0 / (self.random.between(5.5, 9.0) * RATE_HZ);
        self.size = self.random.between(0.5, 1.0);
    }

    /// Strength of the breaking water and of the foam that it leaves.
    fn next(&mut self) -> (f32, f32) {
        self.phase += self.step;
        if self.phase >= 1.0 {
            self.phase -= 1.0;
            self.renew();
        }
        let rise = (self.phase / 0.35).min(1.0);
        let fall = ((self.phase - 0.35) / 0.65).max(0.0);
        let surf = rise.powi(3) * (1.0 - fall).powi(4);
        let foam = ((self.phase - 0.3) / 0.12).clamp(0.0, 1.0) * (1.0 - fall).powi(2);
        (surf * self.size, foam * self.size)
    }
}

impl SeaVoice {
    pub(super) fn new(seed: u64) -> Self {
        let train = |part, phase| WaveTrain::new(PcgRandom::new(seed, part), phase);
        Self {
            noise: stereo_noise(seed, 40),
            waves: vec![train(1030, 0.1), train(1031, 0.45), train(1032, 0.75)],
            deep: [LowPass::new(160.0); 2],
            surf: [BiquadFilter::low_pass(1100.0, 0.6); 2],
            foam: [BiquadFilter::high_pass(2200.0, 0.5); 2],
        }
    }
}

impl AmbienceVoice for SeaVoice {
    fn next(&mut self) -> StereoSample {
        let (mut surf, mut foam) = ([0.04; 2], [0.02; 2]);
        for wave in &mut self.waves {
            let (surf_level, foam_level) = wave.next();
            for ear in 0..2 {
                surf[ear] += surf_level * wave.gains[ear];
                foam[ear] += foam_level * wave.gains[ear];
            }
        }
        let mut out = [0.0; 2];
        for (ear, sample) in out.iter_mut().enumerate() {
            let noise = self.noise[ear].noise();
            *sample = self.surf[ear].next(noise) * surf[ear] * 0.5
                + self.deep[ear].next(noise) * (0.2 + surf[ear])
                + self.foam[ear].next(noise) * foam[ear] * 0.12;
        }
        out
    }
}

/// Bubbles: a bubble in water rings, and its pitch rises as it shrinks.
pub(super) struct StreamVoice {
    noise: [PcgRandom; 2],
    random: PcgRandom,
    flow: RandomWalk,
    bubbles: ToneBank,
    rush: [BiquadFilter; 2],
    bed: [BiquadFilter; 2],
}

impl StreamVoice {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            noise: stereo_noise(seed, 50),
            random: PcgRandom::new(seed, 1040),
            flow: RandomWalk::new(PcgRandom::new(seed, 1041), 0.8),
            bubbles: ToneBank::default(),
            rush: [BiquadFilter::band_pass(1500.0, 0.4); 2],
            bed: [BiquadFilter::low_pass(350.0, 0.6); 2],
        }
    }
}

impl AmbienceVoice for StreamVoice {
    fn next(&mut self) -> StereoSample {
        let flow = 0.5 + 0.5 * self.flow.next();
        if self.random.happens(55.0 * flow) {
            let hertz = self.random.octaves(380.0, 2400.0);
            // High bubbles are small and die away sooner.
            let seconds = self.random.between(0.03, 0.12) * (900.0 / hertz).sqrt();
            let glide = self.random.between(1.1, 1.9);
            let level = 0.02 + 0.09 * self.random.unit().powi(2);
            let pan = self.random.noise();
            self.bubbles
                .strike(DecayingTone::new(hertz, seconds, glide, level, pan));
        }
        let mut out = self.bubbles.next();
        for (ear, sample) in out.iter_mut().enumerate() {
            let noise = self.noise[ear].noise();
            *sample += self.rush[ear].next(noise) * 0.05 * flow + self.bed[ear].next(noise) * 0.06;
        }
        out
    }
}
