//! The fields of a video that its two dialects share, and how each is read.

use serde_json::{Map, Value};

use crate::domain::pictures::PictureSource;
use crate::domain::video::{AskedPicture, Frame};
use crate::error::ErrorCode;
use crate::http::wire::fields::Fields;

/// Longest address in characters; `data:` addresses are bounded by the body.
pub(super) const ADDRESS: usize = 32_000_000;
/// Most reference images of a request.
pub(super) const REFERENCES: usize = 16;
/// Longest `provider_options` as JSON, in bytes.
const OPTIONS: usize = 32_000;

/// `seconds`, a number or, as the SDKs send it, its text.
pub(super) fn seconds(body: &Fields<'_>) -> Option<f64> {
    const RANGE: std::ops::RangeInclusive<f64> = 0.1..=3600.0;
    let Some(Value::String(text)) = body.value("seconds") else {
        return body.number("seconds", RANGE);
    };
    let number = text
        .trim()
        .parse::<f64>()
        .ok()
        .filter(|number| RANGE.contains(number));
    if number.is_none() {
        body.fault(
            "seconds",
            ErrorCode::InvalidValue,
            "Must be a number of seconds.",
        );
    }
    number
}

/// `seed`.
pub(super) fn seed(body: &Fields<'_>) -> Option<u64> {
    body.integer("seed", 0..=i64::MAX)
        .and_then(|seed| u64::try_from(seed).ok())
}

/// `size`, as in `1280x720`.
pub(super) fn size(body: &Fields<'_>) -> Option<(u32, u32)> {
    let text = body.filled_string("size", 32)?;
    let size = pair(&text, &['x', 'X', '*'], 100_000);
    if size.is_none() {
        body.fault(
            "size",
            ErrorCode::InvalidValue,
            "Must be width and height in pixels, as in \"1280x720\".",
        );
    }
    size
}

/// `resolution` and `aspect_ratio`, which stand in place of `size`.
pub(super) fn frame(body: &Fields<'_>) -> Frame {
    let refuse = |name: &str, message: &str| body.fault(name, ErrorCode::InvalidValue, message);
    let resolution = body.filled_string("resolution", 32);
    let aspect_ratio = body.filled_string("aspect_ratio", 32);
    if body.filled_string("size", 32).is_some() {
        let said = [("resolution", &resolution), ("aspect_ratio", &aspect_ratio)];
        for (name, _) in said.iter().filter(|(_, value)| value.is_some()) {
            refuse(name, "Say the size, or resolution and aspect_ratio.");
        }
    }
    let frame = Frame {
        resolution: resolution.as_deref().and_then(tier),
        aspect_ratio: aspect_ratio
            .as_deref()
            .and_then(|text| pair(text, &[':', '/'], 1_000)),
    };
    if resolution.is_some() && frame.resolution.is_none() {
        refuse(
            "resolution",
            "Must be such as \"720p\", \"1080p\" or \"4k\".",
        );
    }
    if aspect_ratio.is_some() && frame.aspect_ratio.is_none() {
        refuse("aspect_ratio", "Must be such as \"16:9\".");
    }
    frame
}

/// `720p`, `768P`, `720`, `2k`, `4K`: the shorter side.
fn tier(text: &str) -> Option<u32> {
    let text = text.trim().to_ascii_lowercase();
    match text.as_str() {
        "2k" => Some(1440),
        "4k" => Some(2160),
        "8k" => Some(4320),
        digits => digits
            .strip_suffix('p')
            .unwrap_or(digits)
            .parse()
            .ok()
            .filter(|tier| (16..=8192).contains(tier)),
    }
}

/// Two numbers from 1 to `most`.
fn pair(text: &str, between: &[char], most: u32) -> Option<(u32, u32)> {
    let (first, second) = text.split_once(between)?;
    let number = |text: &str| {
        let number = text.trim().parse::<u32>().ok();
        number.filter(|number| (1..=most).contains(number))
    };
    Some((number(first)?, number(second)?))
}

/// `end_image`.
pub(super) fn end_image(body: &Fields<'_>) -> Option<AskedPicture> {
    picture(body, body.value("end_image")?, body.path("end_image"))
}

