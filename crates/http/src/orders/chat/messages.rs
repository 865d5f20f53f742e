//! The messages of a chat: the last message with the role `user` is the prompt.

use serde_json::Value;
use utoipa::openapi::schema::{
    AnyOfBuilder, ArrayBuilder, Object, ObjectBuilder, OneOfBuilder, Type,
};
use utoipa::openapi::{RefOr, Schema};

use crate::fields::request::{SchemaList, reference};
use crate::fields::types::{RequiredField, TextField, text};
use crate::fields::{BodyFields, FieldType, request};
use crate::orders::video_fields::{MAX_PROMPT, PictureAddress};
use mediagate_core::domain::video::RequestedPicture;
use mediagate_model::error::ErrorCode;
use mediagate_model::task::ConversationMessage;

/// Maximum number of messages in a request, and of parts in a message.
const MAX_MESSAGES: usize = 256;
const MAX_PARTS: usize = 64;
const ROLES: [&str; 6] = [
    "system",
    "developer",
    "user",
    "assistant",
    "tool",
    "function",
];

request! {
    /// A message.
    pub struct ChatMessage {
        /// Role of the author.
        role: RequiredField<MessageRole>,
        /// Text, or parts of type `text` and `image_url`. May be absent in an assistant message.
        content: MessageContent,
    }
}

request! {
    /// A part of the prompt.
    pub struct TextPart {
        /// The text.
        text: RequiredField<TextField<MAX_PROMPT>>,
    }
}

request! {
    /// A source image.
    pub struct ImagePart {
        /// Location of the image.
        image_url: RequiredField<ImageUrl>,
    }
}

request! {
    /// Location of an image.
    pub struct ImageUrl {
        /// An https, http or data: URL.
        url: RequiredField<PictureAddress>,
    }
}

/// The author of a message.
pub struct MessageRole;

impl FieldType for MessageRole {
    type Value = String;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<String> {
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

/// What the messages order: the last user message, and the conversation before it.
#[derive(Debug)]
pub struct ChatPrompt {
    pub prompt: String,
    pub pictures: Vec<RequestedPicture>,
    pub conversation: Vec<ConversationMessage>,
}

/// All messages are checked. The last user message is the prompt; those before it are the
/// conversation.
pub struct MessageList;

impl FieldType for MessageList {
    type Value = ChatPrompt;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<ChatPrompt> {
        let items = body.array(name, MAX_MESSAGES)?;
        if items.is_empty() {
            let message = "Must have at least one message.";
            body.fault(name, ErrorCode::InvalidValue, message);
            return None;
        }
        let mut last = None;
        let mut conversation = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let Some(message) = body.item(name, index, item) else {
                continue;
            };
            let ChatMessage { role, content } = ChatMessage::read(&message);
            // An assistant message that calls a tool has no content.
            if role.as_deref() != Some("assistant") {
                message.require("content");
            }
            let text = content.as_ref().map(|content| content.text.clone());
            let is_from_user = role.as_deref() == Some("user");
            if let (Some(role), Some(text)) = (role, text) {
                conversation.push((index, ConversationMessage { role, text }));
            }
            if is_from_user {
                last = Some((index, content));
            }
        }
        let Some((index, content)) = last else {
            let message = "Must have a message with the role \"user\".";
            body.fault(name, ErrorCode::InvalidValue, message);
            return None;
        };
        let TextAndPictures { text, pictures } = content?;
        if text.trim().is_empty() && pictures.is_empty() {
            let param = format!("{}[{index}].content", body.path(name));
            let message = "Must contain a prompt or an image.";
            body.fault_at(param, ErrorCode::InvalidValue, message);
        }
        // Messages after the prompt are checked, but are not part of the conversation.
        conversation.retain(|(message_index, _)| *message_index < index);
        Some(ChatPrompt {
            prompt: text,
            pictures,
            conversation: conversation
                .into_iter()
                .map(|(_, message)| message)
                .collect(),
        })
    }

    fn schema() -> RefOr<Schema> {
        let list = ArrayBuilder::new().items(reference("ChatMessage"));
        list.min_items(Some(1)).max_items(Some(MAX_MESSAGES)).into()
    }

    fn components(schemas: &mut SchemaList) {
        <ChatMessage as FieldType>::components(schemas);
    }
}

/// The text and the pictures of a message.
#[derive(Debug)]
pub struct TextAndPictures {
    text: String,
    pictures: Vec<RequestedPicture>,
}

/// A message's text, or its parts.
pub struct MessageContent;

impl FieldType for MessageContent {
    type Value = TextAndPictures;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<TextAndPictures> {
        match body.value(name)? {
            Value::String(_) => Some(TextAndPictures {
                text: body.string(name, MAX_PROMPT)?,
                pictures: Vec::new(),
            }),
            Value::Array(_) => Some(parts(body, name, body.array(name, MAX_PARTS)?)),
            _ => {
                let message = "Must be a string or an array of parts.";
                body.fault(name, ErrorCode::InvalidType, message);
                None
            }
        }
    }

    fn schema() -> RefOr<Schema> {
        let part = OneOfBuilder::new()
            .item(with_type("text", TextPart::object()))
            .item(with_type("image_url", ImagePart::object()));
        let parts = ArrayBuilder::new().items(part).max_items(Some(MAX_PARTS));
        AnyOfBuilder::new()
            .item(text(MAX_PROMPT))
            .item(parts)
            .into()
    }

    fn components(schemas: &mut SchemaList) {
        ImagePart::components(schemas);
    }
}

/// A part with its `type`.
fn with_type(name: &str, mut part: Object) -> Object {
    let tag = ObjectBuilder::new().schema_type(Type::String);
    let tag = tag.enum_values(Some([name])).build();
    part.properties.insert("type".into(), tag.into());
    part.required.push("type".into());
    part
}

fn parts(message: &BodyFields<'_>, name: &str, items: &[Value]) -> TextAndPictures {
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
    // Each part is within the limit, but their sum may not be.
    if text.chars().count() > MAX_PROMPT {
        let fault = format!("Must have at most {MAX_PROMPT} characters of text.");
        message.fault(name, ErrorCode::InvalidValue, fault);
    }
    TextAndPictures { text, pictures }
}
