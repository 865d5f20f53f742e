//! The demo's instruments: each turns a note into mono samples at 44.1 kHz, by arithmetic alone.
//!
//! Knows no score and no mix. Levels are about -1 to 1; the caller sets gains and places.

#![expect(
    clippy::cast_precision_loss,
    reason = "sample counts here stay far below 2^24"
)]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "lengths are small and positive"
)]

use std::f32::consts::TAU;

/// Samples a second.
pub(super) const RATE: f32 = 44_100.0;

/// A note of a chord.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tone {
    /// MIDI number; 69 is A at 440 Hz.
    pub(super) midi: f32,
    /// How long it is held.
    pub(super) seconds: f32,
}

/// One sung syllable.
#[derive(Debug, Clone, Copy)]
pub(super) struct Syllable {
    /// When it starts, in seconds from the beginning of the song.
    pub(super) start: f32,
    /// How long it is held.
    pub(super) seconds: f32,
    /// MIDI number; 69 is A at 440 Hz.
    pub(super) midi: f32,
    /// One of `a e i o u`.
    pub(super) vowel: char,
}

/// This many samples in seconds.
pub(super) fn seconds(samples: usize) -> f32 {
    samples as f32 / RATE
}

/// A singer: a bright buzz as the vocal folds make it, through the resonances of the vowel's mouth shape. The voice
/// is one stream, so that pitch glides between notes and the mouth moves between vowels as a singer's do.
pub(super) fn sing(melody: &[Syllable], length: usize) -> Vec<f32> {
    let mut out = vec![0.0; length];
    let mut hiss = Hiss::new(7);
    let mut mouth = Mouth::new();
    let (mut phase, mut level, mut pitch) = (0.0_f32, 0.0_f32, 62.0_f32);
    let mut dull = 0.0_f32;
    let mut next = melody.iter().peekable();
    let mut current: Option<&Syllable> = None;
    for (at, slot) in out.iter_mut().enumerate() {
        let now = seconds(at);
        if let Some(note) = next.next_if(|note| note.start <= now) {
            current = Some(note);
        }
        let Some(note) = current else { continue };
        let age = now - note.start;
        if at % 32 == 0 {
            mouth.aim(note.vowel, age < 0.055);
        }
        let held = age < note.seconds - 0.05;
        let aim = if !held {
            0.0
        } else if age < 0.055 {
            0.45
        } else {
            1.0 - 0.12 * (age / note.seconds)
        };
        level += (aim - level) * if held { 0.0011 } else { 0.0007 };
        pitch += (note.midi - pitch) * 0.0013;
        let depth = ((age - 0.22) / 0.35).clamp(0.0, 1.0) * 0.32;
        let waver = depth * (TAU * 5.4 * now).sin()
            + 0.035 * (TAU * 2.3 * now).sin() * (TAU * 0.71 * now).cos();
        let step = hertz(pitch + waver) / RATE;
        phase = (phase + step).fract();
        let buzz = saw(phase, step);
        // The folds close less sharply than a saw; the soft edge is what makes it a voice and not a reed.
        dull += (buzz - dull) * 0.70;
        let breath = hiss.next() * (0.035 + 0.08 * (1.0 - phase));
        *slot = mouth.speak(dull + breath) * level;
    }
    out
}

/// The resonances of a mouth, moving towards the vowel it is asked for.
struct Mouth {
    /// Frequency in Hz and strength of each resonance, as they are now.
    shape: [(f32, f32); FORMANTS],
    filters: [Resonator; FORMANTS],
}

impl Mouth {
    fn new() -> Self {
        Self {
            shape: formants('a'),
            filters: [Resonator::default(); FORMANTS],
        }
    }

    /// Moves a little towards a vowel; called every 32 samples. A note begins with the tongue up, as in "la".
    fn aim(&mut self, vowel: char, tongue_up: bool) {
        let mut target = formants(vowel);
        if tongue_up {
            target[0].0 = 300.0;
            target[1].1 *= 0.35;
            target[2].1 *= 0.5;
        }
        for ((now, aim), (filter, width)) in self
            .shape
            .iter_mut()
            .zip(target)
            .zip(self.filters.iter_mut().zip(WIDTHS_HZ))
        {
            now.0 += (aim.0 - now.0) * 0.035;
            now.1 += (aim.1 - now.1) * 0.035;
            filter.tune(now.0, width);
        }
    }

    fn speak(&mut self, buzz: f32) -> f32 {
        // Neighbouring resonances are taken with opposite signs, so that they do not cancel between their peaks.
        let mut sign = -1.0;
        let mut sum = 0.0;
        for (filter, (_, strength)) in self.filters.iter_mut().zip(self.shape) {
            sign = -sign;
            sum += sign * strength * filter.run(buzz);
        }
        sum
    }
}

