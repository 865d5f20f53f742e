//! `mureka`: songs from lyrics, from a description, without a voice, and from a song that was made
//! before.

use serde_json::{Map, Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "mureka",
    routes: |site| {
        let site = site
            .error(|status| json!({"error": {"message": "simulated", "code": status}, "trace_id": "t"}))
            .route("GET", "/v1/song/query/{id}", RequestRole::Poll, song)
            .route("GET", "/v1/instrumental/query/{id}", RequestRole::Poll, instrumental)
            .route("GET", "/cdn/{id}/{name}", RequestRole::Download, download);
        ORDERS.iter().fold(site, |site, (path, ..)| {
            site.route("POST", path, RequestRole::Submit, submit)
        })
    },
};

/// Paths, their required fields, and their optional ones.
const ORDERS: [(&str, &[&str], &[&str]); 4] = [
    ("/v1/song/generate", &["lyrics"], &["prompt"]),
    ("/v1/song/easy-generate", &["prompt"], &["styles"]),
    ("/v1/instrumental/generate", &["prompt"], &[]),
    ("/v1/song/extend", &["song_id", "lyrics", "extend_at"], &[]),
];
const MODELS: [&str; 8] = [
    "auto",
    "mureka-7.5",
    "mureka-7.6",
    "mureka-8",
    "mureka-9",
    "mureka-9.5",
    "mureka-o1",
    "mureka-o2",
];

fn submit(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "Invalid Authentication");
    }
    let path = request.path.split('?').next().unwrap_or_default();
    let empty = Map::new();
    let body = request.body.as_object().unwrap_or(&empty);
    if let Some(message) = order_error(path, body) {
        return error(400, &message);
    }
    let mut texts = ["prompt", "lyrics"]
        .iter()
        .filter_map(|name| body.get(*name)?.as_str());
    if texts.any(|text| text.contains("forbidden")) {
        return error(400, "The text contains sensitive content");
    }
    // Songs and instrumentals are polled at different paths, and neither path knows the tasks of
    // the other.
    let sort = path.split('/').nth(2);
    let id = format!("{}", 400_000 + request.world.number());
    let provider_data = json!({"sort": sort});
    let job = request
        .world
        .accept("mureka", id, request.body.clone(), provider_data);
    SimulatedReply::json(200, &task_object(request, &job, "preparing"))
}

/// What is wrong with an order.
fn order_error(path: &str, body: &Map<String, Value>) -> Option<String> {
    let order = ORDERS.iter().find(|(endpoint, ..)| *endpoint == path);
    let (_, required, optional) = order?;
    let missing = required
        .iter()
        .find(|name| body.get(**name).is_none_or(|value| *value == ""));
    if let Some(name) = missing {
        return Some(format!("{name} is required"));
    }
    let unknown = body.keys().map(String::as_str).find(|name| {
        !["model", "n", "stream"].contains(name)
            && !required.contains(name)
            && !optional.contains(name)
    });
    if let Some(name) = unknown {
        return Some(format!("{name} is unknown"));
    }
    let model = body.get("model").and_then(Value::as_str).unwrap_or("auto");
    if !MODELS.contains(&model) {
        return Some(format!("model {model} is unknown"));
    }
    let length = |name: &str| {
        body.get(name)
            .and_then(Value::as_str)
            .map_or(0, |text| text.chars().count())
    };
    let max_prompt_chars = if path.ends_with("easy-generate") {
        2_000
    } else {
        1_024
    };
    if length("prompt") > max_prompt_chars || length("lyrics") > 5_000 {
        return Some("the text is too long".into());
    }
    let extend_at = body
        .get("extend_at")
        .map(|extend_at| extend_at.as_u64().unwrap_or(0));
    (!extend_at.is_none_or(|extend_at| (8_000..=420_000).contains(&extend_at)))
        .then(|| "extend_at is out of range".into())
}

fn song(request: &SimulatedRequest) -> SimulatedReply {
    query(request, "song")
}

fn instrumental(request: &SimulatedRequest) -> SimulatedReply {
    query(request, "instrumental")
}

fn query(request: &SimulatedRequest, sort: &str) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "Invalid Authentication");
    }
    let job = request.world.poll_job(request.param("id"));
    let Some(job) = job.filter(|job| job.provider_data["sort"] == sort) else {
        return error(404, "The task was not found");
    };
    let status = match job.phase() {
        _ if request.unknown_status => "tuning",
        JobPhase::Queued => "queued",
        JobPhase::Running(_) => "running",
        JobPhase::Ended(PlannedEnd::Success | PlannedEnd::Empty) => "succeeded",
        JobPhase::Ended(_) => "failed",
        JobPhase::Cancelled => "cancelled",
    };
    SimulatedReply::json(200, &task_object(request, &job, status))
}

fn task_object(request: &SimulatedRequest, job: &Job, status: &str) -> Value {
    let mut task = json!({"id": job.id, "created_at": 1_800_000_000, "model": job.input["model"],
        "status": status, "trace_id": "t"});
    match job.phase() {
        JobPhase::Ended(PlannedEnd::Success) if status == "succeeded" => {
            let signature = request.world.number();
            let url = |name: &str| {
                format!(
                    "{}/cdn/{}/{name}?auth_key={signature}",
                    request.base, job.id
                )
            };
            task["choices"] = json!([{"index": 0, "id": format!("song-{}", job.id), "url": url("song.mp3"),
                "flac_url": url("song.flac"), "duration": 2_000}]);
        }
        // There are no codes. Only the message distinguishes a refusal from a failure.
        JobPhase::Ended(PlannedEnd::Failure) => task["failed_reason"] = json!("internal error"),
        JobPhase::Ended(PlannedEnd::Unfit) => {
            task["failed_reason"] = json!("invalid lyrics format");
        }
        JobPhase::Ended(PlannedEnd::Refusal) => {
            task["failed_reason"] = json!("the content was moderated");
        }
        _ => {}
    }
    task
}

fn download(request: &SimulatedRequest) -> SimulatedReply {
    let job = request.world.job(request.param("id"));
    let is_signed = request.query.contains_key("auth_key");
    let Some(_) = job.filter(|_| is_signed && !request.expired) else {
        return SimulatedReply::json(403, &json!("Request has expired"));
    };
    SimulatedReply::file("audio/flac", media::audio(2_000, 262.0))
}

fn error(status: u16, message: &str) -> SimulatedReply {
    SimulatedReply::json(
        status,
        &json!({"error": {"message": message}, "trace_id": "t"}),
    )
}
