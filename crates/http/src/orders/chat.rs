//! The requests of the chat-completions API.

pub mod answer_format;
mod film_frames;
mod film_options;
pub mod housekeeping;
pub mod messages;

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use utoipa::openapi::schema::Object;

use super::callback::{CallbackFields, CallbackUrlField};
use super::field_aliases::{self, AliasFields};
use super::inputs::{self, InputFields, VideoShot};
use super::terms::TermsFields;
use super::video_fields::{
    AspectRatio, LabelField, MAX_PROMPT, PictureField, PictureList, ProviderOptions,
    ResolutionField, SecondsField, SeedField, SizeField,
};
use super::{ApiOrder, OrderEndpoint, QuotableOrder};
use crate::fields::types::{
    AnyObject, BooleanField, IntegerField, NonEmptyText, NumberField, OptionalText, RequiredField,
};
use crate::fields::{self, BodyFields, refuse_unknown, request};
use answer_format::{AnswerAudio, AnswerModalities, ResponseFormat, StopSequences, ToolChoice};
use film_frames::film_frames;
use film_options::film_options;
use mediagate_core::app::App;
use mediagate_core::domain::quotes::QuotedOrder;
use mediagate_core::domain::video::{ParamNames, VideoOrder, identity};
use mediagate_model::account::Scope;
use mediagate_model::attribution::MAX_USER;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::task::{self, Choice};
use messages::{ChatPrompt, MessageList};

/// With fewer tokens than this, an answer cannot hold a video's URL.
const MIN_URL_TOKENS: i64 = 16;
/// The fault of a field that is set at the top level and in `video`.
const ONE_LEVEL: &str = "Set this field either here or in `video`, not both.";

request! {
    /// A chat completion request that creates videos.
    pub struct ChatRequest {
        /// The name of a video model.
        model: RequiredField<NonEmptyText<200>>,
        /// The messages. The text of the last user message is the prompt. Its images are the source
        /// images.
        messages: RequiredField<MessageList>,
        /// Validated (0–2), but has no effect on a video.
        temperature: NumberField<0, 2>,
        /// Validated (0–1), but has no effect on a video.
        top_p: NumberField<0, 1>,
        /// Validated (-2–2), but has no effect on a video.
        presence_penalty: NumberField<-2, 2>,
        /// Validated (-2–2), but has no effect on a video.
        frequency_penalty: NumberField<-2, 2>,
        /// Maximum number of tokens, at least 1. Fewer than 16 tokens cannot hold a video URL: the
        /// response is then a truncated sentence, no video is made, and nothing is charged.
        max_tokens: IntegerField<1, { i64::MAX }>,
        /// Same as `max_tokens`. The smaller value applies.
        max_completion_tokens: IntegerField<1, { i64::MAX }>,
        /// Null or an object. Has no effect on a video.
        logit_bias: AnyObject,
        /// A string or up to four strings. Has no effect on a video.
        stop: StopSequences,
        /// `none` or `auto`. Tools are accepted, but a video model never calls a tool.
        tool_choice: ToolChoice,
        /// Same as `tool_choice`, in its deprecated form.
        function_call: ToolChoice,
        /// Must be of type `text`: the response is a URL.
        response_format: ResponseFormat,
        /// Requested output types. Must include `text` or `video`.
        modalities: AnswerModalities,
        /// Same as `video.seconds`.
        seconds: SecondsField,
        /// Same as `video.size`.
        size: SizeField,
        /// Same as `video.resolution`.
        resolution: ResolutionField,
        /// Same as `video.aspect_ratio`.
        aspect_ratio: AspectRatio,
        /// `true` or `false`: same as `video.audio`. An object has no effect on a video.
        audio: AnswerAudio,
        /// Same as `video.label`.
        label: LabelField,
        /// Same as `video.negative_prompt`.
        negative_prompt: OptionalText<MAX_PROMPT>,
        /// Same as `video.end_image`.
        end_image: PictureField,
        /// Same as `video.reference_images`.
        reference_images: PictureList,
        /// Video options that the chat API has no fields for.
        video: VideoOptions,
        /// Fields that are passed to the provider if the operator allows them. Also accepted in
        /// `video`.
        provider_options: ProviderOptions,
        /// HTTPS URL that receives the task by POST when the task has ended.
        callback_url: CallbackUrlField,
        /// Same as `callback_url`. The music API uses this name.
        notify_hook: CallbackUrlField,
        /// Same as `callback_url`.
        webhook_url: CallbackUrlField,
        /// Number of videos, 1–4.
        n: IntegerField<1, 4>,
        /// Same as `n`. A name used by other services.
        num_videos: IntegerField<1, 4>,
        /// Your id of the end user.
        user: OptionalText<MAX_USER>,
        /// Whether to stream the response as server-sent events.
        stream: BooleanField,
        /// Options of the stream.
        stream_options: StreamOptions,
        + aliases: AliasFields,
        + inputs: InputFields,
        + terms: TermsFields,
    }
}

