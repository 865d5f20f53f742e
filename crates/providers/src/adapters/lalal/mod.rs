//! `lalal`: LALAL.AI, API version 1.
//!
//! Sources: the provider's `OpenAPI` 1.1.0 and its official examples. Version 0, which most code on
//! the web shows, is deprecated and not used here.
//!
//! ```text
//! POST /upload/                 the bytes, their name in Content-Disposition → {id}
//! POST /split/stem_separator/   {source_id, presets: {stem, …}, idempotency_key} → {task_id}: one stem and the rest
//! POST /split/multistem/        {source_id, presets: {stem_list, …}, idempotency_key} → {task_id}: up to six, and the rest of all
//! POST /check/                  {task_ids: at most 200} → {result: {id: {status, …}}}; 30 a minute
//! POST /cancel/                 {task_ids} → {result: {id: {status}}}
//! ```
//!
//! The route's model is the splitter (`auto`, `andromeda`, `perseus`, `orion`, `phoenix`, …).
//! Synthesizer, strings and wind are separated one at a time and only by `phoenix`, so that model
//! offers no full split.
//!
//! The idempotency key may be sent again until the task begins; after that a repetition is refused
//! with `idempotency_key_used`, which proves that the first submission was accepted. Unknown:
//! whether a repetition after a new upload, as after a crash, counts as the same order; according
//! to the documents only the key decides. Also unknown: the codes for exhausted minutes.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::adapters::{Protocol, stem_names};
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::limits::{ModelLimits, MusicLimits, StemLimits};
use crate::order::{MediaKind, Order, StemGroup, StemTarget, WorkSpec};
use crate::port::jobs::errors::{FailureTable, as_poll_error};
use crate::port::{
    Adapter, AdapterStep, Authorization, Call, CallContext, JobHandle, JobOutput, MAX_STATUS_BYTES,
    PollPace, RefusalRule, RequestBody,
};
use crate::response::{ProviderResponse, percent_at, required_text, text_at};
use crate::secret::Secret;
use crate::settings::{ProviderSettings, SettingsError};

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "lalal",
    base_url: Some("https://www.lalal.ai/api/v1"),
    options: &["extraction", "guitar"],
    anonymous: false,
    build,
};

/// The groups that every splitter separates, which are those of a full split.
const GROUPS: &[StemGroup] = &[
    StemGroup::Vocals,
    StemGroup::Drums,
    StemGroup::Bass,
    StemGroup::Guitar,
    StemGroup::Keyboard,
];
/// The groups that only `phoenix` separates.
const PHOENIX: &[StemGroup] = &[StemGroup::Strings, StemGroup::Synth, StemGroup::Woodwinds];

fn build(settings: &ProviderSettings) -> Result<Arc<dyn Adapter>, SettingsError> {
    let guitar = settings.word("guitar", &["electric", "acoustic"])?;
    Ok(Arc::new(LalalAdapter {
        extraction: settings.word("extraction", &["deep_extraction", "clear_cut"])?,
        guitar: if guitar == "electric" {
            "electric_guitar"
        } else {
            "acoustic_guitar"
        },
    }))
}

#[derive(Debug)]
struct LalalAdapter {
    /// The trade-off between more detail and less bleed of other stems.
    extraction: &'static str,
    /// Which of the two guitars `Guitar` means: there is no stem for both.
    guitar: &'static str,
}

