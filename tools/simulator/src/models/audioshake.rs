//! `audioshake`: the Tasks API. A task has no status; each of its targets has.

use serde_json::{Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

const NAME: &str = "audioshake";

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: NAME,
    routes: |site| {
        site.error(|status| json!({"error": {"code": status, "message": "simulated"}}))
            .route("POST", "/assets", RequestRole::Upload, upload)
            .route("POST", "/tasks", RequestRole::Submit, submit)
            .route("GET", "/tasks/{id}", RequestRole::Poll, get)
            .route(
                "GET",
                "/output/{id}/{name}",
                RequestRole::Download,
                download,
            )
    },
};

const MODELS: [&str; 7] = [
    "vocals",
    "instrumental",
    "drums",
    "bass",
    "guitar",
    "piano",
    "other",
];

fn auth_error(request: &SimulatedRequest) -> Option<SimulatedReply> {
    request
        .header("x-api-key")
        .is_empty()
        .then(|| error(401, "The API key is not valid"))
}

fn upload(request: &SimulatedRequest) -> SimulatedReply {
    if let Some(reply) = auth_error(request) {
        return reply;
    }
    let file = &request.body["file"];
    if file["bytes"].as_u64().unwrap_or(0) == 0 {
        return error(400, "file is required");
    }
    let id = request.world.uuid();
    request.world.keep_file(&id, file.clone());
    SimulatedReply::json(
        200,
        &json!({"id": id, "format": "flac", "name": file["file_name"], "link": ""}),
    )
}

fn submit(request: &SimulatedRequest) -> SimulatedReply {
    if let Some(reply) = auth_error(request) {
        return reply;
    }
    let body = &request.body;
    let asset = body["assetId"].as_str().unwrap_or_default();
    if request.world.file(asset).is_none() {
        return error(400, "assetId names no asset");
    }
    let targets = body["targets"].as_array().cloned().unwrap_or_default();
    let is_known_target = |target: &Value| {
        let formats = target["formats"].as_array().cloned().unwrap_or_default();
        target["model"]
            .as_str()
            .is_some_and(|model| MODELS.contains(&model))
            && !formats.is_empty()
            && formats.iter().all(|format| format == "wav")
    };
    if targets.is_empty() || targets.len() > 10 || !targets.iter().all(is_known_target) {
        return error(400, "targets must be 1 to 10 models with their formats");
    }
    if !body["metadata"].is_null() && !body["metadata"].is_string() {
        return error(400, "metadata must be text");
    }
    let id = request.world.uuid();
    let job = request.world.accept(NAME, id, body.clone(), Value::Null);
    SimulatedReply::json(200, &task(request, &job))
}

fn get(request: &SimulatedRequest) -> SimulatedReply {
    if let Some(reply) = auth_error(request) {
        return reply;
    }
    match request.world.poll_job(request.param("id")) {
        Some(job) => SimulatedReply::json(200, &task(request, &job)),
        None => error(404, "There is no such task"),
    }
}

/// The first target is done halfway through the work, the others at its end.
fn task(request: &SimulatedRequest, job: &Job) -> Value {
    let targets = job.input["targets"].as_array().cloned().unwrap_or_default();
    let has_ended = matches!(job.phase(), JobPhase::Ended(_));
    let target = |(number, target): (usize, Value)| {
        // One target ends before the others, so that adapters have to wait for all of them.
        let status = match job.phase() {
            _ if request.unknown_status => "resting",
            JobPhase::Running(share)
                if share > 0.5 && number == 0 && job.plan.end == PlannedEnd::Success =>
            {
                "completed"
            }
            JobPhase::Ended(PlannedEnd::Success | PlannedEnd::Empty) => "completed",
            JobPhase::Ended(PlannedEnd::Failure | PlannedEnd::Unfit | PlannedEnd::Refusal) => {
                "error"
            }
            _ => "processing",
        };
        let model = target["model"].as_str().unwrap_or_default();
        let link = format!(
            "{}/output/{}/{model}?sig={}",
            request.base,
            job.id,
            request.world.number()
        );
        let output = if status == "completed" && job.plan.end == PlannedEnd::Success {
            json!([{"name": model, "format": "wav", "link": link}])
        } else {
            json!([])
        };
        let fault = if status == "error" {
            json!({"code": 500, "message": "The model failed."})
        } else {
            json!(null)
        };
        json!({"id": format!("{}-{number}", job.id), "model": model, "status": status,
            "formats": target["formats"], "output": output, "error": fault})
    };
    json!({
        "id": job.id, "createdAt": "2026-01-02T03:04:05.678Z",
        "completedAt": if has_ended { json!("2026-01-02T03:05:05.678Z") } else { json!(null) },
        "assetId": job.input["assetId"], "metadata": job.input["metadata"],
        "targets": targets.into_iter().enumerate().map(target).collect::<Vec<_>>(),
    })
}

fn download(request: &SimulatedRequest) -> SimulatedReply {
    // Links point to a bucket, which must not receive the service's key.
    if request.expired || !request.header("x-api-key").is_empty() {
        return SimulatedReply::json(403, &json!("AccessDenied: Request has expired"))
            .with_header("content-type", "text/plain");
    }
    let first = request.param("name").bytes().next().unwrap_or(b'v');
    SimulatedReply::file("audio/wav", media::audio(2_000, 4.0 * f64::from(first)))
}

fn error(status: u16, message: &str) -> SimulatedReply {
    SimulatedReply::json(
        status,
        &json!({"error": {"code": status, "message": message}}),
    )
}
