//! The requests of the chat-completions dialect.

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::domain::pictures::PictureSource;
use crate::domain::video::{Params, VideoOrder};
use crate::error::ErrorCode;
use crate::http::wire::fields::Fields;
use crate::http::wire::video_fields::{self as shared, ADDRESS};
use crate::http::wire::videos::PROMPT;
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

/// The body of a request, for the documentation.
#[derive(Debug, ToSchema)]
#[schema(example = json!({
    "model": "animatic-1",
    "messages": [{"role": "user", "content": "a lake at dawn, slow dolly in, 5 seconds"}]
}))]
#[expect(dead_code, reason = "documents what the reader below takes")]
pub struct ChatRequest {
    /// A video model from the live list.
    model: String,
    /// The prompt is the text of the last user message; its pictures are the source images.
    messages: Vec<ChatMessage>,
    /// Whether the answer comes as server-sent events.
    stream: Option<bool>,
    /// How the stream ends.
    stream_options: Option<StreamOptions>,
    /// Checked (0–2), without effect on a video.
    #[schema(value_type = Option<f64>)]
    temperature: Option<f64>,
    /// Checked (0–1), without effect on a video.
    #[schema(value_type = Option<f64>)]
    top_p: Option<f64>,
    /// How many videos, 1–4.
    n: Option<u8>,
    /// A string or up to four; without effect on a video.
    #[schema(value_type = Option<Value>)]
    stop: Option<Value>,
    /// At least 1; without effect on a video.
    max_tokens: Option<u64>,
    /// Checked (-2–2), without effect on a video.
    presence_penalty: Option<f64>,
    /// Checked (-2–2), without effect on a video.
    frequency_penalty: Option<f64>,
    /// Null or an object; without effect on a video.
    #[schema(value_type = Option<Object>)]
    logit_bias: Option<Value>,
    /// Your own name for your end user.
    user: Option<String>,
    /// What the chat dialect has no fields for.
    video: Option<VideoOptions>,
    /// Fields for the provider itself, where the operator lets them through; taken in `video` too.
    #[schema(value_type = Option<Object>)]
    provider_options: Option<Value>,
}

/// A message.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "documents what the reader below takes")]
pub struct ChatMessage {
    /// `system`, `developer`, `user`, `assistant`, `tool` or `function`.
    role: String,
    /// Text, or parts of type `text` and `image_url`.
    content: ChatContent,
}

/// Text, or parts.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub enum ChatContent {
    /// Text.
    Text(String),
    /// Parts.
    Parts(Vec<ChatPart>),
}

/// A part of a message.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ChatPart {
    /// Part of the prompt.
    Text {
        /// The text.
        text: String,
    },
    /// A source image.
    ImageUrl {
        /// Where it is.
        image_url: ImageUrl,
    },
}

/// Where an image is.
#[derive(Debug, Serialize, ToSchema)]
pub struct ImageUrl {
    /// An https, http or data: address.
    url: String,
}

/// How a stream ends.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "documents what the reader below takes")]
pub struct StreamOptions {
    /// Whether a chunk with the usage comes before the end.
    include_usage: Option<bool>,
}

/// What the chat dialect has no fields for.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "documents what the reader below takes")]
pub struct VideoOptions {
    /// Length in seconds.
    seconds: Option<f64>,
    /// Width and height, as in `1280x720`.
    size: Option<String>,
    /// In place of the size: its fineness, as in `1080p`.
    resolution: Option<String>,
    /// In place of the size: its shape, as in `16:9`.
    aspect_ratio: Option<String>,
    /// The last frame: an https, http or data: address.
    end_image: Option<String>,
    /// Pictures of what the video is about: https, http or data: addresses.
    reference_images: Option<Vec<String>>,
    /// With sound or without, where the model can choose.
    audio: Option<bool>,
    /// Decides everything that the prompt leaves to chance.
    seed: Option<u64>,
    /// What the video shall not show.
    negative_prompt: Option<String>,
}

/// A request that was read.
#[derive(Debug)]
pub struct Chat {
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
    seed: "video.seed",
    negative_prompt: "video.negative_prompt",
    prompt: "messages",
    picture: "messages",
    end_picture: "video.end_image",
    references: "video.reference_images",
};

/// Reads a request.
pub fn read(body: &Fields<'_>) -> Option<Chat> {
    body.require("model");
    let model = body.string("model", 200);
    if model.as_deref() == Some("") {
        body.fault("model", ErrorCode::InvalidValue, "Must not be empty.");
    }
    let Asked {
        prompt,
        pictures,
        conversation,
    } = messages(body).unwrap_or_default();
    check_ignored(body);
    let video = body.object("video");
    let video = video.as_ref();
    let order = VideoOrder {
        model: model.clone(),
        prompt,
        pictures,
        end_picture: video.and_then(shared::end_image),
        references: video.map(shared::reference_images).unwrap_or_default(),
        seconds: video.and_then(shared::seconds),
        size: video.and_then(shared::size),
        frame: video.map(shared::frame).unwrap_or_default(),
        audio: video.and_then(|video| video.boolean("audio")),
        seed: video.and_then(shared::seed),
        negative_prompt: video.and_then(|video| video.filled_string("negative_prompt", PROMPT)),
        provider_options: provider_options(body, video),
        count: body
            .integer("n", 1..=4)
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(1),
        conversation,
        user: body.filled_string("user", 512),
        params: PARAMS,
    };
    let stream = body.boolean("stream").unwrap_or(false);
    let include_usage = body
        .object("stream_options")
        .and_then(|options| options.boolean("include_usage"));
    model.map(|_| Chat {
        order,
        stream,
        include_usage: include_usage.unwrap_or(false),
    })
}

