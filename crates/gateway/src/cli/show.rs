//! Command output: tables that fit the terminal, or JSON.

use std::fmt;

use comfy_table::{ContentArrangement, presets};
use serde::Serialize;

use crate::cli::CliError;
use crate::cli::output::{columns, escaped_json, one_line, say};
use mediagate_model::clock::Timestamp;

/// A table. On a terminal where it is too wide its last column is wrapped, or each row becomes a
/// record of lines: very narrow columns cannot be read, and a truncated id cannot be copied. To a
/// file or a pipe it is written at its full width.
pub(super) struct TextTable {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

/// Narrowest column in which text is wrapped.
const MIN_WRAP_WIDTH: usize = 24;
/// Columns between two cells.
const GAP: u16 = 2;

pub(super) fn table(headings: &[&'static str]) -> TextTable {
    TextTable {
        headings: headings.to_vec(),
        rows: Vec::new(),
    }
}

impl TextTable {
    pub(super) fn add_row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells = cells.into_iter().map(|cell| one_line(&cell));
        self.rows.push(cells.collect());
    }

    /// Renders at the natural width, or at most `width`.
    fn render(&self, width: Option<usize>) -> String {
        let lines = self.layout(width);
        let lines: Vec<&str> = lines.lines().map(str::trim_end).collect();
        lines.join("\n")
    }

    fn layout(&self, width: Option<usize>) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(&self.headings);
        for row in &self.rows {
            table.add_row(row);
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, GAP));
        }
        let widths = table.column_max_content_widths();
        // The padding of the last column is trimmed.
        let gap = usize::from(GAP);
        let total_width = widths.iter().map(|width| usize::from(*width) + gap);
        let total_width = total_width.sum::<usize>().saturating_sub(gap);
        let last_width = widths
            .last()
            .map_or(0, |last_width| usize::from(*last_width));
        let cells = self.rows.iter().filter_map(|row| row.last());
        let words = cells.flat_map(|cell| cell.split_whitespace());
        let longest = words.map(|word| word.chars().count()).max();
        let min_last_width = longest.unwrap_or(0).max(MIN_WRAP_WIDTH.min(last_width));
        match width {
            // Even with its last column wrapped the table would be too wide.
            Some(width)
                if total_width > width && total_width - last_width + min_last_width > width =>
            {
                self.records(width)
            }
            Some(width) if total_width > width => {
                let rest = u16::try_from(width - (total_width - last_width)).unwrap_or(u16::MAX);
                if let Some(column) = table.column_iter_mut().last() {
                    let width = comfy_table::Width::Fixed(rest.saturating_add(GAP));
                    column.set_constraint(comfy_table::ColumnConstraint::UpperBoundary(width));
                }
                // Includes the padding of the last column, which is trimmed afterwards.
                table.set_width(u16::try_from(width + gap).unwrap_or(u16::MAX));
                table.set_content_arrangement(ContentArrangement::Dynamic);
                table.to_string()
            }
            _ => table.to_string(),
        }
    }

    /// Each row as lines, one or more for each cell that is not empty. If a word does not fit next
    /// to the cell's name, the cell begins on the line below the name.
    fn records(&self, width: usize) -> String {
        let name_width = self.headings.iter().map(|name| name.len()).max();
        let name_width = name_width.unwrap_or(0) + 2;
        let record = |row: &Vec<String>| {
            let cells = self.headings.iter().zip(row);
            let lines = cells.filter(|(_, cell)| !cell.is_empty());
            let lines = lines.flat_map(|(name, cell)| {
                let value_width = width.saturating_sub(name_width).max(1);
                let fits = |word: &str| word.chars().count() <= value_width;
                let is_long = !cell.split_whitespace().all(fits);
                let (indent, line_width) = if is_long {
                    (0, width)
                } else {
                    (name_width, value_width)
                };
                let first = is_long.then(|| (*name).to_owned());
                let parts = wrap(cell, line_width).into_iter().enumerate();
                let parts = parts.map(move |(index, part)| {
                    let name = if index == 0 && !is_long { *name } else { "" };
                    format!("{name:indent$}{part}")
                });
                first.into_iter().chain(parts)
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        self.rows
            .iter()
            .map(record)
            .collect::<Vec<_>>()
            .join("\n\n")
    }
}

impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(width()))
    }
}

