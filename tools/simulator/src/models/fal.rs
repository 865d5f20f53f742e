//! `fal`: the queue with some endpoints, and the storage.

use serde_json::{Map, Value, json};

use super::{SimulatedProvider, results};
use crate::fault::RequestRole;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "fal",
    routes: |site| {
        let site = site
            .error(|_| json!({"detail": "simulated"}))
            .route(
                "POST",
                "/storage/upload/initiate",
                RequestRole::Upload,
                initiate,
            )
            .route("PUT", "/storage/put/{id}", RequestRole::Upload, put)
            .route(
                "GET",
                "/{owner}/{alias}/requests/{id}/status",
                RequestRole::Poll,
                status,
            )
            .route(
                "GET",
                "/{owner}/{alias}/requests/{id}",
                RequestRole::Poll,
                response,
            )
            .route(
                "PUT",
                "/{owner}/{alias}/requests/{id}/cancel",
                RequestRole::Cancel,
                cancel,
            )
            .route("GET", "/files/{id}/{name}", RequestRole::Download, file);
        // An endpoint that is not in the table is a 404, so adapters cannot invent paths.
        ENDPOINTS.iter().fold(site, |site, (path, _)| {
            site.route("POST", path, RequestRole::Submit, submit)
        })
    },
};

/// Checks an input and returns its fault.
type InputCheck = fn(&Map<String, Value>) -> Option<String>;

const ENDPOINTS: [(&str, InputCheck); 13] = [
    ("/fal-ai/veo3.1", veo_text),
    ("/fal-ai/veo3.1/image-to-video", veo_image),
    ("/fal-ai/veo3.1/first-last-frame-to-video", veo_frames),
    (
        "/fal-ai/kling-video/v2.5-turbo/pro/text-to-video",
        kling_text,
    ),
    (
        "/fal-ai/kling-video/v2.5-turbo/pro/image-to-video",
        kling_image,
    ),
    ("/kling/v4/text-to-video", kling_4_text),
    ("/kling/v4/image-to-video", kling_4_image),
    ("/bytedance/seedance-2.5/text-to-video", seedance_text),
    ("/bytedance/seedance-2.5/image-to-video", seedance_image),
    ("/fal-ai/sora-2/text-to-video", sora),
    ("/fal-ai/demucs", demucs),
    (STABLE_AUDIO, stable_audio),
    (STABLE_AUDIO_3, stable_audio_3),
];

const STABLE_AUDIO: &str = "/fal-ai/stable-audio-25/text-to-audio";
const STABLE_AUDIO_3: &str = "/fal-ai/stable-audio-3/medium/text-to-audio";

fn veo_text(input: &Map<String, Value>) -> Option<String> {
    veo(input, &[])
}

fn veo_image(input: &Map<String, Value>) -> Option<String> {
    veo(input, &["image_url"])
}

fn veo_frames(input: &Map<String, Value>) -> Option<String> {
    veo(input, &["first_frame_url", "last_frame_url"])
}

fn veo(input: &Map<String, Value>, pictures: &[&str]) -> Option<String> {
    members(
        input,
        pictures,
        &[
            "aspect_ratio",
            "duration",
            "resolution",
            "generate_audio",
            "negative_prompt",
            "seed",
            "auto_fix",
            "safety_tolerance",
        ],
    )
    .or_else(|| one_of(input, "duration", &["4s", "6s", "8s"]))
    .or_else(|| one_of(input, "resolution", &["720p", "1080p"]))
    .or_else(|| one_of(input, "aspect_ratio", &["auto", "16:9", "9:16"]))
}

fn kling_text(input: &Map<String, Value>) -> Option<String> {
    members(
        input,
        &[],
        &["duration", "aspect_ratio", "negative_prompt", "cfg_scale"],
    )
    .or_else(|| one_of(input, "duration", &["5", "10"]))
    .or_else(|| one_of(input, "aspect_ratio", &["16:9", "9:16", "1:1"]))
}

