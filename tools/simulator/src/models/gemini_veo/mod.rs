//! `gemini-veo`: Google's three interfaces to video models, the files, and the
//! endpoint where service accounts get tokens.

mod interactions;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};

use super::SimulatedProvider;
use crate::fault::RequestRole;
use crate::media;
use crate::site::{SimulatedReply, SimulatedRequest};
use crate::world::{Job, JobPhase, PlannedEnd};

pub(super) const PROVIDER: SimulatedProvider = SimulatedProvider {
    name: "gemini-veo",
    routes: |site| {
        // Google appends the verb to the model's name (`{model}:predictLongRunning`). The router
        // does not match parts of a segment, so each model needs its own routes.
        let model_routes = |site: crate::site::SimulatedSite, model: &str| {
            let vertex = format!(
                "/v1beta1/projects/{{project}}/locations/{{location}}/publishers/google/models/{model}"
            );
            let gemini = format!("/v1beta/models/{model}");
            site.route(
                "POST",
                &format!("{gemini}:predictLongRunning"),
                RequestRole::Submit,
                gemini_submit,
            )
            .route(
                "GET",
                &format!("{gemini}/operations/{{id}}"),
                RequestRole::Poll,
                gemini_poll,
            )
            .route(
                "POST",
                &format!("{vertex}:predictLongRunning"),
                RequestRole::Submit,
                vertex_submit,
            )
            .route(
                "POST",
                &format!("{vertex}:fetchPredictOperation"),
                RequestRole::Poll,
                vertex_poll,
            )
        };
        let site = site
            .error(|status| {
                json!({"error": {"code": status, "message": "simulated", "status": "SIMULATED"}})
            })
            .route("POST", "/token", RequestRole::Other, token)
            .route("GET", "/v1beta/files/{file}", RequestRole::Download, file)
            .route("GET", "/v1/files/{file}", RequestRole::Download, file)
            .route("POST", "/v1/interactions", RequestRole::Submit, interactions::create)
            .route("GET", "/v1/interactions/{id}", RequestRole::Poll, interactions::get)
            .route("POST", "/v1/interactions/{id}/cancel", RequestRole::Cancel, interactions::cancel);
        VEO.iter()
            .fold(site, |site, model| model_routes(site, model))
    },
};

const VEO: [&str; 3] = [
    "veo-2.0-generate-001",
    "veo-3.1-generate-preview",
    "veo-3.1-generate-001",
];

const TOKEN: &str = "ya29.simulated";

/// A token for an hour, in exchange for an assertion signed by a service account. The signature is
/// not checked, because there is no public key here.
fn token(request: &SimulatedRequest) -> SimulatedReply {
    let text = |name: &str| request.body[name].as_str().unwrap_or_default();
    let has_grant = text("grant_type") == "urn:ietf:params:oauth:grant-type:jwt-bearer";
    let parts: Vec<Value> = text("assertion")
        .split('.')
        .take(2)
        .filter_map(|part| URL_SAFE_NO_PAD.decode(part).ok())
        .filter_map(|bytes| serde_json::from_slice(&bytes).ok())
        .collect();
    let is_signed = text("assertion").split('.').count() == 3;
    // Google grants a service account an hour at most, so a longer assertion is refused.
    let is_valid = match &parts[..] {
        [header, claims] => {
            let claim = |name: &str| claims[name].as_u64().unwrap_or(0);
            let audience = claims["aud"].as_str().unwrap_or_default();
            header["alg"] == "RS256"
                && claims["iss"].as_str().is_some_and(|iss| iss.contains('@'))
                && claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
                && audience.ends_with("/token")
                && claim("exp") > claim("iat")
                && claim("exp") - claim("iat") <= 3600
        }
        _ => false,
    };
    // The assertion is the credential here. A client that also sends an old token has mixed up its
    // calls.
    if !(has_grant && is_signed && is_valid && request.header("authorization").is_empty()) {
        return SimulatedReply::json(
            400,
            &json!({"error": "invalid_grant", "error_description": "Invalid JWT"}),
        );
    }
    SimulatedReply::json(
        200,
        &json!({"access_token": TOKEN, "expires_in": 3599, "token_type": "Bearer"}),
    )
}

fn has_key(request: &SimulatedRequest) -> bool {
    // The Gemini API only knows keys. A token belongs to Vertex and must not be sent here.
    !request.header("x-goog-api-key").is_empty() && request.header("authorization").is_empty()
}

