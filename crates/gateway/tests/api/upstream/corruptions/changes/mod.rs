//! Changes that nobody but somebody with the database in hand can make, and what the check must say of each.

mod entries;
mod submissions;
mod sums;
mod tasks;

/// A change of the database.
pub(super) struct Change {
    pub(super) name: &'static str,
    /// What the check must name.
    pub(super) what: &'static str,
    /// Part of what it must say.
    pub(super) why: &'static str,
    pub(super) sql: &'static [&'static str],
}

/// All of them, by table.
pub(super) const CHANGES: &[&[Change]] = &[
    tasks::TASKS,
    entries::ENTRIES,
    submissions::SUBMISSIONS,
    sums::SUMS,
];
