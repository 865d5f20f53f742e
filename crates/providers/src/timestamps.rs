//! Times as providers write them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::Value;

/// Whole numbers from here on count milliseconds. This number is in 1973 as milliseconds and would
/// be in 5138 as seconds.
const MILLISECONDS_FROM: u64 = 100_000_000_000;

/// A time in RFC 3339, Unix seconds or Unix milliseconds; the numbers may be written as text.
/// `None` for anything else, and for times before 1970.
pub fn read(value: &Value) -> Option<SystemTime> {
    match value {
        Value::Number(number) => match number.as_u64() {
            Some(integer) => from_integer(integer),
            None => from_seconds(number.as_f64()?),
        },
        Value::String(text) => match text.trim().parse() {
            Ok(integer) => from_integer(integer),
            Err(_) => from_text(text.trim()),
        },
        _ => None,
    }
}

fn from_integer(number: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(if number >= MILLISECONDS_FROM {
        Duration::from_millis(number)
    } else {
        Duration::from_secs(number)
    })
}

fn from_seconds(seconds: f64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

/// `2026-11-21T12:00:00.123Z`, or with an offset such as `+08:00`; without either it is UTC.
fn from_text(text: &str) -> Option<SystemTime> {
    let time = text.parse::<Timestamp>().or_else(|_| {
        let civil: DateTime = text.parse()?;
        TimeZone::UTC.to_timestamp(civil)
    });
    let time = SystemTime::from(time.ok()?);
    (time >= UNIX_EPOCH).then_some(time)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn milliseconds(value: &Value) -> Option<u128> {
        let time = read(value)?.duration_since(UNIX_EPOCH);
        Some(time.unwrap().as_millis())
    }

    #[test]
    fn every_format_of_a_time_is_read() {
        for (value, expected) in [
            (json!(1_700_000_000), 1_700_000_000_000),
            (json!(1_700_000_000.5), 1_700_000_000_500),
            (json!(1_700_000_000_123_u64), 1_700_000_000_123),
            (json!("1700000000"), 1_700_000_000_000),
            (json!("1970-01-01T00:00:00Z"), 0),
            (json!("2023-11-14T22:13:20.123Z"), 1_700_000_000_123),
            (json!("2023-11-14T22:13:20"), 1_700_000_000_000),
            (json!("2023-11-15T06:13:20+08:00"), 1_700_000_000_000),
            (json!("2023-11-14 17:13:20-0500"), 1_700_000_000_000),
            (json!("2024-02-29T00:00:00Z"), 1_709_164_800_000),
            (json!("2000-03-01T00:00:00.000001Z"), 951_868_800_000),
        ] {
            assert_eq!(milliseconds(&value), Some(expected), "{value}");
        }
        for value in [
            json!(null),
            json!(-1),
            json!(1e300),
            json!("yesterday"),
            json!("2023-13-14T22:13:20Z"),
            json!("2023-11-14T22:13:20.1.2Z"),
            json!("2023-11-14T22:13:20 MEZ"),
            json!("1969-12-31T23:59:59Z"),
            json!([1]),
        ] {
            assert_eq!(milliseconds(&value), None, "{value}");
        }
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "\\PC{0,40}", timestamp_like in "[0-9T:Z+. é-]{0,30}", number in any::<f64>()) {
            let _ = read(&json!(text));
            let _ = read(&json!(timestamp_like));
            let _ = read(&json!(number));
        }
    }
}
