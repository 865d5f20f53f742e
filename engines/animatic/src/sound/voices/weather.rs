//! Air: wind, rain, thunder.

use crate::sound::dsp::{
    BiquadFilter, DecayingTone, LowPass, PcgRandom, RandomWalk, ToneBank, stereo_noise,
};
use crate::sound::voice::{AmbienceVoice, StereoSample};

/// Noise through a band whose pitch and strength follow the gusts, over a low rumble.
pub(super) struct WindVoice {
    noise: [PcgRandom; 2],
    gust: RandomWalk,
    flutter: [RandomWalk; 2],
    band: [BiquadFilter; 2],
    whistle: [BiquadFilter; 2],
    rumble: [LowPass; 2],
    tick: u32,
}

impl WindVoice {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            noise: stereo_noise(seed, 10),
            gust: RandomWalk::new(PcgRandom::new(seed, 1000), 0.45),
            flutter: [1001, 1002].map(|part| RandomWalk::new(PcgRandom::new(seed, part), 2.3)),
            band: [BiquadFilter::band_pass(400.0, 0.8); 2],
            whistle: [BiquadFilter::band_pass(900.0, 14.0); 2],
            rumble: [LowPass::new(90.0); 2],
            tick: 0,
        }
    }
}

impl AmbienceVoice for WindVoice {
    fn next(&mut self) -> StereoSample {
        let gust = self.gust.next();
        let mut out = [0.0; 2];
        for (ear, sample) in out.iter_mut().enumerate() {
            let force = gust * (0.7 + 0.3 * self.flutter[ear].next());
            // Filters follow the gust a thousand times a second, which is smooth to the ear.
            if self.tick == 0 {
                self.band[ear].reshape(BiquadFilter::band_pass(220.0 + 650.0 * force, 0.8));
                self.whistle[ear].reshape(BiquadFilter::band_pass(500.0 + 900.0 * force, 14.0));
            }
            let noise = self.noise[ear].noise();
            *sample = self.band[ear].next(noise) * (0.08 + 0.6 * force * force)
                + self.whistle[ear].next(noise) * 0.35 * force.powi(3)
                + self.rumble[ear].next(noise) * 0.8 * (0.3 + force);
        }
        self.tick = (self.tick + 1) % 48;
        out
    }
}

/// A hiss of far drops and a patter of near ones.
pub(super) struct RainVoice {
    noise: [PcgRandom; 2],
    drops: PcgRandom,
    density: RandomWalk,
    hiss: [BiquadFilter; 2],
    body: [BiquadFilter; 2],
    near_drops: ToneBank,
}

impl RainVoice {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            noise: stereo_noise(seed, 20),
            drops: PcgRandom::new(seed, 1010),
            density: RandomWalk::new(PcgRandom::new(seed, 1011), 0.3),
            hiss: [BiquadFilter::high_pass(2600.0, 0.6); 2],
            body: [BiquadFilter::band_pass(900.0, 0.6); 2],
            near_drops: ToneBank::default(),
        }
    }
}

impl AmbienceVoice for RainVoice {
    fn next(&mut self) -> StereoSample {
        let density = 0.7 + 0.3 * self.density.next();
        if self.drops.happens(160.0 * density) {
            let size = self.drops.unit().powi(3);
            let hertz = self.drops.octaves(1800.0, 7000.0) / (1.0 + size);
            let seconds = self.drops.between(0.006, 0.02) + 0.03 * size;
            let pan = self.drops.noise();
            self.near_drops.strike(DecayingTone::new(
                hertz,
                seconds,
                1.15,
                0.03 + 0.16 * size,
                pan,
            ));
        }
        let mut out = self.near_drops.next();
        for (ear, sample) in out.iter_mut().enumerate() {
            let noise = self.noise[ear].noise();
            *sample += self.hiss[ear].next(noise) * 0.11 * density
                + self.body[ear].next(noise) * 0.07 * density;
        }
        out
    }
}

/// A crack, then a rumble of many echoes that die away; then quiet until the next.
pub(super) struct ThunderVoice {
    noise: [PcgRandom; 2],
    random: PcgRandom,
    deep: [[LowPass; 2]; 2],
    crack: [BiquadFilter; 2],
    air: [LowPass; 2],
    /// Loudness of the rumble now, and where it is heading.
    roll: f32,
    target: f32,
    snap: f32,
    /// Samples to the next bolt.
    wait: f32,
}

impl ThunderVoice {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            noise: stereo_noise(seed, 30),
            random: PcgRandom::new(seed, 1020),
            deep: [[LowPass::new(130.0), LowPass::new(220.0)]; 2],
            crack: [BiquadFilter::band_pass(1100.0, 0.5); 2],
            air: [LowPass::new(500.0); 2],
            roll: 0.0,
            target: 0.0,
            snap: 0.0,
            // Soon enough to be heard in the shortest video.
            wait: 0.35 * 48_000.0,
        }
    }
}

impl AmbienceVoice for ThunderVoice {
    fn next(&mut self) -> StereoSample {
        self.wait -= 1.0;
        if self.wait < 0.0 {
            self.wait = self.random.between(5.0, 9.0) * 48_000.0;
            self.target = self.random.between(0.7, 1.0);
            self.snap = self.target * self.random.between(0.1, 0.5);
        }
        // Echoes from ever farther away renew the roll, each weaker than the last.
        if self.target > 0.02 && self.random.happens(7.0) {
            self.roll = self.roll.max(self.target * self.random.between(0.4, 1.0));
        }
        // Factors for each sample: the echoes lose half their strength in a second, the roll in a
        // quarter of one, the crack in 20 ms.
        self.target *= 0.999_985;
        self.roll *= 0.999_94;
        self.snap *= 0.9993;
        let mut out = [0.0; 2];
        for (ear, sample) in out.iter_mut().enumerate() {
            let noise = self.noise[ear].noise();
            let low = self.deep[ear].iter_mut().fold(noise, |x, f| f.next(x));
            *sample = low * 6.0 * self.roll
                + self.crack[ear].next(noise) * self.snap
                + self.air[ear].next(noise) * 0.012;
        }
        out
    }
}
