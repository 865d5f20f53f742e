//! Version 2 of the API, as in Comfy Cloud: jobs with a key, results at signed URLs.

use serde_json::{Value, json};

use super::{NAME, REFUSAL, file_name, video_file};
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

pub(super) fn submit(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "unauthorized", "A key is required.");
    }
    let graph = &request.body["workflow"];
    if !graph.is_object() {
        return error(422, "invalid_request", "workflow is required");
    }
    if graph.to_string().contains("forbidden") {
        return error(422, REFUSAL, "The prompt was refused.");
    }
    let key = format!("comfyui/key/{}", request.header("idempotency-key"));
    if key.ends_with('/') {
        return error(422, "invalid_request", "Idempotency-Key is required");
    }
    // A key that was used is an error, and does not return its job. So a repetition proves nothing
    // about a lost answer.
    if request.world.file(&key).is_some() {
        return error(422, "idempotency_key_reuse", "The key was used before.");
    }
    request.world.keep_file(key, json!(true));
    let id = request.world.uuid();
    let job = request
        .world
        .accept(NAME, id, graph.clone(), json!({"v2": true}));
    SimulatedReply::json(201, &object(request, &job))
}

pub(super) fn get(request: &SimulatedRequest) -> SimulatedReply {
    let Some(job) = request.world.poll_job(request.param("id")) else {
        return error(404, "not_found", "There is no such job.");
    };
    let mut body = object(request, &job);
    if request.unknown_status {
        body["status"] = json!("pondering");
    }
    SimulatedReply::json(200, &body)
}

pub(super) fn cancel(request: &SimulatedRequest) -> SimulatedReply {
    let id = request.param("id");
    request.world.cancel(id);
    match request.world.job(id) {
        Some(job) => SimulatedReply::json(200, &object(request, &job)),
        None => error(404, "not_found", "There is no such job."),
    }
}

fn object(request: &SimulatedRequest, job: &Job) -> Value {
    let (word, share, code) = match job.phase() {
        JobPhase::Queued => ("queued", 0.0, None),
        JobPhase::Running(share) => ("running", share, None),
        JobPhase::Ended(PlannedEnd::Success | PlannedEnd::Empty) => ("succeeded", 1.0, None),
        JobPhase::Ended(PlannedEnd::Failure) => ("failed", 0.5, Some("execution_error")),
        JobPhase::Ended(PlannedEnd::Unfit) => ("failed", 0.5, Some("invalid_input")),
        JobPhase::Ended(PlannedEnd::Refusal) => ("failed", 0.5, Some(REFUSAL)),
        JobPhase::Cancelled => ("canceled", 0.5, None),
    };
    let mut outputs = Vec::new();
    if job.phase() == JobPhase::Ended(PlannedEnd::Success) {
        // Each poll returns a newly signed URL.
        let url = format!(
            "{}/results/{}?signature={}",
            request.base,
            file_name(job),
            request.world.number()
        );
        outputs.push(json!({"id": "out_1", "node_id": "58", "type": "video", "content_type": "video/mp4", "url": url, "url_expires_at": null}));
    }
    json!({
        "id": job.id, "status": word, "progress": {"value": share}, "queue_position": null,
        "outputs": outputs, "error": code.map(|code| json!({"code": code, "message": "The job failed.", "node_id": "3"})),
        "urls": {"self": format!("/api/v2/jobs/{}", job.id), "cancel": format!("/api/v2/jobs/{}/cancel", job.id)},
    })
}

pub(super) fn result(request: &SimulatedRequest) -> SimulatedReply {
    let name = request.param("name");
    // Results are in a bucket, which must not receive the key.
    if request.expired || request.headers.contains_key("authorization") {
        return SimulatedReply::json(403, &json!("AccessDenied"))
            .with_header("content-type", "text/plain");
    }
    let job = name
        .strip_suffix("_00001_.mp4")
        .and_then(|id| request.world.job(id));
    job.map_or_else(
        || SimulatedReply::empty(404),
        |job| video_file(request, &job),
    )
}

fn error(status: u16, code: &str, message: &str) -> SimulatedReply {
    SimulatedReply::json(
        status,
        &json!({"error": {"code": code, "message": message, "details": null}}),
    )
}
