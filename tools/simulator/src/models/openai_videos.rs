//! `openai-videos`: the `OpenAI` Videos API.

use http::StatusCode;
use serde_json::{Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "openai-videos",
    routes: |site| {
        site.error(|status| json!({"error": {"message": "simulated", "type": "server_error", "param": null, "code": status.to_string()}}))
            .route("POST", "/videos", RequestRole::Submit, submit)
            .route("GET", "/videos", RequestRole::Find, list)
            .route("GET", "/videos/{id}", RequestRole::Poll, get)
            .route("GET", "/videos/{id}/content", RequestRole::Download, content)
            .route("DELETE", "/videos/{id}", RequestRole::Cancel, delete)
    },
};

fn submit(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "invalid_api_key", "Incorrect API key provided");
    }
    let Some(prompt) = request.body["prompt"]
        .as_str()
        .filter(|prompt| !prompt.is_empty())
    else {
        return error(
            400,
            "missing_required_parameter",
            "Missing required parameter: 'prompt'.",
        );
    };
    if prompt.contains("forbidden") {
        return error(
            400,
            "moderation_blocked",
            "Your request was blocked by our moderation system.",
        );
    }
    // Before anything is made: two orders with one key must not become two jobs.
    if let Some(job) = earlier_job(request) {
        return SimulatedReply::json(200, &object(request, &job));
    }
    let id = format!("video_{:032x}", request.world.number());
    request.world.keep_file(key(request), json!(id));
    let job = request
        .world
        .accept("openai-videos", id, request.body.clone(), Value::Null);
    SimulatedReply::json(200, &object(request, &job))
}

fn key(request: &SimulatedRequest) -> String {
    format!("openai-videos key {}", request.header("idempotency-key"))
}

/// The job of an earlier request with the same `Idempotency-Key`. `OpenAI` ignores the header;
/// servers with its protocol may not.
fn earlier_job(request: &SimulatedRequest) -> Option<Job> {
    if request.header("idempotency-key").is_empty() {
        return None;
    }
    let id = request.world.file(&key(request))?;
    request.world.job(id.as_str()?)
}

fn get(request: &SimulatedRequest) -> SimulatedReply {
    let Some(job) = request.world.poll_job(request.param("id")) else {
        return error(404, "not_found", "Video not found");
    };
    let mut body = object(request, &job);
    if request.unknown_status {
        body["status"] = json!("rendering_preview");
    }
    SimulatedReply::json(200, &body)
}

fn list(request: &SimulatedRequest) -> SimulatedReply {
    let limit = request.number("limit", 20);
    if limit > 100 {
        return error(400, "invalid_value", "limit must be at most 100");
    }
    let mut jobs = request.world.jobs("openai-videos");
    if request
        .query
        .get("order")
        .is_none_or(|order| order == "desc")
    {
        jobs.reverse();
    }
    if let Some(after) = request.query.get("after") {
        let position = jobs.iter().position(|job| job.id == *after);
        jobs.drain(..position.map_or(0, |index| index + 1));
    }
    let has_more = jobs.len() > limit;
    jobs.truncate(limit);
    let id = |job: Option<&Job>| json!(job.map(|job| &job.id));
    let data: Vec<Value> = jobs.iter().map(|job| object(request, job)).collect();
    SimulatedReply::json(
        200,
        &json!({"object": "list", "data": data, "has_more": has_more,
            "first_id": id(jobs.first()), "last_id": id(jobs.last())}),
    )
}

fn content(request: &SimulatedRequest) -> SimulatedReply {
    let Some(job) = request.world.job(request.param("id")) else {
        return error(404, "not_found", "Video not found");
    };
    match job.phase() {
        JobPhase::Ended(PlannedEnd::Success) => {
            SimulatedReply::file("video/mp4", media::video(seconds(&job)))
        }
        _ => error(404, "not_ready", "The video is not ready"),
    }
}

fn delete(request: &SimulatedRequest) -> SimulatedReply {
    let id = request.param("id");
    if request.world.job(id).is_none() {
        return error(404, "not_found", "Video not found");
    }
    request.world.cancel(id);
    SimulatedReply::json(
        200,
        &json!({"id": id, "object": "video.deleted", "deleted": true}),
    )
}

fn seconds(job: &Job) -> u32 {
    let requested = &job.input["seconds"];
    // A form contains only text. JSON clients of some servers send a number.
    let number = requested
        .as_u64()
        .and_then(|number| u32::try_from(number).ok());
    number
        .or_else(|| requested.as_str()?.parse().ok())
        .unwrap_or(4)
}

fn object(request: &SimulatedRequest, job: &Job) -> Value {
    let (status, progress, failure) = match job.phase() {
        JobPhase::Queued => ("queued", 0.0, Value::Null),
        JobPhase::Running(share) => ("in_progress", share * 100.0, Value::Null),
        // A job without a result says "completed" too. Only its content is missing.
        JobPhase::Ended(PlannedEnd::Success | PlannedEnd::Empty) => {
            ("completed", 100.0, Value::Null)
        }
        JobPhase::Ended(PlannedEnd::Failure) => (
            "failed",
            50.0,
            json!({"code": "server_error", "message": "The generation failed."}),
        ),
        JobPhase::Ended(PlannedEnd::Unfit) => (
            "failed",
            50.0,
            json!({"code": "invalid_image", "message": "The picture cannot be read."}),
        ),
        JobPhase::Ended(PlannedEnd::Refusal) => (
            "failed",
            50.0,
            json!({"code": "moderation_blocked", "message": "The output was blocked."}),
        ),
        // The API has no word for a video that was deleted while it was being made.
        JobPhase::Cancelled => (
            "failed",
            50.0,
            json!({"code": "cancelled", "message": "Deleted."}),
        ),
    };
    let created = request.unix_seconds(job.accepted_at);
    json!({
        "id": job.id, "object": "video", "status": status, "progress": progress.floor(),
        "created_at": created, "completed_at": null, "expires_at": null,
        "model": job.input["model"], "prompt": job.input["prompt"], "seconds": seconds(job).to_string(),
        "size": job.input["size"], "remixed_from_video_id": null, "error": failure,
    })
}

fn error(status: u16, code: &str, message: &str) -> SimulatedReply {
    let kind = if status == StatusCode::UNAUTHORIZED {
        "authentication_error"
    } else {
        "invalid_request_error"
    };
    SimulatedReply::json(
        status,
        &json!({"error": {"message": message, "type": kind, "param": null, "code": code}}),
    )
}
