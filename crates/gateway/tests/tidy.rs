//! Rules of the source that no compiler checks: that every file says what it is for, that no
//! modules depend on each other, that names can be searched for, and that documents agree with the
//! code.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "tidy/bounds.rs"]
mod bounds;
#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/deploy.rs"]
mod deploy;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/durations.rs"]
mod durations;
#[path = "tidy/metrics.rs"]
mod metrics;
#[path = "tidy/names.rs"]
mod names;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mediagate_model::error::ErrorCode;
use mediagate_telemetry::counters::METRICS;

/// Longest file, in lines.
const LONGEST: usize = 600;
/// A file with more lines is listed, as one that might be split.
const LONG_FILE: usize = 400;

/// The folders of the repository that hold crates: the gateway, the media libraries, the tools.
const CRATE_FOLDERS: [&str; 3] = ["crates", "engines", "tools"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The folders of all crates.
fn crates() -> Vec<PathBuf> {
    let folders = CRATE_FOLDERS.map(|name| root().join("../..").join(name));
    let crates = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).unwrap());
    crates.map(|entry| entry.unwrap().path()).collect()
}

/// The source files of all crates.
fn sources() -> impl Iterator<Item = PathBuf> {
    let files = crates()
        .into_iter()
        .flat_map(|folder| files(&folder.join("src"), "rs"));
    files.collect::<Vec<_>>().into_iter()
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            paths.extend(files(&path, ending));
        } else if path
            .extension()
            .is_some_and(|extension| extension == ending)
        {
            paths.push(path);
        }
    }
    paths.sort();
    paths
}

#[test]
fn every_file_has_a_description_and_at_most_600_lines() {
    let mut long = Vec::new();
    for path in sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        let path = path.strip_prefix(root().join("../..")).unwrap();
        let is_tests = path.ends_with("tests.rs");
        assert!(
            is_tests || text.starts_with("//! "),
            "{} does not begin with //!",
            path.display()
        );
        let lines = text.lines().count();
        assert!(
            lines <= LONGEST,
            "{} has {lines} lines; split it",
            path.display()
        );
        if lines > LONG_FILE {
            long.push(format!("{lines} {}", path.display()));
        }
    }
    long.sort();
    println!("files of more than {LONG_FILE} lines:\n{}", long.join("\n"));
}

#[test]
fn the_error_document_is_the_table_in_the_code() {
    let document = std::fs::read_to_string(root().join("../../docs/errors.md")).unwrap();
    let row = |line: &str| -> Option<[String; 4]> {
        let mut cells = line
            .strip_prefix("| `")?
            .split('|')
            .map(|cell| cell.trim().trim_matches('`').to_owned());
        Some([cells.next()?, cells.next()?, cells.next()?, cells.next()?])
    };
    let documented: Vec<[String; 4]> = document.lines().filter_map(row).collect();
    let coded: Vec<[String; 4]> = ErrorCode::ALL
        .iter()
        .map(|code| {
            let retry = if code.retryable() { "yes" } else { "no" };
            [
                code.name().into(),
                code.status().to_string(),
                code.kind().name().into(),
                retry.into(),
            ]
        })
        .collect();
    for (documented, coded) in documented.iter().zip(&coded) {
        assert_eq!(documented, coded, "docs/errors.md");
    }
    assert_eq!(documented.len(), coded.len(), "docs/errors.md");
}

#[test]
fn the_metrics_document_is_the_table_in_the_code() {
    let document = std::fs::read_to_string(root().join("../../docs/operations.md")).unwrap();
    let documented: Vec<(&str, String)> = document
        .lines()
        .filter_map(|line| {
            let mut cells = line
                .strip_prefix("| `mediagate_")?
                .split('|')
                .map(str::trim);
            Some((cells.next()?.trim_matches('`'), cells.next()?.to_owned()))
        })
        .collect();
    let coded: Vec<(&str, String)> = METRICS
        .iter()
        .map(|(name, kind, ..)| {
            let kind = format!("{kind:?}").to_lowercase();
            (name.strip_prefix("mediagate_").unwrap(), kind)
        })
        .collect();
    assert_eq!(documented, coded, "docs/operations.md");
}

#[test]
fn migrations_are_numbered_without_gaps_and_have_samples() {
    let folder = root().join("../store/migrations");
    let steps: Vec<PathBuf> = files(&folder, "sql")
        .into_iter()
        .filter(|path| path.parent() == Some(&folder))
        .collect();
    for (number, path) in (1..).zip(&steps) {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(
            name.starts_with(&format!("{number:04}_")),
            "{name} should be number {number}"
        );
        let text = std::fs::read_to_string(path).unwrap();
        let only_adds = text.starts_with(mediagate_store::migrations::ONLY_ADDS);
        // `IS NOT NULL` is the condition of an index.
        let text = text.replace("IS NOT NULL", "");
        let samples = folder.join(format!("samples/{number:04}.sql"));
        assert!(
            samples.is_file() || (only_adds && !text.contains("NOT NULL")),
            "{name} has no sample rows"
        );
    }
    let migrations = mediagate_store::migrations::ALL;
    assert_eq!(
        steps.len(),
        migrations.len(),
        "a file without a migration, or a migration without a file"
    );
    assert!(
        (1..)
            .zip(migrations)
            .all(|(number, step)| step.version == number)
    );
    let samples: BTreeSet<&str> = migrations.iter().map(|step| step.samples).collect();
    assert_eq!(files(&folder.join("samples"), "sql").len(), samples.len());
}
