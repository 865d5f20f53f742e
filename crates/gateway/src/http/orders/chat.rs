//! The requests of the chat-completions dialect.

use serde_json::{Map, Value};
use utoipa::openapi::schema::{
    AnyOfBuilder, ArrayBuilder, Object, ObjectBuilder, OneOfBuilder, Type,
};
use utoipa::openapi::{RefOr, Schema};

use super::callback::{CallbackFields, Called};
use super::video_fields::{
    Address, AspectRatio, Label, PROMPT, Picture, Pictures, ProviderOptions, Resolution, Seconds,
    Seed, Size,
};
use super::{Endpoint, Order, Quoted};
use crate::domain::quotes::Wish;
use crate::domain::video::{AskedPicture, Frame, Params, VideoOrder};
use crate::error::{Error, ErrorCode};
use crate::http::fields::request::{Schemas, reference};
use crate::http::fields::types::{
    AnyObject, Filled, Flag, Integer, NotEmpty, Number, Required, Text, text, texts,
};
use crate::http::fields::{self, FieldType, Fields, request};
use crate::model::account::Scope;
use crate::model::task::Message;

/// Most messages of a request, and parts of a message.
const MESSAGES: usize = 256;
const PARTS: usize = 64;
const ROLES: [&str; 6] = [
    "system",
    "developer",
    "user",
    "assistant",
    "tool",
    "function",
];

request! {
    /// A request for videos in the dialect of chat.
    pub struct ChatRequest {
        /// A video model from the live list.
        model: Required<NotEmpty<200>>,
        /// The prompt is the text of the last user message; its pictures are the source images.
        messages: Required<Messages>,
        /// Checked (0–2), without effect on a video.
        temperature: Number<0, 2>,
        /// Checked (0–1), without effect on a video.
        top_p: Number<0, 1>,
        /// Checked (-2–2), without effect on a video.
        presence_penalty: Number<-2, 2>,
        /// Checked (-2–2), without effect on a video.
        frequency_penalty: Number<-2, 2>,
        /// At least 1; without effect on a video.
        max_tokens: Integer<1, { i64::MAX }>,
        /// Null or an object; without effect on a video.
        logit_bias: AnyObject,
        /// A string or up to four; without effect on a video.
        stop: Stop,
        /// What the chat dialect has no fields for.
        video: VideoOptions,
        /// Fields for the provider itself, where the operator lets them through; taken in `video` too.
        provider_options: ProviderOptions,
        /// An https address that is posted the task when it has ended.
        callback_url: Called,
        /// The same, as the music dialect names it.
        notify_hook: Called,
        /// The same.
        webhook_url: Called,
        /// How many videos, 1–4.
        n: Integer<1, 4>,
        /// Your own name for your end user.
        user: Filled<512>,
        /// Whether the answer comes as server-sent events.
        stream: Flag,
        /// How the stream ends.
        stream_options: StreamOptions,
    }
}

request! {
    /// What the chat dialect has no fields for.
    pub struct VideoOptions {
        /// The last frame: an https, http or data: address.
        end_image: Picture,
        /// Pictures of what the video is about: https, http or data: addresses.
        reference_images: Pictures,
        /// Length in seconds.
        seconds: Seconds,
        /// Width and height, as in `1280x720`.
        size: Size,
        /// In place of the size: its fineness, as in `1080p`.
        resolution: Resolution,
        /// In place of the size: its shape, as in `16:9`.
        aspect_ratio: AspectRatio,
        /// With sound or without, where the model can choose.
        audio: Flag,
        /// `ai`: a label in a corner that people see, where this gateway draws the film.
        label: Label,
        /// Decides everything that the prompt leaves to chance.
        seed: Seed,
        /// What the video shall not show.
        negative_prompt: Filled<PROMPT>,
        /// Fields for the provider itself, where the operator lets them through.
        provider_options: ProviderOptions,
    }
}

request! {
    /// How a stream ends.
    pub struct StreamOptions {
        /// Whether a chunk with the usage comes before the end.
        include_usage: Flag,
    }
}

request! {
    /// A message.
    pub struct ChatMessage {
        /// Who says it.
        role: Required<Role>,
        /// Text, or parts of type `text` and `image_url`. An assistant's message may have none.
        content: Content,
    }
}

request! {
    /// A part of the prompt.
    pub struct TextPart {
        /// The text.
        text: Required<Text<PROMPT>>,
    }
}

request! {
    /// A source image.
    pub struct ImagePart {
        /// Where it is.
        image_url: Required<ImageUrl>,
    }
}

