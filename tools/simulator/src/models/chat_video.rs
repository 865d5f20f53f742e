//! `chat-video`: two kinds of resellers. Models named `mediagate-…` answer as Mediagate does,
//! all others with text that contains a link.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "chat-video",
    routes: |site| {
        site.error(|status| {
            json!({"error": {"message": "simulated", "type": "server_error", "param": null, "code": null, "status": status}})
        })
        .route("POST", "/chat/completions", RequestRole::Submit, complete)
        .route("GET", "/out/{file}", RequestRole::Download, file)
    },
};

fn complete(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "invalid_api_key", "Incorrect API key provided.");
    }
    let body = &request.body;
    let Some(members) = body.as_object() else {
        return error(400, "invalid_json", "The body is not JSON.");
    };
    let is_mediagate = body["model"]
        .as_str()
        .is_some_and(|model| model.starts_with("mediagate-"));
    if let Some(message) = request_error(members, is_mediagate) {
        return error(400, "invalid_value", &message);
    }
    let prompt = prompt(body);
    if prompt.contains("forbidden") {
        return error(400, "content_policy", "The prompt is against the rules.");
    }
    // As with Mediagate, a repeated key joins the job that its first use made. So a lost answer can
    // be requested again without a second job.
    let key = request.header("idempotency-key");
    let name = format!("chat-video/{key}");
    let earlier_job = request.world.file(&name).filter(|_| !key.is_empty());
    let earlier_job = earlier_job.and_then(|id| request.world.job(id.as_str()?));
    let job = earlier_job.unwrap_or_else(|| {
        let id = format!("c{:08x}", request.world.number());
        request
            .world
            .accept("chat-video", id, body.clone(), Value::Null)
    });
    if !key.is_empty() {
        request.world.keep_file(name, json!(job.id));
    }
    // Chat has no jobs: the answer is the result, so the connection stays open until the film is
    // made.
    let reply = match (body["stream"] == true, is_mediagate) {
        (true, true) => {
            SimulatedReply::pieces("text/event-stream", mediagate_events(request, &job))
        }
        (true, false) => {
            SimulatedReply::pieces("text/event-stream", reseller_events(request, &job))
        }
        (false, true) => match failure(&job) {
            Some(body) => SimulatedReply::json(503, &body).with_delay(remaining_time(&job)),
            None => SimulatedReply::json(200, &completion(request, &job, true))
                .with_delay(remaining_time(&job)),
        },
        (false, false) => SimulatedReply::json(200, &completion(request, &job, false))
            .with_delay(remaining_time(&job)),
    };
    if is_mediagate {
        reply.with_header("x-task-id", &job.id)
    } else {
        reply
    }
}

/// What is wrong with a request.
fn request_error(members: &Map<String, Value>, is_mediagate: bool) -> Option<String> {
    let allowed = ["model", "messages", "stream", "user"];
    let unknown = members
        .keys()
        .find(|name| !(allowed.contains(&name.as_str()) || is_mediagate && *name == "video"));
    if let Some(name) = unknown {
        return Some(format!("Unrecognized request argument supplied: {name}"));
    }
    if members
        .get("stream")
        .is_some_and(|stream| !stream.is_boolean())
    {
        return Some("stream must be a boolean".into());
    }
    let messages = members.get("messages").and_then(Value::as_array)?;
    let roles = ["system", "developer", "user", "assistant"];
    let invalid = messages.iter().find(|message| {
        let role = message["role"].as_str().unwrap_or_default();
        !roles.contains(&role) || !is_content(&message["content"])
    });
    if let Some(message) = invalid {
        return Some(format!("messages: {message} is not a message"));
    }
    let ends_with_user = messages.last().is_some_and(|last| last["role"] == "user");
    (!ends_with_user).then(|| "messages: the last one must be the user's".into())
}

fn is_content(content: &Value) -> bool {
    let Some(parts) = content.as_array() else {
        return content.is_string();
    };
    parts.iter().all(|part| match part["type"].as_str() {
        Some("text") => part["text"].is_string(),
        Some("image_url") => {
            let url = part["image_url"]["url"].as_str().unwrap_or_default();
            url.starts_with("https://") || url.starts_with("data:image/")
        }
        _ => false,
    })
}

/// The text of the last message.
fn prompt(body: &Value) -> String {
    let last = body["messages"]
        .as_array()
        .and_then(|messages| messages.last());
    let content = last.map(|message| &message["content"]);
    let Some(parts) = content.and_then(Value::as_array) else {
        return content
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
    };
    parts
        .iter()
        .filter_map(|part| part["text"].as_str())
        .collect()
}

/// The time until the video is ready.
fn remaining_time(job: &Job) -> Duration {
    let total_time = job.plan.queued + job.plan.running;
    // A caller who joins an earlier job waits only for the rest. The two milliseconds make sure
    // that the job has ended when its link arrives.
    total_time.saturating_sub(job.accepted_at.elapsed()) + Duration::from_millis(2)
}

fn url(request: &SimulatedRequest, job: &Job) -> String {
    format!("{}/out/{}.mp4?sig={}", request.base, job.id, job.id.len())
}

fn seconds(job: &Job) -> u32 {
    let requested = job.input["video"]["seconds"].as_u64();
    requested
        .and_then(|seconds| u32::try_from(seconds).ok())
        .unwrap_or(8)
}

fn video(request: &SimulatedRequest, job: &Job) -> Value {
    json!({"id": format!("video_{}", job.id), "url": url(request, job), "mime_type": "video/mp4",
        "seconds": seconds(job)})
}

