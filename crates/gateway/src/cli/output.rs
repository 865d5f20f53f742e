//! Output of commands, in one place: text is printed so that a terminal does not interpret it.
//! Names, prompts and notes come from tenants, and file contents from anyone; control characters
//! and bidirectional marks in them could colour, move, hide or reverse the text next to them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{BufWriter, ErrorKind, IsTerminal as _, Write as _};

use crate::cli::CliError;

/// Whether a terminal would interpret the character, or show the following text in another order.
/// Line breaks and tabs are handled by `one_line`.
fn is_control_or_bidi(c: char) -> bool {
    let is_mark = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    is_mark || (c.is_control() && !matches!(c, '\n' | '\t'))
}

/// Removes the characters that a terminal would interpret. CR LF stays, because lines of CSV
/// end with it.
fn strip_control_characters(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control_or_bidi) {
        return text.into();
    }
    // A carriage return alone would have the next text overwrite the line. Before a line feed it
    // ends a line of CSV and stays.
    let lines = text.split("\r\n");
    let lines = lines.map(|line| line.replace(is_control_or_bidi, ""));
    lines.collect::<Vec<_>>().join("\r\n").into()
}

/// The text as one line, for a cell or after a name: it must not look like separate lines of
/// output.
pub(super) fn one_line(text: &str) -> String {
    let line = text.replace(['\n', '\r', '\t'], " ");
    strip_control_characters(&line).into_owned()
}

/// JSON in which every character that a terminal would interpret is escaped, so that nothing is
/// lost.
pub(super) fn escaped_json(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if is_control_or_bidi(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    text
}

/// Prints to standard output. A closed pipe (`| head`) is not an error.
pub(super) fn say(text: &str) -> Result<(), CliError> {
    print_line(text.trim_end()).map(drop)
}

/// Prints a line to standard output. Returns whether the output is still read.
pub(super) fn print_line(text: &str) -> Result<bool, CliError> {
    let text = strip_control_characters(text);
    is_reader_open(writeln!(std::io::stdout().lock(), "{text}"))
}

/// Prints to standard error, separate from the results.
pub(super) fn note(text: &str) {
    // If standard error is closed, there is nowhere to report that.
    let _ = writeln!(std::io::stderr(), "{}", strip_control_characters(text));
}

/// Whether standard error is a terminal, where a line can be redrawn.
pub(super) fn can_draw() -> bool {
    std::io::stderr().is_terminal()
}

/// Writes this program's own text to the terminal at standard error; it may move the cursor.
pub(super) fn draw(text: &str) {
    let mut out = std::io::stderr();
    // Progress is optional; a closed terminal is not an error.
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

/// Width of the terminal at standard output, if it is a terminal and reports one.
pub(super) fn columns() -> Option<usize> {
    let out = std::io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&out).ok()?;
    Some(usize::from(size.ws_col))
}

/// Standard output for more than fits into memory.
pub(super) struct StdoutStream(BufWriter<std::io::StdoutLock<'static>>);

impl StdoutStream {
    pub(super) fn new() -> Self {
        Self(BufWriter::new(std::io::stdout().lock()))
    }

    /// Returns whether the output is still read.
    pub(super) fn write(&mut self, text: &str) -> Result<bool, CliError> {
        is_reader_open(self.0.write_all(strip_control_characters(text).as_bytes()))
    }

    pub(super) fn end(mut self) -> Result<(), CliError> {
        is_reader_open(self.0.flush()).map(drop)
    }
}

fn is_reader_open(result: std::io::Result<()>) -> Result<bool, CliError> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CliError::failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str =
        "a\u{1b}[2J\u{7}b\u{9b}1m\u{202e}c\u{2066}\u{200f}\u{7f}\r\nsigner  me\td";

    #[test]
    fn no_terminal_control_is_left() {
        assert_eq!(
            strip_control_characters(HOSTILE),
            "a[2Jb1mc\r\nsigner  me\td"
        );
        assert_eq!(strip_control_characters("sure\rno\r\n"), "sureno\r\n");
        assert_eq!(one_line(HOSTILE), "a[2Jb1mc  signer  me d");
        assert_eq!(
            strip_control_characters("Ünïcödé 映画 🎬\n"),
            "Ünïcödé 映画 🎬\n"
        );
    }

    #[test]
    fn escaped_json_keeps_its_values() {
        let json = serde_json::to_string_pretty(&serde_json::json!({"name": HOSTILE})).unwrap();
        let escaped = escaped_json(&json);
        assert!(!escaped.contains(is_control_or_bidi), "{escaped}");
        let parsed: serde_json::Value = serde_json::from_str(&escaped).unwrap();
        assert_eq!(parsed["name"], HOSTILE);
    }
}
