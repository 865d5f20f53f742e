//! Prints by how many pixels, at most, encoding changes the motion from one frame to the next:
//! `steps FRAMES.y4m FILM.y4m`, the frames before encoding and after decoding.
//! `scripts/bench-animatic` runs it.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a helper program that one script runs"
)]

#[path = "../tests/all/steps.rs"]
mod steps;

use steps::Frames;

fn main() {
    let [_, original, film] = std::env::args().collect::<Vec<_>>().try_into().unwrap();
    println!("{:.3}", read(&film).largest_error(&read(&original)));
}

fn read(path: &str) -> Frames {
    let bytes = std::fs::read(path).unwrap();
    let header = bytes.iter().position(|&b| b == b'\n').unwrap();
    let header_text = String::from_utf8(bytes[..header].to_vec()).unwrap();
    let number = |letter| {
        let field = header_text.split(' ').find_map(|w| w.strip_prefix(letter));
        field.unwrap().parse::<usize>().unwrap()
    };
    let (width, height) = (number('W'), number('H'));
    let frame = "FRAME\n".len() + width * height * 3 / 2;
    let frames = bytes[header + 1..].chunks_exact(frame);
    Frames::new(
        width,
        frames.map(|f| &f["FRAME\n".len()..][..width * height]),
    )
}
