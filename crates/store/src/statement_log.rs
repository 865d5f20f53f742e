//! Statement log for a test that examines query plans. Compiled out of release builds.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
use std::sync::Mutex;

use locks::lock;

use crate::value::SqlValue;

/// A parameter as it was passed to the statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatementParameter {
    Null,
    Int(i64),
    Text(String),
}

/// Statements that ran since [`begin`].
#[derive(Debug, Default)]
pub struct StatementLog {
    /// The statements, each with the parameters of its first run.
    pub statements: BTreeMap<&'static str, Vec<StatementParameter>>,
    pub places: BTreeSet<(&'static str, u32)>,
    /// For statements that differ: the Postgres text by the `SQLite` text.
    pub on_postgres: BTreeMap<&'static str, &'static str>,
}

static LOG: Mutex<Option<StatementLog>> = Mutex::new(None);

/// Starts recording the statements of this process.
pub fn begin() {
    *lock(&LOG) = Some(StatementLog::default());
}

/// Stops recording.
pub fn end() -> StatementLog {
    let mut log = lock(&LOG);
    log.take().unwrap_or_default()
}

pub(super) fn note(
    location: &'static Location<'static>,
    sql: &'static str,
    values: &[SqlValue<'_>],
) {
    let mut log = lock(&LOG);
    // Ignore a test's own statements.
    let Some(log) = log.as_mut().filter(|_| location.file().contains("src")) else {
        return;
    };
    log.places.insert((location.file(), location.line()));
    log.statements.entry(sql).or_insert_with(|| {
        let parameters = values.iter().map(|value| match value {
            SqlValue::Null | SqlValue::Unwritable(_) => StatementParameter::Null,
            SqlValue::Int(value) => StatementParameter::Int(*value),
            SqlValue::Text(value) => StatementParameter::Text(value.clone().into_owned()),
        });
        parameters.collect()
    });
}

pub(super) fn note_dialect(sqlite: &'static str, postgres: &'static str) {
    let mut log = lock(&LOG);
    if let Some(log) = &mut *log {
        log.on_postgres.insert(sqlite, postgres);
    }
}
