//! `audioshake`: the Tasks API of `AudioShake`. One task runs several models
//! ("targets") on one recording.
//!
//! Source: developer.audioshake.ai; no SDK was compared.
//!
//! ```text
//! POST /assets      multipart file → {id}
//! POST /tasks       {assetId, targets: [{model, formats}], metadata} → {id}
//! GET  /tasks/{id}  {targets: [{model, status: processing │ completed │ error, output: [{link, format}], error}]}
//! ```
//!
//! A task itself has no status: it has ended when each of its targets has. If some targets failed,
//! the others are delivered.
//!
//! Only the vocals have a documented complement (`instrumental`). The documents mention a
//! `residual` for other models, "if supported", but say neither for which models nor under which
//! name. It is not requested, so a two-way split of another group returns that group alone. `other`
//! is the rest without vocals, drums and bass. A full split has five groups, so `other` is not its
//! rest and is not requested either. Unknown: how to cancel a task, and whether submissions are
//! deduplicated.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Method;
use serde_json::{Value, json};

use crate::adapters::{Protocol, stem_names};
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::limits::{ModelLimits, MusicLimits, StemLimits};
use crate::order::{MediaKind, Order, StemGroup, StemTarget, WorkSpec};
use crate::port::jobs::errors::{FailureTable, as_poll_error};
use crate::port::{
    Adapter, AdapterStep, Authorization, Call, CallContext, FormPart, JobHandle, JobOutput,
    MAX_STATUS_BYTES, PollPace, RefusalRule, RequestBody,
};
use crate::response::{ProviderResponse, required_text, text_at};
use crate::secret::Secret;

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "audioshake",
    base_url: Some("https://api.audioshake.ai"),
    options: &[],
    anonymous: false,
    build: |_| Ok(Arc::new(AudioShakeAdapter)),
};

const GROUPS: &[StemGroup] = &[
    StemGroup::Vocals,
    StemGroup::Drums,
    StemGroup::Bass,
    StemGroup::Guitar,
    StemGroup::Keyboard,
];

#[derive(Debug)]
struct AudioShakeAdapter;

impl Adapter for AudioShakeAdapter {
    fn limits(&self, kind: MediaKind, _: &str) -> Option<ModelLimits> {
        (kind == MediaKind::Music).then(|| {
            ModelLimits::Music(MusicLimits::stems(StemLimits {
                groups: GROUPS.to_vec(),
                two: true,
                complements: vec![StemGroup::Vocals],
                full: true,
                other: false,
            }))
        })
    }

    fn pace(&self) -> PollPace {
        PollPace::new(Duration::from_secs(3), Duration::from_secs(30))
    }

    fn authorize(&self, secret: &Secret, _: SystemTime) -> Result<Authorization, ProviderError> {
        Ok(Authorization::header("x-api-key", secret))
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        vec![RefusalRule::http_statuses()]
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        let stems = order.stems()?;
        if models(&order.work).is_empty() {
            let message = "the provider has no model for this stem";
            return Err(ProviderError::new(ErrorClass::Rejected, message));
        }
        let parts = vec![FormPart::file("file", &stems.source.file)];
        Ok(Call::new("upload", Method::POST, "/assets")
            .with_body(RequestBody::Multipart(parts))
            .with_long_timeout(MAX_STATUS_BYTES))
    }

    fn read_submission(
        &self,
        order: &Order,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let body = answer.success(describe)?;
        let id = required_text(&body, "/id")?;
        if context.stage != "upload" {
            return Ok(AdapterStep::submitted(json!({"id": id})));
        }
        let targets: Vec<Value> = models(&order.work)
            .into_iter()
            .map(|model| json!({"model": model, "formats": ["wav"]}))
            .collect();
        // The metadata lets an operator find an unclear submission in the dashboard.
        let body = json!({"assetId": id, "targets": targets, "metadata": order.idempotency_key});
        Ok(AdapterStep::next(
            Call::post("submit", "/tasks", body).mark_submission(),
        ))
    }

    fn poll(&self, handle: &JobHandle) -> Result<Call, ProviderError> {
        Ok(Call::get("poll", format!("/tasks/{}", handle.text("id"))))
    }

