//! `musicai`: music.ai. What a workflow makes is in its slug: `two`, `six`, or
//! anything else for four stems.

use serde_json::{Map, Value, json};

use super::Model;
use crate::fault::Role;
use crate::media;
use crate::site::{Reply, Request};
use crate::world::{End, Job, Phase};

const NAME: &str = "musicai";

pub(super) const MODEL: Model = Model {
    name: NAME,
    routes: |site| {
        site.error(|status| json!({"code": status, "title": "Simulated", "message": "simulated"}))
            .route("GET", "/upload", Role::Upload, grant)
            .route("PUT", "/bucket/{id}", Role::Upload, put)
            .route("POST", "/job", Role::Submit, submit)
            .route("GET", "/job", Role::Find, list)
            .route("GET", "/job/{id}", Role::Poll, get)
            .route("GET", "/job/{id}/status", Role::Poll, get)
            .route("DELETE", "/job/{id}", Role::Cancel, delete)
            .route("GET", "/result/{id}/{name}", Role::Download, download)
    },
};

/// The key stands in the header as it is, without a scheme.
fn denied(request: &Request) -> Option<Reply> {
    let key = request.header("authorization");
    (key.is_empty() || key.contains(' '))
        .then(|| error(401, "UNAUTHORIZED", "The API key is not valid"))
}

fn grant(request: &Request) -> Reply {
    if let Some(reply) = denied(request) {
        return reply;
    }
    let id = request.world.uuid();
    let url = format!("{}/bucket/{id}", request.base);
    request
        .world
        .keep_file(format!("{url}?download"), json!(false));
    Reply::json(
        200,
        &json!({"uploadUrl": format!("{url}?upload"), "downloadUrl": format!("{url}?download")}),
    )
}

fn put(request: &Request) -> Reply {
    let url = format!("{}/bucket/{}?download", request.base, request.param("id"));
    let known = request.world.file(&url).is_some();
    if !known || !request.header("authorization").is_empty() || request.bytes.is_empty() {
        return Reply::json(403, &json!("AccessDenied")).with_header("content-type", "text/plain");
    }
    request.world.keep_file(url, json!(true));
    Reply::empty(200)
}

fn submit(request: &Request) -> Reply {
    if let Some(reply) = denied(request) {
        return reply;
    }
    let body = &request.body;
    for field in ["name", "workflow"] {
        if body[field].as_str().unwrap_or_default().is_empty() {
            return error(400, "BAD_REQUEST", &format!("{field} is required"));
        }
    }
    let url = body["params"]["inputUrl"].as_str().unwrap_or_default();
    if request.world.file(url) != Some(json!(true)) {
        return error(400, "BAD_REQUEST", "params.inputUrl cannot be fetched");
    }
    let id = request.world.uuid();
    let job = request.world.accept(NAME, id, body.clone(), Value::Null);
    Reply::json(200, &json!({"id": job.id}))
}

fn get(request: &Request) -> Reply {
    if let Some(reply) = denied(request) {
        return reply;
    }
    let job = request.world.ask(request.param("id"));
    let Some(job) = job.filter(|job| job.phase() != Phase::Cancelled) else {
        return error(404, "NOT_FOUND", "There is no such job");
    };
    let mut body = record(request, &job);
    if request.unknown_word {
        body["status"] = json!("PAUSED");
    }
    Reply::json(200, &body)
}

/// The newest first, pages counted from 0; which it is, no document says.
fn list(request: &Request) -> Reply {
    if let Some(reply) = denied(request) {
        return reply;
    }
    let size = request.number("size", 20).min(100);
    let workflow = request.query.get("workflow");
    let wanted = |job: &Job| {
        let own = job.input["workflow"].as_str();
        job.phase() != Phase::Cancelled
            && (workflow.is_none() || own == workflow.map(String::as_str))
    };
    let (jobs, _) = request.page(NAME, wanted, request.number("page", 0) * size, size);
    Reply::json(200, &jobs.iter().map(|job| record(request, job)).collect())
}

fn record(request: &Request, job: &Job) -> Value {
    let (status, result) = match job.phase() {
        Phase::Queued | Phase::Cancelled => ("QUEUED", json!(null)),
        Phase::Running(_) => ("STARTED", json!(null)),
        Phase::Ended(End::Success) => ("SUCCEEDED", result(request, job)),
        Phase::Ended(End::Empty) => ("SUCCEEDED", json!({})),
        Phase::Ended(End::Failure | End::Unfit | End::Refusal) => ("FAILED", json!(null)),
    };
    let fault = json!({"code": "GENERIC", "title": "Failed", "message": "The workflow failed."});
    json!({
        "id": job.id, "app": "simulated", "workflow": job.input["workflow"], "batchName": null,
        "status": status, "workflowParams": job.input["params"], "metadata": {}, "result": result,
        "error": if status == "FAILED" { fault } else { json!(null) }, "name": job.input["name"],
        "createdAt": request.timestamp(job.accepted_at),
    })
}

fn result(request: &Request, job: &Job) -> Value {
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
    // A workflow may find out things that are no files.
    result.insert("tempo".into(), json!("120"));
    Value::Object(result)
}

fn delete(request: &Request) -> Reply {
    if let Some(reply) = denied(request) {
        return reply;
    }
    if request.world.job(request.param("id")).is_none() {
        return error(404, "NOT_FOUND", "There is no such job");
    }
    request.world.cancel(request.param("id"));
    Reply::json(200, &json!({"id": request.param("id")}))
}

fn download(request: &Request) -> Reply {
    if request.expired || !request.header("authorization").is_empty() {
        return Reply::json(403, &json!("AccessDenied: Request has expired"))
            .with_header("content-type", "text/plain");
    }
    let first = request.param("name").bytes().next().unwrap_or(b'v');
    Reply::file("audio/wav", media::audio(2_000, 4.0 * f64::from(first)))
}

fn error(status: u16, code: &str, message: &str) -> Reply {
    let body = json!({"code": code, "title": "Error", "message": message});
    Reply::json(status, &body)
}
