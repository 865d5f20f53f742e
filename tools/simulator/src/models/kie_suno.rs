//! `kie-suno`: Suno's music at kie.ai: two clips per order, errors with status 200 too.

use serde_json::{Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "kie-suno",
    routes: |site| {
        site.error(|status| json!({"code": status, "msg": "simulated"}))
            .route("POST", "/generate", RequestRole::Submit, generate)
            .route("POST", "/generate/extend", RequestRole::Submit, extend)
            .route(
                "POST",
                "/api/file-stream-upload",
                RequestRole::Other,
                upload,
            )
            .route("POST", "/generate/upload-cover", RequestRole::Submit, cover)
            .route(
                "POST",
                "/generate/generate-persona",
                RequestRole::Submit,
                persona,
            )
            .route("GET", "/generate/record-info", RequestRole::Poll, record)
            .route("GET", "/cdn/{id}/{name}", RequestRole::Download, download)
    },
};

const MODELS: [&str; 6] = ["V4", "V4_5", "V4_5PLUS", "V4_5ALL", "V5", "V5_5"];
/// Fields of an order in custom mode, and of an extension.
const CUSTOM: [&str; 11] = [
    "prompt",
    "style",
    "title",
    "negativeTags",
    "vocalGender",
    "styleWeight",
    "weirdnessConstraint",
    "audioWeight",
    "personaId",
    "audioId",
    "continueAt",
];

/// Accepts a file; a later one with the same name replaces it.
fn upload(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return envelope(401, "You do not have access permissions", &Value::Null);
    }
    let body = &request.body;
    let text = |name: &str| body[name].as_str().unwrap_or_default();
    if body["file"]["bytes"].as_u64().is_none() || text("uploadPath").is_empty() {
        return envelope(400, "file and uploadPath are required", &Value::Null);
    }
    let path = format!("{}/{}", text("uploadPath"), text("fileName"));
    let address = format!("{}/files/{path}", request.base);
    request.world.keep_file(address.clone(), json!({}));
    envelope(
        200,
        "File uploaded successfully",
        &json!({"downloadUrl": address, "filePath": path}),
    )
}

/// A song like an uploaded one.
fn cover(request: &SimulatedRequest) -> SimulatedReply {
    let address = request.body["uploadUrl"].as_str().unwrap_or_default();
    // The service fetches the recording itself, so only uploaded recordings can be covered.
    if request.world.file(address).is_none() {
        return envelope(413, "File fetch failed", &Value::Null);
    }
    submit_song(request, &["uploadUrl"])
}

fn generate(request: &SimulatedRequest) -> SimulatedReply {
    submit_song(request, &[])
}

fn submit_song(request: &SimulatedRequest, extra_fields: &[&'static str]) -> SimulatedReply {
    let body = &request.body;
    let is_custom = body["customMode"] == true;
    let has_vocals = body["instrumental"] == false;
    // In custom mode the given lyrics are sung. The simple mode only takes a description, and
    // writes the lyrics itself.
    let required: &[&str] = match (is_custom, has_vocals) {
        (true, true) => &["prompt", "style", "title"],
        (true, false) => &["style", "title"],
        (false, _) => &["prompt"],
    };
    // The last two of `CUSTOM` belong to extensions.
    let allowed: &[&str] = if is_custom { &CUSTOM[..9] } else { &["prompt"] };
    let flags = ["customMode", "instrumental"];
    if flags.iter().any(|name| !body[*name].is_boolean()) {
        return envelope(
            422,
            "customMode and instrumental are required",
            &Value::Null,
        );
    }
    let max_prompt_chars = if is_custom { 5_000 } else { 500 };
    accept_order(
        request,
        required,
        &[allowed, &flags, extra_fields].concat(),
        max_prompt_chars,
    )
}

fn extend(request: &SimulatedRequest) -> SimulatedReply {
    let body = &request.body;
    if body["defaultParamFlag"] != true || !body["continueAt"].is_number() {
        return envelope(422, "continueAt is required", &Value::Null);
    }
    let allowed = [&CUSTOM[..], &["defaultParamFlag"]].concat();
    accept_order(
        request,
        &["audioId", "prompt", "style", "title"],
        &allowed,
        5_000,
    )
}

fn accept_order(
    request: &SimulatedRequest,
    required: &[&str],
    allowed: &[&str],
    max_prompt_chars: usize,
) -> SimulatedReply {
    if request.bearer().is_none() {
        return envelope(401, "You do not have access permissions", &Value::Null);
    }
    let body = &request.body;
    let text = |name: &str| body[name].as_str().unwrap_or_default();
    // The service requires a callback even from those who poll.
    let required = required.iter().chain(&["model", "callBackUrl"]);
    if let Some(name) = required.copied().find(|name| text(name).is_empty()) {
        return envelope(422, &format!("Please enter {name}"), &Value::Null);
    }
    let members = body.as_object().into_iter().flat_map(|body| body.keys());
    let common = ["model", "callBackUrl"];
    let mut unknown = members
        .filter(|name| !allowed.contains(&name.as_str()) && !common.contains(&name.as_str()));
    if let Some(name) = unknown.next() {
        return envelope(422, &format!("{name} should be empty"), &Value::Null);
    }
    if !MODELS.contains(&text("model")) || text("prompt").chars().count() > max_prompt_chars {
        return envelope(422, "The request parameters are wrong", &Value::Null);
    }
    let id = format!("{:032x}", request.world.number());
    request
        .world
        .accept("kie-suno", id.clone(), body.clone(), Value::Null);
    envelope(200, "success", &json!({"taskId": id}))
}

fn persona(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return envelope(401, "You do not have access permissions", &Value::Null);
    }
    let body = &request.body;
    let text = |name: &str| body[name].as_str().unwrap_or_default();
    let required = ["taskId", "audioId", "name", "description"];
    if let Some(name) = required.into_iter().find(|name| text(name).is_empty()) {
        return envelope(422, &format!("Please enter {name}"), &Value::Null);
    }
    if text("name").contains("forbidden") {
        return envelope(400, "The name is sensitive", &Value::Null);
    }
    let id = request.world.uuid();
    let job = request
        .world
        .accept("kie-suno", id, body.clone(), Value::Null);
    match job.plan.end {
        PlannedEnd::Success => {
            let record = json!({"personaId": job.id, "name": text("name"), "description": text("description")});
            envelope(200, "success", &record)
        }
        PlannedEnd::Empty => envelope(200, "success", &json!({})),
        PlannedEnd::Failure | PlannedEnd::Unfit | PlannedEnd::Refusal => {
            envelope(500, "Server error", &Value::Null)
        }
    }
}

