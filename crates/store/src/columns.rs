//! Columns by name: one declaration for each row that is read, and one list for each that is
//! inserted. A row that is read in one place only needs no struct: [`Row::field`] takes a column's
//! name.
//!
//! `record!` declares once which columns form a struct. SELECT statements get their list from it,
//! and rows are read with it, in the same order: a new column is one line. `insert!` pairs each
//! column with its value. Positions are written only by the macros, so that no two lists can disagree.
//!
//! The encoding of a type in a column is in [`types`]; a type that only one table uses is encoded
//! next to its statements.

mod types;

use std::borrow::Cow;

use crate::conn::FromColumn;
pub(crate) use crate::value::ToColumn;
use crate::{Row, SqlValue, StoreError};
use mediagate_model::attribution::{Attribution, Metadata};

/// JSON for a TEXT column.
pub(crate) fn json_value(value: &impl serde::Serialize) -> SqlValue<'static> {
    match serde_json::to_string(value) {
        Ok(text) => SqlValue::Text(Cow::Owned(text)),
        Err(error) => SqlValue::Unwritable(error.to_string()),
    }
}

/// A struct whose columns are declared by `record!`.
pub(crate) trait TableRecord: Sized {
    /// Reads the next columns, as many as it has.
    fn read(fields: &mut FieldReader<'_, '_>) -> Result<Self, StoreError>;

    /// Reads a row that begins with its columns.
    fn from_row(row: &Row<'_>) -> Result<Self, StoreError> {
        Self::read(&mut FieldReader::new(row))
    }
}

/// A row whose columns are read one after the other.
pub(crate) struct FieldReader<'r, 'a> {
    row: &'r Row<'a>,
    next: usize,
}

impl<'r, 'a> FieldReader<'r, 'a> {
    pub(crate) const fn new(row: &'r Row<'a>) -> Self {
        Self { row, next: 0 }
    }

    /// Reads the next column; `column` is for the error message.
    pub(crate) fn field<T: FromColumn>(&mut self, column: &'static str) -> Result<T, StoreError> {
        let index = self.next;
        self.next += 1;
        self.row.at(index, column)
    }

    /// Reads the next columns as a record.
    pub(crate) fn record<T: TableRecord>(&mut self) -> Result<T, StoreError> {
        T::read(self)
    }
}

