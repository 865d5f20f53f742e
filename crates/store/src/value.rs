//! Parameters of statements: integers and text only, for both databases.

use std::borrow::Cow;
use std::error::Error as StdError;

use rusqlite::types::{ToSqlOutput, ValueRef};
use tokio_postgres::types::{
    IsNull, ToSql as PgToSql, Type, accepts, private::BytesMut, to_sql_checked,
};

/// A type that is written to a column.
pub(crate) trait ToColumn {
    fn to_column(&self) -> SqlValue<'_>;
}

/// A statement's parameter. A type is bound as what it is in a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SqlValue<'a> {
    /// NULL.
    Null,
    /// BIGINT.
    Int(i64),
    /// TEXT.
    Text(Cow<'a, str>),
    /// A value that has no JSON, with the reason; its statement fails.
    Unwritable(String),
}

impl<'a, T: ToColumn + ?Sized> From<&'a T> for SqlValue<'a> {
    fn from(value: &'a T) -> Self {
        value.to_column()
    }
}

impl From<String> for SqlValue<'_> {
    fn from(value: String) -> Self {
        Self::Text(Cow::Owned(value))
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
            Self::Unwritable(reason) => {
                return Err(rusqlite::Error::ToSqlConversionFailure(
                    reason.as_str().into(),
                ));
            }
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
            Self::Text(value) => value.as_ref().to_sql_checked(ty, out),
            Self::Unwritable(reason) => Err(reason.as_str().into()),
        }
    }

    accepts!(INT8, TEXT);
    to_sql_checked!();
}
