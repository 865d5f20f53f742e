//! Graphs and manifests that contradict each other, and graphs that misbehave.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use stems::onnx::{ModelError, ModelManifest, SeparationModel};
use stems::{Audio, SeparateError, SeparationControl, Stem};

use super::fixtures::Fixtures;

const MDX: &str = "name = 'm'\nkind = 'mdx'\nfile = 'FILE'\nstems = ['vocals']\n\
    [mdx]\nn_fft = 1200\nhop = 160\ndim_f = 500\ndim_t = 24\n";

fn bad(fixtures: &Fixtures) -> PathBuf {
    fixtures.folder.join("bad")
}

fn load(fixtures: &Fixtures, text: &str) -> Result<SeparationModel, ModelError> {
    let manifest = ModelManifest::parse(text)?;
    SeparationModel::load(&bad(fixtures), manifest, &fixtures.options)
}

fn refusal(fixtures: &Fixtures, text: &str) -> String {
    load(fixtures, text).unwrap_err().to_string()
}

#[test]
fn graphs_that_are_not_what_the_manifest_says() {
    let Some(fixtures) = Fixtures::find() else {
        return;
    };
    let manifest_for = |file: &str| MDX.replace("FILE", file);
    let fine = manifest_for("fine.onnx");
    assert!(load(&fixtures, &fine).is_ok() && load(&fixtures, &manifest_for("open.onnx")).is_ok());
    for (text, expected) in [
        (manifest_for("gone.onnx"), "gone.onnx: "),
        (
            manifest_for("half-floats.onnx"),
            "file: no 32-bit floats: the graph's `input` has shape [1, 4, 500, 24]",
        ),
        (
            manifest_for("flat.onnx"),
            "file: wrong rank: the graph's `output` has shape [4, 500, 24]",
        ),
        (
            manifest_for("short.onnx"),
            "mdx.dim_t: wrong size: the graph's `output` has shape [1, 4, 500, 20]",
        ),
        (
            manifest_for("short-open.onnx"),
            "file: run on silence, its output `output` has shape [1, 4, 500, 20]",
        ),
        (
            manifest_for("nan.onnx"),
            "file: run on silence, its output `output` contains values that are not numbers",
        ),
        (
            manifest_for("two.onnx"),
            "file: an MDX-Net has one input, not 2",
        ),
        (
            fine.replace("dim_f = 500", "dim_f = 501"),
            "mdx.dim_f: wrong size: the graph's `input` has",
        ),
        (
            fine.replace("dim_t = 24", "dim_t = 32"),
            "mdx.dim_t: wrong size",
        ),
        (
            fine.replace("[mdx]", &format!("sha256 = '{}'\n[mdx]", "0".repeat(64))),
            "sha256: fine.onnx has the SHA-256 ",
        ),
    ] {
        let error = refusal(&fixtures, &text);
        assert!(error.starts_with(expected), "{error}");
    }
    let error = refusal(
        &fixtures,
        &fine.replace("[mdx]", &format!("sha256 = '{}'\n[mdx]", "0".repeat(64))),
    );
    let checksum = error.rsplit(' ').next().unwrap();
    let corrected = fine.replace("[mdx]", &format!("sha256 = '{checksum}'\n[mdx]"));
    assert!(
        load(&fixtures, &corrected).is_ok(),
        "the reported checksum is the right one"
    );
}

