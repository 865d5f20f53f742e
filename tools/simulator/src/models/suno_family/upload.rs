//! Uploads of recordings: in one form, or through a bucket.

use serde_json::json;

use super::{denied, error};
use crate::site::{SimulatedReply, SimulatedRequest};

pub(super) fn upload(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "invalid_token", "The token is not valid");
    }
    let id = request.world.uuid();
    // With the file in the form the clip is ready at once, as with Mediagate. With only an
    // extension, this is the first call of an upload through the bucket.
    if request.body["file"]["bytes"]
        .as_u64()
        .is_some_and(|bytes| bytes > 0)
    {
        request
            .world
            .keep_file(format!("clip {id}"), request.body.clone());
        let title = request.body["title"].as_str().unwrap_or("upload");
        let clip = json!({"id": id, "entity_type": "song_schema", "status": "complete", "title": title,
            "audio_url": format!("{}/cdn/{id}.mp3", request.base), "metadata": {"type": "upload"}});
        return SimulatedReply::json(200, &clip);
    }
    if request.body["extension"]
        .as_str()
        .unwrap_or_default()
        .is_empty()
    {
        return error(400, "invalid_request", "extension is required");
    }
    request.world.keep_file(&id, json!({"state": "granted"}));
    let fields =
        json!({"key": format!("raw/{id}"), "policy": "cG9saWN5", "AWSAccessKeyId": "simulated"});
    let url = format!("{}/bucket/{id}", request.base);
    SimulatedReply::json(
        200,
        &json!({"id": id, "url": url, "fields": fields, "is_file_uploaded": false}),
    )
}

/// Whether an upload is in this state.
fn upload_has_state(request: &SimulatedRequest, state: &str) -> bool {
    let upload = request.world.file(request.param("id"));
    // Each call is allowed only in the state in which the previous call leaves the upload. A call
    // that is missing or out of order fails.
    upload.is_some_and(|upload| upload["state"] == state)
}

fn set_upload_state(request: &SimulatedRequest, state: &str) {
    request
        .world
        .keep_file(request.param("id"), json!({"state": state}));
}

/// The bucket does not know the service's credentials.
pub(super) fn bucket(request: &SimulatedRequest) -> SimulatedReply {
    let body = &request.body;
    let fields = ["key", "policy", "AWSAccessKeyId"];
    let is_refused = !request.header("authorization").is_empty()
        || !upload_has_state(request, "granted")
        || fields.iter().any(|field| !body[*field].is_string())
        || body["file"]["bytes"].as_u64().unwrap_or(0) == 0;
    if is_refused {
        return denied();
    }
    set_upload_state(request, "stored");
    SimulatedReply::empty(204)
}

pub(super) fn finish(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "invalid_token", "The token is not valid");
    }
    let has_name = request.body["upload_filename"].is_string();
    if request.body["upload_type"] != "file_upload"
        || !has_name
        || !upload_has_state(request, "stored")
    {
        return error(400, "invalid_request", "nothing was uploaded");
    }
    set_upload_state(request, "finished");
    SimulatedReply::json(200, &json!({}))
}

/// The upload is not ready at the first poll.
pub(super) fn upload_status(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "invalid_token", "The token is not valid");
    }
    let status = if upload_has_state(request, "finished") {
        // The service needs time after an upload, so the first poll must not find it ready.
        set_upload_state(request, "complete");
        "processing"
    } else if upload_has_state(request, "complete") {
        "complete"
    } else {
        return error(404, "upload_not_found", "There is no such upload");
    };
    SimulatedReply::json(
        200,
        &json!({"id": request.param("id"), "status": status, "error_message": null}),
    )
}

pub(super) fn initialize(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer().is_none() {
        return error(401, "invalid_token", "The token is not valid");
    }
    if !upload_has_state(request, "complete") {
        return error(400, "invalid_request", "the upload is not complete");
    }
    let clip = request.world.uuid();
    request.world.keep_file(format!("clip {clip}"), json!({}));
    SimulatedReply::json(200, &json!({"clip_id": clip}))
}
