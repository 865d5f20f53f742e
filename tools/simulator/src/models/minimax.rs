//! `minimax`: `MiniMax`'s two video APIs, under `/v1` and `/v2`, and songs.

use serde_json::{Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "minimax",
    routes: |site| {
        site.error(|status| {
            let code = match status {
                401 | 403 => 1004,
                402 => 1008,
                429 => 1002,
                400..500 => 2013,
                _ => 1000,
            };
            json!({"base_resp": {"status_code": code, "status_msg": "simulated"}})
        })
        .route(
            "POST",
            "/v1/video_generation",
            RequestRole::Submit,
            submit_v1,
        )
        .route(
            "GET",
            "/v1/query/video_generation",
            RequestRole::Poll,
            get_v1,
        )
        .route("GET", "/v1/files/retrieve", RequestRole::Poll, file)
        .route(
            "POST",
            "/v2/video_generation",
            RequestRole::Submit,
            submit_v2,
        )
        .route(
            "GET",
            "/v2/query/video_generation/{id}",
            RequestRole::Poll,
            get_v2,
        )
        .route(
            "DELETE",
            "/v2/video_generation/{id}",
            RequestRole::Cancel,
            delete_v2,
        )
        .route(
            "GET",
            "/cdn/{id}/output.mp4",
            RequestRole::Download,
            download,
        )
        .route("POST", "/v1/music_generation", RequestRole::Submit, compose)
        .route(
            "GET",
            "/cdn/{id}/song.mp3",
            RequestRole::Download,
            recording,
        )
    },
};

fn has_only(body: &Value, members: &[&str]) -> bool {
    let fields = body.as_object();
    fields.is_some_and(|fields| fields.keys().all(|key| members.contains(&key.as_str())))
}

fn is_address(value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    text.starts_with("https://") || (text.starts_with("data:image/") && text.contains(";base64,"))
}

fn prompt(body: &Value) -> &str {
    body["prompt"].as_str().unwrap_or_default()
}

fn submit_v1(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error_v1(1004, "login fail: please carry the API key");
    }
    let body = &request.body;
    let members = [
        "model",
        "prompt",
        "first_frame_image",
        "last_frame_image",
        "subject_reference",
        "duration",
        "resolution",
        "prompt_optimizer",
        "fast_pretreatment",
        "callback_url",
        "aigc_watermark",
    ];
    let model = body["model"].as_str().unwrap_or_default();
    let (first, last) = (&body["first_frame_image"], &body["last_frame_image"]);
    let subject = &body["subject_reference"][0];
    let is_first_generation = model.contains("2V-01");
    // Each generation has its own resolutions. 1080P is made for six seconds only, and 512P from a
    // picture only.
    let is_offered = match (body["resolution"].as_str(), body["duration"].as_u64()) {
        (Some("720P"), Some(6)) => is_first_generation,
        (Some("768P"), Some(6 | 10)) | (Some("1080P"), Some(6)) => !is_first_generation,
        (Some("512P"), Some(6 | 10)) => model == "MiniMax-Hailuo-02" && !first.is_null(),
        _ => false,
    };
    let is_known_model = model.starts_with("MiniMax-Hailuo-") || is_first_generation;
    // These models make videos from pictures only, and refuse a prompt alone.
    let needs_picture = model.ends_with("-Fast") || model.starts_with("I2V");
    let pictures_fit = (first.is_null() && !needs_picture || is_address(first))
        && (last.is_null() || is_address(last) && model == "MiniMax-Hailuo-02")
        && (model != "S2V-01"
            || subject["type"] == "character" && is_address(&subject["image"][0]));
    let prompt_fits = (1..=2000).contains(&prompt(body).chars().count());
    if !(is_known_model && is_offered && pictures_fit && prompt_fits && has_only(body, &members)) {
        return error_v1(2013, "invalid params");
    }
    if prompt(body).contains("forbidden") {
        return error_v1(1026, "input new_sensitive");
    }
    let id = format!("1768438627{:05}", request.world.number());
    request
        .world
        .accept("minimax", id.clone(), body.clone(), json!("v1"));
    success(json!({"task_id": id}))
}

