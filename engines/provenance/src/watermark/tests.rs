//! Marks in drawn moving pictures, before and after typical processing of films.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small pictures"
)]

use super::*;

const WIDTH: usize = 640;
const HEIGHT: usize = 360;

fn key() -> MarkKey {
    MarkKey::new(0x00be_efed, 0x1234_5678_9abc_def0).unwrap()
}

/// Waves of several lengths that move, and a ramp: neither flat nor noise.
fn frame(number: usize, width: usize, height: usize) -> Vec<u8> {
    let time = number as f32 * 0.7;
    (0..width * height)
        .map(|index| {
            let (x, y) = (
                (index % width) as f32 + time * 2.0,
                (index / width) as f32 + time,
            );
            let waves = (x * 0.05).sin() * 40.0
                + (y * 0.11 + x * 0.02).sin() * 20.0
                + (x * 0.5).sin() * (y * 0.37).cos() * 12.0;
            (110.0 + waves + y * 0.1).clamp(0.0, 255.0) as u8
        })
        .collect()
}

fn find_mark(
    frames: usize,
    change: impl Fn(&[u8]) -> (Vec<u8>, usize, usize),
) -> Option<VideoMark> {
    let mut embedder = VideoEmbedder::new(&key(), 0x12_3456_789a, WIDTH, HEIGHT).unwrap();
    let mut detector: Option<VideoDetector> = None;
    for number in 0..frames {
        let mut luma = frame(number, WIDTH, HEIGHT);
        embedder.mark(&mut luma, WIDTH).unwrap();
        let (luma, width, height) = change(&luma);
        detector
            .get_or_insert_with(|| VideoDetector::new(width, height).unwrap())
            .add(&luma, width)
            .unwrap();
    }
    // As by a process without the key, for one that has it.
    let collected = detector.unwrap().to_bytes();
    VideoDetector::from_bytes(&collected).unwrap().read(&key())
}