/// Frequencies and strengths of a vowel's resonances, from the published tables for a sung alto, with the upper ones
/// raised because they reach the ear through a microphone close by.
fn formants(vowel: char) -> [(f32, f32); FORMANTS] {
    match vowel {
        'e' => [
            (450.0, 0.9),
            (1_900.0, 0.62),
            (2_650.0, 0.56),
            (3_500.0, 0.30),
            (4_950.0, 0.10),
        ],
        'i' => [
            (370.0, 0.9),
            (2_250.0, 0.55),
            (2_950.0, 0.52),
            (3_600.0, 0.30),
            (4_950.0, 0.10),
        ],
        'o' => [
            (480.0, 0.8),
            (850.0, 0.60),
            (2_830.0, 0.36),
            (3_500.0, 0.25),
            (4_950.0, 0.08),
        ],
        'u' => [
            (400.0, 0.9),
            (760.0, 0.50),
            (2_530.0, 0.26),
            (3_500.0, 0.18),
            (4_950.0, 0.06),
        ],
        _ => [
            (760.0, 1.0),
            (1_180.0, 0.85),
            (2_800.0, 0.52),
            (3_500.0, 0.40),
            (4_950.0, 0.14),
        ],
    }
}

/// A bass drum: a sine that falls in pitch, with a click.
pub(super) fn kick(force: f32) -> Vec<f32> {
    let mut phase = 0.0_f32;
    let mut hiss = Hiss::new(3);
    render(0.42, |t| {
        phase += (47.0 + 115.0 * (-t * 34.0).exp()) / RATE;
        let body = (phase * TAU).sin() * (-t * 9.5).exp();
        (body + 0.22 * hiss.next() * (-t * 320.0).exp()) * force
    })
}

/// A snare drum: two skin tones and the rattle of its wires.
pub(super) fn snare(force: f32) -> Vec<f32> {
    let mut hiss = Hiss::new(11);
    let (mut low, mut band) = (0.0_f32, Resonator::default());
    band.tune(3_400.0, 2_600.0);
    render(0.30, |t| {
        let noise = hiss.next();
        low += (noise - low) * 0.12;
        let skin = (t * 186.0 * TAU).sin() * (-t * 24.0).exp()
            + 0.5 * (t * 331.0 * TAU).sin() * (-t * 32.0).exp();
        let wires =
            (noise - low) * 0.45 * (-t * 19.0).exp() + band.run(noise) * 0.9 * (-t * 14.0).exp();
        (0.60 * skin + wires) * force
    })
}

/// A hi-hat, closed or open: noise with its low end removed twice.
pub(super) fn hat(force: f32, open: bool) -> Vec<f32> {
    let mut hiss = Hiss::new(if open { 29 } else { 19 });
    let (mut one, mut two) = (0.0_f32, 0.0_f32);
    let decay = if open { 7.5 } else { 46.0 };
    render(if open { 0.55 } else { 0.12 }, |t| {
        let noise = hiss.next();
        one += (noise - one) * 0.62;
        let high = noise - one;
        two += (high - two) * 0.62;
        let ring = (t * 7_921.0 * TAU).sin() * (t * 5_407.0 * TAU).sin() * 0.25;
        (high - two + ring) * 1.6 * (-t * decay).exp() * (t / 0.001).min(1.0) * force
    })
}

/// A bass guitar: a round wave with a plucked edge that closes as it rings.
pub(super) fn bass_note(midi: f32, held: f32) -> Vec<f32> {
    let step = hertz(midi) / RATE;
    let (mut phase, mut smooth, mut smoother) = (0.0_f32, 0.0_f32, 0.0_f32);
    render(held + 0.06, |t| {
        phase = (phase + step).fract();
        let open = 0.028 + 0.085 * (-t * 9.0).exp();
        smooth += (saw(phase, step) - smooth) * open;
        smoother += (smooth - smoother) * open;
        let body = 0.85 * (phase * TAU).sin() + 1.15 * smoother;
        body * (t / 0.006).min(1.0) * (0.35 + 0.65 * (-t * 2.6).exp()) * release(t, held, 0.05)
    })
}

/// One note of a soft string pad; `lean` -1 or 1 detunes it down or up, for the two sides of the room.
pub(super) fn pad_note(tone: Tone, lean: f32) -> Vec<f32> {
    let steps = [-0.055, 0.03, 0.085].map(|cents: f32| hertz(tone.midi + lean * cents) / RATE);
    let mut phases = [0.13, 0.47, 0.81]
        .map(|start: f32| (start + 0.17 * lean + 0.29 * tone.midi).rem_euclid(1.0));
    let (mut smooth, mut smoother) = (0.0_f32, 0.0_f32);
    render(tone.seconds + 0.5, |t| {
        let mut sum = 0.0;
        for (phase, step) in phases.iter_mut().zip(steps) {
            *phase = (*phase + step).fract();
            sum += saw(*phase, step);
        }
        let open = 0.13 + 0.05 * (TAU * 0.31 * t + lean).sin();
        smooth += (sum - smooth) * open;
        smoother += (smooth - smoother) * open;
        smoother * (t / 0.22).min(1.0) * release(t, tone.seconds - 0.1, 0.5)
    })
}

