//! `comfyui`: a `ComfyUI` server, and the newer jobs API.
//!
//! Every route of the server exists under `/api` and without it.

mod v2;

use serde_json::{Map, Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{RouteHandler, SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

const NAME: &str = "comfyui";

/// The exception of nodes when hosted models refuse content.
const REFUSAL: &str = "content_policy_violation";

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: NAME,
    routes: |site| {
        let mut site = site.error(
            |status| json!({"error": {"type": "simulated", "message": format!("status {status}"), "details": "", "extra_info": {}}, "node_errors": {}}),
        );
        for (method, path, role, handler) in SERVER {
            site = site.route(method, path, role, handler).route(
                method,
                &format!("/api{path}"),
                role,
                handler,
            );
        }
        site.route("POST", "/api/v2/jobs", RequestRole::Submit, v2::submit)
            .route("GET", "/api/v2/jobs/{id}", RequestRole::Poll, v2::get)
            .route(
                "POST",
                "/api/v2/jobs/{id}/cancel",
                RequestRole::Cancel,
                v2::cancel,
            )
            .route("GET", "/results/{name}", RequestRole::Download, v2::result)
    },
};

const SERVER: [(&str, &str, RequestRole, RouteHandler); 8] = [
    ("POST", "/prompt", RequestRole::Submit, submit),
    ("POST", "/upload/image", RequestRole::Upload, upload),
    ("GET", "/history/{id}", RequestRole::Poll, history),
    ("GET", "/queue", RequestRole::Poll, queue),
    ("POST", "/queue", RequestRole::Cancel, delete_from_queue),
    ("POST", "/interrupt", RequestRole::Cancel, interrupt),
    ("POST", "/jobs/{id}/cancel", RequestRole::Cancel, cancel_job),
    ("GET", "/view", RequestRole::Download, view),
];

fn submit(request: &SimulatedRequest) -> SimulatedReply {
    if request.body["client_id"].as_str().is_none() {
        return invalid("no_client", "client_id is missing", &json!({}));
    }
    // A caller may choose the id, by which the job of an unanswered submission is found. No
    // document says what a server does with an id that it already has.
    let id = match &request.body["prompt_id"] {
        Value::Null => request.world.uuid(),
        Value::String(id) if is_uuid(id) => id.clone(),
        _ => {
            return invalid(
                "invalid_prompt_id",
                "prompt_id must be a canonical UUID",
                &json!({}),
            );
        }
    };
    let graph = &request.body["prompt"];
    if let Some(reply) = graph_error(request, graph) {
        return reply;
    }
    request
        .world
        .accept(NAME, id.clone(), graph.clone(), Value::Null);
    SimulatedReply::json(
        200,
        &json!({"prompt_id": id, "number": request.world.number(), "node_errors": {}}),
    )
}

/// The errors of a graph that the server reports before it queues it.
fn graph_error(request: &SimulatedRequest, graph: &Value) -> Option<SimulatedReply> {
    let nodes = graph.as_object().filter(|nodes| !nodes.is_empty());
    let Some(nodes) = nodes else {
        return Some(invalid("no_prompt", "No prompt provided", &json!({})));
    };
    for (id, node) in nodes {
        let Some(class) = node["class_type"].as_str() else {
            let message = format!("Node ID '#{id}' has no class_type.");
            return Some(invalid("missing_node_type", &message, &json!({})));
        };
        let Some(inputs) = node["inputs"].as_object() else {
            return Some(invalid("invalid_prompt", "inputs is missing", &json!({})));
        };
        if let Some(details) = input_error(request, class, inputs) {
            let errors = json!({id: {
                "class_type": class, "dependent_outputs": ["9"],
                "errors": [{"type": "custom_validation_failed", "message": "Custom validation failed for node", "details": details, "extra_info": {}}],
            }});
            let message = "Prompt outputs failed validation";
            return Some(invalid(
                "prompt_outputs_failed_validation",
                message,
                &errors,
            ));
        }
        let texts = inputs.values().filter_map(Value::as_str);
        if texts.into_iter().any(|text| text.contains("forbidden")) {
            return Some(invalid(REFUSAL, "The prompt was refused.", &json!({})));
        }
    }
    None
}

fn input_error(
    request: &SimulatedRequest,
    class: &str,
    inputs: &Map<String, Value>,
) -> Option<String> {
    if class == "LoadImage" {
        let name = inputs.get("image").and_then(Value::as_str).unwrap_or("");
        if request.world.file(&format!("comfyui/{name}")).is_none() {
            return Some(format!("image - Invalid image file: {name}"));
        }
    }
    for member in ["width", "height", "length", "seed", "steps"] {
        let Some(value) = inputs.get(member) else {
            continue;
        };
        // An array is a link to another node's output, which has no value yet.
        if !value.is_u64() && !value.is_array() {
            return Some(format!("{member} - {value} is not an INT"));
        }
    }
    None
}

fn upload(request: &SimulatedRequest) -> SimulatedReply {
    let image = &request.body["image"];
    let Some(name) = image["file_name"].as_str().filter(|name| !name.is_empty()) else {
        return SimulatedReply::empty(400);
    };
    let is_picture = image["mime"]
        .as_str()
        .is_some_and(|mime| mime.starts_with("image/"));
    if !is_picture || image["bytes"] == 0 {
        return SimulatedReply::empty(400);
    }
    let folder = request.body["subfolder"].as_str().unwrap_or_default();
    let path = format!("{folder}/{name}");
    let path = path.trim_start_matches('/');
    request
        .world
        .keep_file(format!("comfyui/{path}"), image.clone());
    SimulatedReply::json(
        200,
        &json!({"name": name, "subfolder": folder, "type": "input"}),
    )
}

fn history(request: &SimulatedRequest) -> SimulatedReply {
    let id = request.param("id");
    let Some(job) = request.world.poll_job(id) else {
        return SimulatedReply::json(200, &json!({}));
    };
    if request.unknown_status {
        let record = json!({"outputs": {}, "status": {"status_str": "pondering", "completed": false, "messages": []}});
        return SimulatedReply::json(200, &json!({id: record}));
    }
    let started = json!(["execution_start", {"prompt_id": id}]);
    let failed = |message: &str| {
        json!([started, ["execution_error", {
            "prompt_id": id, "node_id": "3", "node_type": "KSampler", "executed": [],
            "exception_type": "RuntimeError", "exception_message": message, "traceback": [],
        }]])
    };
    let (word, outputs, messages) = match job.phase() {
        // The history only has ended jobs. A job that is not in it may be in the queue, or unknown.
        JobPhase::Queued | JobPhase::Running(_) => return SimulatedReply::json(200, &json!({})),
        JobPhase::Ended(PlannedEnd::Success) => ("success", outputs(&job), json!([started])),
        JobPhase::Ended(PlannedEnd::Empty) => ("success", json!({}), json!([started])),
        JobPhase::Ended(PlannedEnd::Failure | PlannedEnd::Unfit) => {
            ("error", json!({}), failed("CUDA out of memory\n"))
        }
        JobPhase::Ended(PlannedEnd::Refusal) => (
            "error",
            json!({}),
            failed(&format!("{REFUSAL}: the output was refused")),
        ),
        JobPhase::Cancelled => {
            // A job that was deleted while waiting leaves no trace.
            if job.provider_data["deleted"] == true {
                return SimulatedReply::json(200, &json!({}));
            }
            let interrupted =
                json!(["execution_interrupted", {"prompt_id": id, "node_id": "3", "executed": []}]);
            ("error", json!({}), json!([started, interrupted]))
        }
    };
    let record = json!({
        "prompt": [1, id, job.input, {"client_id": ""}, ["9"]],
        "outputs": outputs,
        "status": {"status_str": word, "completed": word == "success", "messages": messages},
        "meta": {},
    });
    SimulatedReply::json(200, &json!({id: record}))
}

/// A preview, a cover and the film, each by its own node.
fn outputs(job: &Job) -> Value {
    // The film is neither first nor last, and is listed under `images`. Adapters have to choose by
    // name and by type: a preview is "temp", a saved file "output".
    let video_name = file_name(job);
    json!({
        "12": {"images": [{"filename": "ComfyUI_temp_00001_.png", "subfolder": "", "type": "temp"}]},
        "13": {"text": ["done"]},
        "58": {"images": [{"filename": video_name, "subfolder": "video", "type": "output"}], "animated": [true]},
        "9": {"images": [{"filename": "cover_00001_.png", "subfolder": "", "type": "output"}]},
    })
}

fn file_name(job: &Job) -> String {
    format!("{}_00001_.mp4", job.id)
}

fn queue(request: &SimulatedRequest) -> SimulatedReply {
    let (mut running, mut pending) = (Vec::new(), Vec::new());
    for job in request.world.jobs(NAME) {
        let item = json!([1, job.id, job.input, {"client_id": ""}, ["9"]]);
        match job.phase() {
            JobPhase::Queued => pending.push(item),
            JobPhase::Running(_) => running.push(item),
            JobPhase::Ended(_) | JobPhase::Cancelled => {}
        }
    }
    SimulatedReply::json(
        200,
        &json!({"queue_running": running, "queue_pending": pending}),
    )
}

fn delete_from_queue(request: &SimulatedRequest) -> SimulatedReply {
    // The server answers 200 whether or not the job was in the queue, so the answer proves nothing.
    let ids = request.body["delete"].as_array().into_iter().flatten();
    for id in ids.filter_map(Value::as_str) {
        let is_queued = request
            .world
            .job(id)
            .is_some_and(|job| job.phase() == JobPhase::Queued);
        if is_queued {
            request.world.cancel(id);
        }
    }
    SimulatedReply::empty(200)
}

fn interrupt(request: &SimulatedRequest) -> SimulatedReply {
    // Without an id the server stops whatever runs, regardless of who ordered it.
    let requested_id = request.body["prompt_id"].as_str();
    for job in request.world.jobs(NAME) {
        if matches!(job.phase(), JobPhase::Running(_)) && requested_id.is_none_or(|id| id == job.id)
        {
            request.world.cancel(&job.id);
        }
    }
    SimulatedReply::empty(200)
}

fn cancel_job(request: &SimulatedRequest) -> SimulatedReply {
    let id = request.param("id");
    if request.world.job(id).is_none() {
        return SimulatedReply::json(404, &json!({"error": "Job not found"}));
    }
    request.world.cancel(id);
    SimulatedReply::json(200, &json!({}))
}

fn view(request: &SimulatedRequest) -> SimulatedReply {
    let member = |name: &str| request.query.get(name).map_or("", String::as_str);
    let (name, folder, kind) = (member("filename"), member("subfolder"), member("type"));
    let job = name
        .strip_suffix("_00001_.mp4")
        .and_then(|id| request.world.job(id));
    match job {
        Some(job) if folder == "video" && kind == "output" => video_file(request, &job),
        _ => SimulatedReply::empty(404),
    }
}

fn video_file(request: &SimulatedRequest, job: &Job) -> SimulatedReply {
    if request.expired {
        return SimulatedReply::empty(403);
    }
    if job.phase() != JobPhase::Ended(PlannedEnd::Success) {
        return SimulatedReply::empty(404);
    }
    SimulatedReply::file("video/mp4", media::video(seconds(job)))
}

/// The length: frames divided by the rate, both from the graph's nodes.
fn seconds(job: &Job) -> u32 {
    let input = |member: &str| {
        let nodes = job.input.as_object()?;
        nodes
            .values()
            .find_map(|node| node["inputs"][member].as_u64())
    };
    let frames = input("length").unwrap_or(121);
    let rate = input("fps").unwrap_or(24).max(1);
    // Video models make one frame more than seconds times rate.
    u32::try_from((frames.saturating_sub(1) / rate).max(1)).unwrap_or(1)
}

fn invalid(kind: &str, message: &str, nodes: &Value) -> SimulatedReply {
    SimulatedReply::json(
        400,
        &json!({"error": {"type": kind, "message": message, "details": "", "extra_info": {}}, "node_errors": nodes}),
    )
}

fn is_uuid(id: &str) -> bool {
    let groups: Vec<usize> = id.split('-').map(str::len).collect();
    let hex = |c: char| c == '-' || c.is_ascii_digit() || ('a'..='f').contains(&c);
    groups == [8, 4, 4, 4, 12] && id.chars().all(hex)
}
