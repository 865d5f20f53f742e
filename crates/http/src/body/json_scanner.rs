//! JSON scanner: checks a body while it arrives, before it is parsed. It limits the bytes outside
//! `data:` URLs, the number of values, and the nesting depth.
//!
//! Invalid JSON is left to the parser. Until then it takes no more memory than its bytes.

use mediagate_model::error::{Error, ErrorCode};

/// Maximum number of bytes of JSON outside `data:` URLs.
const MAX_PLAIN_BYTES: usize = 1_000_000;
/// Maximum number of values and member names. In memory, a parsed object with one member takes
/// about 700 bytes, however short its text.
const MAX_VALUES: usize = 150_000;
/// The parser's own limit.
const MAX_DEPTH: usize = 128;
/// How a string with a file starts, in lower case.
const DATA_PREFIX: &[u8; 5] = b"data:";

/// State of the scan.
#[derive(Debug, Default)]
pub(super) struct JsonScanner {
    state: ScanState,
    plain_bytes: usize,
    values: usize,
    depth: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum ScanState {
    /// Between values.
    #[default]
    Outside,
    /// In a number, `true`, `false` or `null`.
    Literal,
    /// This many bytes into a string that may still turn out to be a `data:` URL.
    Start(usize),
    /// In a `data:` URL.
    Data,
    /// In any other string.
    Text,
    /// After a backslash in a string.
    Escape { is_data: bool },
}

impl JsonScanner {
    /// Scans the next chunk.
    pub(super) fn scan(&mut self, chunk: &[u8]) -> Result<(), Error> {
        let mut rest = chunk;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            if self.state == ScanState::Data {
                // Most bytes of a large body are in one data: URL, and a search for its end is much
                // faster than a step for each byte.
                if byte != b'"' && byte != b'\\' {
                    let end = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
                    rest = &rest[end.unwrap_or(rest.len())..];
                    continue;
                }
            } else {
                self.plain_bytes += 1;
            }
            self.step(byte);
            // Checked at each byte: within one chunk the depth can rise and fall again.
            if self.depth > MAX_DEPTH {
                let message = format!(
                    "The body is not valid JSON: it is nested deeper than {MAX_DEPTH} levels."
                );
                return Err(Error::plain(ErrorCode::InvalidJson, message));
            }
        }
        // These sums never shrink, and the read buffer bounds the size of a chunk. So one check for
        // each chunk is enough.
        if self.plain_bytes > MAX_PLAIN_BYTES {
            return Err(super::too_large(
                "The body's JSON without data: URLs",
                MAX_PLAIN_BYTES,
            ));
        }
        if self.values > MAX_VALUES {
            let message = format!("The body's JSON has more than {MAX_VALUES} values and names.");
            return Err(Error::plain(ErrorCode::BodyTooLarge, message));
        }
        Ok(())
    }

    fn step(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (ScanState::Start(_) | ScanState::Data | ScanState::Text, b'"')
            | (
                ScanState::Outside | ScanState::Literal,
                b',' | b':' | b' ' | b'\t' | b'\n' | b'\r',
            ) => ScanState::Outside,
            // Encoders do not escape the letters of `data:`. A URL with an escape there counts as
            // text, which has the stricter limit.
            (ScanState::Start(_) | ScanState::Text, b'\\') => ScanState::Escape { is_data: false },
            (ScanState::Data, b'\\') => ScanState::Escape { is_data: true },
            (ScanState::Data | ScanState::Escape { is_data: true }, _) => ScanState::Data,
            (ScanState::Start(matched), byte)
                if byte.to_ascii_lowercase() == DATA_PREFIX[matched] =>
            {
                if matched + 1 == DATA_PREFIX.len() {
                    ScanState::Data
                } else {
                    ScanState::Start(matched + 1)
                }
            }
            (ScanState::Start(_) | ScanState::Text | ScanState::Escape { .. }, _) => {
                ScanState::Text
            }
            (ScanState::Outside | ScanState::Literal, b'"') => {
                self.values += 1;
                ScanState::Start(0)
            }
            (ScanState::Outside | ScanState::Literal, b'{' | b'[') => {
                self.values += 1;
                self.depth += 1;
                ScanState::Outside
            }
            (ScanState::Outside | ScanState::Literal, b'}' | b']') => {
                // Broken JSON can close more than it opened; the parser reports that.
                self.depth = self.depth.saturating_sub(1);
                ScanState::Outside
            }
            (ScanState::Outside, _) => {
                self.values += 1;
                ScanState::Literal
            }
            (ScanState::Literal, _) => ScanState::Literal,
        };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn scan_all(text: &str, chunk_size: usize) -> Result<JsonScanner, ErrorCode> {
        let mut scanner = JsonScanner::default();
        for chunk in text.as_bytes().chunks(chunk_size) {
            scanner.scan(chunk).map_err(|error| error.code())?;
        }
        Ok(scanner)
    }

    fn count(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(count).sum(),
            Value::Object(members) => members.values().map(|value| 1 + count(value)).sum(),
            _ => 0,
        }
    }

    #[test]
    fn data_addresses_do_not_count_as_plain() {
        for prefix in ["data:", "DATA:", "Data:"] {
            let address = format!("{prefix}image\\/png;base64,{}", "A".repeat(2_000_000));
            let scanner = scan_all(&format!(r#"{{"a":[{{"url":"{address}"}}]}}"#), 1000).unwrap();
            assert!(scanner.plain_bytes < 50, "{scanner:?}");
        }
        for text in ["dat:", "xdata:", "\\u0064ata:", "d\\\"ata:"] {
            let text = format!(
                r#"{{"a":"{prefix}{rest}"}}"#,
                prefix = text,
                rest = "A".repeat(2_000_000)
            );
            assert_eq!(scan_all(&text, 1000).unwrap_err(), ErrorCode::BodyTooLarge);
        }
        // Text after a `data:` URL counts again.
        let after = format!(r#"{{"a":"data:x\"y","b":"{}"}}"#, "A".repeat(2_000_000));
        assert_eq!(scan_all(&after, 1000).unwrap_err(), ErrorCode::BodyTooLarge);
    }

    #[test]
    fn many_small_values_and_deep_ones_are_refused() {
        let values = format!("[{}1]", "{\"\":0},".repeat(60_000));
        assert_eq!(
            scan_all(&values, 4096).unwrap_err(),
            ErrorCode::BodyTooLarge
        );
        assert_eq!(
            scan_all(&"[".repeat(1000), 4096).unwrap_err(),
            ErrorCode::InvalidJson
        );
        assert!(scan_all(&"[]".repeat(1000), 4096).is_ok());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "(data:)?\\PC{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::vec(("\\PC{0,6}", inner), 0..8)
                    .prop_map(|members| { Value::Object(members.into_iter().collect()) }),
            ]
        })
    }

    proptest! {
        #[test]
        fn counts_are_those_of_the_parsed_value(value in any_json(), piece in 1_usize..20, pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            let scanner = scan_all(&text.unwrap(), piece).unwrap();
            prop_assert_eq!(scanner.values, count(&value));
            prop_assert_eq!((scanner.depth, scanner.state == ScanState::Outside || scanner.state == ScanState::Literal), (0, true));
        }

        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            drop(JsonScanner::default().scan(&bytes));
        }
    }

    #[test]
    fn an_empty_body_is_the_parsers_business() {
        assert_eq!(scan_all("", 1).unwrap().values, 0);
        assert_eq!(scan_all(&json!(null).to_string(), 1).unwrap().values, 1);
    }
}
