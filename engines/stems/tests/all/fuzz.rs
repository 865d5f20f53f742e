//! Small real files of every format, damaged at random: any result is fine except a panic, a
//! value that is not a number, or more than the limits allow.
//!
//! `PROPTEST_CASES=20000 cargo test -p stems --release fuzz` tries more cases.

use proptest::prelude::*;
use std::io::Write as _;

use stems::decode::{Recording, replay, scan};
use stems::{DecodeLimits, decode};

const FIXTURES: [&str; 26] = [
    "alac.m4a",
    "alac.caf",
    "tone.aiff",
    "sowt.aifc",
    "tone.mp2",
    "tone.mka",
    "tone.oga",
    "adpcm.wav",
    "mp3-inside.wav",
    "opus.webm",
    "opus.m4a",
    "tone.mp3",
    "bare-vbr.mp3",
    "tone.m4a",
    "tone.aac",
    "tone.ogg",
    "tone.opus",
    "tone.flac",
    "wav-u8.wav",
    "wav-s16le.wav",
    "wav-s24le.wav",
    "wav-s32le.wav",
    "wav-f32le.wav",
    "wav-f64le.wav",
    "wav-alaw.wav",
    "wav-mulaw.wav",
];

const LIMITS: DecodeLimits = DecodeLimits {
    max_seconds: 30,
    max_channels: 4,
    max_rate: 96_000,
    max_bytes: 8 << 20,
    fold_down: false,
};

/// One damage; positions are fractions of the file's length, from 0 to 1.
#[derive(Debug, Clone)]
enum Damage {
    Byte(f64, u8),
    Flip(f64, u8),
    /// A number that programs trip over, in either byte order.
    Number(f64, u32, bool),
    Cut(f64, usize),
    Repeat(f64, usize),
    End(f64),
}

/// Half of the damages hit the headers, where they do the most harm.
fn position() -> impl Strategy<Value = f64> {
    prop_oneof![0.0..0.08f64, 0.0..1.0f64]
}

fn damage() -> impl Strategy<Value = Damage> {
    let numbers = prop_oneof![
        Just(0),
        Just(1),
        Just(0x7fff_ffff),
        Just(0x8000_0000),
        Just(u32::MAX),
        any::<u32>(),
    ];
    prop_oneof![
        4 => (position(), any::<u8>()).prop_map(|(position, byte)| Damage::Byte(position, byte)),
        4 => (position(), 0..8u8).prop_map(|(position, bit)| Damage::Flip(position, bit)),
        4 => (position(), numbers, any::<bool>()).prop_map(|(position, n, big)| Damage::Number(position, n, big)),
        1 => (position(), 1..400usize).prop_map(|(position, length)| Damage::Cut(position, length)),
        1 => (position(), 1..400usize).prop_map(|(position, length)| Damage::Repeat(position, length)),
        1 => position().prop_map(Damage::End),
    ]
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "positions in small files"
)]
fn apply(file: &mut Vec<u8>, damage: &Damage) {
    let length = file.len();
    let offset = |position: f64| ((position * length as f64) as usize).min(length);
    match *damage {
        Damage::Byte(position, byte) => file
            .iter_mut()
            .skip(offset(position))
            .take(1)
            .for_each(|b| *b = byte),
        Damage::Flip(position, bit) => file
            .iter_mut()
            .skip(offset(position))
            .take(1)
            .for_each(|b| *b ^= 1 << bit),
        Damage::Number(position, number, big) => {
            let bytes = if big {
                number.to_be_bytes()
            } else {
                number.to_le_bytes()
            };
            file.iter_mut()
                .skip(offset(position))
                .zip(bytes)
                .for_each(|(b, byte)| *b = byte);
        }
        Damage::Cut(position, count) => {
            file.drain(offset(position)..length.min(offset(position) + count));
        }
        Damage::Repeat(position, count) => {
            let piece = file[offset(position)..length.min(offset(position) + count)].to_vec();
            file.splice(offset(position)..offset(position), piece);
        }
        Damage::End(position) => file.truncate(offset(position)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_never_panic(
        name in proptest::sample::select(&FIXTURES[..]),
        damages in proptest::collection::vec(damage(), 1..6),
    ) {
        let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
        let mut file = std::fs::read(path).unwrap();
        for damage in &damages {
            apply(&mut file, damage);
        }
        let recording = Recording::from(file.clone());
        let scanned = scan(&recording, &LIMITS);
        // A file on disk gives the same result.
        let mut on_disk = tempfile::NamedTempFile::new().unwrap();
        on_disk.write_all(&file).unwrap();
        let on_disk = Recording::open(on_disk.path()).unwrap();
        prop_assert_eq!(&scan(&on_disk, &LIMITS), &scanned);
        match decode(&file, &LIMITS) {
            Ok(decoded) => {
                let audio = decoded.audio;
                prop_assert!(audio.frames() > 0 && audio.seconds() <= 30.0);
                prop_assert!(audio.channels().len() <= 4 && audio.rate() <= 96_000);
                prop_assert!(audio.channels().iter().flatten().all(|x| x.is_finite()));
                // The scan agrees with the decoder.
                let scanned = scanned.unwrap();
                prop_assert_eq!(scanned.shape.frames, audio.frames());
                let mut frames = 0;
                replay(&on_disk, &LIMITS, &scanned, &mut |piece| {
                    frames += piece[0].len();
                    true
                }).unwrap();
                prop_assert_eq!(frames, audio.frames());
            }
            Err(error) => prop_assert_eq!(scanned, Err(error)),
        }
    }
}