/// An electric piano: one sine bends another, more at the strike than in the ring.
pub(super) fn pluck(midi: f32) -> Vec<f32> {
    let pitch = hertz(midi);
    render(1.1, |t| {
        let bell = (t * pitch * 7.0 * TAU).sin() * (-t * 26.0).exp() * 0.30;
        let bend = (t * pitch * TAU).sin() * (0.25 + 1.1 * (-t * 7.0).exp());
        ((t * pitch * TAU + bend).sin() + bell)
            * (t / 0.003).min(1.0)
            * (-t * 4.2).exp()
            * release(t, 0.9, 0.2)
    })
}

/// A small hall: echoes that feed on themselves, then smeared (Schroeder's design).
pub(super) struct Reverb {
    combs: Vec<(Vec<f32>, usize, f32)>,
    smears: Vec<(Vec<f32>, usize)>,
}

impl Reverb {
    /// `spread` lengthens every echo by so many samples: two reverbs that differ in it make a wide room.
    pub(super) fn new(spread: usize) -> Self {
        let line = |length: usize| (vec![0.0; length + spread], 0);
        Self {
            combs: [1_557, 1_617, 1_491, 1_422, 1_277, 1_356]
                .map(|n| (line(n).0, 0, 0.0))
                .to_vec(),
            smears: [556, 441, 341].map(line).to_vec(),
        }
    }

    /// The sound of the room alone, without the sound that caused it.
    pub(super) fn run(mut self, sound: &[f32]) -> Vec<f32> {
        sound.iter().map(|sample| self.step(*sample)).collect()
    }

    fn step(&mut self, input: f32) -> f32 {
        let mut sum = 0.0;
        for (line, place, dull) in &mut self.combs {
            let Some(slot) = line.get_mut(*place) else {
                continue;
            };
            let echo = *slot;
            *dull += (echo - *dull) * 0.62;
            *slot = input + *dull * 0.83;
            *place = (*place + 1) % line.len();
            sum += echo;
        }
        for (line, place) in &mut self.smears {
            let Some(slot) = line.get_mut(*place) else {
                continue;
            };
            let delayed = *slot;
            *slot = sum + delayed * 0.5;
            sum = delayed - sum * 0.5;
            *place = (*place + 1) % line.len();
        }
        sum * 0.4
    }
}

/// Two-pole resonance with a gain of one at its peak.
#[derive(Debug, Clone, Copy, Default)]
struct Resonator {
    gain: f32,
    back: (f32, f32),
    past: (f32, f32),
}

impl Resonator {
    fn tune(&mut self, hertz: f32, width_hz: f32) {
        let radius = (-std::f32::consts::PI * width_hz / RATE).exp();
        let angle = TAU * hertz / RATE;
        self.back = (2.0 * radius * angle.cos(), -radius * radius);
        self.gain =
            (1.0 - radius) * (1.0 - 2.0 * radius * (2.0 * angle).cos() + radius * radius).sqrt();
    }

    fn run(&mut self, input: f32) -> f32 {
        let out = self.gain * input + self.back.0 * self.past.0 + self.back.1 * self.past.1;
        self.past = (out, self.past.0);
        out
    }
}

/// White noise from a fixed start: the same hiss at every rendering.
struct Hiss(u32);

impl Hiss {
    fn new(start: u32) -> Self {
        Self(start.wrapping_mul(0x9e37_79b9) | 1)
    }

    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        (self.0 >> 8) as f32 / 8_388_608.0 - 1.0
    }
}

/// A saw wave whose jump is rounded over one sample on each side, which keeps it from aliasing (polyBLEP).
fn saw(phase: f32, step: f32) -> f32 {
    let plain = 2.0 * phase - 1.0;
    if phase < step {
        let t = phase / step;
        plain - (t + t - t * t - 1.0)
    } else if phase > 1.0 - step {
        let t = (phase - 1.0) / step;
        plain - (t * t + t + t + 1.0)
    } else {
        plain
    }
}

/// 1 while held, then falling to 0 within `tail` seconds.
fn release(t: f32, held: f32, tail: f32) -> f32 {
    (1.0 - (t - held) / tail).clamp(0.0, 1.0)
}

fn hertz(midi: f32) -> f32 {
    440.0 * ((midi - 69.0) / 12.0).exp2()
}

fn render(length: f32, mut sample: impl FnMut(f32) -> f32) -> Vec<f32> {
    (0..(length * RATE) as usize)
        .map(|at| sample(seconds(at)))
        .collect()
}

/// How many resonances a mouth has here.
const FORMANTS: usize = 5;
/// Their widths in Hz.
const WIDTHS_HZ: [f32; FORMANTS] = [130.0, 130.0, 160.0, 190.0, 260.0];
