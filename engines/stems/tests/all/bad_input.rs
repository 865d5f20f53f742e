//! Files as users really send them: odd, huge, locked or misnamed. Each gives a typed error or a
//! correct result.

#![expect(
    clippy::unwrap_used,
    reason = "tests fail loudly, and their signals are short and exact"
)]

use std::io::Cursor;

use stems::decode::{Recording, replay, scan};
use stems::{AudioFormat, DecodeError, DecodeLimits, SeparationControl, Stem, decode, separate};

fn wav(rate: u32, channels: u16, bits: u16, frames: usize) -> Vec<u8> {
    let spec = hound::WavSpec {
        channels,
        sample_rate: rate,
        bits_per_sample: bits,
        sample_format: hound::SampleFormat::Int,
    };
    let mut file = Cursor::new(Vec::new());
    let mut writer = hound::WavWriter::new(&mut file, spec).unwrap();
    for i in 0..frames {
        for channel in 0..i32::from(channels) {
            let step = i32::try_from(i % 100).unwrap() - 50 + channel;
            writer.write_sample(step << (bits - 8)).unwrap();
        }
    }
    writer.finalize().unwrap();
    file.into_inner()
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

#[test]
fn odd_but_right_files_are_separated() {
    for (rate, channels, bits) in [(8_000, 1, 8), (192_000, 2, 24), (48_000, 6, 16)] {
        let file = wav(rate, channels, bits, 9_000);
        let audio = decode(&file, &DecodeLimits::default()).unwrap().audio;
        assert_eq!(
            (audio.rate(), audio.channels().len()),
            (rate, usize::from(channels))
        );
        let separated = separate(&audio, &Stem::BUILT_IN, SeparationControl::default()).unwrap();
        assert!(
            separated
                .iter()
                .all(|(_, stem)| stem.frames() == 9_000 && stem.rate() == rate)
        );
    }
}

#[test]
fn files_without_a_sample_are_reported_as_such() {
    let empty = decode(&wav(44_100, 2, 16, 0), &DecodeLimits::default());
    assert_eq!(empty, Err(DecodeError::NoAudio));
}

#[test]
fn three_hours_are_too_long() {
    let file = wav(1_000, 1, 8, 3 * 3_600 * 1_000);
    let too_long = Err(DecodeError::TooLong { limit_seconds: 900 });
    assert_eq!(decode(&file, &DecodeLimits::default()), too_long);
    assert!(scan(&file.into(), &DecodeLimits::default()).is_err());
}

#[test]
fn locked_files_are_reported_as_such() {
    let file = fixture("tone.m4a");
    // The sample description's entry, not the box of the same name that AAC files may nest in it.
    let offset = file.windows(4).position(|w| w == b"mp4a").unwrap();
    for kind in [b"drms", b"enca"] {
        let mut locked = file.clone();
        locked[offset..offset + 4].copy_from_slice(kind);
        let error = decode(&locked, &DecodeLimits::default()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("encrypted audio is not supported"),
            "{error}"
        );
    }
}

#[test]
fn names_and_declared_types_are_ignored() {
    // The bytes say what a file is: an MP3 that someone calls a WAV is an MP3.
    let decoded = decode(&fixture("tone.mp3"), &DecodeLimits::default()).unwrap();
    assert_eq!(decoded.format, AudioFormat::Mp3);
    let text = b"RIFF is how this letter begins, and it goes on without a WAVE in it.";
    assert_eq!(
        decode(text, &DecodeLimits::default()),
        Err(DecodeError::UnknownFormat)
    );
}

#[test]
fn pieces_add_up_to_the_whole() {
    let limits = DecodeLimits::default();
    for name in [
        "tone.mp3",
        "tone.m4a",
        "tone.aac",
        "tone.ogg",
        "tone.flac",
        "wav-s24le.wav",
    ] {
        let file = fixture(name);
        let whole = decode(&file, &limits).unwrap();
        let file = Recording::from(file);
        let scanned = scan(&file, &limits).unwrap();
        assert_eq!(
            (scanned.format, scanned.shape.rate),
            (whole.format, whole.audio.rate()),
            "{name}"
        );
        let mut pieces = vec![Vec::new(); scanned.shape.channels];
        let mut sink = |piece: &[Vec<f32>]| {
            pieces
                .iter_mut()
                .zip(piece)
                .for_each(|(channel, samples)| channel.extend_from_slice(samples));
            true
        };
        replay(&file, &limits, &scanned, &mut sink).unwrap();
        assert_eq!(pieces, whole.audio.channels(), "{name}");
        assert_eq!(scanned.shape.frames, whole.audio.frames());
        assert!(scanned.shape.peak >= whole.audio.peak());
    }
}

#[test]
fn the_sink_may_stop_early() {
    let file = Recording::from(fixture("tone.mp3"));
    let limits = DecodeLimits::default();
    let scanned = scan(&file, &limits).unwrap();
    let mut calls = 0;
    let mut sink = |_: &[Vec<f32>]| {
        calls += 1;
        calls < 3
    };
    replay(&file, &limits, &scanned, &mut sink).unwrap();
    assert_eq!(calls, 3);
}
