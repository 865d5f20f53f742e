//! `lalal`: LALAL.AI, API version 1. Every call is a `POST`, and every path ends
//! in a slash.

use serde_json::{Map, Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

const NAME: &str = "lalal";

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: NAME,
    routes: |site| {
        site.error(|status| json!({"detail": "simulated", "code": format!("simulated_{status}")}))
            .route("POST", "/upload/", RequestRole::Upload, upload)
            .route(
                "POST",
                "/split/stem_separator/",
                RequestRole::Submit,
                separate,
            )
            .route("POST", "/split/multistem/", RequestRole::Submit, multistem)
            .route("POST", "/check/", RequestRole::Poll, check)
            .route("POST", "/cancel/", RequestRole::Cancel, cancel)
            .route("GET", "/d/{id}/{label}", RequestRole::Download, download)
    },
};

/// The stems of every splitter.
const STEMS: [&str; 6] = [
    "vocals",
    "drum",
    "piano",
    "bass",
    "electric_guitar",
    "acoustic_guitar",
];
/// The stems that only the splitter `phoenix` has.
const PHOENIX: [&str; 3] = ["synthesizer", "strings", "wind"];

fn auth_error(request: &SimulatedRequest) -> Option<SimulatedReply> {
    request
        .header("x-license-key")
        .is_empty()
        .then(|| SimulatedReply::json(403, &json!({"detail": "Not authenticated"})))
}

fn upload(request: &SimulatedRequest) -> SimulatedReply {
    if let Some(reply) = auth_error(request) {
        return reply;
    }
    let disposition = request.header("content-disposition");
    // The body is the bare file, so its name comes in a header: as `filename*=utf-8''...` or as
    // `filename=...` (RFC 6266).
    let name = disposition
        .strip_prefix("attachment; filename")
        .and_then(|name| name.strip_prefix("*=utf-8''").or(name.strip_prefix('=')));
    let Some(name) = name.filter(|name| name.is_ascii() && name.len() > 2) else {
        return error(400, "bad_header", "Content-Disposition is required");
    };
    if request.bytes.is_empty() {
        return error(400, "empty_file", "The file is empty");
    }
    let id = request.world.uuid();
    request.world.keep_file(&id, json!({"name": name}));
    SimulatedReply::json(
        200,
        &json!({"id": id, "name": name, "size": request.bytes.len(), "duration": 10, "expires": 4_102_444_800_u64}),
    )
}

fn separate(request: &SimulatedRequest) -> SimulatedReply {
    let presets = &request.body["presets"];
    let stem = presets["stem"].as_str().unwrap_or_default();
    let splitter = presets["splitter"].as_str().unwrap_or("auto");
    let is_phoenix_stem = PHOENIX.contains(&stem) && matches!(splitter, "phoenix" | "auto");
    if !STEMS.contains(&stem) && !is_phoenix_stem {
        return invalid("stem", "Input is not one of the stems");
    }
    split(request, json!({"labels": [stem, format!("no_{stem}")]}))
}

fn multistem(request: &SimulatedRequest) -> SimulatedReply {
    let list = request.body["presets"]["stem_list"].as_array();
    let list: Vec<&str> = list
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if list.is_empty() || list.len() > 6 || list.iter().any(|stem| !STEMS.contains(stem)) {
        return invalid("stem_list", "Input is not a list of one to six stems");
    }
    let mut labels = list;
    labels.push("no_multistem");
    split(request, json!({"labels": labels}))
}

/// Accepts an order, and only one for each idempotency key.
fn split(request: &SimulatedRequest, provider_data: Value) -> SimulatedReply {
    if let Some(reply) = auth_error(request) {
        return reply;
    }
    let body = &request.body;
    let presets = &body["presets"];
    let extraction = presets["extraction_level"].as_str();
    if !matches!(extraction, None | Some("deep_extraction" | "clear_cut")) {
        return invalid("extraction_level", "Input is not a valid level");
    }
    let format = presets["encoder_format"].as_str();
    if !matches!(format, None | Some("mp3" | "wav" | "flac" | "aac" | "ogg")) {
        return invalid("encoder_format", "Input is not a valid format");
    }
    let key = body["idempotency_key"].as_str().unwrap_or_default();
    if !body["idempotency_key"].is_null() && !is_uuid4(key) {
        return invalid("idempotency_key", "Input is not a UUID version 4");
    }
    let key_name = format!("key {key}");
    let earlier_id = request.world.file(&key_name);
    if let Some(job) = earlier_id.and_then(|id| request.world.job(id.as_str().unwrap_or_default()))
    {
        // LALAL.AI joins a repeated key "until the task starts". Here no task starts before its
        // first poll, so that a short plan does not make tests race.
        let is_unpolled = job.polls == 0;
        return match job.phase() {
            JobPhase::Queued => SimulatedReply::json(200, &json!({"task_id": job.id})),
            _ if is_unpolled => SimulatedReply::json(200, &json!({"task_id": job.id})),
            _ => error(
                400,
                "idempotency_key_used",
                "Idempotency key has already been used.",
            ),
        };
    }
    let source = body["source_id"].as_str().unwrap_or_default();
    if request.world.file(source).is_none() {
        return error(400, "source_not_found", "The source file is unknown");
    }
    let id = request.world.uuid();
    let job = request.world.accept(NAME, id, body.clone(), provider_data);
    if !key.is_empty() {
        request.world.keep_file(key_name, json!(job.id));
    }
    SimulatedReply::json(200, &json!({"task_id": job.id}))
}

