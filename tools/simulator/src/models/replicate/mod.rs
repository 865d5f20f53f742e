//! `replicate`: predictions of some models, and files.

mod inputs;

use serde_json::{Value, json};

use super::{SimulatedProvider, results};
use crate::fault::RequestRole;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "replicate",
    routes: |site| {
        site.error(|status| {
            json!({"type": "about:blank", "title": "simulated", "status": status, "detail": "simulated"})
        })
        .route("POST", "/v1/files", RequestRole::Upload, upload)
        .route("POST", "/v1/predictions", RequestRole::Submit, by_version)
        .route("POST", "/v1/models/{owner}/{name}/predictions", RequestRole::Submit, by_model)
        .route("POST", "/v1/deployments/{owner}/{name}/predictions", RequestRole::Submit, by_model)
        .route("GET", "/v1/predictions", RequestRole::Find, list)
        .route("GET", "/v1/predictions/{id}", RequestRole::Poll, get)
        .route("POST", "/v1/predictions/{id}/cancel", RequestRole::Cancel, cancel)
        .route("GET", "/delivery/{id}/{name}", RequestRole::Download, file)
    },
};

/// The version under which Demucs runs.
const DEMUCS: &str = "25a173108cff36ef9f80f854c162d01df9e6528be175794b81158fa03836d953";

fn upload(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return unauthenticated();
    }
    let content = &request.body["content"];
    let Some(bytes) = content["bytes"].as_u64() else {
        return problem(
            422,
            "Missing content: multipart part \"content\" is required",
        );
    };
    let id = format!("file-{}", request.world.number());
    let get = format!("{}/v1/files/{id}", request.base);
    request.world.keep_file(&get, content.clone());
    SimulatedReply::json(
        201,
        &json!({"id": id, "name": content["file_name"], "content_type": content["mime"],
            "size": bytes, "etag": id, "checksums": {"sha256": id, "md5": id}, "metadata": {},
            "created_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-02T00:00:00Z", "urls": {"get": get}}),
    )
}

fn by_version(request: &SimulatedRequest) -> SimulatedReply {
    let Some(version) = request.body["version"].as_str() else {
        return problem(422, "- version is required");
    };
    // Models that are not Replicate's official ones can be run only by version, and a version names
    // its model.
    if version != DEMUCS {
        return problem(422, "Invalid version or not permitted");
    }
    submit(request, "cjwbw/demucs")
}

fn by_model(request: &SimulatedRequest) -> SimulatedReply {
    let name = format!("{}/{}", request.param("owner"), request.param("name"));
    if request.body.get("version").is_some() {
        return problem(422, "Additional property version is not allowed");
    }
    submit(request, &name)
}

fn submit(request: &SimulatedRequest, model: &str) -> SimulatedReply {
    if request.bearer().is_none() {
        return unauthenticated();
    }
    let Some(input) = request.body["input"].as_object() else {
        return problem(422, "- input is required");
    };
    let input_error = match model {
        "google/veo-3" | "google/veo-3.1" | "me/veo" => inputs::veo(input),
        "bytedance/seedance-2.0" => inputs::seedance(input),
        "kwaivgi/kling-v2.5-turbo-pro" => inputs::kling(input),
        "cjwbw/demucs" => inputs::demucs(input),
        "stability-ai/stable-audio-2.5" => inputs::stable_audio(input),
        _ => return problem(404, "The requested resource could not be found."),
    };
    // Replicate checks an input before it accepts the order, so a wrong one makes no job and costs
    // nothing.
    if let Some(fault) = input_error.or_else(|| inputs::files(request, input)) {
        return problem(422, &fault);
    }
    let id = format!("{:026x}", request.world.number());
    let job = request
        .world
        .accept("replicate", id, json!(input), json!({"model": model}));
    SimulatedReply::json(201, &prediction(request, &job))
}

fn get(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return unauthenticated();
    }
    let Some(job) = request.world.poll_job(request.param("id")) else {
        return problem(404, "Prediction not found");
    };
    let mut body = prediction(request, &job);
    if request.unknown_status {
        body["status"] = json!("warming");
    }
    SimulatedReply::json(200, &body)
}

/// A hundred per page; the URL of the next page has a cursor.
fn list(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return unauthenticated();
    }
    let offset = request.number("cursor", 0);
    let (jobs, has_more) = request.page("replicate", |_| true, offset, 100);
    let results: Vec<Value> = jobs.iter().map(|job| prediction(request, job)).collect();
    let next = format!("{}/v1/predictions?cursor={}", request.base, offset + 100);
    SimulatedReply::json(
        200,
        &json!({"previous": null, "next": has_more.then_some(next), "results": results}),
    )
}

