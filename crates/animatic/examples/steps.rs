//! The largest error of a film's steps: `steps FRAMES.y4m FILM.y4m`, frames before encoding and
//! after decoding. Prints pixels. `scripts/bench-animatic` asks it.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for a script that gives it what it wants"
)]

#[path = "../tests/all/steps.rs"]
mod steps;

use steps::Frames;

fn main() {
    let [_, truth, film] = std::env::args().collect::<Vec<_>>().try_into().unwrap();
    println!("{:.3}", read(&film).largest_error(&read(&truth)));
}

fn read(path: &str) -> Frames {
    let bytes = std::fs::read(path).unwrap();
    let header = bytes.iter().position(|&b| b == b'\n').unwrap();
    let words = String::from_utf8(bytes[..header].to_vec()).unwrap();
    let number = |letter| {
        let word = words.split(' ').find_map(|w| w.strip_prefix(letter));
        word.unwrap().parse::<usize>().unwrap()
    };
    let (width, height) = (number('W'), number('H'));
    let frame = "FRAME\n".len() + width * height * 3 / 2;
    let frames = bytes[header + 1..].chunks_exact(frame);
    Frames::new(
        width,
        frames.map(|f| &f["FRAME\n".len()..][..width * height]),
    )
}
