//! `vidu`: one path for each way to begin, one shape of task.

use serde_json::{Value, json};

use super::{Model, results};
use crate::fault::Role;
use crate::site::{Reply, Request};
use crate::world::{End, Phase};

pub(super) const MODEL: Model = Model {
    name: "vidu",
    routes: |site| {
        site.error(|status| json!({"code": status, "reason": "simulated", "message": "simulated"}))
            .route("POST", "/text2video", Role::Submit, from_text)
            .route("POST", "/img2video", Role::Submit, from_picture)
            .route("POST", "/start-end2video", Role::Submit, from_two)
            .route("POST", "/reference2video", Role::Submit, from_references)
            .route("GET", "/tasks/{id}/creations", Role::Poll, creations)
            .route("POST", "/tasks/{id}/cancel", Role::Cancel, cancel)
            .route("GET", "/cdn/{id}/output.mp4", Role::Download, download)
    },
};

fn from_text(request: &Request) -> Reply {
    submit(request, 0..=0, true)
}

fn from_picture(request: &Request) -> Reply {
    submit(request, 1..=1, false)
}

fn from_two(request: &Request) -> Reply {
    submit(request, 2..=2, false)
}

fn from_references(request: &Request) -> Reply {
    submit(request, 1..=7, true)
}

fn is_stranger(request: &Request) -> bool {
    !request.header("authorization").starts_with("Token ")
}

fn submit(request: &Request, pictures: std::ops::RangeInclusive<usize>, shaped: bool) -> Reply {
    const EVERY: [&str; 8] = [
        "model",
        "prompt",
        "images",
        "duration",
        "resolution",
        "aspect_ratio",
        "seed",
        "audio",
    ];
    if is_stranger(request) {
        return error(401, "Unauthorized");
    }
    let body = &request.body;
    let images = body["images"].as_array().map_or(&[][..], Vec::as_slice);
    let pictured = images.iter().all(|image| {
        let image = image.as_str().unwrap_or_default();
        image.starts_with("https://") || image.starts_with("data:image/")
    });
    let fits = body
        .as_object()
        .is_some_and(|fields| fields.keys().all(|name| EVERY.contains(&name.as_str())))
        && pictured
        && pictures.contains(&images.len())
        && body["aspect_ratio"].is_string() == shaped
        && body["duration"]
            .as_u64()
            .is_some_and(|seconds| (1..=16).contains(&seconds))
        && matches!(body["resolution"].as_str(), Some("540p" | "720p" | "1080p"));
    let prompt = body["prompt"].as_str().unwrap_or_default();
    if !fits || prompt.is_empty() {
        return error(400, "FieldInvalid");
    }
    if prompt.contains("forbidden") {
        return error(400, "TaskPromptPolicyViolation");
    }
    let id = request.world.number().to_string();
    request
        .world
        .accept("vidu", id.clone(), body.clone(), Value::Null);
    Reply::json(
        200,
        &json!({"task_id": id, "state": "created", "credits": 20}),
    )
}

fn creations(request: &Request) -> Reply {
    if is_stranger(request) {
        return error(401, "Unauthorized");
    }
    let id = request.param("id");
    let Some(job) = request.world.ask(id) else {
        return error(404, "TaskNotFound");
    };
    let failed =
        |code: &str| json!({"state": "failed", "err_code": code, "credits": 0, "creations": []});
    let mut told = match job.phase() {
        Phase::Queued if job.polls == 1 => json!({"state": "created", "creations": []}),
        Phase::Queued => json!({"state": "queueing", "creations": []}),
        Phase::Running(_) => json!({"state": "processing", "creations": []}),
        Phase::Ended(End::Success) => {
            let signature = request.world.number();
            let url = format!("{}/cdn/{id}/output.mp4?sign={signature}", request.base);
            json!({"state": "success", "credits": 20, "creations": [{"id": "c", "url": url, "cover_url": ""}]})
        }
        Phase::Ended(End::Empty) => json!({"state": "success", "creations": []}),
        Phase::Ended(End::Failure) => failed("InternalServiceFailure"),
        Phase::Ended(End::Unfit) => failed("ImageFormatInvalid"),
        Phase::Ended(End::Refusal) => failed("CreationPolicyViolation"),
        Phase::Cancelled => failed("UserCancelled"),
    };
    told["id"] = json!(id);
    if request.unknown_word {
        told["state"] = json!("polishing");
    }
    Reply::json(200, &told)
}

fn cancel(request: &Request) -> Reply {
    let id = request.param("id");
    if request.body["id"] != id {
        return error(400, "FieldLacking");
    }
    request.world.cancel(id);
    Reply::json(200, &json!({}))
}

fn download(request: &Request) -> Reply {
    results::signed_film(request, "sign")
}

fn error(status: u16, reason: &str) -> Reply {
    Reply::json(
        status,
        &json!({"code": status, "reason": reason, "message": reason, "metadata": {}}),
    )
}