fn kling_image(input: &Map<String, Value>) -> Option<String> {
    let allowed = ["duration", "negative_prompt", "cfg_scale", "tail_image_url"];
    members(input, &["image_url"], &allowed).or_else(|| one_of(input, "duration", &["5", "10"]))
}

fn kling_4_text(input: &Map<String, Value>) -> Option<String> {
    members(input, &[], &["duration", "resolution", "aspect_ratio"])
        .or_else(|| kling_4(input))
        .or_else(|| one_of(input, "aspect_ratio", &["16:9", "9:16", "1:1", "21:9"]))
}

fn kling_4_image(input: &Map<String, Value>) -> Option<String> {
    let allowed = ["duration", "resolution", "end_image_url"];
    members(input, &["start_image_url"], &allowed).or_else(|| kling_4(input))
}

/// The length is a number here, and a text in the versions before this one.
fn kling_4(input: &Map<String, Value>) -> Option<String> {
    let seconds = input.get("duration").and_then(Value::as_u64);
    let fits = seconds.is_some_and(|seconds| (3..=30).contains(&seconds));
    (!fits)
        .then(|| "duration: must be an integer from 3 to 30".to_owned())
        .or_else(|| one_of(input, "resolution", &["720p", "1080p"]))
}

const SEEDANCE_FIELDS: [&str; 6] = [
    "duration",
    "resolution",
    "aspect_ratio",
    "seed",
    "generate_audio",
    "end_image_url",
];

fn seedance_text(input: &Map<String, Value>) -> Option<String> {
    let ratios = ["auto", "21:9", "16:9", "4:3", "1:1", "3:4", "9:16"];
    members(input, &[], &SEEDANCE_FIELDS[..5])
        .or_else(|| one_of(input, "resolution", &["480p", "720p", "1080p"]))
        .or_else(|| one_of(input, "aspect_ratio", &ratios))
}

/// The video takes the shape of its frame, so a named ratio is refused.
fn seedance_image(input: &Map<String, Value>) -> Option<String> {
    members(input, &["image_url"], &SEEDANCE_FIELDS)
        .or_else(|| one_of(input, "resolution", &["480p", "720p", "1080p"]))
        .or_else(|| one_of(input, "aspect_ratio", &["auto"]))
}

fn sora(input: &Map<String, Value>) -> Option<String> {
    let seconds = input.get("duration").and_then(Value::as_u64);
    members(input, &[], &["duration", "aspect_ratio", "resolution"])
        .or_else(|| one_of(input, "resolution", &["720p"]))
        .or_else(|| {
            let fits = matches!(seconds, Some(4 | 8 | 12 | 16 | 20));
            (!fits).then(|| "duration: must be 4, 8, 12, 16 or 20".into())
        })
}

fn stable_audio(input: &Map<String, Value>) -> Option<String> {
    let allowed = [
        "seconds_total",
        "num_inference_steps",
        "guidance_scale",
        "seed",
        "sync_mode",
    ];
    let seconds = input.get("seconds_total");
    let fits = seconds.is_none_or(|length| (1..=190).contains(&length.as_u64().unwrap_or(0)));
    members(input, &[], &allowed).or_else(|| (!fits).then(|| "seconds_total: from 1 to 190".into()))
}

fn stable_audio_3(input: &Map<String, Value>) -> Option<String> {
    let allowed = ["duration", "negative_prompt", "num_inference_steps"];
    let seconds = input.get("duration");
    let fits = seconds.is_none_or(|length| (1..=380).contains(&length.as_u64().unwrap_or(0)));
    members(input, &[], &allowed).or_else(|| (!fits).then(|| "duration: from 1 to 380".into()))
}

