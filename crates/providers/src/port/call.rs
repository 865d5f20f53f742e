//! A described HTTP request.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The effect of a call at the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallEffect {
    /// It costs nothing and may be repeated.
    Free,
    /// The provider may accept the order: it is sent once.
    Submission,
}

/// How long a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutClass {
    /// An answer at once: 30 s by default.
    Short,
    /// The work is done while the connection is open: 15 min by default.
    Work,
}

/// Where a call is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallTarget {
    /// A path below the provider's base URL, with a slash in front.
    Path(String),
    /// A path from the root of the provider's host.
    Root(String),
    /// A URL from the settings or an answer. The credential is sent only to the provider's own
    /// hosts.
    Address(String),
}

/// A described HTTP request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Call {
    /// The name of this step; returned in [`CallContext`].
    pub stage: Cow<'static, str>,
    /// Data that the next step needs besides the order; returned in [`CallContext`].
    #[serde(rename = "memo")]
    pub carried_data: Value,
    /// The method.
    #[serde(with = "method")]
    pub method: Method,
    /// The call's target.
    #[serde(rename = "to")]
    pub target: CallTarget,
    /// Query parameters.
    pub query: Vec<(String, String)>,
    /// Headers besides the credential and the content type.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: RequestBody,
    /// Its effect at the provider.
    pub effect: CallEffect,
    /// Whether the credential is sent.
    pub with_credential: bool,
    /// How long it may take.
    #[serde(rename = "patience")]
    pub timeout: TimeoutClass,
    /// Maximum size of the answer, in bytes. For a
    /// [`OutputSource::Call`](super::OutputSource::Call) the operator's limit for results applies
    /// instead.
    pub limit_bytes: u64,
    /// How long to wait before it is sent, for steps that poll until something is ready.
    pub delay: Option<Duration>,
}

/// Maximum size of an answer that only reports a status, in bytes.
pub const MAX_STATUS_BYTES: u64 = 256_000;

/// Maximum size of an answer that repeats an order or streams a text, in bytes. Also of one that
/// accepts an order: without it, the job's id would be lost.
pub const MAX_ANSWER_BYTES: u64 = 8_000_000;

/// Maximum size of a result, in bytes.
pub const MAX_RESULT_BYTES: u64 = 1_000_000_000;

impl Call {
    /// A call with the credential, to a path below the base URL, that may be repeated.
    pub fn new(
        stage: impl Into<Cow<'static, str>>,
        method: Method,
        path: impl Into<String>,
    ) -> Self {
        Self {
            stage: stage.into(),
            carried_data: Value::Null,
            method,
            target: CallTarget::Path(path.into()),
            query: Vec::new(),
            headers: Vec::new(),
            body: RequestBody::Empty,
            effect: CallEffect::Free,
            with_credential: true,
            timeout: TimeoutClass::Short,
            limit_bytes: MAX_STATUS_BYTES,
            delay: None,
        }
    }

    /// `GET` of a path.
    pub fn get(stage: impl Into<Cow<'static, str>>, path: impl Into<String>) -> Self {
        Self::new(stage, Method::GET, path)
    }

    /// `POST` of JSON to a path.
    pub fn post(stage: impl Into<Cow<'static, str>>, path: impl Into<String>, body: Value) -> Self {
        Self::new(stage, Method::POST, path).with_body(RequestBody::Json(body))
    }

    /// Sets a target other than a path below the base URL.
    #[must_use]
    pub fn with_target(mut self, target: CallTarget) -> Self {
        self.target = target;
        self
    }

    /// Marks the call with which the order is submitted.
    #[must_use]
    pub const fn mark_submission(mut self) -> Self {
        self.effect = CallEffect::Submission;
        if self.limit_bytes < MAX_ANSWER_BYTES {
            self.limit_bytes = MAX_ANSWER_BYTES;
        }
        self
    }

    /// Sends this body.
    #[must_use]
    pub fn with_body(mut self, body: RequestBody) -> Self {
        self.body = body;
        self
    }

