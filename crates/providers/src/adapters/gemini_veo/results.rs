//! Results of Google's operations: videos and songs, or why there are none.

use serde_json::Value;

use crate::error::{ErrorClass, ProviderError};
use crate::port::{AdapterStep, Call, JobOutput, MAX_RESULT_BYTES, OutputKind, OutputSource};
use crate::response::text_at;

/// The videos of an operation that is done, or why there are none.
pub(super) fn read_operation(response: &Value) -> Result<AdapterStep, ProviderError> {
    let first = |member: &str| response[member].as_array().and_then(|items| items.first());
    let sample = first("generatedSamples").map(|sample| &sample["video"]);
    if let Some(video) = sample.or(first("videos")) {
        return AdapterStep::done(vec![JobOutput {
            kind: OutputKind::Video,
            source: source(video, "v1beta")?,
        }]);
    }
    let reason = text_at(response, "/raiMediaFilteredReasons/0");
    let is_filtered = response["raiMediaFilteredCount"].as_u64().unwrap_or(0) > 0;
    if is_filtered || reason.is_some() {
        let message = reason.unwrap_or("a content filter blocked the video".into());
        return Err(ProviderError::new(ErrorClass::Refused, message));
    }
    AdapterStep::done(Vec::new())
}

/// The source of a video: a file of this version of the Gemini API, or inline data.
pub(super) fn source(video: &Value, version: &str) -> Result<OutputSource, ProviderError> {
    for pointer in ["/bytesBase64Encoded", "/encodedVideo", "/data"] {
        if let Some(text) = text_at(video, pointer) {
            use base64::Engine as _;
            let bytes = base64::engine::general_purpose::STANDARD.decode(text);
            let wrong = |_| ProviderError::unreadable("the video in the response is not base64");
            return Ok(OutputSource::Bytes(bytes.map_err(wrong)?.into()));
        }
    }
    let uri = ["/uri", "/gcsUri"]
        .iter()
        .find_map(|pointer| text_at(video, pointer));
    let uri = uri.ok_or_else(|| {
        ProviderError::new(
            ErrorClass::Failed,
            "the provider returned a video without a location",
        )
    })?;
    // Polling does not change its location, so the job fails with a hint for the operator.
    if uri.starts_with("gs://") {
        let message = "the video is in a Cloud Storage bucket, which Mediagate does not read: \
                       have the project deliver inline";
        return Err(ProviderError::new(ErrorClass::Failed, message));
    }
    // A file needs the key, which is sent only with calls.
    let Some(id) = file_id(&uri) else {
        return Ok(OutputSource::Address(uri));
    };
    let mut content =
        Call::get("content", format!("/{version}/files/{id}:download")).with_query("alt", "media");
    content.limit_bytes = MAX_RESULT_BYTES;
    Ok(OutputSource::Call(Box::new(content)))
}

/// The id in `…/files/{id}:download?alt=media`.
fn file_id(uri: &str) -> Option<&str> {
    let (_, after) = uri.split_once("files/")?;
    let id = after.split([':', '?', '/', '#']).next()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (!id.is_empty() && id.bytes().all(is_plain)).then_some(id)
}
