//! What separation promises: exact shapes and sums, no failure on odd input, and the right stems.

#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "tests fail loudly, and their signals are short and exact"
)]

use std::sync::atomic::{AtomicUsize, Ordering};

use stems::spleeter::{NetWeights, VoiceNets};
use stems::{
    Audio, BlockSeparator, ClipShape, SeparateError, SeparationControl, SeparationEngine, Stem,
    mix_without, separate, separate_with_nets,
};

fn noise(seed: u32) -> impl FnMut() -> f32 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (f64::from(state) / f64::from(1u32 << 31) - 1.0) as f32
    }
}

fn sound(rate: u32, channels: usize, frames: usize) -> Audio {
    let mut noise = noise(3);
    let channels = (0..channels).map(|c| {
        let hz = 110.0 * (c + 1) as f32;
        (0..frames)
            .map(|i| {
                let tone = (i as f32 * hz * std::f32::consts::TAU / rate as f32).sin();
                0.5 * tone + 0.2 * noise() * f32::from(u8::from(i % 4_000 < 300))
            })
            .collect()
    });
    Audio::new(rate, channels.collect()).unwrap()
}

fn all_stems(mix: &Audio) -> Vec<(Stem, Audio)> {
    separate(mix, &Stem::BUILT_IN, SeparationControl::default()).unwrap()
}

/// The largest difference between the mix and the sum of some stems.
fn sum_error(mix: &Audio, separated: &[(Stem, Audio)], stems: &[Stem]) -> f32 {
    let parts: Vec<&Audio> = separated
        .iter()
        .filter(|(s, _)| stems.contains(s))
        .map(|(_, audio)| audio)
        .collect();
    let mut worst = 0.0f32;
    for (c, channel) in mix.channels().iter().enumerate() {
        for (i, x) in channel.iter().enumerate() {
            let sum: f32 = parts.iter().map(|part| part.channels()[c][i]).sum();
            worst = worst.max((sum - if x.is_finite() { *x } else { 0.0 }).abs());
        }
    }
    worst
}

const FOUR: [Stem; 4] = [Stem::Vocals, Stem::Drums, Stem::Bass, Stem::Other];
const TWO: [Stem; 2] = [Stem::Vocals, Stem::Instrumental];

fn assert_promises(mix: &Audio) -> Vec<(Stem, Audio)> {
    let separated = all_stems(mix);
    assert_eq!(
        separated.iter().map(|(s, _)| *s).collect::<Vec<_>>(),
        Stem::BUILT_IN
    );
    for (stem, audio) in &separated {
        let shape = |a: &Audio| (a.rate(), a.channels().len(), a.frames());
        assert_eq!(shape(audio), shape(mix), "{stem}");
        assert!(
            audio.channels().iter().flatten().all(|x| x.is_finite()),
            "{stem}"
        );
    }
    let tolerance = 1e-5 * mix.peak().max(1.0);
    assert!(sum_error(mix, &separated, &FOUR) <= tolerance);
    assert!(sum_error(mix, &separated, &TWO) <= tolerance);
    separated
}

#[test]
fn shapes_and_sums_are_exact_at_any_rate() {
    for (rate, channels, frames) in [
        (8_000, 1, 12_345),
        (44_100, 2, 70_001),
        (48_000, 2, 60_000),
        (192_000, 2, 100_000),
        (44_100, 6, 40_000),
        (22_050, 3, 20_000),
        (32_000, 8, 9_999),
        (11_027, 1, 5_000),
    ] {
        assert_promises(&sound(rate, channels, frames));
    }
}

#[test]
fn tiny_clips_are_fine() {
    for frames in [0, 1, 2, 100, 1_023, 4_095] {
        for rate in [8_000, 44_100, 96_000] {
            assert_promises(&sound(rate, 2, frames));
        }
    }
}

#[test]
fn silence_stays_silent() {
    for channels in [1, 2, 6] {
        let mix = Audio::new(44_100, vec![vec![0.0; 50_000]; channels]).unwrap();
        for (stem, audio) in assert_promises(&mix) {
            assert!(audio.peak() == 0.0, "{stem}");
        }
    }
}

