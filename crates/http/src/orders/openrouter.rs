//! The requests of `OpenRouter`'s dialect. Its chat requests are those of `OpenAI`'s API.

use std::sync::LazyLock;

use serde_json::{Map, Value};
use utoipa::openapi::schema::{Array, ArrayBuilder, Object, ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use super::callback::{CallbackFields, CallbackUrlField};
use super::chat::{ChatOrder, ChatRequest};
use super::terms::TermsFields;
use super::video_fields::{
    AspectRatio, LabelField, MAX_PROMPT, MAX_REFERENCES, PictureAddress, ProviderOptions,
    ResolutionField, SecondsField, SeedField, SizeField,
};
use super::{ApiOrder, OrderEndpoint, QuotableOrder};
use crate::fields::types::{AnyObject, BooleanField, NonBlankText, OptionalText, RequiredField};
use crate::fields::{self, BodyFields, FieldType, refuse_unknown, request};
use crate::wire::openrouter::VIDEOS_PATH;
use mediagate_core::app::App;
use mediagate_core::domain::quotes::QuotedOrder;
use mediagate_core::domain::video::{
    FrameShape, ParamNames, RequestedPicture, VideoOrder, identity,
};
use mediagate_model::account::Scope;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::task::{Choice, VideoOptions};

request! {
    /// A request of `OpenRouter`'s dialect to create a video.
    pub struct OpenRouterVideoRequest {
        /// The model. Default: the default video model.
        model: OptionalText<200>,
        /// The prompt: what the video should show.
        prompt: RequiredField<NonBlankText<MAX_PROMPT>>,
        /// Length in seconds.
        duration: SecondsField,
        /// Resolution, for example `1080p`. An alternative to `size`.
        resolution: ResolutionField,
        /// Aspect ratio, for example `16:9`. An alternative to `size`.
        aspect_ratio: AspectRatio,
        /// Width and height in pixels, for example `1280x720`.
        size: SizeField,
        /// Whether the video has sound, if the model offers the choice.
        generate_audio: BooleanField,
        /// Random seed.
        seed: SeedField,
        /// First frame, last frame or both.
        frame_images: FrameImages,
        /// Reference images of the subject. Other references are refused.
        input_references: InputReferences,
        /// Fields that are passed to the provider if the operator allows them, in `options` under
        /// any one name.
        provider: ProviderPreferences,
        /// HTTPS URL that receives the task by POST when the task has ended.
        callback_url: CallbackUrlField,
        /// Your id of the end user.
        user: OptionalText<512>,
        /// Accepted, but has no effect.
        session_id: OptionalText<256>,
        /// Accepted, but has no effect.
        trace: AnyObject,
        /// Refused: videos are not continued here.
        previous_job_id: PreviousJob,
        /// Refused: no model changes the size of a finished video.
        upscale_factor: UpscalingField,
        /// Refused, like `upscale_factor`.
        creativity: UpscalingField,
        /// Negative prompt: what to keep out of the video. An extension of `OpenRouter`'s API.
        negative_prompt: OptionalText<MAX_PROMPT>,
        /// `ai` adds a visible label in a corner of the video. Only for models that run in this
        /// gateway. An extension of `OpenRouter`'s API.
        label: LabelField,
        + terms: TermsFields,
    }
}

/// The declared fields.
static KNOWN_FIELDS: LazyLock<Object> = LazyLock::new(OpenRouterVideoRequest::object);

/// The names of this dialect's fields.
const PARAMS: ParamNames = ParamNames {
    seconds: "duration",
    size: "size",
    resolution: "resolution",
    aspect_ratio: "aspect_ratio",
    audio: "generate_audio",
    label: "label",
    seed: "seed",
    negative_prompt: "negative_prompt",
    prompt: "prompt",
    picture: "frame_images",
    end_picture: "frame_images",
    references: "input_references",
    provider_options: "provider.options",
    // A request of this dialect makes one video, so no error names this field.
    count: "n",
};

/// A video order of this dialect.
#[derive(Debug)]
pub struct OpenRouterVideoOrder(pub VideoOrder);

impl ApiOrder for OpenRouterVideoOrder {
    const ENDPOINT: OrderEndpoint = OrderEndpoint {
        path: VIDEOS_PATH,
        is_branded: false,
        scope: Scope::VideoCreate,
    };
    type RequestBody = OpenRouterVideoRequest;

    fn read(body: &Value) -> Result<Self, Error> {
        fields::read(body, |body| order(body, OpenRouterVideoRequest::read(body))).map(Self)
    }

    fn identity(&self, app: &App) -> Option<Value> {
        Some(identity(app, &self.0))
    }
}

impl QuotableOrder for OpenRouterVideoOrder {
    fn quote_subject(self) -> QuotedOrder {
        QuotedOrder::Video(Box::new(self.0))
    }
}

/// A chat order of this dialect, whose streams always end with the usage.
#[derive(Debug)]
pub struct OpenRouterChatOrder(pub ChatOrder);

impl ApiOrder for OpenRouterChatOrder {
    const ENDPOINT: OrderEndpoint = OrderEndpoint {
        path: "/api/v1/chat/completions",
        is_branded: false,
        scope: Scope::VideoCreate,
    };
    type RequestBody = ChatRequest;

    fn read(body: &Value) -> Result<Self, Error> {
        ChatOrder::read(body).map(|order| {
            Self(ChatOrder {
                include_usage: true,
                ..order
            })
        })
    }

    fn identity(&self, app: &App) -> Option<Value> {
        self.0.identity(app)
    }
}

impl QuotableOrder for OpenRouterChatOrder {
    fn quote_subject(self) -> QuotedOrder {
        self.0.quote_subject()
    }
}

fn order(body: &BodyFields<'_>, request: OpenRouterVideoRequest) -> Option<VideoOrder> {
    refuse_unknown(body, &KNOWN_FIELDS);
    let callback = CallbackFields {
        callback_url: request.callback_url,
        notify_hook: None,
        webhook_url: None,
    };
    let callback = callback.single_callback(body);
    let frames = request.frame_images.unwrap_or_default();
    Some(VideoOrder {
        is_housekeeping: false,
        model: request.model,
        prompt: request.prompt?,
        has_first_frame: frames.first.is_some(),
        pictures: frames.first.into_iter().collect(),
        end_picture: frames.last,
        references: request.input_references.unwrap_or_default(),
        seconds: request.duration,
        size: request.size,
        frame: FrameShape {
            resolution: request.resolution,
            aspect_ratio: request.aspect_ratio,
        },
        options: VideoOptions {
            audio: request.generate_audio.map(Choice::Asked),
            label: request.label.unwrap_or(false),
            seed: request.seed.map(Choice::Asked),
            negative_prompt: request.negative_prompt,
            provider_options: request.provider.unwrap_or_default(),
            conversation: Vec::new(),
            user: request.user,
        },
        count: 1,
        callback,
        terms: request.terms.into_terms(),
        params: PARAMS,
    })
}

/// The first frame and the last one.
#[derive(Debug, Default)]
pub struct FramePictures {
    first: Option<RequestedPicture>,
    last: Option<RequestedPicture>,
}

/// The frames, each with its place in `frame_type`.
pub struct FrameImages;

impl FieldType for FrameImages {
    type Value = FramePictures;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<FramePictures> {
        let mut frames = FramePictures::default();
        for (index, item) in body.array(name, 2)?.iter().enumerate() {
            let Some(item) = body.item(name, index, item) else {
                continue;
            };
            let picture = image_part(&item);
            item.require("frame_type");
            let frame_type = item.string("frame_type", 32);
            let frame = match frame_type.as_deref() {
                Some("first_frame") => &mut frames.first,
                Some("last_frame") => &mut frames.last,
                Some(_) => {
                    let message = "Must be \"first_frame\" or \"last_frame\".";
                    item.fault("frame_type", ErrorCode::InvalidValue, message);
                    continue;
                }
                None => continue,
            };
            if frame.is_some() {
                let message = "Another image is this frame already.";
                item.fault("frame_type", ErrorCode::InvalidValue, message);
            }
            *frame = picture;
        }
        Some(frames)
    }

    fn schema() -> RefOr<Schema> {
        let frame_type = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(["first_frame", "last_frame"]));
        let frame = image_part_schema().property("frame_type", frame_type);
        images(frame.required("frame_type"), 2).into()
    }
}