request! {
    /// Video options that the chat API has no fields for.
    pub struct VideoOptions {
        /// Last frame: an https, http or data: URL.
        end_image: PictureField,
        /// Reference images of the subject: https, http or data: URLs.
        reference_images: PictureList,
        /// Length in seconds.
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
        + aliases: AliasFields,
        + inputs: InputFields,
    }
}

request! {
    /// Options of a stream.
    pub struct StreamOptions {
        /// Whether to send a chunk with the usage at the end of the stream.
        include_usage: BooleanField,
    }
}

/// A parsed request.
#[derive(Debug)]
pub struct ChatOrder {
    /// What to make.
    pub order: VideoOrder,
    /// Whether to answer in chunks.
    pub stream: bool,
    /// Whether a chunk with the usage is wanted.
    pub include_usage: bool,
    /// Maximum number of tokens in the answer, if they are too few for a URL: then nothing is made.
    pub token_limit: Option<usize>,
}

/// The declared fields of the body, and of its `video`.
static KNOWN_FIELDS: LazyLock<Object> = LazyLock::new(ChatRequest::object);
static KNOWN_VIDEO_FIELDS: LazyLock<Object> = LazyLock::new(VideoOptions::object);

const PARAMS: ParamNames = ParamNames {
    seconds: "video.seconds",
    size: "video.size",
    resolution: "video.resolution",
    aspect_ratio: "video.aspect_ratio",
    audio: "video.audio",
    label: "video.label",
    seed: "video.seed",
    negative_prompt: "video.negative_prompt",
    prompt: "messages",
    picture: "messages",
    end_picture: "video.end_image",
    references: "video.reference_images",
    provider_options: "video.provider_options",
    count: "n",
};

impl ApiOrder for ChatOrder {
    const ENDPOINT: OrderEndpoint = OrderEndpoint {
        path: "/v1/chat/completions",
        is_branded: false,
        scope: Scope::VideoCreate,
    };
    type RequestBody = ChatRequest;

    fn read(body: &Value) -> Result<Self, Error> {
        fields::read(body, |body| order(body, ChatRequest::read(body)))
    }

    fn identity(&self, app: &App) -> Option<Value> {
        let mut identity = identity(app, &self.order);
        identity["token_limit"] = json!(self.token_limit);
        Some(identity)
    }
}

impl QuotableOrder for ChatOrder {
    fn quote_subject(self) -> QuotedOrder {
        let order = Box::new(self.order);
        if self.token_limit.is_some() {
            QuotedOrder::ShortAnswer(order)
        } else {
            QuotedOrder::Video(order)
        }
    }
}

