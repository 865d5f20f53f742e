//! The program from outside: files, messages and exit codes.

#![expect(
    clippy::unwrap_used,
    reason = "tests fail loudly, and their signals are short and exact"
)]

use std::path::PathBuf;
use std::process::{Command, Output};

fn stems(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_stems"))
        .args(arguments)
        .output()
        .unwrap()
}

fn fixture(name: &str) -> String {
    format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

#[test]
fn writes_the_requested_stems() {
    let folder = folder("program-writes");
    let out = stems(&[
        &fixture("tone.mp3"),
        folder.to_str().unwrap(),
        "--stems",
        "Vocals, instrumental",
    ]);
    assert_eq!(
        out.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let table = String::from_utf8(out.stdout).unwrap();
    assert!(
        table.contains("vocals.wav") && table.contains("times real time"),
        "{table}"
    );
    assert!(out.stderr.is_empty(), "progress is for terminals");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|f| f.unwrap().file_name())
        .collect();
    files.sort();
    assert_eq!(files, ["instrumental.wav", "vocals.wav"]);
    let reader = hound::WavReader::open(folder.join("vocals.wav")).unwrap();
    assert_eq!(
        (reader.spec().sample_rate, reader.spec().channels),
        (44_100, 2)
    );
    assert_eq!(
        (reader.spec().bits_per_sample, reader.duration()),
        (32, 22_050)
    );
}

#[test]
fn explains_errors() {
    let folder = folder("program-refuses");
    let folder = folder.to_str().unwrap();
    let song = fixture("tone.mp3");
    for (arguments, code, expected) in [
        (vec![], 2, "0 paths were given"),
        (vec![song.as_str()], 2, "1 paths were given"),
        (vec![&song, folder, "--stems"], 2, "--stems needs a list"),
        (
            vec![&song, folder, "--stems=guitar"],
            2,
            "there is no stem 'guitar'",
        ),
        (vec![&song, folder, "--stems", ","], 2, "names no stem"),
        (
            vec![&song, folder, "--loud"],
            2,
            "there is no option '--loud'",
        ),
        (vec!["/no/such/song", folder], 1, "No such file"),
        (
            vec![fixture("README.md").as_str(), folder],
            1,
            "is no sound that is known",
        ),
        (vec![&song, &song], 1, "File exists"),
    ] {
        let out = stems(&arguments);
        let stderr = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}

#[test]
fn prints_help() {
    let out = stems(&["--help"]);
    assert_eq!(out.status.code(), Some(0));
    assert!(
        String::from_utf8(out.stdout)
            .unwrap()
            .contains("Usage: stems SONG OUTDIR")
    );
}
