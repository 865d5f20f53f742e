//! `kie`: kie.ai's jobs: errors with status 200 too, and the result as JSON in a string.

use serde_json::{Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "kie",
    routes: |site| {
        site.error(|status| json!({"code": status, "msg": "simulated"}))
            .route("POST", "/jobs/createTask", RequestRole::Submit, submit)
            .route("GET", "/jobs/recordInfo", RequestRole::Poll, record)
            .route(
                "GET",
                "/cdn/{id}/output.mp4",
                RequestRole::Download,
                download,
            )
    },
};

const MEMBERS: [&str; 8] = [
    "prompt",
    "duration",
    "resolution",
    "aspect_ratio",
    "first_frame_url",
    "last_frame_url",
    "reference_image_urls",
    "generate_audio",
];

fn submit(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return envelope(401, "You do not have access permissions", &Value::Null);
    }
    let input = &request.body["input"];
    let has_known_fields = input
        .as_object()
        .is_some_and(|fields| fields.keys().all(|key| MEMBERS.contains(&key.as_str())));
    // kie.ai fetches pictures itself and takes nothing inline.
    let are_https = ["first_frame_url", "last_frame_url"].iter().all(|name| {
        let url = &input[*name];
        url.is_null() || url.as_str().is_some_and(|url| url.starts_with("https://"))
    });
    // Seedance 2.5 takes the shape of its frames, and refuses a named ratio with them.
    let follows_frames =
        request.body["model"] == "bytedance/seedance-2-5" && input["first_frame_url"].is_string();
    let ratio_fits =
        !follows_frames || matches!(input["aspect_ratio"].as_str(), None | Some("adaptive"));
    let fits = has_known_fields
        && are_https
        && ratio_fits
        && request.body["model"]
            .as_str()
            .is_some_and(|model| model.contains("seedance-2"))
        && input["duration"]
            .as_u64()
            .is_some_and(|seconds| (4..=30).contains(&seconds))
        && matches!(
            input["resolution"].as_str(),
            Some("480p" | "720p" | "1080p")
        );
    let prompt = input["prompt"].as_str().unwrap_or_default();
    if !fits || prompt.is_empty() {
        return envelope(422, "The request parameters are wrong", &Value::Null);
    }
    if prompt.contains("forbidden") {
        return envelope(
            501,
            "Your content was flagged as violating content policy",
            &Value::Null,
        );
    }
    let id = format!("task_seedance_{}", request.world.number());
    request
        .world
        .accept("kie", id.clone(), request.body.clone(), Value::Null);
    envelope(200, "success", &json!({"taskId": id}))
}

fn record(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return envelope(401, "You do not have access permissions", &Value::Null);
    }
    let id = request.query.get("taskId").map_or("", String::as_str);
    let Some(job) = request.world.poll_job(id) else {
        return envelope(404, "recordInfo is null", &Value::Null);
    };
    let mut data = json!({"taskId": id, "model": job.input["model"], "resultJson": "",
        "failCode": "", "failMsg": ""});
    let mut failed = |code: &str, message: &str| {
        (data["failCode"], data["failMsg"]) = (json!(code), json!(message));
        "fail"
    };
    let state = match job.phase() {
        // There are two words for waiting, and polls see both.
        JobPhase::Queued if job.polls == 1 => "waiting",
        JobPhase::Queued => "queuing",
        JobPhase::Running(_) => "generating",
        JobPhase::Ended(PlannedEnd::Success) => {
            let signature = request.world.number();
            let url = format!("{}/cdn/{id}/output.mp4?signature={signature}", request.base);
            // The result is JSON inside a string and has to be parsed a second time.
            data["resultJson"] = json!(json!({"resultUrls": [url]}).to_string());
            "success"
        }
        JobPhase::Ended(PlannedEnd::Empty) => "success",
        JobPhase::Ended(PlannedEnd::Failure) | JobPhase::Cancelled => {
            failed("500", "Internal error")
        }
        JobPhase::Ended(PlannedEnd::Unfit) => failed("422", "The image is too small"),
        // A refusal has no separate code, so only its message distinguishes it from a failure.
        JobPhase::Ended(PlannedEnd::Refusal) => failed("", "The content was flagged as sensitive"),
    };
    data["state"] = json!(if request.unknown_status {
        "polishing"
    } else {
        state
    });
    envelope(200, "success", &data)
}

fn download(request: &SimulatedRequest) -> SimulatedReply {
    let job = request.world.job(request.param("id"));
    let is_signed = request.query.contains_key("signature");
    let Some(job) = job.filter(|_| is_signed && !request.expired) else {
        return SimulatedReply::json(403, &json!("Request has expired"));
    };
    let seconds = job.input["input"]["duration"].as_u64().unwrap_or(5);
    SimulatedReply::file(
        "video/mp4",
        media::video(u32::try_from(seconds).unwrap_or(5)),
    )
}

/// Every answer has status 200.
fn envelope(code: u16, message: &str, data: &Value) -> SimulatedReply {
    SimulatedReply::json(200, &json!({"code": code, "msg": message, "data": data}))
}