fn is_uuid4(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups[2].starts_with('4')
        && groups[3].starts_with(['8', '9', 'a', 'b'])
        && text
            .bytes()
            .all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

fn ids(request: &SimulatedRequest) -> Option<Vec<String>> {
    let ids = request.body["task_ids"].as_array()?;
    let ids = ids.iter().map(|id| id.as_str().map(str::to_owned));
    ids.collect::<Option<Vec<_>>>()
        .filter(|ids| ids.len() <= 200)
}

fn check(request: &SimulatedRequest) -> SimulatedReply {
    if let Some(reply) = auth_error(request) {
        return reply;
    }
    let Some(ids) = ids(request) else {
        return invalid("task_ids", "Input is not a list of at most 200 ids");
    };
    // An unknown id does not fail the call. Each id has its own entry, so one lost task does not
    // hide the others.
    let mut result = Map::new();
    for id in ids {
        let task = match request.world.poll_job(&id) {
            Some(job) => task(request, &job),
            None => {
                json!({"status": "server_error", "error": "Failed to extract information about task"})
            }
        };
        result.insert(id, task);
    }
    SimulatedReply::json(200, &json!({"result": result}))
}

fn task(request: &SimulatedRequest, job: &Job) -> Value {
    let mut task = match job.phase() {
        _ if request.unknown_status => json!({"status": "resting"}),
        JobPhase::Queued => json!({"status": "progress", "progress": 0}),
        JobPhase::Running(share) => {
            // Neither 0 nor 100 while it runs: 0 is shown while it waits, and 100 would claim an
            // end.
            json!({"status": "progress", "progress": (share * 98.0).ceil() + 1.0})
        }
        JobPhase::Ended(PlannedEnd::Success) => {
            json!({"status": "success", "result": {"duration": 2, "tracks": tracks(request, job)}})
        }
        JobPhase::Ended(PlannedEnd::Empty) => {
            json!({"status": "success", "result": {"duration": 2, "tracks": []}})
        }
        // `error` is an object here and a string below, as in the service.
        JobPhase::Ended(PlannedEnd::Failure | PlannedEnd::Unfit) => {
            json!({"status": "error", "error": {"code": "inference_error", "detail": "Unable to detect the stem", "id": "1"}})
        }
        JobPhase::Ended(PlannedEnd::Refusal) => {
            json!({"status": "server_error", "error": "The file has already been deleted."})
        }
        JobPhase::Cancelled => json!({"status": "cancelled"}),
    };
    task["source_id"] = job.input["source_id"].clone();
    task["presets"] = job.input["presets"].clone();
    task
}

fn tracks(request: &SimulatedRequest, job: &Job) -> Vec<Value> {
    let labels = job.provider_data["labels"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let track = |label: Value| {
        let label = label.as_str().unwrap_or_default();
        let kind = if label.starts_with("no_") {
            "back"
        } else {
            "stem"
        };
        let url = format!(
            "{}/d/{}/{label}?sig={}",
            request.base,
            job.id,
            request.world.number()
        );
        json!({"type": kind, "label": label, "url": url, "playlist_file": null, "name": null, "size": null})
    };
    labels.into_iter().map(track).collect()
}

fn cancel(request: &SimulatedRequest) -> SimulatedReply {
    if let Some(reply) = auth_error(request) {
        return reply;
    }
    let Some(ids) = ids(request) else {
        return invalid("task_ids", "Input is not a list of at most 200 ids");
    };
    let mut result = Map::new();
    for id in ids {
        let outcome = if request.world.cancel(&id) {
            json!({"status": "success"})
        } else {
            json!({"status": "server_error", "error": "Task is not in progress state"})
        };
        result.insert(id, outcome);
    }
    SimulatedReply::json(200, &json!({"result": result}))
}

fn download(request: &SimulatedRequest) -> SimulatedReply {
    if request.expired || !request.header("x-license-key").is_empty() {
        return SimulatedReply::json(403, &json!("the link has expired"))
            .with_header("content-type", "text/plain");
    }
    let last = request.param("label").bytes().last().unwrap_or(b's');
    SimulatedReply::file("audio/wav", media::audio(2_000, 4.0 * f64::from(last)))
}

fn invalid(field: &str, message: &str) -> SimulatedReply {
    let fault =
        json!({"loc": ["body", "split_input", field], "msg": message, "type": "value_error"});
    SimulatedReply::json(422, &json!({"detail": [fault]}))
}

fn error(status: u16, code: &str, message: &str) -> SimulatedReply {
    SimulatedReply::json(status, &json!({"detail": message, "code": code}))
}
