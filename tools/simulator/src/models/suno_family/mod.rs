//! `suno-family`: an aggregator with the music API.
//!
//! What differs between services is chosen by the model's name, so that one simulated provider
//! covers them all: `mv` with `bare` in it is answered with the bare record, `record` with the task
//! record in the envelope, anything else with the id in the envelope. Uploads are accepted in five
//! steps or in one form. A prompt with `half a song` makes only one of its clips.

mod upload;

use serde_json::{Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

const NAME: &str = "suno-family";

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: NAME,
    routes: |site| {
        site.error(|status| json!({"code": format!("simulated_{status}"), "message": "simulated", "data": null}))
            .route("POST", "/submit/music", RequestRole::Submit, submit)
            .route("GET", "/fetch/{id}", RequestRole::Poll, fetch)
            .route("POST", "/fetch", RequestRole::Poll, fetch_many)
            .route("POST", "/persona/create", RequestRole::Submit, persona)
            .route("POST", "/uploads/audio", RequestRole::Upload, upload::upload)
            .route("POST", "/bucket/{id}", RequestRole::Upload, upload::bucket)
            .route("POST", "/uploads/audio/{id}/upload-finish", RequestRole::Upload, upload::finish)
            .route("GET", "/uploads/audio/{id}", RequestRole::Upload, upload::upload_status)
            .route("POST", "/uploads/audio/{id}/initialize-clip", RequestRole::Upload, upload::initialize)
            .route("GET", "/cdn/{clip}", RequestRole::Download, download)
    },
};

const GROUPS: [&str; 12] = [
    "Vocals",
    "Backing_Vocals",
    "Drums",
    "Bass",
    "Guitar",
    "Keyboard",
    "Strings",
    "Brass",
    "Woodwinds",
    "Percussion",
    "Synth",
    "FX",
];

fn submit(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "invalid_token", "The token is not valid");
    }
    let body = &request.body;
    let key = format!("key {}", request.header("idempotency-key"));
    // Without the header the key is "key " alone, four characters. A service that supports keys
    // answers a repeated one with the first job, before it checks the rest.
    if let Some(id) = request.world.file(&key).filter(|_| key.len() > 4)
        && let Some(job) = request.world.job(id.as_str().unwrap_or_default())
    {
        return submitted_reply(request, &job);
    }
    if body["mv"].as_str().unwrap_or_default().is_empty() {
        return error(400, "invalid_request", "mv is required");
    }
    for field in ["prompt", "gpt_description_prompt", "tags", "title"] {
        if body[field]
            .as_str()
            .is_some_and(|text| text.contains("forbidden"))
        {
            return error(
                400,
                "sensitive_words_detected",
                "The text has words that are not allowed",
            );
        }
    }
    let clips: Vec<String> = match body
        .get("task")
        .map(|task| task.as_str().unwrap_or_default())
    {
        // An order of a song makes two variants. Joining clips (`concat`) makes one.
        None => vec![String::new(); 2],
        Some("gen_stem") => match stems(request) {
            Ok(groups) => groups,
            Err(reason) => return error(400, "invalid_request", &reason),
        },
        Some("extend" | "upload_extend" | "infill")
            if !is_known_clip(request, "continue_clip_id") =>
        {
            return error(400, "invalid_request", "continue_clip_id names no clip");
        }
        Some("cover") if !is_known_clip(request, "cover_clip_id") => {
            return error(400, "invalid_request", "cover_clip_id names no clip");
        }
        Some("extend" | "upload_extend" | "infill" | "cover" | "artist_consistency") => {
            vec![String::new(); 2]
        }
        Some("concat") => vec![String::new()],
        Some(_) => return error(400, "invalid_request", "task is not known"),
    };
    let id = request.world.uuid();
    let job = request
        .world
        .accept(NAME, id, body.clone(), json!({"clips": clips}));
    if key.len() > 4 {
        request.world.keep_file(key, json!(job.id));
    }
    submitted_reply(request, &job)
}

fn stems(request: &SimulatedRequest) -> Result<Vec<String>, String> {
    let body = &request.body;
    if !is_known_clip(request, "continue_clip_id") {
        return Err("continue_clip_id names no clip".into());
    }
    if body["stem_type_id"].as_f64() != Some(91.0) {
        return Err("stem_type_id must be 91".into());
    }
    let group = body["stem_type_group_name"].as_str().unwrap_or_default();
    match (body["stem_task"].as_str(), group) {
        (Some("two"), "Two" | "Vocals") => Ok(vec!["Vocals".into(), "Instrumental".into()]),
        (Some("two"), group) if GROUPS.contains(&group) => {
            Ok(vec![group.into(), format!("No {group}")])
        }
        (Some("twelve"), "Twelve") => Ok(GROUPS.map(str::to_owned).to_vec()),
        _ => Err("stem_task and stem_type_group_name do not fit".into()),
    }
}

