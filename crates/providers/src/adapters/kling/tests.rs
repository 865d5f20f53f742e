//! Tests of the `kling` adapter.

use super::*;
use crate::adapters::tests::{adapter, ids, look_up, picture, since, stems, video};
use crate::order::SourcePicture;
use crate::port::{CallEffect, CallTarget, RequestBody};

fn kling() -> Arc<dyn Adapter> {
    adapter("kling", &json!({}))
}

fn body(call: &Call) -> &Value {
    match &call.body {
        RequestBody::Json(body) => body,
        other => panic!("not JSON: {other:?}"),
    }
}

fn with_picture(mut order: Order, role: PictureRole) -> Order {
    if let WorkSpec::Video(video) = &mut order.work {
        let file = picture();
        video.pictures.push(SourcePicture { role, file });
    }
    order
}

#[test]
fn the_token_is_a_jwt() {
    let now = UNIX_EPOCH + Duration::from_hours(500_000);
    let authorize = |credential: &str| kling().authorize(&Secret::new(credential), now);
    for credential in ["ak:sk", "ak|sk", " ak : sk "] {
        let Authorization::Headers(headers) = authorize(credential).unwrap() else {
            panic!("an exchange");
        };
        // Made by another implementation of RFC 7515.
        let expected = "Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJleHAiOjE4MDAwMDE4MDAsImlzcyI6ImFrIiwibmJmIjoxNzk5OTk5OTk1fQ.XCoYaob7CXI9OFtrogwavpV1msntT6BnNl1V5qujKh8";
        assert_eq!(headers, [("authorization", expected.to_owned())]);
    }
    for credential in ["aksk", ":sk", "ak:"] {
        let class = authorize(credential).err().map(|error| error.class);
        assert_eq!(class, Some(ErrorClass::Credentials), "{credential}");
    }
}

#[test]
fn a_picture_decides_the_operation() {
    let order = video("kling-v2-6");
    let call = kling().start(&order).unwrap();
    assert_eq!(
        call.target,
        CallTarget::Path("/v1/videos/text2video".into())
    );
    assert_eq!(call.effect, CallEffect::Submission);
    assert_eq!(
        body(&call),
        &json!({"model_name": "kling-v2-6", "prompt": "a lighthouse in a storm", "mode": "std",
                "duration": "5", "aspect_ratio": "16:9", "external_task_id": "0197-key"})
    );
    let order = with_picture(order, PictureRole::FirstFrame);
    let call = kling().start(&order).unwrap();
    assert_eq!(
        call.target,
        CallTarget::Path("/v1/videos/image2video".into())
    );
    assert_eq!(body(&call)["image"], "iVBORw0KGgo=");
    assert_eq!(body(&call).get("aspect_ratio"), None);
    assert_eq!(body(&call)["mode"], "std");
    let answer = ProviderResponse::from_json(200, &json!({"code": 0, "data": {"task_id": "7"}}));
    let Ok(AdapterStep::Submitted { handle, .. }) =
        kling().read_submission(&order, &call.context(), &answer)
    else {
        panic!("not submitted");
    };
    let poll = kling().poll(&handle).unwrap();
    assert_eq!(
        poll.target,
        CallTarget::Path("/v1/videos/image2video/7".into())
    );
    let order = with_picture(order, PictureRole::LastFrame);
    let call = kling().start(&order).unwrap();
    assert_eq!(body(&call)["image_tail"], "iVBORw0KGgo=");
    assert_eq!(body(&call)["mode"], "pro");
    let call = kling().start(&video("kling-v2-master")).unwrap();
    assert_eq!(body(&call).get("mode"), None);
}

#[test]
fn the_code_counts_more_than_the_status() {
    let order = video("kling-v2-6");
    let context = kling().start(&order).unwrap().context();
    let class = |status, body: Value| {
        let answer = ProviderResponse::from_json(status, &body);
        kling()
            .read_submission(&order, &context, &answer)
            .unwrap_err()
            .class
    };
    for (status, code, expected) in [
        (401, 1002, ErrorClass::Credentials),
        (429, 1101, ErrorClass::Account),
        (400, 1201, ErrorClass::Rejected),
        (200, 1201, ErrorClass::Rejected),
        (400, 1300, ErrorClass::Rejected),
        (400, 1301, ErrorClass::Refused),
        (429, 1302, ErrorClass::RateLimited),
        (429, 1303, ErrorClass::RateLimited),
        (429, 1304, ErrorClass::Credentials),
        (500, 5000, ErrorClass::Unclear),
        (503, 5001, ErrorClass::Unclear),
        (200, 5002, ErrorClass::Unclear),
        (400, 9999, ErrorClass::Rejected),
        (502, 9999, ErrorClass::Unclear),
    ] {
        let body = json!({"code": code, "message": "no", "request_id": "r"});
        assert_eq!(class(status, body), expected, "{status} {code}");
    }
    assert_eq!(
        class(200, json!({"code": 0, "data": {}})),
        ErrorClass::Unclear
    );
    assert_eq!(class(200, json!({})), ErrorClass::Unclear);
    assert_eq!(class(500, json!({"code": 0})), ErrorClass::Unclear);
    assert_eq!(class(429, json!({})), ErrorClass::RateLimited);
}