#[test]
fn odd_signals_are_fine() {
    let frames = 30_000;
    let constant = vec![0.7; frames];
    let clipped: Vec<f32> = (0..frames)
        .map(|i| if i / 50 % 2 == 0 { 1.0 } else { -1.0 })
        .collect();
    let mut broken = sound(44_100, 1, frames).into_channels().remove(0);
    broken[100] = f32::NAN;
    broken[200] = f32::INFINITY;
    broken[300] = f32::NEG_INFINITY;
    let mut click = vec![0.0; frames];
    click[15_000] = 1.0;
    let faint: Vec<f32> = clipped.iter().map(|x| x * 1e-7).collect();
    let loud: Vec<f32> = clipped.iter().map(|x| x * 1e3).collect();
    for signal in [constant, clipped, broken, click, faint, loud] {
        assert_promises(&Audio::new(44_100, vec![signal.clone()]).unwrap());
        let quiet = vec![0.0; signal.len()];
        assert_promises(&Audio::new(44_100, vec![signal, quiet]).unwrap());
    }
}

#[test]
fn only_requested_stems_come_in_the_requested_order() {
    let mix = sound(44_100, 2, 30_000);
    let requested = [Stem::Instrumental, Stem::Bass, Stem::Instrumental];
    let separated = separate(&mix, &requested, SeparationControl::default()).unwrap();
    assert_eq!(
        separated.iter().map(|(s, _)| *s).collect::<Vec<_>>(),
        requested
    );
    let full = all_stems(&mix);
    assert_eq!(
        separated[1].1, full[2].1,
        "a stem does not depend on which others are requested"
    );
    assert_eq!(separated[0].1, full[4].1);
    let without_bass = mix_without(&mix, &separated[1].1);
    let pair = [
        (Stem::Bass, separated[1].1.clone()),
        (Stem::Other, without_bass),
    ];
    assert!(sum_error(&mix, &pair, &[Stem::Bass, Stem::Other]) <= 1e-6);
}

#[test]
fn equal_input_gives_equal_output() {
    let mix = sound(48_000, 2, 100_000);
    assert_eq!(all_stems(&mix), all_stems(&mix));
}

#[test]
fn pieces_of_any_size_give_the_same_stems() {
    let mix = sound(8_000, 2, 8_000 * 70);
    let requested = [Stem::Drums, Stem::Instrumental];
    let whole = separate(&mix, &requested, SeparationControl::default()).unwrap();
    let mut separator = BlockSeparator::new(ClipShape::measure(&mix), &requested).unwrap();
    let mut separated = vec![vec![Vec::new(); 2]; 2];
    let mut write = |stem: usize, piece: &[Vec<f32>]| {
        let channels = separated[stem].iter_mut().zip(piece);
        channels.for_each(|(channel, samples)| channel.extend_from_slice(samples));
        true
    };
    let mut control = SeparationControl::default();
    let mut start = 0;
    for size in [1, 7_000, 100, 300_000].into_iter().cycle() {
        let end = mix.frames().min(start + size);
        let piece: Vec<Vec<f32>> = mix
            .channels()
            .iter()
            .map(|c| c[start..end].to_vec())
            .collect();
        separator.push(&piece, &mut control, &mut write).unwrap();
        start = end;
        if start == mix.frames() {
            break;
        }
    }
    separator.finish(&mut control, &mut write).unwrap();
    for (separated, (stem, whole)) in separated.iter().zip(&whole) {
        assert!(separated == whole.channels(), "{stem}");
    }
}

#[test]
fn progress_only_grows_and_ends_at_one() {
    let mix = sound(8_000, 1, 8_000 * 70);
    let mut reported = Vec::new();
    let mut progress = |part| reported.push(part);
    let control = SeparationControl {
        progress: &mut progress,
        cancelled: &|| false,
    };
    separate(&mix, &[Stem::Vocals], control).unwrap();
    assert!(
        reported.len() > 10 && reported.windows(2).all(|w| w[0] <= w[1]),
        "{reported:?}"
    );
    assert!(reported[0] >= 0.0 && reported.last() == Some(&1.0));
}

