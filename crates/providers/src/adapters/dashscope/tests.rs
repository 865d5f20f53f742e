//! Tests of the `dashscope` adapter.

use super::*;
use crate::adapters::tests::{adapter, picture, stems, video};
use crate::order::SourcePicture;
use crate::order::{Choice, WorkSpec};
use crate::port::{AdapterStep, JobHandle};
use crate::port::{CallEffect, CallTarget, RequestBody};

fn dashscope() -> Arc<dyn Adapter> {
    adapter("dashscope", &json!({}))
}

fn with_frames(model: &str, roles: &[PictureRole]) -> Order {
    let mut order = video(model);
    if let WorkSpec::Video(video) = &mut order.work {
        for role in roles {
            let (role, file) = (*role, picture());
            video.pictures.push(SourcePicture { role, file });
        }
    }
    order
}

fn request_of(order: &Order) -> (String, Value) {
    let call = dashscope().start(order).unwrap();
    assert_eq!(call.effect, CallEffect::Submission);
    let header = ("X-DashScope-Async".to_owned(), "enable".to_owned());
    assert_eq!(call.headers, [header]);
    match (call.target, call.body) {
        (CallTarget::Path(path), RequestBody::Json(body)) => (path, body),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_model_decides_the_form() {
    use PictureRole::{FirstFrame, LastFrame};
    let new = "/services/aigc/video-generation/video-synthesis";
    let data = picture().data_url();
    let prompt = "a lighthouse in a storm";
    let mut order = with_frames("wan2.6-t2v", &[]);
    if let WorkSpec::Video(video) = &mut order.work {
        video.options.seed = Some(Choice::Asked((1 << 31) + 3));
        video.options.negative_prompt = Some("rain".into());
    }
    let (path, body) = request_of(&order);
    assert_eq!(path, new);
    assert_eq!(
        body,
        json!({"model": "wan2.6-t2v", "input": {"prompt": prompt, "negative_prompt": "rain"},
               "parameters": {"size": "1280*720", "duration": 5, "seed": 3}})
    );
    let (path, body) = request_of(&with_frames("wan2.6-i2v", &[FirstFrame]));
    assert_eq!(path, new);
    assert_eq!(body["input"], json!({"prompt": prompt, "img_url": data}));
    assert_eq!(
        body["parameters"],
        json!({"resolution": "720P", "duration": 5})
    );
    let (path, body) = request_of(&with_frames("wan2.2-kf2v-flash", &[FirstFrame, LastFrame]));
    assert_eq!(path, "/services/aigc/image2video/video-synthesis");
    assert_eq!(
        body["input"],
        json!({"prompt": prompt, "first_frame_url": data, "last_frame_url": data})
    );
    let (path, body) = request_of(&with_frames("wan2.7-i2v", &[FirstFrame, LastFrame]));
    assert_eq!(path, new);
    let media = json!([{"type": "first_frame", "url": data}, {"type": "last_frame", "url": data}]);
    assert_eq!(body["input"], json!({"prompt": prompt, "media": media}));
    let (_, body) = request_of(&with_frames("wan2.7-t2v", &[]));
    assert_eq!(
        body["parameters"],
        json!({"resolution": "720P", "ratio": "16:9", "duration": 5})
    );
    let (path, body) = request_of(&with_frames("happyhorse-1.0-i2v", &[FirstFrame]));
    assert_eq!(path, new);
    let media = json!([{"type": "first_frame", "url": data}]);
    assert_eq!(body["input"], json!({"prompt": prompt, "media": media}));
    assert_eq!(
        body["parameters"],
        json!({"resolution": "720P", "duration": 5, "watermark": false})
    );
    let (_, body) = request_of(&with_frames("happyhorse-1.1-t2v", &[]));
    assert_eq!(
        body["parameters"],
        json!({"resolution": "720P", "ratio": "16:9", "duration": 5, "watermark": false})
    );
    let one = with_frames("wan2.2-kf2v-flash", &[FirstFrame]);
    assert_eq!(
        dashscope().start(&one).unwrap_err().class,
        ErrorClass::Rejected
    );
    let music = dashscope().start(&stems("x")).unwrap_err();
    assert_eq!(music.class, ErrorClass::Rejected);
}

#[test]
fn names_have_versions() {
    for (model, expected) in [
        ("wan2.6-t2v", Some(26)),
        ("wanx2.1-i2v-plus", Some(21)),
        ("wan3-video", Some(30)),
        ("wan3.0-video", Some(30)),
        ("happyhorse-1.0", None),
    ] {
        assert_eq!(version(model), expected, "{model}");
    }
    for (tier, sizes) in [
        ("480P", [(832, 480), (480, 832), (624, 624)]),
        ("720P", [(1280, 720), (720, 1280), (960, 960)]),
        ("1080P", [(1920, 1080), (1080, 1920), (1440, 1440)]),
    ] {
        assert!(sizes.into_iter().all(|size| resolution(size) == tier));
    }
}

#[test]
fn answers_to_a_submission_are_classified() {
    let order = video("wan2.6-t2v");
    let context = dashscope().start(&order).unwrap().context();
    let answered = |status, body: &Value| {
        let answer = ProviderResponse::from_json(status, body);
        dashscope().read_submission(&order, &context, &answer)
    };
    let accepted = json!({"request_id": "r", "output": {"task_id": "t", "task_status": "PENDING"}});
    assert!(matches!(
        answered(200, &accepted),
        Ok(AdapterStep::Submitted { .. })
    ));
    for (status, code, class) in [
        (400, "InvalidParameter", ErrorClass::Rejected),
        (400, "DataInspectionFailed", ErrorClass::Refused),
        (400, "Arrearage", ErrorClass::Account),
        (401, "InvalidApiKey", ErrorClass::Credentials),
        (403, "AccessDenied", ErrorClass::Credentials),
        (403, "AllocationQuota.FreeTierOnly", ErrorClass::Account),
        (429, "Throttling.RateQuota", ErrorClass::RateLimited),
        (400, "Throttling", ErrorClass::RateLimited),
        (500, "InternalError", ErrorClass::Unclear),
        (500, "DataInspectionFailed", ErrorClass::Unclear),
        (503, "ModelUnavailable", ErrorClass::Unavailable),
        (200, "InvalidParameter", ErrorClass::Rejected),
        (200, "Throttling", ErrorClass::RateLimited),
    ] {
        let body = json!({"code": code, "message": "no", "request_id": "r"});
        let error = answered(status, &body).unwrap_err();
        assert_eq!(error.class, class, "{status} {code}");
    }
    assert_eq!(
        answered(200, &json!({})).unwrap_err().class,
        ErrorClass::Unclear
    );
}

#[test]
fn every_status_word() {
    let handle = JobHandle(json!({"id": "t"}));
    let context = dashscope().poll(&handle).unwrap().context();
    let poll = |output: Value| {
        let body = json!({"request_id": "r", "output": output});
        dashscope().read_poll(&handle, &context, &ProviderResponse::from_json(200, &body))
    };
    for word in ["PENDING", "RUNNING", "SUSPENDED"] {
        let step = poll(json!({"task_status": word})).unwrap();
        assert!(matches!(
            step,
            AdapterStep::Running {
                unknown_status: None,
                ..
            }
        ));
    }
    let step = poll(json!({"task_status": "PONDERING"})).unwrap();
    assert!(matches!(
        step,
        AdapterStep::Running {
            unknown_status: Some(_),
            ..
        }
    ));
    let done = json!({"task_status": "SUCCEEDED", "video_url": "https://x.example/v"});
    assert!(matches!(poll(done), Ok(AdapterStep::Done { outputs }) if outputs.len() == 1));
    let class = |output| poll(output).unwrap_err().class;
    assert_eq!(
        class(json!({"task_status": "SUCCEEDED"})),
        ErrorClass::Failed
    );
    assert_eq!(class(json!({"task_status": "CANCELED"})), ErrorClass::Lost);
    assert_eq!(
        class(json!({"task_status": "UNKNOWN"})),
        ErrorClass::Missing
    );
    let failed = |code: &str| json!({"task_status": "FAILED", "code": code, "message": "no"});
    assert_eq!(class(failed("InternalError.Timeout")), ErrorClass::Failed);
    assert_eq!(class(failed("DataInspectionFailed")), ErrorClass::Refused);
    let odd = ProviderResponse::from_json(200, &json!({"code": "Odd", "message": "no"}));
    let error = dashscope().read_poll(&handle, &context, &odd).unwrap_err();
    assert_eq!(error.class, ErrorClass::Unclear);
}
