//! The Interactions API, through which Google offers its newer video models and Lyria.
//!
//! Sources: `google-genai` 3.4.0 (its requests); the guide.
//!
//! ```text
//! POST /v1/interactions              {model, input, response_format, background} → {id}
//! GET  /v1/interactions/{id}         {status, steps: [{content: [{type: video │ audio, uri │ data}]}], errors}
//! POST /v1/interactions/{id}/cancel
//! GET  /v1/files/{id}:download?alt=media
//! ```
//!
//! Unknown: the meaning of an interaction that requires an action; it counts as an unknown status
//! word.

use http::Method;
use serde_json::{Value, json};

use super::MAX_MEDIA_BYTES;
use super::errors::job_error;
use super::results::source;
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::frame_size;
use crate::order::{PictureRole, VideoSpec};
use crate::port::{AdapterStep, Call, JobHandle, JobOutput, OutputKind};
use crate::response::{required_text, text_at};

pub(super) fn start(model: &str, video: &VideoSpec) -> Call {
    let mut content = vec![json!({"type": "text", "text": video.prompt})];
    let picture = video.picture(PictureRole::FirstFrame);
    let mut references = video.references().peekable();
    let has_references = references.peek().is_some();
    content.extend(
        picture
            .into_iter()
            .chain(references)
            .map(|file| json!({"type": "image", "data": file.base64(), "mime_type": file.mime})),
    );
    let task = if picture.is_some() {
        "image_to_video"
    } else if has_references {
        "reference_to_video"
    } else {
        "text_to_video"
    };
    let body = json!({
        "model": model,
        "input": [{"type": "user_input", "content": content}],
        "response_modalities": ["video"],
        "response_format": {
            "type": "video",
            "aspect_ratio": frame_size::ratio(video.size),
            "resolution": super::resolution(video.size),
            "duration": format!("{}s", video.seconds),
            "delivery": "uri",
        },
        "generation_config": {"video_config": {"task": task}},
        "background": true,
    });
    Call::post("submit", "/v1/interactions", body).mark_submission()
}

pub(super) fn poll(handle: &JobHandle) -> Call {
    let path = format!("/v1/interactions/{}", handle.text("id"));
    // The answer may contain the video itself although a URI was requested.
    Call::get("poll", path)
        .with_query("stream", "false")
        .with_long_timeout(MAX_MEDIA_BYTES)
}

pub(super) fn cancel(handle: &JobHandle) -> Call {
    let path = format!("/v1/interactions/{}/cancel", handle.text("id"));
    Call::new("cancel", Method::POST, path)
}

/// The state of an interaction; `job` is its handle.
pub(super) fn read_poll(job: &JobHandle, body: &Value) -> Result<AdapterStep, ProviderError> {
    match required_text(body, "/status")?.as_str() {
        "queued" | "in_progress" => Ok(AdapterStep::running(None)),
        "completed" => {
            let steps = body["steps"].as_array().into_iter().flatten();
            let parts = steps.flat_map(|step| step["content"].as_array().into_iter().flatten());
            let kind = job.output_kind();
            let media_type = match kind {
                OutputKind::Video => "video",
                _ => "audio",
            };
            let mut media = parts.filter(|part| part["type"] == media_type);
            let output = media.next().map(|part| {
                let source = source(part, "v1")?;
                Ok::<_, ProviderError>(JobOutput { kind, source })
            });
            AdapterStep::done(output.transpose()?.into_iter().collect())
        }
        word @ ("failed" | "incomplete" | "budget_exceeded") => {
            let first_text =
                |pointers: [&str; 2]| pointers.iter().find_map(|pointer| text_at(body, pointer));
            let message = first_text(["/errors/0/message", "/error/message"])
                .unwrap_or_else(|| format!("the interaction ended with status {word}"));
            let code =
                first_text(["/errors/0/code", "/error/code"]).unwrap_or_else(|| word.to_owned());
            Err(job_error(ErrorDescription {
                code: Some(code),
                message: Some(message),
            }))
        }
        "cancelled" => Err(ProviderError::new(
            ErrorClass::Lost,
            "the interaction was cancelled",
        )),
        word => Ok(AdapterStep::unknown(word)),
    }
}
