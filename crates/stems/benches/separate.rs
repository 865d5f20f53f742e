//! What separation costs: CPU seconds for each second of sound, times real time, and memory.
//!
//! `cargo bench -p stems` separates 180 s of made-up stereo music into all stems, then a clip of
//! ten minutes piece by piece, and prints what the kernel counted. Linux only: elsewhere it has no
//! way to ask.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a program for developers"
)]

use std::time::Instant;

use stems::{Control, Separator, Shape, Stem};

const RATE: u32 = 44_100;

fn main() {
    for seconds in [180, 600] {
        let (cpu, wall) = (cpu_seconds(), Instant::now());
        separate(seconds);
        let (cpu, wall) = (cpu_seconds() - cpu, wall.elapsed().as_secs_f64());
        let clip = seconds as f64;
        println!(
            "{seconds} s of stereo in {wall:.1} s: {:.3} CPU s a second, {:.1} times real time, peak memory {} MB",
            cpu / clip,
            clip / wall,
            peak_kilobytes() / 1_000,
        );
    }
}

/// All five stems of a clip that is made while it is separated.
fn separate(seconds: usize) {
    let shape = Shape {
        rate: RATE,
        channels: 2,
        frames: seconds * RATE as usize,
        peak: 0.9,
        mean: 0.0,
        deviation: 0.2,
    };
    let mut separator = Separator::new(shape, &Stem::BUILT_IN).unwrap();
    let mut control = Control::default();
    let mut written = 0;
    let mut write = |_: usize, piece: &[Vec<f32>]| {
        written += piece[0].len();
        true
    };
    let mut music = Music::default();
    for _ in 0..seconds {
        let piece = music.second();
        separator.push(&piece, &mut control, &mut write).unwrap();
    }
    separator.finish(&mut control, &mut write).unwrap();
    assert_eq!(written, 5 * shape.frames);
}

/// Tones, a gliding voice and hits of noise, never twice the same.
#[derive(Default)]
struct Music {
    at: usize,
    state: u32,
    phases: [f32; 3],
}

impl Music {
    fn second(&mut self) -> [Vec<f32>; 2] {
        let mut sides = [Vec::new(), Vec::new()];
        for _ in 0..RATE {
            let t = self.at as f32 / RATE as f32;
            self.at += 1;
            let note = [220.0, 262.0, 294.0, 330.0, 247.0][(t * 1.7) as usize % 5];
            let voice = note * (1.0 + 0.02 * (t * 33.0).sin());
            for (phase, hz) in self.phases.iter_mut().zip([voice, note / 4.0, note * 1.5]) {
                *phase = (*phase + hz / RATE as f32).fract();
            }
            self.state = self
                .state
                .wrapping_mul(1_664_525)
                .wrapping_add(1_013_904_223);
            let noise = (f64::from(self.state) / f64::from(1u32 << 31) - 1.0) as f32;
            let hit = noise * 0.4 * (-(t * 4.0).fract() * 10.0).exp();
            let saw = |phase: f32| (phase - 0.5) * 0.2;
            let centre = saw(self.phases[0]) + saw(self.phases[1]) + hit;
            sides[0].push(centre + saw(self.phases[2]));
            sides[1].push(centre - 0.3 * saw(self.phases[2]));
        }
        sides
    }
}

/// User and system time of this process so far.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The program's name, in brackets, may hold spaces; the times are 12 and 13 fields behind it.
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let ticks: f64 = fields[11..13]
        .iter()
        .map(|f| f.parse::<f64>().unwrap())
        .sum();
    ticks / 100.0
}

fn peak_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
