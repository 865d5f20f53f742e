//! The program with `--model`.

use std::process::{Command, Output};

use super::fixtures::Fixtures;

fn stems(library: &str, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stems"))
        .args(arguments)
        .env("ORT_DYLIB_PATH", library)
        .output()
        .unwrap()
}

fn song() -> String {
    format!("{}/tests/data/tone.mp3", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn separates_by_a_model() {
    let Some(fixtures) = Fixtures::find() else {
        return;
    };
    let library = fixtures.options.library.as_ref().unwrap().to_str().unwrap();
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("out");
    let model = fixtures.folder.join("ht-outside.toml");
    let (out, model) = (out.to_str().unwrap(), model.to_str().unwrap());
    let output = stems(
        library,
        &[&song(), out, "--model", model, "--stems", "piano,other"],
    );
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &stderr[..]), (Some(0), ""));
    let reader = hound::WavReader::open(format!("{out}/keyboard.wav")).unwrap();
    assert_eq!(
        (reader.spec().sample_rate, reader.duration()),
        (44_100, 22_050)
    );

    let output = stems(library, &[&song(), out, "--model", model]);
    assert_eq!(output.status.code(), Some(0));
    let mut files: Vec<_> = std::fs::read_dir(out)
        .unwrap()
        .map(|f| f.unwrap().file_name())
        .collect();
    files.sort();
    let names = [
        "bass",
        "drums",
        "guitar",
        "instrumental",
        "keyboard",
        "other",
        "vocals",
    ];
    let names = names.map(|name| std::ffi::OsString::from(format!("{name}.wav")));
    assert_eq!(files, names);

    let refused = stems(library, &[&song(), out, "--model", model, "--stems=brass"]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert!(
        refused.status.code() == Some(1) && stderr.contains("there is no brass here"),
        "{stderr}"
    );
}

#[test]
fn says_what_to_install() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path();
    let manifest = "name = 'm'\nkind = 'mdx'\nfile = 'm.onnx'\nstems = ['vocals']\n\
                    [mdx]\nn_fft = 1200\nhop = 160\ndim_f = 500\ndim_t = 24\n";
    std::fs::write(path.join("m.toml"), manifest).unwrap();
    std::fs::write(path.join("m.onnx"), "graph").unwrap();
    std::fs::write(path.join("no-library.so"), "text").unwrap();
    let (out, model) = (path.join("out"), path.join("m.toml"));
    let arguments = [
        &song(),
        out.to_str().unwrap(),
        "--model",
        model.to_str().unwrap(),
    ];
    for library in [
        "/no/such/libonnxruntime.so",
        path.join("no-library.so").to_str().unwrap(),
    ] {
        let output = stems(library, &arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(
            stderr.contains("the ONNX runtime library cannot be loaded: "),
            "{stderr}"
        );
        assert!(stderr.contains("ORT_DYLIB_PATH"), "{stderr}");
        assert!(
            !out.exists(),
            "nothing is written before the model is loaded"
        );
    }
}
