//! Clips of other rates, channels and lengths than the models', whole and in pieces.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use stems::onnx::{ModelSeparator, SeparationModel};
use stems::{Audio, ClipShape, SeparateError, SeparationControl, SeparationEngine, Stem};

use super::fixtures::{Fixtures, difference, sum};

const VOCALS_AND_INSTRUMENTAL: [Stem; 2] = [Stem::Vocals, Stem::Instrumental];

fn load(fixtures: &Fixtures, name: &str) -> Arc<SeparationModel> {
    let file = fixtures.folder.join(format!("{name}.toml"));
    Arc::new(SeparationModel::open(&file, &fixtures.options).unwrap())
}

/// Tones that every rate here can carry, a little different in each channel.
fn clip(rate: u32, channels: u16, frames: usize) -> Audio {
    let channel = |c: u16| {
        let hz = 500.0 + 70.0 * f32::from(c);
        let radians_per_sample = std::f32::consts::TAU * hz / rate as f32;
        (0..frames)
            .map(|i| (i as f32 * radians_per_sample).sin() * 0.3)
            .collect()
    };
    Audio::new(rate, (0..channels).map(channel).collect()).unwrap()
}

#[test]
fn any_rate_and_channel_count_keeps_its_shape_and_sums() {
    let Some(fixtures) = Fixtures::find() else {
        return;
    };
    for name in ["mdx-half", "ht-inside", "unmix-open"] {
        let model = load(&fixtures, name);
        for (rate, channels, frames) in [
            (44_100, 1, 30_000),
            (48_000, 2, 40_001),
            (8_000, 2, 9_000),
            (96_000, 6, 40_000),
            (44_100, 3, 1),
            (22_050, 2, 700),
        ] {
            let mix = clip(rate, channels, frames);
            let separated = model
                .separate(&mix, &VOCALS_AND_INSTRUMENTAL, SeparationControl::default())
                .unwrap();
            let total = sum(separated.iter().map(|(_, audio)| audio));
            let worst = difference(&total, &mix);
            assert!(
                worst <= 1e-5,
                "{name} at {rate} Hz, {channels} channels: {worst}"
            );
        }
    }
}

#[test]
fn an_identity_model_changes_nothing_at_any_rate() {
    let Some(fixtures) = Fixtures::find() else {
        return;
    };
    let model = load(&fixtures, "mdx-identity");
    for (rate, channels) in [
        (44_100, 2),
        (44_100, 1),
        (48_000, 2),
        (16_000, 1),
        (96_000, 4),
    ] {
        let mix = clip(rate, channels, rate as usize);
        let separated = model
            .separate(&mix, &[Stem::Vocals], SeparationControl::default())
            .unwrap();
        // Where the tones start and end they have some energy in the bins that are silenced.
        let inside = mix.frames() * 3 / 10..mix.frames() * 7 / 10;
        for (mix, separated) in mix.channels().iter().zip(separated[0].1.channels()) {
            for i in inside.clone() {
                assert!(
                    (separated[i] - mix[i]).abs() < 1e-3,
                    "{rate}, {channels}: {i}"
                );
            }
        }
    }
}

