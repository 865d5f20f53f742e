//! `musicai`: music.ai (Moises). A job runs a workflow that was assembled on the provider's
//! website; the route's model is the workflow's slug.
//!
//! Sources: `musicai_sdk` 1.0.4 (Python) (its requests), the documentation.
//!
//! ```text
//! GET    /upload     → {uploadUrl, downloadUrl}; PUT the bytes to the first, without the credential
//! POST   /job        {name, workflow, params: {inputUrl: downloadUrl}} → {id}
//! GET    /job/{id}   {status: QUEUED │ STARTED │ SUCCEEDED │ FAILED, result: {name: URL}, error}
//! DELETE /job/{id}   removes a job
//! GET    /job        [the same with name and createdAt]; workflow, page, size
//! ```
//!
//! A job contains its name, which is the order's key, so the job of a lost submission is recognised
//! with certainty in the list. The list is sorted by age. No document says in which direction,
//! whether its pages count from 0 or 1, or how soon a new job appears in it.
//!
//! The workflow sets the names in `result`. The settings declare which stems it makes (`stems`).
//! Results are recognised by the usual names of stems. Unknown names, and values that are not URLs,
//! are ignored.
//!
//! Unknown: whether removing a job stops it, so a removal does not prove a cancellation; the fields
//! of `error`; the lifetime of result URLs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Method;
use serde_json::{Value, json};

use crate::adapters::{Protocol, stem_names};
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::limits::{ModelLimits, MusicLimits, StemLimits};
use crate::order::{MediaKind, Order, StemGroup, StemTarget, WorkSpec};
use crate::port::jobs::errors::{FailureTable, as_poll_error};
use crate::port::jobs::list::JobList;
use crate::port::jobs::status::JobStatus;
use crate::port::jobs::{JobApi, upload};
use crate::port::{
    Adapter, AdapterStep, Authorization, Call, CallContext, JobHandle, JobOutput, LookupPage,
    MAX_STATUS_BYTES, PollPace, RefusalRule,
};
use crate::response::{ProviderResponse, required_text, text_at};
use crate::secret::Secret;
use crate::settings::{ProviderSettings, SettingsError};

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "musicai",
    base_url: Some("https://api.music.ai/v1"),
    options: &["stems", "input"],
    anonymous: false,
    build,
};

fn build(settings: &ProviderSettings) -> Result<Arc<dyn Adapter>, SettingsError> {
    let mut names = settings.list("stems")?;
    if names.is_empty() {
        names = ["vocals", "drums", "bass", "other"]
            .map(str::to_owned)
            .to_vec();
    }
    let parse_stem = |name: &String| {
        stem_names::target(name).ok_or_else(|| {
            SettingsError::at("stems", format!("{name:?} is not the name of a stem"))
        })
    };
    Ok(Arc::new(MusicAiAdapter {
        stems: names.iter().map(parse_stem).collect::<Result<_, _>>()?,
        input: settings.text("input")?.unwrap_or("inputUrl").to_owned(),
    }))
}

static JOB: JobApi = JobApi {
    id: "/id",
    path: "/job/{id}",
    cancel: Some((Method::DELETE, "/job/{id}")),
    headers: &[],
    submission_body: |answer| answer.success(describe),
    poll_body: |answer| {
        let body = answer.success(describe);
        body.map_err(|error| as_poll_error(error, answer.status == 404))
    },
    status: "/status",
    words: &[
        ("QUEUED", JobStatus::Queued),
        ("STARTED", JobStatus::Running),
        ("SUCCEEDED", JobStatus::Done),
        ("FAILED", JobStatus::FAILED),
    ],
    progress: |_| None,
    outputs: |_, body| Ok(stems(body)),
    failure: |body| FAILURES.error(describe(body)),
    lost_message: "",
};

const LIST: JobList = JobList {
    path: "/job",
    query: &[("size", "100")],
    items: "",
    id: "/id",
    created_at: "/createdAt",
};

#[derive(Debug)]
struct MusicAiAdapter {
    /// The stems that the workflows deliver.
    stems: Vec<StemTarget>,
    /// The parameter for the recording's URL.
    input: String,
}

impl Adapter for MusicAiAdapter {
    fn limits(&self, kind: MediaKind, _: &str) -> Option<ModelLimits> {
        let mut groups: Vec<StemGroup> = Vec::new();
        let mut complements = Vec::new();
        for stem in &self.stems {
            match stem {
                StemTarget::Only(group) if !groups.contains(group) => groups.push(*group),
                StemTarget::Without(group) => complements.push(*group),
                _ => {}
            }
        }
        complements.retain(|group| groups.contains(group));
        (kind == MediaKind::Music).then(|| {
            ModelLimits::Music(MusicLimits::stems(StemLimits {
                two: true,
                full: groups.len() > 1,
                groups,
                complements,
                other: self.stems.contains(&StemTarget::Other),
            }))
        })
    }

