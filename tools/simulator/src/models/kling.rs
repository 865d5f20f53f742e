//! `kling`: Kling's own API.

use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "kling",
    routes: |site| {
        site.error(|status| {
            // Kling's own codes decide, whatever the status: 1002 is a wrong token, 1302 too many
            // requests, 5000 a server error, 1200 an invalid request.
            let code = match status {
                401 | 403 => 1002,
                429 => 1302,
                500.. => 5000,
                _ => 1200,
            };
            json!({"code": code, "message": "simulated", "request_id": "r"})
        })
        .route(
            "POST",
            "/v1/videos/text2video",
            RequestRole::Submit,
            from_text,
        )
        .route(
            "POST",
            "/v1/videos/image2video",
            RequestRole::Submit,
            from_image,
        )
        .route("GET", "/v1/videos/{operation}/{id}", RequestRole::Poll, get)
        .route(
            "GET",
            "/cdn/{id}/video.mp4",
            RequestRole::Download,
            download,
        )
    },
};

/// The access key of the only account.
pub const ACCESS_KEY: &str = "simulated-access";
/// The versions that Kling ended on 2026-09-15.
const ENDED_MODELS: [&str; 4] = [
    "kling-v1-5",
    "kling-v1-6",
    "kling-v2-1",
    "kling-v2-1-master",
];

/// The simulated secret key.
pub const SECRET_KEY: &str = "simulated-secret";

/// Whether the bearer is a JWT of the account that is valid now.
fn has_valid_token(request: &SimulatedRequest) -> bool {
    let is_signed = || {
        let (signed_text, signature) = request.bearer()?.rsplit_once('.')?;
        let (header, claims) = signed_text.split_once('.')?;
        let read = |part: &str| -> Option<Value> {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
        };
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET_KEY.as_bytes()).ok()?;
        mac.update(signed_text.as_bytes());
        mac.verify_slice(&URL_SAFE_NO_PAD.decode(signature).ok()?)
            .ok()?;
        let (header, claims) = (read(header)?, read(claims)?);
        let now = request.unix_seconds(Instant::now());
        let is_current = claims["nbf"].as_u64()? <= now && claims["exp"].as_u64()? > now;
        // A token is valid for 30 minutes. The ten extra seconds are for an `nbf` that lies a
        // little in the past, because clocks differ.
        let lifetime = claims["exp"].as_u64()? - claims["nbf"].as_u64()?;
        let is_account_token =
            header["alg"] == "HS256" && header["typ"] == "JWT" && claims["iss"] == ACCESS_KEY;
        Some(is_account_token && is_current && lifetime <= 1810)
    };
    is_signed() == Some(true)
}

fn from_text(request: &SimulatedRequest) -> SimulatedReply {
    let fits = matches!(
        request.body["aspect_ratio"].as_str(),
        Some("16:9" | "9:16" | "1:1")
    );
    submit(request, "text2video", fits, &["aspect_ratio"])
}

fn from_image(request: &SimulatedRequest) -> SimulatedReply {
    let body = &request.body;
    let is_picture = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        // Kling accepts plain base64. A `data:` URL does not decode and is refused.
        let is_base64 = STANDARD.decode(text).is_ok_and(|bytes| !bytes.is_empty());
        text.starts_with("https://") || is_base64
    };
    let tail = &body["image_tail"];
    // A last frame is accepted in mode "pro" only.
    let fits = is_picture(&body["image"])
        && (tail.is_null() || (is_picture(tail) && body["mode"] == "pro"));
    submit(request, "image2video", fits, &["image", "image_tail"])
}

