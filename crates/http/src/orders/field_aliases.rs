//! Alias fields: other services' names of a video's length, its frames, its shape and its sound.
//!
//! They determine the result and its price, so each is used or refused, never ignored. If several
//! names of one field are set, their values must agree.

use serde_json::Value;
use utoipa::openapi::schema::{AnyOfBuilder, ArrayBuilder};
use utoipa::openapi::{RefOr, Schema};

use super::video_fields::{AspectRatio, PictureField, SecondsField, picture};
use crate::fields::types::{BooleanField, IntegerField};
use crate::fields::{BodyFields, FieldType, request};
use mediagate_core::domain::video::{ParamNames, RequestedPicture};
use mediagate_model::error::ErrorCode;

request! {
    /// Names of other services for the length, the first frame, the last frame, the aspect ratio and
    /// the sound, and fields of theirs that are refused.
    #[expect(non_snake_case, reason = "the field name of another service")]
    pub struct AliasFields {
        /// Same as `seconds`. A name used by other services.
        duration: SecondsField,
        /// Same as `seconds`.
        durationSeconds: SecondsField,
        /// Same as `seconds`.
        duration_seconds: SecondsField,
        /// Same as `seconds`.
        n_seconds: SecondsField,
        /// First frame: a URL (http, https or data:), or an object that contains it. A name used by
        /// other services.
        image: FirstFrames,
        /// Same as `image`.
        image_url: FirstFrames,
        /// Same as `image`.
        input_image: FirstFrames,
        /// Same as `image`.
        first_frame_image: FirstFrames,
        /// Same as `image`: a list with one image.
        images: FirstFrames,
        /// Same as `image`: a list with one image.
        frame_images: FirstFrames,
        /// Same as `end_image`.
        last_frame_image: LastFrames,
        /// Same as `aspect_ratio`. A name used by other services.
        aspectRatio: AspectRatio,
        /// Same as `audio`. A name used by other services.
        generate_audio: BooleanField,
        /// Refused: the model decides the frame rate.
        fps: FrameCount,
        /// Refused: the model decides the frame rate, and `seconds` the length.
        num_frames: FrameCount,
    }
}

/// The names of the length, here and in an object `video`.
pub const LENGTHS: [[&str; 2]; 4] = [
    ["duration", "video.duration"],
    ["durationSeconds", "video.durationSeconds"],
    ["duration_seconds", "video.duration_seconds"],
    ["n_seconds", "video.n_seconds"],
];

/// The names of the first frame.
pub const FIRST_FRAMES: [&str; 6] = [
    "image",
    "image_url",
    "input_image",
    "first_frame_image",
    "images",
    "frame_images",
];

/// The name of the last frame.
pub const LAST_FRAME: &str = "last_frame_image";