#[test]
fn cancelling_stops_at_any_point() {
    let mix = sound(44_100, 2, 60_000);
    let checks = AtomicUsize::new(0);
    let count_check = || checks.fetch_add(1, Ordering::Relaxed);
    let control = SeparationControl {
        progress: &mut |_| (),
        cancelled: &|| {
            count_check();
            false
        },
    };
    separate(&mix, &Stem::BUILT_IN, control).unwrap();
    let total_checks = checks.load(Ordering::Relaxed);
    assert!(total_checks > 500, "checked only {total_checks} times");
    for after in [
        0,
        1,
        total_checks / 3,
        total_checks / 2,
        total_checks * 9 / 10,
    ] {
        checks.store(0, Ordering::Relaxed);
        let control = SeparationControl {
            progress: &mut |_| (),
            cancelled: &|| count_check() >= after,
        };
        assert_eq!(
            separate(&mix, &Stem::BUILT_IN, control),
            Err(SeparateError::Cancelled),
            "{after}"
        );
        let checks = checks.load(Ordering::Relaxed);
        assert!(
            checks <= after + 16,
            "checked {checks} times, though cancelled at {after}"
        );
    }
}

/// Three sources that each have what the cues look for: a wavering voice with harmonics in the
/// centre, hits of noise, a low steady tone; and chords to the sides.
fn song() -> [Audio; 4] {
    const RATE: u32 = 44_100;
    let seconds = 8.0f32;
    let frames = (seconds * RATE as f32) as usize;
    let time = |i: usize| i as f32 / RATE as f32;
    let tone = |phase: f32| (phase * std::f32::consts::TAU).sin();
    let mut hits = noise(11);
    let mut vocals = vec![0.0f32; frames];
    let (mut phase, mut drums, mut bass) = (0.0f32, vec![0.0; frames], vec![0.0; frames]);
    let mut chords = [vec![0.0; frames], vec![0.0; frames]];
    for i in 0..frames {
        let t = time(i);
        let note = [220.0, 262.0, 294.0, 247.0, 330.0, 277.0][(t * 1.4) as usize % 6];
        phase = (phase + note * (1.0 + 0.02 * tone(t * 5.5)) / RATE as f32).fract();
        let is_sung = (t * 1.4).fract() < 0.85;
        if is_sung && t > 1.0 {
            vocals[i] = (1..12)
                .map(|h| tone(phase * h as f32) * 0.12 / (h as f32).sqrt())
                .sum();
        }
        let since_hit = (t * 4.0).fract() / 4.0;
        drums[i] = hits() * 0.6 * (-since_hit * 40.0).exp();
        let low = [55.0, 65.4, 73.4, 49.0][(t * 0.5) as usize % 4];
        bass[i] = 0.3 * tone(t * low) + 0.1 * tone(t * low * 2.0);
        for (side, pitches) in [[392.0, 523.3, 1_318.5], [466.2, 622.3, 1_046.5]]
            .iter()
            .enumerate()
        {
            chords[side][i] = pitches.iter().map(|hz| 0.06 * tone(t * hz)).sum();
        }
    }
    let centre = |x: Vec<f32>| Audio::new(RATE, vec![x.clone(), x]).unwrap();
    let [left, right] = chords;
    let chords = Audio::new(RATE, vec![left, right]).unwrap();
    [centre(vocals), centre(drums), centre(bass), chords]
}

/// Signal to distortion in dB: how much of the estimate is the source.
fn sdr(source: &Audio, estimate: &Audio) -> f64 {
    let flat = |a: &Audio| a.channels().concat();
    let (source, estimate) = (flat(source), flat(estimate));
    let energy: f64 = source.iter().map(|x| f64::from(*x).powi(2)).sum();
    let error: f64 = source
        .iter()
        .zip(&estimate)
        .map(|(s, e)| f64::from(s - e).powi(2))
        .sum();
    10.0 * (energy / error).log10()
}