impl Adapter for LalalAdapter {
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        let mut groups = GROUPS.to_vec();
        let is_phoenix = model == "phoenix";
        if is_phoenix {
            groups.extend(PHOENIX);
        }
        (kind == MediaKind::Music).then(|| {
            ModelLimits::Music(MusicLimits::stems(StemLimits {
                two: true,
                complements: groups.clone(),
                groups,
                full: !is_phoenix,
                other: !is_phoenix,
            }))
        })
    }

    fn pace(&self) -> PollPace {
        PollPace {
            batch: 200,
            // The limit is 30 calls per minute.
            gap: Duration::from_secs(2),
            ..PollPace::new(Duration::from_secs(5), Duration::from_secs(30))
        }
    }

    fn deduplicates(&self) -> bool {
        true
    }

    fn authorize(&self, secret: &Secret, _: SystemTime) -> Result<Authorization, ProviderError> {
        Ok(Authorization::header("x-license-key", secret))
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        vec![RefusalRule::http_statuses()]
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        let stems = order.stems()?;
        let file = &stems.source.file;
        Ok(Call::new("upload", Method::POST, "/upload/")
            .with_header("content-disposition", disposition(&file.name))
            .with_body(RequestBody::Bytes {
                bytes: file.bytes.clone(),
                mime: "application/octet-stream".into(),
            })
            .with_long_timeout(MAX_STATUS_BYTES))
    }

    fn read_submission(
        &self,
        order: &Order,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let body = answer.success(describe).map_err(class_by_code)?;
        if context.stage == "upload" {
            let call = self.split(order, &required_text(&body, "/id")?)?;
            return Ok(AdapterStep::next(call));
        }
        Ok(AdapterStep::submitted(
            json!({"id": required_text(&body, "/task_id")?}),
        ))
    }

    fn poll(&self, handle: &JobHandle) -> Result<Call, ProviderError> {
        Ok(check(&[handle]))
    }

    fn read_poll(
        &self,
        handle: &JobHandle,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        // The answer covers up to 200 tasks, so a 404 proves nothing about a single one.
        let body = answer.success(describe);
        let body = body.map_err(|error| as_poll_error(error, false))?;
        let id = handle.text("id");
        match body["result"].get(id) {
            Some(task) => read(task),
            None => Err(ProviderError::unreadable(format!(
                "the provider's response does not contain {id}"
            ))),
        }
    }

    fn poll_many(&self, handles: &[&JobHandle]) -> Option<Call> {
        Some(check(handles))
    }

    fn cancel(&self, handle: &JobHandle) -> Option<Call> {
        let body = json!({"task_ids": [handle.text("id")]});
        Some(Call::post("cancel", "/cancel/", body))
    }

    fn confirms_cancellation(&self, handle: &JobHandle, answer: &ProviderResponse) -> bool {
        let body = answer.success(describe).unwrap_or_default();
        body["result"][handle.text("id")]["status"] == "success"
    }
}

impl LalalAdapter {
    /// The paid call for an uploaded recording.
    fn split(&self, order: &Order, source: &str) -> Result<Call, ProviderError> {
        let unsupported = || {
            let message = "the provider has no stem of this kind";
            ProviderError::new(ErrorClass::Rejected, message)
        };
        let WorkSpec::Stems(stems) = &order.work else {
            return Err(unsupported());
        };
        let (path, mut presets) = if stems.full {
            let list: Vec<&str> = GROUPS
                .iter()
                .filter_map(|group| self.stem(*group))
                .collect();
            ("/split/multistem/", json!({"stem_list": list}))
        } else {
            let stem = stems.single_group().and_then(|group| self.stem(group));
            (
                "/split/stem_separator/",
                json!({"stem": stem.ok_or_else(unsupported)?}),
            )
        };
        presets["extraction_level"] = json!(self.extraction);
        presets["encoder_format"] = json!("flac");
        if order.model != "auto" {
            presets["splitter"] = json!(order.model);
        }
        let body = json!({
            "source_id": source,
            "presets": presets,
            "idempotency_key": uuid4(&order.idempotency_key),
        });
        Ok(Call::post("submit", path, body).mark_submission())
    }

    /// The provider's name for a group.
    const fn stem(&self, group: StemGroup) -> Option<&'static str> {
        Some(match group {
            StemGroup::Vocals => "vocals",
            StemGroup::Drums => "drum",
            StemGroup::Bass => "bass",
            StemGroup::Guitar => self.guitar,
            StemGroup::Keyboard => "piano",
            StemGroup::Strings => "strings",
            StemGroup::Synth => "synthesizer",
            StemGroup::Woodwinds => "wind",
            _ => return None,
        })
    }
}

