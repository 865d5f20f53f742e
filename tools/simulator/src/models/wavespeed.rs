//! `wavespeed`: `WaveSpeedAI`'s predictions, as `wavespeed` 2.0.5 (`PyPI`) reads them.

use serde_json::{Value, json};

use super::{SimulatedProvider, results};
use crate::fault::RequestRole;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "wavespeed",
    routes: |site| {
        site.error(|status| json!({"code": status, "message": "simulated"}))
            .route(
                "POST",
                "/{owner}/{model}/{task}",
                RequestRole::Submit,
                submit,
            )
            .route("GET", "/predictions/{id}/result", RequestRole::Poll, result)
            .route(
                "GET",
                "/cdn/{id}/output.mp4",
                RequestRole::Download,
                download,
            )
    },
};

const MEMBERS: [&str; 8] = [
    "enable_audio",
    "prompt",
    "duration",
    "resolution",
    "aspect_ratio",
    "seed",
    "image",
    "negative_prompt",
];

fn submit(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "Unauthorized");
    }
    let (body, task) = (&request.body, request.param("task"));
    let has_known_fields = body
        .as_object()
        .is_some_and(|fields| fields.keys().all(|key| MEMBERS.contains(&key.as_str())));
    let image = body["image"].as_str().unwrap_or_default();
    let has_picture = image.starts_with("https://") || image.starts_with("data:image/");
    // A text-to-video model refuses a picture: the same maker has another model, with a separate
    // path, for pictures.
    let fits = has_known_fields
        && body["duration"]
            .as_u64()
            .is_some_and(|seconds| (1..=30).contains(&seconds))
        && matches!(body["resolution"].as_str(), Some("480p" | "720p" | "1080p"))
        && match task {
            "text-to-video" => body["image"].is_null(),
            "image-to-video" => has_picture,
            _ => false,
        };
    let prompt = body["prompt"].as_str().unwrap_or_default();
    if !fits || prompt.is_empty() {
        return error(400, "invalid input");
    }
    if prompt.contains("forbidden") {
        return error(400, "content flagged as potentially sensitive");
    }
    let id = format!("{:032x}", request.world.number());
    request
        .world
        .accept("wavespeed", id.clone(), body.clone(), Value::Null);
    let result_url = format!("{}/predictions/{id}/result", request.base);
    answer(&json!({"id": id, "status": "created", "outputs": [], "urls": {"get": result_url}}))
}

fn result(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "Unauthorized");
    }
    let id = request.param("id");
    let Some(job) = request.world.poll_job(id) else {
        return error(404, "prediction not found");
    };
    // A failure has code 200 like everything else, and only its message gives the reason.
    let mut data = json!({"id": id, "outputs": [], "error": ""});
    let status = match job.phase() {
        JobPhase::Queued => "created",
        JobPhase::Running(_) => "processing",
        JobPhase::Ended(PlannedEnd::Success) => {
            let signature = request.world.number();
            let url = format!("{}/cdn/{id}/output.mp4?signature={signature}", request.base);
            data["outputs"] = json!([url]);
            "completed"
        }
        JobPhase::Ended(PlannedEnd::Empty) => "completed",
        JobPhase::Ended(PlannedEnd::Failure) => {
            data["error"] = json!("the model failed");
            "failed"
        }
        JobPhase::Ended(PlannedEnd::Unfit) => {
            data["error"] = json!("invalid image");
            "failed"
        }
        JobPhase::Ended(PlannedEnd::Refusal) => {
            data["error"] = json!("content flagged as potentially sensitive");
            "failed"
        }
        JobPhase::Cancelled => "cancelled",
    };
    data["status"] = json!(if request.unknown_status {
        "polishing"
    } else {
        status
    });
    answer(&data)
}

fn download(request: &SimulatedRequest) -> SimulatedReply {
    results::signed_video(request, "signature")
}

fn answer(data: &Value) -> SimulatedReply {
    SimulatedReply::json(
        200,
        &json!({"code": 200, "message": "success", "data": data}),
    )
}

fn error(status: u16, message: &str) -> SimulatedReply {
    SimulatedReply::json(status, &json!({"code": status, "message": message}))
}
