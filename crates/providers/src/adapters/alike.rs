//! Whether a job at a provider is what an order asks for, told by what the
//! provider repeats of the request.

use serde_json::{Map, Value};

use crate::answer::text_at;

/// Whether a job's record agrees with a request: each of the `needed` members
/// is there and the same, and of the others none that is there differs.
///
/// Only text, numbers and flags are compared: lists and tables come back with
/// members that nobody sent. Numbers are the same as their text.
pub(super) fn agrees(request: &Map<String, Value>, record: &Value, needed: &[&str]) -> bool {
    let all_there = needed
        .iter()
        .all(|name| request.contains_key(*name) && scalar(&record[*name]).is_some());
    all_there
        && request.iter().all(|(name, sent)| {
            let both = scalar(sent).zip(scalar(&record[name.as_str()]));
            both.is_none_or(|(sent, told)| sent == told)
        })
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Bool(flag) => Some(flag.to_string()),
        value => text_at(value, ""),
    }
}

/// Whether a key can be a part of a path as it is.
pub(super) fn fits_path(key: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    !key.is_empty() && key.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_repeated_must_be_the_same_and_what_names_it_must_be_there() {
        let request = json!({"prompt": "rain", "seconds": "4", "loop": true, "frames": [1]});
        let request = request.as_object().unwrap();
        let same = |record: Value| agrees(request, &record, &["prompt"]);
        assert!(same(json!({"prompt": "rain"})));
        assert!(same(
            json!({"prompt": "rain", "seconds": 4, "loop": true, "frames": [2], "id": "x"})
        ));
        assert!(same(json!({"prompt": "rain", "seconds": null})));
        for other in [
            json!({"prompt": "snow"}),
            json!({"prompt": null, "seconds": "4"}),
            json!({"prompt": "rain", "seconds": "8"}),
            json!({"prompt": "rain", "loop": false}),
            json!("rain"),
        ] {
            assert!(!same(other.clone()), "{other}");
        }
        assert!(!agrees(request, &json!({"prompt": "rain"}), &["model"]));
        assert!(fits_path("0197-a_B") && !fits_path("a/b") && !fits_path(""));
    }
}
