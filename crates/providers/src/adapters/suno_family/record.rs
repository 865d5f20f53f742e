//! The records of the dialect: what a task and its clips say of themselves.
//!
//! A task is done when every clip is; where some clips failed, the others are
//! delivered. Task words are those of the job record and those of the bare
//! record, of which some services answer with the one and some with the other.

use serde_json::Value;

use crate::adapters::stem_names;
use crate::answer::{percent_at, text_at};
use crate::error::{Class, Described, ProviderError};
use crate::order::StemTarget;
use crate::port::jobs::errors::Ends;
use crate::port::{ClipFacts, Handle, Output, Source, Step, What};

/// A task's or a record's own id.
pub(super) fn id(record: &Value) -> Option<String> {
    text_at(record, "/task_id").or_else(|| text_at(record, "/id"))
}

/// What a word means.
enum Word<'a> {
    Going,
    Done,
    Failed,
    Unknown(&'a str),
}

fn task_word(word: &str) -> Word<'_> {
    match word {
        "NOT_START" | "SUBMITTED" | "QUEUED" | "IN_PROGRESS" | "submitted" | "queued"
        | "processing" | "running" | "streaming" => Word::Going,
        "SUCCESS" | "complete" => Word::Done,
        "FAILURE" | "error" => Word::Failed,
        word => Word::Unknown(word),
    }
}

fn clip_word(word: &str) -> Word<'_> {
    match word {
        "submitted" | "queued" | "streaming" => Word::Going,
        "complete" => Word::Done,
        "error" => Word::Failed,
        word => Word::Unknown(word),
    }
}

/// How a task stands.
pub(super) fn read(handle: &Handle, task: &Value) -> Result<Step, ProviderError> {
    let members = ["data", "clips"].map(|name| task[name].as_array());
    let clips = members.into_iter().flatten().next();
    let clips = clips.map(Vec::as_slice).unwrap_or_default();
    let mut done = Vec::new();
    let mut going = false;
    for clip in clips {
        match clip_word(clip["status"].as_str().unwrap_or_default()) {
            Word::Going => going = true,
            Word::Done => done.push(clip),
            Word::Failed => {}
            Word::Unknown(word) => return Ok(Step::unknown(format!("clip: {word}"))),
        }
    }
    let running = Step::running(percent_at(task, "/progress", 100.0));
    match (task["status"].as_str().map(task_word), clips.is_empty()) {
        (Some(Word::Unknown(word)), _) => Ok(Step::unknown(word)),
        (Some(Word::Failed), _) if done.is_empty() => Err(failure(task, clips)),
        (Some(Word::Failed), _) => deliver(handle, &done),
        (Some(Word::Going), true) => Ok(running),
        (Some(Word::Done), true) => Step::done(Vec::new()),
        (None, true) => Err(ProviderError::unreadable(
            "the provider's answer has no status",
        )),
        (_, false) if going => Ok(running),
        (_, false) if done.is_empty() => Err(failure(task, clips)),
        (_, false) => deliver(handle, &done),
    }
}

fn deliver(handle: &Handle, clips: &[&Value]) -> Result<Step, ProviderError> {
    let stems = handle.0["stems"] == true;
    let output = |clip: &&Value| {
        let url = text_at(clip, "/audio_url")?;
        Some(Output {
            what: What::Clip(Box::new(facts(handle, clip, stems))),
            source: Source::Address(url),
        })
    };
    Step::done(clips.iter().filter_map(output).collect())
}

fn facts(handle: &Handle, clip: &Value, stems: bool) -> ClipFacts {
    let text = |pointer| text_at(clip, pointer).unwrap_or_default();
    ClipFacts {
        id: text("/id"),
        task_id: Some(handle.text("id").to_owned()),
        title: text("/title"),
        stem: stems.then(|| stem(clip)).flatten(),
        tags: text("/metadata/tags"),
        prompt: text("/metadata/prompt"),
        video_url: text("/video_url"),
        model_name: text("/model_name"),
    }
}

/// What a stem clip holds: its group's name, else the end of its title, which
/// is `Song (Vocals)` or `Song - Vocals`.
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
    let said = |pointer| {
        clips
            .iter()
            .chain([task])
            .find_map(|of| text_at(of, pointer))
    };
    let code = said("/metadata/error_type");
    let message = said("/metadata/error_message").or_else(|| text_at(task, "/fail_reason"));
    ENDS.error(Described { code, message })
}

/// Words of `error_type` and of the sentence beside it, as clips and tasks of
/// several aggregators show them.
const ENDS: Ends = Ends {
    codes: &[
        ("moderation", Class::Refused),
        ("content_policy", Class::Refused),
        ("copyright", Class::Refused),
        ("cancelled", Class::Lost),
        ("invalid_", Class::Unfit),
        ("provider_rejected", Class::Unfit),
        ("bad_request", Class::Unfit),
    ],
    words: &[
        ("contains artist name", Class::Refused),
        ("artist name", Class::Refused),
        ("producer tag", Class::Refused),
        ("moderat", Class::Refused),
        ("copyright", Class::Refused),
        ("sensitive", Class::Refused),
        ("too long", Class::Unfit),
    ],
};
