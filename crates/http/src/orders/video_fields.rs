//! The fields of a video that its two APIs (Videos and chat completions) share.

use serde_json::{Map, Value};
use utoipa::openapi::schema::{AnyOfBuilder, ArrayBuilder, ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use crate::fields::types::{IntegerField, text};
use crate::fields::{BodyFields, FieldType, check_text};
use mediagate_core::domain::pictures::PictureSource;
use mediagate_core::domain::video::RequestedPicture;
use mediagate_model::error::ErrorCode;

/// Longest prompt in characters.
pub(super) const MAX_PROMPT: usize = 32_000;
/// Longest URL in characters; `data:` URLs are bounded by the body.
pub(super) const MAX_ADDRESS: usize = crate::fields::BODY_LIMIT;
/// Maximum number of reference images of a request: more than any model takes.
pub(super) const MAX_REFERENCES: usize = 32;
/// Longest `provider_options` as JSON, in bytes.
const MAX_OPTIONS_BYTES: usize = 32_000;

/// A length: a number or, as the SDKs send it, its text.
pub struct SecondsField;

impl FieldType for SecondsField {
    type Value = f64;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<f64> {
        const RANGE: std::ops::RangeInclusive<f64> = 0.1..=3600.0;
        let Some(Value::String(text)) = body.value(name) else {
            return body.number(name, RANGE);
        };
        let number = text.trim().parse::<f64>().ok();
        // Refuses NaN and infinity too, which `parse` accepts.
        let number = number.filter(|number| RANGE.contains(number));
        if number.is_none() {
            let message = "Must be a number of seconds.";
            body.fault(name, ErrorCode::InvalidValue, message);
        }
        number
    }

    fn schema() -> RefOr<Schema> {
        let number = ObjectBuilder::new().schema_type(Type::Number);
        let number = number.minimum(Some(0.1)).maximum(Some(3600.0));
        let text = ObjectBuilder::new().schema_type(Type::String);
        AnyOfBuilder::new().item(number).item(text).into()
    }
}

/// The random seed.
pub struct SeedField;

impl FieldType for SeedField {
    type Value = u64;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<u64> {
        let seed = body.integer(name, 0..=i64::MAX)?;
        u64::try_from(seed).ok()
    }

    fn schema() -> RefOr<Schema> {
        IntegerField::<0, { i64::MAX }>::schema()
    }
}

/// A visible label; `ai` is the only one.
pub struct LabelField;

impl FieldType for LabelField {
    type Value = bool;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<bool> {
        let label = body.filled_string(name, 32)?;
        if label != "ai" {
            body.fault(name, ErrorCode::UnsupportedValue, "Must be \"ai\".");
        }
        Some(true)
    }

    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(["ai"]))
            .into()
    }
}

/// Width and height, as in `1280x720`.
pub struct SizeField;

impl FieldType for SizeField {
    type Value = (u32, u32);

    fn read(body: &BodyFields<'_>, name: &str) -> Option<(u32, u32)> {
        let text = body.filled_string(name, 32)?;
        let size = pair(&text, &['x', 'X', '*'], 100_000);
        if size.is_none() {
            let message = "Must be a width and height in pixels such as \"1280x720\".";
            body.fault(name, ErrorCode::InvalidValue, message);
        }
        size
    }

    fn schema() -> RefOr<Schema> {
        text(32).into()
    }
}

/// The resolution, as in `1080p`: the shorter side. An alternative to `size`.
pub struct ResolutionField;

impl FieldType for ResolutionField {
    type Value = u32;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<u32> {
        read_unless_size(
            body,
            name,
            "Must be a resolution such as \"720p\", \"1080p\" or \"4k\".",
            tier,
        )
    }

    fn schema() -> RefOr<Schema> {
        text(32).into()
    }
}

/// The aspect ratio, as in `16:9`. An alternative to `size`.
pub struct AspectRatio;

impl FieldType for AspectRatio {
    type Value = (u32, u32);

    fn read(body: &BodyFields<'_>, name: &str) -> Option<(u32, u32)> {
        read_unless_size(
            body,
            name,
            "Must be an aspect ratio such as \"16:9\".",
            |text| pair(text, &[':', '/'], 1_000),
        )
    }

    fn schema() -> RefOr<Schema> {
        text(32).into()
    }
}

