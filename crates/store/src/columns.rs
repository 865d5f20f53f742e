//! Columns by name: one declaration for each row that is read, and one list for each that is
//! inserted.
//!
//! `record!` declares once which columns form a struct. SELECT statements get their list from it,
//! and rows are read with it, in the same order: a new column is one line. `insert!` pairs each
//! column with its value. Positions and numbers of parameters are written only by the macros, so
//! that no two lists can disagree.
//!
//! The encoding of a type in a column is in [`types`]; a type that only one table uses is encoded
//! next to its statements.

mod types;

use std::borrow::Cow;

use crate::{Conn, Row, SqlValue, StoreError};

/// A type that a column is read as.
pub(crate) trait FromColumn: Sized {
    /// The value at this index, or `None` for NULL; `column` is for the error message.
    fn from_column(
        row: &Row<'_>,
        index: usize,
        column: &'static str,
    ) -> Result<Option<Self>, StoreError>;
}

/// A type that is written to a column.
pub(crate) trait ToColumn {
    fn to_column(&self) -> Result<FieldValue<'_>, StoreError>;
}

/// A parameter that may own its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FieldValue<'a> {
    Null,
    Int(i64),
    Text(Cow<'a, str>),
}

impl<'a> From<&'a FieldValue<'_>> for SqlValue<'a> {
    fn from(field: &'a FieldValue<'_>) -> Self {
        match field {
            FieldValue::Null => Self::Null,
            FieldValue::Int(value) => Self::Int(*value),
            FieldValue::Text(value) => Self::Text(value),
        }
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
        let field = T::from_column(self.row, index, column)?;
        field.ok_or_else(|| StoreError::Unreadable {
            column,
            value: "NULL".to_owned(),
        })
    }

    /// Reads the next columns as a record.
    pub(crate) fn record<T: TableRecord>(&mut self) -> Result<T, StoreError> {
        T::read(self)
    }
}

/// Runs a statement of `insert!`; a statement is identified by the location of its `insert!`.
#[track_caller]
pub(crate) fn run_insert<const N: usize>(
    conn: &mut Conn<'_>,
    sql: &'static str,
    fields: [Result<FieldValue<'_>, StoreError>; N],
) -> Result<u64, StoreError> {
    let fields = fields.into_iter().collect::<Result<Vec<_>, _>>()?;
    let values: Vec<SqlValue<'_>> = fields.iter().map(SqlValue::from).collect();
    Conn::execute(conn, sql, &values)
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
/// A value is anything with [`ToColumn`], or SQL, in which `?1` is the first of the values.
/// Parameters are numbered, as in all statements: Postgres has `$1` for `?1`.
macro_rules! insert {
    ($conn:expr, $table:literal { $($columns:tt)+ } $($rest:literal)?) => {
        $crate::columns::insert!(@ ($conn, $table, ($($rest)?)) () () ()
            ("1" "2" "3" "4" "5" "6" "7" "8" "9" "10" "11" "12" "13" "14" "15" "16"
             "17" "18" "19" "20" "21" "22" "23" "24" "25" "26" "27" "28" "29" "30" "31" "32")
            $($columns)+)
    };
    (@ $target:tt ($($names:tt)*) ($($placeholders:tt)*) ($($values:tt)*) $numbers:tt
        $column:literal: sql($sql:literal) $(, $($columns:tt)*)?) => {
        $crate::columns::insert!(@ $target ($($names)* $column) ($($placeholders)* ($sql)) ($($values)*)
            $numbers $($($columns)*)?)
    };
    (@ $target:tt ($($names:tt)*) ($($placeholders:tt)*) ($($values:tt)*) ($number:literal $($numbers:literal)*)
        $column:literal: $value:expr $(, $($columns:tt)*)?) => {
        $crate::columns::insert!(@ $target ($($names)* $column) ($($placeholders)* ("?", $number))
            ($($values)* ($value)) ($($numbers)*) $($($columns)*)?)
    };
    (@ ($conn:expr, $table:literal, ($($rest:literal)?)) ($($names:literal)+)
        ($placeholder:tt $($placeholders:tt)*) ($(($value:expr))*) $numbers:tt) => {
        $crate::columns::run_insert(
            $conn,
            concat!(
                "INSERT INTO ", $table, " (", $crate::columns::list!(() $($names)+), ") VALUES (",
                concat! $placeholder $(, ", ", concat! $placeholders)*, ")" $(, " ", $rest)?
            ),
            [$($crate::columns::ToColumn::to_column(&$value)),*],
        )
    };
}
pub(crate) use insert;

/// A count as `u32`, or `u32::MAX` if it does not fit.
pub(crate) fn saturated(stored: i64) -> u32 {
    u32::try_from(stored).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