fn demucs(input: &Map<String, Value>) -> Option<String> {
    let allowed = [
        "audio_url",
        "model",
        "stems",
        "segment_length",
        "shifts",
        "overlap",
        "output_format",
    ];
    let unknown = input.keys().find(|name| !allowed.contains(&name.as_str()));
    let stems = input.get("stems").and_then(Value::as_array);
    let invalid = stems
        .into_iter()
        .flatten()
        .find(|stem| !stem.as_str().is_some_and(|stem| STEMS.contains(&stem)));
    unknown
        .map(|name| format!("{name}: extra fields not permitted"))
        .or_else(|| {
            let is_present = input.get("audio_url").is_some_and(Value::is_string);
            (!is_present).then(|| "audio_url: field required".into())
        })
        .or_else(|| one_of(input, "model", &["htdemucs", "htdemucs_ft", "htdemucs_6s"]))
        .or_else(|| invalid.map(|stem| format!("stems: {stem} is not a stem")))
}

const STEMS: [&str; 6] = ["vocals", "drums", "bass", "other", "guitar", "piano"];

fn members(input: &Map<String, Value>, required: &[&str], optional: &[&str]) -> Option<String> {
    let text = |name: &str| input.get(name).is_some_and(Value::is_string);
    if let Some(name) = std::iter::once(&"prompt")
        .chain(required)
        .find(|name| !text(name))
    {
        return Some(format!("{name}: field required"));
    }
    let unknown = input.keys().find(|name| {
        let name = name.as_str();
        name != "prompt" && !required.contains(&name) && !optional.contains(&name)
    })?;
    Some(format!("{unknown}: extra fields not permitted"))
}

fn one_of(input: &Map<String, Value>, name: &str, allowed: &[&str]) -> Option<String> {
    let value = input.get(name)?;
    let fits = value.as_str().is_some_and(|word| allowed.contains(&word));
    (!fits).then(|| format!("{name}: input should be one of {allowed:?}"))
}

/// `Authorization: Key {id}:{secret}`.
fn has_key(request: &SimulatedRequest) -> bool {
    let key = request.header("authorization").strip_prefix("Key ");
    key.and_then(|key| key.split_once(':'))
        .is_some_and(|(id, secret)| !id.is_empty() && !secret.is_empty())
}

fn initiate(request: &SimulatedRequest) -> SimulatedReply {
    if !has_key(request) {
        return detail(401, "Authentication is required to access this resource");
    }
    let (name, mime) = (&request.body["file_name"], &request.body["content_type"]);
    if !name.is_string() || !mime.is_string() {
        return detail(422, "file_name and content_type are required");
    }
    let id = format!("up-{}", request.world.number());
    request.world.keep_file(&id, mime.clone());
    SimulatedReply::json(
        200,
        &json!({"upload_url": format!("{}/storage/put/{id}?signature=1", request.base),
            "file_url": format!("{}/stored/{id}", request.base)}),
    )
}

fn put(request: &SimulatedRequest) -> SimulatedReply {
    let mime = request.world.file(request.param("id"));
    let is_signed = request.query.contains_key("signature");
    // The signature covers the media type that was announced, so the upload has to repeat it.
    if !is_signed || mime != Some(json!(request.header("content-type"))) {
        return SimulatedReply::empty(403);
    }
    let url = format!("{}/stored/{}", request.base, request.param("id"));
    request.world.keep_file(url, json!(request.bytes.len()));
    SimulatedReply::empty(200)
}

fn submit(request: &SimulatedRequest) -> SimulatedReply {
    if !has_key(request) {
        return detail(401, "Authentication is required to access this resource");
    }
    let path = request.path.split('?').next().unwrap_or_default();
    let Some(input) = request.body.as_object() else {
        return detail(422, "the body is not an object");
    };
    // fal's queue takes any input and checks it only when the job starts. So a wrong input is a
    // failed job that may be charged, and not a refused order.
    let check = ENDPOINTS.iter().find(|(endpoint, _)| *endpoint == path);
    let fault = check
        .and_then(|(_, check)| check(input))
        .or_else(|| files(request, input));
    let id = request.world.uuid();
    // Jobs live below the application, the first two segments, and not below the endpoint that was
    // called.
    let alias: Vec<&str> = path.split('/').skip(1).take(2).collect();
    let app = alias.join("/");
    let provider_data = json!({"path": path, "fault": fault});
    let job = request
        .world
        .accept("fal", id, request.body.clone(), provider_data);
    let job_url = format!("{}/{app}/requests/{}", request.base, job.id);
    SimulatedReply::json(
        200,
        &json!({"request_id": job.id, "gateway_request_id": job.id, "status": "IN_QUEUE", "queue_position": 1,
            "response_url": job_url, "status_url": format!("{job_url}/status"), "cancel_url": format!("{job_url}/cancel")}),
    )
}