fn compose(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error_v1(1004, "login fail: please carry the API key");
    }
    let body = &request.body;
    let members = [
        "model",
        "prompt",
        "lyrics",
        "is_instrumental",
        "lyrics_optimizer",
        "audio_setting",
        "output_format",
    ];
    let is_newer = matches!(
        body["model"].as_str(),
        Some("music-2.5" | "music-2.6" | "music-3.0")
    );
    let is_known_model =
        is_newer || matches!(body["model"].as_str(), Some("music-1.5" | "music-2.0"));
    let lyrics = body["lyrics"].as_str().unwrap_or_default();
    let has_lyrics = (1..=3_500).contains(&lyrics.chars().count());
    // From 2.5 on a model can write the lyrics itself or make an instrumental. Earlier ones need
    // lyrics.
    let needs_no_lyrics =
        is_newer && (body["is_instrumental"] == true || body["lyrics_optimizer"] == true);
    let text_fits = prompt(body).chars().count() <= 2_000 && body["output_format"] == "url";
    if !(is_known_model && (has_lyrics || needs_no_lyrics) && text_fits && has_only(body, &members))
    {
        return error_v1(2013, "invalid params");
    }
    if prompt(body).contains("forbidden") {
        return error_v1(1026, "input new_sensitive");
    }
    let id = format!("1768438628{:05}", request.world.number());
    let job = request
        .world
        .accept("minimax", id.clone(), body.clone(), json!("music"));
    let url = format!("{}/cdn/{id}/song.mp3", request.base);
    let reply = match job.plan.end {
        PlannedEnd::Success => {
            success(json!({"data": {"status": 2, "audio": url}, "trace_id": id}))
        }
        PlannedEnd::Empty => success(json!({"data": {"status": 2}, "trace_id": id})),
        PlannedEnd::Refusal => error_v1(1027, "output new_sensitive"),
        PlannedEnd::Failure | PlannedEnd::Unfit => error_v1(1000, "unknown error"),
    };
    // Songs have no job: the answer is the result, so the connection stays open while the song is
    // made. If the answer is lost, so is the song, although it is paid for.
    reply.with_delay(job.plan.queued + job.plan.running)
}

fn recording(request: &SimulatedRequest) -> SimulatedReply {
    match request.world.job(request.param("id")) {
        Some(_) => SimulatedReply::file("audio/mpeg", media::audio(2_000, 220.0)),
        None => SimulatedReply::json(404, &json!("not found")),
    }
}

fn get_v1(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error_v1(1004, "login fail: please carry the API key");
    }
    let id = request.query.get("task_id").map_or("", String::as_str);
    let Some(job) = request
        .world
        .poll_job(id)
        .filter(|job| job.provider_data == "v1")
    else {
        return error_v1(2013, "invalid params, invalid task_id");
    };
    if request.unknown_status {
        return success(json!({"task_id": id, "status": "Polishing"}));
    }
    let status = match job.phase() {
        // Version 1 has two words for waiting. Polls return both.
        JobPhase::Queued if job.polls == 1 => "Preparing",
        JobPhase::Queued => "Queueing",
        JobPhase::Running(_) => "Processing",
        JobPhase::Ended(PlannedEnd::Success) => {
            let body = json!({"task_id": id, "status": "Success", "file_id": format!("file{id}"),
                              "video_width": 1366, "video_height": 768});
            return success(body);
        }
        JobPhase::Ended(PlannedEnd::Empty) => "Success",
        JobPhase::Ended(PlannedEnd::Failure) | JobPhase::Cancelled => "Fail",
        JobPhase::Ended(end @ (PlannedEnd::Refusal | PlannedEnd::Unfit)) => {
            // A failed task may have the code of its own error in `base_resp`, which otherwise has
            // the code of the poll.
            let base_resp = match end {
                PlannedEnd::Unfit => json!({"status_code": 2013, "status_msg": "invalid params"}),
                _ => json!({"status_code": 1027, "status_msg": "output new_sensitive"}),
            };
            let body =
                json!({"task_id": id, "status": "Fail", "file_id": "", "base_resp": base_resp});
            return SimulatedReply::json(200, &body);
        }
    };
    success(json!({"task_id": id, "status": status, "file_id": ""}))
}

fn file(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error_v1(1004, "login fail: please carry the API key");
    }
    // Version 1 answers a poll with the id of a file. Its URL needs this second call.
    let file = request.query.get("file_id").map_or("", String::as_str);
    let job = file
        .strip_prefix("file")
        .and_then(|id| request.world.job(id));
    match job {
        Some(job) => success(json!({"file": {
            "file_id": file, "bytes": 0, "filename": "output.mp4", "purpose": "video_generation",
            "download_url": address(request, &job),
        }})),
        None => error_v1(2013, "invalid params, invalid file_id"),
    }
}

