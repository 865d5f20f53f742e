//! Manifests of ONNX models: what is read, what is refused, and which field the error names. Needs
//! no runtime.

use proptest::prelude::*;
use stems::Stem;
use stems::onnx::{FamilySettings, ModelError, ModelManifest};

const MDX: &str = "name = 'kim-vocals'\nkind = 'mdx'\nfile = 'Kim_Vocal_2.onnx'\nstems = ['vocals']\n\
    sample_rate = 44100\nlicense = 'ask'\n\
    [mdx]\nn_fft = 7680\nhop = 1024\ndim_f = 3072\ndim_t = 256\ncompensate = 1.009\noverlap = 0.25\n";

const HTDEMUCS: &str = "name = 'six'\nkind = 'htdemucs'\nfile = 'sub/six.onnx'\n\
    stems = ['drums', 'bass', 'other', 'Vocals', 'guitar', 'piano']\n";

const OPENUNMIX: &str = "name = 'umx'\nkind = 'openunmix'\n\
    [openunmix.files]\nvocals = 'v.onnx'\nother = 'o.onnx'\n";

#[test]
fn the_three_kinds_are_read() {
    let mdx = ModelManifest::parse(MDX).unwrap();
    assert_eq!((&mdx.name[..], &mdx.license[..]), ("kim-vocals", "ask"));
    let FamilySettings::Mdx(mdx) = mdx.kind else {
        unreachable!()
    };
    assert_eq!(
        (mdx.n_fft, mdx.dim_f, mdx.dim_t, mdx.stem),
        (7_680, 3_072, 256, Stem::Vocals)
    );
    assert!(!mdx.denoise && !mdx.karaoke);

    let FamilySettings::HtDemucs(six) = ModelManifest::parse(HTDEMUCS).unwrap().kind else {
        unreachable!()
    };
    assert_eq!((six.segment, six.overlap, six.stft), (343_980, 0.25, None));
    assert_eq!(six.stems[5], Stem::Keyboard);

    let umx = ModelManifest::parse(OPENUNMIX).unwrap();
    assert_eq!(umx.files().len(), 2);
    let FamilySettings::OpenUnmix(umx) = umx.kind else {
        unreachable!()
    };
    assert_eq!(
        (umx.n_fft, umx.hop, umx.frames, umx.wiener),
        (4_096, 1_024, None, true)
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn faults_are_named() {
    for (text, from, to, expected) in [
        (
            MDX,
            "name = 'kim-vocals'\n",
            "",
            "manifest: missing field `name`",
        ),
        (MDX, "'kim-vocals'", "'../x'", "name: must be 1 to 64"),
        (
            MDX,
            "'mdx'",
            "'roformer'",
            "kind: unknown variant `roformer`",
        ),
        (MDX, "file = 'Kim_Vocal_2.onnx'\n", "", "file: is missing"),
        (
            MDX,
            "Kim_Vocal_2.onnx",
            "../secret",
            "file: must be a file in the models folder",
        ),
        (
            MDX,
            "Kim_Vocal_2.onnx",
            "/etc/passwd",
            "file: must be a file in the models folder",
        ),
        (
            MDX,
            "['vocals']",
            "['reverb']",
            "stems[0]: there is no stem \"reverb\"",
        ),
        (
            MDX,
            "['vocals']",
            "['vocals', 'drums']",
            "stems: an MDX-Net makes one stem",
        ),
        (MDX, "['vocals']", "[]", "stems: is 0, not between 1 and 14"),
        (MDX, "44100", "48000", "sample_rate: is 48000"),
        (
            MDX,
            "license",
            "sha256 = 'ab'\nlicense",
            "sha256: must be 64",
        ),
        (MDX, "7680", "7681", "mdx.n_fft: is 7681, but must be even"),
        (
            MDX,
            "7680",
            "99999999",
            "mdx.n_fft: is 99999999, not between",
        ),
        (
            MDX,
            "7680",
            "'many'",
            "mdx.n_fft: invalid type: string \"many\"",
        ),
        (MDX, "7680", "-1", "mdx.n_fft: invalid value: integer `-1`"),
        (MDX, "n_fft = 7680\n", "", "mdx: missing field `n_fft`"),
        (MDX, "hop = 1024", "hop = 5000", "mdx.hop: is 5000"),
        (
            MDX,
            "3072",
            "3842",
            "mdx.dim_f: is 3842, not between 8 and 3841",
        ),
        (MDX, "256", "8", "mdx.dim_t: is 8, not between 9 and"),
        (MDX, "256", "8000", "mdx.dim_t: times dim_f is"),
        (MDX, "1.009", "0.0", "mdx.compensate: is 0"),
        (MDX, "1.009", "nan", "mdx.compensate: is NaN"),
        (MDX, "0.25", "1.0", "mdx.overlap: is 1, but must be"),
        (MDX, "overlap", "overlapp", "mdx.overlapp: unknown field"),
        (
            MDX,
            "license",
            "[openunmix.files]\nlicense",
            "openunmix: belongs to another kind",
        ),
        (MDX, "[mdx]", "[mdx", "manifest: TOML parse error"),
        (
            HTDEMUCS,
            "'guitar'",
            "'drums'",
            "stems[4]: this stem is named twice",
        ),
        (
            HTDEMUCS,
            "stems",
            "sha256 = 5\nstems",
            "sha256: invalid type: integer",
        ),
        (
            OPENUNMIX,
            "vocals",
            "Instrumental",
            "openunmix.files.Instrumental: is what is left",
        ),
        (
            OPENUNMIX,
            "other",
            "Vocals",
            "openunmix.files.vocals: this stem is named twice",
        ),
        (
            OPENUNMIX,
            "kind",
            "file = 'x'\nkind",
            "file: an Open-Unmix has a graph for each stem",
        ),
        (
            OPENUNMIX,
            "'o.onnx'",
            "'./../o'",
            "openunmix.files.other: must be a file",
        ),
        (
            OPENUNMIX,
            "[openunmix.files]",
            "[openunmix.sha256]\nbass = 'x'\n[openunmix.files]",
            "openunmix.sha256.bass: openunmix.files has no such stem",
        ),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_ne!(text, changed);
        let error = ModelManifest::parse(&changed).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

/// What an accepted manifest guarantees to the code that uses its numbers.
fn is_safe(manifest: &ModelManifest) -> bool {
    let stays_inside = |file: &str| {
        !file.is_empty() && !file.starts_with('/') && file.split('/').all(|part| part != "..")
    };
    let files = manifest
        .files()
        .iter()
        .all(|graph| stays_inside(&graph.file));
    let sizes = match &manifest.kind {
        FamilySettings::Mdx(m) => {
            let chunk = m.hop * (m.dim_t - 1);
            m.n_fft % 2 == 0 && chunk > m.n_fft && m.dim_f <= m.n_fft / 2 + 1 && m.overlap < 1.0
        }
        FamilySettings::HtDemucs(h) => h.segment > 4_096 && (0.0..1.0).contains(&h.overlap),
        FamilySettings::OpenUnmix(u) => u.frames.is_none_or(|t| (t - 1) * u.hop > u.n_fft),
    };
    files && sizes
}

proptest! {
    #[test]
    fn any_text_gives_a_manifest_or_an_error(text in "\\PC{0,400}") {
        if let Ok(manifest) = ModelManifest::parse(&text) {
            prop_assert!(is_safe(&manifest));
        }
    }

    /// Texts that are nearly right: a good manifest with one piece replaced.
    #[test]
    fn nearly_right_texts_give_a_manifest_or_an_error(
        index in 0usize..3, position in 0usize..300, length in 0usize..12,
        replacement in prop_oneof!["[ -~]{0,8}", "-?[0-9]{1,9}", Just("..".to_owned()), Just("nan".to_owned())],
    ) {
        let text = [MDX, HTDEMUCS, OPENUNMIX][index];
        let start = position.min(text.len());
        let end = (start + length).min(text.len());
        let text = [&text[..start], &replacement, &text[end..]].concat();
        match ModelManifest::parse(&text) {
            Ok(manifest) => prop_assert!(is_safe(&manifest)),
            Err(ModelError::Field { field, reason }) => prop_assert!(!field.is_empty() && !reason.is_empty()),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    /// Whatever the sizes, a manifest is refused or safe to use.
    #[test]
    fn any_sizes_are_refused_or_safe(
        n_fft in 0usize..40_000, hop in 0usize..5_000, dim_f in 0usize..20_000,
        dim_t in 0usize..10_000, overlap in -0.5f64..1.5,
    ) {
        let text = format!(
            "name = 'm'\nkind = 'mdx'\nfile = 'm.onnx'\nstems = ['bass']\n\
             [mdx]\nn_fft = {n_fft}\nhop = {hop}\ndim_f = {dim_f}\ndim_t = {dim_t}\noverlap = {overlap:?}"
        );
        if let Ok(manifest) = ModelManifest::parse(&text) {
            prop_assert!(is_safe(&manifest));
        }
    }
}