fn completion(request: &SimulatedRequest, job: &Job, is_mediagate: bool) -> Value {
    let mut message = json!({"role": "assistant", "content": reseller_text(request, job)});
    if is_mediagate && job.plan.end == PlannedEnd::Success {
        message["content"] = json!(url(request, job));
        message["video"] = video(request, job);
    }
    json!({"id": format!("chatcmpl-{}", job.id), "object": "chat.completion", "created": 1,
        "model": job.input["model"], "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason(job)}]})
}

fn finish_reason(job: &Job) -> &'static str {
    match job.plan.end {
        PlannedEnd::Refusal => "content_filter",
        _ => "stop",
    }
}

/// The final text of a reseller.
fn reseller_text(request: &SimulatedRequest, job: &Job) -> String {
    match job.plan.end {
        PlannedEnd::Success => {
            // Resellers mix progress, an id and the same link twice into one text. An adapter has
            // to find the link in it.
            let url = url(request, job);
            format!(
                "> Task created: `veo3:{}`\n> 100%\n\n[▶ watch]({url}) | [⏬ download]({url})",
                job.id
            )
        }
        PlannedEnd::Failure | PlannedEnd::Unfit => {
            // A failure is a sentence with status 200. Only the missing link shows that it is one.
            "The generation failed, your balance was not charged.".to_owned()
        }
        PlannedEnd::Refusal | PlannedEnd::Empty => String::new(),
    }
}

/// Mediagate's error of a job that did not end well.
fn failure(job: &Job) -> Option<Value> {
    let code = match job.plan.end {
        PlannedEnd::Success | PlannedEnd::Empty => return None,
        PlannedEnd::Failure => "generation_failed",
        PlannedEnd::Unfit => "provider_rejected",
        PlannedEnd::Refusal => "content_policy",
    };
    Some(
        json!({"error": {"message": "It did not end well.", "type": "provider_error", "param": null,
        "code": code, "task_id": job.id}}),
    )
}

fn chunk(job: &Job, delta: &Value, finish_reason: &Value) -> Value {
    json!({"id": format!("chatcmpl-{}", job.id), "object": "chat.completion.chunk", "created": 1,
        "model": job.input["model"],
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

fn reseller_events(request: &SimulatedRequest, job: &Job) -> Vec<(Duration, String)> {
    let content_event = |text: &str| event(&chunk(job, &json!({"content": text}), &Value::Null));
    let step = remaining_time(job) / 4;
    let role = event(&chunk(
        job,
        &json!({"role": "assistant", "content": ""}),
        &Value::Null,
    ));
    let mut events = vec![
        (Duration::ZERO, role),
        // A comment, with which servers keep a connection alive. It is not an event.
        (Duration::ZERO, ": ping\n\n".to_owned()),
    ];
    for percent in [10, 45, 80] {
        events.push((step, content_event(&format!("> {percent}.5%\n"))));
    }
    let text = reseller_text(request, job);
    // In two pieces, so that a link read from a single chunk is incomplete.
    let middle = (0..=text.len() / 2)
        .rev()
        .find(|index| text.is_char_boundary(*index))
        .unwrap_or(0);
    let (before, after) = text.split_at(middle);
    events.push((step, content_event(before)));
    events.push((Duration::ZERO, content_event(after)));
    let stop = event(&chunk(job, &json!({}), &json!(finish_reason(job))));
    events.push((Duration::ZERO, stop));
    events.push((Duration::ZERO, "data: [DONE]\n\n".to_owned()));
    events
}

fn mediagate_events(request: &SimulatedRequest, job: &Job) -> Vec<(Duration, String)> {
    let progress_event = |status: &str, progress: u8| {
        let mut body = chunk(job, &json!({}), &Value::Null);
        body["task"] = json!({"id": job.id, "status": status, "progress": progress});
        event(&body)
    };
    let step = remaining_time(job) / 2;
    let role = event(&chunk(job, &json!({"role": "assistant"}), &Value::Null));
    let mut events = vec![
        (Duration::ZERO, role),
        (Duration::ZERO, progress_event("queued", 0)),
        (step, progress_event("running", 50)),
    ];
    if let Some(error) = failure(job) {
        // As with Mediagate, nothing follows an error: no stop and no [DONE].
        events.push((step, event(&error)));
        return events;
    }
    events.push((step, progress_event("succeeded", 100)));
    if job.plan.end == PlannedEnd::Success {
        let delta = json!({"content": url(request, job), "video": video(request, job)});
        events.push((Duration::ZERO, event(&chunk(job, &delta, &Value::Null))));
    }
    let stop = event(&chunk(job, &json!({}), &json!("stop")));
    events.push((Duration::ZERO, stop));
    events.push((Duration::ZERO, "data: [DONE]\n\n".to_owned()));
    events
}

fn file(request: &SimulatedRequest) -> SimulatedReply {
    if request.expired {
        return SimulatedReply::json(403, &json!("the signature has expired"));
    }
    let id = request.param("file").trim_end_matches(".mp4");
    match request.world.job(id) {
        Some(job) if job.phase() == JobPhase::Ended(PlannedEnd::Success) => {
            SimulatedReply::file("video/mp4", media::video(seconds(&job)))
        }
        _ => SimulatedReply::empty(404),
    }
}

fn error(status: u16, code: &str, message: &str) -> SimulatedReply {
    SimulatedReply::json(
        status,
        &json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": code}}),
    )
}
