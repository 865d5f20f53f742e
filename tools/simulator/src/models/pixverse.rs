//! `pixverse`: pictures first, then a job, whose status is a number. An upload that repeats a
//! trace id is rejected.

use serde_json::{Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "pixverse",
    routes: |site| {
        site.error(|status| json!({"ErrCode": i32::from(status), "ErrMsg": "simulated"}))
            .route("POST", "/image/upload", RequestRole::Upload, upload)
            .route(
                "POST",
                "/video/text/generate",
                RequestRole::Submit,
                from_text,
            )
            .route(
                "POST",
                "/video/img/generate",
                RequestRole::Submit,
                from_picture,
            )
            .route(
                "POST",
                "/video/transition/generate",
                RequestRole::Submit,
                from_two,
            )
            .route("GET", "/video/result/{id}", RequestRole::Poll, result)
            .route(
                "GET",
                "/cdn/{id}/output.mp4",
                RequestRole::Download,
                |request| request.signed_video("signature"),
            )
    },
};

/// What is wrong with the headers.
fn auth_error(request: &SimulatedRequest) -> Option<SimulatedReply> {
    if request.header("api-key").is_empty() {
        return Some(envelope(10_001, "API-KEY is missing", &Value::Null));
    }
    let lacks_trace_id = request.header("ai-trace-id").is_empty();
    lacks_trace_id.then(|| envelope(400_011, "Empty parameter", &Value::Null))
}

fn upload(request: &SimulatedRequest) -> SimulatedReply {
    if let Some(reply) = auth_error(request) {
        return reply;
    }
    if request.body["image"]["bytes"].as_u64().is_none() {
        return envelope(
            500_031,
            "Failed to retrieve image information",
            &Value::Null,
        );
    }
    let trace_id = request.header("ai-trace-id");
    // According to PixVerse, a job never ends if the trace id of its call was used before. Here an
    // upload fails at once, so that a test sees it.
    if request.world.file(trace_id).is_some() {
        return envelope(500_041, "Image upload failed", &Value::Null);
    }
    request.world.keep_file(trace_id, json!({}));
    let id = request.world.number();
    request.world.keep_file(id.to_string(), json!({}));
    envelope(
        0,
        "Success",
        &json!({"img_id": id, "img_url": "https://media.pixverse.test/p"}),
    )
}

fn from_text(request: &SimulatedRequest) -> SimulatedReply {
    submit(request, &["aspect_ratio"], &[])
}

fn from_picture(request: &SimulatedRequest) -> SimulatedReply {
    submit(request, &[], &["img_id"])
}

fn from_two(request: &SimulatedRequest) -> SimulatedReply {
    submit(request, &[], &["first_frame_img", "last_frame_img"])
}

/// The fields of every order.
const COMMON_MEMBERS: [&str; 7] = [
    "model",
    "prompt",
    "negative_prompt",
    "duration",
    "quality",
    "seed",
    "generate_audio_switch",
];

fn submit(request: &SimulatedRequest, extra_fields: &[&str], pictures: &[&str]) -> SimulatedReply {
    if let Some(reply) = auth_error(request) {
        return reply;
    }
    let body = &request.body;
    let is_known = |name: &str| {
        COMMON_MEMBERS.contains(&name) || extra_fields.contains(&name) || pictures.contains(&name)
    };
    let fits = body
        .as_object()
        .is_some_and(|fields| fields.keys().all(|name| is_known(name)))
        && extra_fields.iter().all(|name| body[*name].is_string())
        && body["duration"]
            .as_u64()
            .is_some_and(|seconds| (1..=15).contains(&seconds))
        && matches!(
            body["quality"].as_str(),
            Some("360p" | "540p" | "720p" | "1080p")
        );
    let prompt = body["prompt"].as_str().unwrap_or_default();
    if !fits || prompt.is_empty() {
        return envelope(400_017, "Invalid parameter", &Value::Null);
    }
    let is_uploaded = |name: &str| {
        let id = body[name].as_u64();
        id.is_some_and(|id| request.world.file(&id.to_string()).is_some())
    };
    if !pictures.iter().all(|name| is_uploaded(name)) {
        return envelope(400_032, "Invalid image ID", &Value::Null);
    }
    if prompt.contains("forbidden") {
        return envelope(500_063, "Text moderation failed", &Value::Null);
    }
    let id = request.world.number();
    request
        .world
        .accept("pixverse", id.to_string(), body.clone(), Value::Null);
    envelope(0, "Success", &json!({"video_id": id}))
}

fn result(request: &SimulatedRequest) -> SimulatedReply {
    if let Some(reply) = auth_error(request) {
        return reply;
    }
    let id = request.param("id");
    let Some(job) = request.world.poll_job(id) else {
        return envelope(500_008, "Requested data not found", &Value::Null);
    };
    let mut response = json!({"id": id, "url": ""});
    // Statuses are numbers: 1 done, 5 not done, 6 deleted, 7 refused, 8 failed. 3 is none of them.
    let status = match job.phase() {
        _ if request.unknown_status => 3,
        JobPhase::Queued | JobPhase::Running(_) => 5,
        JobPhase::Ended(PlannedEnd::Success) => {
            let signature = request.world.number();
            let url = format!("{}/cdn/{id}/output.mp4?signature={signature}", request.base);
            (response["url"], response["credits"]) = (json!(url), json!(45));
            1
        }
        JobPhase::Ended(PlannedEnd::Empty) => 1,
        JobPhase::Ended(PlannedEnd::Refusal) => 7,
        // PixVerse gives no reason, so a wrong order cannot be distinguished from a failure.
        JobPhase::Ended(PlannedEnd::Failure | PlannedEnd::Unfit) => 8,
        JobPhase::Cancelled => 6,
    };
    response["status"] = json!(status);
    envelope(0, "Success", &response)
}

/// Every answer has status 200.
fn envelope(code: i64, message: &str, response: &Value) -> SimulatedReply {
    SimulatedReply::json(
        200,
        &json!({"ErrCode": code, "ErrMsg": message, "Resp": response}),
    )
}