request! {
    /// Where an image is.
    pub struct ImageUrl {
        /// An https, http or data: address.
        url: Required<Address>,
    }
}

/// A request that was read.
#[derive(Debug)]
pub struct ChatOrder {
    /// What to make.
    pub order: VideoOrder,
    /// Whether to answer in chunks.
    pub stream: bool,
    /// Whether a chunk with the usage is wanted.
    pub include_usage: bool,
}

const PARAMS: Params = Params {
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
};

impl Order for ChatOrder {
    const ENDPOINT: Endpoint = Endpoint {
        path: "/v1/chat/completions",
        is_branded: false,
        scope: Scope::VideoCreate,
    };
    type Request = ChatRequest;

    fn read(body: &Value) -> Result<Self, Error> {
        fields::read(body, |body| order(body, ChatRequest::read(body)))
    }
}

impl Quoted for ChatOrder {
    fn wish(self) -> Wish {
        Wish::Video(Box::new(self.order))
    }
}

fn order(body: &Fields<'_>, request: ChatRequest) -> Option<ChatOrder> {
    let model = request.model?;
    let Asked {
        prompt,
        pictures,
        conversation,
    } = request.messages?;
    let video = request.video;
    let within = video
        .as_ref()
        .and_then(|video| video.provider_options.as_ref());
    let is_filled = |options: Option<&Map<String, Value>>| options.is_some_and(|it| !it.is_empty());
    if is_filled(within) && is_filled(request.provider_options.as_ref()) {
        let message = "Say it here or in video, not twice.";
        body.fault("provider_options", ErrorCode::InvalidValue, message);
    }
    let callback = CallbackFields {
        callback_url: request.callback_url,
        notify_hook: request.notify_hook,
        webhook_url: request.webhook_url,
    };
    let callback = callback.callback(body);
    let mut order = VideoOrder {
        model: Some(model),
        prompt,
        pictures,
        end_picture: None,
        references: Vec::new(),
        seconds: None,
        size: None,
        frame: Frame::default(),
        audio: None,
        label: false,
        seed: None,
        negative_prompt: None,
        provider_options: request.provider_options.unwrap_or_default(),
        count: request.n.and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
        conversation,
        user: request.user,
        callback,
        params: PARAMS,
    };
    if let Some(video) = video {
        order = VideoOrder {
            end_picture: video.end_image,
            references: video.reference_images.unwrap_or_default(),
            seconds: video.seconds,
            size: video.size,
            frame: Frame {
                resolution: video.resolution,
                aspect_ratio: video.aspect_ratio,
            },
            audio: video.audio,
            label: video.label.unwrap_or(false),
            seed: video.seed,
            negative_prompt: video.negative_prompt,
            ..order
        };
        order
            .provider_options
            .extend(video.provider_options.unwrap_or_default());
    }
    let ends = request.stream_options;
    Some(ChatOrder {
        order,
        stream: request.stream.unwrap_or(false),
        include_usage: ends.and_then(|ends| ends.include_usage).unwrap_or(false),
    })
}

/// One text or up to four.
pub struct Stop;

impl FieldType for Stop {
    type Value = ();

    fn read(body: &Fields<'_>, name: &str) -> Option<()> {
        match body.value(name)? {
            Value::String(_) => {
                body.string(name, 1000);
            }
            Value::Array(items) => {
                if items.len() > 4 || items.iter().any(|item| !item.is_string()) {
                    let message = "Must be a string or up to four strings.";
                    body.fault(name, ErrorCode::InvalidValue, message);
                }
            }
            _ => {
                let message = "Must be a string or an array of strings.";
                body.fault(name, ErrorCode::InvalidType, message);
            }
        }
        None
    }

    fn schema() -> RefOr<Schema> {
        AnyOfBuilder::new().item(text(1000)).item(texts(4)).into()
    }
}

/// Who says a message.
pub struct Role;

impl FieldType for Role {
    type Value = String;

    fn read(body: &Fields<'_>, name: &str) -> Option<String> {
        let role = body.string(name, 32)?;
        if !ROLES.contains(&role.as_str()) {
            let message = format!("Must be one of {}.", ROLES.join(", "));
            body.fault(name, ErrorCode::InvalidValue, message);
        }
        Some(role)
    }

    fn schema() -> RefOr<Schema> {
        let role = ObjectBuilder::new().schema_type(Type::String);
        role.enum_values(Some(ROLES)).into()
    }
}

