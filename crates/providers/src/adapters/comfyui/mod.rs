//! `comfyui`: a `ComfyUI` server, self-hosted or in Comfy Cloud, that runs a stored graph with the
//! order's values inserted ([`graph`]).
//!
//! Sources: the server of late 2025 and frontend 1.58.1, read as source; Comfy Cloud's
//! documentation (the same calls with `X-API-Key`). `api = "v2"` uses the newer jobs API instead
//! ([`v2`]).
//!
//! ```text
//! POST /api/upload/image       each picture, before the prompt → {name, subfolder, type}
//! POST /api/prompt             {prompt: GRAPH, client_id, prompt_id?} → {prompt_id, node_errors}
//! GET  /api/history/{id}       {} until it ended, then {"{id}": {outputs, status}}
//! GET  /api/queue              {queue_running, queue_pending}: distinguishes waiting from lost
//! GET  /api/view               the bytes of an output
//! POST /api/jobs/{id}/cancel   waiting or running (newer servers)
//! POST /api/queue              {delete: [id]}, waiting only (`cancel = "queue"`)
//! ```
//!
//! Every route also exists without `/api`; Comfy Cloud has them only with it.
//!
//! Newer servers accept the job's id from the caller (`prompt_id`), and get the order's key as the
//! id. On them a lost submission is always found, in the history or in the queue. An older server
//! assigns its own id, and a restarted server has forgotten all jobs, so a job that is not found
//! proves nothing.
//!
//! Unknown: what the server does with a `prompt_id` that it already has, so a submission is never
//! repeated; how it words a refusal of content (only hosted nodes refuse any), so the newer API's
//! word is searched for; what a cancellation returns, so a 2xx counts as success.

mod graph;
mod record;
mod v2;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Method;
use serde_json::{Map, Value, json};

use self::graph::WorkflowSet;
use self::record::read_record;
use crate::adapters::Protocol;
use crate::error::{ErrorClass, ErrorDescription, ProviderError};
use crate::limits::ModelLimits;
use crate::order::{MediaKind, Order, SourcePicture};
use crate::port::jobs::list::MAX_LIST_BYTES;
use crate::port::{
    Adapter, AdapterStep, Authorization, Call, CallContext, FormPart, FoundJob, JobHandle,
    LookupPage, MAX_ANSWER_BYTES, PollPace, RefusalRule, RequestBody,
};
use crate::response::{ProviderResponse, required_text, text_at};
use crate::secret::Secret;
use crate::settings::{ProviderSettings, SettingsError};

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "comfyui",
    base_url: None,
    options: &["graph", "graphs", "patch", "fps", "api", "cancel"],
    anonymous: true,
    build,
};

/// Reads the graphs, which may be files. This is the only file access of this adapter; it happens
/// when the settings are read.
fn build(settings: &ProviderSettings) -> Result<Arc<dyn Adapter>, SettingsError> {
    let graphs = WorkflowSet::read(settings)?;
    let cancels_by_queue = settings.word("cancel", &["jobs", "queue"])? == "queue";
    if settings.word("api", &["v1", "v2"])? == "v2" {
        return Ok(Arc::new(v2::ComfyJobsAdapter::new(graphs)?));
    }
    Ok(Arc::new(ComfyUiAdapter {
        graphs,
        cancels_by_queue,
    }))
}

#[derive(Debug)]
struct ComfyUiAdapter {
    graphs: WorkflowSet,
    /// Older servers have no `/api/jobs`.
    cancels_by_queue: bool,
}

impl Adapter for ComfyUiAdapter {
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits> {
        (kind == MediaKind::Video)
            .then(|| self.graphs.limits(model))
            .flatten()
    }

    fn pace(&self) -> PollPace {
        pace()
    }

    fn authorize(&self, secret: &Secret, _: SystemTime) -> Result<Authorization, ProviderError> {
        Ok(Authorization::header("x-api-key", secret))
    }

