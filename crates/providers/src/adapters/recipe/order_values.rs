//! The values of an order, by the names that templates use.

use serde_json::{Value, json};

use super::placeholder::{OrderFile, TemplateValue, TemplateValues, ValueKind};
use super::schema::Recipe;
use super::songs;
use crate::error::{ErrorClass, ProviderError};
use crate::frame_size;
use crate::order::{Order, PictureRole, VideoSpec, WorkSpec};

/// A value's name, its kind, and whether every order for a video or song has it.
pub(super) type ValueSpec = (&'static str, ValueKind, bool);

/// The values of every order.
pub(super) const COMMON_VALUES: &[ValueSpec] = &[
    ("key", ValueKind::Text, true),
    ("model", ValueKind::Text, true),
];

/// The values of videos.
pub(super) const VIDEO: &[ValueSpec] = &[
    ("prompt", ValueKind::Text, true),
    ("negative_prompt", ValueKind::Text, false),
    ("seconds", ValueKind::Number, true),
    ("size", ValueKind::Size, true),
    ("width", ValueKind::Number, true),
    ("height", ValueKind::Number, true),
    ("ratio", ValueKind::Text, true),
    ("tier", ValueKind::Text, true),
    ("seed", ValueKind::Number, false),
    ("user", ValueKind::Text, false),
    ("audio", ValueKind::Text, false),
    ("image", ValueKind::File, false),
    ("last_frame", ValueKind::File, false),
    ("references", ValueKind::Files, false),
];

/// The values of songs; `instrumental` can always be written, and counts as present if it is true.
pub(super) const MUSIC: &[ValueSpec] = &[
    ("prompt", ValueKind::Text, true),
    ("lyrics", ValueKind::Text, false),
    ("tags", ValueKind::Text, false),
    ("style", ValueKind::Text, false),
    ("negative_tags", ValueKind::Text, false),
    ("title", ValueKind::Text, true),
    ("seconds", ValueKind::Number, false),
    ("instrumental", ValueKind::Text, false),
    ("persona", ValueKind::Text, false),
    ("clip", ValueKind::Text, false),
    ("recording", ValueKind::File, false),
    ("continue_at", ValueKind::Number, false),
    ("continue_at_ms", ValueKind::Number, false),
];

/// Whether an order has a value.
pub(super) fn has(values: &TemplateValues<'_>, name: &str) -> bool {
    match values.get(name) {
        Some(TemplateValue::Plain(value)) if name == "instrumental" => *value == true,
        value => value.is_some(),
    }
}

/// Whether every order of this kind has this value.
pub(super) fn is_always_there(name: &str, specs: &[ValueSpec]) -> bool {
    let mut all = COMMON_VALUES.iter().chain(specs);
    all.any(|(spec_name, _, always)| *spec_name == name && *always)
}

/// The values of an order; `ids` are those of its uploaded files.
pub(super) fn values<'a>(
    recipe: &'a Recipe,
    order: &'a Order,
    ids: &'a [Value],
) -> Result<TemplateValues<'a>, ProviderError> {
    let mut values = match (&order.work, &recipe.video) {
        (WorkSpec::Video(video), Some(section)) => {
            let section = section.get_ref();
            let mut values = video_values(video, section.max_seed);
            let has_frames = video.frames([(), ()]).next().is_some();
            if has_frames && section.pictures(&order.model).decide_shape {
                values.remove("ratio");
            }
            values
        }
        (WorkSpec::Song(song), _) if recipe.music.is_some() => songs::values(recipe, song)?,
        _ => {
            let message = "the provider's recipe does not support this kind of job";
            return Err(ProviderError::new(ErrorClass::Rejected, message));
        }
    };
    values.insert("key", TemplateValue::Plain(json!(order.idempotency_key)));
    values.insert("model", TemplateValue::Plain(json!(order.model)));
    if let Some(upload) = &recipe.upload {
        upload.assign_ids(&mut values, ids);
    }
    Ok(values)
}

fn video_values(video: &VideoSpec, max_seed: u64) -> TemplateValues<'_> {
    let mut values = size_values(video.size);
    values.insert("prompt", TemplateValue::Plain(json!(video.prompt)));
    values.insert("seconds", TemplateValue::Plain(json!(video.seconds)));
    let optional = [
        (
            "negative_prompt",
            video
                .options
                .negative_prompt
                .as_ref()
                .map(|text| json!(text)),
        ),
        ("seed", video.seed().map(|seed| json!(fold(seed, max_seed)))),
        ("user", video.options.user.as_ref().map(|user| json!(user))),
        ("audio", video.audio().map(|with_audio| json!(with_audio))),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            values.insert(name, TemplateValue::Plain(value));
        }
    }
    for (name, role) in [
        ("image", PictureRole::FirstFrame),
        ("last_frame", PictureRole::LastFrame),
    ] {
        if let Some(file) = video.picture(role) {
            values.insert(name, TemplateValue::File(OrderFile::new(file)));
        }
    }
    let references: Vec<OrderFile<'_>> = video.references().map(OrderFile::new).collect();
    if !references.is_empty() {
        values.insert("references", TemplateValue::Files(references));
    }
    values
}

/// A seed within a range.
fn fold(seed: u64, max: u64) -> u64 {
    // For the whole range of u64 there is nothing to fold, and `max + 1` would overflow.
    max.checked_add(1).map_or(seed, |count| seed % count)
}

/// A size under all its names.
pub(super) fn size_values<'a>(size: (u32, u32)) -> TemplateValues<'a> {
    TemplateValues::from([
        ("size", TemplateValue::Size(size)),
        ("width", TemplateValue::Plain(json!(size.0))),
        ("height", TemplateValue::Plain(json!(size.1))),
        (
            "ratio",
            TemplateValue::Plain(json!(frame_size::ratio(size))),
        ),
        ("tier", TemplateValue::Plain(json!(frame_size::tier(size)))),
    ])
}
