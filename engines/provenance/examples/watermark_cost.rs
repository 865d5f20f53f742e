//! Prints what marking and searching cost a frame.
//!
//! `cargo run --release -p provenance --example watermark_cost`

#![expect(clippy::print_stdout, reason = "a measuring program")]

use std::error::Error;
use std::time::{Duration, Instant};

use provenance::watermark::{MarkKey, VideoDetector, VideoEmbedder};

const ROUNDS: u32 = 200;

fn main() -> Result<(), Box<dyn Error>> {
    for (width, height) in [(854, 480), (1280, 720), (1920, 1080)] {
        let frame: Vec<u8> = (0..width * height)
            .map(|index| {
                u8::try_from((index % width / 7 + index / width / 5) % 200 + index % 3).unwrap_or(0)
            })
            .collect();
        let mut luma = frame.clone();
        let key = MarkKey::new(1, 2)?;
        let mut embedder = VideoEmbedder::new(&key, 3, width, height)?;
        let mut detector = VideoDetector::new(width, height)?;
        let (mut marking, mut adding) = (Duration::MAX, Duration::MAX);
        for _ in 0..ROUNDS {
            luma.copy_from_slice(&frame);
            let started = Instant::now();
            embedder.mark(&mut luma, width)?;
            marking = marking.min(started.elapsed());
            let started = Instant::now();
            detector.add(&luma, width)?;
            adding = adding.min(started.elapsed());
        }
        let started = Instant::now();
        let mark = detector.read(&key);
        println!(
            "{width}x{height}: mark {:.3} ms a frame, search {:.3} ms a frame and {:.0} ms once, read: {}",
            marking.as_secs_f64() * 1000.0,
            adding.as_secs_f64() * 1000.0,
            started.elapsed().as_secs_f64() * 1000.0,
            mark.is_some()
        );
    }
    Ok(())
}