/// Files are URLs, data URLs of up to about a megabyte, or files uploaded before.
fn files(request: &SimulatedRequest, input: &Map<String, Value>) -> Option<String> {
    let stored = format!("{}/stored/", request.base);
    let mut urls = input.iter().filter(|(name, _)| name.ends_with("_url"));
    let (name, _) = urls.find(|(_, url)| {
        let url = url.as_str().unwrap_or_default();
        let fits = if url.starts_with(&stored) {
            request.world.file(url).is_some()
        } else if url.starts_with("data:") {
            url.len() < 1_500_000 && url.contains(";base64,")
        } else {
            url.starts_with("https://")
        };
        !fits
    })?;
    Some(format!("{name}: cannot be fetched"))
}

fn status(request: &SimulatedRequest) -> SimulatedReply {
    if !has_key(request) {
        return detail(401, "Authentication is required to access this resource");
    }
    let Some(job) = application_job(request, true) else {
        return detail(404, "Request not found");
    };
    if request.unknown_status {
        return SimulatedReply::json(202, &json!({"status": "THAWING", "request_id": job.id}));
    }
    match job.phase() {
        JobPhase::Queued => {
            SimulatedReply::json(202, &json!({"status": "IN_QUEUE", "queue_position": 1}))
        }
        JobPhase::Running(_) => {
            SimulatedReply::json(202, &json!({"status": "IN_PROGRESS", "logs": []}))
        }
        // COMPLETED only means that nothing more happens. `error` shows whether there is a result.
        JobPhase::Cancelled => SimulatedReply::json(
            200,
            &json!({"status": "COMPLETED", "error": "Request was cancelled", "error_type": "client_cancelled"}),
        ),
        JobPhase::Ended(end) => {
            let mut body =
                json!({"status": "COMPLETED", "logs": [], "metrics": {"inference_time": 0.1}});
            if let Some((error, kind)) = error_of(&job, end) {
                body["error"] = json!(error);
                body["error_type"] = json!(kind);
            }
            SimulatedReply::json(200, &body)
        }
    }
}

/// The error in the status of a failed job, with its kind.
fn error_of(job: &Job, end: PlannedEnd) -> Option<(&'static str, &'static str)> {
    match end {
        // A wrong input fails before anything is made, whatever its planned end.
        _ if job.provider_data["fault"].is_string() => Some(("Validation failed", "value_error")),
        _ if is_forbidden(job) => Some(("Content flagged", "content_policy_violation")),
        PlannedEnd::Refusal => Some(("Content flagged", "content_policy_violation")),
        PlannedEnd::Unfit => Some(("Validation failed", "missing")),
        PlannedEnd::Failure => Some(("The runner went away", "runner_disconnected")),
        _ => None,
    }
}

fn is_forbidden(job: &Job) -> bool {
    let prompt = job.input["prompt"].as_str();
    prompt.is_some_and(|prompt| prompt.contains("forbidden"))
}

