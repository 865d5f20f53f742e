//! References, keyframes and shots of a video.
//!
//! They determine the result and its price, so each is used or refused, never ignored. No model here
//! takes films or sounds as references, keyframes between the first frame and the last, or several
//! shots. `reference_images` and `end_image` are short forms of these fields.

use serde_json::Value;
use utoipa::openapi::schema::{AnyOfBuilder, ArrayBuilder, ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use super::field_aliases::NamedPictures;
use super::video_fields::{MAX_PROMPT, MAX_REFERENCES, PictureAddress, SecondsField};
use crate::fields::request::SchemaList;
use crate::fields::types::{NonBlankText, RequiredField, text};
use crate::fields::{BodyFields, FieldType, request};
use mediagate_core::domain::pictures::PictureSource;
use mediagate_core::domain::video::RequestedPicture;
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::AssetId;

/// Maximum number of keyframes, and of shots, of a request.
const MAX_ITEMS: usize = 32;
/// Longest role or name of a reference, and longest id, in characters.
const MAX_NAME: usize = 100;
/// Longest name of an unknown field in a message.
const MAX_SHOWN: usize = 100;
/// Lengths that differ by less are the same, in seconds.
const TOLERANCE: f64 = 1e-6;

/// The names of the shots and of the length of the first one, here and in an object `video`.
const SHOTS: [[&str; 2]; 2] = [
    ["shots", "shots[0].seconds"],
    ["video.shots", "video.shots[0].seconds"],
];

request! {
    /// Images and prompts with their places in a video.
    pub struct InputFields {
        /// Images of what the video shows: the long form of `reference_images`.
        references: ReferencesField,
        /// Images that the video shows at these times: the first frame, the last frame or both.
        keyframes: KeyframesField,
        /// Parts of the video. Only one is supported: the whole video, with the prompt and the length
        /// of the request.
        shots: ShotsField,
    }
}

request! {
    /// A part of a video.
    pub struct VideoShot {
        /// What it shows.
        prompt: RequiredField<NonBlankText<MAX_PROMPT>>,
        /// Its length in seconds.
        seconds: RequiredField<SecondsField>,
    }
}

/// The references. Only images are supported.
pub struct ReferencesField;

impl FieldType for ReferencesField {
    type Value = Vec<RequestedPicture>;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<Vec<RequestedPicture>> {
        let items = body.array(name, MAX_REFERENCES)?.iter().enumerate();
        let pictures = items.filter_map(|(index, item)| {
            let item = body.item(name, index, item)?;
            reference(&item)
        });
        Some(pictures.collect())
    }

    fn schema() -> RefOr<Schema> {
        let kind = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("Only `image` is supported."))
            .enum_values(Some(["image"]));
        let refused = |name: &str| {
            let description = format!("Refused: no model takes the {name} of a reference.");
            text(MAX_NAME).description(Some(description))
        };
        let item = picture_schema().property("type", kind).required("type");
        let item = item.property("role", refused("role"));
        let item = item.property("name", refused("name"));
        let list = ArrayBuilder::new().items(item);
        list.max_items(Some(MAX_REFERENCES)).into()
    }
}

/// A reference, if it is an image.
fn reference(item: &BodyFields<'_>) -> Option<RequestedPicture> {
    refuse_undeclared(item, &["type", "url", "id", "role", "name"]);
    for name in ["role", "name"] {
        if item.filled_string(name, MAX_NAME).is_some() {
            let message = format!(
                "No model here takes the {name} of a reference. Leave it out, and say in the prompt \
                 what the image is for."
            );
            item.fault(name, ErrorCode::UnsupportedValue, message);
        }
    }
    item.require("type");
    let kind = item.string("type", MAX_NAME)?;
    match kind.as_str() {
        "image" => source(item),
        "video" | "audio" => {
            let message = format!("No model here takes a reference of type {kind}, only images.");
            item.fault("type", ErrorCode::UnsupportedValue, message);
            None
        }
        _ => {
            let message = "Must be \"image\", \"video\" or \"audio\".";
            item.fault("type", ErrorCode::InvalidValue, message);
            None
        }
    }
}

