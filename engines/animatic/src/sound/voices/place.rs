//! Places: birds, crickets, a fire, a city, a quiet room.

use crate::sound::dsp::{
    BiquadFilter, DecayingTone, LowPass, PcgRandom, RandomWalk, ToneBank, pan_gains, stereo_noise,
};
use crate::sound::voice::{AmbienceVoice, RATE_HZ, StereoSample};

/// Songs of a few notes from here and there, over leaves.
pub(super) struct BirdsVoice {
    noise: [PcgRandom; 2],
    random: PcgRandom,
    breeze: RandomWalk,
    leaves: [BiquadFilter; 2],
    singers: Vec<BirdSinger>,
    notes: ToneBank,
}

/// A bird: sings a phrase of notes typical of it, then pauses.
struct BirdSinger {
    hertz: f32,
    pan: f32,
    level: f32,
    /// Notes still to come in the phrase.
    notes: u32,
    /// Samples to the next note or phrase.
    wait: f32,
}

impl BirdsVoice {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = PcgRandom::new(seed, 1050);
        let singers = (0..4_u8)
            .map(|i| BirdSinger {
                hertz: random.octaves(2300.0, 5200.0),
                pan: random.noise(),
                level: random.between(0.05, 0.2),
                notes: 0,
                // They begin one after the other, the first almost immediately.
                wait: (0.3 + 1.3 * f32::from(i)) * RATE_HZ,
            })
            .collect();
        Self {
            noise: stereo_noise(seed, 60),
            breeze: RandomWalk::new(PcgRandom::new(seed, 1051), 0.5),
            leaves: [BiquadFilter::band_pass(3200.0, 0.5); 2],
            singers,
            notes: ToneBank::default(),
            random,
        }
    }
}

impl AmbienceVoice for BirdsVoice {
    fn next(&mut self) -> StereoSample {
        let random = &mut self.random;
        for bird in &mut self.singers {
            bird.wait -= 1.0;
            if bird.wait > 0.0 {
                continue;
            }
            if bird.notes == 0 {
                bird.notes = if random.unit() < 0.5 { 3 } else { 6 };
            }
            bird.notes -= 1;
            let hertz = bird.hertz * random.between(0.85, 1.2);
            let glide = random.octaves(0.6, 1.6);
            let seconds = random.between(0.09, 0.22);
            // The second tone, softer and from the other side, is the echo from the trees.
            let note = |level, pan| DecayingTone::new(hertz, seconds, glide, level, pan);
            self.notes.strike(note(bird.level, bird.pan));
            self.notes.strike(note(bird.level * 0.2, -bird.pan));
            bird.wait = RATE_HZ
                * if bird.notes > 0 {
                    random.between(0.08, 0.2)
                } else {
                    random.between(1.5, 4.5)
                };
        }
        let breeze = 0.3 + 0.7 * self.breeze.next();
        let mut out = self.notes.next();
        for (ear, sample) in out.iter_mut().enumerate() {
            *sample += self.leaves[ear].next(self.noise[ear].noise()) * 0.02 * breeze;
        }
        out
    }
}

/// Chirps of four pulses, each cricket at its own pitch and pace.
pub(super) struct CricketsVoice {
    noise: [PcgRandom; 2],
    night: [LowPass; 2],
    choir: Vec<Cricket>,
}

struct Cricket {
    phase_step: f32,
    phase: f32,
    /// Samples since the start of the present chirp, and the length of a chirp with its pause.
    elapsed: f32,
    period: f32,
    level: f32,
    gains: StereoSample,
    random: PcgRandom,
}

impl CricketsVoice {
    pub(super) fn new(seed: u64) -> Self {
        let choir = (0..5)
            .map(|i| {
                let mut random = PcgRandom::new(seed, 1060 + i);
                Cricket {
                    phase_step: std::f32::consts::TAU * random.between(3900.0, 5200.0) / RATE_HZ,
                    phase: 0.0,
                    elapsed: random.unit() * 0.5 * RATE_HZ,
                    period: random.between(0.4, 0.75) * RATE_HZ,
                    level: random.octaves(0.03, 0.2),
                    gains: pan_gains(random.noise()),
                    random,
                }
            })
            .collect();
        Self {
            noise: stereo_noise(seed, 70),
            night: [LowPass::new(700.0); 2],
            choir,
        }
    }
}

impl Cricket {
    fn next(&mut self) -> StereoSample {
        // A pulse lasts 15 ms and the next begins after 30; a chirp has four.
        const PULSE: f32 = 0.03 * RATE_HZ;
        self.elapsed += 1.0;
        if self.elapsed > self.period {
            self.elapsed = 0.0;
            self.period = self.random.between(0.4, 0.75) * RATE_HZ;
        }
        if self.elapsed > 4.0 * PULSE {
            return [0.0; 2];
        }
        self.phase = (self.phase + self.phase_step) % std::f32::consts::TAU;
        let pulse_phase = (self.elapsed % PULSE) / (PULSE * 0.5);
        let swell = (pulse_phase.min(1.0) * std::f32::consts::PI).sin().powi(2);
        let value = self.phase.sin() * swell * self.level;
        self.gains.map(|share| share * value)
    }
}

impl AmbienceVoice for CricketsVoice {
    fn next(&mut self) -> StereoSample {
        let mut out = [0.0; 2];
        for cricket in &mut self.choir {
            let chirp = cricket.next();
            out = [out[0] + chirp[0], out[1] + chirp[1]];
        }
        for (ear, sample) in out.iter_mut().enumerate() {
            *sample += self.night[ear].next(self.noise[ear].noise()) * 0.03;
        }
        out
    }
}

