//! The Interactions API.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{error, has_key, is_forbidden, is_picture};
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

pub(super) fn create(request: &SimulatedRequest) -> SimulatedReply {
    if !has_key(request) {
        return error(
            403,
            "PERMISSION_DENIED",
            "Method doesn't allow unregistered callers.",
        );
    }
    let body = &request.body;
    if body["model"]
        .as_str()
        .is_some_and(|model| model.starts_with("lyria-3"))
    {
        return song(request);
    }
    let format = &body["response_format"];
    let parts = body["input"][0]["content"].as_array();
    let parts = parts.map(Vec::as_slice).unwrap_or_default();
    let picture = parts.iter().find(|part| part["type"] == "image");
    let prompt = parts.iter().find_map(|part| part["text"].as_str());
    let task = &body["generation_config"]["video_config"]["task"];
    let is_valid = body["model"]
        .as_str()
        .is_some_and(|model| model.starts_with("gemini-omni"))
        && body["input"][0]["type"] == "user_input"
        && body["response_modalities"] == json!(["video"])
        && body["background"] == true
        && format["type"] == "video"
        && matches!(
            format["resolution"].as_str(),
            Some("360p" | "720p" | "1080p" | "4k")
        )
        && matches!(format["aspect_ratio"].as_str(), Some("16:9" | "9:16"))
        && matches!(format["delivery"].as_str(), Some("uri" | "inline"))
        && length(format).is_some()
        && picture.is_none_or(|picture| is_picture(&picture["data"], &picture["mime_type"]))
        && *task
            == json!(if picture.is_some() {
                "image_to_video"
            } else {
                "text_to_video"
            });
    let Some(prompt) = prompt.filter(|_| is_valid) else {
        return error(400, "INVALID_ARGUMENT", "The request is malformed.");
    };
    // The id also names the file, and names of files have only letters and digits.
    let id = format!("int{:08x}", request.world.number());
    let provider_data = json!({"prompt": prompt, "seconds": length(format)});
    let job = request
        .world
        .accept("gemini-veo", id, body.clone(), provider_data);
    SimulatedReply::json(200, &interaction_object(request, &job))
}

/// A song, on the same connection.
fn song(request: &SimulatedRequest) -> SimulatedReply {
    let body = &request.body;
    let fields = body.as_object();
    let allowed = ["model", "input"];
    let has_unknown =
        fields.is_some_and(|fields| fields.keys().any(|name| !allowed.contains(&name.as_str())));
    let model = body["model"].as_str();
    let Some(prompt) = body["input"]
        .as_str()
        .filter(|text| !text.is_empty() && !has_unknown)
    else {
        return error(400, "INVALID_ARGUMENT", "The request is malformed.");
    };
    if !matches!(model, Some("lyria-3.5" | "lyria-3-clip-preview")) {
        return error(404, "NOT_FOUND", "The model was not found.");
    }
    let id = format!("int{:08x}", request.world.number());
    let provider_data = json!({"prompt": prompt});
    let job = request
        .world
        .accept("gemini-veo", id, body.clone(), provider_data);
    let end = if is_forbidden(&job) {
        PlannedEnd::Refusal
    } else {
        job.plan.end
    };
    let (status, steps, errors) = match end {
        PlannedEnd::Success => {
            let sound = STANDARD.encode(media::audio(2_000, 330.0));
            let audio = json!({"type": "audio", "mime_type": "audio/mpeg", "data": sound});
            let lyrics = json!({"type": "text", "text": "[Verse] rain"});
            let step = json!({"type": "model_output", "content": [lyrics, audio]});
            ("completed", json!([step]), json!([]))
        }
        PlannedEnd::Empty => ("completed", json!([]), json!([])),
        PlannedEnd::Failure => ("failed", json!([]), json!([{"message": "Internal error."}])),
        PlannedEnd::Unfit => (
            "failed",
            json!([]),
            json!([{"code": "INVALID_ARGUMENT", "message": "The prompt is too long."}]),
        ),
        PlannedEnd::Refusal => (
            "failed",
            json!([]),
            json!([{"code": "PROHIBITED_CONTENT", "message": "The prompt names an artist."}]),
        ),
    };
    let body = json!({"id": job.id, "object": "interaction", "status": status, "steps": steps, "errors": errors});
    // A song is in the answer to its order. If the connection breaks, it is paid for and lost,
    // because there is nothing to poll.
    SimulatedReply::json(200, &body).with_delay(job.plan.queued + job.plan.running)
}

fn length(format: &Value) -> Option<u64> {
    format["duration"].as_str()?.strip_suffix('s')?.parse().ok()
}

pub(super) fn get(request: &SimulatedRequest) -> SimulatedReply {
    if !has_key(request) {
        return error(
            403,
            "PERMISSION_DENIED",
            "Method doesn't allow unregistered callers.",
        );
    }
    let Some(job) = request.world.poll_job(request.param("id")) else {
        return error(404, "NOT_FOUND", "The interaction was not found.");
    };
    let mut body = interaction_object(request, &job);
    if request.unknown_status {
        body["status"] = json!("pondering");
    }
    SimulatedReply::json(200, &body)
}

pub(super) fn cancel(request: &SimulatedRequest) -> SimulatedReply {
    let id = request.param("id");
    request.world.cancel(id);
    match request.world.job(id) {
        Some(job) if has_key(request) => {
            SimulatedReply::json(200, &interaction_object(request, &job))
        }
        _ => error(404, "NOT_FOUND", "The interaction was not found."),
    }
}

fn interaction_object(request: &SimulatedRequest, job: &Job) -> Value {
    let phase = match job.phase() {
        // The filter checks the result, so the order is accepted first.
        JobPhase::Ended(_) if is_forbidden(job) => JobPhase::Ended(PlannedEnd::Refusal),
        phase => phase,
    };
    let (status, steps, errors) = match phase {
        JobPhase::Queued => ("queued", json!([]), json!([])),
        JobPhase::Running(_) => ("in_progress", json!([]), json!([])),
        JobPhase::Cancelled => ("cancelled", json!([]), json!([])),
        JobPhase::Ended(PlannedEnd::Success) => {
            let uri = format!("{}/v1/files/{}", request.base, job.id);
            let video = json!({"type": "video", "mime_type": "video/mp4", "uri": uri});
            (
                "completed",
                json!([{"type": "model_output", "content": [video]}]),
                json!([]),
            )
        }
        JobPhase::Ended(PlannedEnd::Empty) => ("completed", json!([]), json!([])),
        JobPhase::Ended(PlannedEnd::Failure) => {
            ("failed", json!([]), json!([{"message": "Internal error."}]))
        }
        JobPhase::Ended(PlannedEnd::Unfit) => (
            "failed",
            json!([]),
            json!([{"code": "INVALID_ARGUMENT", "message": "The duration is not supported."}]),
        ),
        JobPhase::Ended(PlannedEnd::Refusal) => (
            "failed",
            json!([]),
            json!([{"message": "The video was blocked by our safety filters."}]),
        ),
    };
    json!({"id": job.id, "status": status, "steps": steps, "errors": errors, "usage": {}})
}
