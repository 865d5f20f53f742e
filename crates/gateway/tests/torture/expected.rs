//! What this build must have. As long as a part is not in the source, what it
//! promises cannot be checked; from then on every check of it is strict.

use std::path::Path;

/// Whether a migration makes this table.
fn has_table(name: &str) -> bool {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let made = format!("CREATE TABLE {name} (");
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        path.is_file() && std::fs::read_to_string(path).unwrap().contains(&made)
    })
}

/// Whether something in the source says this.
fn says(folder: &Path, what: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return says(&path, what);
        }
        std::fs::read_to_string(path).is_ok_and(|text| text.contains(what))
    })
}

/// Whether operators can look after money.
pub(crate) fn commands() -> bool {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli");
    says(&folder, "Accounts(") && says(&folder, "Ledger(")
}

/// Whether callers can look at it.
pub(crate) fn account_view() -> bool {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http");
    says(&folder, "\"/v1/account\"")
}

/// Whether money is kept in a ledger.
pub(crate) fn ledger() -> bool {
    has_table("ledger")
}

/// Whether repeated requests are led to the task that exists.
pub(crate) fn intents() -> bool {
    has_table("intents")
}
