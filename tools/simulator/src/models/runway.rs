//! `runway`: the Runway developer API.

use serde_json::{Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "runway",
    routes: |site| {
        site.error(|_| json!({"error": "simulated"}))
            .route("POST", "/v1/text_to_video", RequestRole::Submit, from_text)
            .route(
                "POST",
                "/v1/image_to_video",
                RequestRole::Submit,
                from_image,
            )
            .route("GET", "/v1/tasks/{id}", RequestRole::Poll, get)
            .route("DELETE", "/v1/tasks/{id}", RequestRole::Cancel, delete)
            .route("POST", "/v1/uploads", RequestRole::Upload, create_upload)
            .route("POST", "/storage/{id}", RequestRole::Upload, store)
            .route(
                "GET",
                "/outputs/{id}/video.mp4",
                RequestRole::Download,
                download,
            )
    },
};

const RATIOS: [&str; 14] = [
    "1280:720",
    "720:1280",
    "1104:832",
    "832:1104",
    "960:960",
    "1584:672",
    "1920:1080",
    "1080:1920",
    "1440:1440",
    "720:720",
    "1112:834",
    "834:1112",
    "1470:630",
    "864:496",
];

const MEMBERS: [&str; 7] = [
    "model",
    "promptText",
    "promptImage",
    "ratio",
    "duration",
    "seed",
    "negativePrompt",
];

fn refuse_caller(request: &SimulatedRequest) -> Option<SimulatedReply> {
    if request.bearer().is_none() {
        return Some(error(401, "The API key is missing or wrong."));
    }
    (request.header("x-runway-version") != "2024-11-06")
        .then(|| error(400, "The X-Runway-Version header is missing or unknown."))
}

fn from_text(request: &SimulatedRequest) -> SimulatedReply {
    if request.body["model"] == "gen4_turbo" {
        return error(400, "This model needs promptImage.");
    }
    if !request.body["promptImage"].is_null() {
        return error(400, "Unrecognized key: promptImage");
    }
    submit(request)
}

fn from_image(request: &SimulatedRequest) -> SimulatedReply {
    let Some(pictures) = request.body["promptImage"].as_array() else {
        return error(400, "promptImage is required.");
    };
    let mut positions: Vec<&str> = Vec::new();
    for picture in pictures {
        let uri = picture["uri"].as_str().unwrap_or_default();
        let is_stored = || {
            let file = request.world.file(uri);
            file.is_some_and(|facts| facts["stored"] == true)
        };
        let is_inline = uri.starts_with("data:image/") && uri.contains(";base64,");
        // Data URIs may have 5 MB of text. Larger pictures have to be uploaded first.
        if is_inline && uri.len() > 5_000_000 {
            return error(400, "The data URI is too long.");
        }
        if !is_inline && !uri.starts_with("https://") && !is_stored() {
            return error(
                400,
                "promptImage is not an HTTPS URL, upload URI or data URI.",
            );
        }
        positions.push(picture["position"].as_str().unwrap_or_default());
    }
    // Some models treat a picture without a position as a reference instead of a frame, so a
    // missing position is an error here.
    match positions.as_slice() {
        ["first" | "last"] | ["first", "last"] => submit(request),
        _ => error(400, "promptImage has wrong positions."),
    }
}

fn submit(request: &SimulatedRequest) -> SimulatedReply {
    if let Some(reply) = refuse_caller(request) {
        return reply;
    }
    let body = &request.body;
    let Some(members) = body.as_object() else {
        return error(400, "The body is not a JSON object.");
    };
    // A misspelt field must fail here. If it were ignored, no test would notice it.
    if let Some(unknown) = members.keys().find(|key| !MEMBERS.contains(&key.as_str())) {
        return error(400, &format!("Unrecognized key: {unknown}"));
    }
    let model = body["model"].as_str().unwrap_or_default();
    let prompt = body["promptText"].as_str().unwrap_or_default();
    let max_prompt_length = if model.starts_with("seedance2") {
        3500
    } else {
        1000
    };
    // Runway counts UTF-16 units, so an emoji counts twice.
    if model.is_empty() || prompt.is_empty() || prompt.encode_utf16().count() > max_prompt_length {
        return error(400, "model or promptText is missing or too long.");
    }
    // These models take the shape of their picture. A `ratio` with a picture is an error.
    let shaped_by_picture =
        matches!(model, "kling2.5_turbo_pro" | "seedance2_5") && !body["promptImage"].is_null();
    let ratio = body["ratio"].as_str();
    let fits = match ratio {
        Some(ratio) => !shaped_by_picture && RATIOS.contains(&ratio),
        None => shaped_by_picture,
    };
    if !fits {
        return error(400, "ratio is not one of the model's.");
    }
    let seconds = body["duration"].as_u64().unwrap_or_default();
    let duration_fits = match model {
        "veo3.1" | "veo3.1_fast" => [4, 6, 8].contains(&seconds),
        _ => (2..=15).contains(&seconds),
    };
    if !duration_fits {
        return error(400, "duration is not one of the model's.");
    }
    let seed = &body["seed"];
    let seed_fits = seed
        .as_u64()
        .is_some_and(|seed| u32::try_from(seed).is_ok());
    if !seed.is_null() && !seed_fits {
        return error(400, "seed must be from 0 to 4294967295.");
    }
    let id = request.world.uuid();
    request
        .world
        .accept("runway", id.clone(), body.clone(), Value::Null);
    SimulatedReply::json(
        200,
        &json!({"id": id, "estimatedCost": {"credits": seconds * 5}}),
    )
}