/// Declares the columns of a record:
///
/// ```text
/// record! {
///     columns for Task of "tasks" {
///         id: "id",
///         attempts: saturated("attempts"),
///         failure: failure("error_code", "error_message"),
///         money: ..money_columns!(),
///     }
/// }
/// ```
///
/// A field is one of three: a column, a function of columns (which are read as the types of its
/// parameters), or another record, given by its list. A column is a name or any SQL expression.
///
/// This implements [`TableRecord`] for the struct and defines a macro: `columns!()` is the list for
/// a SELECT, `columns!("t")` has the prefix `t.`, and `columns!(insert task into conn)` adds a row.
/// For an insert each field must be a column; a final literal is appended.
macro_rules! record {
    ($(#[$attribute:meta])* $list:ident for $($declared:tt)+) => {
        $crate::columns::record! { @ ($) $(#[$attribute])* $list for $($declared)+ }
    };
    (@ read $fields:ident as in $inner:ident) => {
        $fields.record()?
    };
    (@ ($d:tt) $(#[$attribute:meta])* $list:ident for $record:ident of $table:literal {
        $($field:ident: $($column:literal)? $($($make:ident)::+ ($($argument:literal),+))? $(..$inner:ident!$arguments:tt)?),+ $(,)?
    }) => {
        impl $crate::columns::TableRecord for $record {
            fn read(
                fields: &mut $crate::columns::FieldReader<'_, '_>,
            ) -> Result<Self, $crate::StoreError> {
                // Fields of a literal are evaluated in the order in which they are written.
                Ok(Self {
                    $($field:
                        $(fields.field(concat!($table, ".", $column))?)?
                        $($($make)::+ ($(fields.field(concat!($table, ".", $argument))?),+))?
                        $($crate::columns::record!(@ read fields as in $inner))?
                    ),+
                })
            }
        }

        $(#[$attribute])*
        macro_rules! $list {
            () => {
                $crate::columns::list!(() $($($column)? $($($argument)+)? $(($inner!$arguments))?)+)
            };
            ($d table:literal) => {
                $crate::columns::list!(($d table, ".") $($($column)? $($($argument)+)? $(($inner!$arguments))?)+)
            };
            (insert $d record:ident into $d conn:ident $d ($d rest:literal)?) => {
                $crate::columns::insert!($d conn, $table {
                    $(
                        $($column: $d record.$field,)?
                        $($($argument: compile_error!("made of columns: name them in insert!"),)+)?
                        $("": compile_error!(concat!("of ", stringify!($inner), ": name them in insert!")),)?
                    )+
                } $d ($d rest)?)
            };
        }
    };
}
pub(crate) use record;

/// Columns joined by commas, each prefixed by the text in parentheses; another record's list is
/// inserted unchanged.
macro_rules! list {
    (@ ($($prefix:literal),*) $column:literal) => {
        concat!($($prefix,)* $column)
    };
    (@ $prefix:tt ($inner:ident!$arguments:tt)) => {
        $inner!$arguments
    };
    ($prefix:tt $first:tt $($rest:tt)*) => {
        concat!($crate::columns::list!(@ $prefix $first) $(, ", ", $crate::columns::list!(@ $prefix $rest))*)
    };
}
pub(crate) use list;

/// Adds a row, each column with its value, and returns how many were added:
///
/// ```text
/// insert!(conn, "tasks" {
///     "id": task.id,
///     "state": "queued",
///     "number": sql("(SELECT COUNT(*) + 1 FROM tasks)"),
/// } "ON CONFLICT (id) DO NOTHING")
/// ```
///
/// A value is anything with [`ToColumn`], or SQL, in which the column's name stands for the value of
/// another column: `:id`.
macro_rules! insert {
    ($conn:expr, $table:literal { $($columns:tt)+ } $($rest:literal)?) => {
        $crate::columns::insert!(@ ($conn, $table, ($($rest)?)) () () () $($columns)+)
    };
    (@ $target:tt ($($names:tt)*) ($($placeholders:tt)*) $values:tt
        $column:literal: sql($sql:literal) $(, $($columns:tt)*)?) => {
        $crate::columns::insert!(@ $target ($($names)* $column) ($($placeholders)* ($sql)) $values
            $($($columns)*)?)
    };
    (@ $target:tt ($($names:tt)*) ($($placeholders:tt)*) ($($values:tt)*)
        $column:literal: $value:expr $(, $($columns:tt)*)?) => {
        $crate::columns::insert!(@ $target ($($names)* $column) ($($placeholders)* (":", $column))
            ($($values)* ($column, $value)) $($($columns)*)?)
    };
    (@ ($conn:expr, $table:literal, ($($rest:literal)?)) ($($names:literal)+)
        ($placeholder:tt $($placeholders:tt)*) ($(($name:literal, $value:expr))*)) => {
        $crate::statement::Statement::new(
            $crate::statement::numbered!(
                concat!(
                    "INSERT INTO ", $table, " (", $crate::columns::list!(() $($names)+), ") VALUES (",
                    concat! $placeholder $(, ", ", concat! $placeholders)*, ")" $(, " ", $rest)?
                ),
                [$($name),*]
            ),
            [$($crate::columns::ToColumn::to_column(&$value)),*],
        ).execute($conn)
    };
}
pub(crate) use insert;

/// A count as `u32`, or `u32::MAX` if it does not fit.
pub(crate) fn saturated(stored: i64) -> u32 {
    u32::try_from(stored).unwrap_or(u32::MAX)
}

/// A task's attribution; NULL is none.
pub(crate) fn attribution(user: Option<String>, metadata: Option<Metadata>) -> Attribution {
    Attribution {
        user,
        metadata: metadata.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
