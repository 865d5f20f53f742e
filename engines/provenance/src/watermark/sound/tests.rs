//! Marks in a synthesised tune, before and after typical processing of sound.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a minute of sound"
)]

use super::*;
use crate::watermark::{MarkKey, WatermarkError};

const RATE: u32 = 44_100;
const MEDIA: u64 = 0x12_3456_789a;

fn key() -> MarkKey {
    MarkKey::new(0x00be_efed, 0x1234_5678_9abc_def0).unwrap()
}

/// Slightly noisy voices for even seeds, a beat of noise for odd ones.
fn tune(seed: u32, seconds: u32) -> Vec<f32> {
    let note = |number: u32| {
        let mixed = (seed * 1000 + number).wrapping_mul(2_654_435_761) >> 16;
        110.0 * 2.0f32.powf((mixed % 37) as f32 / 12.0)
    };
    let mut noise = seed;
    (0..RATE * seconds)
        .map(|index| {
            let time = index as f32 / RATE as f32;
            let number = (time * 3.0) as u32;
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let hiss = (noise >> 16) as f32 / 32_768.0 - 1.0;
            let fade = (-(time * 3.0).fract() * 3.0).exp();
            let voice = |pitch: f32| -> f32 {
                let tone = |times: u8| {
                    let times = f32::from(times);
                    (std::f32::consts::TAU * pitch * times * time).sin() / times
                };
                (1..12).map(tone).sum()
            };
            if seed.is_multiple_of(2) {
                0.1 * (0.4 + fade) * (voice(note(number)) + voice(note(number / 2 + 500)))
                    + 0.01 * hiss
            } else {
                0.2 * fade * hiss + 0.02 * hiss
            }
        })
        .collect()
}

fn add_mark(plain: &[Vec<f32>], rate: u32) -> Vec<Vec<f32>> {
    let mut embedder = SoundEmbedder::new(&key(), MEDIA, rate, plain.len()).unwrap();
    let mut out = embedder.push(plain);
    for (out, last) in out.iter_mut().zip(embedder.finish()) {
        out.extend(last);
    }
    out
}

fn read(sound: &[Vec<f32>], rate: u32) -> Option<SoundMark> {
    let mut detector = SoundDetector::new(rate).unwrap();
    for start in (0..sound[0].len()).step_by(10_007) {
        let part =
            |channel: &Vec<f32>| channel[start..(start + 10_007).min(channel.len())].to_vec();
        detector.push_samples(&sound.iter().map(part).collect::<Vec<_>>());
    }
    // As by a process without the key, for one that has it.
    let collected = detector.to_bytes();
    SoundDetector::from_bytes(&collected).unwrap().read(&key())
}