    fn read_poll(
        &self,
        _: &JobHandle,
        _: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let body = answer.success(describe);
        let body = body.map_err(|error| as_poll_error(error, answer.status == 404))?;
        let Some(targets) = body["targets"]
            .as_array()
            .filter(|targets| !targets.is_empty())
        else {
            return Err(ProviderError::unreadable(
                "the provider's response has no targets",
            ));
        };
        let mut outputs = Vec::new();
        let (mut processing, mut error) = (0, None);
        for target in targets {
            match target["status"].as_str() {
                Some("processing") => processing += 1,
                Some("completed") => outputs.extend(output(target)),
                Some("error") => error = error.or_else(|| Some(failure(target))),
                Some(word) => return Ok(AdapterStep::unknown(word)),
                None => return Err(ProviderError::unreadable("a target has no status")),
            }
        }
        match error {
            // Even if a target has failed: the others are paid for and will be delivered.
            _ if processing > 0 => {
                let share = (targets.len() - processing) * 100 / targets.len();
                Ok(AdapterStep::running(u8::try_from(share).ok()))
            }
            Some(error) if outputs.is_empty() => Err(error),
            _ => AdapterStep::done(outputs),
        }
    }
}

/// The models for the requested stems, each once.
fn models(work: &WorkSpec) -> Vec<&'static str> {
    let WorkSpec::Stems(stems) = work else {
        return Vec::new();
    };
    let mut models = Vec::new();
    for target in &stems.targets {
        let model = match target {
            StemTarget::Without(StemGroup::Vocals) => Some("instrumental"),
            // `Without` orders the group too, so that the rest can be computed from it.
            StemTarget::Only(group) | StemTarget::Without(group) => model(*group),
            StemTarget::Other => None,
        };
        models.extend(model.filter(|model| !models.contains(model)));
    }
    models
}

const fn model(group: StemGroup) -> Option<&'static str> {
    Some(match group {
        StemGroup::Vocals => "vocals",
        StemGroup::Drums => "drums",
        StemGroup::Bass => "bass",
        StemGroup::Guitar => "guitar",
        StemGroup::Keyboard => "piano",
        _ => return None,
    })
}

/// The result of a completed target.
fn output(target: &Value) -> Option<JobOutput> {
    let stem = stem_names::target(target["model"].as_str()?)?;
    let files = target["output"].as_array()?;
    let link = files.iter().find_map(|file| text_at(file, "/link"))?;
    Some(JobOutput::stem_at(stem, link))
}

/// Words in a target's error message; the documents list no codes.
const FAILURES: FailureTable = FailureTable {
    codes: &[("invalid_", ErrorClass::Unfit)],
    words: &[
        ("unsupported", ErrorClass::Unfit),
        ("corrupt", ErrorClass::Unfit),
        ("too short", ErrorClass::Unfit),
    ],
};

fn failure(target: &Value) -> ProviderError {
    FAILURES.error(ErrorDescription::at(
        target,
        "/error/code",
        "/error/message",
    ))
}