fn get(request: &SimulatedRequest) -> SimulatedReply {
    if let Some(reply) = refuse_caller(request) {
        return reply;
    }
    let Some(job) = request.world.poll_job(request.param("id")) else {
        return error(404, "There is no such task.");
    };
    let mut body = json!({"id": job.id, "createdAt": "2026-11-21T12:00:00.000Z"});
    if request.unknown_status {
        body["status"] = json!("REFINING");
        return SimulatedReply::json(200, &body);
    }
    let credits = job.input["duration"].as_u64().unwrap_or(5) * 5;
    let phase = phase(&job);
    // Runway refunds tasks that failed or were cancelled, and then reports a cost of 0.
    match phase {
        JobPhase::Ended(PlannedEnd::Success | PlannedEnd::Empty) => {
            body["cost"] = json!({"credits": credits});
        }
        JobPhase::Ended(_) | JobPhase::Cancelled => body["cost"] = json!({"credits": 0}),
        JobPhase::Queued | JobPhase::Running(_) => {
            body["estimatedCost"] = json!({"credits": credits});
        }
    }
    let (status, extra_fields) = match phase {
        // THROTTLED means that the task waits for other tasks of the account. It is not an error,
        // so waiting is reported with both words in turn.
        JobPhase::Queued if job.polls % 2 == 0 => ("THROTTLED", json!({})),
        JobPhase::Queued => ("PENDING", json!({})),
        JobPhase::Running(share) => ("RUNNING", json!({"progress": share})),
        JobPhase::Ended(PlannedEnd::Success) => {
            // Each poll returns a newly signed URL. An expired one is replaced by polling again.
            let token = request.world.number();
            let url = format!("{}/outputs/{}/video.mp4?_jwt={token}", request.base, job.id);
            ("SUCCEEDED", json!({"output": [url]}))
        }
        JobPhase::Ended(PlannedEnd::Empty) => ("SUCCEEDED", json!({"output": []})),
        JobPhase::Ended(PlannedEnd::Failure) => (
            "FAILED",
            json!({"failure": "An unexpected error occurred.", "failureCode": "INTERNAL.BAD_OUTPUT.CODE01"}),
        ),
        JobPhase::Ended(PlannedEnd::Unfit) => (
            "FAILED",
            json!({"failure": "The asset could not be read.", "failureCode": "ASSET.INVALID"}),
        ),
        JobPhase::Ended(PlannedEnd::Refusal) => (
            "FAILED",
            json!({"failure": "The input was rejected by moderation.", "failureCode": "SAFETY.INPUT.TEXT"}),
        ),
        JobPhase::Cancelled => ("CANCELLED", json!({})),
    };
    body["status"] = json!(status);
    for (name, value) in extra_fields.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    SimulatedReply::json(200, &body)
}

/// Content is checked while the task runs.
fn phase(job: &Job) -> JobPhase {
    let prompt = job.input["promptText"].as_str().unwrap_or_default();
    match job.phase() {
        JobPhase::Ended(_) if prompt.contains("forbidden") => JobPhase::Ended(PlannedEnd::Refusal),
        phase => phase,
    }
}

fn delete(request: &SimulatedRequest) -> SimulatedReply {
    if let Some(reply) = refuse_caller(request) {
        return reply;
    }
    let id = request.param("id");
    let Some(job) = request.world.job(id) else {
        return error(404, "There is no such task.");
    };
    // One call for two things: it cancels a task that is still open, and deletes one that has
    // ended.
    if matches!(job.phase(), JobPhase::Ended(_)) {
        request.world.forget(id);
    } else {
        request.world.cancel(id);
    }
    SimulatedReply::empty(204)
}

fn create_upload(request: &SimulatedRequest) -> SimulatedReply {
    if let Some(reply) = refuse_caller(request) {
        return reply;
    }
    let name = request.body["filename"].as_str().unwrap_or_default();
    if !name.contains('.') || request.body["type"] != "ephemeral" {
        return error(400, "filename or type is missing or wrong.");
    }
    let id = request.world.uuid();
    let uri = format!("runway://upload/{id}");
    request
        .world
        .keep_file(uri.clone(), json!({"stored": false}));
    let url = format!("{}/storage/{id}", request.base);
    let fields =
        json!({"key": format!("ephemeral/{id}"), "policy": "cG9saWN5", "x-amz-signature": "0a1b"});
    SimulatedReply::json(
        200,
        &json!({"uploadUrl": url, "fields": fields, "runwayUri": uri}),
    )
}

fn store(request: &SimulatedRequest) -> SimulatedReply {
    let id = request.param("id");
    let uri = format!("runway://upload/{id}");
    let form = &request.body;
    let is_signed = form["key"] == json!(format!("ephemeral/{id}"))
        && form["policy"] == "cG9saWN5"
        && form["x-amz-signature"] == "0a1b";
    let has_file = form["file"]["bytes"].as_u64().is_some_and(|size| size > 0);
    let is_known = request.world.file(&uri).is_some();
    // The form fields are the signature. S3 refuses a request that carries an Authorization header
    // as well, and the API key must not be sent to a storage service.
    if !request.header("authorization").is_empty() || !is_signed || !has_file || !is_known {
        return denied();
    }
    request.world.keep_file(uri, json!({"stored": true}));
    SimulatedReply::empty(204)
}

fn download(request: &SimulatedRequest) -> SimulatedReply {
    let Some(job) = request.world.job(request.param("id")) else {
        return denied();
    };
    if request.expired || !request.query.contains_key("_jwt") {
        return denied();
    }
    let seconds = job.input["duration"].as_u64().unwrap_or(5);
    SimulatedReply::file(
        "video/mp4",
        media::video(u32::try_from(seconds).unwrap_or(5)),
    )
}

fn denied() -> SimulatedReply {
    SimulatedReply::json(403, &json!("Request has expired"))
}

fn error(status: u16, message: &str) -> SimulatedReply {
    SimulatedReply::json(status, &json!({"error": message}))
}