/// The references. Only images are supported.
pub struct InputReferences;

impl FieldType for InputReferences {
    type Value = Vec<RequestedPicture>;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<Vec<RequestedPicture>> {
        let items = body.array(name, MAX_REFERENCES)?.iter().enumerate();
        let pictures = items.filter_map(|(index, item)| {
            let item = body.item(name, index, item)?;
            image_part(&item)
        });
        Some(pictures.collect())
    }

    fn schema() -> RefOr<Schema> {
        images(image_part_schema(), MAX_REFERENCES).into()
    }
}

/// The picture in a part `{"type": "image_url", "image_url": {"url": …}}`.
fn image_part(part: &BodyFields<'_>) -> Option<RequestedPicture> {
    part.require("type");
    let kind = part.string("type", 32)?;
    if kind != "image_url" {
        let message = "Must be \"image_url\": videos and sounds are not supported here.";
        part.fault("type", ErrorCode::UnsupportedValue, message);
        return None;
    }
    part.require("image_url");
    let image = part.object("image_url")?;
    image.require("url");
    PictureAddress::read(&image, "url")
}

fn image_part_schema() -> ObjectBuilder {
    let kind = ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(["image_url"]));
    let image = ObjectBuilder::new().schema_type(Type::Object);
    let image = image.property("url", PictureAddress::schema());
    let part = ObjectBuilder::new().schema_type(Type::Object);
    let part = part.property("type", kind).required("type");
    part.property("image_url", image.required("url"))
        .required("image_url")
}