/// Lines of at most `width` characters, broken between words if possible.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        let used = lines.last().map_or(0, |line| line.chars().count());
        if used > 0 && used + 1 + word.len() > width {
            lines.push(String::new());
        } else if used > 0
            && let Some(line) = lines.last_mut()
        {
            line.push(' ');
        }
        while word.len() > width {
            let rest = word.split_off(width);
            if let Some(line) = lines.last_mut() {
                line.extend(&word);
            }
            lines.push(String::new());
            word = rest;
        }
        if let Some(line) = lines.last_mut() {
            line.extend(&word);
        }
    }
    lines
}

/// Width of the terminal, if the output is one; `COLUMNS` sets it for a pipe too.
fn width() -> Option<usize> {
    let configured = std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse().ok());
    // A terminal with an unknown width reports 0.
    configured.or_else(columns).filter(|width| *width >= 20)
}

/// A time in a table, in UTC.
pub(super) fn time(at: Timestamp) -> String {
    at.rfc3339()[..19].replace('T', " ")
}

/// Prints a value as JSON.
pub(super) fn json(value: &impl Serialize) -> Result<(), CliError> {
    let json = serde_json::to_string_pretty(value).map_err(CliError::failed)?;
    say(&escaped_json(&json))
}

/// Prints settings: as TOML, or the same as JSON.
pub(super) fn toml(text: &str, as_json: bool) -> Result<(), CliError> {
    if !as_json {
        return say(text);
    }
    let settings: toml::Table = toml::from_str(text).map_err(CliError::failed)?;
    json(&settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_keys() -> TextTable {
        let mut table = table(&["NAME", "STATE", "NOTE", "ID"]);
        for (name, note) in [
            ("laptop", ""),
            ("nightly build", "runs at three in the morning"),
        ] {
            let id = "01a20bc9-8155-766c-805a-e685cd8cf5b5";
            table.add_row([name.into(), "valid".into(), note.into(), id.into()]);
        }
        table
    }

    #[test]
    fn a_table_that_does_not_fit_becomes_records_with_whole_ids() {
        let table = two_keys();
        let wide = table.render(Some(120));
        assert_eq!(wide.lines().count(), 3, "{wide}");
        assert_eq!(wide, table.render(None));
        let narrow = table.render(Some(60));
        assert!(
            narrow.lines().all(|line| line.chars().count() <= 60),
            "{narrow}"
        );
        let first = narrow.split("\n\n").next().unwrap();
        assert_eq!(
            first,
            "NAME   laptop\nSTATE  valid\nID     01a20bc9-8155-766c-805a-e685cd8cf5b5"
        );
        let phone = table.render(Some(40));
        assert!(
            phone
                .lines()
                .any(|line| line.ends_with("01a20bc9-8155-766c-805a-e685cd8cf5b5")),
            "{phone}"
        );
        let narrowest = table.render(Some(24));
        assert!(
            narrowest.lines().all(|line| line.chars().count() <= 24),
            "{narrowest}"
        );
    }

    #[test]
    fn the_last_column_is_wrapped_where_there_is_room_for_words() {
        let mut table = table(&["ACTION", "AFTER"]);
        let after = "a long list of everything that was changed, each with its name and its value";
        table.add_row(["key.create".into(), after.into()]);
        let rendered = table.render(Some(50));
        assert!(
            rendered
                .lines()
                .all(|line| line.trim_end().chars().count() <= 50),
            "{rendered}"
        );
        assert!(rendered.starts_with("ACTION      AFTER"), "{rendered}");
        assert!(rendered.lines().count() > 2, "{rendered}");
    }
}
