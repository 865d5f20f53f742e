//! `modelark`: `ByteDance`'s `ModelArk`.

use serde_json::{Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "modelark",
    routes: |site| {
        site.error(|status| {
            let code = match status {
                401 => "AuthenticationError",
                429 => "RateLimitExceeded.EndpointRPMExceeded",
                503 => "ServiceUnavailable",
                500.. => "InternalServiceError",
                _ => "InvalidParameter",
            };
            json!({"error": {"code": code, "message": "simulated", "param": "", "type": ""}})
        })
        .route(
            "POST",
            "/contents/generations/tasks",
            RequestRole::Submit,
            submit,
        )
        .route(
            "GET",
            "/contents/generations/tasks",
            RequestRole::Find,
            list,
        )
        .route(
            "GET",
            "/contents/generations/tasks/{id}",
            RequestRole::Poll,
            get,
        )
        .route(
            "DELETE",
            "/contents/generations/tasks/{id}",
            RequestRole::Cancel,
            delete,
        )
        .route(
            "GET",
            "/tos/{id}/video.mp4",
            RequestRole::Download,
            |request| request.signed_video("X-Tos-Signature"),
        )
    },
};

fn submit(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(
            401,
            "AuthenticationError",
            "The API key is missing or invalid.",
        );
    }
    let body = &request.body;
    let members = [
        "model",
        "content",
        "resolution",
        "ratio",
        "duration",
        "seed",
        "generate_audio",
        "camera_fixed",
        "watermark",
        "safety_identifier",
    ];
    // The provider's own SDK sends every known field, with null for those that are unset. So only
    // fields with a value count.
    let has_known_fields = body.as_object().is_some_and(|fields| {
        let mut set_fields = fields.iter().filter(|(_, value)| !value.is_null());
        set_fields.all(|(key, _)| members.contains(&key.as_str()))
    });
    let content = body["content"].as_array().cloned().unwrap_or_default();
    let has_prompt = content.iter().any(|part| {
        part["type"] == "text" && part["text"].as_str().is_some_and(|text| !text.is_empty())
    });
    let ratios = ["16:9", "4:3", "1:1", "3:4", "9:16", "21:9", "adaptive"];
    let ratio = body["ratio"].as_str();
    let model = body["model"].as_str().unwrap_or_default();
    // The newest model takes the shape of its frames, and refuses a named ratio with them.
    let follows_frames = model.contains("seedance-2-5") && content.iter().any(is_frame);
    let ratio_fits = match ratio {
        Some(ratio) if follows_frames => ratio == "adaptive",
        Some(ratio) => ratios.contains(&ratio),
        None => follows_frames,
    };
    let seed = &body["seed"];
    // -1 asks for a random seed; others have 32 bits.
    let seed_fits = seed.is_null()
        || seed
            .as_i64()
            .is_some_and(|seed| (-1..1 << 32).contains(&seed));
    let fits = model.contains("seedance")
        && has_prompt
        && content.iter().all(is_part)
        && ratio_fits
        && matches!(body["resolution"].as_str(), Some("480p" | "720p" | "1080p"))
        && body["duration"]
            .as_u64()
            .is_some_and(|seconds| (2..=30).contains(&seconds))
        && seed_fits
        && is_name(&body["safety_identifier"]);
    if !has_known_fields || !fits {
        return error(400, "InvalidParameter", "A parameter is not valid.");
    }
    if content[0]["text"]
        .as_str()
        .is_some_and(|text| text.contains("forbidden"))
    {
        let code = "InputTextSensitiveContentDetected";
        return error(
            400,
            code,
            "The input text may contain sensitive information.",
        );
    }
    let id = format!("cgt-20261121120000-{:05}", request.world.number());
    request
        .world
        .accept("modelark", id.clone(), body.clone(), Value::Null);
    SimulatedReply::json(200, &json!({"id": id}))
}

/// Whether this is a name as a caller may choose it: at most 64 characters.
fn is_name(name: &Value) -> bool {
    name.is_null() || name.as_str().is_some_and(|name| name.chars().count() <= 64)
}

fn is_part(part: &Value) -> bool {
    if part["type"] == "text" {
        return true;
    }
    let url = part["image_url"]["url"].as_str().unwrap_or_default();
    let roles = ["first_frame", "last_frame", "reference_image"];
    part["type"] == "image_url"
        && roles.contains(&part["role"].as_str().unwrap_or_default())
        && (url.starts_with("https://") || url.starts_with("data:image/"))
}

