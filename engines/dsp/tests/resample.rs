//! Sample rate conversion: transparent, silent beyond its band, exact in length, and the same in
//! pieces.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "made-up signals are short and exact"
)]

use dsp::{RateConverter, resample};

#[test]
fn a_round_trip_is_transparent() {
    for rate in [8_000u32, 22_050, 32_000, 48_000, 96_000, 192_000, 11_027] {
        let frames = rate as usize;
        let radians_per_sample = std::f64::consts::TAU * 700.0 / f64::from(rate);
        let tone = |i: usize| (i as f64 * radians_per_sample).sin() as f32;
        let sound: Vec<f32> = (0..frames).map(tone).collect();
        let converted = resample(&sound, rate, 44_100, 44_100);
        let back = resample(&converted, 44_100, rate, frames);
        // The edges ring, as every sinc does at a jump from and to silence.
        let inside = frames / 10..frames * 9 / 10;
        let worst = inside
            .map(|i| (back[i] - sound[i]).abs())
            .fold(0.0, f32::max);
        assert!(worst < 1e-4, "{rate}: {worst}");
    }
}

/// The level of a tone after resampling, in decibels relative to the original.
fn level_after(hz: f64, from: u32, to: u32) -> f64 {
    let radians_per_sample = std::f64::consts::TAU * hz / f64::from(from);
    let sound: Vec<f32> = (0..from)
        .map(|i| (f64::from(i) * radians_per_sample).sin() as f32)
        .collect();
    let out = resample(&sound, from, to, to as usize);
    let inside = &out[out.len() / 4..out.len() * 3 / 4];
    let power = inside.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / inside.len() as f64;
    10.0 * (2.0 * power).log10()
}

#[test]
fn the_pass_band_is_flat_and_the_stop_band_silent() {
    for (from, to) in [
        (48_000, 44_100),
        (96_000, 44_100),
        (44_100, 48_000),
        (192_000, 44_100),
    ] {
        for hz in [50.0, 1_000.0, 15_000.0, 20_000.0] {
            let level = level_after(hz, from, to);
            assert!(level.abs() < 0.01, "{from} to {to} at {hz} Hz: {level} dB");
        }
    }
    // Frequencies above half of the new rate would be aliased.
    for (hz, from, to) in [
        (23_500.0, 48_000, 44_100),
        (25_000.0, 96_000, 44_100),
        (60_000.0, 192_000, 44_100),
    ] {
        let level = level_after(hz, from, to);
        assert!(level < -100.0, "{from} to {to} at {hz} Hz: {level} dB");
    }
}

#[test]
fn lengths_are_exact() {
    for frames in [0, 1, 2, 100, 5_000] {
        let out = resample(&vec![0.5; frames], 48_000, 44_100, 777);
        assert_eq!(out.len(), 777);
    }
}

#[test]
fn pieces_add_up_to_the_whole() {
    for (from, to) in [
        (48_000, 44_100),
        (44_100, 96_000),
        (44_100, 44_100),
        (8_000, 44_100),
    ] {
        let sound: Vec<f32> = (0..30_011).map(|i| (i as f32 * 0.1).sin()).collect();
        let frames = sound.len() * to as usize / from as usize + 1;
        let mut converter = RateConverter::new(from, to, frames);
        let mut converted = Vec::new();
        for piece in sound.chunks(777) {
            converter.push(piece, &mut converted);
        }
        converter.finish(&mut converted);
        assert_eq!(
            converted,
            resample(&sound, from, to, frames),
            "{from} to {to}"
        );
    }
}