fn order(body: &BodyFields<'_>, mut request: ChatRequest) -> Option<ChatOrder> {
    // No `?` until every field was read, so that the caller gets all mistakes at once.
    refuse_unknown(body, &KNOWN_FIELDS);
    if request.video.is_some()
        && let Some(video) = body.object("video")
    {
        refuse_unknown(&video, &KNOWN_VIDEO_FIELDS);
    }
    let token_limit = token_limit(&request);
    let (options_param, provider_options) = provider_options(body, &mut request);
    let callback = CallbackFields {
        callback_url: request.callback_url.take(),
        notify_hook: request.notify_hook.take(),
        webhook_url: request.webhook_url.take(),
    };
    let callback = callback.single_callback(body);
    let length = seconds(body, &request);
    let (shots, is_in_video) = shots(body, &mut request);
    let prompt = request.messages.as_ref();
    let prompt = prompt.map(|chat_prompt| chat_prompt.prompt.as_str());
    let (seconds_param, seconds) =
        inputs::length_with_shots(body, shots, is_in_video, prompt, length);
    let film = film_options(body, &mut request);
    let frames = film_frames(body, &mut request, seconds);
    let counts = [
        (PARAMS.count, request.n),
        ("num_videos", request.num_videos),
    ];
    let (count_param, count) = field_aliases::single_value(body, PARAMS.count, counts);

    let ChatPrompt {
        prompt,
        pictures,
        conversation,
    } = request.messages?;
    let order = VideoOrder {
        is_housekeeping: housekeeping::is_housekeeping(&prompt, &conversation),
        model: Some(request.model?),
        prompt,
        pictures,
        has_first_frame: frames.has_first_frame,
        end_picture: frames.end_picture,
        references: film.references,
        seconds,
        size: film.size,
        frame: film.frame,
        options: task::VideoOptions {
            seed: request
                .video
                .and_then(|video| video.seed)
                .map(Choice::Asked),
            provider_options,
            conversation,
            user: request.user,
            ..film.options
        },
        count: count.and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
        callback,
        terms: request.terms.into_terms(),
        params: ParamNames {
            seconds: seconds_param,
            provider_options: options_param,
            count: count_param,
            ..film.params
        },
    };
    let stream_options = request.stream_options;
    Some(ChatOrder {
        order,
        stream: request.stream.unwrap_or(false),
        include_usage: stream_options
            .and_then(|stream_options| stream_options.include_usage)
            .unwrap_or(false),
        token_limit,
    })
}

/// Maximum number of tokens in the answer, if they are too few for a URL.
fn token_limit(request: &ChatRequest) -> Option<usize> {
    let limits = [request.max_tokens, request.max_completion_tokens];
    // Both may be set, and the answer must fit both.
    let smallest = limits.into_iter().flatten().min()?;
    let is_too_few = smallest < MIN_URL_TOKENS;
    usize::try_from(smallest).ok().filter(|_| is_too_few)
}

/// The length, and the name of the field that sets it.
fn seconds(body: &BodyFields<'_>, request: &ChatRequest) -> (&'static str, Option<f64>) {
    let video = request.video.as_ref();
    let nested = video.map(|video| video.aliases.lengths(true));
    // Errors name the first field that is set, so our own names come first.
    let ours = [
        (PARAMS.seconds, video.and_then(|video| video.seconds)),
        ("seconds", request.seconds),
    ];
    let others = request.aliases.lengths(false);
    let lengths = ours.into_iter().chain(nested.into_iter().flatten());
    field_aliases::single_value(body, PARAMS.seconds, lengths.chain(others))
}

/// The shots, and whether they are in `video`.
fn shots(body: &BodyFields<'_>, request: &mut ChatRequest) -> (Vec<VideoShot>, bool) {
    let video = request.video.as_mut();
    let nested = video.and_then(|video| video.inputs.shots.take());
    list_at_one_level(body, "shots", request.inputs.shots.take(), nested)
}

/// A list that may be set at the top level or in `video`, and whether it is in `video`.
fn list_at_one_level<T>(
    body: &BodyFields<'_>,
    name: &str,
    outer: Option<Vec<T>>,
    nested: Option<Vec<T>>,
) -> (Vec<T>, bool) {
    let (outer, nested) = (outer.unwrap_or_default(), nested.unwrap_or_default());
    if !nested.is_empty() && !outer.is_empty() {
        body.fault(name, ErrorCode::InvalidValue, ONE_LEVEL);
    }
    if outer.is_empty() {
        (nested, true)
    } else {
        (outer, false)
    }
}