fn images(item: ObjectBuilder, max_items: usize) -> Array {
    let list = ArrayBuilder::new().items(item);
    list.max_items(Some(max_items)).build()
}

/// Fields for the provider, in `options` under the provider's name. Callers do not know which
/// provider takes their order, so the name makes no difference.
pub struct ProviderPreferences;

impl FieldType for ProviderPreferences {
    type Value = Map<String, Value>;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<Map<String, Value>> {
        let provider = body.object(name)?;
        let options = provider.object("options")?;
        let names = options.members().keys();
        let mut all = names.filter_map(|name| ProviderOptions::read(&options, name));
        let first = all.find(|options| !options.is_empty());
        // Which of them the order's provider gets is not known, and they may be prices.
        if all.any(|options| !options.is_empty()) {
            let message = "Set the options of one provider only.";
            provider.fault("options", ErrorCode::InvalidValue, message);
        }
        first
    }

    fn schema() -> RefOr<Schema> {
        let options = ObjectBuilder::new().schema_type(Type::Object);
        let provider = ObjectBuilder::new().schema_type(Type::Object);
        provider.property("options", options).into()
    }
}

/// The id of a video to continue.
pub struct PreviousJob;

impl FieldType for PreviousJob {
    type Value = ();

    fn read(body: &BodyFields<'_>, name: &str) -> Option<()> {
        body.filled_string(name, 200)?;
        let message = "Videos are not continued here. Send the last frame of the other video as \
                       first frame.";
        body.fault(name, ErrorCode::UnsupportedValue, message);
        None
    }

    fn schema() -> RefOr<Schema> {
        OptionalText::<200>::schema()
    }
}

/// How to enlarge a finished video.
pub struct UpscalingField;

impl FieldType for UpscalingField {
    type Value = ();

