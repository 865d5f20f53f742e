use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject as _;

use super::*;
use crate::adapters::tests::{adapter, picture, stems, video};
use crate::order::PictureRole;
use crate::order::{Choice, SourcePicture};
use crate::port::OutputSource;
use crate::port::{CallEffect, CallTarget, RequestBody};

const ACCOUNT: &str = include_str!("../../../tests/data/service-account.json");

fn gemini() -> Arc<dyn Adapter> {
    adapter("gemini-veo", &json!({}))
}

fn vertex() -> Arc<dyn Adapter> {
    adapter("gemini-veo", &json!({"api": "vertex", "project": "p1"}))
}

fn interactions() -> Arc<dyn Adapter> {
    adapter("gemini-veo", &json!({"api": "interactions"}))
}

fn body(call: &Call) -> &Value {
    let RequestBody::Json(body) = &call.body else {
        panic!("not JSON");
    };
    body
}

fn with_frames(mut order: Order) -> Order {
    if let WorkSpec::Video(video) = &mut order.work {
        for role in [PictureRole::FirstFrame, PictureRole::LastFrame] {
            video.pictures.push(SourcePicture {
                role,
                file: picture(),
            });
        }
        video.options.negative_prompt = Some("rain".into());
    }
    order
}

fn next_step(
    adapter: &Arc<dyn Adapter>,
    status: u16,
    body: &Value,
) -> Result<AdapterStep, ProviderError> {
    let handle = JobHandle(json!({"name": "models/veo/operations/o1", "model": "veo", "id": "i1"}));
    let context = adapter.poll(&handle).unwrap().context();
    adapter.read_poll(
        &handle,
        &context,
        &ProviderResponse::from_json(status, body),
    )
}

fn source_of(step: Result<AdapterStep, ProviderError>) -> OutputSource {
    let AdapterStep::Done { mut outputs } = step.unwrap() else {
        panic!("not done");
    };
    outputs.remove(0).source
}

#[test]
fn the_two_classic_interfaces_differ_in_little() {
    let order = with_frames(video("veo-3.1-generate-preview"));
    let call = gemini().start(&order).unwrap();
    assert_eq!(
        call.target,
        CallTarget::Path("/v1beta/models/veo-3.1-generate-preview:predictLongRunning".into())
    );
    assert_eq!(call.effect, CallEffect::Submission);
    let sent = body(&call);
    assert_eq!(
        sent["parameters"],
        json!({"sampleCount": 1, "durationSeconds": 5, "aspectRatio": "16:9", "resolution": "720p", "negativePrompt": "rain"})
    );
    let instance = &sent["instances"][0];
    for member in ["image", "lastFrame"] {
        assert_eq!(
            instance[member],
            json!({"bytesBase64Encoded": "iVBORw0KGgo=", "mimeType": "image/png"})
        );
    }
    let mut order = video("veo-3.1-generate-001");
    if let WorkSpec::Video(video) = &mut order.work {
        video.options.seed = Some(Choice::Asked(7));
    }
    let vertex = adapter(
        "gemini-veo",
        &json!({"api": "vertex", "project": "p1", "audio": "off"}),
    );
    assert_eq!(
        vertex.base_url(),
        Some("https://us-central1-aiplatform.googleapis.com")
    );
    let call = vertex.start(&order).unwrap();
    let path =
        "/v1beta1/projects/p1/locations/us-central1/publishers/google/models/veo-3.1-generate-001";
    assert_eq!(
        call.target,
        CallTarget::Path(format!("{path}:predictLongRunning"))
    );
    let parameters = &body(&call)["parameters"];
    assert_eq!(
        (&parameters["generateAudio"], &parameters["seed"]),
        (&json!(false), &json!(7))
    );
    let accepted = ProviderResponse::from_json(200, &json!({"name": "projects/p1/operations/o1"}));
    let Ok(AdapterStep::Submitted { handle, .. }) =
        vertex.read_submission(&order, &call.context(), &accepted)
    else {
        panic!("not submitted");
    };
    let poll = vertex.poll(&handle).unwrap();
    assert_eq!(
        poll.target,
        CallTarget::Path(format!("{path}:fetchPredictOperation"))
    );
    assert_eq!(
        (body(&poll), poll.effect),
        (
            &json!({"operationName": "projects/p1/operations/o1"}),
            CallEffect::Free
        )
    );
}