fn cancel(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return unauthenticated();
    }
    let id = request.param("id");
    request.world.cancel(id);
    match request.world.job(id) {
        Some(job) => SimulatedReply::json(200, &prediction(request, &job)),
        None => problem(404, "Prediction not found"),
    }
}

fn prediction(request: &SimulatedRequest, job: &Job) -> Value {
    let forbidden = job.input["prompt"]
        .as_str()
        .is_some_and(|prompt| prompt.contains("forbidden"));
    let phase = match job.phase() {
        // Models check content while they run, so the order is accepted first.
        JobPhase::Ended(_) if forbidden => JobPhase::Ended(PlannedEnd::Refusal),
        phase => phase,
    };
    let (status, output, logs, error) = match phase {
        JobPhase::Queued => ("starting", Value::Null, String::new(), Value::Null),
        JobPhase::Running(share) => {
            // Progress is only in the model's log, as a progress bar that is redrawn. The last
            // percentage counts.
            let bar = format!(
                "  0%|          | 0/50\n{:3.0}%|###       | 20/50",
                share * 100.0
            );
            ("processing", Value::Null, bar, Value::Null)
        }
        JobPhase::Ended(PlannedEnd::Success) => (
            "succeeded",
            output(request, job),
            String::new(),
            Value::Null,
        ),
        JobPhase::Ended(PlannedEnd::Empty) => {
            ("succeeded", Value::Null, String::new(), Value::Null)
        }
        JobPhase::Ended(PlannedEnd::Failure) => (
            "failed",
            Value::Null,
            String::new(),
            json!("CUDA out of memory"),
        ),
        JobPhase::Ended(PlannedEnd::Unfit) => (
            "failed",
            Value::Null,
            String::new(),
            // E006 marks a wrong input and E005 refused content. The codes are only in the message.
            json!("The input image is too small. (E006)"),
        ),
        JobPhase::Ended(PlannedEnd::Refusal) => (
            "failed",
            Value::Null,
            String::new(),
            json!(
                "The input or output was flagged as sensitive. Please try again with different inputs. (E005)"
            ),
        ),
        JobPhase::Cancelled => ("canceled", Value::Null, String::new(), Value::Null),
    };
    let metrics = match phase {
        JobPhase::Ended(_) => json!({"predict_time": 12.345_678, "total_time": 13.5}),
        _ => json!({}),
    };
    let url = format!("{}/v1/predictions/{}", request.base, job.id);
    let version = match job.provider_data["model"].as_str() {
        Some("cjwbw/demucs") => DEMUCS,
        _ => "hidden",
    };
    json!({
        "id": job.id, "model": job.provider_data["model"], "version": version, "status": status,
        "input": job.input, "output": output, "logs": logs, "error": error, "data_removed": false,
        "metrics": metrics, "created_at": request.timestamp(job.accepted_at), "started_at": null, "completed_at": null,
        "urls": {"get": url, "cancel": format!("{url}/cancel")},
    })
}

fn output(request: &SimulatedRequest, job: &Job) -> Value {
    let url = |name: &str| {
        let signature = job.polls;
        json!(format!(
            "{}/delivery/{}/{name}?s={signature}",
            request.base, job.id
        ))
    };
    match job.provider_data["model"].as_str() {
        Some("cjwbw/demucs") => {
            let mut stems = json!({"vocals": null, "bass": null, "drums": null, "guitar": null,
                "piano": null, "other": null});
            let requested = job.input["stem"].as_str();
            let has_six = job.input["model_name"] == "htdemucs_6s";
            for name in ["vocals", "bass", "drums", "guitar", "piano", "other"] {
                let is_offered = has_six || !matches!(name, "guitar" | "piano");
                // With a single stem, the rest is included as `other`.
                if is_offered && (requested.is_none() || requested == Some(name) || name == "other")
                {
                    stems[name] = url(&format!("{name}.wav"));
                }
            }
            stems
        }
        Some("stability-ai/stable-audio-2.5") => url("song.wav"),
        // Most models answer with one URL, this one with a list.
        Some("kwaivgi/kling-v2.5-turbo-pro") => json!([url("output.mp4")]),
        _ => url("output.mp4"),
    }
}

fn file(request: &SimulatedRequest) -> SimulatedReply {
    results::named_file(request, "Request has expired", results::duration)
}

fn unauthenticated() -> SimulatedReply {
    SimulatedReply::json(
        401,
        &json!({"title": "Unauthenticated", "detail": "You did not pass a valid authentication token", "status": 401}),
    )
}

fn problem(status: u16, detail: &str) -> SimulatedReply {
    SimulatedReply::json(
        status,
        &json!({"title": "Input validation failed", "detail": detail, "status": status}),
    )
}