/// A low roar that flickers, a hiss, and crackles.
pub(super) struct FireVoice {
    noise: [PcgRandom; 2],
    random: PcgRandom,
    flicker: [RandomWalk; 2],
    roar: [[LowPass; 2]; 2],
    hiss: [BiquadFilter; 2],
    snaps: [BiquadFilter; 2],
    /// What is left of the present crackle, at each ear.
    crackle: StereoSample,
    decay: f32,
}

impl FireVoice {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            noise: stereo_noise(seed, 80),
            random: PcgRandom::new(seed, 1070),
            flicker: [1071, 1072].map(|part| RandomWalk::new(PcgRandom::new(seed, part), 7.0)),
            roar: [[LowPass::new(120.0), LowPass::new(260.0)]; 2],
            hiss: [BiquadFilter::high_pass(5000.0, 0.6); 2],
            snaps: [BiquadFilter::band_pass(2300.0, 0.7); 2],
            crackle: [0.0; 2],
            decay: 0.99,
        }
    }
}

impl AmbienceVoice for FireVoice {
    fn next(&mut self) -> StereoSample {
        // Crackles come in flurries: each one makes another soon after it more likely.
        let rate = if self.crackle[0] + self.crackle[1] > 0.01 {
            60.0
        } else {
            9.0
        };
        if self.random.happens(rate) {
            let strength = 0.1 + 1.1 * self.random.unit().powi(4);
            self.crackle = pan_gains(self.random.noise() * 0.7).map(|share| share * strength);
            self.decay = 0.001_f32.powf(1.0 / (self.random.octaves(0.003, 0.025) * RATE_HZ));
        }
        self.crackle = self.crackle.map(|level| level * self.decay);
        let mut out = [0.0; 2];
        for (ear, sample) in out.iter_mut().enumerate() {
            let noise = self.noise[ear].noise();
            let flicker = 0.4 + 0.6 * self.flicker[ear].next();
            let low = self.roar[ear].iter_mut().fold(noise, |x, f| f.next(x));
            *sample = low * 0.9 * flicker
                + self.hiss[ear].next(noise) * 0.006
                + self.snaps[ear].next(noise * self.crackle[ear]);
        }
        out
    }
}

/// The hum of far streets, and now and then a car that passes.
pub(super) struct CityVoice {
    noise: [PcgRandom; 2],
    random: PcgRandom,
    mood: RandomWalk,
    hum: [[LowPass; 2]; 2],
    tyres: [BiquadFilter; 2],
    cars: [PassingCar; 2],
}

/// A car from one side to the other.
struct PassingCar {
    /// From −1.3 to 1.3; beyond that the car has gone.
    position: f32,
    step: f32,
    level: f32,
}

impl CityVoice {
    pub(super) fn new(seed: u64) -> Self {
        let car = |position| PassingCar {
            position,
            step: 0.5 / RATE_HZ,
            level: 0.5,
        };
        Self {
            noise: stereo_noise(seed, 90),
            random: PcgRandom::new(seed, 1080),
            mood: RandomWalk::new(PcgRandom::new(seed, 1081), 0.4),
            hum: [[LowPass::new(110.0), LowPass::new(300.0)]; 2],
            tyres: [BiquadFilter::band_pass(750.0, 0.5); 2],
            cars: [car(-0.8), car(1.1)],
        }
    }
}

impl AmbienceVoice for CityVoice {
    fn next(&mut self) -> StereoSample {
        let mut tyres = [0.0; 2];
        for car in &mut self.cars {
            car.position += car.step;
            if car.position.abs() > 1.3 {
                // The next one, after a gap, from either side.
                let direction = if self.random.unit() < 0.5 { 1.0 } else { -1.0 };
                car.position = -1.3 * direction;
                car.step = direction * self.random.between(0.35, 0.8) / RATE_HZ;
                car.level = self.random.octaves(0.1, 0.8);
            }
            let gain = (1.0 - (car.position / 1.3).powi(2)).max(0.0).powi(3) * car.level;
            let shares = pan_gains(car.position);
            tyres = [tyres[0] + gain * shares[0], tyres[1] + gain * shares[1]];
        }
        let mood = 0.6 + 0.4 * self.mood.next();
        let mut out = [0.0; 2];
        for (ear, sample) in out.iter_mut().enumerate() {
            let noise = self.noise[ear].noise();
            let low = self.hum[ear].iter_mut().fold(noise, |x, f| f.next(x));
            *sample = low * mood + self.tyres[ear].next(noise) * (0.03 + 0.25 * tyres[ear]);
        }
        out
    }
}

/// Air that stands still, and a trace of mains hum through the wall.
pub(super) struct RoomToneVoice {
    noise: [PcgRandom; 2],
    air: [[LowPass; 2]; 2],
    hush: [LowPass; 2],
    hum: f32,
}

impl RoomToneVoice {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            noise: stereo_noise(seed, 100),
            air: [[LowPass::new(140.0), LowPass::new(600.0)]; 2],
            hush: [LowPass::new(3000.0); 2],
            hum: 0.0,
        }
    }
}

impl AmbienceVoice for RoomToneVoice {
    fn next(&mut self) -> StereoSample {
        // Transformers hum at twice the mains' frequency: 100 Hz where that is 50.
        self.hum = (self.hum + std::f32::consts::TAU * 100.0 / RATE_HZ) % std::f32::consts::TAU;
        let mut out = [self.hum.sin() * 0.004; 2];
        for (ear, sample) in out.iter_mut().enumerate() {
            let noise = self.noise[ear].noise();
            let low = self.air[ear].iter_mut().fold(noise, |x, f| f.next(x));
            *sample += low * 0.5 + self.hush[ear].next(noise) * 0.03;
        }
        out
    }
}
