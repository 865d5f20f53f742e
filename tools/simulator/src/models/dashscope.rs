//! `dashscope`: Alibaba's Model Studio.

use serde_json::{Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "dashscope",
    routes: |site| {
        site.error(|status| {
            let code = match status {
                401 => "InvalidApiKey",
                429 => "Throttling.RateQuota",
                503 => "ModelUnavailable",
                500.. => "InternalError",
                _ => "InvalidParameter",
            };
            json!({"code": code, "message": "simulated", "request_id": "r"})
        })
        .route(
            "POST",
            "/services/aigc/video-generation/video-synthesis",
            RequestRole::Submit,
            generate,
        )
        .route(
            "POST",
            "/services/aigc/image2video/video-synthesis",
            RequestRole::Submit,
            between_frames,
        )
        .route("GET", "/tasks/{id}", RequestRole::Poll, get)
        .route("POST", "/tasks/{id}/cancel", RequestRole::Cancel, cancel)
        .route(
            "GET",
            "/oss/{id}/video.mp4",
            RequestRole::Download,
            download,
        )
    },
};

fn is_address(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    text.starts_with("https://") || (text.starts_with("data:image/") && text.contains(";base64,"))
}

fn is_resolution(value: &Value) -> bool {
    matches!(value.as_str(), Some("480P" | "720P" | "1080P"))
}

/// `1280*720`.
fn is_size(value: &Value) -> bool {
    let sides = value.as_str().and_then(|text| text.split_once('*'));
    let side = |text: &str| text.parse::<u32>().is_ok_and(|side| side >= 400);
    sides.is_some_and(|(width, height)| side(width) && side(height))
}

/// Wan from version 2.7 on, and `HappyHorse`.
fn is_new(model: &str) -> bool {
    ["wan2.7", "wan3", "happyhorse"]
        .iter()
        .any(|start| model.starts_with(start))
}

fn generate(request: &SimulatedRequest) -> SimulatedReply {
    let (input, parameters) = (&request.body["input"], &request.body["parameters"]);
    let model = request.body["model"].as_str().unwrap_or_default();
    let media = input["media"].as_array().cloned().unwrap_or_default();
    let is_frame = |item: &Value| {
        matches!(item["type"].as_str(), Some("first_frame" | "last_frame"))
            && is_address(&item["url"])
    };
    // Each generation has its own form: `kf2v` models use another path, versions from 2.7 on take a
    // list of `media`, and earlier ones have a field for the picture.
    let fits = if model.contains("kf2v") {
        false
    } else if is_new(model) {
        // A film from a picture takes the picture's shape, so a `ratio` with a picture is refused.
        // Without a picture it is required.
        let has_picture = !media.is_empty();
        is_input(input, &["prompt", "negative_prompt", "media"])
            && has_only(
                parameters,
                &["resolution", "ratio", "duration", "seed", "watermark"],
            )
            && is_resolution(&parameters["resolution"])
            && media.iter().all(is_frame)
            && has_picture == parameters["ratio"].is_null()
            && !(model.contains("t2v") && has_picture || model.contains("i2v") && !has_picture)
    } else if model.contains("i2v") {
        is_input(input, &["prompt", "negative_prompt", "img_url"])
            && has_only(parameters, &["resolution", "duration", "seed"])
            && is_address(&input["img_url"])
            && is_resolution(&parameters["resolution"])
    } else {
        is_input(input, &["prompt", "negative_prompt"])
            && has_only(parameters, &["size", "duration", "seed"])
            && is_size(&parameters["size"])
    };
    submit(request, fits)
}

fn between_frames(request: &SimulatedRequest) -> SimulatedReply {
    let (input, parameters) = (&request.body["input"], &request.body["parameters"]);
    let model = request.body["model"].as_str().unwrap_or_default();
    let members = [
        "prompt",
        "negative_prompt",
        "first_frame_url",
        "last_frame_url",
    ];
    let fits = model.contains("kf2v")
        && is_input(input, &members)
        && has_only(parameters, &["resolution", "duration", "seed"])
        && is_address(&input["first_frame_url"])
        && is_address(&input["last_frame_url"])
        && is_resolution(&parameters["resolution"])
        && parameters["duration"] == 5;
    submit(request, fits)
}

/// The provider's own SDK sends two fields more than are documented.
fn is_input(input: &Value, members: &[&str]) -> bool {
    let sdk_fields = ["function", "extend_prompt"];
    let function = &input["function"];
    (function.is_null() || function == "video-synthesis")
        && has_only(input, &[members, &sdk_fields].concat())
}

fn has_only(body: &Value, members: &[&str]) -> bool {
    let fields = body.as_object();
    fields.is_some_and(|fields| fields.keys().all(|key| members.contains(&key.as_str())))
}

