//! `luma`: Luma's Agents API (`POST /generations`) and the older Dream Machine
//! (`POST /generations/video`), which share the path of a generation.

use serde_json::{Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "luma",
    routes: |site| {
        site.error(|_| json!({"detail": "simulated"}))
            .route("POST", "/generations", RequestRole::Submit, agents)
            .route(
                "POST",
                "/generations/video",
                RequestRole::Submit,
                dream_machine,
            )
            .route("GET", "/generations", RequestRole::Find, list)
            .route("GET", "/generations/{id}", RequestRole::Poll, get)
            .route("DELETE", "/generations/{id}", RequestRole::Cancel, delete)
            .route(
                "GET",
                "/storage/{id}/video.mp4",
                RequestRole::Download,
                download,
            )
    },
};

const AGENTS: &str = "agents";

fn is_one_of(value: &Value, allowed: &[&str]) -> bool {
    value.as_str().is_some_and(|text| allowed.contains(&text))
}

/// Refuses a field that the API does not have.
fn unknown_member(body: &Value, members: &[&str]) -> Option<SimulatedReply> {
    let Some(fields) = body.as_object() else {
        return Some(error(422, "The body is not a JSON object"));
    };
    let unknown = fields.keys().find(|key| !members.contains(&key.as_str()));
    unknown.map(|key| error(422, &format!("{key}: extra inputs are not permitted")))
}

fn agents(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "Invalid API key");
    }
    let body = &request.body;
    let members = [
        "prompt",
        "model",
        "type",
        "aspect_ratio",
        "video",
        "source",
        "user_id",
    ];
    if let Some(reply) = unknown_member(body, &members) {
        return reply;
    }
    let video = &body["video"];
    let members = [
        "duration",
        "resolution",
        "start_frame",
        "end_frame",
        "keyframes",
        "keyframe_indexes",
        "loop",
        "hdr",
    ];
    if let Some(reply) = unknown_member(video, &members) {
        return reply;
    }
    let ratios = ["21:9", "16:9", "4:3", "3:2", "1:1", "3:4", "2:3", "9:16"];
    let is_valid = body["prompt"].as_str().is_some_and(|text| !text.is_empty())
        && body["model"] == "ray-3.2"
        && body["type"] == "video"
        && is_one_of(&body["aspect_ratio"], &ratios)
        && is_one_of(&video["duration"], &["5s", "10s"])
        && is_one_of(&video["resolution"], &["360p", "540p", "720p", "1080p"]);
    if !is_valid {
        return error(422, "A member is missing or has a wrong value");
    }
    let end_frames = [&video["start_frame"], &video["end_frame"]];
    let frames = video["keyframes"].as_array().cloned().unwrap_or_default();
    let has_ends = end_frames.iter().any(|frame| !frame.is_null());
    let is_long = video["duration"] == "10s";
    if has_ends && (is_long || !frames.is_empty()) {
        return error(
            422,
            "start_frame and end_frame are for five seconds without keyframes",
        );
    }
    let references = end_frames.into_iter().filter(|frame| !frame.is_null());
    if !references.chain(&frames).all(is_reference) {
        return error(422, "A media reference needs url, or data with media_type");
    }
    // Key frames are placed by frame number, at 24 frames a second.
    let last = if is_long { 240 } else { 120 };
    let positions = video["keyframe_indexes"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let positions_fit = positions
        .iter()
        .all(|position| position.as_u64().is_some_and(|position| position <= last));
    if positions.len() != frames.len() || !positions_fit {
        return error(422, "keyframe_indexes do not fit keyframes");
    }
    accept(request, AGENTS)
}

fn is_reference(frame: &Value) -> bool {
    let text = |member: &str| frame[member].as_str().unwrap_or_default();
    // Inline media is bare base64 with a separate media type. A `data:` URL is refused.
    match (text("url"), text("data")) {
        (url, "") => url.starts_with("https://"),
        ("", data) => !data.starts_with("data:") && text("media_type").starts_with("image/"),
        _ => false,
    }
}

fn dream_machine(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "Invalid API key");
    }
    let body = &request.body;
    let members = [
        "model",
        "prompt",
        "aspect_ratio",
        "duration",
        "resolution",
        "loop",
        "keyframes",
        "concepts",
        "callback_url",
    ];
    if let Some(reply) = unknown_member(body, &members) {
        return reply;
    }
    let ratios = ["1:1", "16:9", "9:16", "4:3", "3:4", "21:9", "9:21"];
    let is_valid = is_one_of(&body["model"], &["ray-2", "ray-flash-2"])
        && is_one_of(&body["aspect_ratio"], &ratios)
        && is_one_of(&body["duration"], &["5s", "9s"])
        && is_one_of(&body["resolution"], &["540p", "720p", "1080p", "4k"]);
    if !is_valid {
        return error(400, "A member is missing or has a wrong value");
    }
    // Dream Machine fetches pictures itself and takes nothing inline.
    for name in ["frame0", "frame1"] {
        let frame = &body["keyframes"][name];
        let url = frame["url"].as_str().unwrap_or_default();
        let fits = frame["type"] == "image" && url.starts_with("https://");
        if !frame.is_null() && !fits {
            return error(400, "A keyframe needs type and an https url");
        }
    }
    if is_forbidden(body) {
        return error(400, "Prompt not allowed because advanced moderation failed");
    }
    accept(request, "dream-machine")
}

