//! Each family against the reference, which is Python written from the published parameters.

use std::sync::Arc;

use stems::onnx::SeparationModel;
use stems::{Audio, SeparationControl, Stem};

use super::fixtures::{Fixtures, difference, sum};

fn load(fixtures: &Fixtures, name: &str) -> Arc<SeparationModel> {
    let file = fixtures.folder.join(format!("{name}.toml"));
    Arc::new(SeparationModel::open(&file, &fixtures.options).unwrap())
}

/// Separates the model's own mix and compares every stem that the reference has.
fn check(name: &str, separable: &[Stem]) {
    let Some(fixtures) = Fixtures::find() else {
        return;
    };
    let model = load(&fixtures, name);
    assert_eq!(model.separable_stems(), separable, "{name}");
    let mix = fixtures.sound(name, "mix");
    let separated = model
        .separate(&mix, model.offered(), SeparationControl::default())
        .unwrap();
    let separated_stem = |stem: Stem| &separated.iter().find(|(s, _)| *s == stem).unwrap().1;
    let references = fixtures.references(name);
    assert!(!references.is_empty());
    for (stem, expected) in &references {
        // The graph's own `other` is not used.
        if *stem != Stem::Other {
            let worst = difference(separated_stem(*stem), expected);
            assert!(worst <= 1e-4, "{name}, {stem}: {worst}");
            assert!(
                expected.peak() > 1e-3,
                "{name}, {stem}: compared with silence"
            );
        }
    }
    sums_are_exact(name, &mix, &separated, separable);
}

fn sums_are_exact(name: &str, mix: &Audio, separated: &[(Stem, Audio)], separable: &[Stem]) {
    let parts = |stems: &[Stem]| -> Audio {
        sum(separated
            .iter()
            .filter(|(stem, _)| stems.contains(stem))
            .map(|(_, audio)| audio))
    };
    let with_other = [separable, &[Stem::Other]].concat();
    let worst = difference(&parts(&with_other), mix);
    assert!(worst <= 1e-5, "{name}: {worst}");
    if separable.contains(&Stem::Vocals) {
        let worst = difference(&parts(&[Stem::Vocals, Stem::Instrumental]), mix);
        assert!(worst <= 1e-5, "{name}, two: {worst}");
    }
}

#[test]
fn mdx_identity_with_published_sizes() {
    check("mdx-identity", &[Stem::Vocals]);
}

#[test]
fn mdx_half_as_instrumental() {
    check("mdx-half", &[Stem::Vocals]);
}

#[test]
fn mdx_swap_without_overlap() {
    check("mdx-swap", &[Stem::Drums]);
}

#[test]
fn mdx_that_depends_on_frames() {
    check("mdx-relu", &[Stem::Vocals]);
}

#[test]
fn mdx_denoised() {
    check("mdx-bias", &[Stem::Vocals]);
}

#[test]
fn htdemucs_on_waveforms() {
    check("ht-inside", &[Stem::Drums, Stem::Bass, Stem::Vocals]);
}

#[test]
fn htdemucs_of_six_on_spectra() {
    let six = [
        Stem::Drums,
        Stem::Bass,
        Stem::Vocals,
        Stem::Guitar,
        Stem::Keyboard,
    ];
    check("ht-outside", &six);
}

#[test]
fn htdemucs_with_published_sizes() {
    check("ht-published", &[Stem::Drums, Stem::Bass, Stem::Vocals]);
}

#[test]
fn htdemucs_on_less_than_a_segment() {
    check("ht-short", &[Stem::Drums, Stem::Bass, Stem::Vocals]);
}

const THREE: [Stem; 3] = [Stem::Vocals, Stem::Drums, Stem::Bass];

#[test]
fn openunmix_with_fixed_frames() {
    check("unmix-fixed", &THREE);
}

#[test]
fn openunmix_with_the_phase_of_the_mix() {
    check("unmix-open", &THREE);
}

#[test]
fn openunmix_of_one_stem() {
    check("unmix-lone", &[Stem::Vocals]);
}

#[test]
fn openunmix_over_several_blocks() {
    check("unmix-long", &THREE);
}
