//! The requests of the `OpenAI` Videos API.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::Value;
use utoipa::openapi::schema::{AnyOfBuilder, Object, ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use super::callback::{CallbackFields, CallbackUrlField};
use super::field_aliases::{self, AliasFields, NamedPictures};
use super::inputs::{self, InputFields};
use super::terms::TermsFields;
use super::video_fields::{
    AspectRatio, LabelField, MAX_ADDRESS, MAX_PROMPT, MAX_REFERENCES, PictureField, PictureList,
    ProviderOptions, ResolutionField, SecondsField, SeedField, SizeField,
};
use super::{ApiOrder, OrderEndpoint, QuotableOrder};
use crate::fields::types::{BooleanField, IntegerField, NonBlankText, OptionalText, RequiredField};
use crate::fields::{self, BodyFields, FieldType, refuse_unknown, request};
use mediagate_core::app::App;
use mediagate_core::domain::pictures::PictureSource;
use mediagate_core::domain::quotes::QuotedOrder;
use mediagate_core::domain::video::{
    FrameShape, ParamNames, RequestedPicture, VideoOrder, identity,
};
use mediagate_model::account::Scope;
use mediagate_model::attribution::MAX_USER;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::task::{Choice, VideoOptions};

request! {
    /// A request to create a video.
    pub struct VideoRequest {
        /// The prompt: what the video should show.
        prompt: RequiredField<NonBlankText<MAX_PROMPT>>,
        /// The model. Default: the default video model.
        model: OptionalText<200>,
        /// First frame: a URL (http, https or data:), or an object with the URL in `image_url`. In
        /// a multipart form, a file.
        input_reference: FirstFrame,
        /// Last frame: a URL (http, https or data:). In a multipart form, a file.
        end_image: PictureField,
        /// Reference images of the subject: URLs. In a multipart form, files.
        reference_images: PictureList,
        /// Length in seconds, as a number or a string.
        seconds: SecondsField,
        /// Width and height in pixels, for example `1280x720`.
        size: SizeField,
        /// Resolution, for example `1080p`. An alternative to `size`.
        resolution: ResolutionField,
        /// Aspect ratio, for example `16:9`. An alternative to `size`.
        aspect_ratio: AspectRatio,
        /// Whether the video has sound, if the model offers the choice.
        audio: BooleanField,
        /// `ai` adds a visible label in a corner of the video. Only for models that run in this
        /// gateway.
        label: LabelField,
        /// Random seed.
        seed: SeedField,
        /// Negative prompt: what to keep out of the video.
        negative_prompt: OptionalText<MAX_PROMPT>,
        /// Fields that are passed to the provider if the operator allows them.
        provider_options: ProviderOptions,
        /// HTTPS URL that receives the task by POST when the task has ended.
        callback_url: CallbackUrlField,
        /// Same as `callback_url`. The music API uses this name.
        notify_hook: CallbackUrlField,
        /// Same as `callback_url`.
        webhook_url: CallbackUrlField,
        /// Your id of the end user.
        user: OptionalText<MAX_USER>,
        /// Must be 1: a request makes one video.
        n: SingleVideo,
        /// Same as `n`. A name used by other services.
        num_videos: SingleVideo,
        + aliases: AliasFields,
        + inputs: InputFields,
        + terms: TermsFields,
    }
}

request! {
    /// An image given by its URL.
    pub struct PictureReference {
        /// An https, http or data: URL.
        image_url: RequiredField<OptionalText<MAX_ADDRESS>>,
    }
}

/// The declared fields.
static KNOWN_FIELDS: LazyLock<Object> = LazyLock::new(VideoRequest::object);

/// The names of this API's fields.
const PARAMS: ParamNames = ParamNames {
    seconds: "seconds",
    size: "size",
    resolution: "resolution",
    aspect_ratio: "aspect_ratio",
    audio: "audio",
    label: "label",
    seed: "seed",
    negative_prompt: "negative_prompt",
    prompt: "prompt",
    picture: "input_reference",
    end_picture: "end_image",
    references: "reference_images",
    provider_options: "provider_options",
    // A request of this API makes one video, so no error names this field.
    count: "n",
};

/// The fields of a form that may be files.
pub const FILES: [&str; 13] = [
    PARAMS.picture,
    PARAMS.end_picture,
    PARAMS.references,
    "reference_images[]",
    "image",
    "image_url",
    "input_image",
    "first_frame_image",
    "images",
    "images[]",
    "frame_images",
    "frame_images[]",
    field_aliases::LAST_FRAME,
];

/// The fields of [`InputFields`], which are lists of objects.
const INPUT_LISTS: [&str; 3] = ["references", "keyframes", "shots"];

/// Whether the text of a form's field is JSON: an object or a list. No other value of such a field
/// begins like one.
pub fn is_json(name: &str, text: &str) -> bool {
    let text = text.trim_start();
    // A form sends them as a whole, or item by item as `references[]`.
    let is_list = INPUT_LISTS.contains(&name.split('[').next().unwrap_or(name));
    let may_be_object =
        is_list || FILES.contains(&name) || name == PARAMS.provider_options || name == "metadata";
    (may_be_object && text.starts_with('{')) || (is_list && text.starts_with('['))
}

impl ApiOrder for VideoOrder {
    const ENDPOINT: OrderEndpoint = OrderEndpoint {
        path: "/v1/videos",
        is_branded: false,
        scope: Scope::VideoCreate,
    };
    type RequestBody = VideoRequest;

    fn read(body: &Value) -> Result<Self, Error> {
        fields::read(body, |body| {
            order(body, VideoRequest::read(body), Vec::new())
        })
    }

    fn identity(&self, app: &App) -> Option<Value> {
        Some(identity(app, self))
    }
}

impl QuotableOrder for VideoOrder {
    fn quote_subject(self) -> QuotedOrder {
        QuotedOrder::Video(Box::new(self))
    }
}

/// The files of a form, with their field names of [`FILES`].
pub type FormFiles = Vec<(&'static str, Bytes)>;

/// Reads a form's text fields, already nested by their brackets, with its `files`.
pub fn read_form(form: &Value, files: FormFiles) -> Result<VideoOrder, Error> {
    fields::read_form(form, |body| order(body, VideoRequest::read(body), files))
}

fn order(body: &BodyFields<'_>, mut request: VideoRequest, files: FormFiles) -> Option<VideoOrder> {
    refuse_unknown(body, &KNOWN_FIELDS);
    let callback = CallbackFields {
        callback_url: request.callback_url.take(),
        notify_hook: request.notify_hook.take(),
        webhook_url: request.webhook_url.take(),
    };
    let callback = callback.single_callback(body);
    let own_length = [(PARAMS.seconds, request.seconds)].into_iter();
    let alias_lengths = request.aliases.lengths(false);
    let lengths = own_length.chain(alias_lengths);
    let length = field_aliases::single_value(body, PARAMS.seconds, lengths);
    let shots = request.inputs.shots.take().unwrap_or_default();
    let prompt = request.prompt.as_deref();
    let (seconds_param, seconds) = inputs::length_with_shots(body, shots, false, prompt, length);
    let ratios = [
        (PARAMS.aspect_ratio, request.aspect_ratio),
        ("aspectRatio", request.aliases.aspectRatio),
    ];
    let (aspect_ratio_param, aspect_ratio) =
        field_aliases::single_value(body, PARAMS.aspect_ratio, ratios);
    let sounds = [
        (PARAMS.audio, request.audio),
        ("generate_audio", request.aliases.generate_audio),
    ];
    let (audio_param, audio) = field_aliases::single_value(body, PARAMS.audio, sounds);

    let pictures = pictures(body, &mut request, files, seconds);
    Some(VideoOrder {
        is_housekeeping: false,
        model: request.model,
        prompt: request.prompt?,
        pictures: pictures.sources,
        has_first_frame: pictures.has_first_frame,
        end_picture: pictures.end_picture,
        references: pictures.references,
        seconds,
        size: request.size,
        frame: FrameShape {
            resolution: request.resolution,
            aspect_ratio,
        },
        options: VideoOptions {
            audio: audio.map(Choice::Asked),
            label: request.label.unwrap_or(false),
            seed: request.seed.map(Choice::Asked),
            negative_prompt: request.negative_prompt,
            provider_options: request.provider_options.unwrap_or_default(),
            conversation: Vec::new(),
            user: request.user,
        },
        count: 1,
        callback,
        terms: request.terms.into_terms(),
        params: ParamNames {
            seconds: seconds_param,
            aspect_ratio: aspect_ratio_param,
            audio: audio_param,
            references: pictures.references_param,
            ..PARAMS
        },
    })
}

/// The pictures of a request.
struct OrderPictures {
    /// Those of which the first one is the first frame.
    sources: Vec<RequestedPicture>,
    has_first_frame: bool,
    end_picture: Option<RequestedPicture>,
    references: Vec<RequestedPicture>,
    /// The field that sets the references.
    references_param: &'static str,
}

/// The pictures of a request and of a form's `files`. `seconds` is the length of the video, if the
/// request has one.
fn pictures(
    body: &BodyFields<'_>,
    request: &mut VideoRequest,
    files: FormFiles,
    seconds: Option<f64>,
) -> OrderPictures {
    let mut sources: Vec<RequestedPicture> = request.input_reference.take().into_iter().collect();
    let mut references = request.reference_images.take().unwrap_or_default();
    let mut first_frames: Vec<NamedPictures> = request.aliases.take_first_frames().collect();
    let mut last_frames: Vec<NamedPictures> =
        request.aliases.take_last_frames().into_iter().collect();
    for (name, bytes) in files {
        let picture = (PictureSource::Bytes(bytes), name.to_owned());
        // Forms name the items of a list `name[]`.
        let name = name.trim_end_matches("[]");
        if name == PARAMS.picture {
            sources.insert(0, picture);
        } else if name == PARAMS.references {
            references.push(picture);
        } else if name == PARAMS.end_picture || name == field_aliases::LAST_FRAME {
            add(&mut last_frames, name, picture);
        } else {
            add(&mut first_frames, name, picture);
        }
    }
    // Counted again, because files were added to the URLs.
    if references.len() > MAX_REFERENCES {
        let message = format!("Must have at most {MAX_REFERENCES} items.");
        body.fault(PARAMS.references, ErrorCode::InvalidValue, message);
    }
    let long_form = request.inputs.references.take().unwrap_or_default();
    let (long_form, short_form) = (("references", long_form), (PARAMS.references, references));
    let (references_param, references) = inputs::single_references(body, long_form, short_form);
    let keyframes = request.inputs.keyframes.take().unwrap_or_default();
    let keyframes = inputs::keyframe_pictures(body, keyframes, seconds);
    let has_first_frame = keyframes.first.is_some();
    first_frames.extend(keyframes.first);
    last_frames.extend(keyframes.last);
    field_aliases::add_first_frame(body, &PARAMS, &mut sources, first_frames);
    let end_image = request.end_image.take();
    OrderPictures {
        sources,
        has_first_frame,
        end_picture: field_aliases::last_frame(body, &PARAMS, end_image, last_frames),
        references,
        references_param,
    }
}

/// Adds a picture to those under its name.
fn add(named_pictures: &mut Vec<NamedPictures>, name: &str, picture: RequestedPicture) {
    match named_pictures
        .iter_mut()
        .find(|(known_name, _)| known_name == name)
    {
        Some((_, pictures)) => pictures.push(picture),
        None => named_pictures.push((name.to_owned(), vec![picture])),
    }
}

/// The number of videos. This API makes one for each request.
pub struct SingleVideo;

impl FieldType for SingleVideo {
    type Value = ();

    fn read(body: &BodyFields<'_>, name: &str) -> Option<()> {
        if body.integer(name, i64::MIN..=i64::MAX)? != 1 {
            let message = "Must be 1. For several videos send several requests, or n in a chat \
                           completion.";
            body.fault(name, ErrorCode::UnsupportedValue, message);
        }
        None
    }

    fn schema() -> RefOr<Schema> {
        IntegerField::<1, 1>::schema()
    }
}

/// An object with a URL, or the URL itself.
pub struct FirstFrame;

impl FieldType for FirstFrame {
    type Value = RequestedPicture;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<RequestedPicture> {
        if body.value(name)?.is_string() {
            let address = body.filled_string(name, MAX_ADDRESS)?;
            return Some((PictureSource::Address(address), body.path(name)));
        }
        let object = body.object(name)?;
        // OpenAI's API takes ids of uploaded files. Ignoring one would make a film without its
        // picture.
        if object.value("file_id").is_some() {
            let message =
                "Uploaded files are not supported here. Send the image itself or its URL.";
            object.fault("file_id", ErrorCode::UnsupportedValue, message);
            return None;
        }
        let address = PictureReference::read(&object).image_url?;
        Some((PictureSource::Address(address), object.path("image_url")))
    }

    fn schema() -> RefOr<Schema> {
        let address = ObjectBuilder::new().schema_type(Type::String);
        let object = PictureReference::object();
        AnyOfBuilder::new().item(address).item(object).into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_forms_of_the_sdks_are_read() {
        let order = VideoOrder::read(
            &json!({"prompt": "a lake", "seconds": "4", "size": "1280x720", "seed": 7}),
        )
        .unwrap();
        assert_eq!(
            (order.seconds, order.size, order.options.seed),
            (Some(4.0), Some((1280, 720)), Some(Choice::Asked(7)))
        );
        let form = json!({"prompt": "a lake", "seconds": "4", "seed": "7", "input_reference": {"image_url": "https://x/a.png"}});
        let order = read_form(&form, Vec::new()).unwrap();
        assert_eq!(order.options.seed, Some(Choice::Asked(7)));
        assert_eq!(order.pictures[0].1, "input_reference.image_url");
        let form = json!({"prompt": "a lake", "audio": "false", "aspect_ratio": "9:16",
            "reference_images": ["https://x/a.png"], "provider_options": {"style": 1}});
        let file = bytes::Bytes::from_static(b"png");
        let order = read_form(
            &form,
            vec![("reference_images[]", file.clone()), ("end_image", file)],
        );
        let order = order.unwrap();
        assert_eq!(order.options.audio, Some(Choice::Asked(false)));
        assert_eq!(order.references.len(), 2);
        assert!(order.end_picture.is_some());
        assert_eq!(order.options.provider_options["style"], 1);
    }

    #[test]
    fn nonsense_is_named() {
        for (body, param) in [
            (json!({}), "prompt"),
            (json!({"prompt": " "}), "prompt"),
            (json!({"prompt": "x", "seconds": "soon"}), "seconds"),
            (json!({"prompt": "x", "seconds": true}), "seconds"),
            (json!({"prompt": "x", "size": "big"}), "size"),
            (json!({"prompt": "x", "size": "0x0"}), "size"),
            (json!({"prompt": "x", "seed": -1}), "seed"),
            (
                json!({"prompt": "x", "input_reference": {}}),
                "input_reference.image_url",
            ),
            (
                json!({"prompt": "x", "input_reference": {"file_id": "f"}}),
                "input_reference.file_id",
            ),
            (
                json!({"prompt": "x", "input_reference": 1}),
                "input_reference",
            ),
        ] {
            assert_eq!(
                VideoOrder::read(&body).unwrap_err().param(),
                Some(param),
                "{body}"
            );
        }
    }
}