fn record(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return envelope(401, "You do not have access permissions", &Value::Null);
    }
    let id = request.query.get("taskId").map_or("", String::as_str);
    let Some(job) = request.world.poll_job(id) else {
        return envelope(404, "record is null", &Value::Null);
    };
    let mut data = json!({"taskId": id, "type": "GENERATE", "response": null, "errorCode": null, "errorMessage": null});
    let phase = match job.phase() {
        // Lyrics are checked while the service works, so the order is accepted first.
        JobPhase::Ended(_) if is_forbidden(&job) => JobPhase::Ended(PlannedEnd::Refusal),
        phase => phase,
    };
    let mut failed = |code: u16, message: &str, status: &'static str| {
        (data["errorCode"], data["errorMessage"]) = (json!(code), json!(message));
        status
    };
    let status = match phase {
        JobPhase::Queued => "PENDING",
        // These two words are intermediate: the lyrics are written, and then the first of two clips
        // is done. Only SUCCESS is the end.
        JobPhase::Running(share) if share < 0.5 => "TEXT_SUCCESS",
        JobPhase::Running(_) => "FIRST_SUCCESS",
        JobPhase::Ended(PlannedEnd::Success) => {
            let clips: Vec<Value> = (1..=2).map(|number| clip(request, &job, number)).collect();
            data["response"] = json!({"taskId": id, "sunoData": clips});
            "SUCCESS"
        }
        JobPhase::Ended(PlannedEnd::Empty) => "SUCCESS",
        JobPhase::Ended(PlannedEnd::Failure) | JobPhase::Cancelled => {
            failed(501, "Generation failed", "GENERATE_AUDIO_FAILED")
        }
        JobPhase::Ended(PlannedEnd::Unfit) => {
            failed(400, "The style is too long", "CREATE_TASK_FAILED")
        }
        JobPhase::Ended(PlannedEnd::Refusal) => {
            failed(400, "The words are sensitive", "SENSITIVE_WORD_ERROR")
        }
    };
    data["status"] = json!(if request.unknown_status {
        "MASTERING"
    } else {
        status
    });
    envelope(200, "success", &data)
}

fn is_forbidden(job: &Job) -> bool {
    let text = |name: &str| job.input[name].as_str().unwrap_or_default().to_owned();
    (text("prompt") + &text("style")).contains("forbidden")
}

fn clip(request: &SimulatedRequest, job: &Job, number: u32) -> Value {
    let signature = request.world.number();
    json!({"id": format!("{}-{number}", job.id), "duration": 2.0,
        "audioUrl": format!("{}/cdn/{}/{number}.mp3?signature={signature}", request.base, job.id),
        "streamAudioUrl": "", "imageUrl": "", "modelName": "chirp-crow", "title": job.input["title"],
        "tags": job.input["style"], "prompt": job.input["prompt"]})
}

fn download(request: &SimulatedRequest) -> SimulatedReply {
    let job = request.world.job(request.param("id"));
    let is_signed = request.query.contains_key("signature");
    let Some(_) = job.filter(|_| is_signed && !request.expired) else {
        return SimulatedReply::json(403, &json!("Request has expired"));
    };
    SimulatedReply::file("audio/mpeg", media::audio(2_000, 294.0))
}

/// Every answer has status 200.
fn envelope(code: u16, message: &str, data: &Value) -> SimulatedReply {
    SimulatedReply::json(200, &json!({"code": code, "msg": message, "data": data}))
}
