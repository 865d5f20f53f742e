//! Files that a provider is given before the order. Nothing is ordered by that,
//! so nothing is unclear about it, and it is repeated freely.

use http::Method;
use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::error::{Class, Described, ProviderError};
use crate::order::File;
use crate::port::{Body, Call, Part, Target};

/// The names or addresses that the files before this one got, as a call
/// remembers them.
pub fn ready(memo: &Value) -> Vec<String> {
    let names = memo.as_array().into_iter().flatten();
    names
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

/// Brings a file to an address that the provider named for it.
pub fn put(stage: &'static str, to: String, file: &File) -> Call {
    Call::new(stage, Method::PUT, "")
        .to(Target::Address(to))
        .without_credential()
        .with_body(Body::Bytes {
            bytes: file.bytes.clone(),
            mime: file.mime.into(),
        })
}

/// The same as a form: the fields that the provider named, and the file last.
pub fn form(
    stage: &'static str,
    to: String,
    fields: Option<&Map<String, Value>>,
    file: &File,
) -> Call {
    let fields = fields.into_iter().flatten();
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let mut parts: Vec<Part> = fields
        .map(|(name, value)| Part::text(name, text(value)))
        .collect();
    parts.push(Part::file("file", file));
    Call::new(stage, Method::POST, "")
        .to(Target::Address(to))
        .without_credential()
        .with_body(Body::Multipart(parts))
}

/// Whether a file got to an address. The storage behind it speaks a language of
/// its own.
pub fn stored(answer: &Answer) -> Result<(), ProviderError> {
    if answer.status.is_success() {
        return Ok(());
    }
    let error = answer.failure(|_| Described::default());
    Err(error.of_class(Class::Unavailable))
}

/// The error of a call before the order.
pub fn before_the_order(error: ProviderError) -> ProviderError {
    match error.class {
        Class::Unclear => error.of_class(Class::Unavailable),
        _ => error,
    }
}
