//! `hunyuan`: Tencent Cloud's `vclm`: one URL, the action in a header, signed
//! requests, errors with status 200.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{JobPhase, PlannedEnd};

/// The only known pair of keys.
const ID: &str = "simulated-id";
const KEY: &str = "simulated-key";

pub(super) const PROVIDER: SimulatedProvider =
    SimulatedProvider {
        name: "hunyuan",
        routes: |site| {
            site.error(|status| {
            let code = match status {
                401 => "AuthFailure.SignatureFailure",
                429 => "RequestLimitExceeded",
                _ => "InternalError",
            };
            json!({"Response": {"Error": {"Code": code, "Message": "simulated"}, "RequestId": "r"}})
        })
        .route_by(
            "POST",
            "/",
            "x-tc-action",
            [
                ("SubmitHunyuanToVideoJob", RequestRole::Submit, submit),
                ("DescribeHunyuanToVideoJob", RequestRole::Poll, describe),
            ],
        )
        .route("GET", "/cos/{id}/output.mp4", RequestRole::Download, download)
        },
    };

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return Vec::new();
    };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Whether the request is signed correctly.
fn is_signed(request: &SimulatedRequest) -> bool {
    let authorization = request.header("authorization");
    let date = authorization
        .strip_prefix(&format!("TC3-HMAC-SHA256 Credential={ID}/"))
        .and_then(|rest| rest.get(..10))
        .unwrap_or_default();
    // Clients sign the path that they request, which in this simulator begins with the provider's
    // name. The hash must be that of the body as it was sent.
    let canonical = format!(
        "POST\n/hunyuan{}\n\ncontent-type:{}\nhost:{}\n\ncontent-type;host\n{}",
        request.path,
        request.header("content-type"),
        request.header("host"),
        hex(&Sha256::digest(&request.bytes)),
    );
    let scope = format!("{date}/vclm/tc3_request");
    let text = format!(
        "TC3-HMAC-SHA256\n{}\n{scope}\n{}",
        request.header("x-tc-timestamp"),
        hex(&Sha256::digest(canonical))
    );
    // TC3-HMAC-SHA256 derives a key for the day and the service, so that the secret itself signs
    // nothing. The date is the one that the caller sent, not that of this machine's clock.
    let mut key = mac(format!("TC3{KEY}").as_bytes(), date);
    for scope_part in ["vclm", "tc3_request"] {
        key = mac(&key, scope_part);
    }
    let signature = hex(&mac(&key, &text));
    authorization.ends_with(&format!(
        "SignedHeaders=content-type;host, Signature={signature}"
    ))
}

fn auth_error(request: &SimulatedRequest) -> Option<SimulatedReply> {
    if !is_signed(request) {
        return Some(error(
            "AuthFailure.SignatureFailure",
            "The signature is wrong",
        ));
    }
    let is_version_right = request.header("x-tc-version") == "2024-05-23"
        && request.header("x-tc-region").starts_with("ap-");
    (!is_version_right).then(|| error("InvalidParameter", "The version or region is missing"))
}

fn submit(request: &SimulatedRequest) -> SimulatedReply {
    if let Some(reply) = auth_error(request) {
        return reply;
    }
    let body = &request.body;
    let allowed = ["Prompt", "Image", "Resolution", "LogoAdd"];
    let is_valid = body
        .as_object()
        .is_some_and(|fields| fields.keys().all(|name| allowed.contains(&name.as_str())))
        && body["Resolution"] == "720p"
        && (body["Image"].is_null() || body["Image"]["Base64"].is_string());
    let prompt = body["Prompt"].as_str().unwrap_or_default();
    if !is_valid || prompt.is_empty() {
        return error("InvalidParameter", "A parameter is wrong");
    }
    if prompt.contains("forbidden") {
        return error(
            "FailedOperation.ModerationFailed",
            "The content is not allowed",
        );
    }
    let id = request.world.number().to_string();
    request
        .world
        .accept("hunyuan", id.clone(), body.clone(), Value::Null);
    envelope(json!({"JobId": id}))
}

fn describe(request: &SimulatedRequest) -> SimulatedReply {
    if let Some(reply) = auth_error(request) {
        return reply;
    }
    let id = request.body["JobId"].as_str().unwrap_or_default();
    let Some(job) = request.world.poll_job(id) else {
        return error("FailedOperation.JobNotExist", "There is no such job");
    };
    let failed =
        |code: &str| json!({"Status": "FAIL", "ErrorCode": code, "ErrorMessage": "It failed"});
    envelope(match job.phase() {
        _ if request.unknown_status => json!({"Status": "POLISH"}),
        JobPhase::Queued => json!({"Status": "WAIT"}),
        JobPhase::Running(_) => json!({"Status": "RUN"}),
        JobPhase::Ended(PlannedEnd::Success) => {
            let signature = request.world.number();
            let url = format!("{}/cos/{id}/output.mp4?sign={signature}", request.base);
            json!({"Status": "DONE", "ErrorCode": "", "ErrorMessage": "", "ResultVideoUrl": url})
        }
        JobPhase::Ended(PlannedEnd::Empty) => json!({"Status": "DONE", "ResultVideoUrl": ""}),
        JobPhase::Ended(PlannedEnd::Failure) | JobPhase::Cancelled => {
            failed("FailedOperation.DriverFailed")
        }
        JobPhase::Ended(PlannedEnd::Unfit) => failed("FailedOperation.ImageDecodeFailed"),
        JobPhase::Ended(PlannedEnd::Refusal) => failed("FailedOperation.ModerationFailed"),
    })
}

fn download(request: &SimulatedRequest) -> SimulatedReply {
    let is_signed = request.query.contains_key("sign");
    match request.world.job(request.param("id")) {
        // The API has no parameter for the length: its model always makes five seconds.
        Some(_) if is_signed && !request.expired => {
            SimulatedReply::file("video/mp4", media::video(5))
        }
        _ => SimulatedReply::json(403, &json!("Request has expired")),
    }
}

fn envelope(mut response: Value) -> SimulatedReply {
    response["RequestId"] = json!("00000000-0000-4000-8000-000000000000");
    SimulatedReply::json(200, &json!({"Response": response}))
}

fn error(code: &str, message: &str) -> SimulatedReply {
    envelope(json!({"Error": {"Code": code, "Message": message}}))
}
