//! The program `animatic`: its outputs, its messages and its exit codes.
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails has failed its test"
)]

use std::path::PathBuf;
use std::process::{Command, Output};

fn animatic(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_animatic"))
        .args(args)
        .output()
        .unwrap()
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("animatic-program-{}-{name}", std::process::id()))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_prompt_alone_makes_a_video_and_one_tidy_block() {
    let out = scratch("out.mp4");
    let output = animatic(&[
        "a lake at dawn, pan left",
        out.to_str().unwrap(),
        "--size=480x480",
        "--seconds",
        "1",
        "--fps",
        "24",
        "--seed",
        "9",
    ]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    let stdout = text(&output.stdout);
    assert_eq!(stdout.lines().count(), 4, "{stdout}");
    assert!(
        stdout.contains("pan left; drawn scene: water at dawn"),
        "{stdout}"
    );
    assert!(
        stdout.contains("480x480, 24 frames at 24 fps, 1.00 s"),
        "{stdout}"
    );
    assert_eq!(&std::fs::read(&out).unwrap()[4..8], b"ftyp");
    std::fs::remove_file(out).unwrap();
}

#[test]
fn wrong_command_lines_are_explained_with_exit_code_2() {
    for (args, expected) in [
        (vec!["only a prompt"], "give a prompt and a file to write"),
        (
            vec!["a", "b", "c", "d"],
            "give a prompt and a file to write",
        ),
        (vec!["p", "o.mp4", "--size", "big"], "not like 1280x720"),
        (vec!["p", "o.mp4", "--size", "100x100"], "is not offered"),
        (vec!["p", "o.mp4", "--seconds", "99"], "from 1 to 20"),
        (vec!["p", "o.mp4", "--fps", "60"], "24, 25 or 30"),
        (vec!["p", "o.mp4", "--seed"], "--seed needs a value"),
        (vec!["p", "o.mp4", "--sped", "1"], "no option --sped"),
    ] {
        let output = animatic(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            text(&output.stderr).contains(expected),
            "{args:?}: {}",
            text(&output.stderr)
        );
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn work_that_fails_says_why_with_exit_code_1() {
    let missing = animatic(&["/no/such/picture.jpg", "static", "o.mp4"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("/no/such/picture.jpg"));

    let note = scratch("note.txt");
    std::fs::write(&note, "not a picture").unwrap();
    let refused = animatic(&[note.to_str().unwrap(), "static", "o.mp4"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("the image format is unknown"));
    std::fs::remove_file(note).unwrap();
}

#[test]
fn help_names_every_option() {
    let output = animatic(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    for option in [
        "--size",
        "--seconds",
        "--fps",
        "--seed",
        "PICTURE",
        "OUT.mp4",
    ] {
        assert!(text(&output.stdout).contains(option), "{option}");
    }
}
