//! Properties of every ambience: level, peaks, fades, stereo width, variety.
#![expect(clippy::float_cmp, reason = "silence and repeats are exact")]

use super::*;

const SECONDS: usize = 6;

fn track_of(kind: Ambience, seed: u64) -> Vec<StereoSample> {
    synthesise(&[kind], SECONDS * RATE as usize, seed)
}

fn power(track: &[StereoSample]) -> f32 {
    track.as_flattened().iter().map(|s| s * s).sum()
}

#[test]
fn every_kind_is_gentle_finite_and_faded() {
    for &kind in Ambience::ALL {
        let track = track_of(kind, 1);
        let lufs = loudness::measure(&track);
        assert!((-31.0..-24.0).contains(&lufs), "{kind:?}: {lufs} LUFS");
        assert!(
            track
                .as_flattened()
                .iter()
                .all(|s| s.is_finite() && s.abs() < 0.9),
            "{kind:?}"
        );
        assert_eq!(track[0], [0.0; 2], "{kind:?}");
        assert_eq!(track[track.len() - 1], [0.0; 2], "{kind:?}");
        let ends = power(&track[..480]) + power(&track[track.len() - 480..]);
        assert!(ends < power(&track) * 1e-3, "{kind:?}");
    }
}

#[test]
fn every_kind_is_wide_and_never_stuck_to_one_side() {
    for &kind in Ambience::ALL {
        let track = track_of(kind, 2);
        let (mut left, mut right, mut cross) = (0.0, 0.0, 0.0);
        for [l, r] in &track {
            left += l * l;
            right += r * r;
            cross += l * r;
        }
        assert!(cross / (left * right).sqrt() < 0.95, "{kind:?} is mono");
        let balance = 10.0 * (left / right).log10();
        assert!(balance.abs() < 9.0, "{kind:?}: {balance} dB");
    }
}

#[test]
fn sound_does_not_repeat_and_seeds_differ() {
    for &kind in Ambience::ALL {
        let (track, other_seed) = (track_of(kind, 5), track_of(kind, 6));
        assert!(track == track_of(kind, 5), "{kind:?}");
        assert!(track != other_seed, "{kind:?}");
        let second = RATE as usize;
        for shift in [second, second * 2] {
            let (early, late) = (
                &track[second..second * 2],
                &track[second + shift..second * 2 + shift],
            );
            let product: f32 = early
                .as_flattened()
                .iter()
                .zip(late.as_flattened())
                .map(|(a, b)| a * b)
                .sum();
            let correlation = product / (power(early) * power(late)).sqrt();
            assert!(correlation.abs() < 0.5, "{kind:?} repeats: {correlation}");
        }
    }
}

#[test]
fn kinds_sound_together_in_any_order() {
    let mixed = synthesise(&[Ambience::Rain, Ambience::Wind], 48_000, 1);
    assert!(mixed == synthesise(&[Ambience::Wind, Ambience::Rain, Ambience::Wind], 48_000, 1));
    assert!(mixed != synthesise(&[Ambience::Rain], 48_000, 1));
    assert!((loudness::measure(&mixed) + 26.0).abs() < 3.0);
}

#[test]
fn no_kind_and_no_length_are_silence() {
    assert!(synthesise(&[], 4800, 1).iter().all(|s| *s == [0.0; 2]));
    assert!(synthesise(&[Ambience::Sea], 0, 1).is_empty());
    assert_eq!(synthesise(&[Ambience::Sea], 3, 1).len(), 3);
}

#[test]
fn kinds_are_found_by_their_names() {
    for &kind in Ambience::ALL {
        assert_eq!(Ambience::from_name(kind.name()), Some(kind));
    }
    assert_eq!(Ambience::from_name("noise"), None);
}