/// The image of an item: at a URL, or a stored one.
fn source(item: &BodyFields<'_>) -> Option<RequestedPicture> {
    let is_set = |name: &str| item.value(name).is_some();
    match (is_set("url"), is_set("id")) {
        (true, false) => PictureAddress::read(item, "url"),
        (false, true) => {
            let id = item.string("id", MAX_NAME)?;
            let Ok(id) = id.trim().parse::<AssetId>() else {
                let message = "Must be the id of a stored image, in UUID form.";
                item.fault("id", ErrorCode::InvalidValue, message);
                return None;
            };
            Some((PictureSource::Stored(id), item.path("id")))
        }
        (true, true) => {
            let message = "Set either url or id, not both.";
            item.fault("id", ErrorCode::InvalidValue, message);
            None
        }
        (false, false) => {
            let message = "Set url, or the id of a stored image.";
            item.fault("url", ErrorCode::MissingField, message);
            None
        }
    }
}

fn picture_schema() -> ObjectBuilder {
    let id = "The id of an image of an earlier task, which its record has in `input`. An alternative \
              to `url`.";
    let item = ObjectBuilder::new().schema_type(Type::Object);
    let item = item.property("url", PictureAddress::schema());
    item.property("id", text(MAX_NAME).description(Some(id)))
}

/// A keyframe: an image, and where the video shows it.
#[derive(Debug)]
pub struct Keyframe {
    picture: RequestedPicture,
    position: FramePosition,
    /// The path of its `at`.
    param: String,
}

#[derive(Debug, Clone, Copy)]
enum FramePosition {
    First,
    Last,
    /// From the beginning.
    Seconds(f64),
}

/// The keyframes.
pub struct KeyframesField;

impl FieldType for KeyframesField {
    type Value = Vec<Keyframe>;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<Vec<Keyframe>> {
        let items = body.array(name, MAX_ITEMS)?.iter().enumerate();
        let keyframes = items.filter_map(|(index, item)| {
            let item = body.item(name, index, item)?;
            keyframe(&item)
        });
        Some(keyframes.collect())
    }

    fn schema() -> RefOr<Schema> {
        let word = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(["first", "last"]));
        let seconds = ObjectBuilder::new()
            .schema_type(Type::Number)
            .minimum(Some(0.0));
        let at = AnyOfBuilder::new().item(word).item(seconds);
        let at = at.description(Some(
            "`first` or 0 for the first frame; `last`, or the length of the video in seconds, for the \
             last one.",
        ));
        let item = picture_schema().property("at", at).required("at");
        let list = ArrayBuilder::new().items(item);
        list.max_items(Some(MAX_ITEMS)).into()
    }
}

fn keyframe(item: &BodyFields<'_>) -> Option<Keyframe> {
    refuse_undeclared(item, &["url", "id", "at"]);
    let picture = source(item);
    item.require("at");
    let position = position(item)?;
    Some(Keyframe {
        picture: picture?,
        position,
        param: item.path("at"),
    })
}

fn position(item: &BodyFields<'_>) -> Option<FramePosition> {
    let expectation = "Must be \"first\", \"last\" or a number of seconds.";
    let seconds: Option<f64> = match item.value("at")? {
        Value::String(word) => match word.trim() {
            "first" => return Some(FramePosition::First),
            "last" => return Some(FramePosition::Last),
            // As in `seconds`, the SDKs send numbers as text.
            number => number.parse().ok(),
        },
        Value::Number(number) => number.as_f64(),
        _ => {
            item.fault("at", ErrorCode::InvalidType, expectation);
            return None;
        }
    };
    // `parse` accepts NaN and infinity too.
    let seconds = seconds.filter(|seconds| seconds.is_finite());
    if seconds.is_none() {
        item.fault("at", ErrorCode::UnsupportedValue, expectation);
    }
    seconds.map(FramePosition::Seconds)
}

/// The first frame and the last one, if keyframes set them.
#[derive(Debug, Default)]
pub struct KeyframePictures {
    pub first: Option<NamedPictures>,
    pub last: Option<NamedPictures>,
}