fn submit(request: &SimulatedRequest, fits: bool) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "InvalidApiKey", "Invalid API-key provided.");
    }
    // Without this header a call is synchronous, and the video models refuse that.
    if request.header("x-dashscope-async") != "enable" {
        let message = "current user api does not support synchronous calls.";
        return error(403, "AccessDenied", message);
    }
    let body = &request.body;
    let model = body["model"].as_str().unwrap_or_default();
    if !model.starts_with("wan") && !model.starts_with("happyhorse") {
        return error(404, "ModelNotFound", "The model does not exist.");
    }
    let parameters = &body["parameters"];
    let seconds = parameters["duration"].as_u64().unwrap_or_default();
    let seed = &parameters["seed"];
    // Seeds have 31 bits.
    let seed_fits = seed.is_null()
        || seed
            .as_u64()
            .is_some_and(|seed| i32::try_from(seed).is_ok());
    let prompt = body["input"]["prompt"].as_str().unwrap_or_default();
    if !fits || !(2..=15).contains(&seconds) || !seed_fits || prompt.is_empty() {
        return error(
            400,
            "InvalidParameter",
            "A parameter is missing or invalid.",
        );
    }
    if prompt.contains("forbidden") {
        let message = "Input data may contain inappropriate content.";
        return error(400, "DataInspectionFailed", message);
    }
    let id = request.world.uuid();
    request
        .world
        .accept("dashscope", id.clone(), body.clone(), Value::Null);
    answer(&json!({"task_id": id, "task_status": "PENDING"}))
}

fn get(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "InvalidApiKey", "Invalid API-key provided.");
    }
    let id = request.param("id");
    let Some(job) = request.world.poll_job(id) else {
        // An id that is unknown, or older than a day, is not a 404: it has its own status.
        return answer(&json!({"task_id": id, "task_status": "UNKNOWN"}));
    };
    let mut output = json!({"task_id": id, "submit_time": "2026-11-21 20:00:00.000"});
    let status = match job.phase() {
        JobPhase::Queued => "PENDING",
        JobPhase::Running(_) => "RUNNING",
        JobPhase::Ended(PlannedEnd::Success) => {
            let signature = request.world.number();
            let url = format!(
                "{}/oss/{id}/video.mp4?Expires=1795000000&Signature={signature}",
                request.base
            );
            output["video_url"] = json!(url);
            "SUCCEEDED"
        }
        JobPhase::Ended(PlannedEnd::Empty) => "SUCCEEDED",
        JobPhase::Ended(PlannedEnd::Failure) => {
            output["code"] = json!("InternalError.Timeout");
            output["message"] = json!("An internal timeout error has occurred.");
            "FAILED"
        }
        JobPhase::Ended(PlannedEnd::Unfit) => {
            output["code"] = json!("InvalidParameter");
            output["message"] = json!("The size is not supported.");
            "FAILED"
        }
        JobPhase::Ended(PlannedEnd::Refusal) => {
            output["code"] = json!("DataInspectionFailed");
            output["message"] = json!("Output data may contain inappropriate content.");
            "FAILED"
        }
        JobPhase::Cancelled => "CANCELED",
    };
    output["task_status"] = json!(if request.unknown_status {
        "POLISHING"
    } else {
        status
    });
    answer(&output)
}

fn cancel(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "InvalidApiKey", "Invalid API-key provided.");
    }
    let id = request.param("id");
    match request.world.job(id).map(|job| job.phase()) {
        // Only a task that waits can be cancelled. A running one continues and is charged.
        Some(JobPhase::Queued) => {
            request.world.cancel(id);
            SimulatedReply::json(200, &json!({"request_id": "r"}))
        }
        Some(_) => {
            let message =
                "Failed to cancel the task, please confirm if the task is in PENDING status.";
            error(400, "UnsupportedOperation", message)
        }
        None => error(404, "NotFound", "The task does not exist."),
    }
}

fn download(request: &SimulatedRequest) -> SimulatedReply {
    let job = request.world.job(request.param("id"));
    let is_signed = request.query.contains_key("Signature");
    let Some(job) = job.filter(|_| is_signed && !request.expired) else {
        return SimulatedReply::json(403, &json!("Request has expired"));
    };
    let seconds = job.input["parameters"]["duration"].as_u64().unwrap_or(5);
    SimulatedReply::file(
        "video/mp4",
        media::video(u32::try_from(seconds).unwrap_or(5)),
    )
}

fn answer(output: &Value) -> SimulatedReply {
    SimulatedReply::json(200, &json!({"request_id": "r", "output": output}))
}

fn error(status: u16, code: &str, message: &str) -> SimulatedReply {
    SimulatedReply::json(
        status,
        &json!({"code": code, "message": message, "request_id": "r"}),
    )
}