#[test]
fn ports_are_found_by_rank_or_name() {
    let Some(fixtures) = Fixtures::find() else {
        return;
    };
    let load = |extra: &str, stems: &str| {
        let text = format!(
            "name = 'm'\nkind = 'htdemucs'\nfile = 'ht-outside.onnx'\nstems = [{stems}]\n\
             [htdemucs]\nsegment = 20000\n{extra}"
        );
        let manifest = ModelManifest::parse(&text)?;
        SeparationModel::load(&fixtures.folder, manifest, &fixtures.options)
    };
    let six = "'drums', 'bass', 'other', 'vocals', 'guitar', 'piano'";
    let names = "[htdemucs.ports]\nwaveform_input = 'mix'\nspectrum_input = 'mag'\n\
                 waveform_output = 'time'\nspectrum_output = 'freq'";
    assert!(load("", six).is_ok() && load(names, six).is_ok());
    for (extra, stems, expected) in [
        (
            "stft = 'inside'",
            six,
            "htdemucs.stft: the graph has 2 inputs",
        ),
        (
            "",
            "'drums', 'bass'",
            "stems: wrong size: the graph's `time` has shape [1, 6, 2, 20000]",
        ),
        (
            "[htdemucs.ports]\nspectrum_input = 'spec'",
            six,
            "htdemucs.ports.spectrum_input: there is no `spec`; the graph has mag[1, 4, 2048, 20]",
        ),
        (
            "[htdemucs.ports]\nwaveform_input = 'mag'",
            six,
            "file: wrong rank: the graph's `mag`",
        ),
    ] {
        let error = load(extra, stems).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn an_open_unmix_names_the_stem_whose_graph_is_wrong() {
    let Some(fixtures) = Fixtures::find() else {
        return;
    };
    let load_error = |extra: &str| {
        let text = format!("name = 'm'\nkind = 'openunmix'\n[openunmix]\n{extra}");
        let manifest = ModelManifest::parse(&text).unwrap();
        let loaded = SeparationModel::load(&fixtures.folder, manifest, &fixtures.options);
        loaded.unwrap_err().to_string()
    };
    let vocals = "[openunmix.files]\nvocals = 'unmix-fixed-vocals.onnx'";
    for (extra, expected) in [
        (
            format!("frames = 41\n{vocals}"),
            "openunmix.frames: wrong size",
        ),
        (
            format!("n_fft = 2048\n{vocals}"),
            "openunmix.n_fft: wrong size",
        ),
        (
            format!("{vocals}\ndrums = 'unmix-long-drums.onnx'"),
            "openunmix.frames: wrong size",
        ),
        (
            format!("{vocals}\ndrums = 'mdx-half.onnx'"),
            "openunmix.files.drums: wrong size",
        ),
        (
            format!("{vocals}\ndrums = 'bad/flat.onnx'"),
            "openunmix.files.drums: wrong size",
        ),
        (
            format!("{vocals}\ndrums = 'mdx-half.toml'"),
            "openunmix.files.drums: ",
        ),
        (
            format!(
                "{vocals}\n[openunmix.sha256]\nvocals = '{}'",
                "0".repeat(64)
            ),
            "openunmix.sha256.vocals: unmix-fixed-vocals.onnx has",
        ),
    ] {
        let error = load_error(&extra);
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn damaged_files_are_refused() {
    let Some(fixtures) = Fixtures::find() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(bad(&fixtures).join("fine.onnx")).unwrap();
    let text = MDX.replace("FILE", "a.onnx");
    for length in (0..whole.len()).step_by(7) {
        fs::write(folder.path().join("a.onnx"), &whole[..length]).unwrap();
        let manifest = ModelManifest::parse(&text).unwrap();
        let error = SeparationModel::load(folder.path(), manifest, &fixtures.options).unwrap_err();
        assert!(
            matches!(error, ModelError::Field { .. }),
            "{length}: {error}"
        );
    }
    // Every byte wrong in turn: refused or not, but never a panic.
    for offset in (0..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[offset] ^= 0x55;
        fs::write(folder.path().join("a.onnx"), bytes).unwrap();
        let manifest = ModelManifest::parse(&text).unwrap();
        let _ = SeparationModel::load(folder.path(), manifest, &fixtures.options);
    }
}

#[test]
fn a_graph_that_fails_on_a_clip_is_an_error_of_that_clip() {
    let Some(fixtures) = Fixtures::find() else {
        return;
    };
    let model = Arc::new(load(&fixtures, &MDX.replace("FILE", "late.onnx")).unwrap());
    let noise = (0..9_000u32).map(|i| (i * 7_919 % 1_000) as f32 / 1_000.0 - 0.5);
    let mix = Audio::new(44_100, vec![noise.collect::<Vec<f32>>(); 2]).unwrap();
    let error = model
        .separate(&mix, &[Stem::Vocals], SeparationControl::default())
        .unwrap_err();
    assert_eq!(
        error,
        SeparateError::Model("its output `output` contains values that are not numbers".into())
    );
}
