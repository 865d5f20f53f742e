//! Records of the history: the outcome of a job, and its video.

use serde_json::{Map, Value};

use crate::error::{ErrorClass, ProviderError};
use crate::port::{AdapterStep, Call, JobOutput, MAX_RESULT_BYTES, OutputKind, OutputSource};
use crate::response::text_at;

/// A record of the history: the job ended.
pub(super) fn read_record(record: &Value) -> Result<AdapterStep, ProviderError> {
    match text_at(record, "/status/status_str").as_deref() {
        Some("success") | None => AdapterStep::done(video_of(record).into_iter().collect()),
        Some("error") => Err(failure(record)),
        Some(word) => Ok(AdapterStep::unknown(word)),
    }
}

fn failure(record: &Value) -> ProviderError {
    let messages = record.pointer("/status/messages").and_then(Value::as_array);
    let find = |event: &str| {
        let found = messages?
            .iter()
            .find(|message| message[0].as_str() == Some(event));
        found.map(|message| &message[1])
    };
    if find("execution_interrupted").is_some() {
        return ProviderError::new(ErrorClass::Lost, "the job was cancelled at the server");
    }
    let Some(error) = find("execution_error") else {
        return ProviderError::new(ErrorClass::Failed, "the graph failed");
    };
    let said = text_at(error, "/exception_message");
    let said = said.map_or_else(|| "the graph failed".into(), |text| text.trim().to_owned());
    let class = if said.contains("content_policy_violation") {
        ErrorClass::Refused
    } else {
        ErrorClass::Failed
    };
    let message = match text_at(error, "/node_type") {
        Some(node) => format!("{node}: {said}"),
        None => said,
    };
    ProviderError {
        code: text_at(error, "/exception_type"),
        ..ProviderError::new(class, message)
    }
}

/// The video among a record's outputs, under whatever key its node has put it: a film before an
/// animated picture, final files before previews.
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
        let kind = match extension.as_str() {
            "mp4" | "webm" | "mov" | "mkv" | "m4v" => 0,
            "gif" | "webp" | "apng" => 1,
            _ => return None,
        };
        let preview = file.get("type").and_then(Value::as_str) != Some("output");
        Some(((preview, kind), file))
    });
    let (_, file) = ranked.min_by_key(|(rank, _)| *rank)?;
    let mut call = Call::get("view", "/api/view");
    for member in ["filename", "subfolder", "type"] {
        let value = file.get(member).and_then(Value::as_str).unwrap_or_default();
        call = call.with_query(member, value);
    }
    call.limit_bytes = MAX_RESULT_BYTES;
    Some(JobOutput {
        kind: OutputKind::Video,
        source: OutputSource::Call(Box::new(call)),
    })
}
