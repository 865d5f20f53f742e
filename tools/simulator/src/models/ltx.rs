//! `ltx`: Lightricks' jobs, polled at the path at which they were ordered.

use serde_json::json;

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider =
    SimulatedProvider {
        name: "ltx",
        routes: |site| {
            site.error(
            |status| json!({"type": "error", "error": {"message": format!("simulated {status}")}}),
        )
        .route("POST", "/v2/{operation}", RequestRole::Submit, submit)
        .route("GET", "/v2/{operation}/{id}", RequestRole::Poll, poll)
        .route("GET", "/cdn/{id}/output.mp4", RequestRole::Download, |request| {
            request.signed_video("sign")
        })
        },
    };

fn submit(request: &SimulatedRequest) -> SimulatedReply {
    const KNOWN_MEMBERS: [&str; 6] = [
        "model",
        "prompt",
        "image_uri",
        "duration",
        "resolution",
        "generate_audio",
    ];
    if request.bearer().is_none() {
        return error(401, "authentication_error", "The key is missing");
    }
    let (body, operation) = (&request.body, request.param("operation"));
    let image = body["image_uri"].as_str().unwrap_or_default();
    let fits = body.as_object().is_some_and(|fields| {
        fields
            .keys()
            .all(|name| KNOWN_MEMBERS.contains(&name.as_str()))
    }) && body["duration"]
        .as_u64()
        .is_some_and(|seconds| (2..=20).contains(&seconds))
        && body["resolution"]
            .as_str()
            .is_some_and(|size| size.contains('x'))
        && match operation {
            "text-to-video" => image.is_empty(),
            "image-to-video" => image.starts_with("https://") || image.starts_with("data:image/"),
            _ => false,
        };
    let prompt = body["prompt"].as_str().unwrap_or_default();
    if !fits || prompt.is_empty() {
        return error(400, "invalid_request_error", "A field is wrong");
    }
    if prompt.contains("forbidden") {
        return error(
            422,
            "content_filtered_error",
            "Content rejected by safety filters",
        );
    }
    let id = request.world.uuid();
    request
        .world
        .accept("ltx", id.clone(), body.clone(), json!(operation));
    SimulatedReply::json(202, &json!({"id": id, "status": "pending"}))
}

fn poll(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "authentication_error", "The key is missing");
    }
    let id = request.param("id");
    let job = request.world.poll_job(id);
    // A job is found only at the path at which it was ordered, so that path is part of its handle.
    let Some(job) = job.filter(|job| job.provider_data == request.param("operation")) else {
        return error(404, "not_found_error", "There is no such job");
    };
    let failed = |kind: &str, message: &str| json!({"status": "failed", "error": {"type": kind, "message": message}});
    let mut body = match job.phase() {
        JobPhase::Queued => json!({"status": "pending"}),
        JobPhase::Running(_) => json!({"status": "processing"}),
        JobPhase::Ended(PlannedEnd::Success) => {
            let signature = request.world.number();
            let url = format!("{}/cdn/{id}/output.mp4?sign={signature}", request.base);
            json!({"status": "completed", "result": {"video_url": url}})
        }
        JobPhase::Ended(PlannedEnd::Empty) => json!({"status": "completed", "result": {}}),
        JobPhase::Ended(PlannedEnd::Failure) | JobPhase::Cancelled => {
            failed("api_error", "It failed")
        }
        JobPhase::Ended(PlannedEnd::Unfit) => {
            failed("invalid_request_error", "The image is too small")
        }
        JobPhase::Ended(PlannedEnd::Refusal) => {
            failed("content_filtered_error", "Rejected by safety filters")
        }
    };
    body["id"] = json!(id);
    if request.unknown_status {
        body["status"] = json!("polishing");
    }
    SimulatedReply::json(200, &body)
}

fn error(status: u16, kind: &str, message: &str) -> SimulatedReply {
    SimulatedReply::json(
        status,
        &json!({"type": "error", "error": {"type": kind, "message": message}}),
    )
}
