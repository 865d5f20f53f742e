//! `suno-family`: the music API of Suno-style aggregators, which Mediagate offers too.
//!
//! Sources, all third-party: the public pages of several aggregators, new-api's source, notes of
//! the web client's traffic; and Mediagate's own endpoints. No SDK. Where the sources disagree,
//! both forms are accepted.
//!
//! ```text
//! POST /submit/music     task, mv, … → {code: "success", data: id │ record} or the bare record
//! GET  /fetch/{id}       {code, data: {task_id, status, progress: "40%", fail_reason, data: [clip]}}
//! POST /fetch            {ids} → data: [the same]                    several tasks at once
//! POST /persona/create   answers with the persona
//! POST /uploads/audio …  see `upload`
//! ```
//!
//! Paths are relative to the base URL, which contains the service's own path segment, as in
//! `https://api.example.com/suno`.
//!
//! Unknown: how to cancel a task (so that is not supported); whether any aggregator supports
//! `Idempotency-Key` (so an unclear submission is repeated only if the settings allow it);
//! `stem_type_id`s other than 91, which every source sends.

mod record;
mod upload;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::adapters::{Protocol, mediagate};
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::limits::{ModelLimits, MusicLimits, SongLimits, StemLimits};
use crate::order::{MediaKind, Order, SourceRecording, StemGroup, WorkSpec};
use crate::port::jobs::errors::as_poll_error;
use crate::port::{
    Adapter, AdapterStep, Call, CallContext, JobHandle, JobOutput, JobSettlement, OutputKind,
    OutputSource, PollPace, RefusalRule,
};
use crate::response::{ProviderResponse, required_text};
use crate::settings::{ProviderSettings, SettingsError};
use upload::UploadMode;

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "suno-family",
    base_url: None,
    options: &["upload", "tasks", "batch", "idempotency"],
    anonymous: false,
    build,
};

/// The tasks that most aggregators offer besides stems, by the word in `task`.
const TASKS: [&str; 7] = [
    "generate",
    "extend",
    "upload_extend",
    "cover",
    "infill",
    "artist_consistency",
    "concat",
];

fn build(settings: &ProviderSettings) -> Result<Arc<dyn Adapter>, SettingsError> {
    let mut tasks = settings.list("tasks")?;
    if !settings.options.contains_key("tasks") {
        tasks = TASKS.map(str::to_owned).to_vec();
    }
    Ok(Arc::new(SunoFamilyAdapter {
        upload: match settings.word("upload", &["s3", "direct", "none"])? {
            "direct" => UploadMode::Direct,
            "none" => UploadMode::None,
            _ => UploadMode::S3,
        },
        tasks,
        batch: settings.word("batch", &["many", "one"])? == "many",
        deduplicates: settings.flag("idempotency")?,
    }))
}

#[derive(Debug)]
struct SunoFamilyAdapter {
    /// How recordings that this provider did not make are uploaded.
    upload: UploadMode,
    /// The tasks that it offers besides stems.
    tasks: Vec<String>,
    /// Whether it has `POST /fetch`.
    batch: bool,
    /// Whether it supports `Idempotency-Key`.
    deduplicates: bool,
}

impl Adapter for SunoFamilyAdapter {
    fn limits(&self, kind: MediaKind, _: &str) -> Option<ModelLimits> {
        (kind == MediaKind::Music).then(|| {
            ModelLimits::Music(MusicLimits {
                stems: Some(StemLimits {
                    groups: StemGroup::ALL.to_vec(),
                    two: true,
                    complements: StemGroup::ALL.to_vec(),
                    full: true,
                    other: false,
                }),
                tasks: self.tasks.clone(),
                personas: true,
                songs: SongLimits::API_DEFAULT,
            })
        })
    }

    fn pace(&self) -> PollPace {
        PollPace {
            usual: Duration::from_mins(2),
            batch: if self.batch { 50 } else { 1 },
            gap: Duration::from_secs(2),
            ..PollPace::new(Duration::from_secs(3), Duration::from_secs(30))
        }
    }