/// The name of a field, and the value that it sets.
pub type NamedValue<T> = (&'static str, Option<T>);

/// The name of a field, and its pictures.
pub type NamedPictures = (String, Vec<RequestedPicture>);

impl AliasFields {
    /// The length under each of its names: those in an object `video`, or those outside.
    pub fn lengths(&self, is_in_video: bool) -> impl Iterator<Item = NamedValue<f64>> {
        let values = [
            self.duration,
            self.durationSeconds,
            self.duration_seconds,
            self.n_seconds,
        ];
        let names = LENGTHS.map(|names| names[usize::from(is_in_video)]);
        names.into_iter().zip(values)
    }

    /// Takes the first frame out of each alias field that is set.
    pub fn take_first_frames(&mut self) -> impl Iterator<Item = NamedPictures> {
        let values = [
            self.image.take(),
            self.image_url.take(),
            self.input_image.take(),
            self.first_frame_image.take(),
            self.images.take(),
            self.frame_images.take(),
        ];
        let named = FIRST_FRAMES.into_iter().zip(values);
        named.filter_map(|(name, pictures)| Some((name.to_owned(), pictures?)))
    }

    /// Takes the last frame out of its alias field, if that is set.
    pub fn take_last_frames(&mut self) -> Option<NamedPictures> {
        Some((LAST_FRAME.to_owned(), self.last_frame_image.take()?))
    }
}

/// The first field that sets an option, and the value on which all its fields agree. The field is
/// `param`, our own, if none does; an error names it too.
pub fn single_value<T: PartialEq>(
    body: &BodyFields<'_>,
    param: &'static str,
    values: impl IntoIterator<Item = NamedValue<T>>,
) -> (&'static str, Option<T>) {
    let values = values.into_iter();
    let mut values = values.filter_map(|(name, value)| Some((name, value?)));
    let Some((first, value)) = values.next() else {
        return (param, None);
    };
    // Two lengths are two prices, so neither may win silently.
    if let Some((differing, _)) = values.find(|(_, other)| *other != value) {
        let message = format!("{first} and {differing} set different values. Set only {param}.");
        body.fault(param, ErrorCode::InvalidValue, message);
    }
    (first, Some(value))
}

/// Adds the first frame from its alias fields to the source pictures, of which the first one is the
/// first frame.
pub fn add_first_frame(
    body: &BodyFields<'_>,
    params: &ParamNames,
    pictures: &mut Vec<RequestedPicture>,
    aliases: impl IntoIterator<Item = NamedPictures>,
) {
    let param = params.picture;
    for (name, pictures_of_alias) in aliases {
        let Some(frame) = single_picture(body, param, "first", &name, pictures_of_alias) else {
            continue;
        };
        match pictures.first() {
            None => pictures.push(frame),
            Some(first) => agree(body, param, "first", first, &frame),
        }
    }
}

/// The last frame, by our name or by another.
pub fn last_frame(
    body: &BodyFields<'_>,
    params: &ParamNames,
    own_picture: impl IntoIterator<Item = RequestedPicture>,
    aliases: impl IntoIterator<Item = NamedPictures>,
) -> Option<RequestedPicture> {
    let name = params.end_picture;
    let mut frame = own_picture.into_iter().next();
    for (field, pictures) in aliases {
        let Some(other) = single_picture(body, name, "last", &field, pictures) else {
            continue;
        };
        match &frame {
            None => frame = Some(other),
            Some(first) => agree(body, name, "last", first, &other),
        }
    }
    frame
}

/// The only picture of a field that takes one.
fn single_picture(
    body: &BodyFields<'_>,
    param: &str,
    position: &str,
    name: &str,
    pictures: Vec<RequestedPicture>,
) -> Option<RequestedPicture> {
    if pictures.len() > 1 {
        let message = format!(
            "{name} contains {} images, but only one is allowed: the {position} frame ({param}).",
            pictures.len()
        );
        body.fault(param, ErrorCode::InvalidValue, message);
    }
    pictures.into_iter().next()
}

fn agree(
    body: &BodyFields<'_>,
    param: &str,
    position: &str,
    first: &RequestedPicture,
    other: &RequestedPicture,
) {
    if first.0 != other.0 {
        let message = format!(
            "{} and {} set different images for the {position} frame. Set only {param}.",
            first.1, other.1
        );
        body.fault(param, ErrorCode::InvalidValue, message);
    }
}

/// How many frames a video has, or shows in a second. No model offers the choice.
pub struct FrameCount;

impl FieldType for FrameCount {
    type Value = ();

    fn read(body: &BodyFields<'_>, name: &str) -> Option<()> {
        body.value(name)?;
        let message = "The model decides the frame rate. Set the length in seconds.";
        body.fault(name, ErrorCode::UnsupportedValue, message);
        None
    }

    fn schema() -> RefOr<Schema> {
        IntegerField::<1, { i64::MAX }>::schema()
    }
}

/// The first frame: a picture, or a list with one.
pub struct FirstFrames;

impl FieldType for FirstFrames {
    type Value = Vec<RequestedPicture>;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<Vec<RequestedPicture>> {
        frames(body, name, "first_frame")
    }

    fn schema() -> RefOr<Schema> {
        schema()
    }
}

/// The last frame: a picture, or a list with one.
pub struct LastFrames;

impl FieldType for LastFrames {
    type Value = Vec<RequestedPicture>;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<Vec<RequestedPicture>> {
        frames(body, name, "last_frame")
    }

    fn schema() -> RefOr<Schema> {
        schema()
    }
}

fn schema() -> RefOr<Schema> {
    let list = ArrayBuilder::new().items(PictureField::schema());
    let list = list.max_items(Some(1));
    let any_of = AnyOfBuilder::new().item(PictureField::schema());
    any_of.item(list).into()
}

/// The pictures under a name. The caller, which knows our own name of the field, checks how many
/// there are.
fn frames(body: &BodyFields<'_>, name: &str, position: &str) -> Option<Vec<RequestedPicture>> {
    let path = body.path(name);
    let frame = |value: &Value, path: String| {
        check_position(body, value, &path, position);
        picture(body, value, path)
    };
    let pictures = match body.value(name)? {
        Value::Array(items) => {
            let items = items.iter().enumerate();
            let frames = items.filter_map(|(index, item)| frame(item, format!("{path}[{index}]")));
            frames.collect()
        }
        value => frame(value, path).into_iter().collect(),
    };
    Some(pictures)
}

/// Checks which frame the picture's object names, as in requests to other services.
fn check_position(body: &BodyFields<'_>, value: &Value, path: &str, position: &str) {
    for name in ["frame_type", "role"] {
        let other = value.get(name).filter(|value| !value.is_null());
        if other.is_some_and(|value| value != position) {
            let message = format!(
                "Must be {position:?}. Use end_image for the last frame and reference_images for other \
                 images."
            );
            let path = format!("{path}.{name}");
            body.fault_at(path, ErrorCode::UnsupportedValue, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::orders::ApiOrder as _;
    use crate::orders::chat::ChatOrder;
    use mediagate_core::domain::pictures::PictureSource;
    use mediagate_core::domain::video::VideoOrder;
    use mediagate_model::error::Error;
    use mediagate_model::task::Choice;

    const A: &str = "https://x/a.png";
    const B: &str = "https://x/b.png";

    /// Reads the fields in each place: in a video request, in a chat request, and in its `video`.
    fn everywhere(fields: &Value) -> [Result<VideoOrder, Error>; 3] {
        let with_fields = |mut body: Value, fields: &Value| {
            for (name, value) in fields.as_object().unwrap() {
                body[name] = value.clone();
            }
            body
        };
        let chat = json!({"model": "m", "messages": [{"role": "user", "content": "a lake"}]});
        let mut nested = chat.clone();
        nested["video"] = fields.clone();
        let read = |body: &Value| ChatOrder::read(body).map(|chat| chat.order);
        [
            VideoOrder::read(&with_fields(json!({"prompt": "a lake"}), fields)),
            read(&with_fields(chat, fields)),
            read(&nested),
        ]
    }

    fn address((source, _): &RequestedPicture) -> &str {
        match source {
            PictureSource::Address(address) => address,
            PictureSource::Bytes(_) | PictureSource::Stored(_) => "",
        }
    }

    #[test]
    fn a_length_is_taken_by_each_of_its_names() {
        for [name, nested] in LENGTHS {
            for value in [json!(4), json!(4.0), json!("4"), json!(" 4 ")] {
                let [video, chat, inside] = everywhere(&json!({ name: value }));
                for (order, param) in [(video, name), (chat, name), (inside, nested)] {
                    let order = order.unwrap();
                    assert_eq!((order.seconds, order.params.seconds), (Some(4.0), param));
                }
            }
            for wrong in [json!(""), json!("soon"), json!(true), json!([4]), json!(0)] {
                let [video, chat, inside] = everywhere(&json!({ name: wrong }));
                for (order, param) in [(video, name), (chat, name), (inside, nested)] {
                    assert_eq!(order.unwrap_err().param(), Some(param), "{wrong}");
                }
            }
            for order in everywhere(&json!({ name: null })) {
                assert_eq!(order.unwrap().seconds, None);
            }
        }
        let body =
            json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "seconds": "4"});
        assert_eq!(ChatOrder::read(&body).unwrap().order.seconds, Some(4.0));
    }

    #[test]
    fn lengths_that_agree_are_one_and_others_name_ours() {
        let same = json!({"seconds": "4", "duration": 4, "n_seconds": "4.0"});
        for order in everywhere(&same) {
            assert_eq!(order.unwrap().seconds, Some(4.0));
        }
        let [video, chat, inside] = everywhere(&json!({"duration": 4, "n_seconds": 6}));
        for (order, ours) in [
            (video, "seconds"),
            (chat, "video.seconds"),
            (inside, "video.seconds"),
        ] {
            let error = order.unwrap_err();
            assert_eq!(error.param(), Some(ours));
            assert!(error.to_string().contains(ours), "{error}");
        }
        // At the top level and in `video`.
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}],
            "duration": 4, "video": {"seconds": 8}});
        let error = ChatOrder::read(&body).unwrap_err();
        assert_eq!(error.param(), Some("video.seconds"));
    }

    #[test]
    fn shape_and_sound_are_taken_by_their_other_names() {
        for (fields, param) in [
            (json!({"aspectRatio": "9:16"}), "aspectRatio"),
            (json!({"aspect_ratio": "9:16"}), "aspect_ratio"),
            (
                json!({"aspect_ratio": "9:16", "aspectRatio": "9/16"}),
                "aspect_ratio",
            ),
        ] {
            for order in everywhere(&fields) {
                let order = order.unwrap();
                assert_eq!(order.frame.aspect_ratio, Some((9, 16)));
                assert!(order.params.aspect_ratio.ends_with(param), "{fields}");
            }
        }
        for order in everywhere(&json!({"generate_audio": false})) {
            let order = order.unwrap();
            assert_eq!(order.options.audio, Some(Choice::Asked(false)));
            assert!(order.params.audio.ends_with("generate_audio"));
        }
        for (fields, param) in [
            (json!({"audio": true, "generate_audio": false}), "audio"),
            (
                json!({"aspect_ratio": "1:1", "aspectRatio": "9:16"}),
                "aspect_ratio",
            ),
            (json!({"size": "1x1", "aspectRatio": "9:16"}), "aspectRatio"),
            (json!({"generate_audio": "yes"}), "generate_audio"),
        ] {
            for order in everywhere(&fields) {
                let error = order.unwrap_err();
                assert!(error.param().unwrap().ends_with(param), "{fields}: {error}");
            }
        }
    }

    #[test]
    fn a_frame_rate_is_refused() {
        for name in ["fps", "num_frames"] {
            for order in everywhere(&json!({ name: 24 })) {
                let error = order.unwrap_err();
                assert!(error.param().unwrap().ends_with(name), "{error}");
                assert!(error.to_string().contains("seconds"), "{error}");
            }
            for order in everywhere(&json!({ name: null })) {
                order.unwrap();
            }
        }
    }

    #[test]
    fn a_first_frame_is_taken_by_each_of_its_names() {
        let forms = [
            json!(A),
            json!([A]),
            json!({"url": A}),
            json!({"image_url": A}),
            json!({"image_url": {"url": A}}),
            json!([{"type": "image_url", "image_url": {"url": A}, "frame_type": "first_frame"}]),
        ];
        for name in FIRST_FRAMES {
            for form in &forms {
                for order in everywhere(&json!({ name: form })) {
                    let order = order.unwrap();
                    assert_eq!(order.pictures.len(), 1, "{name} {form}");
                    assert_eq!(address(&order.pictures[0]), A);
                    assert!(order.pictures[0].1.contains(name), "{:?}", order.pictures);
                }
            }
            for none in [
                json!(null),
                json!(""),
                json!([]),
                json!([""]),
                json!({"url": ""}),
            ] {
                for order in everywhere(&json!({ name: none })) {
                    assert!(order.unwrap().pictures.is_empty(), "{name} {none}");
                }
            }
            for wrong in [
                json!(1),
                json!({}),
                json!([null]),
                json!({"url": 5}),
                json!({"file_id": "f"}),
                json!({"url": B, "frame_type": "last_frame"}),
                json!([{"url": B, "role": "reference_image"}]),
            ] {
                for order in everywhere(&json!({ name: wrong })) {
                    let error = order.unwrap_err();
                    assert!(
                        error.param().unwrap().contains(name),
                        "{name} {wrong}: {error}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_last_frame_is_taken_by_its_other_name() {
        for order in everywhere(&json!({"image": A, "last_frame_image": {"url": B}})) {
            assert_eq!(order.unwrap().end_picture.as_ref().map(address), Some(B));
        }
        let [video, chat, inside] = everywhere(&json!({"last_frame_image": [A, B]}));
        for (order, ours) in [
            (video, "end_image"),
            (chat, "video.end_image"),
            (inside, "video.end_image"),
        ] {
            assert_eq!(order.unwrap_err().param(), Some(ours));
        }
    }

    #[test]
    fn pictures_that_differ_or_are_too_many_name_ours() {
        for fields in [
            json!({"image": A, "image_url": B}),
            json!({"images": [A, B]}),
            json!({"frame_images": [{"url": A}, {"url": A}]}),
        ] {
            let [video, chat, inside] = everywhere(&fields);
            for (order, ours) in [
                (video, "input_reference"),
                (chat, "messages"),
                (inside, "messages"),
            ] {
                let error = order.unwrap_err();
                assert_eq!(error.param(), Some(ours), "{fields}");
                assert!(error.to_string().contains(ours), "{error}");
            }
        }
        for order in everywhere(&json!({"image": A, "images": [A], "image_url": {"url": A}})) {
            assert_eq!(order.unwrap().pictures.len(), 1);
        }
        let of_message = |field: &str| {
            let content = json!([{"type": "text", "text": "x"},
                {"type": "image_url", "image_url": {"url": A}}]);
            ChatOrder::read(&json!({"model": "m", "image": field,
                "messages": [{"role": "user", "content": content}]}))
        };
        assert_eq!(of_message(A).unwrap().order.pictures.len(), 1);
        assert_eq!(of_message(B).unwrap_err().param(), Some("messages"));
    }
}