/// `reference_images`: a list, or the only one by itself.
pub(super) fn reference_images(body: &Fields<'_>) -> Vec<AskedPicture> {
    const NAME: &str = "reference_images";
    match body.value(NAME) {
        Some(one @ (Value::String(_) | Value::Object(_))) => {
            picture(body, one, body.path(NAME)).into_iter().collect()
        }
        Some(_) => {
            let items = body.array(NAME, REFERENCES).unwrap_or_default();
            let items = items.iter().enumerate();
            items
                .filter_map(|(index, item)| {
                    picture(body, item, format!("{}[{index}]", body.path(NAME)))
                })
                .collect()
        }
        None => Vec::new(),
    }
}

/// An address, or an object that holds it in `url` or `image_url`. An empty one
/// counts as absent.
fn picture(body: &Fields<'_>, value: &Value, path: String) -> Option<AskedPicture> {
    let (address, path) = match value {
        Value::Object(object) => {
            let held = ["url", "image_url"]
                .into_iter()
                .find_map(|name| Some((object.get(name)?, format!("{path}.{name}"))));
            held.unwrap_or((&Value::Null, format!("{path}.url")))
        }
        other => (other, path),
    };
    let Value::String(address) = address else {
        let message = "Must be an http, https or data: address.";
        body.fault_at(path, ErrorCode::InvalidType, message);
        return None;
    };
    if let Err(why) = super::fields::check_text(address, ADDRESS) {
        body.fault_at(path, ErrorCode::InvalidValue, why);
        return None;
    }
    (!address.is_empty()).then(|| (PictureSource::Address(address.clone()), path))
}

/// `provider_options`; in a form perhaps as JSON.
pub(super) fn provider_options(body: &Fields<'_>) -> Map<String, Value> {
    const NAME: &str = "provider_options";
    let Some(value) = body.value(NAME) else {
        return Map::new();
    };
    let options = match value {
        Value::Object(options) => Some(options.clone()),
        Value::String(text) if body.is_form() => serde_json::from_str(text).ok(),
        _ => None,
    };
    let Some(options) = options else {
        body.fault(NAME, ErrorCode::InvalidType, "Must be an object.");
        return Map::new();
    };
    if serde_json::to_string(&options).map_or(0, |text| text.len()) > OPTIONS {
        let message = format!("Must have at most {OPTIONS} bytes.");
        body.fault(NAME, ErrorCode::InvalidValue, message);
    }
    options
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::http::wire::fields::read;

    #[test]
    fn frames_are_read_as_people_write_them() {
        for (body, resolution, aspect_ratio) in [
            (json!({"resolution": "720p"}), Some(720), None),
            (json!({"resolution": "4K"}), Some(2160), None),
            (
                json!({"resolution": "768P", "aspect_ratio": "9:16"}),
                Some(768),
                Some((9, 16)),
            ),
            (json!({"aspect_ratio": ""}), None, None),
        ] {
            let read = read(&body, |body| Some(frame(body))).unwrap();
            assert_eq!(
                (read.resolution, read.aspect_ratio),
                (resolution, aspect_ratio)
            );
        }
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (body, param) in [
            (json!({"resolution": "fine"}), "resolution"),
            (json!({"aspect_ratio": "wide"}), "aspect_ratio"),
            (json!({"aspect_ratio": "0:9"}), "aspect_ratio"),
            (
                json!({"size": "1280x720", "resolution": "720p"}),
                "resolution",
            ),
            (json!({"end_image": 1}), "end_image"),
            (json!({"end_image": {}}), "end_image.url"),
            (
                json!({"reference_images": ["https://x/a.png", 2]}),
                "reference_images[1]",
            ),
            (
                json!({"reference_images": vec!["https://x/a.png"; 17]}),
                "reference_images",
            ),
            (json!({"provider_options": [1]}), "provider_options"),
            (
                json!({"provider_options": {"a": "x".repeat(40_000)}}),
                "provider_options",
            ),
        ] {
            let read = read(&body, |body| {
                let _ = (frame(body), end_image(body), reference_images(body));
                Some(provider_options(body))
            });
            assert_eq!(read.unwrap_err().param(), Some(param), "{body}");
        }
    }
}