/// What the messages ask for.
#[derive(Debug)]
pub struct Asked {
    prompt: String,
    pictures: Vec<AskedPicture>,
    conversation: Vec<Message>,
}

/// All messages are checked; the last user message is the order, those before it are
/// the conversation.
pub struct Messages;

impl FieldType for Messages {
    type Value = Asked;

    fn read(body: &Fields<'_>, name: &str) -> Option<Asked> {
        let items = body.array(name, MESSAGES)?;
        if items.is_empty() {
            let message = "Must have at least one message.";
            body.fault(name, ErrorCode::InvalidValue, message);
            return None;
        }
        let mut last = None;
        let mut said = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let Some(message) = body.item(name, index, item) else {
                continue;
            };
            let ChatMessage { role, content } = ChatMessage::read(&message);
            // An assistant that called a tool has no content.
            if role.as_deref() != Some("assistant") {
                message.require("content");
            }
            let text = content.as_ref().map(|said| said.text.clone());
            let is_order = role.as_deref() == Some("user");
            if let (Some(role), Some(text)) = (role, text) {
                said.push((index, Message { role, text }));
            }
            if is_order {
                last = Some((index, content));
            }
        }
        let Some((index, content)) = last else {
            let message = "Must have a message with the role user.";
            body.fault(name, ErrorCode::InvalidValue, message);
            return None;
        };
        let Said { text, pictures } = content?;
        if text.trim().is_empty() && pictures.is_empty() {
            let param = format!("{}[{index}].content", body.path(name));
            let message = "Must hold a prompt or an image.";
            body.fault_at(param, ErrorCode::InvalidValue, message);
        }
        said.retain(|(at, _)| *at < index);
        Some(Asked {
            prompt: text,
            pictures,
            conversation: said.into_iter().map(|(_, message)| message).collect(),
        })
    }

    fn schema() -> RefOr<Schema> {
        let list = ArrayBuilder::new().items(reference("ChatMessage"));
        list.min_items(Some(1)).max_items(Some(MESSAGES)).into()
    }

    fn components(schemas: &mut Schemas) {
        <ChatMessage as FieldType>::components(schemas);
    }
}

/// What a message says and shows.
#[derive(Debug)]
pub struct Said {
    text: String,
    pictures: Vec<AskedPicture>,
}

/// A message's text, or its parts.
pub struct Content;

impl FieldType for Content {
    type Value = Said;

    fn read(body: &Fields<'_>, name: &str) -> Option<Said> {
        match body.value(name)? {
            Value::String(_) => Some(Said {
                text: body.string(name, PROMPT)?,
                pictures: Vec::new(),
            }),
            Value::Array(_) => Some(parts(body, name, body.array(name, PARTS)?)),
            _ => {
                let message = "Must be a string or an array of parts.";
                body.fault(name, ErrorCode::InvalidType, message);
                None
            }
        }
    }

    fn schema() -> RefOr<Schema> {
        let part = OneOfBuilder::new()
            .item(tagged("text", TextPart::object()))
            .item(tagged("image_url", ImagePart::object()));
        let parts = ArrayBuilder::new().items(part).max_items(Some(PARTS));
        AnyOfBuilder::new().item(text(PROMPT)).item(parts).into()
    }

    fn components(schemas: &mut Schemas) {
        ImagePart::components(schemas);
    }
}

/// A part with its `type`.
fn tagged(name: &str, mut part: Object) -> Object {
    let tag = ObjectBuilder::new().schema_type(Type::String);
    let tag = tag.enum_values(Some([name])).build();
    part.properties.insert("type".into(), tag.into());
    part.required.push("type".into());
    part
}

fn parts(message: &Fields<'_>, name: &str, items: &[Value]) -> Said {
    let mut texts = Vec::new();
    let mut pictures = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(part) = message.item(name, index, item) else {
            continue;
        };
        part.require("type");
        match part.string("type", 64).as_deref() {
            Some("text") => texts.extend(TextPart::read(&part).text),
            Some("image_url") => {
                let image = ImagePart::read(&part).image_url;
                pictures.extend(image.and_then(|image| image.url));
            }
            Some(_) => {
                let message = "Must be \"text\" or \"image_url\".";
                part.fault("type", ErrorCode::UnsupportedValue, message);
            }
            None => {}
        }
    }
    let text = texts.join("\n");
    if text.chars().count() > PROMPT {
        let why = format!("Must have at most {PROMPT} characters of text.");
        message.fault(name, ErrorCode::InvalidValue, why);
    }
    Said { text, pictures }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::Error;

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