fn gemini_submit(request: &SimulatedRequest) -> SimulatedReply {
    if !has_key(request) {
        return error(
            403,
            "PERMISSION_DENIED",
            "Method doesn't allow unregistered callers.",
        );
    }
    let allowed = [
        "sampleCount",
        "durationSeconds",
        "aspectRatio",
        "resolution",
        "personGeneration",
        "negativePrompt",
        "enhancePrompt",
    ];
    submit(request, &allowed, "/v1beta/")
}

fn vertex_submit(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer() != Some(TOKEN) {
        return error(
            401,
            "UNAUTHENTICATED",
            "Request had invalid authentication credentials.",
        );
    }
    let allowed = [
        "sampleCount",
        "durationSeconds",
        "aspectRatio",
        "resolution",
        "personGeneration",
        "negativePrompt",
        "enhancePrompt",
        "storageUri",
        "seed",
        "generateAudio",
        "fps",
    ];
    submit(request, &allowed, "/v1beta1/")
}

fn submit(request: &SimulatedRequest, allowed: &[&str], version: &str) -> SimulatedReply {
    let path = request.path.split(':').next().unwrap_or_default();
    let is_veo2 = path.ends_with("veo-2.0-generate-001");
    if let Some(message) = order_error(&request.body, allowed, is_veo2) {
        return error(400, "INVALID_ARGUMENT", &message);
    }
    let id = format!("op{:08x}", request.world.number());
    let model = path.trim_start_matches(version);
    let provider_data = json!({"prompt": request.body["instances"][0]["prompt"],
        "seconds": request.body["parameters"]["durationSeconds"]});
    let job = request
        .world
        .accept("gemini-veo", id, request.body.clone(), provider_data);
    SimulatedReply::json(
        200,
        &json!({"name": format!("{model}/operations/{}", job.id)}),
    )
}

/// What is wrong with an order.
fn order_error(body: &Value, allowed: &[&str], is_veo2: bool) -> Option<String> {
    let empty = Map::new();
    let parameters = body["parameters"].as_object().unwrap_or(&empty);
    let unknown = parameters
        .keys()
        .find(|name| !allowed.contains(&name.as_str()));
    if let Some(name) = unknown {
        return Some(format!("Unknown name \"{name}\" at 'parameters'"));
    }
    let Some([instance]) = body["instances"].as_array().map(Vec::as_slice) else {
        return Some("instances: exactly one is supported".into());
    };
    let members = instance.as_object().unwrap_or(&empty);
    let names = ["prompt", "image", "lastFrame", "video", "referenceImages"];
    if let Some(name) = members.keys().find(|name| !names.contains(&name.as_str())) {
        return Some(format!("Unknown name \"{name}\" at 'instances[0]'"));
    }
    if instance["prompt"].as_str().is_none_or(str::is_empty) {
        return Some("instances[0].prompt must not be empty".into());
    }
    for member in ["image", "lastFrame"] {
        if let Some(picture) = instance.get(member)
            && !is_picture(&picture["bytesBase64Encoded"], &picture["mimeType"])
        {
            return Some(format!("instances[0].{member} is not an inline image"));
        }
    }
    let seconds = parameters.get("durationSeconds").and_then(Value::as_u64);
    let lengths = if is_veo2 { [5, 6, 8] } else { [4, 6, 8] };
    if seconds.is_none_or(|seconds| !lengths.contains(&seconds)) {
        return Some(format!("durationSeconds must be one of {lengths:?}"));
    }
    let one_of = |name: &str, allowed: &[&str]| {
        let value = parameters.get(name)?;
        let fits = value.as_str().is_some_and(|text| allowed.contains(&text));
        (!fits).then(|| format!("{name} must be one of {allowed:?}"))
    };
    one_of("aspectRatio", &["16:9", "9:16"])
        .or_else(|| {
            // Veo 2 has only one resolution, and naming it is an error.
            let tiers: &[&str] = if is_veo2 { &[] } else { &["720p", "1080p"] };
            one_of("resolution", tiers)
        })
        .or_else(|| {
            one_of(
                "personGeneration",
                &["allow_all", "allow_adult", "dont_allow"],
            )
        })
}

fn is_picture(data: &Value, mime: &Value) -> bool {
    let bytes = data.as_str().and_then(|data| STANDARD.decode(data).ok());
    bytes.is_some_and(|bytes| !bytes.is_empty())
        && matches!(
            mime.as_str(),
            Some("image/png" | "image/jpeg" | "image/webp")
        )
}