/// Whether a field refers to an uploaded clip or to one that was made here.
fn is_known_clip(request: &SimulatedRequest, field: &str) -> bool {
    let id = request.body[field].as_str().unwrap_or_default();
    // Clips are named after their job, so the job alone proves that the clip was made here.
    let job_of_clip = id
        .rsplit_once('_')
        .and_then(|(job, _)| request.world.job(job));
    request.world.file(&format!("clip {id}")).is_some() || job_of_clip.is_some()
}

fn mv(job: &Job) -> &str {
    job.input["mv"].as_str().unwrap_or_default()
}

fn submitted_reply(request: &SimulatedRequest, job: &Job) -> SimulatedReply {
    let data = match mv(job) {
        mv if mv.contains("bare") => return SimulatedReply::json(200, &bare(request, job)),
        mv if mv.contains("record") => task(request, job),
        _ => json!(job.id),
    };
    SimulatedReply::json(
        200,
        &json!({"code": "success", "message": "", "data": data}),
    )
}

fn fetch(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "invalid_token", "The token is not valid");
    }
    let Some(job) = request.world.poll_job(request.param("id")) else {
        return error(400, "task_not_exist", "task_not_exist");
    };
    if mv(&job).contains("bare") {
        return SimulatedReply::json(200, &bare(request, &job));
    }
    let data = task(request, &job);
    SimulatedReply::json(
        200,
        &json!({"code": "success", "message": "", "data": data}),
    )
}

/// Newest first, whatever the order of the ids; unknown ids are left out.
fn fetch_many(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "invalid_token", "The token is not valid");
    }
    let Some(ids) = request.body["ids"].as_array() else {
        return error(400, "invalid_request", "ids is required");
    };
    let mut jobs: Vec<Job> = ids
        .iter()
        .filter_map(|id| request.world.poll_job(id.as_str()?))
        .collect();
    jobs.sort_by(|a, b| b.id.cmp(&a.id));
    let data: Vec<Value> = jobs.iter().map(|job| task(request, job)).collect();
    SimulatedReply::json(
        200,
        &json!({"code": "success", "message": "", "data": data}),
    )
}

/// The family's job record.
fn task(request: &SimulatedRequest, job: &Job) -> Value {
    let (status, progress) = match job.phase() {
        JobPhase::Queued => ("QUEUED", 0.0),
        JobPhase::Running(share) => ("IN_PROGRESS", share * 100.0),
        JobPhase::Ended(PlannedEnd::Success | PlannedEnd::Empty) => ("SUCCESS", 100.0),
        JobPhase::Ended(_) | JobPhase::Cancelled => ("FAILURE", 100.0),
    };
    let status = if request.unknown_status {
        "DREAMING"
    } else {
        status
    };
    let has_failed = status == "FAILURE";
    let submit_time = request.unix_seconds(job.accepted_at);
    json!({
        "task_id": job.id, "notify_hook": "", "action": "MUSIC", "status": status,
        "fail_reason": if has_failed { "the task failed" } else { "" },
        "submit_time": submit_time, "start_time": submit_time, "finish_time": 0,
        "progress": format!("{progress:.0}%"), "data": clips(request, job),
    })
}

/// The record without an envelope.
fn bare(request: &SimulatedRequest, job: &Job) -> Value {
    let status = match job.phase() {
        JobPhase::Queued => "submitted",
        JobPhase::Running(_) => "streaming",
        JobPhase::Ended(PlannedEnd::Success | PlannedEnd::Empty) => "complete",
        JobPhase::Ended(_) | JobPhase::Cancelled => "error",
    };
    let status = if request.unknown_status {
        "dreaming"
    } else {
        status
    };
    let clips = clips(request, job);
    json!({
        "id": job.id, "clips": clips, "metadata": {"prompt": job.input["prompt"]},
        "major_model_version": "v4", "status": status, "created_at": "2026-01-02T03:04:05.678Z",
        "batch_size": clips.len(),
    })
}