#[test]
fn settings_are_checked() {
    let build = |options: Value| {
        let settings =
            ProviderSettings::new("test", options.as_object().cloned().unwrap_or_default());
        build(&settings).map_err(|error| error.key.unwrap_or_default())
    };
    assert_eq!(build(json!({"api": "vertex"})).unwrap_err(), "project");
    let slash = json!({"api": "vertex", "project": "a/b"});
    assert_eq!(build(slash).unwrap_err(), "project");
    let global = build(json!({"api": "vertex", "project": "p", "location": "global"})).unwrap();
    assert_eq!(global.base_url(), Some("https://aiplatform.googleapis.com"));
    assert_eq!(build(json!({"api": "rest"})).unwrap_err(), "api");
}

#[test]
fn an_operation_is_done_when_it_says_so() {
    for adapter in [gemini(), vertex()] {
        for body in [json!({"name": "o"}), json!({"name": "o", "done": false})] {
            assert!(matches!(
                next_step(&adapter, 200, &body),
                Ok(AdapterStep::Running {
                    unknown_status: None,
                    ..
                })
            ));
        }
        for (status, body, class) in [
            (
                200,
                json!({"done": true, "response": {}}),
                ErrorClass::Failed,
            ),
            (200, json!({"done": true}), ErrorClass::Failed),
            (
                200,
                json!({"done": true, "response": {"raiMediaFilteredCount": 1, "raiMediaFilteredReasons": ["faces"]}}),
                ErrorClass::Refused,
            ),
            (
                200,
                json!({"done": true, "response": {"generateVideoResponse": {"raiMediaFilteredCount": 1}}}),
                ErrorClass::Refused,
            ),
            (
                200,
                json!({"done": true, "error": {"code": 13, "message": "internal"}}),
                ErrorClass::Failed,
            ),
            (
                200,
                json!({"done": true, "error": {"code": 3, "message": "This violates Google's Responsible AI practices."}}),
                ErrorClass::Refused,
            ),
            (
                200,
                json!({"done": true, "error": {"code": 1, "message": "cancelled"}}),
                ErrorClass::Lost,
            ),
            (
                404,
                json!({"error": {"message": "no"}}),
                ErrorClass::Missing,
            ),
            (200, Value::Null, ErrorClass::Unclear),
            (500, json!({}), ErrorClass::Unclear),
        ] {
            let error = next_step(&adapter, status, &body).unwrap_err();
            assert_eq!(error.class, class, "{body}");
        }
    }
}

#[test]
fn a_video_is_a_file_or_inline() {
    let uri = "https://generativelanguage.googleapis.com/v1beta/files/abc-1:download?alt=media";
    let sample = json!({"done": true, "response": {"generateVideoResponse":
        {"generatedSamples": [{"video": {"uri": uri}}]}}});
    let OutputSource::Call(call) = source_of(next_step(&gemini(), 200, &sample)) else {
        panic!("no call");
    };
    assert_eq!(
        call.target,
        CallTarget::Path("/v1beta/files/abc-1:download".into())
    );
    assert_eq!(call.query, [("alt".to_owned(), "media".to_owned())]);
    assert!(call.with_credential);
    let video = |video: Value| json!({"done": true, "response": {"videos": [video]}});
    let inline = video(json!({"bytesBase64Encoded": "AAAA", "mimeType": "video/mp4"}));
    assert!(matches!(
        source_of(next_step(&vertex(), 200, &inline)),
        OutputSource::Bytes(bytes) if bytes == [0_u8; 3][..]
    ));
    let bucket = video(json!({"gcsUri": "gs://bucket/1.mp4"}));
    let error = next_step(&vertex(), 200, &bucket).unwrap_err();
    assert!(error.class == ErrorClass::Failed && error.message.contains("Cloud Storage"));
}