fn is_frame(part: &Value) -> bool {
    matches!(part["role"].as_str(), Some("first_frame" | "last_frame"))
}

fn get(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(
            401,
            "AuthenticationError",
            "The API key is missing or invalid.",
        );
    }
    let Some(job) = request.world.poll_job(request.param("id")) else {
        return error(404, "ResourceNotFound", "The task does not exist.");
    };
    let mut body = task(request, &job);
    if request.unknown_status {
        body["status"] = json!("polishing");
    }
    SimulatedReply::json(200, &body)
}

fn list(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(
            401,
            "AuthenticationError",
            "The API key is missing or invalid.",
        );
    }
    let (number, size) = (
        request.number("page_num", 1),
        request.number("page_size", 10),
    );
    // Pages are numbered from 1. A page 0 is an error, not the first page.
    if !(1..=500).contains(&number) || !(1..=500).contains(&size) {
        return error(400, "InvalidParameter", "A parameter is not valid.");
    }
    let (jobs, _) = request.page("modelark", |_| true, (number - 1) * size, size);
    let items: Vec<Value> = jobs.iter().map(|job| task(request, job)).collect();
    let total = request.world.jobs("modelark").len();
    SimulatedReply::json(200, &json!({"items": items, "total": total}))
}

/// The public view of a task, without its prompt.
fn task(request: &SimulatedRequest, job: &Job) -> Value {
    let created = request.unix_seconds(job.accepted_at);
    let mut body = json!({
        "id": job.id, "model": job.input["model"], "created_at": created, "updated_at": created,
        "resolution": job.input["resolution"], "ratio": job.input["ratio"],
        "duration": job.input["duration"],
    });
    // As in ModelArk's own answer there is no prompt here. The seed is the only field by which a
    // lost submission can be found.
    if let Some(seed) = job.input["seed"].as_i64() {
        body["seed"] = json!(seed);
    }
    if let Some(name) = job.input["safety_identifier"].as_str() {
        body["safety_identifier"] = json!(name);
    }
    let failure = |code: &str| json!({"code": code, "message": "The generation failed."});
    let status = match job.phase() {
        JobPhase::Queued => "queued",
        JobPhase::Running(_) => "running",
        JobPhase::Ended(PlannedEnd::Success) => {
            let signature = request.world.number();
            let url = format!(
                "{}/tos/{}/video.mp4?X-Tos-Signature={signature}",
                request.base, job.id
            );
            body["content"] = json!({"video_url": url});
            body["usage"] = json!({"completion_tokens": 246_840, "total_tokens": 246_840});
            "succeeded"
        }
        JobPhase::Ended(PlannedEnd::Empty) => {
            body["content"] = json!({});
            "succeeded"
        }
        JobPhase::Ended(PlannedEnd::Failure) => {
            body["error"] = failure("InternalServiceError");
            "failed"
        }
        JobPhase::Ended(PlannedEnd::Unfit) => {
            body["error"] = failure("InvalidParameter");
            "failed"
        }
        JobPhase::Ended(PlannedEnd::Refusal) => {
            body["error"] = failure("OutputVideoSensitiveContentDetected");
            "failed"
        }
        JobPhase::Cancelled => "cancelled",
    };
    body["status"] = json!(status);
    body
}

fn delete(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(
            401,
            "AuthenticationError",
            "The API key is missing or invalid.",
        );
    }
    let id = request.param("id");
    let Some(job) = request.world.job(id) else {
        return error(404, "ResourceNotFound", "The task does not exist.");
    };
    // Only a waiting task can be cancelled. A running one continues and is charged, and one that
    // has ended is only deleted.
    match job.phase() {
        JobPhase::Queued => {
            request.world.cancel(id);
        }
        JobPhase::Running(_) => {
            let code = "InvalidAction.RunningTaskDeletion";
            return error(409, code, "A running task cannot be deleted.");
        }
        JobPhase::Ended(_) | JobPhase::Cancelled => request.world.forget(id),
    }
    SimulatedReply::json(200, &json!({}))
}

fn error(status: u16, code: &str, message: &str) -> SimulatedReply {
    SimulatedReply::json(
        status,
        &json!({"error": {"code": code, "message": message, "param": "", "type": "BadRequest"}}),
    )
}
