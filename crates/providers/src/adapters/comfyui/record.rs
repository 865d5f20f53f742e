//! Records of the history: the outcome of a job, and its video.

use serde_json::{Map, Value};

use crate::error::{ErrorClass, ProviderError};
use crate::port::{AdapterStep, Call, JobOutput, MAX_RESULT_BYTES, OutputKind, OutputSource};
use crate::response::text_at;

/// Reads a record of the history, which only ended jobs have.
pub(super) fn read_record(record: &Value) -> Result<AdapterStep, ProviderError> {
    match text_at(record, "/status/status_str").as_deref() {
        Some("success") | None => AdapterStep::done(video_of(record).into_iter().collect()),
        Some("error") => Err(failure(record)),
        Some(word) => Ok(AdapterStep::unknown(word)),
    }
}

fn failure(record: &Value) -> ProviderError {
    let messages = record.pointer("/status/messages").and_then(Value::as_array);
    let find_event = |event: &str| {
        let event_message = messages?
            .iter()
            .find(|message| message[0].as_str() == Some(event));
        event_message.map(|message| &message[1])
    };
    if find_event("execution_interrupted").is_some() {
        return ProviderError::new(ErrorClass::Lost, "the job was cancelled at the server");
    }
    let Some(error) = find_event("execution_error") else {
        return ProviderError::new(ErrorClass::Failed, "the graph failed");
    };
    let exception_message = text_at(error, "/exception_message");
    let exception_message =
        exception_message.map_or_else(|| "the graph failed".into(), |text| text.trim().to_owned());
    let class = if exception_message.contains("content_policy_violation") {
        ErrorClass::Refused
    } else {
        ErrorClass::Failed
    };
    let message = match text_at(error, "/node_type") {
        Some(node) => format!("{node}: {exception_message}"),
        None => exception_message,
    };
    ProviderError {
        code: text_at(error, "/exception_type"),
        ..ProviderError::new(class, message)
    }
}

/// The video among a record's outputs, whatever key its node uses. Final files come before
/// previews, then videos before animated pictures.
fn video_of(record: &Value) -> Option<JobOutput> {
    let nodes = record.get("outputs")?.as_object()?.values();
    let files = nodes
        .filter_map(Value::as_object)
        .flat_map(Map::values)
        .filter_map(Value::as_array)
        .flatten();
    let ranked = files.filter_map(|file| {
        let name = file.get("filename")?.as_str()?;
        let extension = name.rsplit('.').next()?.to_ascii_lowercase();
        let format_rank = match extension.as_str() {
            "mp4" | "webm" | "mov" | "mkv" | "m4v" => 0,
            "gif" | "webp" | "apng" => 1,
            _ => return None,
        };
        let is_preview = file.get("type").and_then(Value::as_str) != Some("output");
        Some(((is_preview, format_rank), file))
    });
    let (_, file) = ranked.min_by_key(|(rank, _)| *rank)?;
    let mut call = Call::get("view", "/api/view");
    for field in ["filename", "subfolder", "type"] {
        let value = file.get(field).and_then(Value::as_str).unwrap_or_default();
        call = call.with_query(field, value);
    }
    call.limit_bytes = MAX_RESULT_BYTES;
    Some(JobOutput {
        kind: OutputKind::Video,
        source: OutputSource::Call(Box::new(call)),
    })
}