/// `{"error": {"code", "message"}}`, or both at the top level.
fn describe(body: &Value) -> ErrorDescription {
    let description = ErrorDescription::at(body, "/error/code", "/error/message");
    if description == ErrorDescription::default() {
        return ErrorDescription::at(body, "/code", "/message");
    }
    description
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapters::tests::{adapter, stems, video};
    use crate::port::{CallEffect, OutputKind};

    fn submit(order: &Order) -> Call {
        let adapter = adapter("audioshake", &json!({}));
        let upload = adapter.start(order).unwrap();
        assert_eq!(upload.effect, CallEffect::Free);
        let answer = ProviderResponse::from_json(200, &json!({"id": "asset-1"}));
        match adapter
            .read_submission(order, &upload.context(), &answer)
            .unwrap()
        {
            AdapterStep::Next(call) => *call,
            other => panic!("{other:?}"),
        }
    }

    fn requested_models(targets: Vec<StemTarget>, full: bool) -> Vec<String> {
        let mut order = stems("audioshake");
        if let WorkSpec::Stems(stems) = &mut order.work {
            (stems.targets, stems.full) = (targets, full);
        }
        let RequestBody::Json(body) = submit(&order).body else {
            panic!("no JSON");
        };
        let targets = body["targets"].as_array().unwrap().iter();
        targets
            .map(|target| target["model"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn each_part_is_a_target() {
        let call = submit(&stems("audioshake"));
        assert_eq!(call.effect, CallEffect::Submission);
        let RequestBody::Json(body) = &call.body else {
            panic!("no JSON");
        };
        assert_eq!(
            *body,
            json!({"assetId": "asset-1", "metadata": "0197-key", "targets": [
                {"model": "vocals", "formats": ["wav"]}, {"model": "instrumental", "formats": ["wav"]}]})
        );
        let drums = vec![
            StemTarget::Only(StemGroup::Drums),
            StemTarget::Without(StemGroup::Drums),
        ];
        assert_eq!(requested_models(drums, false), ["drums"]);
        let mut all: Vec<StemTarget> = GROUPS.iter().copied().map(StemTarget::Only).collect();
        all.push(StemTarget::Other);
        assert_eq!(
            requested_models(all, true),
            ["vocals", "drums", "bass", "guitar", "piano"]
        );
    }

    #[test]
    fn stems_that_no_model_makes_are_not_ordered() {
        let adapter = adapter("audioshake", &json!({}));
        let mut order = stems("audioshake");
        if let WorkSpec::Stems(stems) = &mut order.work {
            stems.targets = vec![StemTarget::Only(StemGroup::Brass)];
        }
        assert_eq!(
            adapter.start(&order).unwrap_err().class,
            ErrorClass::Rejected
        );
        assert_eq!(
            adapter.start(&video("x")).unwrap_err().class,
            ErrorClass::Rejected
        );
    }

    #[test]
    fn errors_of_a_submission() {
        let adapter = adapter("audioshake", &json!({}));
        let order = stems("audioshake");
        let context = submit(&order).context();
        for (status, class) in [
            (200, ErrorClass::Unclear),
            (400, ErrorClass::Rejected),
            (401, ErrorClass::Credentials),
            (402, ErrorClass::Account),
            (429, ErrorClass::RateLimited),
            (500, ErrorClass::Unclear),
            (503, ErrorClass::Unclear),
        ] {
            let answer = ProviderResponse::from_json(status, &json!({}));
            let error = adapter
                .read_submission(&order, &context, &answer)
                .unwrap_err();
            assert_eq!(error.class, class, "{status}");
        }
    }

    fn poll(status: u16, body: &Value) -> Result<AdapterStep, ProviderError> {
        let adapter = adapter("audioshake", &json!({}));
        let handle = JobHandle(json!({"id": "t-1"}));
        let context = adapter.poll(&handle).unwrap().context();
        adapter.read_poll(
            &handle,
            &context,
            &ProviderResponse::from_json(status, body),
        )
    }

    fn targets(words: &[(&str, &str)]) -> Result<AdapterStep, ProviderError> {
        let target = |(model, word): &(&str, &str)| {
            json!({"model": model, "status": word,
                "output": if *word == "completed" { json!([{"name": model, "format": "wav", "link": "https://cdn.example/x"}]) } else { json!([]) },
                "error": if *word == "error" { json!({"code": 7, "message": "no sound"}) } else { json!(null) }})
        };
        let targets: Vec<Value> = words.iter().map(target).collect();
        poll(
            200,
            &json!({"id": "t-1", "completedAt": null, "targets": targets}),
        )
    }

    #[test]
    fn a_task_is_done_when_every_target_is() {
        let step = targets(&[("vocals", "completed"), ("instrumental", "processing")]).unwrap();
        assert!(matches!(
            step,
            AdapterStep::Running {
                progress: Some(50),
                ..
            }
        ));
        let step = targets(&[("vocals", "completed"), ("instrumental", "resting")]).unwrap();
        assert!(matches!(
            step,
            AdapterStep::Running {
                unknown_status: Some(_),
                ..
            }
        ));
        let names = |step: AdapterStep| match step {
            AdapterStep::Done { outputs } => outputs
                .iter()
                .map(|output| match output.kind {
                    OutputKind::Stem(target) => target.name(),
                    _ => panic!("no stem"),
                })
                .collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        let step = targets(&[("vocals", "completed"), ("instrumental", "completed")]).unwrap();
        assert_eq!(names(step), ["Vocals", "Instrumental"]);
        let step = targets(&[("piano", "completed"), ("bass", "error")]).unwrap();
        assert_eq!(names(step), ["Keyboard"]);
        let error = targets(&[("piano", "error"), ("bass", "error")]).unwrap_err();
        assert_eq!(
            (error.class, error.code.as_deref(), error.message.as_str()),
            (ErrorClass::Failed, Some("7"), "no sound")
        );
    }

    #[test]
    fn a_failed_poll_ends_only_missing_tasks() {
        for (status, class) in [
            (404, ErrorClass::Missing),
            (400, ErrorClass::Unclear),
            (429, ErrorClass::RateLimited),
            (502, ErrorClass::Unclear),
        ] {
            assert_eq!(
                poll(status, &json!({})).unwrap_err().class,
                class,
                "{status}"
            );
        }
        assert_eq!(
            poll(200, &json!({"targets": []})).unwrap_err().class,
            ErrorClass::Unclear
        );
        let empty = json!({"targets": [{"model": "vocals", "status": "completed", "output": []}]});
        assert_eq!(poll(200, &empty).unwrap_err().class, ErrorClass::Failed);
    }
}
