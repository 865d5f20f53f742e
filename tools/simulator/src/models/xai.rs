//! `xai`: Grok Imagine videos.

use serde_json::{Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "xai",
    routes: |site| {
        site.error(|status| json!({"code": format!("simulated {status}"), "error": "simulated"}))
            .route("POST", "/videos/generations", RequestRole::Submit, submit)
            .route("GET", "/videos/{id}", RequestRole::Poll, get)
            .route("GET", "/files/{id}", RequestRole::Download, file)
    },
};

const MEMBERS: [&str; 9] = [
    "model",
    "prompt",
    "duration",
    "aspect_ratio",
    "resolution",
    "image",
    "last_frame",
    "reference_images",
    "user",
];

fn submit(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "unauthenticated:bad-credentials", "No credentials");
    }
    let body = &request.body;
    if let Some(message) = order_error(body) {
        return error(400, "Client specified an invalid argument", &message);
    }
    if body["prompt"]
        .as_str()
        .is_some_and(|prompt| prompt.contains("forbidden"))
    {
        return error(
            400,
            "Client specified an invalid argument",
            "Generated video rejected by content moderation.",
        );
    }
    let id = request.world.uuid();
    let job = request.world.accept("xai", id, body.clone(), Value::Null);
    SimulatedReply::json(200, &json!({"request_id": job.id}))
}

/// What is wrong with an order.
fn order_error(body: &Value) -> Option<String> {
    let members = body.as_object()?;
    if let Some(name) = members
        .keys()
        .find(|name| !MEMBERS.contains(&name.as_str()))
    {
        return Some(format!("unknown field `{name}`"));
    }
    let one_of = |name: &str, allowed: &[&str]| {
        let value = &body[name];
        let fits = value.is_null() || value.as_str().is_some_and(|text| allowed.contains(&text));
        (!fits).then(|| format!("{name}: unknown variant {value}"))
    };
    if !body["model"]
        .as_str()
        .is_some_and(|model| model.starts_with("grok-imagine-video"))
    {
        return Some("model: not found".into());
    }
    if body["prompt"].as_str().is_none_or(str::is_empty) {
        return Some("missing field `prompt`".into());
    }
    if !body["duration"].is_null()
        && !body["duration"]
            .as_u64()
            .is_some_and(|seconds| (1..=15).contains(&seconds))
    {
        return Some("duration: must be a whole number from 1 to 15".into());
    }
    let has_frames = body["model"] == "grok-imagine-video-1.5" && !body["image"].is_null();
    if !body["last_frame"].is_null() && !has_frames {
        return Some("last_frame: is for grok-imagine-video-1.5, with an image".into());
    }
    for name in ["image", "last_frame"] {
        let url = body[name]["url"].as_str().unwrap_or_default();
        let is_address = url.starts_with("https://") || url.starts_with("data:image/");
        if !body[name].is_null() && !is_address {
            return Some(format!("{name}.url: neither an address nor a data URL"));
        }
    }
    one_of("resolution", &["480p", "720p", "1080p"]).or_else(|| {
        let ratios = ["16:9", "9:16", "1:1", "4:3", "3:4", "3:2", "2:3"];
        one_of("aspect_ratio", &ratios)
    })
}

fn get(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "unauthenticated:bad-credentials", "No credentials");
    }
    let Some(job) = request.world.poll_job(request.param("id")) else {
        return error(
            404,
            "Some requested entity was not found",
            "No such request",
        );
    };
    if request.unknown_status {
        return SimulatedReply::json(200, &json!({"status": "upscaling"}));
    }
    let model = &job.input["model"];
    match job.phase() {
        // While a job waits, xAI answers 202, sometimes without a body. An adapter that parses
        // every answer as JSON fails here.
        JobPhase::Queued | JobPhase::Cancelled => SimulatedReply::empty(202),
        JobPhase::Running(share) => SimulatedReply::json(
            202,
            &json!({"status": "pending", "progress": (share * 100.0).floor()}),
        ),
        JobPhase::Ended(PlannedEnd::Success) => {
            SimulatedReply::json(200, &finished_body(request, &job, true))
        }
        JobPhase::Ended(PlannedEnd::Refusal) => {
            SimulatedReply::json(200, &finished_body(request, &job, false))
        }
        JobPhase::Ended(PlannedEnd::Unfit) => SimulatedReply::json(
            200,
            &json!({"status": "failed", "model": model,
                "error": {"code": "invalid_argument", "message": "The image is too small."}}),
        ),
        JobPhase::Ended(PlannedEnd::Failure) => SimulatedReply::json(
            200,
            &json!({"status": "failed", "model": model,
                "error": {"code": "internal_error", "message": "The generation failed."}}),
        ),
        JobPhase::Ended(PlannedEnd::Empty) => {
            SimulatedReply::json(200, &json!({"status": "done", "model": model}))
        }
    }
}

fn finished_body(request: &SimulatedRequest, job: &Job, passes_moderation: bool) -> Value {
    let url = format!("{}/files/{}?signature={}", request.base, job.id, job.polls);
    // Refused content is no failure: the video is done, with `respect_moderation` false.
    let video =
        json!({"url": url, "duration": seconds(job), "respect_moderation": passes_moderation});
    let mut body = json!({"video": video, "model": job.input["model"], "progress": 100,
        "usage": {"cost_in_usd_ticks": u64::from(seconds(job)) * TICKS_PER_SECOND}});
    // A finished answer may lack the status, as here every other one does. The video shows that it
    // is done.
    if job.polls.is_multiple_of(2) {
        body["status"] = json!("done");
    }
    body
}

/// Five cents; a dollar has 10,000,000,000 ticks.
const TICKS_PER_SECOND: u64 = 500_000_000;

fn file(request: &SimulatedRequest) -> SimulatedReply {
    if request.expired {
        return SimulatedReply::json(403, &json!("the signature has expired"));
    }
    match request.world.job(request.param("id")) {
        Some(job) if job.phase() == JobPhase::Ended(PlannedEnd::Success) => {
            SimulatedReply::file("video/mp4", media::video(seconds(&job)))
        }
        _ => SimulatedReply::empty(404),
    }
}

fn seconds(job: &Job) -> u32 {
    let requested = job.input["duration"].as_u64();
    requested
        .and_then(|seconds| u32::try_from(seconds).ok())
        .unwrap_or(6)
}

fn error(status: u16, code: &str, message: &str) -> SimulatedReply {
    SimulatedReply::json(status, &json!({"code": code, "error": message}))
}