fn submit_v2(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error_v1(1004, "login fail: please carry the API key");
    }
    let body = &request.body;
    let content = body["content"].as_array().cloned().unwrap_or_default();
    let texts: Vec<&str> = content
        .iter()
        .filter(|part| part["type"] == "text")
        .filter_map(|part| part["text"].as_str())
        .collect();
    let pictures: Vec<&Value> = content
        .iter()
        .filter(|part| part["type"] == "image_url")
        .collect();
    // Version 2 has one list for text and pictures, of which exactly one part is text.
    let [text] = texts.as_slice() else {
        return error_v1(2013, "invalid params, exactly one text is needed");
    };
    let is_placed = |part: &&Value| {
        let role = part["role"].as_str().unwrap_or_default();
        ["first_frame", "last_frame"].contains(&role) && is_address(&part["image_url"]["url"])
    };
    let ratio = body["ratio"].as_str().unwrap_or_default();
    let has_ratio = ["21:9", "16:9", "4:3", "1:1", "3:4", "9:16"].contains(&ratio);
    let fits = body["model"]
        .as_str()
        .is_some_and(|model| model.starts_with("MiniMax-H3"))
        && content.len() == texts.len() + pictures.len()
        && pictures.iter().all(is_placed)
        && (has_ratio || !pictures.is_empty() && body["ratio"].is_null())
        && matches!(body["resolution"].as_str(), Some("768P" | "2K"))
        && body["duration"]
            .as_u64()
            .is_some_and(|seconds| (4..=15).contains(&seconds))
        && has_only(
            body,
            &["model", "content", "resolution", "ratio", "duration"],
        );
    if !fits {
        return error_v1(2013, "invalid params");
    }
    if text.contains("forbidden") {
        let body = json!({"error": {"code": "1026", "message": "input new_sensitive"}});
        return SimulatedReply::json(400, &body);
    }
    let id = format!("4240109857{:05}", request.world.number());
    request
        .world
        .accept("minimax", id.clone(), body.clone(), json!("v2"));
    success(json!({"task_id": id}))
}

fn get_v2(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error_v1(1004, "login fail: please carry the API key");
    }
    let job = request.world.poll_job(request.param("id"));
    let Some(job) = job.filter(|job| job.provider_data == "v2") else {
        // Version 2 reports an unknown task as a server error, according to users; no document says
        // so. Only the message distinguishes it from a real one.
        return error_v2(500, "server_error", "task not found");
    };
    let mut task = json!({"id": job.id, "model": job.input["model"]});
    let failure = |code: &str, message: &str| json!({"code": code, "message": message});
    let status = match job.phase() {
        JobPhase::Queued => "queued",
        JobPhase::Running(_) => "running",
        JobPhase::Ended(PlannedEnd::Success) => {
            task["content"] = json!({"url": address(request, &job)});
            "succeeded"
        }
        JobPhase::Ended(PlannedEnd::Empty) => "succeeded",
        JobPhase::Ended(PlannedEnd::Failure) => {
            task["error"] = failure("1000", "unknown error");
            "failed"
        }
        JobPhase::Ended(PlannedEnd::Unfit) => {
            task["error"] = failure("2013", "invalid params");
            "failed"
        }
        JobPhase::Ended(PlannedEnd::Refusal) => {
            task["error"] = failure("1027", "output new_sensitive");
            "failed"
        }
        JobPhase::Cancelled => "cancelled",
    };
    task["status"] = json!(if request.unknown_status {
        "polishing"
    } else {
        status
    });
    SimulatedReply::json(200, &json!({"task": task}))
}

fn delete_v2(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error_v1(1004, "login fail: please carry the API key");
    }
    let id = request.param("id");
    let Some(job) = request
        .world
        .job(id)
        .filter(|job| job.provider_data == "v2")
    else {
        return error_v2(500, "server_error", "task not found");
    };
    // Only a waiting task can be cancelled. A running one continues and is charged.
    let action = match job.phase() {
        JobPhase::Queued => {
            request.world.cancel(id);
            "cancelled"
        }
        JobPhase::Running(_) | JobPhase::Cancelled => {
            let message = "invalid params, the task cannot be deleted (2013)";
            return error_v2(400, "bad_request_error", message);
        }
        JobPhase::Ended(_) => {
            request.world.forget(id);
            "deleted"
        }
    };
    SimulatedReply::json(200, &json!({"task_id": id, "action": action}))
}

/// An error of version 2.
fn error_v2(status: u16, kind: &str, message: &str) -> SimulatedReply {
    let error = json!({"type": kind, "message": message, "http_code": status.to_string()});
    SimulatedReply::json(status, &json!({"type": "error", "error": error}))
}

fn address(request: &SimulatedRequest, job: &Job) -> String {
    let signature = request.world.number();
    format!(
        "{}/cdn/{}/output.mp4?Signature={signature}",
        request.base, job.id
    )
}

fn download(request: &SimulatedRequest) -> SimulatedReply {
    let job = request.world.job(request.param("id"));
    let is_signed = request.query.contains_key("Signature");
    let Some(job) = job.filter(|_| is_signed && !request.expired) else {
        return SimulatedReply::json(403, &json!("Request has expired"));
    };
    let seconds = job.input["duration"].as_u64().unwrap_or(6);
    SimulatedReply::file(
        "video/mp4",
        media::video(u32::try_from(seconds).unwrap_or(6)),
    )
}

fn success(mut body: Value) -> SimulatedReply {
    body["base_resp"] = json!({"status_code": 0, "status_msg": "success"});
    SimulatedReply::json(200, &body).with_header("trace-id", "0f3a")
}

/// An error, which has status 200.
fn error_v1(code: u32, message: &str) -> SimulatedReply {
    let body = json!({"task_id": "", "base_resp": {"status_code": code, "status_msg": message}});
    // MiniMax's support asks for this id, so error messages have to end with it.
    SimulatedReply::json(200, &body).with_header("trace-id", "0f3a")
}