#[test]
fn only_what_a_detector_collected_is_accepted() {
    let mut detector = VideoDetector::new(WIDTH, HEIGHT).unwrap();
    detector.add(&frame(0, WIDTH, HEIGHT), WIDTH).unwrap();
    let collected = detector.to_bytes();
    let longer = [&collected[..], &[0; 4]].concat();
    let mut infinite = collected.clone();
    infinite[12..16].copy_from_slice(&f32::INFINITY.to_le_bytes());
    let mut huge = collected.clone();
    huge[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    for bytes in [
        &[][..],
        &collected[1..],
        &collected[4..],
        &longer,
        &infinite,
        &huge,
    ] {
        assert!(VideoDetector::from_bytes(bytes).is_none());
    }
    assert_eq!(VideoDetector::from_bytes(&collected).unwrap().frames(), 1);
}

fn as_it_is(luma: &[u8]) -> (Vec<u8>, usize, usize) {
    (luma.to_vec(), WIDTH, HEIGHT)
}

fn cropped(luma: &[u8]) -> (Vec<u8>, usize, usize) {
    let (width, height) = (WIDTH * 9 / 10, HEIGHT * 9 / 10);
    let rows = luma.chunks(WIDTH).skip(11).take(height);
    (
        rows.flat_map(|row| &row[37..37 + width]).copied().collect(),
        width,
        height,
    )
}

fn smaller(luma: &[u8]) -> (Vec<u8>, usize, usize) {
    let (width, height) = (WIDTH * 3 / 4, HEIGHT * 3 / 4);
    let small = (0..width * height).map(|index| {
        let (x, y) = (index % width * 4 / 3, index / width * 4 / 3);
        luma[y * WIDTH + x]
    });
    (small.collect(), width, height)
}

fn darker(luma: &[u8]) -> (Vec<u8>, usize, usize) {
    let dark = luma.iter().map(|value| (f32::from(*value) * 0.8) as u8);
    (dark.collect(), WIDTH, HEIGHT)
}

#[test]
fn a_mark_is_read_back() {
    for (name, change) in [
        ("as it is", as_it_is as fn(&[u8]) -> _),
        ("cropped", cropped),
        ("smaller", smaller),
        ("darker", darker),
    ] {
        let mark = find_mark(24, change).unwrap_or_else(|| panic!("not read: {name}"));
        assert_eq!(
            (mark.key_id, mark.media_id),
            (key().id(), 0x12_3456_789a),
            "{name}"
        );
    }
}

#[test]
fn another_key_reads_nothing_and_neither_is_there_a_mark_without_one() {
    let mut embedder = VideoEmbedder::new(&key(), 7, WIDTH, HEIGHT).unwrap();
    let mut with_mark = VideoDetector::new(WIDTH, HEIGHT).unwrap();
    let mut without_mark = VideoDetector::new(WIDTH, HEIGHT).unwrap();
    for number in 0..12 {
        let mut luma = frame(number, WIDTH, HEIGHT);
        without_mark.add(&luma, WIDTH).unwrap();
        embedder.mark(&mut luma, WIDTH).unwrap();
        with_mark.add(&luma, WIDTH).unwrap();
    }
    assert_eq!(without_mark.read(&key()), None);
    assert_eq!(with_mark.read(&MarkKey::new(9, 99).unwrap()), None);
    // The pattern of the right secret with another id is the mark of another key.
    assert_eq!(
        with_mark.read(&MarkKey::new(9, 0x1234_5678_9abc_def0).unwrap()),
        None
    );
}

/// Width and height of [`drawn`].
const DRAWN: (usize, usize) = (854, 480);

/// A frame as the service draws it.
fn drawn(prompt: &str) -> Vec<u8> {
    let requested = animatic::RequestedOptions {
        size: Some((DRAWN.0 as u32, DRAWN.1 as u32)),
        seconds: Some(1.0),
        ..animatic::RequestedOptions::default()
    };
    let options =
        animatic::RenderOptions::resolve(&requested, &animatic::Direction::parse(prompt)).unwrap();
    let request = animatic::RenderRequest {
        picture: None,
        prompt,
        options,
    };
    let mut film = Vec::new();
    animatic::write_y4m(
        &request,
        &mut film,
        &mut animatic::RenderControl::unattended(),
    )
    .unwrap();
    let head = film.iter().position(|byte| *byte == b'\n').unwrap() + "\nFRAME\n".len();
    film[head..head + DRAWN.0 * DRAWN.1].to_vec()
}

#[test]
fn the_mark_stays_within_its_limit() {
    // Noise gets the strongest mark everywhere.
    let mut state = 1u32;
    let noise: Vec<u8> = (0..WIDTH * HEIGHT)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 25) as u8 + 60
        })
        .collect();
    let lake = drawn("a lake under the mountains at dawn, mist");
    let city = drawn("a neon city at night in the rain");
    let size = (WIDTH, HEIGHT);
    for (original, (width, height)) in [
        (frame(0, WIDTH, HEIGHT), size),
        (vec![120; WIDTH * HEIGHT], size),
        (noise, size),
        (lake, DRAWN),
        (city, DRAWN),
    ] {
        let mut luma = original.clone();
        VideoEmbedder::new(&key(), 1, width, height)
            .unwrap()
            .mark(&mut luma, width)
            .unwrap();
        let error: f64 = luma
            .iter()
            .zip(&original)
            .map(|(a, b)| f64::from(a.abs_diff(*b)).powi(2))
            .sum();
        assert!(error > 0.0);
        let psnr = 10.0 * (255.0f64.powi(2) * original.len() as f64 / error).log10();
        assert!(psnr >= 42.0, "{psnr}");
    }
}

#[test]
fn bytes_beyond_the_end_of_a_row_are_untouched() {
    let stride = WIDTH + 32;
    let mut padded = vec![7u8; stride * HEIGHT];
    let mut plain = frame(3, WIDTH, HEIGHT);
    for (row, line) in padded.chunks_mut(stride).zip(plain.chunks(WIDTH)) {
        row[..WIDTH].copy_from_slice(line);
    }
    let mut embedder = VideoEmbedder::new(&key(), 1, WIDTH, HEIGHT).unwrap();
    embedder.mark(&mut padded, stride).unwrap();
    embedder.mark(&mut plain, WIDTH).unwrap();
    for (row, line) in padded.chunks(stride).zip(plain.chunks(WIDTH)) {
        assert_eq!(&row[..WIDTH], line);
        assert!(row[WIDTH..].iter().all(|value| *value == 7));
    }
}

#[test]
fn sizes_that_hold_no_mark_are_refused() {
    for (width, height) in [(0, 0), (100, 100), (8000, 200), (9000, 5000)] {
        assert!(VideoDetector::new(width, height).is_err());
        assert!(VideoEmbedder::new(&key(), 1, width, height).is_err());
    }
    let mut embedder = VideoEmbedder::new(&key(), 1, WIDTH, HEIGHT).unwrap();
    assert!(embedder.mark(&mut [0; 100], WIDTH).is_err());
    assert!(
        embedder
            .mark(&mut vec![0; WIDTH * HEIGHT], WIDTH - 1)
            .is_err()
    );
}
