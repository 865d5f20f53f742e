//! A connection to either database.
//!
//! Statements are constants, prepared once per connection. The crate writes them with named
//! parameters (see `statement`), which arrive here as `?1`, `?2`. Values are integers and text only;
//! see `migrations/`. Rows are read and inserted by the names of their columns; see `columns`.

use tokio_postgres::types::ToSql as PgToSql;

use crate::StoreError;
use crate::pg_session::PgSession;
use crate::value::SqlValue;

/// A connection to run statements on.
pub enum Conn<'a> {
    Sqlite(&'a rusqlite::Connection),
    Postgres(&'a mut PgSession),
}

impl Conn<'_> {
    /// Runs a statement and returns the number of rows it changed.
    #[track_caller]
    pub fn execute(
        &mut self,
        sql: &'static str,
        values: &[SqlValue<'_>],
    ) -> Result<u64, StoreError> {
        note(sql, values);
        match self {
            Self::Sqlite(conn) => {
                let changed = conn
                    .prepare_cached(sql)?
                    .execute(rusqlite::params_from_iter(values))?;
                Ok(changed as u64)
            }
            Self::Postgres(session) => session.execute(sql, &params(values)),
        }
    }

    /// Reads all rows of a query with `read`.
    #[track_caller]
    pub fn all<T>(
        &mut self,
        sql: &'static str,
        values: &[SqlValue<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        note(sql, values);
        match self {
            Self::Sqlite(conn) => {
                let mut statement = conn.prepare_cached(sql)?;
                let mut rows = statement.query(rusqlite::params_from_iter(values))?;
                let mut records = Vec::new();
                while let Some(row) = rows.next()? {
                    records.push(read(&Row::Sqlite(row))?);
                }
                Ok(records)
            }
            Self::Postgres(session) => {
                let rows = session.query(sql, &params(values))?;
                rows.iter().map(|row| read(&Row::Postgres(row))).collect()
            }
        }
    }

    /// Reads the first row of a query with `read`.
    #[track_caller]
    pub fn one<T>(
        &mut self,
        sql: &'static str,
        values: &[SqlValue<'_>],
        read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.all(sql, values, read)?.into_iter().next())
    }

    /// Blocks other transactions that call this with the same number until this one ends; they then
    /// see what it wrote.
    pub(super) fn advisory_lock(&mut self, number: i64) {
        // There is only one SQLite writer.
        if let Self::Postgres(session) = self {
            session.lock(number);
        }
    }

    /// Runs several statements without parameters.
    pub(super) fn script(&mut self, sql: &str) -> Result<(), StoreError> {
        match self {
            Self::Sqlite(conn) => Ok(conn.execute_batch(sql)?),
            Self::Postgres(session) => session.script(sql),
        }
    }

    /// Picks the text for this database, for the few statements that differ.
    pub fn dialect(&self, sqlite: &'static str, postgres: &'static str) -> &'static str {
        #[cfg(debug_assertions)]
        super::statement_log::note_dialect(sqlite, postgres);
        match self {
            Self::Sqlite(_) => sqlite,
            Self::Postgres(_) => postgres,
        }
    }
}

/// Records the statement for tests that check query plans.
#[track_caller]
fn note(sql: &'static str, values: &[SqlValue<'_>]) {
    #[cfg(debug_assertions)]
    super::statement_log::note(std::panic::Location::caller(), sql, values);
    #[cfg(not(debug_assertions))]
    let _ = (sql, values);
}

fn params<'a>(values: &'a [SqlValue<'_>]) -> Vec<&'a (dyn PgToSql + Sync)> {
    values
        .iter()
        .map(|value| value as &(dyn PgToSql + Sync))
        .collect()
}

/// A type that a column is read as.
pub(crate) trait FromColumn: Sized {
    /// The value at this index, or `None` for NULL; `column` is for the error message.
    fn from_column(
        row: &Row<'_>,
        index: usize,
        column: &'static str,
    ) -> Result<Option<Self>, StoreError>;
}

/// A result row.
pub enum Row<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

impl Row<'_> {
    /// The column with this name.
    pub(crate) fn field<T: FromColumn>(&self, column: &'static str) -> Result<T, StoreError> {
        let index = match self {
            Self::Sqlite(row) => row.as_ref().column_index(column).ok(),
            Self::Postgres(row) => row.columns().iter().position(|c| c.name() == column),
        };
        let index = index.ok_or_else(|| StoreError::Unreadable {
            column,
            value: "no such column".to_owned(),
        })?;
        self.at(index, column)
    }

    /// The column of a statement that reads only one.
    pub(crate) fn only<T: FromColumn>(&self, statement: &'static str) -> Result<T, StoreError> {
        self.at(0, statement)
    }

    pub(crate) fn at<T: FromColumn>(
        &self,
        index: usize,
        column: &'static str,
    ) -> Result<T, StoreError> {
        let value = T::from_column(self, index, column)?;
        value.ok_or_else(|| StoreError::Unreadable {
            column,
            value: "NULL".to_owned(),
        })
    }

    /// The column at this index, for statements of other crates' tests. This crate reads by names.
    pub fn int(&self, index: usize) -> Result<i64, StoreError> {
        match self {
            Self::Sqlite(row) => Ok(row.get(index)?),
            Self::Postgres(row) => Ok(row.try_get(index)?),
        }
    }

    /// Like [`Self::int`].
    pub fn text(&self, index: usize) -> Result<String, StoreError> {
        match self {
            Self::Sqlite(row) => Ok(row.get(index)?),
            Self::Postgres(row) => Ok(row.try_get(index)?),
        }
    }

    /// Like [`Self::int`], for a TEXT that is parsed; `column` is for the error message.
    pub fn parse<T: std::str::FromStr>(
        &self,
        index: usize,
        column: &'static str,
    ) -> Result<T, StoreError> {
        let value = self.text(index)?;
        value
            .parse()
            .map_err(|_| StoreError::Unreadable { column, value })
    }

    pub fn int_or_null(&self, index: usize) -> Result<Option<i64>, StoreError> {
        match self {
            Self::Sqlite(row) => Ok(row.get(index)?),
            Self::Postgres(row) => Ok(row.try_get(index)?),
        }
    }

    pub fn text_or_null(&self, index: usize) -> Result<Option<String>, StoreError> {
        match self {
            Self::Sqlite(row) => Ok(row.get(index)?),
            Self::Postgres(row) => Ok(row.try_get(index)?),
        }
    }

    /// A TEXT parsed as `T`, or NULL.
    pub fn parse_or_null<T: std::str::FromStr>(
        &self,
        index: usize,
        column: &'static str,
    ) -> Result<Option<T>, StoreError> {
        self.text_or_null(index)?
            .map(|value| {
                value
                    .parse()
                    .map_err(|_| StoreError::Unreadable { column, value })
            })
            .transpose()
    }

    /// A TEXT parsed as JSON, or NULL.
    pub fn json_or_null<T: serde::de::DeserializeOwned>(
        &self,
        index: usize,
        column: &'static str,
    ) -> Result<Option<T>, StoreError> {
        self.text_or_null(index)?
            .map(|value| {
                serde_json::from_str(&value).map_err(|_| StoreError::Unreadable { column, value })
            })
            .transpose()
    }
}

/// JSON for a TEXT column.
pub(super) fn to_json(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Unreadable {
        column: "json",
        value: error.to_string(),
    })
}