fn read_unless_size<T>(
    body: &BodyFields<'_>,
    name: &str,
    expectation: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Option<T> {
    let text = body.filled_string(name, 32)?;
    // Read raw: whether `size` is valid is reported by its own field.
    let size = body.value("size").and_then(Value::as_str);
    if size.is_some_and(|size| !size.is_empty()) {
        let message = "Set either size, or resolution and aspect_ratio.";
        body.fault(name, ErrorCode::InvalidValue, message);
    }
    let parsed = parse(&text);
    if parsed.is_none() {
        body.fault(name, ErrorCode::InvalidValue, expectation);
    }
    parsed
}

/// The shorter side in pixels, from `720p`, `768P`, `720`, `2k` or `4K`.
fn tier(text: &str) -> Option<u32> {
    let text = text.trim().to_ascii_lowercase();
    // These names refer to the longer side; the values are the shorter sides at 16:9.
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

/// Two numbers from 1 to `max`.
fn pair(text: &str, separators: &[char], max: u32) -> Option<(u32, u32)> {
    let (first, second) = text.split_once(separators)?;
    let number = |text: &str| {
        let number = text.trim().parse::<u32>().ok();
        number.filter(|number| (1..=max).contains(number))
    };
    Some((number(first)?, number(second)?))
}

/// The URL of a picture, with its path in the body.
pub struct PictureAddress;

impl FieldType for PictureAddress {
    type Value = RequestedPicture;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<RequestedPicture> {
        let address = body.string(name, MAX_ADDRESS)?;
        if address.is_empty() {
            body.fault(name, ErrorCode::InvalidValue, "Must not be empty.");
            return None;
        }
        Some((PictureSource::Address(address), body.path(name)))
    }

    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(Some(1))
            .into()
    }
}

/// A picture: its URL, or an object that holds the URL in `url` or `image_url`. One such object may
/// contain another. An empty URL counts as absent.
pub struct PictureField;

impl FieldType for PictureField {
    type Value = RequestedPicture;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<RequestedPicture> {
        picture(body, body.value(name)?, body.path(name))
    }

    fn schema() -> RefOr<Schema> {
        let address = || ObjectBuilder::new().schema_type(Type::String);
        let wrapped = |name: &str| {
            let object = ObjectBuilder::new().schema_type(Type::Object);
            object.property(name, address()).required(name)
        };
        let nested = ObjectBuilder::new().schema_type(Type::Object);
        let nested = nested.property("image_url", wrapped("url"));
        let any_of = AnyOfBuilder::new().item(address());
        let any_of = any_of.item(wrapped("url")).item(wrapped("image_url"));
        any_of.item(nested.required("image_url")).into()
    }
}

/// A picture at a path of the body.
pub(super) fn picture(
    body: &BodyFields<'_>,
    value: &Value,
    path: String,
) -> Option<RequestedPicture> {
    let (address, path) = inner_picture(value, path);
    // The format in the parts of a message: `{"image_url": {"url": …}}`.
    let (address, path) = inner_picture(address, path);
    let Value::String(address) = address else {
        let message = "Must be an http, https or data: URL.";
        body.fault_at(path, ErrorCode::InvalidType, message);
        return None;
    };
    if let Err(message) = check_text(address, MAX_ADDRESS) {
        body.fault_at(path, ErrorCode::InvalidValue, message);
        return None;
    }
    (!address.is_empty()).then(|| (PictureSource::Address(address.clone()), path))
}

/// The picture inside an object, and its path. Any other value is returned unchanged.
fn inner_picture(value: &Value, path: String) -> (&Value, String) {
    let Value::Object(object) = value else {
        return (value, path);
    };
    let inner = ["url", "image_url"]
        .into_iter()
        .find_map(|name| Some((object.get(name)?, format!("{path}.{name}"))));
    inner.unwrap_or((&Value::Null, format!("{path}.url")))
}

/// Pictures: a list, or a single picture without a list.
pub struct PictureList;

impl FieldType for PictureList {
    type Value = Vec<RequestedPicture>;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<Vec<RequestedPicture>> {
        let value = body.value(name)?;
        if matches!(value, Value::String(_) | Value::Object(_)) {
            let single = picture(body, value, body.path(name));
            return Some(single.into_iter().collect());
        }
        let items = body.array(name, MAX_REFERENCES)?.iter().enumerate();
        let pictures = items.filter_map(|(index, item)| {
            picture(body, item, format!("{}[{index}]", body.path(name)))
        });
        Some(pictures.collect())
    }

    fn schema() -> RefOr<Schema> {
        let list = ArrayBuilder::new().items(PictureField::schema());
        let list = list.max_items(Some(MAX_REFERENCES));
        AnyOfBuilder::new()
            .item(list)
            .item(PictureField::schema())
            .into()
    }
}

/// Fields that are passed to the provider.
pub struct ProviderOptions;

impl FieldType for ProviderOptions {
    type Value = Map<String, Value>;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<Map<String, Value>> {
        let Value::Object(options) = body.value(name)? else {
            body.fault(name, ErrorCode::InvalidType, "Must be an object.");
            return None;
        };
        if serde_json::to_string(options).map_or(0, |text| text.len()) > MAX_OPTIONS_BYTES {
            let message = format!("Must have at most {MAX_OPTIONS_BYTES} bytes.");
            body.fault(name, ErrorCode::InvalidValue, message);
        }
        Some(options.clone())
    }

    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::Object).into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fields::{read, request::read as field};

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
            let read = read(&body, |body| {
                let resolution = field::<ResolutionField>(body, "resolution");
                Some((resolution, field::<AspectRatio>(body, "aspect_ratio")))
            });
            assert_eq!(read.unwrap(), (resolution, aspect_ratio));
        }
    }

    #[test]
    fn unreadable_values_are_named() {
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
                json!({"reference_images": vec!["https://x/a.png"; 33]}),
                "reference_images",
            ),
            (json!({"provider_options": [1]}), "provider_options"),
            (
                json!({"provider_options": {"a": "x".repeat(40_000)}}),
                "provider_options",
            ),
        ] {
            let read = read(&body, |body| {
                field::<ResolutionField>(body, "resolution");
                field::<AspectRatio>(body, "aspect_ratio");
                field::<PictureField>(body, "end_image");
                field::<PictureList>(body, "reference_images");
                field::<ProviderOptions>(body, "provider_options");
                Some(())
            });
            assert_eq!(read.unwrap_err().param(), Some(param), "{body}");
        }
    }
}
