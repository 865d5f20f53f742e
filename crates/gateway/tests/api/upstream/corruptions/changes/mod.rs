//! Changes that can only be made in the database itself, and what the check must report of each.

mod entries;
mod submissions;
mod sums;
mod tasks;

/// A change of the database.
pub(super) struct Change {
    pub(super) name: &'static str,
    /// The mismatch's kind that the check must report.
    pub(super) kind: &'static str,
    /// Part of the message that it must report.
    pub(super) detail: &'static str,
    pub(super) sql: &'static [&'static str],
}

/// All of them, by table.
pub(super) const CHANGES: &[&[Change]] = &[
    tasks::TASKS,
    entries::ENTRIES,
    submissions::SUBMISSIONS,
    sums::SUMS,
];