/// The first frame and the last one, one of which each keyframe must be. `seconds` is the length of
/// the video, if the request has one.
pub fn keyframe_pictures(
    body: &BodyFields<'_>,
    keyframes: Vec<Keyframe>,
    seconds: Option<f64>,
) -> KeyframePictures {
    let mut pictures = KeyframePictures::default();
    for keyframe in keyframes {
        let is_end = |at: f64| seconds.is_some_and(|seconds| (at - seconds).abs() < TOLERANCE);
        let place = match keyframe.position {
            FramePosition::First => &mut pictures.first,
            FramePosition::Last => &mut pictures.last,
            FramePosition::Seconds(at) if at.abs() < TOLERANCE => &mut pictures.first,
            FramePosition::Seconds(at) if is_end(at) => &mut pictures.last,
            FramePosition::Seconds(_) => {
                let message = "No model here takes a keyframe between the first frame and the last. \
                               Must be \"first\", 0 or \"last\", or the length of the video if the \
                               request sets it.";
                body.fault_at(keyframe.param, ErrorCode::UnsupportedValue, message);
                continue;
            }
        };
        if place.is_some() {
            let message = "Another keyframe is at the same place.";
            body.fault_at(keyframe.param, ErrorCode::InvalidValue, message);
        }
        *place = Some(("keyframes".to_owned(), vec![keyframe.picture]));
    }
    pictures
}

/// The shots.
pub struct ShotsField;

impl FieldType for ShotsField {
    type Value = Vec<VideoShot>;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<Vec<VideoShot>> {
        let items = body.array(name, MAX_ITEMS)?.iter().enumerate();
        let shots = items.filter_map(|(index, item)| {
            let item = body.item(name, index, item)?;
            refuse_undeclared(&item, &["prompt", "seconds"]);
            Some(VideoShot::read(&item))
        });
        Some(shots.collect())
    }

    fn schema() -> RefOr<Schema> {
        let list = ArrayBuilder::new().items(<VideoShot as FieldType>::schema());
        list.max_items(Some(MAX_ITEMS)).into()
    }

    fn components(schemas: &mut SchemaList) {
        <VideoShot as FieldType>::components(schemas);
    }
}

/// The field that sets the length of the video, and the length. Its only shot sets it if no other
/// field does. The shot is the whole video, so it must agree with the request.
pub fn length_with_shots(
    body: &BodyFields<'_>,
    shots: Vec<VideoShot>,
    is_in_video: bool,
    prompt: Option<&str>,
    length: (&'static str, Option<f64>),
) -> (&'static str, Option<f64>) {
    let [name, seconds_name] = SHOTS[usize::from(is_in_video)];
    let refuse =
        |message: &str| body.fault_at(name.to_owned(), ErrorCode::UnsupportedValue, message);
    let mut shots = shots.into_iter();
    let Some(shot) = shots.next() else {
        return length;
    };
    if shots.next().is_some() {
        refuse("No model here makes several shots in one video. Send a request for each shot.");
        return length;
    }
    if let (Some(own), Some(prompt)) = (&shot.prompt, prompt)
        && own.trim() != prompt.trim()
    {
        refuse("The only shot is the whole video, so its prompt must be that of the request.");
    }
    match (shot.seconds, length.1) {
        (Some(own), Some(seconds)) if (own - seconds).abs() > TOLERANCE => {
            refuse("The only shot is the whole video, so its length must be that of the request.");
            length
        }
        (Some(own), None) => (seconds_name, Some(own)),
        _ => length,
    }
}

/// The field that sets the references, and the references: from the long form or from the short one.
/// If both are set, they must agree.
pub fn single_references(
    body: &BodyFields<'_>,
    long_form: (&'static str, Vec<RequestedPicture>),
    short_form: (&'static str, Vec<RequestedPicture>),
) -> (&'static str, Vec<RequestedPicture>) {
    let (long, short) = (&long_form, &short_form);
    if long.1.is_empty() {
        return short_form;
    }
    let mut pairs = long.1.iter().zip(&short.1);
    let is_same = long.1.len() == short.1.len() && pairs.all(|(one, other)| one.0 == other.0);
    if !short.1.is_empty() && !is_same {
        let message = format!(
            "{} and {} set different images. Set only {}.",
            long.0, short.0, long.0
        );
        body.fault_at(long.0.to_owned(), ErrorCode::InvalidValue, message);
    }
    long_form
}

/// Records a fault for each member that an item does not have. Its members are ours alone, so an
/// unknown one is a mistake.
fn refuse_undeclared(item: &BodyFields<'_>, known: &[&str]) {
    for (name, value) in item.members() {
        if !value.is_null() && !known.contains(&name.as_str()) {
            let shown: String = name.chars().take(MAX_SHOWN).collect();
            let message = format!("Unknown field. The known fields are: {}.", known.join(", "));
            item.fault(&shown, ErrorCode::UnsupportedValue, message);
        }
    }
}

#[cfg(test)]
mod tests;
