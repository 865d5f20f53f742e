//! Changes that can only be made in the database itself, and what the check must report of each.

mod entries;
mod submissions;
mod sums;
mod tasks;

/// A change of the database.
pub(super) struct Change {
    pub(super) name: &'static str,
    /// The kind of mismatch that the check must report.
    pub(super) kind: &'static str,
    /// Part of that mismatch's message.
    pub(super) detail: &'static str,
    pub(super) sql: &'static [&'static str],
}

/// All changes, by table.
pub(super) const CHANGES: &[&[Change]] = &[
    tasks::TASKS,
    entries::ENTRIES,
    submissions::SUBMISSIONS,
    sums::SUMS,
];
