//! The cost of separation: CPU seconds for each second of sound, speed as a multiple of real time,
//! and memory.
//!
//! `cargo bench -p stems` separates 180 s of made-up stereo music into all five stems, then ten
//! minutes of it, piece by piece, and prints what the kernel counted. Linux only: it reads
//! `/proc`. If `STEMS_BENCH_PYTHON` names a Python that has librosa, librosa then splits the same
//! 180 s into harmonic and percussive parts, for comparison. It does so by median filters, which
//! are one of the cues used here:
//!
//! ```sh
//! python3 -m venv venv && venv/bin/pip install librosa
//! STEMS_BENCH_PYTHON=venv/bin/python cargo bench -p stems
//! ```

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a program for developers"
)]

use std::io::Write;
use std::process::Command;
use std::time::Instant;

use stems::{BlockSeparator, ClipShape, SeparationControl, SeparationEngine, Stem};

const RATE: u32 = 44_100;
/// Length of the clip that both programs get.
const CLIP_SECONDS: usize = 180;

fn main() {
    let ours = measure(CLIP_SECONDS);
    measure(600);
    match std::env::var_os("STEMS_BENCH_PYTHON") {
        Some(python) => {
            let theirs = librosa(&python);
            println!(
                "librosa.decompose.hpss alone on the same {CLIP_SECONDS} s: {theirs:.1} CPU s; all of the separation takes {:.2} times that",
                ours / theirs
            );
        }
        None => println!(
            "no comparison: STEMS_BENCH_PYTHON names no Python with librosa, see benches/separate.rs"
        ),
    }
}

/// Separates that many seconds of music, prints what it took, and returns the CPU seconds.
fn measure(seconds: usize) -> f64 {
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    separate(seconds);
    let (cpu, wall) = (cpu_seconds() - cpu, wall.elapsed().as_secs_f64());
    let clip = seconds as f64;
    println!(
        "{seconds} s of stereo in {wall:.1} s: {:.3} CPU s a second, {:.1} times real time, peak memory {} MB",
        cpu / clip,
        clip / wall,
        peak_kilobytes() * 1_024 / 1_000_000,
    );
    cpu
}

/// Separates a clip into all five stems, and makes the clip piece by piece meanwhile.
fn separate(seconds: usize) {
    let shape = ClipShape {
        rate: RATE,
        channels: 2,
        frames: seconds * RATE as usize,
        peak: 0.9,
        mean: 0.0,
        deviation: 0.2,
    };
    let mut separator = BlockSeparator::new(shape, &Stem::BUILT_IN).unwrap();
    let mut control = SeparationControl::default();
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

/// CPU seconds of the median filters alone: without imports, reading and the transform.
const HPSS: &str = "
import sys, time, numpy, librosa
sound = numpy.fromfile(sys.argv[1], '<f4').reshape(2, -1)
spectra = librosa.stft(sound, n_fft=2048)
start = time.process_time()
librosa.decompose.hpss(spectra)
print(time.process_time() - start)
";

fn librosa(python: &std::ffi::OsStr) -> f64 {
    let path = format!("{}/music.f32", env!("CARGO_TARGET_TMPDIR"));
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
    let mut music = Music::default();
    let seconds: Vec<_> = (0..CLIP_SECONDS).map(|_| music.second()).collect();
    for side in 0..2 {
        for x in seconds.iter().flat_map(|second| &second[side]) {
            file.write_all(&x.to_le_bytes()).unwrap();
        }
    }
    drop(file);
    let out = Command::new(python).args(["-c", HPSS, &path]).output();
    let out = out.unwrap();
    std::fs::remove_file(path).unwrap();
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{}: {stderr}", python.display());
    String::from_utf8_lossy(&out.stdout).trim().parse().unwrap()
}

/// Tones, a gliding voice and hits of noise, never twice the same.
#[derive(Default)]
struct Music {
    position: usize,
    state: u32,
    phases: [f32; 3],
}

impl Music {
    fn second(&mut self) -> [Vec<f32>; 2] {
        let mut sides = [Vec::new(), Vec::new()];
        for _ in 0..RATE {
            let t = self.position as f32 / RATE as f32;
            self.position += 1;
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
    // The program's name, in brackets, may hold spaces; the times are fields 12 and 13 after it.
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