fn gemini_poll(request: &SimulatedRequest) -> SimulatedReply {
    if !has_key(request) {
        return error(
            403,
            "PERMISSION_DENIED",
            "Method doesn't allow unregistered callers.",
        );
    }
    let Some(job) = request.world.poll_job(request.param("id")) else {
        return error(404, "NOT_FOUND", "The requested operation was not found.");
    };
    let name = request.path.trim_start_matches("/v1beta/");
    let delivered = || {
        let uri = format!(
            "{}/v1beta/files/{}:download?alt=media",
            request.base, job.id
        );
        json!({"generateVideoResponse": {"generatedSamples": [{"video": {"uri": uri}}]}})
    };
    let filtered = json!({"generateVideoResponse": {"raiMediaFilteredCount": 1,
        "raiMediaFilteredReasons": ["The prompt is against the rules."]}});
    let empty = json!({"generateVideoResponse": {}});
    SimulatedReply::json(200, &operation(&job, name, delivered, filtered, empty))
}

fn vertex_poll(request: &SimulatedRequest) -> SimulatedReply {
    if request.bearer() != Some(TOKEN) {
        return error(
            401,
            "UNAUTHENTICATED",
            "Request had invalid authentication credentials.",
        );
    }
    let name = request.body["operationName"].as_str().unwrap_or_default();
    let path = request.path.split(':').next().unwrap_or_default();
    let model = path.trim_start_matches("/v1beta1/");
    // An operation is polled at the model that made it. Another model does not know it.
    let id = name
        .strip_prefix(model)
        .and_then(|rest| rest.strip_prefix("/operations/"));
    let Some(id) = id else {
        return error(
            400,
            "INVALID_ARGUMENT",
            "The operation is not this model's.",
        );
    };
    let Some(job) = request.world.poll_job(id) else {
        return error(404, "NOT_FOUND", "The requested operation was not found.");
    };
    // Vertex puts the film into the answer itself, unless a bucket was named.
    let delivered = || {
        let video = STANDARD.encode(media::video(seconds(&job)));
        json!({"videos": [{"bytesBase64Encoded": video, "mimeType": "video/mp4"}], "raiMediaFilteredCount": 0})
    };
    let filtered =
        json!({"raiMediaFilteredCount": 1, "raiMediaFilteredReasons": ["against the rules"]});
    SimulatedReply::json(
        200,
        &operation(&job, name, delivered, filtered, json!({"videos": []})),
    )
}

fn is_forbidden(job: &Job) -> bool {
    let prompt = job.provider_data["prompt"].as_str();
    prompt.is_some_and(|prompt| prompt.contains("forbidden"))
}

fn operation(
    job: &Job,
    name: &str,
    delivered: impl FnOnce() -> Value,
    filtered: Value,
    empty: Value,
) -> Value {
    let mut operation = json!({"name": name});
    let JobPhase::Ended(end) = job.phase() else {
        return operation;
    };
    // There is no status word. An operation without `done` has not ended.
    operation["done"] = json!(true);
    match end {
        // A filtered film is a success without a film. The reason is in the response, not in
        // `error`.
        _ if is_forbidden(job) => operation["response"] = filtered,
        PlannedEnd::Success => operation["response"] = delivered(),
        PlannedEnd::Empty => operation["response"] = empty,
        PlannedEnd::Refusal => operation["response"] = filtered,
        PlannedEnd::Unfit => {
            // Codes of google.rpc.Code: 3 is INVALID_ARGUMENT, and 13 below is INTERNAL.
            operation["error"] = json!({"code": 3, "message": "The image cannot be read."});
        }
        PlannedEnd::Failure => {
            operation["error"] = json!({"code": 13, "message": "Internal error encountered."});
        }
    }
    operation
}

/// `{id}:download?alt=media`, with the key.
fn file(request: &SimulatedRequest) -> SimulatedReply {
    // Files are not signed: they are fetched with the key, from the API's own host.
    if request.expired || !has_key(request) {
        return error(
            403,
            "PERMISSION_DENIED",
            "You do not have permission to access the file.",
        );
    }
    let id = request.param("file").strip_suffix(":download");
    let job = id.and_then(|id| request.world.job(id));
    let is_media = request.query.get("alt").map(String::as_str) == Some("media");
    match job {
        Some(job) if is_media && job.phase() == JobPhase::Ended(PlannedEnd::Success) => {
            SimulatedReply::file("video/mp4", media::video(seconds(&job)))
        }
        _ => error(404, "NOT_FOUND", "The file does not exist."),
    }
}

fn seconds(job: &Job) -> u32 {
    let requested = job.provider_data["seconds"].as_u64();
    requested
        .and_then(|seconds| u32::try_from(seconds).ok())
        .unwrap_or(8)
}

fn error(status: u16, word: &str, message: &str) -> SimulatedReply {
    SimulatedReply::json(
        status,
        &json!({"error": {"code": status, "message": message, "status": word}}),
    )
}