#[test]
fn every_status_word() {
    let handle = JobHandle(json!({"id": "7", "operation": "text2video"}));
    let context = kling().poll(&handle).unwrap().context();
    let polled = |status, body: Value| {
        kling().read_poll(
            &handle,
            &context,
            &ProviderResponse::from_json(status, &body),
        )
    };
    let poll = |data: Value| polled(200, json!({"code": 0, "message": "SUCCEED", "data": data}));
    for word in ["submitted", "processing"] {
        let step = poll(json!({"task_status": word})).unwrap();
        assert!(matches!(
            step,
            AdapterStep::Running {
                unknown_status: None,
                ..
            }
        ));
    }
    let step = poll(json!({"task_status": "succeeded"})).unwrap();
    assert!(matches!(
        step,
        AdapterStep::Running {
            unknown_status: Some(_),
            ..
        }
    ));
    let videos = json!([{"id": "v", "url": "https://x.example/v.mp4", "duration": "5"}]);
    let done = json!({"task_status": "succeed", "task_result": {"videos": videos}});
    assert!(matches!(poll(done), Ok(AdapterStep::Done { outputs }) if outputs.len() == 1));
    let class = |data| poll(data).unwrap_err().class;
    let empty = json!({"task_status": "succeed", "task_result": {"videos": []}});
    assert_eq!(class(empty), ErrorClass::Failed);
    let failed = |message: &str| json!({"task_status": "failed", "task_status_msg": message});
    assert_eq!(class(failed("Image pixel is invalid")), ErrorClass::Unfit);
    let risk = "Failure to pass the risk control system";
    assert_eq!(class(failed(risk)), ErrorClass::Refused);
    let gone = polled(404, json!({"code": 1203, "message": "no such task"}));
    assert_eq!(gone.unwrap_err().class, ErrorClass::Missing);
    let fast = polled(429, json!({"code": 1302, "message": "slow down"}));
    assert_eq!(fast.unwrap_err().class, ErrorClass::RateLimited);
    let unknown = polled(200, json!({"code": 9999, "message": "no"}));
    assert_eq!(unknown.unwrap_err().class, ErrorClass::Unclear);
}

#[test]
fn unsupported_models_and_kinds_are_rejected() {
    for model in ["kling-v3-omni", "kling-v4", "kling-v4-flash"] {
        assert!(kling().limits(MediaKind::Video, model).is_none(), "{model}");
        let fault = kling().fault_of_model(MediaKind::Video, model).unwrap();
        assert!(fault.contains("calls of its own"), "{fault}");
    }
    assert_eq!(kling().fault_of_model(MediaKind::Video, "kling-v3"), None);
    assert_eq!(
        kling().start(&stems("x")).unwrap_err().class,
        ErrorClass::Rejected
    );
    assert!(!kling().deduplicates());
}

#[test]
fn a_lost_task_is_found_by_the_name_that_it_was_given() {
    let order = video("kling-v2-6");
    let call = kling().find(&order, since()).unwrap();
    assert_eq!(
        call.target,
        CallTarget::Path("/v1/videos/text2video/0197-key".into())
    );
    let read_lookup = |status, body: Value| look_up(kling().as_ref(), &order, status, &body);
    let task = |info: Value| {
        let data = json!({"task_id": "8", "task_info": info, "created_at": 1_700_000_000_123_u64});
        json!({"code": 0, "data": data})
    };
    let named = read_lookup(200, task(json!({"external_task_id": "0197-key"}))).unwrap();
    assert_eq!(ids(&named), ["8"]);
    assert_eq!(named.jobs[0].handle.text("operation"), "text2video");
    assert_eq!(named.jobs[0].identity, crate::MatchCertainty::Certain);
    assert_eq!(ids(&read_lookup(200, task(json!({}))).unwrap()), ["8"]);
    let other = read_lookup(200, task(json!({"external_task_id": "another"})));
    assert_eq!(other.unwrap_err().class, ErrorClass::Unclear);
    for (status, code) in [(404, 1203), (200, 1203), (404, 0)] {
        let gone = read_lookup(status, json!({"code": code})).unwrap();
        assert_eq!(gone.jobs, []);
    }
    assert!(read_lookup(400, json!({"code": 1201})).is_err());
    let mut odd = video("kling-v2-6");
    odd.idempotency_key = "a/b".into();
    assert!(kling().find(&odd, since()).is_none());
}