/// The best that a copy of the mix can do: with the gain that suits the source most.
fn sdr_of_copy(source: &Audio, mix: &Audio) -> f64 {
    let pairs = || {
        source
            .channels()
            .iter()
            .flatten()
            .zip(mix.channels().iter().flatten())
    };
    let dot = |product: fn(f64, f64) -> f64| {
        pairs()
            .map(|(s, x)| product(f64::from(*s), f64::from(*x)))
            .sum::<f64>()
    };
    let correlation = dot(|s, x| s * x).powi(2) / (dot(|s, _| s * s) * dot(|_, x| x * x));
    -10.0 * (1.0 - correlation).log10()
}

/// Checks the order of the stems, and that each is separated at all. Nets without weights, or with
/// weights for other cues, do no better than a copy of the mix. Exchanged stems fall below zero.
#[test]
fn each_source_lands_in_its_stem() {
    let sources = song();
    let sum = (0..2).map(|c| {
        (0..sources[0].frames())
            .map(|i| sources.iter().map(|s| s.channels()[c][i]).sum())
            .collect()
    });
    let mix = Audio::new(44_100, sum.collect()).unwrap();
    let separated = assert_promises(&mix);
    for (index, source) in sources.iter().enumerate() {
        let measured: Vec<f64> = separated[..4].iter().map(|(_, e)| sdr(source, e)).collect();
        let copy = sdr_of_copy(source, &mix);
        eprintln!("{}: {measured:.1?} dB, a copy {copy:.1} dB", FOUR[index]);
        for (stem, sdr) in measured.iter().enumerate() {
            let is_right = if stem == index {
                *sdr > copy + GAIN
            } else {
                *sdr < copy.max(1.0)
            };
            assert!(
                is_right,
                "{} in {measured:.1?}, a copy has {copy:.1} dB",
                FOUR[index]
            );
        }
    }
}

/// How much better than a copy of the mix a stem must be, in dB.
const GAIN: f64 = 4.0;

/// Pretrained nets, with weights that were made up.
fn nets() -> std::sync::Arc<VoiceNets> {
    std::sync::Arc::new(VoiceNets::new(NetWeights::made_up()))
}

#[test]
fn stems_that_nets_help_to_make_sum_to_the_mix() {
    // Shorter than a frame, shorter than a window, and two windows; mono, stereo and more.
    for (rate, channels, frames) in [(44_100, 2, 100), (22_050, 1, 60_000), (44_100, 3, 700_000)] {
        let mix = sound(rate, channels, frames);
        let stems =
            separate_with_nets(&mix, &Stem::BUILT_IN, &nets(), SeparationControl::default());
        let stems = stems.unwrap();
        for sum in [
            &[Stem::Vocals, Stem::Drums, Stem::Bass, Stem::Other][..],
            &[Stem::Vocals, Stem::Instrumental],
        ] {
            assert!(sum_error(&mix, &stems, sum) < 1e-5);
        }
        assert!(stems.iter().all(|(_, stem)| stem.frames() == frames));
    }
    let silence = Audio::new(44_100, vec![vec![0.0; 50_000]; 2]).unwrap();
    let stems = separate_with_nets(
        &silence,
        &Stem::BUILT_IN,
        &nets(),
        SeparationControl::default(),
    );
    assert!(stems.unwrap().iter().all(|(_, stem)| stem.peak() == 0.0));
}

#[test]
fn a_separation_with_nets_can_be_cancelled() {
    let mix = sound(44_100, 2, 100_000);
    let checks = AtomicUsize::new(0);
    let cancelled = || checks.fetch_add(1, Ordering::Relaxed) > 400;
    let control = SeparationControl {
        cancelled: &cancelled,
        ..SeparationControl::default()
    };
    let result = separate_with_nets(&mix, &Stem::BUILT_IN, &nets(), control);
    assert_eq!(result, Err(SeparateError::Cancelled));
}
