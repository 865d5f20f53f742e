//! The records of the music API: the state of a task and its clips.
//!
//! A task has ended when every clip has. If some clips failed, the others are delivered, with the
//! reasons of those that failed. A task's status words are those of a job record (`SUCCESS`) or of a bare record (`complete`), depending
//! on the service.

use serde_json::Value;

use crate::adapters::stem_names;
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::order::StemTarget;
use crate::port::jobs::errors::FailureTable;
use crate::port::{AdapterStep, ClipFacts, JobHandle, JobOutput, OutputKind, OutputSource};
use crate::response::{percent_at, text_at};

/// A task's or a record's own id.
pub(super) fn id(record: &Value) -> Option<String> {
    text_at(record, "/task_id").or_else(|| text_at(record, "/id"))
}

/// The meaning of a status word.
enum SunoStatus<'a> {
    Running,
    Done,
    Failed,
    Unknown(&'a str),
}

fn task_status(word: &str) -> SunoStatus<'_> {
    match word {
        "NOT_START" | "SUBMITTED" | "QUEUED" | "IN_PROGRESS" | "submitted" | "queued"
        | "processing" | "running" | "streaming" => SunoStatus::Running,
        "SUCCESS" | "complete" => SunoStatus::Done,
        "FAILURE" | "error" => SunoStatus::Failed,
        word => SunoStatus::Unknown(word),
    }
}

fn clip_status(word: &str) -> SunoStatus<'_> {
    match word {
        "submitted" | "queued" | "streaming" => SunoStatus::Running,
        "complete" => SunoStatus::Done,
        "error" => SunoStatus::Failed,
        word => SunoStatus::Unknown(word),
    }
}

/// Reads the state of a task.
pub(super) fn read(handle: &JobHandle, task: &Value) -> Result<AdapterStep, ProviderError> {
    let lists = ["data", "clips"].map(|name| task[name].as_array());
    let clips = lists.into_iter().flatten().next();
    let clips = clips.map(Vec::as_slice).unwrap_or_default();
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    let mut is_running = false;
    for clip in clips {
        match clip_status(clip["status"].as_str().unwrap_or_default()) {
            SunoStatus::Running => is_running = true,
            SunoStatus::Done => done.push(clip),
            SunoStatus::Failed => failed.push(clip),
            // Such a clip may still be finished, so the task has not ended.
            SunoStatus::Unknown(word) => return Ok(AdapterStep::unknown(format!("clip: {word}"))),
        }
    }
    let running = AdapterStep::running(percent_at(task, "/progress", 100.0));
    match (task["status"].as_str().map(task_status), clips.is_empty()) {
        (Some(SunoStatus::Unknown(word)), _) => Ok(AdapterStep::unknown(word)),
        (Some(SunoStatus::Failed), _) if done.is_empty() => Err(failure(task, clips)),
        // Clips that were finished are paid for.
        (Some(SunoStatus::Failed), _) => deliver(handle, &done, &failed),
        (Some(SunoStatus::Running), true) => Ok(running),
        (Some(SunoStatus::Done), true) => AdapterStep::done(Vec::new()),
        (None, true) => Err(ProviderError::unreadable(
            "the provider's response has no status",
        )),
        (_, false) if is_running => Ok(running),
        (_, false) if done.is_empty() => Err(failure(task, clips)),
        (_, false) => deliver(handle, &done, &failed),
    }
}

fn deliver(
    handle: &JobHandle,
    clips: &[&Value],
    failed: &[&Value],
) -> Result<AdapterStep, ProviderError> {
    let are_stems = handle.0["stems"] == true;
    let output = |clip: &&Value| {
        let url = text_at(clip, "/audio_url")?;
        Some(JobOutput {
            kind: OutputKind::Clip(Box::new(facts(handle, clip, are_stems))),
            source: OutputSource::Address(url),
        })
    };
    let mut outputs: Vec<JobOutput> = clips.iter().filter_map(output).collect();
    // Reasons alone are no result.
    if !outputs.is_empty() {
        let failures = failed
            .iter()
            .filter_map(|clip| failed_clip(clip, are_stems));
        outputs.extend(failures);
    }
    AdapterStep::done(outputs)
}

/// A clip that failed, if the provider says why.
fn failed_clip(clip: &Value, are_stems: bool) -> Option<JobOutput> {
    let message = text_at(clip, "/metadata/error_message")?;
    let description = ErrorDescription {
        code: text_at(clip, "/metadata/error_type"),
        message: Some(message),
    };
    Some(JobOutput {
        kind: OutputKind::FailedClip {
            stem: are_stems.then(|| stem(clip)).flatten(),
            reason: FAILURES.error(description).message,
        },
        source: OutputSource::Nothing,
    })
}

fn facts(handle: &JobHandle, clip: &Value, are_stems: bool) -> ClipFacts {
    let text = |pointer| text_at(clip, pointer).unwrap_or_default();
    ClipFacts {
        id: text("/id"),
        task_id: Some(handle.text("id").to_owned()),
        title: text("/title"),
        stem: are_stems.then(|| stem(clip)).flatten(),
        tags: text("/metadata/tags"),
        prompt: text("/metadata/prompt"),
        video_url: text("/video_url"),
        model_name: text("/model_name"),
    }
}

/// The stem of a clip: by its group's name, otherwise by the end of its title, which is `Song
/// (Vocals)` or `Song - Vocals`.
fn stem(clip: &Value) -> Option<StemTarget> {
    let name = text_at(clip, "/metadata/stem_type_group_name");
    name.and_then(|name| stem_names::target(&name)).or_else(|| {
        let title = text_at(clip, "/title")?;
        let title = title.trim();
        let bracketed = title
            .strip_suffix(')')
            .and_then(|start| start.rsplit_once('('));
        let (_, end) = bracketed.or_else(|| title.rsplit_once(" - "))?;
        stem_names::target(end)
    })
}

/// Why a task without any finished clip failed.
fn failure(task: &Value, clips: &[Value]) -> ProviderError {
    let first_text = |pointer| {
        clips
            .iter()
            .chain([task])
            .find_map(|record| text_at(record, pointer))
    };
    let code = first_text("/metadata/error_type");
    let message = first_text("/metadata/error_message").or_else(|| text_at(task, "/fail_reason"));
    FAILURES.error(ErrorDescription { code, message })
}

/// Words of `error_type` and of the message with it, as clips and tasks of several aggregators show
/// them.
const FAILURES: FailureTable = FailureTable {
    codes: &[
        ("moderation", ErrorClass::Refused),
        ("content_policy", ErrorClass::Refused),
        ("copyright", ErrorClass::Refused),
        ("cancelled", ErrorClass::Lost),
        ("submission_unconfirmed", ErrorClass::Unconfirmed),
        ("invalid_", ErrorClass::Unfit),
        ("provider_rejected", ErrorClass::Unfit),
        ("bad_request", ErrorClass::Unfit),
    ],
    words: &[
        ("contains artist name", ErrorClass::Refused),
        ("artist name", ErrorClass::Refused),
        ("producer tag", ErrorClass::Refused),
        ("moderat", ErrorClass::Refused),
        ("copyright", ErrorClass::Refused),
        ("sensitive", ErrorClass::Refused),
        ("too long", ErrorClass::Unfit),
    ],
};