#[test]
fn answers_to_a_submission_are_classified() {
    let order = video("veo-3.1-generate-preview");
    let context = gemini().start(&order).unwrap().context();
    let error =
        |status: &str, message: &str| json!({"error": {"status": status, "message": message}});
    for (status, body, class) in [
        (200, json!({}), ErrorClass::Unclear),
        (
            400,
            json!({"error": {"status": "INVALID_ARGUMENT", "message": "API key not valid.", "details": [{"reason": "API_KEY_INVALID"}]}}),
            ErrorClass::Credentials,
        ),
        (
            400,
            error("INVALID_ARGUMENT", "durationSeconds is out of bound"),
            ErrorClass::Rejected,
        ),
        (
            400,
            error("INVALID_ARGUMENT", "violates our usage guidelines"),
            ErrorClass::Refused,
        ),
        (
            400,
            error("FAILED_PRECONDITION", "Please enable billing"),
            ErrorClass::Account,
        ),
        (
            403,
            error("PERMISSION_DENIED", "no"),
            ErrorClass::Credentials,
        ),
        (
            429,
            error("RESOURCE_EXHAUSTED", "slow down"),
            ErrorClass::RateLimited,
        ),
        (500, error("INTERNAL", "oops"), ErrorClass::Unclear),
        (
            503,
            error("UNAVAILABLE", "overloaded"),
            ErrorClass::Unavailable,
        ),
        (504, error("DEADLINE_EXCEEDED", "slow"), ErrorClass::Unclear),
    ] {
        let failure = gemini()
            .read_submission(
                &order,
                &context,
                &ProviderResponse::from_json(status, &body),
            )
            .unwrap_err();
        assert_eq!(failure.class, class, "{body}");
    }
    let slow = json!({"error": {"status": "RESOURCE_EXHAUSTED", "message": "", "details": [{"retryDelay": "32s"}]}});
    let error = gemini()
        .read_submission(&order, &context, &ProviderResponse::from_json(429, &slow))
        .unwrap_err();
    assert_eq!(error.retry_after, Some(Duration::from_secs(32)));
    let error = gemini().start(&stems("x")).unwrap_err();
    assert_eq!(error.class, ErrorClass::Rejected);
}

#[test]
fn an_interactions_status_word_decides() {
    let order = with_frames(video("gemini-omni-1.2-flash"));
    let call = interactions().start(&order).unwrap();
    let sent = body(&call);
    assert_eq!(sent["response_format"]["duration"], "5s");
    assert_eq!(
        sent["generation_config"]["video_config"]["task"],
        "image_to_video"
    );
    assert_eq!(
        sent["input"][0]["content"][1],
        json!({"type": "image", "data": "iVBORw0KGgo=", "mime_type": "image/png"})
    );
    for word in ["queued", "in_progress"] {
        let step = next_step(&interactions(), 200, &json!({"status": word}));
        assert!(matches!(
            step,
            Ok(AdapterStep::Running {
                unknown_status: None,
                ..
            })
        ));
    }
    let step = next_step(&interactions(), 200, &json!({"status": "requires_action"}));
    assert!(matches!(
        step,
        Ok(AdapterStep::Running {
            unknown_status: Some(_),
            ..
        })
    ));
    let completed = |part: Value| {
        json!({"status": "completed", "steps": [{"type": "thought", "content": []},
            {"type": "model_output", "content": [{"type": "text", "text": "here"}, part]}]})
    };
    let file = completed(json!({"type": "video", "uri": "https://g.example/v1/files/f1"}));
    assert!(matches!(
        source_of(next_step(&interactions(), 200, &file)),
        OutputSource::Call(call) if call.target == CallTarget::Path("/v1/files/f1:download".into())
    ));
    let inline = completed(json!({"type": "video", "data": "AAAA"}));
    assert!(matches!(
        source_of(next_step(&interactions(), 200, &inline)),
        OutputSource::Bytes(_)
    ));
    for (body, class) in [
        (
            json!({"status": "completed", "steps": []}),
            ErrorClass::Failed,
        ),
        (json!({"status": "failed"}), ErrorClass::Failed),
        (
            json!({"status": "failed", "errors": [{"message": "blocked by the safety filter"}]}),
            ErrorClass::Refused,
        ),
        (json!({"status": "incomplete"}), ErrorClass::Failed),
        (json!({"status": "budget_exceeded"}), ErrorClass::Failed),
        (json!({"status": "cancelled"}), ErrorClass::Lost),
        (json!({}), ErrorClass::Unclear),
    ] {
        let error = next_step(&interactions(), 200, &body).unwrap_err();
        assert_eq!(error.class, class, "{body}");
    }
}

