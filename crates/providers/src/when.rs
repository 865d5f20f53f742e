//! Times as providers write them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

/// Seconds of the year 5138 and milliseconds of the year 1973: whole numbers
/// from here on count milliseconds.
const MILLISECONDS_FROM: u64 = 100_000_000_000;

/// A time in Unix seconds, Unix milliseconds or RFC 3339, also when a number is
/// written as text. `None` for anything else, and for times before 1970.
pub fn read(value: &Value) -> Option<SystemTime> {
    match value {
        Value::Number(number) => match number.as_u64() {
            Some(whole) => of_whole(whole),
            None => of_seconds(number.as_f64()?),
        },
        Value::String(text) => match text.trim().parse() {
            Ok(whole) => of_whole(whole),
            Err(_) => of_text(text.trim()),
        },
        _ => None,
    }
}

fn of_whole(number: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(if number >= MILLISECONDS_FROM {
        Duration::from_millis(number)
    } else {
        Duration::from_secs(number)
    })
}

fn of_seconds(seconds: f64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

/// `2026-11-21T12:00:00.123Z`, or with an offset such as `+08:00`; without
/// either it is UTC.
fn of_text(text: &str) -> Option<SystemTime> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u32>().ok();
    let between = |at: usize, signs: &[u8]| signs.contains(text.as_bytes().get(at)?).then_some(());
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    for (at, signs) in [(4, "-"), (7, "-"), (10, "Tt "), (13, ":"), (16, ":")] {
        between(at, signs.as_bytes())?;
    }
    let fits = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !fits {
        return None;
    }
    let rest = text.get(19..)?;
    let end = rest
        .find(|sign: char| sign != '.' && !sign.is_ascii_digit())
        .unwrap_or(rest.len());
    let fraction: f64 = match &rest[..end] {
        "" => 0.0,
        digits => format!("0{digits}").parse().ok()?,
    };
    let of_day = i64::from(hour * 3600 + minute * 60 + second);
    let seconds = days(year, month, day) * 86_400 + of_day - offset(&rest[end..])?;
    let whole = Duration::from_secs(u64::try_from(seconds).ok()?);
    UNIX_EPOCH.checked_add(whole + Duration::try_from_secs_f64(fraction).ok()?)
}

/// Seconds east of UTC.
fn offset(text: &str) -> Option<i64> {
    let (sign, rest) = match text {
        "" | "Z" | "z" => return Some(0),
        _ if text.starts_with('+') => (1, &text[1..]),
        _ if text.starts_with('-') => (-1, &text[1..]),
        _ => return None,
    };
    let hours: u8 = rest.get(..2)?.parse().ok()?;
    let minutes: u8 = rest.get(2..)?.trim_start_matches(':').parse().ok()?;
    Some(sign * (i64::from(hours) * 3600 + i64::from(minutes) * 60))
}

/// Days from 1970-01-01 in the Gregorian calendar (Howard Hinnant's algorithm).
fn days(year: u32, month: u32, day: u32) -> i64 {
    // Years begin in March, so that the leap day is the last.
    let year = i64::from(year) - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month = (i64::from(month) + 9) % 12;
    let of_year = (153 * month + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
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
    fn every_way_of_writing_a_time() {
        for (written, expected) in [
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
            assert_eq!(milliseconds(&written), Some(expected), "{written}");
        }
        for wrong in [
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
            assert_eq!(milliseconds(&wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn reading_is_total(text in "\\PC{0,40}", near in "[0-9T:Z+. é-]{0,30}", number in any::<f64>()) {
            let _ = read(&json!(text));
            let _ = read(&json!(near));
            let _ = read(&json!(number));
        }
    }
}