fn is_forbidden(body: &Value) -> bool {
    let prompt = body["prompt"].as_str().unwrap_or_default();
    prompt.contains("forbidden")
}

fn accept(request: &SimulatedRequest, api: &str) -> SimulatedReply {
    let (id, input) = (request.world.uuid(), request.body.clone());
    let job = request.world.accept("luma", id, input, json!(api));
    SimulatedReply::json(201, &object(request, &job))
}

fn get(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "Invalid API key");
    }
    let job = request.world.poll_job(request.param("id"));
    // A deleted generation is gone. There is no word for a cancelled generation.
    let Some(job) = job.filter(|job| job.phase() != JobPhase::Cancelled) else {
        return error(404, "Generation not found");
    };
    let mut body = object(request, &job);
    if request.unknown_status {
        body["state"] = json!("imagining");
    }
    SimulatedReply::json(200, &body)
}

/// Dream Machine's list; Agents has none.
fn list(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "Invalid API key");
    }
    let (limit, offset) = (request.number("limit", 10), request.number("offset", 0));
    if limit > 100 {
        return error(400, "limit must be at most 100");
    }
    let (jobs, has_more) = request.page("luma", |job| job.provider_data != AGENTS, offset, limit);
    let generations: Vec<Value> = jobs.iter().map(|job| object(request, job)).collect();
    SimulatedReply::json(
        200,
        &json!({"generations": generations, "count": jobs.len(), "has_more": has_more,
            "limit": limit, "offset": offset}),
    )
}

fn object(request: &SimulatedRequest, job: &Job) -> Value {
    let is_agents = job.provider_data == AGENTS;
    let phase = match job.phase() {
        // Agents checks the content while it works. Dream Machine has refused such an order
        // already.
        JobPhase::Ended(_) if is_agents && is_forbidden(&job.input) => {
            JobPhase::Ended(PlannedEnd::Refusal)
        }
        phase => phase,
    };
    let (state, code, reason) = match phase {
        JobPhase::Queued => ("queued", None, None),
        JobPhase::Running(_) if is_agents => ("processing", None, None),
        JobPhase::Running(_) => ("dreaming", None, None),
        JobPhase::Ended(PlannedEnd::Success | PlannedEnd::Empty) => ("completed", None, None),
        JobPhase::Ended(PlannedEnd::Failure) | JobPhase::Cancelled => (
            "failed",
            Some("generation_failed"),
            Some("Generation failed"),
        ),
        JobPhase::Ended(PlannedEnd::Unfit) => (
            "failed",
            Some("corrupt_input"),
            Some("The picture cannot be read"),
        ),
        JobPhase::Ended(PlannedEnd::Refusal) => (
            "failed",
            Some("content_moderated"),
            Some("The output was moderated"),
        ),
    };
    // Each poll returns a newly signed URL, so an expired one is replaced by polling again.
    let url = (phase == JobPhase::Ended(PlannedEnd::Success)).then(|| {
        let signature = request.world.number();
        format!(
            "{}/storage/{}/video.mp4?X-Amz-Signature={signature}",
            request.base, job.id
        )
    });
    let mut body = json!({
        "id": job.id, "state": state, "failure_reason": reason, "model": job.input["model"],
        "created_at": request.timestamp(job.accepted_at),
    });
    if is_agents {
        body["type"] = json!("video");
        body["failure_code"] = json!(code);
        let output = url.map(|url| json!({"type": "video", "url": url}));
        body["output"] = json!(output.as_slice());
    } else {
        body["generation_type"] = json!("video");
        // Dream Machine returns the order, including the prompt, so a lost submission can be found,
        // though not with certainty.
        body["request"] = json!(job.input);
        body["request"]["generation_type"] = json!("video");
        body["assets"] = json!({"video": url, "image": null, "progress_video": null});
    }
    body
}

fn delete(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "Invalid API key");
    }
    match request.world.job(request.param("id")) {
        Some(job) if job.provider_data != AGENTS => {
            request.world.cancel(&job.id);
            SimulatedReply::empty(204)
        }
        Some(_) => error(405, "Method Not Allowed"),
        None => error(404, "Generation not found"),
    }
}

fn download(request: &SimulatedRequest) -> SimulatedReply {
    let job = request.world.job(request.param("id"));
    let is_signed = request.query.contains_key("X-Amz-Signature");
    let Some(job) = job.filter(|_| is_signed && !request.expired) else {
        return SimulatedReply::json(403, &json!("Request has expired"));
    };
    let duration = if job.provider_data == AGENTS {
        &job.input["video"]["duration"]
    } else {
        &job.input["duration"]
    };
    let seconds = duration.as_str().unwrap_or_default().trim_end_matches('s');
    SimulatedReply::file("video/mp4", media::video(seconds.parse().unwrap_or(5)))
}

fn error(status: u16, message: &str) -> SimulatedReply {
    SimulatedReply::json(status, &json!({"detail": message}))
}
