//! Water: the sea and a brook.

use crate::sound::dsp::{Biquad, Chance, Drift, Ping, Pings, Smooth, ears, place};
use crate::sound::voice::{RATE_HZ, Stereo, Voice};

/// Three trains of waves: each swells, breaks and runs back with a hiss.
pub(super) struct Sea {
    noise: [Chance; 2],
    waves: Vec<Wave>,
    deep: [Smooth; 2],
    surf: [Biquad; 2],
    foam: [Biquad; 2],
}

/// One train of waves.
struct Wave {
    chance: Chance,
    /// From 0, where it begins to rise, to 1, where the next does.
    phase: f32,
    step: f32,
    size: f32,
    place: Stereo,
}

impl Wave {
    fn new(mut chance: Chance, phase: f32) -> Self {
        let mut wave = Self {
            phase,
            step: 0.0,
            size: 0.0,
            place: place(chance.noise() * 0.6),
            chance,
        };
        wave.renew();
        wave
    }

    fn renew(&mut self) {
        self.step = 1.0 / (self.chance.between(5.5, 9.0) * RATE_HZ);
        self.size = self.chance.between(0.5, 1.0);
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

impl Sea {
    pub(super) fn new(seed: u64) -> Self {
        let train = |part, phase| Wave::new(Chance::new(seed, part), phase);
        Self {
            noise: ears(seed, 40),
            waves: vec![train(1030, 0.1), train(1031, 0.45), train(1032, 0.75)],
            deep: [Smooth::new(160.0); 2],
            surf: [Biquad::low_pass(1100.0, 0.6); 2],
            foam: [Biquad::high_pass(2200.0, 0.5); 2],
        }
    }
}

impl Voice for Sea {
    fn next(&mut self) -> Stereo {
        let (mut surf, mut foam) = ([0.04; 2], [0.02; 2]);
        for wave in &mut self.waves {
            let (breaking, left) = wave.next();
            for ear in 0..2 {
                surf[ear] += breaking * wave.place[ear];
                foam[ear] += left * wave.place[ear];
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
pub(super) struct Stream {
    noise: [Chance; 2],
    chance: Chance,
    flow: Drift,
    bubbles: Pings,
    rush: [Biquad; 2],
    bed: [Biquad; 2],
}

impl Stream {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            noise: ears(seed, 50),
            chance: Chance::new(seed, 1040),
            flow: Drift::new(Chance::new(seed, 1041), 0.8),
            bubbles: Pings::default(),
            rush: [Biquad::band_pass(1500.0, 0.4); 2],
            bed: [Biquad::low_pass(350.0, 0.6); 2],
        }
    }
}

impl Voice for Stream {
    fn next(&mut self) -> Stereo {
        let flow = 0.5 + 0.5 * self.flow.next();
        if self.chance.happens(55.0 * flow) {
            let hertz = self.chance.octaves(380.0, 2400.0);
            let seconds = self.chance.between(0.03, 0.12) * (900.0 / hertz).sqrt();
            let glide = self.chance.between(1.1, 1.9);
            let level = 0.02 + 0.09 * self.chance.unit().powi(2);
            let pan = self.chance.noise();
            self.bubbles
                .strike(Ping::new(hertz, seconds, glide, level, pan));
        }
        let mut out = self.bubbles.next();
        for (ear, sample) in out.iter_mut().enumerate() {
            let noise = self.noise[ear].noise();
            *sample += self.rush[ear].next(noise) * 0.05 * flow + self.bed[ear].next(noise) * 0.06;
        }
        out
    }
}
