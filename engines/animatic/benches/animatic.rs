//! How fast frames are rendered, and whole videos made, as multiples of real time.
//!
//! `scripts/bench-animatic` compares whole processes with ffmpeg. When that comparison changes,
//! this benchmark tells whether the cause is rendering or encoding.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark may fail loudly"
)]

use std::io;
use std::time::Instant;

use animatic::{Direction, Picture, RenderControl, RenderOptions, RenderRequest, RequestedOptions};

const SHOTS: &[&str] = &["pan right", "push in", "handheld", "orbit left", "static"];
const SIZES: &[(u32, u32)] = &[(1280, 720), (1920, 1080)];
const SECONDS: f64 = 2.0;
const RUNS: usize = 3;

fn main() {
    let picture = photograph(2400, 1600);
    println!("times real time, best of {RUNS} runs of {SECONDS} s at 30 frames per second\n");
    println!(
        "{:<11} {:<12} {:>8} {:>8}",
        "size", "shot", "render", "make"
    );
    for &size in SIZES {
        for prompt in SHOTS {
            let requested = RequestedOptions {
                size: Some(size),
                seconds: Some(SECONDS),
                ..RequestedOptions::default()
            };
            let options = RenderOptions::resolve(&requested, &Direction::parse(prompt)).unwrap();
            let request = RenderRequest {
                picture: Some(&picture),
                prompt,
                options,
            };
            let render = best(|| {
                let control = &mut RenderControl::unattended();
                animatic::write_y4m(&request, &mut io::sink(), control).unwrap();
            });
            let make =
                best(|| drop(animatic::make(&request, &mut RenderControl::unattended()).unwrap()));
            let size = format!("{}x{}", size.0, size.1);
            println!("{size:<11} {prompt:<12} {render:>8.1} {make:>8.1}");
        }
    }
}

/// Seconds of video per second of the fastest run.
fn best(mut work: impl FnMut()) -> f64 {
    let seconds = (0..RUNS).map(|_| {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64()
    });
    SECONDS / seconds.fold(f64::INFINITY, f64::min)
}

/// Noise whose strength falls with its frequency, as in photographs.
fn photograph(width: u32, height: u32) -> Picture {
    let mut rgb = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let value = (0..8).fold(128.0, |sum, octave| {
                sum + (value_noise(x, y, 1 << octave) - 0.5) * 14.0 * f64::from(octave).sqrt()
            });
            for tint in [1.0, 0.9, 0.75] {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "clamped"
                )]
                rgb.push((value * tint).clamp(0.0, 255.0) as u8);
            }
        }
    }
    Picture::from_rgb(width, height, rgb).unwrap()
}

/// Random values on a grid, from 0 to 1, eased between its points.
fn value_noise(x: u32, y: u32, cell: u32) -> f64 {
    let hash = |x: u32, y: u32| {
        let mixed = (x.wrapping_mul(0x9e37_79b1) ^ y.wrapping_mul(0x85eb_ca6b) ^ cell)
            .wrapping_mul(0xc2b2_ae35);
        f64::from((mixed ^ (mixed >> 15)).wrapping_mul(0x27d4_eb2f) >> 8) / f64::from(1 << 24)
    };
    let ease = |t: f64| t * t * (3.0 - 2.0 * t);
    let (column, row) = (x / cell, y / cell);
    let across = ease(f64::from(x % cell) / f64::from(cell));
    let down = ease(f64::from(y % cell) / f64::from(cell));
    let mix = |a: f64, b: f64, t: f64| a + (b - a) * t;
    mix(
        mix(hash(column, row), hash(column + 1, row), across),
        mix(hash(column, row + 1), hash(column + 1, row + 1), across),
        down,
    )
}
