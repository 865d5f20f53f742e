//! Statements with named parameters.
//!
//! `sql!` takes a text with parameters such as `:account`, and a value for each. The names become
//! numbers when the program is compiled: nothing is looked up at a call, and a parameter without a
//! value, or a value without a parameter, does not compile.

use crate::conn::FromColumn;
use crate::{Conn, Row, SqlValue, StoreError};

/// A text with its values.
#[derive(Debug)]
pub(crate) struct Statement<'a, const N: usize> {
    text: &'static str,
    values: [SqlValue<'a>; N],
}

impl<'a, const N: usize> Statement<'a, N> {
    pub(crate) const fn new(text: &'static str, values: [SqlValue<'a>; N]) -> Self {
        Self { text, values }
    }

    /// Runs the statement and returns the number of rows it changed.
    #[track_caller]
    pub(crate) fn execute(self, conn: &mut Conn<'_>) -> Result<u64, StoreError> {
        conn.execute(self.text, &self.values)
    }

    /// Reads all rows with `read`.
    #[track_caller]
    pub(crate) fn all<T>(
        self,
        conn: &mut Conn<'_>,
        read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        conn.all(self.text, &self.values, read)
    }

    /// Reads the first row with `read`.
    #[track_caller]
    pub(crate) fn one<T>(
        self,
        conn: &mut Conn<'_>,
        read: impl FnMut(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        conn.one(self.text, &self.values, read)
    }

    /// The only column of all rows.
    #[track_caller]
    pub(crate) fn values<T: FromColumn>(self, conn: &mut Conn<'_>) -> Result<Vec<T>, StoreError> {
        let text = self.text;
        self.all(conn, |row| row.only(text))
    }

    /// The only column of the first row.
    #[track_caller]
    pub(crate) fn value<T: FromColumn>(self, conn: &mut Conn<'_>) -> Result<Option<T>, StoreError> {
        let text = self.text;
        self.one(conn, |row| row.only(text))
    }

    /// Whether there is a row.
    #[track_caller]
    pub(crate) fn exists(self, conn: &mut Conn<'_>) -> Result<bool, StoreError> {
        let found = self.one(conn, |_| Ok(()))?;
        Ok(found.is_some())
    }
}

/// A statement of a constant text and its values, as in `format!`:
///
/// ```text
/// sql!("SELECT name FROM api_keys WHERE id = :id AND created_at < :now", id, now = clock.now())
/// ```
macro_rules! sql {
    ($text:expr $(, $name:ident $(= $value:expr)?)* $(,)?) => {
        $crate::statement::Statement::new(
            $crate::statement::numbered!($text, [$(stringify!($name)),*]),
            [$($crate::statement::value!($name $(= $value)?)),*],
        )
    };
}
pub(crate) use sql;

/// A statement whose text differs: the one for `SQLite`, then the one for Postgres.
macro_rules! dialect_sql {
    ($conn:expr, $sqlite:expr, $postgres:expr $(, $name:ident $(= $value:expr)?)* $(,)?) => {
        $crate::statement::Statement::new(
            $conn.dialect(
                $crate::statement::numbered!($sqlite, [$(stringify!($name)),*]),
                $crate::statement::numbered!($postgres, [$(stringify!($name)),*]),
            ),
            [$($crate::statement::value!($name $(= $value)?)),*],
        )
    };
}
pub(crate) use dialect_sql;

macro_rules! value {
    ($name:ident) => {
        $crate::SqlValue::from($name)
    };
    ($name:ident = $value:expr) => {
        $crate::SqlValue::from($value)
    };
}
pub(crate) use value;

/// The constant text with the numbers of these names.
macro_rules! numbered {
    ($text:expr, $names:expr) => {
        const {
            const TEXT: &str = $text;
            const NUMBERED: &$crate::statement::NumberedText<{ TEXT.len() }> =
                &$crate::statement::NumberedText::new(TEXT, &$names);
            NUMBERED.as_str()
        }
    };
}
pub(crate) use numbered;

