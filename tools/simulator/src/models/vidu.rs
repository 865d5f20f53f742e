//! `vidu`: one path for each kind of start, one format of tasks.

use serde_json::{Value, json};

use super::{SimulatedProvider, results};
use crate::fault::RequestRole;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "vidu",
    routes: |site| {
        site.error(|status| json!({"code": status, "reason": "simulated", "message": "simulated"}))
            .route("POST", "/text2video", RequestRole::Submit, from_text)
            .route("POST", "/img2video", RequestRole::Submit, from_picture)
            .route("POST", "/start-end2video", RequestRole::Submit, from_two)
            .route(
                "POST",
                "/reference2video",
                RequestRole::Submit,
                from_references,
            )
            .route("GET", "/tasks/{id}/creations", RequestRole::Poll, creations)
            .route("POST", "/tasks/{id}/cancel", RequestRole::Cancel, cancel)
            .route(
                "GET",
                "/cdn/{id}/output.mp4",
                RequestRole::Download,
                download,
            )
    },
};

fn from_text(request: &SimulatedRequest) -> SimulatedReply {
    submit(request, 0..=0, true)
}

fn from_picture(request: &SimulatedRequest) -> SimulatedReply {
    submit(request, 1..=1, false)
}

fn from_two(request: &SimulatedRequest) -> SimulatedReply {
    submit(request, 2..=2, false)
}

fn from_references(request: &SimulatedRequest) -> SimulatedReply {
    submit(request, 1..=7, true)
}

fn is_unauthorized(request: &SimulatedRequest) -> bool {
    // The scheme is "Token". A bearer key is refused.
    !request.header("authorization").starts_with("Token ")
}

fn submit(
    request: &SimulatedRequest,
    pictures: std::ops::RangeInclusive<usize>,
    needs_aspect_ratio: bool,
) -> SimulatedReply {
    const KNOWN_MEMBERS: [&str; 8] = [
        "model",
        "prompt",
        "images",
        "duration",
        "resolution",
        "aspect_ratio",
        "seed",
        "audio",
    ];
    if is_unauthorized(request) {
        return error(401, "Unauthorized");
    }
    let body = &request.body;
    let images = body["images"].as_array().map_or(&[][..], Vec::as_slice);
    let images_fit = images.iter().all(|image| {
        let image = image.as_str().unwrap_or_default();
        image.starts_with("https://") || image.starts_with("data:image/")
    });
    // Frames decide the shape, so an aspect ratio with them is refused. Without frames it is
    // required.
    let fits = body.as_object().is_some_and(|fields| {
        fields
            .keys()
            .all(|name| KNOWN_MEMBERS.contains(&name.as_str()))
    }) && images_fit
        && pictures.contains(&images.len())
        && body["aspect_ratio"].is_string() == needs_aspect_ratio
        && body["duration"]
            .as_u64()
            .is_some_and(|seconds| (1..=16).contains(&seconds))
        && matches!(body["resolution"].as_str(), Some("540p" | "720p" | "1080p"));
    let prompt = body["prompt"].as_str().unwrap_or_default();
    if !fits || prompt.is_empty() {
        return error(400, "FieldInvalid");
    }
    if prompt.contains("forbidden") {
        return error(400, "TaskPromptPolicyViolation");
    }
    let id = request.world.number().to_string();
    request
        .world
        .accept("vidu", id.clone(), body.clone(), Value::Null);
    SimulatedReply::json(
        200,
        &json!({"task_id": id, "state": "created", "credits": 20}),
    )
}

fn creations(request: &SimulatedRequest) -> SimulatedReply {
    if is_unauthorized(request) {
        return error(401, "Unauthorized");
    }
    let id = request.param("id");
    let Some(job) = request.world.poll_job(id) else {
        return error(404, "TaskNotFound");
    };
    // A failed task is refunded: its credits are 0.
    let failed =
        |code: &str| json!({"state": "failed", "err_code": code, "credits": 0, "creations": []});
    let mut body = match job.phase() {
        // There are two words for waiting. Polls return both.
        JobPhase::Queued if job.polls == 1 => json!({"state": "created", "creations": []}),
        JobPhase::Queued => json!({"state": "queueing", "creations": []}),
        JobPhase::Running(_) => json!({"state": "processing", "creations": []}),
        JobPhase::Ended(PlannedEnd::Success) => {
            let signature = request.world.number();
            let url = format!("{}/cdn/{id}/output.mp4?sign={signature}", request.base);
            json!({"state": "success", "credits": 20, "creations": [{"id": "c", "url": url, "cover_url": ""}]})
        }
        JobPhase::Ended(PlannedEnd::Empty) => json!({"state": "success", "creations": []}),
        JobPhase::Ended(PlannedEnd::Failure) => failed("InternalServiceFailure"),
        JobPhase::Ended(PlannedEnd::Unfit) => failed("ImageFormatInvalid"),
        JobPhase::Ended(PlannedEnd::Refusal) => failed("CreationPolicyViolation"),
        // There is no word for cancelled. It is a code under "failed".
        JobPhase::Cancelled => failed("UserCancelled"),
    };
    body["id"] = json!(id);
    if request.unknown_status {
        body["state"] = json!("polishing");
    }
    SimulatedReply::json(200, &body)
}

fn cancel(request: &SimulatedRequest) -> SimulatedReply {
    let id = request.param("id");
    // Vidu requires the id in the body too.
    if request.body["id"] != id {
        return error(400, "FieldLacking");
    }
    request.world.cancel(id);
    SimulatedReply::json(200, &json!({}))
}

fn download(request: &SimulatedRequest) -> SimulatedReply {
    results::signed_video(request, "sign")
}

fn error(status: u16, reason: &str) -> SimulatedReply {
    SimulatedReply::json(
        status,
        &json!({"code": status, "reason": reason, "message": reason, "metadata": {}}),
    )
}
