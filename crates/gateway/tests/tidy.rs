//! Rules of the source that no compiler checks: who may know whom, that every
//! file says what it is for, and that documents agree with the code.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/deploy.rs"]
mod deploy;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/metrics.rs"]
mod metrics;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mediagate_model::error::ErrorCode;
use mediagate_telemetry::counters::METRICS;

/// Longest file, in lines.
const LONGEST: usize = 600;
/// From here on a file should be thought about.
const LONG: usize = 400;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// A source file: its path below `src` and its text.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// The lines that are code, with their numbers.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate();
        lines
            .map(|(number, line)| (number + 1, line.split("//").next().unwrap()))
            .filter(|(_, line)| !line.trim().is_empty())
    }

    /// Whether it lies in one of these folders, or is their module's file.
    fn is_in(&self, folders: &[&str]) -> bool {
        folders.iter().any(|folder| {
            self.path.starts_with(&format!("{folder}/")) || self.path == format!("{folder}.rs")
        })
    }
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path
            .extension()
            .is_some_and(|extension| extension == ending)
        {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn sources() -> Vec<Source> {
    let src = root().join("src");
    let read = |path: PathBuf| Source {
        text: std::fs::read_to_string(&path).unwrap(),
        path: path
            .strip_prefix(&src)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned(),
    };
    files(&src, "rs").into_iter().map(read).collect()
}

/// Whether a line of code names a word as a path or in a list of imports.
fn names(line: &str, word: &str) -> bool {
    let part_of_a_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let rest = &line[at + word.len()..];
        !before.is_some_and(part_of_a_name) && rest.starts_with("::")
    })
}

/// Every place where a file that `applies` names one of these.
fn trespasses(applies: impl Fn(&Source) -> bool, forbidden: &[&str]) -> String {
    let mut found = String::new();
    for source in sources().iter().filter(|source| applies(source)) {
        for (number, line) in source.code() {
            for word in forbidden.iter().filter(|word| names(line, word)) {
                let _ = writeln!(found, "src/{}:{number} names {word}", source.path);
            }
        }
    }
    found
}

#[test]
fn only_the_edge_knows_http() {
    let found = trespasses(
        |source| !source.is_in(&["http", "cli"]),
        &[
            "axum",
            "hyper",
            "hyper_util",
            "tower",
            "tower_http",
            "utoipa_axum",
        ],
    );
    assert!(found.is_empty(), "{found}");
}

#[test]
fn only_the_store_knows_the_databases() {
    let found = trespasses(
        |source| !source.is_in(&["store"]),
        &[
            "rusqlite",
            "::postgres",
            "tokio_postgres",
            "tokio_postgres_rustls",
        ],
    );
    assert!(found.is_empty(), "{found}");
}

#[test]
fn commands_print_by_one_way() {
    let found = trespasses(
        |source| source.is_in(&["cli"]) && source.path != "cli/output.rs",
        &["stdout", "stderr"],
    );
    assert!(found.is_empty(), "{found}");
}

#[test]
fn only_blob_knows_where_files_are() {
    let found = trespasses(|source| !source.is_in(&["blob"]), &["object_store"]);
    assert!(found.is_empty(), "{found}");
}

#[test]
fn only_traces_knows_how_spans_leave() {
    let found = trespasses(
        |source| !source.is_in(&["traces"]),
        &["opentelemetry_sdk", "opentelemetry_proto", "prost"],
    );
    assert!(found.is_empty(), "{found}");
}

#[test]
fn layers_know_only_what_lies_below() {
    for (folders, forbidden) in [
        (
            &["model"][..],
            &[
                "crate::http",
                "crate::domain",
                "crate::store",
                "crate::worker",
                "crate::cli",
            ][..],
        ),
        (&["domain"], &["crate::http", "crate::worker", "crate::cli"]),
        (
            &[
                "app",
                "attendance",
                "bell",
                "caches",
                "catalog",
                "engines",
                "hooks",
                "limits",
                "origin",
                "records",
                "seal",
                "store",
                "traces",
                "upstream",
            ],
            &[
                "crate::domain",
                "crate::http",
                "crate::worker",
                "crate::cli",
            ],
        ),
        (&["worker"], &["crate::http", "crate::cli"]),
        (&["http"], &["crate::cli"]),
        (
            &["error", "clock", "ids", "secret"],
            &[
                "crate::http",
                "crate::domain",
                "crate::store",
                "crate::worker",
                "crate::cli",
            ],
        ),
    ] {
        let found = trespasses(|source| source.is_in(folders), forbidden);
        assert!(found.is_empty(), "{found}");
    }
}

/// What no other crate of the workspace may depend on, beside what it is for.
#[test]
fn crates_know_only_what_they_are_for() {
    const SERVICE: [&str; 8] = [
        "axum",
        "hyper",
        "mediagate",
        "postgres",
        "reqwest",
        "rusqlite",
        "tokio",
        "tokio-postgres",
    ];
    for (name, foreign) in [
        ("animatic", &SERVICE[..]),
        ("artwork", &SERVICE),
        ("stems", &SERVICE),
        ("providers", &["axum", "mediagate", "postgres", "rusqlite"]),
        ("simulator", &["mediagate", "providers", "reqwest"]),
    ] {
        let manifest = root().join(format!("../{name}/Cargo.toml"));
        let manifest: toml::Table = std::fs::read_to_string(manifest).unwrap().parse().unwrap();
        let dependencies = manifest["dependencies"].as_table().unwrap();
        for foreign in foreign {
            assert!(
                !dependencies.contains_key(*foreign),
                "{name} depends on {foreign}"
            );
        }
    }
}

#[test]
fn every_file_says_what_it_is_for_and_is_no_book() {
    let mut long = Vec::new();
    let sources = files(&root().join(".."), "rs").into_iter();
    for path in sources.filter(|path| path.components().any(|part| part.as_os_str() == "src")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let path = path.strip_prefix(root().join("..")).unwrap();
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
        if lines > LONG {
            long.push(format!("{lines} {}", path.display()));
        }
    }
    long.sort();
    println!("files of more than {LONG} lines:\n{}", long.join("\n"));
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
    let folder = root().join("migrations");
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
        let changes_a_table = std::fs::read_to_string(path).unwrap().contains(" TABLE ");
        let samples = folder.join(format!("samples/{number:04}.sql"));
        assert!(
            !changes_a_table || samples.is_file(),
            "{name} has no sample rows"
        );
    }
    let known = mediagate_store::migrations::ALL;
    assert_eq!(
        steps.len(),
        known.len(),
        "a file that no step names, or the reverse"
    );
    assert!(
        (1..)
            .zip(known)
            .all(|(number, step)| step.version == number)
    );
    let used: BTreeSet<&str> = known.iter().map(|step| step.samples).collect();
    assert_eq!(files(&folder.join("samples"), "sql").len(), used.len());
}