#[test]
fn pieces_of_any_size_give_the_same_stems() {
    let Some(fixtures) = Fixtures::find() else {
        return;
    };
    for (name, rate) in [
        ("mdx-relu", 48_000),
        ("ht-outside", 44_100),
        ("unmix-fixed", 22_050),
    ] {
        let model = load(&fixtures, name);
        let mix = clip(rate, 2, 70_001);
        let whole = model
            .separate(&mix, &VOCALS_AND_INSTRUMENTAL, SeparationControl::default())
            .unwrap();
        let mut separated = vec![vec![Vec::new(); 2]; 2];
        let mut write = |stem: usize, piece: &[Vec<f32>]| {
            let channels = separated[stem].iter_mut().zip(piece);
            channels.for_each(|(channel, samples)| channel.extend_from_slice(samples));
            true
        };
        let mut separator = ModelSeparator::new(
            Arc::clone(&model),
            ClipShape::measure(&mix),
            &VOCALS_AND_INSTRUMENTAL,
        )
        .unwrap();
        let mut control = SeparationControl::default();
        let mut start = 0;
        for size in [1, 7_000, 100, 30_000].into_iter().cycle().take(12) {
            let end = mix.frames().min(start + size);
            let piece: Vec<Vec<f32>> = mix
                .channels()
                .iter()
                .map(|c| c[start..end].to_vec())
                .collect();
            separator.push(&piece, &mut control, &mut write).unwrap();
            start = end;
        }
        separator.finish(&mut control, &mut write).unwrap();
        for ((_, whole), separated) in whole.iter().zip(separated) {
            let separated = Audio::new(rate, separated).unwrap();
            let worst = difference(whole, &separated);
            assert!(worst <= 1e-6, "{name}: {worst}");
        }
    }
}

#[test]
fn odd_clips_give_stems_or_an_error() {
    let Some(fixtures) = Fixtures::find() else {
        return;
    };
    let numbers = [0.0, 1e-30, 0.7, f32::NAN, f32::INFINITY, 1e30];
    for name in ["mdx-half", "ht-inside", "ht-outside", "unmix-fixed"] {
        let model = load(&fixtures, name);
        for value in numbers {
            let mix = Audio::new(44_100, vec![vec![value; 5_000]; 2]).unwrap();
            match model.separate(&mix, &[Stem::Vocals], SeparationControl::default()) {
                Ok(separated) => {
                    let vocals = &separated[0].1;
                    let mut samples = vocals.channels().iter().flatten();
                    assert!(samples.all(|x| x.is_finite()) && vocals.frames() == 5_000);
                    assert!(value != 0.0 || vocals.peak() == 0.0);
                }
                // Squares of such numbers exceed single precision inside a graph.
                Err(SeparateError::Model(_)) => assert!(value > 1e20, "{name}: {value}"),
                Err(other) => panic!("{name}: {other}"),
            }
        }
        let empty = Audio::new(44_100, vec![Vec::new(); 2]).unwrap();
        let separated = model
            .separate(&empty, &[Stem::Vocals], SeparationControl::default())
            .unwrap();
        assert_eq!(separated[0].1.frames(), 0);
    }
}

#[test]
fn progress_grows_and_a_cancellation_stops() {
    let Some(fixtures) = Fixtures::find() else {
        return;
    };
    let model = load(&fixtures, "ht-outside");
    let mix = clip(44_100, 2, 100_000);
    let mut reported = Vec::new();
    let control = SeparationControl {
        progress: &mut |part| reported.push(part),
        cancelled: &|| false,
    };
    model.separate(&mix, &[Stem::Vocals], control).unwrap();
    assert!(reported.len() > 3 && reported.is_sorted() && reported.last() == Some(&1.0));
    let checks = AtomicUsize::new(0);
    let control = SeparationControl {
        progress: &mut |_| (),
        cancelled: &|| checks.fetch_add(1, Ordering::Relaxed) > 50,
    };
    let result = model.separate(&mix, &[Stem::Vocals], control);
    assert_eq!(result.unwrap_err(), SeparateError::Cancelled);
}

#[test]
fn stems_that_a_model_lacks_are_named() {
    let Some(fixtures) = Fixtures::find() else {
        return;
    };
    let model = load(&fixtures, "ht-inside");
    let mix = clip(44_100, 2, 10);
    let error = model
        .separate(&mix, &[Stem::Guitar], SeparationControl::default())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no guitar here, only vocals, drums, bass, other, instrumental"
    );
    let wide = clip(44_100, 9, 10);
    let error = model
        .separate(&wide, &[], SeparationControl::default())
        .unwrap_err();
    assert_eq!(error, SeparateError::Channels(9));
}
