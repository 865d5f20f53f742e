//! What our part of a separation by an ONNX model costs on top of the runtime's part.
//!
//! `MEDIAGATE_TEST_ONNX_PYTHON=… cargo bench -p stems --bench onnx` makes a convolutional graph
//! with an MDX-Net's published sizes and random weights, and separates half a minute of stereo with
//! it. The given Python then only runs the same graph, on as many inputs of the same shape, with
//! the same library and the same number of threads. The two take turns, so that both see the same
//! machine. If others use the machine too, only the CPU times are comparable. Linux only.
//!
//! `tests/onnx/requirements.txt` lists the packages that Python needs.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for developers"
)]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use stems::onnx::{RuntimeOptions, SeparationModel};
use stems::{Audio, SeparationControl, Stem};

const RATE: u32 = 44_100;
const SECONDS: u32 = 30;
/// Samples from the start of a chunk to that of the next: three quarters of its 255 hops.
const STEP: usize = 255 * 1_024 * 3 / 4;
const N_FFT: usize = 7_680;
const THREADS: usize = 1;

fn main() {
    let Some(python) = std::env::var_os("MEDIAGATE_TEST_ONNX_PYTHON") else {
        println!("MEDIAGATE_TEST_ONNX_PYTHON is not set: nothing was measured");
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let graph = home.path().join("unet.onnx");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/onnx/make.py");
    let run_python = |arguments: &[&str]| {
        let run = Command::new(&python)
            .arg("-B")
            .arg(&script)
            .args(arguments)
            .output();
        String::from_utf8(run.unwrap().stdout).unwrap()
    };
    let library = run_python(&["--unet", graph.to_str().unwrap()]);
    let manifest = "name = 'unet'\nkind = 'mdx'\nfile = 'unet.onnx'\nstems = ['vocals']\n\
                    [mdx]\nn_fft = 7680\ndim_f = 3072\ndim_t = 256\n";
    std::fs::write(home.path().join("unet.toml"), manifest).unwrap();
    let options = RuntimeOptions {
        library: Some(library.trim().into()),
        threads: THREADS,
    };
    let model = Arc::new(SeparationModel::open(&home.path().join("unet.toml"), &options).unwrap());
    let mix = noise();
    let chunks = chunks(mix.frames());
    println!("{SECONDS} s of stereo, {chunks} chunks, {THREADS} thread of the runtime");
    for round in 1..=3 {
        let ours = timed(|| {
            let requested = [Stem::Vocals, Stem::Instrumental];
            model
                .separate(&mix, &requested, SeparationControl::default())
                .unwrap();
        });
        let alone = run_python(&["--time", graph.to_str().unwrap(), &chunks.to_string()]);
        let mut alone = alone.split_whitespace().map(|x| x.parse::<f64>().unwrap());
        let alone = (alone.next().unwrap(), alone.next().unwrap());
        println!(
            "round {round}: separation {:.2} s CPU, {:.2} s wall; runtime alone {:.2} s CPU, {:.2} s wall; \
             ratio {:.3} CPU, {:.3} wall",
            ours.0,
            ours.1,
            alone.0,
            alone.1,
            ours.0 / alone.0,
            ours.1 / alone.1,
        );
    }
    println!("peak memory {} MB", peak_kilobytes() / 1_000);
}

/// The number of chunks in a separation of this many frames.
fn chunks(frames: usize) -> usize {
    let (segment, trim) = (255 * 1_024, N_FFT / 2);
    let unaffected = segment - 2 * trim;
    (trim + frames + unaffected + trim - frames % unaffected).div_ceil(STEP)
}

fn noise() -> Audio {
    let mut state = 1u32;
    let mut channel = || {
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from(u16::try_from(state >> 16).unwrap()) / 65_536.0 - 0.5
        };
        (0..SECONDS * RATE).map(|_| next()).collect()
    };
    Audio::new(RATE, vec![channel(), channel()]).unwrap()
}

/// CPU and wall seconds.
fn timed(work: impl FnOnce()) -> (f64, f64) {
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    work();
    (cpu_seconds() - cpu, wall.elapsed().as_secs_f64())
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
