//! Every format that is decoded, its exact length, and the errors of broken files.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "tests fail loudly, and their signals are short and exact"
)]

use std::collections::BTreeSet;

use stems::{Audio, AudioFormat, DecodeError, DecodeLimits, decode};

const LIMITS: fn() -> DecodeLimits = DecodeLimits::default;

/// Name, kind, rate, length, and how far samples may be from the two sine waves.
const FIXTURES: [(&str, AudioFormat, u32, usize, f32); 13] = [
    ("tone.mp3", AudioFormat::Mp3, 44_100, 22_050, 0.03),
    ("tone.m4a", AudioFormat::M4a, 44_100, 22_050, 0.06),
    // An ADTS stream does not say that its first 1024 samples are encoder delay.
    ("tone.aac", AudioFormat::Aac, 44_100, 23_552, f32::MAX),
    ("tone.ogg", AudioFormat::OggVorbis, 44_100, 22_050, 0.02),
    ("tone.flac", AudioFormat::Flac, 44_100, 8_820, 1e-4),
    ("wav-u8.wav", AudioFormat::Wav, 8_000, 1_000, 0.01),
    ("wav-s16le.wav", AudioFormat::Wav, 8_000, 1_000, 1e-4),
    ("wav-s24le.wav", AudioFormat::Wav, 8_000, 1_000, 1e-6),
    ("wav-s32le.wav", AudioFormat::Wav, 8_000, 1_000, 1e-6),
    ("wav-f32le.wav", AudioFormat::Wav, 8_000, 1_000, 1e-6),
    ("wav-f64le.wav", AudioFormat::Wav, 8_000, 1_000, 1e-6),
    ("wav-alaw.wav", AudioFormat::Wav, 8_000, 1_000, 0.02),
    ("wav-mulaw.wav", AudioFormat::Wav, 8_000, 1_000, 0.02),
];

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The largest difference from what the fixtures were made of, away from the very edges, where
/// lossy codecs ring.
fn distance(audio: &Audio) -> f32 {
    let expected = [(0.4, 440.0), (0.3, 660.0)];
    let mut worst = 0.0f32;
    for (channel, (level, hz)) in audio.channels().iter().zip(expected) {
        let edge = 1_100.min(channel.len() / 4);
        let inside = edge..channel.len() - edge;
        for (i, x) in channel
            .iter()
            .enumerate()
            .filter(|(i, _)| inside.contains(i))
        {
            let phase = std::f64::consts::TAU * hz * i as f64 / f64::from(audio.rate());
            worst = worst.max((x - level * phase.sin() as f32).abs());
        }
    }
    worst
}

#[test]
fn every_format_comes_out_right() {
    for (name, format, rate, frames, tolerance) in FIXTURES {
        let decoded = decode(&fixture(name), &LIMITS()).unwrap();
        let audio = &decoded.audio;
        assert_eq!(decoded.format, format, "{name}");
        assert_eq!((audio.rate(), audio.channels().len()), (rate, 2), "{name}");
        assert_eq!(audio.frames(), frames, "{name}");
        let distance = distance(audio);
        assert!(distance <= tolerance, "{name}: {distance}");
    }
}

#[test]
fn extensions_and_media_types_are_fixed() {
    let names: BTreeSet<_> = FIXTURES
        .iter()
        .map(|f| (f.1.extension(), f.1.mime()))
        .collect();
    let expected = [
        ("aac", "audio/aac"),
        ("flac", "audio/flac"),
        ("m4a", "audio/mp4"),
        ("mp3", "audio/mpeg"),
        ("ogg", "audio/ogg"),
        ("wav", "audio/wav"),
    ];
    assert_eq!(names, BTreeSet::from(expected));
}

#[test]
fn unsupported_formats_are_named() {
    assert_eq!(decode(b"", &LIMITS()), Err(DecodeError::Empty));
    assert_eq!(
        decode(b"hello, world", &LIMITS()),
        Err(DecodeError::UnknownFormat)
    );
    let amr = decode(b"#!AMR\n", &LIMITS()).unwrap_err();
    assert!(
        amr.to_string().starts_with("AMR audio is not supported"),
        "{amr}"
    );
}

