//! `openrouter`: `OpenRouter`'s video API, according to the types of `@openrouter/sdk`.

use serde_json::{Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "openrouter",
    routes: |site| {
        site.error(|status| json!({"error": {"code": status, "message": "simulated"}}))
            .route("POST", "/videos", RequestRole::Submit, submit)
            .route("GET", "/videos/{id}", RequestRole::Poll, get)
            .route(
                "GET",
                "/videos/{id}/content",
                RequestRole::Download,
                content,
            )
    },
};

const MEMBERS: [&str; 10] = [
    "model",
    "prompt",
    "duration",
    "resolution",
    "aspect_ratio",
    "seed",
    "user",
    "generate_audio",
    "frame_images",
    "input_references",
];

fn submit(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "No auth credentials found");
    }
    let body = &request.body;
    let has_known_fields = body
        .as_object()
        .is_some_and(|fields| fields.keys().all(|key| MEMBERS.contains(&key.as_str())));
    let one_of = |name: &str, allowed: &[&str]| {
        let text = body[name].as_str();
        text.is_some_and(|text| allowed.contains(&text))
    };
    let frames = body["frame_images"].as_array().cloned().unwrap_or_default();
    let frames_fit = frames.iter().all(|frame| {
        let url = frame["image_url"]["url"].as_str().unwrap_or_default();
        frame["type"] == "image_url"
            && (url.starts_with("https://") || url.starts_with("data:image/"))
            && matches!(
                frame["frame_type"].as_str(),
                Some("first_frame" | "last_frame")
            )
    });
    let ratios = ["16:9", "9:16", "1:1", "4:3", "3:4", "21:9"];
    // Seedance 2.5 takes the shape of its frames, and refuses a ratio with them.
    let follows_frames = body["model"] == "bytedance/seedance-2.5" && !frames.is_empty();
    let ratio_fits = if follows_frames {
        body["aspect_ratio"].is_null()
    } else {
        one_of("aspect_ratio", &ratios)
    };
    let resolutions = ["360p", "480p", "720p", "768p", "1080p", "1K", "2K", "4K"];
    let fits = has_known_fields
        && body["model"]
            .as_str()
            .is_some_and(|model| model.contains('/'))
        && body["duration"]
            .as_u64()
            .is_some_and(|seconds| (1..=30).contains(&seconds))
        && one_of("resolution", &resolutions)
        && ratio_fits
        && (body["seed"].is_null() || body["seed"].is_u64())
        && frames_fit;
    let prompt = body["prompt"].as_str().unwrap_or_default();
    if !fits || prompt.is_empty() {
        return error(400, "Invalid request parameters");
    }
    if prompt.contains("forbidden") {
        // 403 also means a key without permission. Only the message identifies a refusal of
        // content.
        return error(403, "The input was flagged by moderation");
    }
    let id = request.world.uuid();
    request
        .world
        .accept("openrouter", id.clone(), body.clone(), Value::Null);
    SimulatedReply::json(
        202,
        &json!({"id": id, "polling_url": format!("/api/v1/videos/{id}"), "status": "pending"}),
    )
}

fn get(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "No auth credentials found");
    }
    let id = request.param("id");
    let Some(job) = request.world.poll_job(id) else {
        return error(404, "Job not found");
    };
    let mut body = json!({"id": id, "polling_url": format!("/api/v1/videos/{id}")});
    let status = match job.phase() {
        JobPhase::Queued => "pending",
        JobPhase::Running(_) => "in_progress",
        JobPhase::Ended(PlannedEnd::Success) => {
            // The URL is not signed and does not expire. It requires the key instead.
            let url = format!("{}/videos/{id}/content?index=0", request.base);
            body["unsigned_urls"] = json!([url]);
            body["usage"] = json!({"cost": 0.5, "is_byok": false});
            "completed"
        }
        JobPhase::Ended(PlannedEnd::Empty) => "completed",
        JobPhase::Ended(PlannedEnd::Failure) => {
            // OpenRouter has no codes for failures. Only their messages distinguish them.
            body["error"] = json!("The provider failed");
            "failed"
        }
        JobPhase::Ended(PlannedEnd::Unfit) => {
            body["error"] = json!("Invalid image: the picture is too small");
            "failed"
        }
        JobPhase::Ended(PlannedEnd::Refusal) => {
            body["error"] = json!("The output was blocked by content moderation");
            "failed"
        }
        JobPhase::Cancelled => "cancelled",
    };
    body["status"] = json!(if request.unknown_status {
        "upscaling"
    } else {
        status
    });
    SimulatedReply::json(200, &body)
}

fn content(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "No auth credentials found");
    }
    let job = request.world.job(request.param("id"));
    let has_video =
        |job: &crate::world::Job| matches!(job.phase(), JobPhase::Ended(PlannedEnd::Success));
    let Some(job) = job.filter(has_video).filter(|_| !request.expired) else {
        return error(404, "No content");
    };
    let seconds = job.input["duration"].as_u64().unwrap_or(5);
    SimulatedReply::file(
        "video/mp4",
        media::video(u32::try_from(seconds).unwrap_or(5)),
    )
}

fn error(status: u16, message: &str) -> SimulatedReply {
    SimulatedReply::json(
        status,
        &json!({"error": {"code": status, "message": message}}),
    )
}
