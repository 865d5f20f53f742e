//! Parameters of statements: integers and text only, for both databases.

use std::error::Error as StdError;

use rusqlite::types::{ToSqlOutput, ValueRef};
use tokio_postgres::types::{
    IsNull, ToSql as PgToSql, Type, accepts, private::BytesMut, to_sql_checked,
};

/// A statement's parameter.
#[derive(Debug, Clone, Copy)]
pub enum SqlValue<'a> {
    /// NULL.
    Null,
    /// BIGINT.
    Int(i64),
    /// TEXT.
    Text(&'a str),
}

impl From<i64> for SqlValue<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<bool> for SqlValue<'_> {
    fn from(value: bool) -> Self {
        Self::Int(i64::from(value))
    }
}

impl<'a> From<&'a str> for SqlValue<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a String> for SqlValue<'a> {
    fn from(value: &'a String) -> Self {
        Self::Text(value)
    }
}

impl<'a, T: Into<SqlValue<'a>>> From<Option<T>> for SqlValue<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl rusqlite::ToSql for SqlValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(value) => ValueRef::Integer(*value),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
        }))
    }
}

impl PgToSql for SqlValue<'_> {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(value) => value.to_sql_checked(ty, out),
            Self::Text(value) => value.to_sql_checked(ty, out),
        }
    }

    accepts!(INT8, TEXT);
    to_sql_checked!();
}
