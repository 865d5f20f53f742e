//! Trains the separator's two nets from scratch on songs whose stems are known.
//!
//! ```sh
//! cd crates/stems/training
//! python3 presets.py 71 140 songs.json && python3 render.py songs.json songs
//! cargo run --release -p stems --example train -- songs OUT.bin
//! ```
//!
//! Each folder under a songs folder holds `vocals.wav`, `drums.wav`, `bass.wav` and `other.wav`.
//! Every song is heard as it is or with its sides swapped, and again with the stems at other
//! levels, sometimes folded to mono. All random numbers have fixed seeds and the work is cut in
//! two whatever the machine, so that the same songs give the same weights.

#![expect(clippy::print_stderr, clippy::unwrap_used, reason = "a tool for developers")]

mod descent;
mod heard;

use std::path::PathBuf;

use stems::training;

/// Optimiser steps for each net.
const STEPS: usize = 5_000;

fn main() {
    let mut paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let out = paths.pop().expect("usage: train SONGS... OUT.bin");
    let songs = heard::songs(&paths);
    eprintln!("{} songs", songs.len());
    let mut weights: Vec<Vec<f32>> = Vec::new();
    for (pass, sizes) in training::SIZES.into_iter().enumerate() {
        let begun = std::time::Instant::now();
        let draws = heard::draws(&songs, weights.first().map(Vec::as_slice));
        eprintln!("pass {}: {} clips heard in {:.0?}", pass + 1, draws.len(), begun.elapsed());
        weights.push(descent::train(sizes, &draws, STEPS));
        eprintln!("pass {}: trained after {:.0?}", pass + 1, begun.elapsed());
    }
    let bytes: Vec<u8> = weights.concat().iter().flat_map(|w| w.to_le_bytes()).collect();
    std::fs::write(&out, bytes).unwrap();
}