    fn refusals(&self) -> Vec<RefusalRule<'_>> {
        vec![RefusalRule::http_statuses()]
    }

    fn start(&self, order: &Order) -> Result<Call, ProviderError> {
        self.after_uploads(order, Vec::new())
    }

    fn read_submission(
        &self,
        order: &Order,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let body = answer.success(describe).map_err(class_by_code)?;
        if context.stage == "upload" {
            let mut names: Vec<Value> =
                context.carried_data.as_array().cloned().unwrap_or_default();
            names.push(json!(stored_name(&body)?));
            return Ok(AdapterStep::next(self.after_uploads(order, names)?));
        }
        // If only some outputs of a graph are wrong, the server accepts it and returns an id and
        // the errors.
        if text_at(&body, "/prompt_id").is_none() {
            let description = describe(&body);
            if let Some(message) = description.message {
                return Err(ProviderError::new(ErrorClass::Rejected, message));
            }
        }
        Ok(AdapterStep::submitted(
            json!({"id": required_text(&body, "/prompt_id")?}),
        ))
    }

    fn poll(&self, handle: &JobHandle) -> Result<Call, ProviderError> {
        Ok(history("history", handle))
    }

    fn read_poll(
        &self,
        handle: &JobHandle,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let body = answer.success(describe)?;
        let id = handle.text("id");
        if context.stage == "queue" {
            return Ok(if is_queued(&body, id)? {
                AdapterStep::running(None)
            } else {
                // The job may have ended between the two calls.
                AdapterStep::next(history("history again", handle))
            });
        }
        match body.get(id) {
            Some(record) => read_record(record),
            None if !body.is_object() => Err(ProviderError::unreadable(
                "the server's history cannot be read",
            )),
            // A server that was restarted has forgotten both, so polling again would not help.
            None if context.stage == "history again" => Err(ProviderError::new(
                ErrorClass::Lost,
                "the job is neither in the server's queue nor in its history",
            )),
            None => Ok(AdapterStep::next(queue("queue"))),
        }
    }

    fn cancel(&self, handle: &JobHandle) -> Option<Call> {
        let id = handle.text("id");
        Some(if self.cancels_by_queue {
            Call::post("cancel", "/api/queue", json!({"delete": [id]}))
        } else {
            Call::new("cancel", Method::POST, format!("/api/jobs/{id}/cancel"))
        })
    }

    fn confirms_cancellation(&self, _: &JobHandle, answer: &ProviderResponse) -> bool {
        // The queue answers 200 whether or not it has the job.
        answer.status.is_success() && !self.cancels_by_queue
    }

    fn find(&self, order: &Order, _: SystemTime) -> Option<Call> {
        // Any other key was not sent as `prompt_id`, so the server chose an unknown id.
        is_uuid(&order.idempotency_key).then(|| history("find", &handle_for(order)))
    }

    fn read_lookup(
        &self,
        order: &Order,
        _: SystemTime,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<LookupPage, ProviderError> {
        let body = answer.success(describe)?;
        let handle = handle_for(order);
        let (is_found, next) = match context.stage.as_ref() {
            // In the same order as a poll, because the job may end between two calls.
            "find in queue" => {
                let history_again = history("find again", &handle);
                (
                    is_queued(&body, &order.idempotency_key)?,
                    Some(history_again),
                )
            }
            _ if !body.is_object() => {
                return Err(ProviderError::unreadable(
                    "the server's history cannot be read",
                ));
            }
            stage => {
                let next = (stage == "find").then(|| queue("find in queue"));
                (body.get(&order.idempotency_key).is_some(), next)
            }
        };
        if is_found {
            return Ok(LookupPage::jobs([FoundJob::certain(handle, None)]));
        }
        Ok(LookupPage::default().with_next_page(next))
    }
}

/// The job of an order whose key is its id.
fn handle_for(order: &Order) -> JobHandle {
    JobHandle(json!({"id": order.idempotency_key}))
}

fn queue(stage: &'static str) -> Call {
    // The answer contains every waiting graph completely.
    Call::get(stage, "/api/queue").with_limit(MAX_LIST_BYTES)
}

/// Whether a job waits or runs.
fn is_queued(body: &Value, id: &str) -> Result<bool, ProviderError> {
    let is_ours = |item: &Value| item.get(1).and_then(Value::as_str) == Some(id);
    let lists = ["queue_running", "queue_pending"].map(|name| body[name].as_array());
    if lists.into_iter().flatten().flatten().any(is_ours) {
        return Ok(true);
    }
    // After the search: an id in one list counts, but a missing list may have contained it.
    if lists.iter().any(Option::is_none) {
        return Err(ProviderError::unreadable(
            "the server's queue cannot be read",
        ));
    }
    Ok(false)
}

