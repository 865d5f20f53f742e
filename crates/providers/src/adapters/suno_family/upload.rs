//! Upload of a recording to the provider, before it can be worked on.
//!
//! ```text
//! direct  POST /uploads/audio                     multipart file, title → clip {id}
//!
//! s3      POST /uploads/audio                     {extension} → {id, url, fields}
//!         POST {url}                              multipart: the fields, then the file; no credential
//!         POST /uploads/audio/{id}/upload-finish  {upload_type, upload_filename}
//!         GET  /uploads/audio/{id}                until status is complete
//!         POST /uploads/audio/{id}/initialize-clip → clip_id
//! ```
//!
//! `direct` is what Mediagate takes. Nothing here is charged, so all of it may be repeated.
//! Unknown: the status words of an incomplete upload; only `error` counts as an end.

use std::time::Duration;

use http::Method;
use serde_json::{Map, Value, json};

use super::{envelope, recordings};
use crate::error::{ErrorClass, ProviderError};
use crate::order::{MediaFile, Order, SourceRecording, WorkSpec};
use crate::port::jobs::upload;
use crate::port::{Call, CallContext, FormPart, MAX_STATUS_BYTES, RequestBody};
use crate::response::{ProviderResponse, required_text, text_at};

/// How recordings are uploaded.
#[derive(Debug, Clone, Copy)]
pub(super) enum UploadMode {
    /// In five steps through a bucket.
    S3,
    /// The file is uploaded in one form.
    Direct,
    /// Uploads are not supported.
    None,
}

/// The next step after an answer.
pub(super) enum UploadStep {
    /// The next one.
    Next(Box<Call>),
    /// The upload is done; these are the ids of all so far, by field.
    Uploaded(Map<String, Value>),
}

impl UploadStep {
    fn next(call: Call) -> Self {
        Self::Next(Box::new(call))
    }
}

/// The pause between two polls of an upload.
const WAIT: Duration = Duration::from_secs(2);
/// Maximum number of polls of an upload.
const MAX_UPLOAD_POLLS: u64 = 60;

impl UploadMode {
    /// The first step for the recording of `field`.
    pub(super) fn start(
        self,
        order: &Order,
        field: &str,
        recording: &SourceRecording,
        clip_ids: &Map<String, Value>,
    ) -> Result<Call, ProviderError> {
        let file = &recording.file;
        let carried_data = json!({"clip_ids": clip_ids, "field": field});
        match self {
            Self::S3 => {
                let extension = file.name.rsplit_once('.').map_or("flac", |(_, end)| end);
                let body = json!({"extension": extension});
                Ok(Call::post("grant", "/uploads/audio", body).with_carried_data(carried_data))
            }
            Self::Direct => {
                let parts = vec![
                    FormPart::text("title", title(order, file)),
                    FormPart::file("file", file),
                ];
                Ok(Call::new("direct", Method::POST, "/uploads/audio")
                    .with_body(RequestBody::Multipart(parts))
                    .with_carried_data(carried_data)
                    .with_long_timeout(MAX_STATUS_BYTES))
            }
            Self::None => Err(ProviderError::new(
                ErrorClass::Rejected,
                "this provider works only on its own audio files, because its settings have upload = \"none\"",
            )),
        }
    }
}

fn title(order: &Order, file: &MediaFile) -> String {
    match &order.work {
        WorkSpec::Stems(stems) if !stems.title.is_empty() => stems.title.clone(),
        _ => file.name.clone(),
    }
}

/// Reads the answer to a step.
pub(super) fn read(
    order: &Order,
    context: &CallContext,
    answer: &ProviderResponse,
) -> Result<UploadStep, ProviderError> {
    let carried_data = &context.carried_data;
    let field = carried_data["field"].as_str().unwrap_or_default();
    let id = carried_data["id"].as_str().unwrap_or_default();
    let path = format!("/uploads/audio/{id}");
    let poll_upload = |polls: u64| {
        let mut carried_data = carried_data.clone();
        carried_data["polls"] = json!(polls);
        Call::get("look", path.as_str()).with_carried_data(carried_data)
    };
    let file = recordings(&order.work)
        .into_iter()
        .find(|(name, _)| *name == field)
        .map(|(_, recording)| &recording.file)
        .ok_or_else(|| ProviderError::unreadable("an upload was not requested"))?;
    Ok(match context.stage.as_ref() {
        "grant" => {
            let grant = envelope(answer)?;
            let url = required_text(&grant, "/url")?;
            let mut carried_data = carried_data.clone();
            carried_data["id"] = json!(required_text(&grant, "/id")?);
            let put = upload::form("put", url, grant["fields"].as_object(), file);
            UploadStep::next(
                put.with_carried_data(carried_data)
                    .with_long_timeout(MAX_STATUS_BYTES),
            )
        }
        "put" => {
            upload::check_stored(answer)?;
            let body = json!({"upload_type": "file_upload", "upload_filename": file.name});
            let finish = Call::post("finish", format!("{path}/upload-finish"), body);
            UploadStep::next(finish.with_carried_data(carried_data.clone()))
        }
        "finish" => {
            envelope(answer)?;
            UploadStep::next(poll_upload(0))
        }
        "look" => {
            let upload = envelope(answer)?;
            let polls = carried_data["polls"].as_u64().unwrap_or(0) + 1;
            match text_at(&upload, "/status").as_deref() {
                Some("complete") => {
                    let start = Call::post("clip", format!("{path}/initialize-clip"), json!({}));
                    UploadStep::next(start.with_carried_data(carried_data.clone()))
                }
                Some("error") => {
                    let reason = text_at(&upload, "/error_message");
                    let reason =
                        reason.unwrap_or_else(|| "the provider cannot use the audio file".into());
                    return Err(ProviderError::new(ErrorClass::Rejected, reason));
                }
                // Nothing was ordered, so the order may be sent elsewhere instead of waiting
                // longer.
                _ if polls >= MAX_UPLOAD_POLLS => {
                    let message = "the provider did not finish processing the upload";
                    return Err(ProviderError::new(ErrorClass::Unavailable, message));
                }
                _ => UploadStep::next(poll_upload(polls).with_delay(WAIT)),
            }
        }
        // Both `direct` and the last step return the clip.
        _ => finished_upload(carried_data, field, &envelope(answer)?)?,
    })
}

fn finished_upload(
    carried_data: &Value,
    field: &str,
    clip: &Value,
) -> Result<UploadStep, ProviderError> {
    let id = text_at(clip, "/clip_id").or_else(|| text_at(clip, "/id"));
    let id = id.ok_or_else(|| ProviderError::unreadable("the upload did not become a clip"))?;
    let mut clip_ids = carried_data["clip_ids"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    clip_ids.insert(field.to_owned(), json!(id));
    Ok(UploadStep::Uploaded(clip_ids))
}
