//! `musicai`: music.ai. The slug of a workflow determines its stems: `two`, `six`, or anything else
//! for four stems.

use serde_json::{Map, Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

const NAME: &str = "musicai";

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: NAME,
    routes: |site| {
        site.error(|status| json!({"code": status, "title": "Simulated", "message": "simulated"}))
            .route("GET", "/upload", RequestRole::Upload, grant)
            .route("PUT", "/bucket/{id}", RequestRole::Upload, put)
            .route("POST", "/job", RequestRole::Submit, submit)
            .route("GET", "/job", RequestRole::Find, list)
            .route("GET", "/job/{id}", RequestRole::Poll, get)
            .route("GET", "/job/{id}/status", RequestRole::Poll, get)
            .route("DELETE", "/job/{id}", RequestRole::Cancel, delete)
            .route(
                "GET",
                "/result/{id}/{name}",
                RequestRole::Download,
                download,
            )
    },
};

/// The header contains the plain key, without a scheme.
fn auth_error(request: &SimulatedRequest) -> Option<SimulatedReply> {
    let key = request.header("authorization");
    (key.is_empty() || key.contains(' '))
        .then(|| error(401, "UNAUTHORIZED", "The API key is not valid"))
}

fn grant(request: &SimulatedRequest) -> SimulatedReply {
    if let Some(reply) = auth_error(request) {
        return reply;
    }
    let id = request.world.uuid();
    let url = format!("{}/bucket/{id}", request.base);
    request
        .world
        .keep_file(format!("{url}?download"), json!(false));
    SimulatedReply::json(
        200,
        &json!({"uploadUrl": format!("{url}?upload"), "downloadUrl": format!("{url}?download")}),
    )
}

fn put(request: &SimulatedRequest) -> SimulatedReply {
    let url = format!("{}/bucket/{}?download", request.base, request.param("id"));
    let is_known = request.world.file(&url).is_some();
    // The bucket's URL is signed, and the bucket refuses the service's key.
    if !is_known || !request.header("authorization").is_empty() || request.bytes.is_empty() {
        return SimulatedReply::json(403, &json!("AccessDenied"))
            .with_header("content-type", "text/plain");
    }
    request.world.keep_file(url, json!(true));
    SimulatedReply::empty(200)
}

fn submit(request: &SimulatedRequest) -> SimulatedReply {
    if let Some(reply) = auth_error(request) {
        return reply;
    }
    let body = &request.body;
    for field in ["name", "workflow"] {
        if body[field].as_str().unwrap_or_default().is_empty() {
            return error(400, "BAD_REQUEST", &format!("{field} is required"));
        }
    }
    let url = body["params"]["inputUrl"].as_str().unwrap_or_default();
    // The download URL is returned before the upload, so only a finished upload makes it usable.
    if request.world.file(url) != Some(json!(true)) {
        return error(400, "BAD_REQUEST", "params.inputUrl cannot be fetched");
    }
    let id = request.world.uuid();
    let job = request.world.accept(NAME, id, body.clone(), Value::Null);
    SimulatedReply::json(200, &json!({"id": job.id}))
}

fn get(request: &SimulatedRequest) -> SimulatedReply {
    if let Some(reply) = auth_error(request) {
        return reply;
    }
    let job = request.world.poll_job(request.param("id"));
    // A removed job is gone. There is no word for a cancelled one.
    let Some(job) = job.filter(|job| job.phase() != JobPhase::Cancelled) else {
        return error(404, "NOT_FOUND", "There is no such job");
    };
    let mut body = record(request, &job);
    if request.unknown_status {
        body["status"] = json!("PAUSED");
    }
    SimulatedReply::json(200, &body)
}

/// Newest first, pages counted from 0. Both are assumptions: no document states them.
fn list(request: &SimulatedRequest) -> SimulatedReply {
    if let Some(reply) = auth_error(request) {
        return reply;
    }
    let size = request.number("size", 20).min(100);
    let workflow = request.query.get("workflow");
    let matches = |job: &Job| {
        let job_workflow = job.input["workflow"].as_str();
        job.phase() != JobPhase::Cancelled
            && (workflow.is_none() || job_workflow == workflow.map(String::as_str))
    };
    let (jobs, _) = request.page(NAME, matches, request.number("page", 0) * size, size);
    SimulatedReply::json(200, &jobs.iter().map(|job| record(request, job)).collect())
}

fn record(request: &SimulatedRequest, job: &Job) -> Value {
    let (status, result) = match job.phase() {
        JobPhase::Queued | JobPhase::Cancelled => ("QUEUED", json!(null)),
        JobPhase::Running(_) => ("STARTED", json!(null)),
        JobPhase::Ended(PlannedEnd::Success) => ("SUCCEEDED", result(request, job)),
        JobPhase::Ended(PlannedEnd::Empty) => ("SUCCEEDED", json!({})),
        JobPhase::Ended(PlannedEnd::Failure | PlannedEnd::Unfit | PlannedEnd::Refusal) => {
            ("FAILED", json!(null))
        }
    };
    let fault = json!({"code": "GENERIC", "title": "Failed", "message": "The workflow failed."});
    json!({
        "id": job.id, "app": "simulated", "workflow": job.input["workflow"], "batchName": null,
        "status": status, "workflowParams": job.input["params"], "metadata": {}, "result": result,
        "error": if status == "FAILED" { fault } else { json!(null) }, "name": job.input["name"],
        "createdAt": request.timestamp(job.accepted_at),
    })
}

fn result(request: &SimulatedRequest, job: &Job) -> Value {
    let workflow = job.input["workflow"].as_str().unwrap_or_default();
    let names: &[&str] = match workflow {
        slug if slug.contains("two") => &["vocals", "instrumental"],
        slug if slug.contains("six") => &["vocals", "drums", "bass", "guitars", "keys", "other"],
        _ => &["vocals", "drums", "bass", "other"],
    };
    let address = |name: &&str| {
        let url = format!(
            "{}/result/{}/{name}?sig={}",
            request.base,
            job.id,
            request.world.number()
        );
        ((*name).to_owned(), json!(url))
    };
    let mut result: Map<String, Value> = names.iter().map(address).collect();
    // Workflows also return values that are not files, and adapters have to skip them.
    result.insert("tempo".into(), json!("120"));
    Value::Object(result)
}

fn delete(request: &SimulatedRequest) -> SimulatedReply {
    if let Some(reply) = auth_error(request) {
        return reply;
    }
    if request.world.job(request.param("id")).is_none() {
        return error(404, "NOT_FOUND", "There is no such job");
    }
    request.world.cancel(request.param("id"));
    SimulatedReply::json(200, &json!({"id": request.param("id")}))
}

fn download(request: &SimulatedRequest) -> SimulatedReply {
    if request.expired || !request.header("authorization").is_empty() {
        return SimulatedReply::json(403, &json!("AccessDenied: Request has expired"))
            .with_header("content-type", "text/plain");
    }
    let first = request.param("name").bytes().next().unwrap_or(b'v');
    SimulatedReply::file("audio/wav", media::audio(2_000, 4.0 * f64::from(first)))
}

fn error(status: u16, code: &str, message: &str) -> SimulatedReply {
    let body = json!({"code": code, "title": "Error", "message": message});
    SimulatedReply::json(status, &body)
}