    fn read(body: &BodyFields<'_>, name: &str) -> Option<()> {
        body.value(name)?;
        let message = "No model here changes the size of a finished video.";
        body.fault(name, ErrorCode::UnsupportedValue, message);
        None
    }

    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::Number).into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use mediagate_core::domain::pictures::PictureSource;

    const A: &str = "https://x/a.png";

    fn read(fields: &Value) -> Result<VideoOrder, Error> {
        let mut body = json!({"model": "m", "prompt": "a lake"});
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        OpenRouterVideoOrder::read(&body).map(|OpenRouterVideoOrder(order)| order)
    }

    fn image(url: &str) -> Value {
        json!({"type": "image_url", "image_url": {"url": url}})
    }

    fn frame(url: &str, frame_type: &str) -> Value {
        let mut frame = image(url);
        frame["frame_type"] = frame_type.into();
        frame
    }

    #[test]
    fn every_field_of_the_sdks_is_read() {
        let order = read(&json!({
            "duration": 8, "resolution": "1080p", "aspect_ratio": "9:16", "generate_audio": false, "seed": 7,
            "frame_images": [frame("https://x/last.png", "last_frame"), frame(A, "first_frame")],
            "input_references": [image("https://x/cat.png"), image("https://x/dog.png")],
            "provider": {"options": {"openai": {}, "google-vertex": {"style": 1}}},
            "callback_url": "https://x/hook", "user": "u", "session_id": "s",
            "trace": {"trace_id": "t", "page": "https://x"},
        }));
        let order = order.unwrap();
        assert_eq!((order.seconds, order.size), (Some(8.0), None));
        let frame = (order.frame.resolution, order.frame.aspect_ratio);
        assert_eq!(frame, (Some(1080), Some((9, 16))));
        let options = &order.options;
        assert_eq!(options.audio, Some(Choice::Asked(false)));
        assert_eq!(options.seed, Some(Choice::Asked(7)));
        assert_eq!(
            Value::from(options.provider_options.clone()),
            json!({"style": 1})
        );
        assert_eq!(options.user.as_deref(), Some("u"));
        let url = |(source, _): &RequestedPicture| match source {
            PictureSource::Address(url) => url.clone(),
            PictureSource::Bytes(_) | PictureSource::Stored(_) => String::new(),
        };
        assert_eq!(url(&order.pictures[0]), A);
        assert_eq!(order.pictures[0].1, "frame_images[1].image_url.url");
        assert_eq!(
            order.end_picture.as_ref().map(url).as_deref(),
            Some("https://x/last.png")
        );
        let references: Vec<String> = order.references.iter().map(url).collect();
        assert_eq!(references, ["https://x/cat.png", "https://x/dog.png"]);
        assert_eq!(order.callback.unwrap().url, "https://x/hook");
        let order = read(&json!({"size": "1280x720", "duration": "5", "seed": null}));
        let order = order.unwrap();
        assert_eq!((order.seconds, order.size), (Some(5.0), Some((1280, 720))));
    }

    #[test]
    fn every_fault_names_its_field() {
        for (fields, param) in [
            (json!({"prompt": null}), "prompt"),
            (json!({"prompt": " "}), "prompt"),
            (json!({"model": 1}), "model"),
            (json!({"duration": "soon"}), "duration"),
            (json!({"size": "big"}), "size"),
            (
                json!({"size": "1x1", "aspect_ratio": "1:1"}),
                "aspect_ratio",
            ),
            (json!({"frame_images": A}), "frame_images"),
            (json!({"frame_images": [A]}), "frame_images[0]"),
            (
                json!({"frame_images": [image(A)]}),
                "frame_images[0].frame_type",
            ),
            (
                json!({"frame_images": [frame(A, "middle_frame")]}),
                "frame_images[0].frame_type",
            ),
            (
                json!({"frame_images": [frame(A, "first_frame"), frame(A, "first_frame")]}),
                "frame_images[1].frame_type",
            ),
            (
                json!({"frame_images": [frame("", "first_frame")]}),
                "frame_images[0].image_url.url",
            ),
            (
                json!({"frame_images": [{"type": "image_url", "frame_type": "last_frame"}]}),
                "frame_images[0].image_url",
            ),
            (
                json!({"frame_images": vec![frame(A, "last_frame"); 3]}),
                "frame_images",
            ),
            (
                json!({"input_references": [image(A), {"type": "video_url", "video_url": {"url": A}}]}),
                "input_references[1].type",
            ),
            (
                json!({"input_references": vec![image(A); 33]}),
                "input_references",
            ),
            (json!({"provider": 1}), "provider"),
            (
                json!({"provider": {"options": {"a": 1}}}),
                "provider.options.a",
            ),
            (
                json!({"provider": {"options": {"a": {"x": 1}, "b": {"x": 2}}}}),
                "provider.options",
            ),
            (json!({"previous_job_id": "gen-vid-1"}), "previous_job_id"),
            (json!({"upscale_factor": 2}), "upscale_factor"),
            (json!({"creativity": 1}), "creativity"),
            (json!({"trace": 1}), "trace"),
            // Names of the other APIs, which this one does not have.
            (json!({"seconds": 8}), "seconds"),
            (json!({"image_url": A}), "image_url"),
            (json!({"end_image": A}), "end_image"),
        ] {
            let error = read(&fields).unwrap_err();
            assert_eq!(error.param(), Some(param), "{fields}");
        }
    }

    #[test]
    fn fields_of_other_apis_are_refused_with_the_nearest_one() {
        for (name, nearest) in [
            ("seconds", "duration"),
            ("audio", "generate_audio"),
            ("image_url", "frame_images"),
            ("last_frame", "frame_images"),
            ("reference_images", "input_references"),
        ] {
            let error = read(&json!({ name: A })).unwrap_err();
            let expected = format!("The nearest known field is {nearest}.");
            assert!(error.message().ends_with(&expected), "{}", error.message());
        }
    }

    #[test]
    fn a_chat_always_wants_the_usage() {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}]});
        assert!(!ChatOrder::read(&body).unwrap().include_usage);
        let OpenRouterChatOrder(order) = OpenRouterChatOrder::read(&body).unwrap();
        assert!(order.include_usage);
    }
}