/// The fields for the provider, and the name of the field that has them.
fn provider_options(
    body: &BodyFields<'_>,
    request: &mut ChatRequest,
) -> (&'static str, Map<String, Value>) {
    let name = "provider_options";
    let video = request.video.as_mut();
    let nested = video.and_then(|video| video.provider_options.take());
    let nested = nested.unwrap_or_default();
    let options = request.provider_options.take().unwrap_or_default();
    if options.is_empty() {
        return (PARAMS.provider_options, nested);
    }
    // If both were merged, one of two values for the same field would win silently.
    if !nested.is_empty() {
        body.fault(name, ErrorCode::InvalidValue, ONE_LEVEL);
    }
    (name, options)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use mediagate_model::error::Error;

    fn parse(body: &Value) -> Result<ChatOrder, Error> {
        ChatOrder::read(body)
    }

    #[test]
    fn the_last_user_message_is_the_order() {
        let body = json!({"model": "m", "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": null},
            {"role": "user", "content": [
                {"type": "text", "text": "one"}, {"type": "image_url", "image_url": {"url": "https://x/a.png"}},
                {"type": "text", "text": "two"}]},
        ]});
        let chat = parse(&body).unwrap();
        assert_eq!(chat.order.prompt, "one\ntwo");
        assert_eq!(
            chat.order.pictures[0].1,
            "messages[3].content[1].image_url.url"
        );
        assert!(!chat.stream);
    }

    #[test]
    fn wider_types_than_declared_are_taken() {
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "temperature": 0.7, "top_p": 1,
            "stop": ["a", "b"], "logit_bias": {"50256": -100}, "n": 2, "max_tokens": 1, "presence_penalty": -2,
            "frequency_penalty": 0.5, "stream": null, "unknown": {"a": []}});
        assert_eq!(parse(&body).unwrap().order.count, 2);
    }

    #[test]
    fn every_fault_names_its_field() {
        let good = || json!({"model": "m", "messages": [{"role": "user", "content": "x"}]});
        let user = |content: Value| json!([{"role": "user", "content": content}]);
        let cases = [
            ("model", json!(null), "model"),
            ("model", json!(1), "model"),
            ("model", json!(""), "model"),
            ("messages", json!(null), "messages"),
            ("messages", json!([]), "messages"),
            ("messages", json!({}), "messages"),
            ("messages", json!([1]), "messages[0]"),
            (
                "messages",
                json!([{"role": "system", "content": "x"}]),
                "messages",
            ),
            ("messages", json!([{"content": "x"}]), "messages[0].role"),
            (
                "messages",
                json!([{"role": "boss", "content": "x"}]),
                "messages[0].role",
            ),
            ("messages", json!([{"role": "user"}]), "messages[0].content"),
            ("messages", user(json!("")), "messages[0].content"),
            ("messages", user(json!(5)), "messages[0].content"),
            (
                "messages",
                user(json!([{"text": "x"}])),
                "messages[0].content[0].type",
            ),
            (
                "messages",
                user(json!([{"type": "text"}])),
                "messages[0].content[0].text",
            ),
            (
                "messages",
                user(json!([{"type": "input_audio"}])),
                "messages[0].content[0].type",
            ),
            (
                "messages",
                user(json!([{"type": "image_url"}])),
                "messages[0].content[0].image_url",
            ),
            (
                "messages",
                user(json!([{"type": "image_url", "image_url": "u"}])),
                "messages[0].content[0].image_url",
            ),
            (
                "messages",
                user(json!([{"type": "image_url", "image_url": {}}])),
                "messages[0].content[0].image_url.url",
            ),
            ("stream", json!("yes"), "stream"),
            ("temperature", json!(3), "temperature"),
            ("temperature", json!("hot"), "temperature"),
            ("top_p", json!(1.1), "top_p"),
            ("n", json!(0), "n"),
            ("n", json!(5), "n"),
            ("n", json!(1.5), "n"),
            ("stop", json!(1), "stop"),
            ("stop", json!(["a", "b", "c", "d", "e"]), "stop"),
            ("max_tokens", json!(0), "max_tokens"),
            ("presence_penalty", json!(2.5), "presence_penalty"),
            ("frequency_penalty", json!(-3), "frequency_penalty"),
            ("logit_bias", json!([]), "logit_bias"),
            ("user", json!(1), "user"),
            ("video", json!("long"), "video"),
            ("video", json!({"seconds": []}), "video.seconds"),
            ("video", json!({"size": "huge"}), "video.size"),
            ("video", json!({"seed": 1.5}), "video.seed"),
            ("video", json!({"audio": "no"}), "video.audio"),
            ("video", json!({"resolution": "fine"}), "video.resolution"),
            ("video", json!({"aspect_ratio": 2}), "video.aspect_ratio"),
            ("video", json!({"end_image": []}), "video.end_image"),
            (
                "video",
                json!({"reference_images": [{}]}),
                "video.reference_images[0].url",
            ),
            ("provider_options", json!("x"), "provider_options"),
            ("stream_options", json!(1), "stream_options"),
        ];
        for (field, value, param) in cases {
            let mut body = good();
            body[field] = value;
            assert_eq!(parse(&body).unwrap_err().param(), Some(param), "{body}");
        }
    }
}