fn response(request: &SimulatedRequest) -> SimulatedReply {
    if !has_key(request) {
        return detail(401, "Authentication is required to access this resource");
    }
    let Some(job) = application_job(request, false) else {
        return detail(404, "Request not found");
    };
    let is_refused = is_forbidden(&job);
    if let Some(fault) = job.provider_data["fault"].as_str() {
        let item = json!({"loc": ["body"], "msg": fault, "type": "value_error"});
        return SimulatedReply::json(422, &json!({"detail": [item]}));
    }
    match job.phase() {
        JobPhase::Queued | JobPhase::Running(_) => detail(400, "Request is still in progress"),
        JobPhase::Cancelled => SimulatedReply::json(
            499,
            &json!({"detail": "Request was cancelled", "error_type": "client_cancelled"}),
        ),
        JobPhase::Ended(end) if is_refused || end == PlannedEnd::Refusal => {
            let item = json!({"loc": ["body", "prompt"], "msg": "The content could not be processed because it was flagged by a content checker.",
                "type": "content_policy_violation"});
            SimulatedReply::json(422, &json!({"detail": [item]}))
        }
        JobPhase::Ended(PlannedEnd::Unfit) => {
            let item = json!({"loc": ["body", "start_image_url"], "msg": "Field required", "type": "missing"});
            SimulatedReply::json(422, &json!({"detail": [item]}))
                .with_header("x-fal-retryable", "false")
        }
        JobPhase::Ended(PlannedEnd::Failure) => {
            let body =
                json!({"detail": "The runner went away", "error_type": "runner_disconnected"});
            SimulatedReply::json(503, &body).with_header("x-fal-error-type", "runner_disconnected")
        }
        JobPhase::Ended(PlannedEnd::Empty) => SimulatedReply::json(200, &json!({})),
        JobPhase::Ended(_) => SimulatedReply::json(200, &output(request, &job))
            .with_header("x-fal-billable-units", "8.0"),
    }
}

/// The job, if it is the application's.
fn application_job(request: &SimulatedRequest, counts: bool) -> Option<Job> {
    let id = request.param("id");
    // Only polls of the status count for a plan's `polls`. The call for the response must not
    // hasten the end.
    let job = if counts {
        request.world.poll_job(id)
    } else {
        request.world.job(id)
    }?;
    let app = format!("/{}/{}", request.param("owner"), request.param("alias"));
    let path = job.provider_data["path"].as_str()?;
    path.starts_with(&app).then_some(job)
}

fn output(request: &SimulatedRequest, job: &Job) -> Value {
    let object = |name: &str, mime: &str| {
        let url = format!("{}/files/{}/{name}?v={}", request.base, job.id, job.polls);
        json!({"url": url, "content_type": mime, "file_name": name, "file_size": null})
    };
    if job.provider_data["path"] == "/fal-ai/demucs" {
        let mut stems = json!({});
        let requested = job.input["stems"].as_array();
        for name in STEMS {
            let is_present = requested.is_none_or(|requested| requested.contains(&json!(name)))
                && !(job.plan.incomplete && name == "drums");
            stems[name] = if is_present {
                object(&format!("{name}.wav"), "audio/wav")
            } else {
                Value::Null
            };
        }
        return stems;
    }
    if [STABLE_AUDIO, STABLE_AUDIO_3].contains(&job.provider_data["path"].as_str().unwrap_or("")) {
        return json!({"audio": object("song.wav", "audio/wav"), "seed": 7});
    }
    json!({"video": object("output.mp4", "video/mp4")})
}

fn cancel(request: &SimulatedRequest) -> SimulatedReply {
    if !has_key(request) {
        return detail(401, "Authentication is required to access this resource");
    }
    let Some(job) = application_job(request, false) else {
        return detail(404, "Request not found");
    };
    // 202 promises no more than an attempt. fal may finish the job anyway.
    if request.world.cancel(&job.id) {
        return SimulatedReply::json(202, &json!({"status": "CANCELLATION_REQUESTED"}));
    }
    SimulatedReply::json(400, &json!({"status": "ALREADY_COMPLETED"}))
}

fn file(request: &SimulatedRequest) -> SimulatedReply {
    results::named_file(request, "expired", |job| {
        let text = job.input["duration"].as_str();
        let text = text.and_then(|text| text.trim_end_matches('s').parse().ok());
        text.or_else(|| results::duration(job))
    })
}

fn detail(status: u16, message: &str) -> SimulatedReply {
    SimulatedReply::json(status, &json!({"detail": message}))
}