#[test]
fn only_what_a_detector_collected_is_accepted() {
    let mut detector = SoundDetector::new(RATE).unwrap();
    detector.push_samples(&[tune(1, 1)]);
    let collected = detector.to_bytes();
    assert!(SoundDetector::from_bytes(&collected).is_some());
    let mut negative = collected.clone();
    negative[4..8].copy_from_slice(&(-1.0f32).to_le_bytes());
    let mut other_rate = collected.clone();
    other_rate[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    let endless = [&collected[..4], &collected[4..].repeat(700)].concat();
    for bytes in [
        &[][..],
        &collected[1..],
        &collected[4..],
        &negative,
        &other_rate,
        &endless,
    ] {
        assert!(SoundDetector::from_bytes(bytes).is_none());
    }
}

fn power(samples: impl Iterator<Item = f32>) -> f32 {
    samples.map(|sample| sample * sample).sum()
}

#[test]
fn a_mark_is_read_back_after_a_cut_a_change_of_loudness_and_another_rate() {
    for seed in [1, 2] {
        let stereo = [tune(seed, 60), tune(seed, 60)];
        let stereo = add_mark(&stereo, RATE);
        let quiet = |channel: &Vec<f32>| channel.iter().map(|sample| sample * 0.2).collect();
        let late = |channel: &Vec<f32>| channel[123_457..].to_vec();
        // Two samples for every three, interpolated between neighbours.
        let slower = |channel: &Vec<f32>| {
            let position = |number: usize| number as f32 * 1.5;
            let count = channel.len() * 2 / 3 - 1;
            let sample = |number: usize| {
                let (whole, part) = (position(number) as usize, position(number).fract());
                channel[whole] * (1.0 - part) + channel[whole + 1] * part
            };
            (0..count).map(sample).collect()
        };
        let per_channel = |change: &dyn Fn(&Vec<f32>) -> Vec<f32>| -> Vec<Vec<f32>> {
            stereo.iter().map(change).collect()
        };
        for (name, sound, rate) in [
            ("as it is", stereo.clone(), RATE),
            ("a fifth as loud", per_channel(&quiet), RATE),
            ("cut", per_channel(&late), RATE),
            ("another rate", per_channel(&slower), RATE * 2 / 3),
        ] {
            let mark = read(&sound, rate).unwrap_or_else(|| panic!("{seed}: not read: {name}"));
            assert_eq!((mark.key_id, mark.media_id), (key().id(), MEDIA), "{name}");
        }
    }
}

#[test]
fn another_key_reads_nothing_and_neither_is_there_a_mark_without_one() {
    let plain = vec![tune(2, 60)];
    assert_eq!(read(&plain, RATE), None);
    let mut detector = SoundDetector::new(RATE).unwrap();
    detector.push_samples(&add_mark(&plain, RATE));
    assert!(detector.read(&key()).is_some());
    assert_eq!(detector.read(&MarkKey::new(9, 99).unwrap()), None);
    // The tile of the right secret with another id is the mark of another key.
    let same_tile = MarkKey::new(9, 0x1234_5678_9abc_def0).unwrap();
    assert_eq!(detector.read(&same_tile), None);
    assert!(detector.score(&key()) > 1.5 * detector.score(&MarkKey::new(9, 99).unwrap()));
}

#[test]
fn marked_parts_add_up_to_their_marked_sum() {
    let parts = [tune(1, 3), tune(2, 3), tune(4, 3)];
    let sum = |parts: &[Vec<f32>]| -> Vec<f32> {
        let at = |at: usize| parts.iter().map(|part| part[at]).sum();
        (0..parts[0].len()).map(at).collect()
    };
    let marked_parts: Vec<Vec<f32>> = parts
        .iter()
        .map(|part| add_mark(std::slice::from_ref(part), RATE).remove(0))
        .collect();
    let marked_sum = add_mark(&[sum(&parts)], RATE).remove(0);
    for (a, b) in sum(&marked_parts).iter().zip(&marked_sum) {
        assert!((a - b).abs() < 1e-5, "{a} {b}");
    }
}

#[test]
fn the_mark_is_quiet_and_silence_stays_silent() {
    for seed in [1, 2] {
        let plain = tune(seed, 5);
        let with_mark = add_mark(std::slice::from_ref(&plain), RATE).remove(0);
        assert_eq!(with_mark.len(), plain.len());
        let added = power(with_mark.iter().zip(&plain).map(|(a, b)| a - b));
        let ratio = 10.0 * (power(plain.iter().copied()) / added).log10();
        assert!((24.0..50.0).contains(&ratio), "{ratio} dB");
    }
    let silence = vec![vec![0.0; 20_000]; 2];
    assert_eq!(add_mark(&silence, RATE), silence);
}

#[test]
fn piece_sizes_make_no_difference_and_channels_are_independent() {
    let stereo = vec![tune(1, 1), vec![0.0; RATE as usize], tune(2, 1)];
    let whole = add_mark(&stereo, RATE);
    let mut embedder = SoundEmbedder::new(&key(), MEDIA, RATE, 3).unwrap();
    let mut out = vec![Vec::new(); 3];
    let mut add = |piece: Vec<Vec<f32>>| {
        for (out, piece) in out.iter_mut().zip(piece) {
            out.extend(piece);
        }
    };
    for start in (0..RATE as usize).step_by(777) {
        let part = |channel: &Vec<f32>| channel[start..(start + 777).min(channel.len())].to_vec();
        add(embedder.push(&stereo.iter().map(part).collect::<Vec<_>>()));
    }
    add(embedder.finish());
    assert_eq!(out, whole);
    assert!(whole[1].iter().all(|sample| sample.abs() < 1e-6));
    assert_ne!(whole[0], stereo[0]);
}

#[test]
fn sound_that_holds_no_mark_is_refused_or_has_none() {
    for rate in [0, 8_000, 384_000] {
        let refused = WatermarkError::Rate(rate);
        assert_eq!(SoundDetector::new(rate).err(), Some(refused));
        assert_eq!(SoundEmbedder::new(&key(), 1, rate, 2).err(), Some(refused));
    }
    let refused = SoundEmbedder::new(&key(), 1 << 40, RATE, 1).err();
    assert_eq!(refused, Some(WatermarkError::MediaId(1 << 40)));
    assert_eq!(SoundDetector::new(RATE).unwrap().read(&key()), None);
    // Shorter than a window, and nothing at all.
    for length in [0, 1, 100, 2048, 3000] {
        let short = vec![vec![0.25; length]; 2];
        assert_eq!(add_mark(&short, RATE)[1].len(), length);
        assert_eq!(read(&[vec![0.25; length.max(1)]], RATE), None);
    }
}