impl ComfyUiAdapter {
    /// The upload of the first picture that has not been uploaded yet, or the submission.
    fn after_uploads(&self, order: &Order, names: Vec<Value>) -> Result<Call, ProviderError> {
        let video = order.video()?;
        if let Some(picture) = video.pictures.get(names.len()) {
            return Ok(upload(order, picture, names));
        }
        let pictures: Vec<(_, &str)> = video
            .pictures
            .iter()
            .zip(&names)
            .map(|(picture, name)| (picture.role, name.as_str().unwrap_or_default()))
            .collect();
        let mut body = Map::new();
        let graph = self.graphs.fill(order, video, &pictures)?;
        body.insert("prompt".into(), graph);
        body.insert("client_id".into(), json!("mediagate"));
        if is_uuid(&order.idempotency_key) {
            body.insert("prompt_id".into(), json!(order.idempotency_key));
        }
        Ok(Call::post("submit", "/api/prompt", Value::Object(body)).mark_submission())
    }
}

/// `ComfyUI` servers are nearby, and polling them is cheap.
fn pace() -> PollPace {
    PollPace::new(Duration::from_secs(1), Duration::from_secs(10))
}

fn upload(order: &Order, picture: &SourcePicture, names: Vec<Value>) -> Call {
    let mut file = picture.file.clone();
    let extension = file.name.rsplit('.').next().unwrap_or("png");
    // The same name for the same submission, so that a repeated upload overwrites the first.
    file.name = format!(
        "{}-{}.{extension}",
        plain_name(&order.idempotency_key),
        names.len()
    );
    let parts = vec![
        FormPart::file("image", &file),
        FormPart::text("type", "input"),
        FormPart::text("overwrite", "true"),
    ];
    Call::new("upload", Method::POST, "/api/upload/image")
        .with_body(RequestBody::Multipart(parts))
        .with_carried_data(Value::Array(names))
}

/// The key's letters, digits and dashes, which are safe in file names on the server.
fn plain_name(key: &str) -> String {
    key.chars()
        .filter(|character| character.is_ascii_alphanumeric() || *character == '-')
        .collect()
}

/// The name of an uploaded picture in a graph.
fn stored_name(body: &Value) -> Result<String, ProviderError> {
    let name = required_text(body, "/name")?;
    let folder = text_at(body, "/subfolder");
    Ok(folder.map_or_else(|| name.clone(), |folder| format!("{folder}/{name}")))
}

fn history(stage: &'static str, handle: &JobHandle) -> Call {
    let path = format!("/api/history/{}", handle.text("id"));
    // The answer contains the graph and everything that its nodes report.
    Call::get(stage, path).with_limit(MAX_ANSWER_BYTES)
}

/// `{"error": {"type", "message", "details"}, "node_errors"}`; the errors of nodes are more
/// specific than the error above them.
fn describe(body: &Value) -> ErrorDescription {
    let description = ErrorDescription::at(body, "/error/type", "/error/message");
    let nodes = body.get("node_errors").and_then(Value::as_object);
    let first = nodes.and_then(|nodes| nodes.iter().next());
    let Some((node, errors)) = first else {
        return ErrorDescription {
            message: description.message.or_else(|| text_at(body, "/error")),
            ..description
        };
    };
    let parts = ["/errors/0/message", "/errors/0/details"];
    let parts: Vec<String> = parts
        .iter()
        .filter_map(|place| text_at(errors, place))
        .collect();
    ErrorDescription {
        message: Some(format!("node {node}: {}", parts.join(": "))),
        ..description
    }
}

fn class_by_code(error: ProviderError) -> ProviderError {
    let class = match error.code.as_deref() {
        Some("content_policy_violation") => ErrorClass::Refused,
        Some("insufficient_credits") => ErrorClass::Account,
        // The server has a job for this key, but does not say which.
        Some("idempotency_key_reuse") => ErrorClass::Unclear,
        _ => error.class,
    };
    error.with_class(class)
}

/// A UUID in its usual form.
fn is_uuid(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths = parts.iter().map(|part| part.len());
    lengths.eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| {
            part.bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        })
}

#[cfg(test)]
mod tests;