/// A text in which `?1` stands for the first name.
pub(crate) struct NumberedText<const CAPACITY: usize> {
    bytes: [u8; CAPACITY],
    length: usize,
}

impl<const CAPACITY: usize> NumberedText<CAPACITY> {
    /// Replaces the names; fails to compile if the parameters are not exactly those of `names`.
    pub(crate) const fn new(text: &str, names: &[&str]) -> Self {
        let text = text.as_bytes();
        let mut bytes = [0; CAPACITY];
        let (mut read, mut length) = (0, 0);
        let mut is_used = [false; MAX_NAMES];
        let mut is_quoted = false;
        while read < text.len() {
            if text[read] == b'\'' {
                is_quoted = !is_quoted;
            }
            assert!(
                text[read] != b'?',
                "parameters have names, such as :account"
            );
            let end = end_of_name(text, read + 1);
            if is_quoted || text[read] != b':' || end == read + 1 {
                bytes[length] = text[read];
                (read, length) = (read + 1, length + 1);
                continue;
            }
            let index = position(text, read + 1, end, names);
            is_used[index] = true;
            let number = index + 1;
            bytes[length] = b'?';
            length += 1;
            if number > 9 {
                bytes[length] = digit(number / 10);
                length += 1;
            }
            bytes[length] = digit(number % 10);
            length += 1;
            read = end;
        }
        let mut index = 0;
        while index < names.len() {
            assert!(
                is_used[index],
                "a value is not in the text of its statement"
            );
            index += 1;
        }
        Self { bytes, length }
    }

    pub(crate) const fn as_str(&self) -> &str {
        match std::str::from_utf8(self.bytes.split_at(self.length).0) {
            Ok(text) => text,
            Err(_) => "",
        }
    }
}

/// Maximum number of parameters of a statement.
const MAX_NAMES: usize = 64;

const fn digit(number: usize) -> u8 {
    b"0123456789"[number]
}

/// The end of the name that begins here.
const fn end_of_name(text: &[u8], mut index: usize) -> usize {
    while index < text.len() && matches!(text[index], b'a'..=b'z' | b'0'..=b'9' | b'_') {
        index += 1;
    }
    index
}

/// The index of the name that lies in the text between these two positions.
const fn position(text: &[u8], start: usize, end: usize, names: &[&str]) -> usize {
    let mut index = 0;
    loop {
        assert!(
            index < names.len(),
            "a parameter of the statement has no value"
        );
        let name = names[index].as_bytes();
        let mut equal = 0;
        while equal < name.len() && start + equal < end && name[equal] == text[start + equal] {
            equal += 1;
        }
        if equal == name.len() && start + equal == end {
            return index;
        }
        index += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::NumberedText;

    fn numbered<const CAPACITY: usize>(text: &str, names: &[&str]) -> String {
        NumberedText::<CAPACITY>::new(text, names)
            .as_str()
            .to_owned()
    }

    #[test]
    fn names_become_the_numbers_of_their_values() {
        let text = "SELECT ':b' FROM t WHERE a = :a AND b_2 = :b_2 AND c > :a";
        let expected = "SELECT ':b' FROM t WHERE a = ?2 AND b_2 = ?1 AND c > ?2";
        assert_eq!(numbered::<99>(text, &["b_2", "a"]), expected);
        let names = [
            "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9", "n10", "n11",
        ];
        let text = ":n1 :n2 :n3 :n4 :n5 :n6 :n7 :n8 :n9 :n10 :n11";
        assert_eq!(
            numbered::<99>(text, &names),
            "?1 ?2 ?3 ?4 ?5 ?6 ?7 ?8 ?9 ?10 ?11"
        );
    }

    #[test]
    #[should_panic(expected = "a parameter of the statement has no value")]
    fn a_parameter_needs_a_value() {
        numbered::<99>("SELECT :account", &["accounts", "acc"]);
    }

    #[test]
    #[should_panic(expected = "a value is not in the text of its statement")]
    fn a_value_needs_a_parameter() {
        numbered::<99>("SELECT :a", &["a", "b"]);
    }
}