/// Beside `video`, or within.
fn provider_options(body: &Fields<'_>, video: Option<&Fields<'_>>) -> Map<String, Value> {
    let mut options = shared::provider_options(body);
    let within = video.map(shared::provider_options).unwrap_or_default();
    if !options.is_empty() && !within.is_empty() {
        let message = "Say it here or in video, not twice.";
        body.fault("provider_options", ErrorCode::InvalidValue, message);
    }
    options.extend(within);
    options
}

/// What is checked and has no effect on a video.
fn check_ignored(body: &Fields<'_>) {
    body.number("temperature", 0.0..=2.0);
    body.number("top_p", 0.0..=1.0);
    body.number("presence_penalty", -2.0..=2.0);
    body.number("frequency_penalty", -2.0..=2.0);
    body.integer("max_tokens", 1..=i64::MAX);
    body.object("logit_bias");
    match body.value("stop") {
        None | Some(Value::String(_)) => {
            body.string("stop", 1000);
        }
        Some(Value::Array(items)) => {
            if items.len() > 4 || items.iter().any(|item| !item.is_string()) {
                body.fault(
                    "stop",
                    ErrorCode::InvalidValue,
                    "Must be a string or up to four strings.",
                );
            }
        }
        Some(_) => body.fault(
            "stop",
            ErrorCode::InvalidType,
            "Must be a string or an array of strings.",
        ),
    }
}

type Prompt = (String, Vec<(PictureSource, String)>);

/// What the messages ask for.
#[derive(Default)]
struct Asked {
    prompt: String,
    pictures: Vec<(PictureSource, String)>,
    conversation: Vec<Message>,
}

/// Checks all messages; the last user message is the order, those before it
/// are the conversation.
fn messages(body: &Fields<'_>) -> Option<Asked> {
    body.require("messages");
    let items = body.array("messages", MESSAGES)?;
    if items.is_empty() {
        body.fault(
            "messages",
            ErrorCode::InvalidValue,
            "Must have at least one message.",
        );
        return None;
    }
    let mut last = None;
    let mut said = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(message) = body.item("messages", index, item) else {
            continue;
        };
        message.require("role");
        let role = message.string("role", 32);
        if role
            .as_ref()
            .is_some_and(|role| !ROLES.contains(&role.as_str()))
        {
            message.fault(
                "role",
                ErrorCode::InvalidValue,
                format!("Must be one of {}.", ROLES.join(", ")),
            );
        }
        // An assistant that called a tool has no content.
        if role.as_deref() != Some("assistant") {
            message.require("content");
        }
        let content = content(&message);
        let text = content.as_ref().map(|(text, _)| text.clone());
        if let (Some(role), Some(text)) = (&role, text) {
            said.push((
                index,
                Message {
                    role: role.clone(),
                    text,
                },
            ));
        }
        if role.as_deref() == Some("user") {
            last = Some((index, content));
        }
    }
    let Some((index, content)) = last else {
        body.fault(
            "messages",
            ErrorCode::InvalidValue,
            "Must have a message with the role user.",
        );
        return None;
    };
    let (prompt, pictures) = content?;
    if prompt.trim().is_empty() && pictures.is_empty() {
        let param = format!("messages[{index}].content");
        body.fault_at(
            param,
            ErrorCode::InvalidValue,
            "Must hold a prompt or an image.",
        );
    }
    said.retain(|(at, _)| *at < index);
    Some(Asked {
        prompt,
        pictures,
        conversation: said.into_iter().map(|(_, message)| message).collect(),
    })
}

/// A message's text and pictures.
fn content(message: &Fields<'_>) -> Option<Prompt> {
    match message.value("content")? {
        Value::String(_) => Some((message.string("content", PROMPT)?, Vec::new())),
        Value::Array(_) => {
            let mut texts = Vec::new();
            let mut pictures = Vec::new();
            for (index, item) in message.array("content", PARTS)?.iter().enumerate() {
                let Some(part) = message.item("content", index, item) else {
                    continue;
                };
                part.require("type");
                match part.string("type", 64).as_deref() {
                    Some("text") => {
                        part.require("text");
                        texts.extend(part.string("text", PROMPT));
                    }
                    Some("image_url") => pictures.extend(picture(&part)),
                    Some(_) => {
                        let message = "Must be \"text\" or \"image_url\".";
                        part.fault("type", ErrorCode::UnsupportedValue, message);
                    }
                    None => {}
                }
            }
            let text = texts.join("\n");
            if text.chars().count() > PROMPT {
                message.fault(
                    "content",
                    ErrorCode::InvalidValue,
                    format!("Must have at most {PROMPT} characters of text."),
                );
            }
            Some((text, pictures))
        }
        _ => {
            message.fault(
                "content",
                ErrorCode::InvalidType,
                "Must be a string or an array of parts.",
            );
            None
        }
    }
}

fn picture(part: &Fields<'_>) -> Option<(PictureSource, String)> {
    part.require("image_url");
    let image = part.object("image_url")?;
    image.require("url");
    let url = image.string("url", ADDRESS)?;
    if url.is_empty() {
        image.fault("url", ErrorCode::InvalidValue, "Must not be empty.");
        return None;
    }
    Some((PictureSource::Address(url), image.path("url")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::Error;
    use crate::http::wire::fields;

    fn parse(body: &Value) -> Result<Chat, Error> {
        fields::read(body, read)
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