#[test]
fn limits_hold_while_decoding() {
    let file = fixture("tone.mp3");
    let short = DecodeLimits {
        max_seconds: 0,
        ..LIMITS()
    };
    assert_eq!(
        decode(&file, &short),
        Err(DecodeError::TooLong { limit_seconds: 0 })
    );
    let narrow = DecodeLimits {
        max_channels: 1,
        ..LIMITS()
    };
    let too_many = DecodeError::TooManyChannels {
        channels: 2,
        limit: 1,
    };
    assert_eq!(decode(&file, &narrow), Err(too_many));
    let slow = DecodeLimits {
        max_rate: 32_000,
        ..LIMITS()
    };
    assert!(matches!(
        decode(&file, &slow),
        Err(DecodeError::Unsupported { .. })
    ));
    let small = DecodeLimits {
        max_bytes: 50_000,
        ..LIMITS()
    };
    assert_eq!(
        decode(&file, &small),
        Err(DecodeError::TooLarge {
            limit_bytes: 50_000
        })
    );
}

#[test]
fn false_headers_do_not_change_what_is_decoded() {
    // Programs that write to a pipe cannot know the length and claim the maximum.
    let mut file = fixture("wav-s16le.wav");
    let data = file.windows(4).position(|w| w == b"data").unwrap();
    file[4..8].fill(0xff);
    file[data + 4..data + 8].fill(0xff);
    assert_eq!(decode(&file, &LIMITS()).unwrap().audio.frames(), 1_000);
    // A sample rate of zero, of a few hertz or of megahertz is an error.
    for rate in [0u32, 7, 3_000_000] {
        let mut file = fixture("wav-s16le.wav");
        file[24..28].copy_from_slice(&rate.to_le_bytes());
        assert!(decode(&file, &LIMITS()).is_err(), "{rate}");
    }
}

#[test]
fn values_that_are_no_numbers_become_silence() {
    let mut file = fixture("wav-f32le.wav");
    let data = file.windows(4).position(|w| w == b"data").unwrap() + 8;
    file[data..data + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    file[data + 8..data + 12].copy_from_slice(&f32::NEG_INFINITY.to_le_bytes());
    let audio = decode(&file, &LIMITS()).unwrap().audio;
    assert_eq!(audio.channels()[0][..2], [0.0, 0.0]);
    assert!(audio.channels()[0][3] != 0.0);
}

#[test]
fn a_header_without_sound_is_an_error() {
    for (name, ..) in FIXTURES {
        let file = fixture(name);
        for length in [1, 4, 12, 20, 30, 40] {
            let cut = &file[..length];
            assert!(decode(cut, &LIMITS()).is_err(), "{name} cut to {length}");
        }
    }
}

#[test]
fn an_mp3_file_is_no_shorter_than_its_frames() {
    let bare = decode(&fixture("bare-vbr.mp3"), &LIMITS()).unwrap().audio;
    assert_eq!(bare.frames(), BARE_FRAMES * 1_152);
    // The first file's header describes only that file.
    let file = fixture("tone.mp3");
    let both = decode(&[file.clone(), file].concat(), &LIMITS())
        .unwrap()
        .audio;
    assert!(both.frames() > 2 * 22_050, "{}", both.frames());
}

/// Frames in `bare-vbr.mp3`.
const BARE_FRAMES: usize = 24;

#[test]
fn a_cut_file_gives_its_beginning_if_it_states_no_length() {
    for name in ["tone.ogg", "tone.aac", "tone.aiff", "wav-s16le.wav"] {
        let file = fixture(name);
        let whole = decode(&file, &LIMITS()).unwrap().audio;
        let cut = decode(&file[..file.len() * 9 / 10], &LIMITS()).unwrap();
        let frames = cut.audio.frames();
        assert!(
            frames > whole.frames() / 2 && frames <= whole.frames(),
            "{name}"
        );
        assert!(
            !cut.damage.is_empty(),
            "{name} does not say that it was cut"
        );
    }
}
