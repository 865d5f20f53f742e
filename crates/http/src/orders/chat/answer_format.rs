//! Answer format: the fields of a chat that say what kind of answer is wanted.
//!
//! A film is not a tool call, not JSON and not audio: a request that insists on one of these is
//! refused before anything is made, with an error that is not retried.

use serde_json::{Map, Value};
use utoipa::openapi::schema::{AnyOfBuilder, ArrayBuilder, ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use crate::fields::types::{text, texts};
use crate::fields::{BodyFields, FieldType};
use mediagate_model::error::ErrorCode;

/// Maximum number of modalities in a request.
const MAX_MODALITIES: usize = 16;

/// One text or up to four.
pub struct StopSequences;

impl FieldType for StopSequences {
    type Value = ();

    fn read(body: &BodyFields<'_>, name: &str) -> Option<()> {
        match body.value(name)? {
            Value::String(_) => {
                body.string(name, 1000);
            }
            Value::Array(items) if items.iter().all(Value::is_string) => {
                if items.len() > 4 {
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

/// Whether a tool has to be called. Tools that are only offered do not prevent the order.
pub struct ToolChoice;

impl FieldType for ToolChoice {
    type Value = ();

    fn read(body: &BodyFields<'_>, name: &str) -> Option<()> {
        let choice = match body.value(name)? {
            Value::String(choice) => Some(choice.as_str()),
            Value::Object(choice) => mode(choice),
            _ => {
                let message = "Must be \"none\" or \"auto\".";
                body.fault(name, ErrorCode::InvalidType, message);
                return None;
            }
        };
        // A film cannot be a tool call. Agent libraries would retry, and each try would be a paid
        // film.
        if !matches!(choice, Some("none" | "auto")) {
            let message = "Must be \"none\" or \"auto\": a video model cannot call tools.";
            body.fault(name, ErrorCode::UnsupportedValue, message);
        }
        None
    }

    fn schema() -> RefOr<Schema> {
        let name = ObjectBuilder::new().schema_type(Type::String);
        let name = name.enum_values(Some(["none", "auto"]));
        let object = ObjectBuilder::new().schema_type(Type::Object);
        AnyOfBuilder::new().item(name).item(object).into()
    }
}

/// The mode of a choice that is an object: `{"type": "auto"}`, or the mode of a list of allowed
/// tools.
fn mode(choice: &Map<String, Value>) -> Option<&str> {
    let choice_type = choice.get("type")?.as_str()?;
    if choice_type == "allowed_tools" {
        let list = choice.get("allowed_tools")?.as_object()?;
        return list.get("mode")?.as_str();
    }
    Some(choice_type)
}

/// The format of the answer. It must be text: the answer is a URL.
pub struct ResponseFormat;

impl FieldType for ResponseFormat {
    type Value = ();

    fn read(body: &BodyFields<'_>, name: &str) -> Option<()> {
        let kind = match body.value(name)? {
            Value::String(kind) => Some(kind.as_str()),
            Value::Object(format) => format.get("type").and_then(Value::as_str),
            _ => {
                body.fault(name, ErrorCode::InvalidType, "Must be an object.");
                return None;
            }
        };
        // Libraries for structured output send this by default and retry if the answer is not JSON.
        if kind != Some("text") {
            let message = "Must be {\"type\": \"text\"}: a video model responds with a URL.";
            body.fault(name, ErrorCode::UnsupportedValue, message);
        }
        None
    }

    fn schema() -> RefOr<Schema> {
        let kind = || {
            let kind = ObjectBuilder::new().schema_type(Type::String);
            kind.enum_values(Some(["text"]))
        };
        let object = ObjectBuilder::new().schema_type(Type::Object);
        let object = object.property("type", kind()).required("type");
        AnyOfBuilder::new().item(object).item(kind()).into()
    }
}

/// The kinds of answer that are wanted: text or video must be among them.
pub struct AnswerModalities;

impl FieldType for AnswerModalities {
    type Value = ();

    fn read(body: &BodyFields<'_>, name: &str) -> Option<()> {
        let kinds = body.array(name, MAX_MODALITIES)?;
        if !kinds.iter().all(Value::is_string) {
            let message = "Must be an array of strings.";
            body.fault(name, ErrorCode::InvalidType, message);
            return None;
        }
        let is_made = |kind: &str| {
            ["text", "video"]
                .iter()
                .any(|supported| kind.eq_ignore_ascii_case(supported))
        };
        if !kinds.iter().filter_map(Value::as_str).any(is_made) {
            let message =
                "Must include \"text\" or \"video\": a video model supports no other output.";
            body.fault(name, ErrorCode::UnsupportedValue, message);
        }
        None
    }

    fn schema() -> RefOr<Schema> {
        let kind = ObjectBuilder::new().schema_type(Type::String);
        let list = ArrayBuilder::new().items(kind);
        list.min_items(Some(1))
            .max_items(Some(MAX_MODALITIES))
            .into()
    }
}

/// Whether the video has sound: `true` or `false`. An object under this name is the chat API's own
/// field, which describes a spoken answer and has no effect on a video.
pub struct AnswerAudio;

impl FieldType for AnswerAudio {
    type Value = bool;

    fn read(body: &BodyFields<'_>, name: &str) -> Option<bool> {
        if body.value(name)?.is_object() {
            return None;
        }
        body.boolean(name)
    }

    fn schema() -> RefOr<Schema> {
        let flag = ObjectBuilder::new().schema_type(Type::Boolean);
        let object = ObjectBuilder::new().schema_type(Type::Object);
        AnyOfBuilder::new().item(flag).item(object).into()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::orders::ApiOrder as _;
    use crate::orders::chat::ChatOrder;
    use mediagate_model::error::Error;

    fn read(field: &str, value: &Value) -> Result<ChatOrder, Error> {
        ChatOrder::read(
            &json!({"model": "m", "messages": [{"role": "user", "content": "x"}],
            "tools": [{"type": "function", "function": {"name": "f"}}], field: value}),
        )
    }

    #[test]
    fn formats_that_a_film_can_have_are_accepted() {
        for (field, value) in [
            ("tool_choice", json!(null)),
            ("tool_choice", json!("none")),
            ("tool_choice", json!("auto")),
            ("tool_choice", json!({"type": "auto"})),
            (
                "tool_choice",
                json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}),
            ),
            ("function_call", json!("auto")),
            ("function_call", json!("none")),
            ("response_format", json!(null)),
            ("response_format", json!({"type": "text"})),
            ("modalities", json!(null)),
            ("modalities", json!(["text"])),
            ("modalities", json!(["text", "audio"])),
            ("modalities", json!(["video"])),
            ("modalities", json!(["IMAGE", "VIDEO"])),
        ] {
            assert!(read(field, &value).is_ok(), "{field}: {value}");
        }
    }

    #[test]
    fn formats_that_no_film_can_have_are_refused() {
        let function = json!({"type": "function", "function": {"name": "f"}});
        for (field, value) in [
            ("tool_choice", json!("required")),
            ("tool_choice", json!("any")),
            ("tool_choice", json!("")),
            ("tool_choice", function),
            ("tool_choice", json!({})),
            (
                "tool_choice",
                json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}}),
            ),
            (
                "tool_choice",
                json!({"type": "custom", "custom": {"name": "f"}}),
            ),
            ("function_call", json!({"name": "f"})),
            ("response_format", json!({"type": "json_object"})),
            (
                "response_format",
                json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}),
            ),
            ("response_format", json!({})),
            ("response_format", json!("json_object")),
            ("modalities", json!(["audio"])),
            ("modalities", json!(["image", "audio"])),
            ("modalities", json!([])),
        ] {
            let error = read(field, &value).unwrap_err();
            assert_eq!(
                (error.code(), error.param()),
                (ErrorCode::UnsupportedValue, Some(field)),
                "{field}: {value}"
            );
        }
        for (field, value) in [
            ("tool_choice", json!(1)),
            ("tool_choice", json!(["auto"])),
            ("function_call", json!(true)),
            ("response_format", json!(5)),
            ("response_format", json!(["text"])),
            ("modalities", json!("audio")),
            ("modalities", json!([1])),
            ("stop", json!(1)),
            ("stop", json!([1])),
            ("stop", json!(["a", null])),
        ] {
            let error = read(field, &value).unwrap_err();
            assert_eq!(
                (error.code(), error.param()),
                (ErrorCode::InvalidType, Some(field)),
                "{field}: {value}"
            );
        }
    }
}
