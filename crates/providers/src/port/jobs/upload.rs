//! Files that are uploaded to a provider before the order. An upload orders nothing, so it may be
//! repeated freely.

use http::Method;
use serde_json::{Map, Value};

use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::order::MediaFile;
use crate::port::{Call, CallTarget, FormPart, RequestBody};
use crate::response::ProviderResponse;

/// The names or URLs of the files uploaded before, as stored in a call's carried data.
pub fn uploaded_names(carried_data: &Value) -> Vec<String> {
    let names = carried_data.as_array().into_iter().flatten();
    names
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

/// Uploads a file to a URL from the provider.
pub fn put(stage: &'static str, url: String, file: &MediaFile) -> Call {
    Call::new(stage, Method::PUT, "")
        .with_target(CallTarget::Address(url))
        // The URL contains its own signature, and the key is only for the provider.
        .without_credential()
        .with_body(RequestBody::Bytes {
            bytes: file.bytes.clone(),
            mime: file.mime.into(),
        })
}

/// Like [`put`], as a form: the fields that the provider requires, and the file last.
pub fn form(
    stage: &'static str,
    url: String,
    fields: Option<&Map<String, Value>>,
    file: &MediaFile,
) -> Call {
    let fields = fields.into_iter().flatten();
    let text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let mut parts: Vec<FormPart> = fields
        .map(|(name, value)| FormPart::text(name, text(value)))
        .collect();
    // S3-compatible storage ignores the fields after the file.
    parts.push(FormPart::file("file", file));
    Call::new(stage, Method::POST, "")
        .with_target(CallTarget::Address(url))
        .without_credential()
        .with_body(RequestBody::Multipart(parts))
}

/// Checks whether an upload succeeded. The storage service has its own error format.
pub fn check_stored(answer: &ProviderResponse) -> Result<(), ProviderError> {
    if answer.status.is_success() {
        return Ok(());
    }
    let error = answer.failure(|_| ErrorDescription::default());
    // A 403 of the storage says nothing about the provider's key, which it did not receive.
    Err(error.with_class(ErrorClass::Unavailable))
}

/// The error of a call before the order.
pub fn as_upload_error(error: ProviderError) -> ProviderError {
    match error.class {
        // Nothing was ordered, so the outcome cannot be unclear, and another route may get the
        // order.
        ErrorClass::Unclear => error.with_class(ErrorClass::Unavailable),
        _ => error,
    }
}
