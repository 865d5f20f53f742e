//! Small real files of every format, damaged at random: any answer is right but a panic, a value
//! that is no number, or more than the limits allow.
//!
//! `PROPTEST_CASES=20000 cargo test -p stems --release fuzz` looks longer.

use proptest::prelude::*;
use std::io::Write as _;

use stems::decode::{Recording, replay, scan};
use stems::{DecodeLimits, decode};

const FIXTURES: [&str; 15] = [
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

/// One damage; places are parts of the file, from 0 to 1.
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
fn place() -> impl Strategy<Value = f64> {
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
        4 => (place(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        4 => (place(), 0..8u8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        4 => (place(), numbers, any::<bool>()).prop_map(|(at, n, big)| Damage::Number(at, n, big)),
        1 => (place(), 1..400usize).prop_map(|(at, length)| Damage::Cut(at, length)),
        1 => (place(), 1..400usize).prop_map(|(at, length)| Damage::Repeat(at, length)),
        1 => place().prop_map(Damage::End),
    ]
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "places in small files"
)]
fn inflict(file: &mut Vec<u8>, damage: &Damage) {
    let length = file.len();
    let place = |part: f64| ((part * length as f64) as usize).min(length);
    match *damage {
        Damage::Byte(at, byte) => file
            .iter_mut()
            .skip(place(at))
            .take(1)
            .for_each(|b| *b = byte),
        Damage::Flip(at, bit) => file
            .iter_mut()
            .skip(place(at))
            .take(1)
            .for_each(|b| *b ^= 1 << bit),
        Damage::Number(at, number, big) => {
            let bytes = if big {
                number.to_be_bytes()
            } else {
                number.to_le_bytes()
            };
            file.iter_mut()
                .skip(place(at))
                .zip(bytes)
                .for_each(|(b, new)| *b = new);
        }
        Damage::Cut(at, count) => {
            file.drain(place(at)..length.min(place(at) + count));
        }
        Damage::Repeat(at, count) => {
            let piece = file[place(at)..length.min(place(at) + count)].to_vec();
            file.splice(place(at)..place(at), piece);
        }
        Damage::End(at) => file.truncate(place(at)),
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
            inflict(&mut file, damage);
        }
        let recording = Recording::from(file.clone());
        let found = scan(&recording, &LIMITS);
        // From the disk it is the same.
        let mut on_disk = tempfile::NamedTempFile::new().unwrap();
        on_disk.write_all(&file).unwrap();
        let on_disk = Recording::open(on_disk.path()).unwrap();
        prop_assert_eq!(&scan(&on_disk, &LIMITS), &found);
        match decode(&file, &LIMITS) {
            Ok(decoded) => {
                let audio = decoded.audio;
                prop_assert!(audio.frames() > 0 && audio.seconds() <= 30.0);
                prop_assert!(audio.channels().len() <= 4 && audio.rate() <= 96_000);
                prop_assert!(audio.channels().iter().flatten().all(|x| x.is_finite()));
                // Reading twice finds the same.
                let found = found.unwrap();
                prop_assert_eq!(found.shape.frames, audio.frames());
                let mut frames = 0;
                replay(&on_disk, &LIMITS, &found, &mut |piece| {
                    frames += piece[0].len();
                    true
                }).unwrap();
                prop_assert_eq!(frames, audio.frames());
            }
            Err(error) => prop_assert_eq!(found, Err(error)),
        }
    }
}