#[test]
fn a_service_account_signs_for_an_hour() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
    let Ok(Authorization::Exchange(call)) = vertex().authorize(&Secret::new(ACCOUNT), now) else {
        panic!("no exchange");
    };
    assert!(!call.with_credential);
    assert_eq!(call.target, CallTarget::Address("/gemini-veo/token".into()));
    let RequestBody::Form(form) = &call.body else {
        panic!("no form");
    };
    assert_eq!(form[0].1, "urn:ietf:params:oauth:grant-type:jwt-bearer");
    let (signed, signature) = form[1].1.rsplit_once('.').unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).unwrap();
    let read = |part: &str| serde_json::from_slice::<Value>(&decode(part)).unwrap();
    assert_eq!(
        read(header),
        json!({"alg": "RS256", "typ": "JWT", "kid": "throw-away"})
    );
    assert_eq!(
        read(claims),
        json!({"iss": "videos@simulated.iam.gserviceaccount.example", "aud": "/gemini-veo/token",
            "scope": "https://www.googleapis.com/auth/cloud-platform", "iat": 1_800_000_000, "exp": 1_800_003_600})
    );
    let account: Value = serde_json::from_str(ACCOUNT).unwrap();
    let pem = account["private_key"].as_str().unwrap();
    let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).unwrap();
    let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).unwrap();
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key().as_ref())
        .verify(signed.as_bytes(), &decode(signature))
        .unwrap();
}

#[test]
fn tokens_are_read() {
    let context = gemini().start(&video("veo")).unwrap().context();
    let read_exchange = |status, body: &Value| {
        vertex().read_exchange(&context, &ProviderResponse::from_json(status, body))
    };
    let (headers, lifetime) =
        read_exchange(200, &json!({"access_token": "t1", "expires_in": 3599})).unwrap();
    assert_eq!(headers, [("authorization", "Bearer t1".to_owned())]);
    assert_eq!(lifetime, Duration::from_secs(3599));
    for (status, class) in [
        (200, ErrorClass::Unavailable),
        (400, ErrorClass::Credentials),
        (401, ErrorClass::Credentials),
        (429, ErrorClass::RateLimited),
        (500, ErrorClass::Unavailable),
    ] {
        let error = read_exchange(status, &json!({"error": "invalid_grant"})).unwrap_err();
        assert_eq!(error.class, class, "{status}");
    }
}

#[test]
fn a_wrong_credential_is_not_quoted() {
    let now = SystemTime::UNIX_EPOCH;
    for text in [
        "AIza-not-json",
        r#"{"client_email": "a", "private_key": "hush", "token_uri": "https://t.example"}"#,
    ] {
        let Err(error) = vertex().authorize(&Secret::new(text), now) else {
            panic!("taken");
        };
        assert_eq!(error.class, ErrorClass::Credentials);
        assert!(!error.message.contains("hush") && !error.message.contains("AIza"));
    }
}

#[test]
fn the_model_decides_on_the_api() {
    let google = adapter("gemini-veo", &json!({}));
    let path = |model: &str| google.start(&video(model)).unwrap().target;
    assert_eq!(
        path("gemini-omni-1.1-flash"),
        CallTarget::Path("/v1/interactions".into())
    );
    assert_eq!(
        path("veo-3.1-generate-001"),
        CallTarget::Path("/v1beta/models/veo-3.1-generate-001:predictLongRunning".into())
    );
    let poll = |handle: Value| google.poll(&JobHandle(handle)).unwrap().target;
    let is_path_below = |to: CallTarget, start: &str| matches!(to, CallTarget::Path(path) if path.starts_with(start));
    assert!(is_path_below(
        poll(json!({"id": "i1"})),
        "/v1/interactions/i1"
    ));
    assert!(is_path_below(
        poll(json!({"name": "models/veo/operations/o1"})),
        "/v1beta/models/veo/operations/o1"
    ));
    let Some(ModelLimits::Video(omni)) = google.limits(MediaKind::Video, "gemini-omni-1.1-flash")
    else {
        panic!("no video");
    };
    assert_eq!(omni.durations, Durations::Range { min: 3, max: 10 });
}

#[test]
fn an_exhausted_quota_is_an_account_error() {
    let google = adapter("gemini-veo", &json!({}));
    let order = video("gemini-omni-1.1-flash");
    let context = google.start(&order).unwrap().context();
    let body = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED",
        "message": "You exceeded your current quota, please check your plan and billing details."}});
    let error = google
        .read_submission(&order, &context, &ProviderResponse::from_json(429, &body))
        .unwrap_err();
    assert_eq!(error.class, ErrorClass::Account);
}