fn clips(request: &SimulatedRequest, job: &Job) -> Vec<Value> {
    let (status, fault) = match job.phase() {
        JobPhase::Queued => ("submitted", None),
        JobPhase::Running(_) => ("streaming", None),
        JobPhase::Ended(PlannedEnd::Success) => ("complete", None),
        JobPhase::Ended(PlannedEnd::Empty) => return Vec::new(),
        JobPhase::Ended(PlannedEnd::Refusal) => ("error", Some("moderation_failure")),
        JobPhase::Ended(PlannedEnd::Unfit) => ("error", Some("invalid_request")),
        JobPhase::Ended(PlannedEnd::Failure) | JobPhase::Cancelled => {
            ("error", Some("generation_failed"))
        }
    };
    let groups = job.provider_data["clips"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    // Of such a song only the first clip is made.
    let prompt = job.input["prompt"].as_str().unwrap_or_default();
    let is_half = prompt.contains("half a song");
    let clip = |(number, group): (usize, Value)| {
        let id = format!("{}_{number}", job.id);
        let is_missing = number > 0 && is_half;
        let (status, fault) = match status {
            "complete" if is_missing => ("error", Some("generation_failed")),
            _ => (status, fault),
        };
        let group = group.as_str().unwrap_or_default();
        let title = job.input["title"].as_str().unwrap_or_default();
        let title = if group.is_empty() {
            title.to_owned()
        } else {
            format!("{title} ({})", group.replace('_', " "))
        };
        let mut metadata = json!({
            "tags": job.input["tags"].as_str().unwrap_or_default(), "prompt": job.input["prompt"].as_str().unwrap_or_default(),
            "type": "gen", "task": job.input["task"].as_str().unwrap_or_default(), "stream": true,
        });
        if !group.is_empty() {
            metadata["stem_from_id"] = job.input["continue_clip_id"].clone();
            metadata["stem_task"] = job.input["stem_task"].clone();
            metadata["stem_type_id"] = json!(91.0);
            metadata["stem_type_group_name"] = json!(group);
        }
        if let Some(kind) = fault {
            metadata["error_type"] = json!(kind);
            metadata["error_message"] = json!("The clip could not be made.");
        }
        // A clip has a URL as soon as it streams, so a URL does not mean that it is complete. Each
        // answer has a newly signed one.
        let url = match status {
            // The title asks for an address that nobody may fetch, for the second clip.
            "complete" if number == 1 && title.contains("astray") => {
                "file:///clips/1.mp3".to_owned()
            }
            "streaming" | "complete" => {
                format!(
                    "{}/cdn/{id}.mp3?sig={}",
                    request.base,
                    request.world.number()
                )
            }
            _ => String::new(),
        };
        json!({
            "id": id, "entity_type": "song_schema", "video_url": "", "audio_url": url, "image_url": "",
            "major_model_version": "", "model_name": if group.is_empty() { mv(job) } else { "chirp-stem" },
            "metadata": metadata, "status": status, "title": title,
        })
    };
    groups.into_iter().enumerate().map(clip).collect()
}

fn persona(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "invalid_token", "The token is not valid");
    }
    let body = &request.body;
    for field in ["root_clip_id", "name", "description"] {
        if !body[field].is_string() {
            return error(400, "invalid_request", &format!("{field} is required"));
        }
    }
    let clips = body["clips"].as_array().map_or(0, Vec::len);
    if clips == 0 || !body["is_public"].is_boolean() {
        return error(400, "invalid_request", "clips and is_public are required");
    }
    if body["name"]
        .as_str()
        .is_some_and(|name| name.contains("forbidden"))
    {
        return error(400, "sensitive_words_detected", "The name is not allowed");
    }
    let id = request.world.uuid();
    let job = request.world.accept(NAME, id, body.clone(), Value::Null);
    // A persona is made at once. There is no task to poll, so the answer is the result.
    match job.plan.end {
        PlannedEnd::Success => {}
        PlannedEnd::Empty => return SimulatedReply::json(200, &json!({})),
        PlannedEnd::Failure | PlannedEnd::Unfit | PlannedEnd::Refusal => {
            return error(500, "persona_failed", "The persona failed");
        }
    }
    let record = json!({
        "id": job.id, "name": body["name"], "description": body["description"],
        "image_s3_id": "", "root_clip_id": body["root_clip_id"], "clip": {}, "persona_clips": [],
        "user_display_name": "Simulated", "user_handle": "simulated", "is_suno_persona": false,
        "is_trashed": false, "is_owned": true, "is_public": body["is_public"],
        "is_public_approved": false, "is_loved": false, "upvote_count": 0, "clip_count": clips,
    });
    // Some services wrap the record in an envelope and some do not. The description chooses here,
    // so that tests see both.
    let has_envelope = body["description"]
        .as_str()
        .is_some_and(|text| text.contains("envelope"));
    SimulatedReply::json(
        200,
        &if has_envelope {
            json!({"code": "success", "message": "", "data": record})
        } else {
            record
        },
    )
}

fn download(request: &SimulatedRequest) -> SimulatedReply {
    // Clips are in a bucket, which must not receive the service's key.
    if request.expired || !request.header("authorization").is_empty() {
        return denied();
    }
    let clip = request.param("clip").trim_end_matches(".mp3");
    let number = clip
        .rsplit_once('_')
        .and_then(|(_, number)| number.parse().ok());
    if is_torn(request, clip) {
        return SimulatedReply::file("text/html", "<html>There is no such clip</html>");
    }
    let hertz = 220.0 + 55.0 * number.unwrap_or(0.0);
    SimulatedReply::file("audio/wav", media::audio(2_000, hertz))
}

/// Whether a clip's file is a page: the second clip's of a job whose title asks for this.
fn is_torn(request: &SimulatedRequest, clip: &str) -> bool {
    let job = clip
        .strip_suffix("_1")
        .and_then(|job| request.world.job(job));
    job.is_some_and(|job| {
        let title = job.input["title"].as_str();
        title.is_some_and(|title| title.contains("torn"))
    })
}

/// A bucket's answer for an expired URL.
fn denied() -> SimulatedReply {
    SimulatedReply::json(403, &json!("AccessDenied: Request has expired"))
        .with_header("content-type", "text/plain")
}

fn error(status: u16, code: &str, message: &str) -> SimulatedReply {
    SimulatedReply::json(
        status,
        &json!({"code": code, "message": message, "data": null}),
    )
}