    /// Merges these fields into the body: objects are merged, anything else is replaced. In a form,
    /// each becomes a field.
    #[must_use]
    pub fn with_extra(mut self, extra: &Map<String, Value>) -> Self {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        match &mut self.body {
            RequestBody::Json(Value::Object(body)) => merge(body, extra),
            RequestBody::Form(fields) => {
                fields.retain(|(name, _)| !extra.contains_key(name));
                fields.extend(
                    extra
                        .iter()
                        .map(|(name, value)| (name.clone(), text(value))),
                );
            }
            RequestBody::Multipart(parts) => {
                parts.retain(
                    |part| !matches!(part, FormPart::Text { name, .. } if extra.contains_key(name)),
                );
                parts.extend(
                    extra
                        .iter()
                        .map(|(name, value)| FormPart::text(name, text(value))),
                );
            }
            RequestBody::Json(_) | RequestBody::Empty | RequestBody::Bytes { .. } => {}
        }
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a query parameter.
    #[must_use]
    pub fn with_query(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.query.push((name.into(), value.into()));
        self
    }

    /// Stores data for the step that reads the answer.
    #[must_use]
    pub fn with_carried_data(mut self, carried_data: Value) -> Self {
        self.carried_data = carried_data;
        self
    }

    /// Sends no credential.
    #[must_use]
    pub const fn without_credential(mut self) -> Self {
        self.with_credential = false;
        self
    }

    /// Sets the timeout for work that is done while the connection is open, and a limit of
    /// `limit_bytes` for the answer.
    #[must_use]
    pub const fn with_long_timeout(mut self, limit_bytes: u64) -> Self {
        self.timeout = TimeoutClass::Work;
        self.limit_bytes = limit_bytes;
        self
    }

    /// Sets the maximum size of the answer, in bytes.
    #[must_use]
    pub const fn with_limit(mut self, limit_bytes: u64) -> Self {
        self.limit_bytes = limit_bytes;
        self
    }

    /// Delays the call.
    #[must_use]
    pub const fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// The fields of the body; `None` if it is or contains a file, or has no fields.
    pub fn text_fields(&self) -> Option<Map<String, Value>> {
        let text = |(name, value): (&String, &String)| (name.clone(), Value::from(value.as_str()));
        match &self.body {
            RequestBody::Json(Value::Object(fields)) => Some(fields.clone()),
            RequestBody::Form(fields) => Some(
                fields
                    .iter()
                    .map(|(name, value)| text((name, value)))
                    .collect(),
            ),
            RequestBody::Multipart(parts) => parts
                .iter()
                .map(|part| match part {
                    FormPart::Text { name, value } => Some(text((name, value))),
                    FormPart::File { .. } => None,
                })
                .collect(),
            RequestBody::Json(_) | RequestBody::Empty | RequestBody::Bytes { .. } => None,
        }
    }

    /// The data about this call that the adapter gets with its answer.
    pub fn context(&self) -> CallContext {
        CallContext {
            stage: self.stage.clone(),
            carried_data: self.carried_data.clone(),
        }
    }
}

/// Merges objects into objects; anything else replaces the existing value.
pub fn merge(target: &mut Map<String, Value>, extra: &Map<String, Value>) {
    for (name, value) in extra {
        match (target.get_mut(name), value) {
            (Some(Value::Object(existing)), Value::Object(value)) => merge(existing, value),
            _ => {
                target.insert(name.clone(), value.clone());
            }
        }
    }
}

/// The call that an answer belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct CallContext {
    /// [`Call::stage`].
    pub stage: Cow<'static, str>,
    /// [`Call::carried_data`].
    pub carried_data: Value,
}

/// A method as its name.
mod method {
    use http::Method;
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(
        method: &Method,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(method.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Method, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(de::Error::custom)
    }
}

/// A request's body. Only one without files can be serialised.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestBody {
    /// No body.
    Empty,
    /// JSON.
    Json(Value),
    /// `application/x-www-form-urlencoded`.
    Form(Vec<(String, String)>),
    /// `multipart/form-data`.
    #[serde(skip)]
    Multipart(Vec<FormPart>),
    /// Bytes of a media type.
    #[serde(skip)]
    Bytes {
        /// The content.
        bytes: Bytes,
        /// The body's media type.
        mime: Cow<'static, str>,
    },
}

/// A part of a multipart body.
#[derive(Debug, Clone)]
pub enum FormPart {
    /// A field.
    Text {
        /// The field's name.
        name: String,
        /// The field's value.
        value: String,
    },
    /// A file.
    File {
        /// The field's name.
        name: String,
        /// The file's name.
        file_name: String,
        /// The part's media type.
        mime: Cow<'static, str>,
        /// The part's content.
        bytes: Bytes,
    },
}

impl FormPart {
    /// A field.
    pub fn text(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self::Text {
            name: name.into(),
            value: value.into(),
        }
    }

    /// A file under a field's name.
    pub fn file(name: impl Into<String>, file: &crate::order::MediaFile) -> Self {
        Self::File {
            name: name.into(),
            file_name: file.name.clone(),
            mime: file.mime.into(),
            bytes: file.bytes.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn extras_go_into_the_body_whatever_its_form() {
        let extra = json!({"audio": false, "input": {"steps": 40}});
        let extra = extra.as_object().unwrap();
        let call = |body| Call::new("submit", Method::POST, "/x").with_body(body);
        let body = json!({"model": "m", "audio": true, "input": {"prompt": "p"}});
        let RequestBody::Json(body) = call(RequestBody::Json(body)).with_extra(extra).body else {
            panic!("not JSON");
        };
        let merged = json!({"model": "m", "audio": false, "input": {"prompt": "p", "steps": 40}});
        assert_eq!(body, merged);
        let parts = vec![
            FormPart::text("audio", "true"),
            FormPart::text("model", "m"),
        ];
        let RequestBody::Multipart(parts) =
            call(RequestBody::Multipart(parts)).with_extra(extra).body
        else {
            panic!("not multipart");
        };
        let texts_of = |field: &str| {
            let texts = parts.iter().filter_map(|part| match part {
                FormPart::Text { name, value } if name == field => Some(value.as_str()),
                _ => None,
            });
            texts.collect::<Vec<_>>()
        };
        assert_eq!(
            (texts_of("audio"), texts_of("model")),
            (vec!["false"], vec!["m"])
        );
        assert_eq!(texts_of("input"), [r#"{"steps":40}"#]);
    }
}
