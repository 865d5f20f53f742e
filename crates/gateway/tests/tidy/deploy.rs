//! Settings that `deploy/` and `docs/deployment.md` name are settings of the program: variables are
//! compared with its help, settings in TOML are read by `mediagate config check`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The tests of `deploy/`, which hold no settings of the program.
const CHECKS: &str = "deploy/tests";

fn repository() -> PathBuf {
    super::root().join("../..")
}

/// Runs the program without the settings of whoever runs the tests.
fn mediagate(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mediagate"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("MEDIAGATE_")) {
        command.env_remove(name);
    }
    command.args(arguments).envs(variables.iter().copied());
    command.output().unwrap()
}

/// The names in a text that begin like the program's variables.
fn variables(text: &str) -> BTreeSet<&str> {
    let name_at = |start: usize| {
        let rest = &text[start..];
        let end = rest.find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'));
        &rest[..end.unwrap_or(rest.len())]
    };
    let names = text
        .match_indices("MEDIAGATE_")
        .map(|(start, _)| name_at(start));
    // `MEDIAGATE_…` stands for all of them.
    names.filter(|name| *name != "MEDIAGATE_").collect()
}

fn collect_files(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.ends_with(CHECKS) {
            continue;
        }
        if path.is_dir() {
            collect_files(&path, paths);
        } else {
            paths.push(path);
        }
    }
}

#[test]
fn variables_are_those_of_the_program() {
    let help = String::from_utf8(mediagate(&["serve", "--help"], &[]).stdout).unwrap();
    let known = variables(&help);
    assert!(known.len() > 30, "the help shows only {known:?}");
    let mut paths = vec![repository().join("docs/deployment.md")];
    collect_files(&repository().join("deploy"), &mut paths);
    let (mut count, mut unknown) = (0, String::new());
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        for name in variables(&text) {
            count += 1;
            if !known.contains(name) {
                let _ = writeln!(unknown, "{} sets {name}", path.display());
            }
        }
    }
    assert!(count > 20, "only {count} variables were found");
    assert!(
        unknown.is_empty(),
        "the program knows none of these:\n{unknown}"
    );
}

/// What the examples name as `env:NAME`.
const SECRETS: [(&str, &str); 4] = [
    ("DATABASE_URL", "postgres://mediagate@127.0.0.1/mediagate"),
    ("FAL_KEY", "not-a-key"),
    ("S3_ACCESS_KEY", "not-a-key"),
    ("S3_SECRET_KEY", "not-a-secret"),
];

#[test]
fn settings_are_those_of_the_program() {
    let document = std::fs::read_to_string(repository().join("docs/deployment.md")).unwrap();
    let blocks = document.split("```toml\n").skip(1);
    let mut settings: Vec<String> = blocks
        .map(|block| block.split_once("```").unwrap().0.to_owned())
        .collect();
    assert!(settings.len() >= 3, "only {} examples", settings.len());
    let compose = repository().join("deploy/compose.toml");
    settings.push(std::fs::read_to_string(compose).unwrap());
    let folder = tempfile::tempdir().unwrap();
    for settings in settings {
        let path = folder.path().join("mediagate.toml");
        std::fs::write(&path, &settings).unwrap();
        let arguments = ["config", "check", "--config", path.to_str().unwrap()];
        let output = mediagate(&arguments, &SECRETS);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{settings}\n{stderr}");
    }
}
