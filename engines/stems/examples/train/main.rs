//! Trains the separator's two nets from scratch on songs whose stems are known.
//!
//! ```sh
//! cd engines/stems/training
//! python3 presets.py 71 120 songs.json && python3 render.py songs.json songs
//! cargo run --release -p stems --example train -- --steps 4000 --clips 1 songs OUT.bin
//! ```
//!
//! Each folder under a songs folder holds `vocals.wav`, `drums.wav`, `bass.wav` and `other.wav`.
//! Some clips are the song as it is, others have the stems at other levels. Some of both kinds have
//! their sides swapped or are folded to mono. All random numbers have fixed seeds and the work is
//! cut in two whatever the machine, so that the same songs give the same weights.

#![expect(
    clippy::print_stderr,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::needless_range_loop,
    reason = "a tool for developers, full of short loops over numbers"
)]

mod clips;
mod descent;

use std::path::{Path, PathBuf};

use stems::training;

/// What the command line may change.
struct Plan {
    /// Optimiser steps for each net.
    steps: usize,
    /// Clips made of each song for the second net.
    clips: usize,
    /// A file of weights whose first net is kept, so that only the second is trained.
    keep: Option<PathBuf>,
    paths: Vec<PathBuf>,
}

fn main() {
    let mut plan = Plan {
        steps: 5_000,
        clips: 2,
        keep: None,
        paths: Vec::new(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--keep-first" {
            plan.keep = arguments.next().map(PathBuf::from);
            continue;
        }
        let mut number = || {
            arguments
                .next()
                .and_then(|n| n.parse().ok())
                .expect("a number")
        };
        match argument.as_str() {
            "--steps" => plan.steps = number(),
            "--clips" => plan.clips = number(),
            _ => plan.paths.push(argument.into()),
        }
    }
    let out = plan
        .paths
        .pop()
        .expect("usage: train [--steps N] [--clips N] [--keep-first FILE] SONGS... OUT.bin");
    let songs = clips::songs(&plan.paths);
    eprintln!("{} songs", songs.len());
    let mut weights: Vec<Vec<f32>> = plan.keep.iter().map(|path| first(path)).collect();
    for (pass, sizes) in training::SIZES.into_iter().enumerate().skip(weights.len()) {
        let started = std::time::Instant::now();
        // The first net is small, so one clip of each song teaches it just as well.
        let clips_per_song = if pass == 0 { 1 } else { plan.clips };
        let draws = clips::draws(&songs, clips_per_song, weights.first().map(Vec::as_slice));
        eprintln!(
            "pass {}: {} clips drawn in {:.0?}",
            pass + 1,
            draws.len(),
            started.elapsed()
        );
        weights.push(descent::train(sizes, &draws, plan.steps));
        eprintln!("pass {}: trained after {:.0?}", pass + 1, started.elapsed());
    }
    let bytes: Vec<u8> = weights
        .concat()
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    std::fs::write(&out, bytes).unwrap();
}

/// The first net's weights in a file.
fn first(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap();
    let numbers = bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b));
    numbers
        .take(training::parameter_count(training::SIZES[0]))
        .collect()
}