fn check(handles: &[&JobHandle]) -> Call {
    let ids: Vec<&str> = handles.iter().map(|handle| handle.text("id")).collect();
    Call::post("check", "/check/", json!({"task_ids": ids}))
}

/// Words in the errors of tasks; the API's document lists no codes.
const FAILURES: FailureTable = FailureTable {
    codes: &[("invalid_", ErrorClass::Unfit)],
    words: &[
        ("unsupported", ErrorClass::Unfit),
        ("too short", ErrorClass::Unfit),
        ("too long", ErrorClass::Unfit),
        ("corrupt", ErrorClass::Unfit),
    ],
};

/// Reads the state of a task.
fn read(task: &Value) -> Result<AdapterStep, ProviderError> {
    let failure =
        |[code, message]: [&str; 2]| Err(FAILURES.error(ErrorDescription::at(task, code, message)));
    match text_at(task, "/status").as_deref() {
        Some("progress") => Ok(AdapterStep::running(percent_at(task, "/progress", 100.0))),
        Some("success") => {
            let tracks = task.pointer("/result/tracks").and_then(Value::as_array);
            let outputs = tracks.into_iter().flatten().filter_map(|track| {
                let target = target(&text_at(track, "/label")?)?;
                Some(JobOutput::stem_at(target, text_at(track, "/url")?))
            });
            AdapterStep::done(outputs.collect())
        }
        Some("error") => failure(["/error/code", "/error/detail"]),
        // Occurs also when the recording has been removed.
        Some("server_error") => failure(["/code", "/error"]),
        Some("cancelled") => {
            let message = "the task was cancelled at the provider";
            Err(ProviderError::new(ErrorClass::Lost, message))
        }
        Some(word) => Ok(AdapterStep::unknown(word)),
        None => Err(ProviderError::unreadable(
            "the provider's response has no status",
        )),
    }
}

fn target(label: &str) -> Option<StemTarget> {
    match label {
        "no_multistem" => Some(StemTarget::Other),
        label => stem_names::target(label),
    }
}

/// `attachment` with a file's name (RFC 6266).
fn disposition(name: &str) -> String {
    let is_plain = |sign: char| sign.is_ascii_graphic() && !matches!(sign, '"' | '\\' | '%');
    if name.chars().all(|sign| is_plain(sign) || sign == ' ') {
        return format!("attachment; filename=\"{name}\"");
    }
    let name = utf8_percent_encode(name, NON_ALPHANUMERIC);
    format!("attachment; filename*=utf-8''{name}")
}

/// A UUID derived from the key, in version 4, because the provider accepts no other.
fn uuid4(key: &str) -> String {
    let mut bytes: [u8; 32] = Sha256::digest(key).into();
    // The bits of version and variant (RFC 9562, 5.4).
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut uuid = String::with_capacity(36);
    for (index, byte) in bytes[..16].iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            uuid.push('-');
        }
        let _ = write!(uuid, "{byte:02x}");
    }
    uuid
}

/// `{"detail", "code"}`; `detail` may be a list of the body's faults.
fn describe(body: &Value) -> ErrorDescription {
    let description = ErrorDescription::at(body, "/code", "/detail");
    ErrorDescription {
        message: description
            .message
            .or_else(|| text_at(body, "/detail/0/msg")),
        ..description
    }
}

fn class_by_code(error: ProviderError) -> ProviderError {
    let message = error.message.to_lowercase();
    let class = match (error.class, error.code.as_deref()) {
        // The previous submission was accepted.
        (_, Some("idempotency_key_used")) => ErrorClass::Unclear,
        (ErrorClass::Rejected, _)
            if message.contains("premium license") || message.contains("not enough minutes") =>
        {
            ErrorClass::Account
        }
        (class, _) => class,
    };
    error.with_class(class)
}

#[cfg(test)]
mod tests;
