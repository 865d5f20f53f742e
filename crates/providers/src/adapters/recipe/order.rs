//! The values of an order, by the names that templates use.

use serde_json::{Value, json};

use super::placeholder::{Datum, Handed, Sort, Values};
use super::schema::Recipe;
use super::songs;
use crate::error::{Class, ProviderError};
use crate::order::{Order, PictureRole, Video, Work};
use crate::shape;

/// Names, what they stand for, and whether every order of the kind has them.
pub(super) type Known = (&'static str, Sort, bool);

/// The values of every order.
pub(super) const ANY: [Known; 2] = [("key", Sort::Text, true), ("model", Sort::Text, true)];

/// The values of videos.
pub(super) const VIDEO: [Known; 14] = [
    ("prompt", Sort::Text, true),
    ("negative_prompt", Sort::Text, false),
    ("seconds", Sort::Number, true),
    ("size", Sort::Size, true),
    ("width", Sort::Number, true),
    ("height", Sort::Number, true),
    ("ratio", Sort::Text, true),
    ("tier", Sort::Text, true),
    ("seed", Sort::Number, false),
    ("user", Sort::Text, false),
    ("audio", Sort::Text, false),
    ("image", Sort::File, false),
    ("last_frame", Sort::File, false),
    ("references", Sort::Files, false),
];

/// The values of songs; `instrumental` is there to be written in any case, and
/// counts as there where it is true.
pub(super) const MUSIC: [Known; 13] = [
    ("prompt", Sort::Text, true),
    ("lyrics", Sort::Text, false),
    ("tags", Sort::Text, false),
    ("style", Sort::Text, false),
    ("negative_tags", Sort::Text, false),
    ("title", Sort::Text, true),
    ("seconds", Sort::Number, false),
    ("instrumental", Sort::Text, false),
    ("persona", Sort::Text, false),
    ("clip", Sort::Text, false),
    ("recording", Sort::File, false),
    ("continue_at", Sort::Number, false),
    ("continue_at_ms", Sort::Number, false),
];

/// Whether an order has a value.
pub(super) fn has(values: &Values<'_>, name: &str) -> bool {
    match values.get(name) {
        Some(Datum::Plain(value)) if name == "instrumental" => *value == true,
        value => value.is_some(),
    }
}

/// Whether every order of this kind has this value.
pub(super) fn is_always_there(name: &str, own: &[Known]) -> bool {
    let mut all = ANY.iter().chain(own);
    all.any(|(known, _, always)| *known == name && *always)
}

/// The values of an order; `ids` name the files of it that were uploaded.
pub(super) fn values<'a>(
    recipe: &'a Recipe,
    order: &'a Order,
    ids: &'a [Value],
) -> Result<Values<'a>, ProviderError> {
    let mut values = match (&order.work, &recipe.video) {
        (Work::Video(video), Some(section)) => of_video(video, section.get_ref().max_seed),
        (Work::Song(song), _) if recipe.music.is_some() => songs::values(recipe, song)?,
        _ => {
            let message = "the provider's recipe describes no such work";
            return Err(ProviderError::new(Class::Rejected, message));
        }
    };
    values.insert("key", Datum::Plain(json!(order.key)));
    values.insert("model", Datum::Plain(json!(order.model)));
    if let Some(upload) = &recipe.upload {
        upload.name(&mut values, ids);
    }
    Ok(values)
}

fn of_video(video: &Video, max_seed: u64) -> Values<'_> {
    let mut values = size_values(video.size);
    values.insert("prompt", Datum::Plain(json!(video.prompt)));
    values.insert("seconds", Datum::Plain(json!(video.seconds)));
    let optional = [
        (
            "negative_prompt",
            video.negative_prompt.as_ref().map(|text| json!(text)),
        ),
        ("seed", video.seed.map(|seed| json!(fold(seed, max_seed)))),
        ("user", video.user.as_ref().map(|user| json!(user))),
        ("audio", video.audio.map(|on| json!(on))),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            values.insert(name, Datum::Plain(value));
        }
    }
    for (name, role) in [
        ("image", PictureRole::FirstFrame),
        ("last_frame", PictureRole::LastFrame),
    ] {
        if let Some(file) = video.picture(role) {
            values.insert(name, Datum::File(Handed::new(file)));
        }
    }
    let references: Vec<Handed<'_>> = video.references().map(Handed::new).collect();
    if !references.is_empty() {
        values.insert("references", Datum::Files(references));
    }
    values
}

/// A seed within a range.
fn fold(seed: u64, max: u64) -> u64 {
    max.checked_add(1).map_or(seed, |count| seed % count)
}

/// A size by all its names.
pub(super) fn size_values<'a>(size: (u32, u32)) -> Values<'a> {
    Values::from([
        ("size", Datum::Size(size)),
        ("width", Datum::Plain(json!(size.0))),
        ("height", Datum::Plain(json!(size.1))),
        ("ratio", Datum::Plain(json!(shape::ratio(size)))),
        ("tier", Datum::Plain(json!(shape::tier(size)))),
    ])
}
