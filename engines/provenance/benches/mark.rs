//! How long the watermark takes compared with the film: the time to render and encode a film
//! without it, and the time to mark as many frames.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark may fail loudly"
)]

use std::time::{Duration, Instant};

use animatic::{Direction, RenderControl, RenderOptions, RenderRequest, RequestedOptions};
use provenance::watermark::{MarkKey, VideoEmbedder};

const SIZES: [(u32, u32); 3] = [(854, 480), (1280, 720), (1920, 1080)];
const PROMPTS: [&str; 3] = [
    "a lake under the mountains at dawn, slow dolly in, mist",
    "a neon city at night in the rain, truck right",
    "an island in the ocean, static",
];
const SECONDS: f64 = 2.0;
const RUNS: usize = 5;

fn main() {
    println!("films of {SECONDS} s, the least of {RUNS} runs\n");
    println!("| size | prompt | made in | marked in | the mark's part |\n|---|---|---|---|---|");
    for (width, height) in SIZES {
        for prompt in PROMPTS {
            let requested = RequestedOptions {
                size: Some((width, height)),
                seconds: Some(SECONDS),
                ..RequestedOptions::default()
            };
            let options = RenderOptions::resolve(&requested, &Direction::parse(prompt)).unwrap();
            let request = RenderRequest {
                picture: None,
                prompt,
                options,
            };
            let mut best = (Duration::MAX, Duration::MAX);
            for _ in 0..RUNS {
                let (rendering, marking) = film(&request, width, height);
                best = (best.0.min(rendering), best.1.min(marking));
            }
            let part = 100.0 * best.1.as_secs_f64() / (best.0 + best.1).as_secs_f64();
            println!(
                "| {width}x{height} | {prompt} | {:.0} ms | {:.1} ms | {part:.1} % |",
                best.0.as_secs_f64() * 1000.0,
                best.1.as_secs_f64() * 1000.0,
            );
        }
    }
}

/// Time for the film without the mark, and for marking as many frames.
fn film(request: &RenderRequest<'_>, width: u32, height: u32) -> (Duration, Duration) {
    let started = Instant::now();
    drop(animatic::make(request, &mut RenderControl::unattended()).unwrap());
    let rendering = started.elapsed();
    let mut y4m = Vec::new();
    animatic::write_y4m(request, &mut y4m, &mut RenderControl::unattended()).unwrap();
    let (width, height) = (width as usize, height as usize);
    let frame = width * height * 3 / 2 + "FRAME\n".len();
    let head = y4m.len() % frame;
    let key = MarkKey::new(1, 2).unwrap();
    let started = Instant::now();
    let mut embedder = VideoEmbedder::new(&key, 3, width, height).unwrap();
    for frame in y4m[head..].chunks_mut(frame) {
        let luma = &mut frame["FRAME\n".len()..][..width * height];
        embedder.mark(luma, width).unwrap();
    }
    (rendering, started.elapsed())
}