    fn pace(&self) -> PollPace {
        PollPace::new(Duration::from_secs(3), Duration::from_secs(30))
    }

    fn authorize(&self, secret: &Secret, _: SystemTime) -> Result<Authorization, ProviderError> {
        Ok(Authorization::header("authorization", secret))
    }

    fn job(&self) -> Option<&JobApi> {
        Some(&JOB)
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        vec![RefusalRule::http_statuses()]
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        order.stems()?;
        Ok(Call::get("grant", "/upload"))
    }

    fn read_submission(
        &self,
        order: &Order,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let stems = order.stems()?;
        match context.stage.as_ref() {
            "grant" => {
                let grant = answer.success(describe)?;
                let upload_url = required_text(&grant, "/uploadUrl")?;
                let upload_call = upload::put("put", upload_url, &stems.source.file)
                    .with_carried_data(json!(required_text(&grant, "/downloadUrl")?))
                    .with_long_timeout(MAX_STATUS_BYTES);
                Ok(AdapterStep::next(upload_call))
            }
            "put" => {
                upload::check_stored(answer)?;
                // An unclear submission is found by the name.
                let body = json!({
                    "name": order.idempotency_key, "workflow": order.model,
                    "params": {self.input.as_str(): context.carried_data},
                });
                Ok(AdapterStep::next(
                    Call::post("submit", "/job", body).mark_submission(),
                ))
            }
            _ => JOB.read_submission(answer),
        }
    }

    fn confirms_cancellation(&self, _: &JobHandle, _: &ProviderResponse) -> bool {
        // It is unknown whether removing a job stops it.
        false
    }

    fn find(&self, order: &Order, _: SystemTime) -> Option<Call> {
        matches!(order.work, WorkSpec::Stems(_)).then(|| page(order, 0))
    }

    fn read_lookup(
        &self,
        order: &Order,
        _: SystemTime,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<LookupPage, ProviderError> {
        let body = answer.success(describe)?;
        let listed = LIST.items(&body)?;
        let matching = listed
            .iter()
            .filter(|job| text_at(job, "/name").as_ref() == Some(&order.idempotency_key));
        let jobs = matching.filter_map(|job| LIST.certain(job));
        // The provider may choose the page size, so only an empty page is the last.
        let number = context
            .carried_data
            .as_u64()
            .unwrap_or_default()
            .saturating_add(1);
        let next = (!listed.is_empty()).then(|| page(order, number));
        Ok(LookupPage::jobs(jobs).with_next_page(next))
    }
}

/// The stems with known names and URL values, sorted by name, because a build with `c2pa` keeps the
/// fields of an object in the order in which they were sent.
fn stems(body: &Value) -> Vec<JobOutput> {
    let result = body["result"].as_object().into_iter().flatten();
    let result: BTreeMap<&String, &Value> = result.collect();
    let outputs = result.into_iter().filter_map(|(name, value)| {
        let is_address = |url: &&str| url.starts_with("https://") || url.starts_with("http://");
        let url = value.as_str().filter(is_address)?;
        Some(JobOutput::stem_at(stem_names::target(name)?, url))
    });
    outputs.collect()
}

/// The codes on music.ai's page of errors that concern the recording or the workflow's parameters.
const FAILURES: FailureTable = FailureTable {
    codes: &[
        ("BAD_INPUT", ErrorClass::Unfit),
        ("INVALID_", ErrorClass::Unfit),
    ],
    words: &[("invalid input", ErrorClass::Unfit)],
};

/// A page of the list. The first is requested without a number; if pages count from 1, page 1 is
/// the same again.
fn page(order: &Order, number: u64) -> Call {
    let call = LIST.page().with_query("workflow", &order.model);
    let call = call.with_carried_data(json!(number));
    match number {
        0 => call,
        number => call.with_query("page", number.to_string()),
    }
}

/// `{"code", "title", "message"}`, at the top level or as `error`, which may be a string.
fn describe(body: &Value) -> ErrorDescription {
    let error = body.get("error").unwrap_or(body);
    let message = ["/message", "/title", ""]
        .iter()
        .find_map(|pointer| text_at(error, pointer));
    ErrorDescription {
        code: text_at(error, "/code"),
        message,
    }
}

#[cfg(test)]
mod tests;
