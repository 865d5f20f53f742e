//! The table of everything that is bounded: it lists every semaphore, channel, queue and pool of
//! threads in the sources, and `docs/security.md` prints it.

use std::collections::BTreeMap;
use std::path::Path;

use mediagate_model::bounds::{ALL, Bound};

use super::{crates, files, root};

/// Crates that are no part of the program.
const OTHER_PROGRAMS: [&str; 3] = ["benches", "fuzz", "simulator"];
/// How something bounded is constructed. `oneshot` and `watch` hold one value, and no caller waits
/// for room in them.
const CONSTRUCTIONS: [&str; 16] = [
    "Semaphore::new(",
    "Semaphore::const_new(",
    "mpsc::channel(",
    "unbounded_channel(",
    "sync_channel(",
    " channel(",
    " channel::<",
    "broadcast::Sender::new(",
    "broadcast::channel(",
    "crossbeam_channel::bounded(",
    "crossbeam_channel::unbounded(",
    "Queue::for_bound(",
    "QuotaPool::new(",
    "AccountSemaphores::new(",
    "thread::Builder::new(",
    "Builder::new_multi_thread(",
];
/// How queues that divide a resource are constructed; [`CONSTRUCTIONS`] has the other ways.
const QUEUES: [&str; 3] = [
    "FairShareQueue::new(",
    "FairShareQueue::lending(",
    "MediaWorkPool::new(",
];

/// Counts the constructions in each file, by its path without `crates/` and `src/`.
fn constructions() -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for folder in crates() {
        let krate = folder.file_name().unwrap().to_string_lossy().into_owned();
        if OTHER_PROGRAMS.contains(&&*krate) {
            continue;
        }
        let sources = folder.join("src");
        for path in files(&sources, "rs") {
            let path_in_crate = path.strip_prefix(&sources).unwrap();
            if is_test(path_in_crate) {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            let lines = code.lines().map(str::trim_start);
            let lines = lines.filter(|line| !line.starts_with("//"));
            let found: usize = lines.map(count).sum();
            if found > 0 {
                counts.insert(format!("{krate}/{}", path_in_crate.display()), found);
            }
        }
    }
    counts
}

fn is_test(path: &Path) -> bool {
    path.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "tests")
}

fn count(line: &str) -> usize {
    let ways = CONSTRUCTIONS.iter().chain(&QUEUES);
    ways.map(|way| line.matches(way).count()).sum()
}

#[test]
fn everything_bounded_is_in_the_table() {
    let mut listed: BTreeMap<String, usize> = BTreeMap::new();
    for source in ALL.iter().flat_map(|bound| bound.sources) {
        *listed.entry((*source).to_owned()).or_default() += 1;
    }
    let constructed = constructions();
    assert!(constructed.len() > 10, "{constructed:?}");
    assert_eq!(
        constructed, listed,
        "left: constructed in the sources; right: `sources` in crates/model/src/bounds.rs"
    );
}

#[test]
fn the_security_page_prints_the_table() {
    let document = std::fs::read_to_string(root().join("../../docs/security.md")).unwrap();
    let table: String = ALL.iter().map(row).collect();
    assert!(
        document.contains(&table),
        "docs/security.md should contain:\n{table}"
    );
}

fn row(bound: &Bound) -> String {
    let setting = bound.setting.map(|name| format!(" (`{name}`)"));
    format!(
        "| {} | {}{} | {} | {} | {} | {} | {} |\n",
        bound.resource,
        bound.total,
        setting.unwrap_or_default(),
        bound.per_key,
        bound.per_account,
        bound.per_provider,
        bound.turns,
        bound.exhausted,
    )
}