    fn deduplicates(&self) -> bool {
        self.deduplicates
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        vec![
            RefusalRule::http_statuses(),
            RefusalRule::error_codes(
                REFUSALS,
                "new-api, relay/channel/task/suno: an error, and no data beside it",
            ),
            mediagate::refusals(),
        ]
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        self.next_call(order, Map::new())
    }

    fn read_submission(
        &self,
        order: &Order,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        match context.stage.as_ref() {
            "submit" => read_task(order, answer),
            "persona" => read_persona(answer),
            _ => match upload::read(order, context, answer)? {
                upload::UploadStep::Next(call) => Ok(AdapterStep::Next(call)),
                upload::UploadStep::Uploaded(clip_ids) => {
                    Ok(AdapterStep::next(self.next_call(order, clip_ids)?))
                }
            },
        }
    }

    fn named_job(
        &self,
        order: &Order,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Option<JobHandle> {
        let body = answer.json().ok()?;
        let data = body.get("data").unwrap_or(&body);
        let id = match data {
            // An error may have a message there.
            Value::String(text) => Some(text.clone()).filter(|text| is_id(text)),
            record => record::id(record),
        };
        (context.stage == "submit").then_some(handle_of(order, &id?))
    }

    fn cancel(&self, handle: &JobHandle) -> Option<Call> {
        let task = mediagate::task_of_id(handle.text("id"));
        task.map(|task| mediagate::cancel(&task, mediagate::beside))
    }

    fn confirms_cancellation(&self, handle: &JobHandle, answer: &ProviderResponse) -> bool {
        let settlement = mediagate::settlement(handle.text("id"), answer);
        settlement == Ok(JobSettlement::Unpaid)
    }

    fn settlement(&self, handle: &JobHandle) -> Option<Call> {
        let task = mediagate::task_of_id(handle.text("id"));
        task.map(|task| mediagate::record(&task, mediagate::beside))
    }

    fn read_settlement(
        &self,
        handle: &JobHandle,
        answer: &ProviderResponse,
    ) -> Result<JobSettlement, ProviderError> {
        mediagate::settlement(handle.text("id"), answer)
    }

    fn poll(&self, handle: &JobHandle) -> Result<Call, ProviderError> {
        Ok(Call::get("poll", format!("/fetch/{}", handle.text("id"))))
    }

    fn read_poll(
        &self,
        handle: &JobHandle,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let task = envelope(answer).map_err(|error| {
            let is_gone = is_gone(answer, &error);
            as_poll_error(error, is_gone)
        })?;
        record::read(handle, &task)
    }

    fn poll_many(&self, handles: &[&JobHandle]) -> Option<Call> {
        if !self.batch {
            return None;
        }
        let ids: Vec<&str> = handles.iter().map(|handle| handle.text("id")).collect();
        let body = json!({"ids": ids, "action": "MUSIC"});
        Some(Call::post("poll-many", "/fetch", body))
    }

    fn read_poll_many(
        &self,
        handles: &[&JobHandle],
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Vec<Result<AdapterStep, ProviderError>> {
        let tasks = match envelope(answer).map(|data| data.as_array().cloned()) {
            Ok(Some(tasks)) => tasks,
            // A fault of the list is not a fault of any job in it.
            Ok(None) => {
                let error =
                    ProviderError::unreadable("the provider's response has no list of tasks");
                return vec![Err(error); handles.len()];
            }
            Err(error) => {
                // These classes concern the call, which may be retried. Any other class could be
                // taken for the end of each job.
                let class = match error.class {
                    ErrorClass::RateLimited | ErrorClass::Unavailable | ErrorClass::Credentials => {
                        error.class
                    }
                    _ => ErrorClass::Unclear,
                };
                return vec![Err(error.with_class(class)); handles.len()];
            }
        };
        let read_one = |handle: &JobHandle| {
            let id = handle.text("id");
            let task = tasks
                .iter()
                .find(|task| record::id(task).as_deref() == Some(id));
            let task = task.ok_or_else(|| {
                ProviderError::unreadable(format!("the provider's list does not contain {id}"))
            })?;
            record::read(handle, task)
        };
        handles.iter().map(|handle| read_one(handle)).collect()
    }
}

impl SunoFamilyAdapter {
    /// The upload of the first recording that the provider does not have yet, else the submission.
    /// `clip_ids` are the ids from uploads, by field.
    fn next_call(
        &self,
        order: &Order,
        mut clip_ids: Map<String, Value>,
    ) -> Result<Call, ProviderError> {
        for (field, recording) in recordings(&order.work) {
            if clip_ids.contains_key(field) {
                continue;
            }
            match &recording.upstream {
                Some(clip) => clip_ids.insert(field.to_owned(), json!(clip.clip_id)),
                None => return self.upload.start(order, field, recording, &clip_ids),
            };
        }
        let (stage, path, body) = match &order.work {
            WorkSpec::Stems(_) | WorkSpec::Song(_) => {
                ("submit", "/submit/music", music(order, clip_ids))
            }
            WorkSpec::Persona(persona) => {
                let body = json!({
                    "root_clip_id": persona.root_clip, "name": persona.name,
                    "description": persona.description, "clips": persona.clips,
                    "is_public": persona.is_public,
                });
                ("persona", "/persona/create", body)
            }
            WorkSpec::Video(_) => {
                let message = "this provider supports only music";
                return Err(ProviderError::new(ErrorClass::Rejected, message));
            }
        };
        let call = Call::post(stage, path, body).mark_submission();
        Ok(if self.deduplicates {
            call.with_header("idempotency-key", &order.idempotency_key)
        } else {
            call
        })
    }
}

/// The recordings that an order needs, each with the field for its id. Those that the provider does
/// not have yet are uploaded first.
fn recordings(work: &WorkSpec) -> Vec<(&str, &SourceRecording)> {
    match work {
        WorkSpec::Stems(stems) => vec![("continue_clip_id", &stems.source)],
        WorkSpec::Song(song) => {
            let uploads = song.uploads.iter();
            uploads
                .map(|(field, recording)| (field.as_str(), recording))
                .collect()
        }
        WorkSpec::Video(_) | WorkSpec::Persona(_) => Vec::new(),
    }
}

/// The body of a submission.
fn music(order: &Order, clip_ids: Map<String, Value>) -> Value {
    let mut body = match &order.work {
        WorkSpec::Song(song) => {
            let mut body = song.fields.clone();
            // The caller's hook is called by this gateway, not by the provider.
            body.remove("notify_hook");
            match song.task.as_str() {
                "" | "generate" => body.remove("task"),
                task => body.insert("task".into(), json!(task)),
            };
            body
        }
        WorkSpec::Stems(stems) => {
            let (task, name) = match stems.single_group() {
                None => ("twelve", "Twelve"),
                Some(StemGroup::Vocals) => ("two", "Two"),
                Some(group) => ("two", group.name()),
            };
            let fields = json!({
                "task": "gen_stem", "generation_type": "TEXT", "title": stems.title, "prompt": "",
                "make_instrumental": true, "continued_aligned_prompt": null, "continue_at": null,
                "stem_type_id": 91, "stem_type_group_name": name, "stem_task": task,
            });
            let mut body = fields.as_object().cloned().unwrap_or_default();
            // Some aggregators need `task_id`, to find the account that owns the clip.
            let clip = stems.source.upstream.as_ref();
            if let Some(task) = clip.and_then(|clip| clip.task_id.as_ref()) {
                body.insert("task_id".into(), json!(task));
            }
            body
        }
        WorkSpec::Video(_) | WorkSpec::Persona(_) => Map::new(),
    };
    for (field, id) in clip_ids {
        put(&mut body, &field, id);
    }
    body.insert("mv".into(), json!(order.model));
    Value::Object(body)
}

/// Inserts an id in a field: `cover_clip_id`, or `mashup_clip_ids[1]` for a place in a list.
fn put(body: &mut Map<String, Value>, field: &str, id: Value) {
    let list_entry = field
        .strip_suffix(']')
        .and_then(|field| field.split_once('['))
        .and_then(|(name, index)| Some((name, index.parse::<usize>().ok()?)));
    match list_entry {
        None => {
            body.insert(field.to_owned(), id);
        }
        Some((name, index)) => {
            if let Some(element) = body.get_mut(name).and_then(|list| list.get_mut(index)) {
                *element = id;
            }
        }
    }
}

fn read_task(order: &Order, answer: &ProviderResponse) -> Result<AdapterStep, ProviderError> {
    let data = envelope(answer)?;
    let id = match &data {
        Value::String(id) if !id.is_empty() => Some(id.clone()),
        record => record::id(record),
    };
    let id =
        id.ok_or_else(|| ProviderError::unreadable("the provider's response contains no task id"))?;
    Ok(AdapterStep::Submitted {
        handle: handle_of(order, &id),
        poll_after: None,
    })
}

fn handle_of(order: &Order, id: &str) -> JobHandle {
    let stems = matches!(order.work, WorkSpec::Stems(_));
    JobHandle(json!({"id": id, "stems": stems}))
}

/// Whether a text looks like a task's id.
fn is_id(text: &str) -> bool {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-_:.".contains(sign);
    text.chars().all(is_plain) && text.contains(|sign: char| sign.is_ascii_digit())
}

/// The codes with which relays of this family reject a request.
const REFUSALS: [&str; 10] = [
    "429",
    "*quota*",
    "*balance*",
    "*credits*",
    "*moderation*",
    "*content_policy*",
    "*sensitive*",
    "*rate_limit*",
    "*too_many*",
    "*invalid_*",
];

fn read_persona(answer: &ProviderResponse) -> Result<AdapterStep, ProviderError> {
    let record = envelope(answer)?;
    let id = required_text(&record, "/id")?;
    AdapterStep::done(vec![JobOutput {
        kind: OutputKind::Persona { id, record },
        source: OutputSource::Nothing,
    }])
}

/// The data in the envelope, or the answer itself if there is none.
fn envelope(answer: &ProviderResponse) -> Result<Value, ProviderError> {
    let mut body = answer.success(describe).map_err(class_by_code)?;
    let success = match body.get("code") {
        None if body.is_string() => {
            return Err(ProviderError::unreadable(
                "the provider responded with plain text instead of a job",
            ));
        }
        None => return Ok(body),
        Some(Value::String(code)) => code.eq_ignore_ascii_case("success") || code == "200",
        Some(code) => code == 200 || code == 0,
    };
    let data = body.get_mut("data").map(Value::take).unwrap_or_default();
    if success {
        return Ok(data);
    }
    let error = answer.failure(describe);
    // An error with data is not certain to be a refusal.
    let class = match data {
        Value::Null => ErrorClass::Rejected,
        _ => ErrorClass::Unclear,
    };
    Err(class_by_code(error.with_class(class)))
}

/// `{"code", "message"}`, or Mediagate's `{"error": {"code", "message"}}`.
fn describe(body: &Value) -> ErrorDescription {
    let description = ErrorDescription::at(body, "/error/code", "/error/message");
    if description == ErrorDescription::default() {
        return ErrorDescription::at(body, "/code", "/message");
    }
    description
}

fn class_by_code(error: ProviderError) -> ProviderError {
    let code = error.code.as_deref().unwrap_or_default().to_lowercase();
    let code_contains = |words: &[&str]| words.iter().any(|word| code.contains(word));
    let class = match code.as_str() {
        // From Mediagate: an earlier submission with this key may have been accepted.
        "still_running" | "idempotency_conflict" => ErrorClass::Unclear,
        "submission_unconfirmed" => ErrorClass::Unconfirmed,
        "budget_exceeded" => ErrorClass::Account,
        "429" => ErrorClass::RateLimited,
        _ if code_contains(&["quota", "balance", "credits"]) => ErrorClass::Account,
        _ if code_contains(&["moderation", "content_policy", "sensitive"]) => ErrorClass::Refused,
        _ if code_contains(&["rate_limit", "too_many", "too_frequent"]) => ErrorClass::RateLimited,
        _ => error.class,
    };
    error.with_class(class)
}

/// Whether an error of a poll means that there is no such task.
fn is_gone(answer: &ProviderResponse, error: &ProviderError) -> bool {
    let code = error.code.as_deref().unwrap_or_default();
    let code = code.to_ascii_lowercase();
    answer.status == 404 || code.contains("not_found") || code.contains("not_exist")
}

#[cfg(test)]
mod tests;
