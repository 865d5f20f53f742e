//! Which statements ran, for a test that judges how the databases would run each.
//! Compiled out of release builds.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

use crate::store::Value;

/// A parameter as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    /// NULL.
    Null,
    /// BIGINT.
    Int(i64),
    /// TEXT.
    Text(String),
}

/// What ran since the recording began.
#[derive(Debug, Default)]
pub struct Record {
    /// The statements, and their parameters the first time.
    pub statements: BTreeMap<&'static str, Vec<Given>>,
    /// The files and lines that asked for them.
    pub places: BTreeSet<(&'static str, u32)>,
    /// The text for Postgres of those that differ, by the text for `SQLite`.
    pub on_postgres: BTreeMap<&'static str, &'static str>,
}

static RECORD: Mutex<Option<Record>> = Mutex::new(None);

/// Begins to record what this process asks its databases.
pub fn begin() {
    *RECORD.lock().unwrap_or_else(PoisonError::into_inner) = Some(Record::default());
}

/// Ends it.
pub fn end() -> Record {
    let mut record = RECORD.lock().unwrap_or_else(PoisonError::into_inner);
    record.take().unwrap_or_default()
}

pub(super) fn note(at: &'static Location<'static>, sql: &'static str, values: &[Value<'_>]) {
    let mut record = RECORD.lock().unwrap_or_else(PoisonError::into_inner);
    // What a test asks for itself is its own business.
    let Some(record) = record.as_mut().filter(|_| at.file().contains("src")) else {
        return;
    };
    record.places.insert((at.file(), at.line()));
    record.statements.entry(sql).or_insert_with(|| {
        let given = values.iter().map(|value| match value {
            Value::Null => Given::Null,
            Value::Int(value) => Given::Int(*value),
            Value::Text(value) => Given::Text((*value).to_owned()),
        });
        given.collect()
    });
}

pub(super) fn note_dialect(sqlite: &'static str, postgres: &'static str) {
    let mut record = RECORD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(record) = &mut *record {
        record.on_postgres.insert(sqlite, postgres);
    }
}
