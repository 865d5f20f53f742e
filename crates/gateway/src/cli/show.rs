//! What commands print: tables that fit the terminal, or JSON.

use std::io::IsTerminal as _;

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::cli::{CliError, say};

/// A table with these headings. On a terminal its cells are wrapped so that it fits; into a file or
/// a pipe it is written as wide as it is.
pub(super) fn table<const N: usize>(headings: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(headings);
    if let Some(width) = width() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
    }
    table
}

/// Columns of the terminal, if the output is one.
fn width() -> Option<u16> {
    let out = std::io::stdout();
    if !out.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(out).ok()?;
    // A terminal that does not know says 0.
    Some(size.ws_col).filter(|width| *width >= 20)
}

/// Prints a value as JSON.
pub(super) fn json(value: &impl Serialize) -> Result<(), CliError> {
    say(&serde_json::to_string_pretty(value).map_err(CliError::failed)?)
}

/// Prints settings: as TOML, or the same as JSON.
pub(super) fn toml(text: &str, as_json: bool) -> Result<(), CliError> {
    if !as_json {
        return say(text);
    }
    let settings: toml::Table = toml::from_str(text).map_err(CliError::failed)?;
    json(&settings)
}