fn submit(
    request: &SimulatedRequest,
    operation: &str,
    fits: bool,
    own_members: &[&str],
) -> SimulatedReply {
    if !has_valid_token(request) {
        return error(401, 1002, "Authorization is invalid");
    }
    let body = &request.body;
    let members = [
        "model_name",
        "prompt",
        "negative_prompt",
        "mode",
        "duration",
        "external_task_id",
    ];
    let is_member =
        |key: &String| members.contains(&key.as_str()) || own_members.contains(&key.as_str());
    if !body
        .as_object()
        .is_some_and(|fields| fields.keys().all(is_member))
    {
        return error(400, 1200, "Request parameters are invalid");
    }
    let model = body["model_name"].as_str().unwrap_or_default();
    // Version 4 has calls of its own.
    let is_served = model.starts_with("kling-v") && !model.starts_with("kling-v4");
    if !is_served || ENDED_MODELS.contains(&model) {
        return error(404, 1203, "The model does not exist");
    }
    // Kling requires the length as a string and refuses a JSON number.
    let seconds: u32 = body["duration"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default();
    let length_fits = if model.starts_with("kling-v3") {
        (3..=15).contains(&seconds)
    } else {
        [5, 10].contains(&seconds)
    };
    let mode = body["mode"].as_str();
    // Master models have only one quality, so they refuse any mode.
    let has_mode = if model.ends_with("-master") {
        mode.is_none()
    } else {
        matches!(mode, None | Some("std" | "pro"))
    };
    let prompt = body["prompt"].as_str().unwrap_or_default();
    let has_prompt = !prompt.is_empty() && prompt.chars().count() <= 2500;
    if !(fits && length_fits && has_mode && has_prompt) {
        return error(400, 1201, "A parameter has an invalid value");
    }
    // No document says whether Kling refuses an `external_task_id` that was used before. This
    // simulator does not.
    let name = body["external_task_id"].as_str().unwrap_or_default();
    if prompt.contains("forbidden") {
        return error(400, 1301, "Content security policy triggered");
    }
    let id = format!("83344{:013}", request.world.number());
    let job = request
        .world
        .accept("kling", id, body.clone(), json!(operation));
    let created = request.unix_seconds(job.accepted_at) * 1000;
    envelope(&json!({
        "task_id": job.id, "task_status": "submitted", "created_at": created, "updated_at": created,
        "task_info": {"external_task_id": name},
    }))
}

fn get(request: &SimulatedRequest) -> SimulatedReply {
    if !has_valid_token(request) {
        return error(401, 1002, "Authorization is invalid");
    }
    let id = request.param("id");
    // The path takes the id or the `external_task_id` that the caller chose. By the latter, the
    // task of an unanswered submission is found.
    let job = request
        .world
        .poll_job(id)
        .or_else(|| job_by_external_id(request, id));
    // A task is found only under the operation that made it.
    let Some(job) = job.filter(|job| job.provider_data == request.param("operation")) else {
        return error(404, 1203, "The task does not exist");
    };
    let created = request.unix_seconds(job.accepted_at) * 1000;
    let mut data = json!({
        "task_id": job.id, "task_status_msg": "", "task_result": {},
        "task_info": {"external_task_id": job.input["external_task_id"]},
        "created_at": created, "updated_at": created,
    });
    let status = match job.phase() {
        JobPhase::Queued => "submitted",
        JobPhase::Running(_) => "processing",
        JobPhase::Ended(PlannedEnd::Success) => {
            let url = format!(
                "{}/cdn/{}/video.mp4?auth={}",
                request.base,
                job.id,
                request.world.number()
            );
            let video = json!({"id": job.id, "url": url, "duration": seconds(&job).to_string()});
            data["task_result"] = json!({"videos": [video]});
            data["final_unit_deduction"] = json!("2.5");
            "succeed"
        }
        JobPhase::Ended(PlannedEnd::Empty) => {
            data["task_result"] = json!({"videos": []});
            "succeed"
        }
        JobPhase::Ended(PlannedEnd::Failure) | JobPhase::Cancelled => {
            data["task_status_msg"] = json!("Service busy");
            "failed"
        }
        JobPhase::Ended(PlannedEnd::Unfit) => {
            data["task_status_msg"] = json!("Image pixel is invalid");
            "failed"
        }
        JobPhase::Ended(PlannedEnd::Refusal) => {
            data["task_status_msg"] = json!("Failure to pass the risk control system");
            "failed"
        }
    };
    data["task_status"] = json!(if request.unknown_status {
        "polishing"
    } else {
        status
    });
    envelope(&data)
}

/// The task with this `external_task_id`.
fn job_by_external_id(request: &SimulatedRequest, name: &str) -> Option<Job> {
    let jobs = request.world.jobs("kling");
    let job = jobs
        .iter()
        .find(|job| job.input["external_task_id"] == name)?;
    request.world.poll_job(&job.id)
}

fn seconds(job: &Job) -> u32 {
    let text = job.input["duration"].as_str().unwrap_or_default();
    text.parse().unwrap_or(5)
}

fn download(request: &SimulatedRequest) -> SimulatedReply {
    let job = request.world.job(request.param("id"));
    let is_signed = request.query.contains_key("auth");
    match job.filter(|_| is_signed && !request.expired) {
        Some(job) => SimulatedReply::file("video/mp4", media::video(seconds(&job))),
        None => SimulatedReply::json(403, &json!("Request has expired")),
    }
}

fn envelope(data: &Value) -> SimulatedReply {
    SimulatedReply::json(
        200,
        &json!({"code": 0, "message": "SUCCEED", "request_id": "r", "data": data}),
    )
}

fn error(status: u16, code: u32, message: &str) -> SimulatedReply {
    SimulatedReply::json(
        status,
        &json!({"code": code, "message": message, "request_id": "r"}),
    )
}
