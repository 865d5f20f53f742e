//! CSV as in RFC 4180, safe to open in a spreadsheet: text that would be read as a formula is
//! prefixed with an apostrophe.

use std::fmt::Display;

/// A text field with untrusted content.
pub fn text(value: impl AsRef<str>) -> String {
    let value = value.as_ref();
    // Spreadsheets evaluate a cell that begins with one of these, even if it is quoted.
    let is_formula = value.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']);
    let escaped = if is_formula {
        format!("'{value}")
    } else {
        value.to_owned()
    };
    if escaped.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", escaped.replace('"', "\"\""))
    } else {
        escaped
    }
}

/// A field written by this program: a number, an amount, an id.
pub fn plain(value: impl Display) -> String {
    value.to_string()
}

/// Appends a line.
pub fn line(output: &mut String, fields: impl IntoIterator<Item = String>) {
    let fields: Vec<String> = fields.into_iter().collect();
    output.push_str(&fields.join(","));
    output.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_and_quotes_stay_text() {
        for (value, written) in [
            ("plain", "plain"),
            ("", ""),
            ("=1+1", "'=1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("-2", "'-2"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("\tx", "'\tx"),
        ] {
            assert_eq!(text(value), written, "{value:?}");
        }
        assert_eq!(plain("-0.40"), "-0.40");
        let mut lines = String::new();
        line(&mut lines, ["a".to_owned(), "b".to_owned()]);
        assert_eq!(lines, "a,b\r\n");
    }
}
