//! Tests of the `modelark` adapter.

use super::*;
use crate::adapters::tests::{adapter, ids, look_up, picture, since, stems, video};
use crate::order::PictureRole;
use crate::order::{Choice, SourcePicture};
use crate::port::{AdapterStep, JobHandle};
use crate::port::{CallEffect, RequestBody};

fn modelark() -> Arc<dyn Adapter> {
    adapter("modelark", &json!({}))
}

fn body_of(order: &Order) -> Value {
    let call = modelark().start(order).unwrap();
    assert_eq!(call.effect, CallEffect::Submission);
    match call.body {
        RequestBody::Json(body) => body,
        other => panic!("not JSON: {other:?}"),
    }
}

#[test]
fn parts_with_roles_and_nothing_null() {
    let mut order = video("seedance-1-5-pro-251215");
    let text = json!({"type": "text", "text": "a lighthouse in a storm"});
    assert_eq!(
        body_of(&order),
        json!({"model": "seedance-1-5-pro-251215", "content": [text], "resolution": "720p",
               "ratio": "16:9", "duration": 5, "seed": seed_of("0197-key")})
    );
    if let WorkSpec::Video(video) = &mut order.work {
        video.options.seed = Some(Choice::Asked(1 << 32));
        video.size = (1080, 1920);
        video.options.user = Some("ada@example.com".into());
        for role in [PictureRole::FirstFrame, PictureRole::LastFrame] {
            let file = picture();
            video.pictures.push(SourcePicture { role, file });
        }
    }
    let body = body_of(&order);
    assert_eq!(
        (&body["seed"], &body["resolution"]),
        (&json!(0), &json!("1080p"))
    );
    let user = body["safety_identifier"].as_str().unwrap();
    assert!(user.len() == 43 && !user.contains("ada"), "{user}");
    let url = json!({"url": picture().data_url()});
    let frame = |role| json!({"type": "image_url", "image_url": url, "role": role});
    let content = json!([text, frame("first_frame"), frame("last_frame")]);
    assert_eq!(body["content"], content);
}

#[test]
fn frames_decide_the_shape_of_the_newest_model() {
    let ratio = |model: &str, role: Option<PictureRole>| {
        let mut order = video(model);
        if let WorkSpec::Video(video) = &mut order.work {
            let file = picture();
            video
                .pictures
                .extend(role.map(|role| SourcePicture { role, file }));
        }
        let body = body_of(&order);
        assert_eq!(body["duration"], 5, "{model}");
        body["ratio"].as_str().unwrap().to_owned()
    };
    let (first, reference) = (PictureRole::FirstFrame, PictureRole::Reference);
    for model in [
        "dreamina-seedance-2-5-260628",
        "doubao-seedance-2-5-x",
        "ep-20261128-x",
    ] {
        assert_eq!(ratio(model, None), "16:9", "{model}");
        assert_eq!(ratio(model, Some(first)), "adaptive", "{model}");
        assert_eq!(ratio(model, Some(reference)), "16:9", "{model}");
    }
    assert_eq!(ratio("seedance-1-5-pro-251215", Some(first)), "16:9");
}

#[test]
fn every_size_has_its_resolution() {
    let limits = modelark().limits(MediaKind::Video, "seedance-2-0-260128");
    let Some(ModelLimits::Video(limits)) = limits else {
        panic!("no videos");
    };
    let count_sizes = |tier: &str| {
        let all = limits.sizes.iter();
        all.filter(|size| resolution(**size) == tier).count()
    };
    assert_eq!(
        (
            count_sizes("480p"),
            count_sizes("720p"),
            count_sizes("1080p")
        ),
        (3, 6, 3)
    );
}

#[test]
fn answers_to_a_submission_are_classified() {
    let order = video("seedance-1-5-pro-251215");
    let context = modelark().start(&order).unwrap().context();
    let answered = |status, body: &Value| {
        let answer = ProviderResponse::from_json(status, body);
        modelark().read_submission(&order, &context, &answer)
    };
    assert!(matches!(
        answered(200, &json!({"id": "cgt-1"})),
        Ok(AdapterStep::Submitted { .. })
    ));
    for (status, code, class) in [
        (400, "InvalidParameter", ErrorClass::Rejected),
        (
            400,
            "InputTextSensitiveContentDetected",
            ErrorClass::Refused,
        ),
        (401, "AuthenticationError", ErrorClass::Credentials),
        (403, "AccountOverdueError", ErrorClass::Account),
        (404, "ModelNotOpen", ErrorClass::Credentials),
        (
            429,
            "RateLimitExceeded.EndpointRPMExceeded",
            ErrorClass::RateLimited,
        ),
        (429, "QuotaExceeded", ErrorClass::Account),
        (429, "ServerOverloaded", ErrorClass::RateLimited),
        (500, "InternalServiceError", ErrorClass::Unclear),
        (503, "ServiceUnavailable", ErrorClass::Unavailable),
        (200, "InvalidParameter", ErrorClass::Unclear),
    ] {
        let body = json!({"error": {"code": code, "message": "no"}});
        assert_eq!(answered(status, &body).unwrap_err().class, class, "{code}");
    }
    let error = modelark().start(&stems("x")).unwrap_err();
    assert_eq!(error.class, ErrorClass::Rejected);
}

#[test]
fn every_status_word() {
    let handle = JobHandle(json!({"id": "cgt-1"}));
    let context = modelark().poll(&handle).unwrap().context();
    let polled = |status, body: Value| {
        modelark().read_poll(
            &handle,
            &context,
            &ProviderResponse::from_json(status, &body),
        )
    };
    for word in ["queued", "running"] {
        let step = polled(200, json!({"status": word})).unwrap();
        assert!(matches!(
            step,
            AdapterStep::Running {
                unknown_status: None,
                ..
            }
        ));
    }
    let step = polled(200, json!({"status": "pondering"})).unwrap();
    assert!(matches!(
        step,
        AdapterStep::Running {
            unknown_status: Some(_),
            ..
        }
    ));
    let done = json!({"status": "succeeded", "content": {"video_url": "https://x.example/v"}});
    assert!(matches!(polled(200, done), Ok(AdapterStep::Done { outputs }) if outputs.len() == 1));
    let class = |status, body| polled(status, body).unwrap_err().class;
    assert_eq!(
        class(200, json!({"status": "succeeded", "content": {}})),
        ErrorClass::Failed
    );
    assert_eq!(class(200, json!({"status": "cancelled"})), ErrorClass::Lost);
    assert_eq!(class(200, json!({"status": "expired"})), ErrorClass::Lost);
    let failed = |code: &str| json!({"status": "failed", "error": {"code": code, "message": "no"}});
    assert_eq!(
        class(200, failed("InternalServiceError")),
        ErrorClass::Failed
    );
    let refused = failed("OutputVideoSensitiveContentDetected");
    assert_eq!(class(200, refused), ErrorClass::Refused);
    let gone = json!({"error": {"code": "ResourceNotFound", "message": "no"}});
    assert_eq!(class(404, gone), ErrorClass::Missing);
    assert_eq!(class(500, json!({})), ErrorClass::Unclear);
}

#[test]
fn a_running_task_is_not_called_off() {
    let handle = JobHandle(json!({"id": "cgt-1"}));
    assert_eq!(modelark().cancel(&handle).unwrap().method, Method::DELETE);
    let confirms = |status| {
        modelark().confirms_cancellation(&handle, &ProviderResponse::from_json(status, &json!({})))
    };
    assert!(confirms(200) && !confirms(400) && !confirms(409));
}

#[test]
fn a_lost_task_is_found_by_the_seed_that_it_gives_back() {
    let model = "seedance-1-5-pro-251215";
    let mut order = video(model);
    let (seed, now) = (seed_of("0197-key"), 1_700_000_001);
    let page = |total| {
        let items = json!([{"id": "x"}, {"id": "y", "model": model, "seed": 7, "created_at": now},
            {"id": "v", "model": "another", "seed": seed, "created_at": now},
            {"id": "z", "model": model, "seed": seed, "created_at": now}]);
        let body = json!({"items": items, "total": total});
        look_up(modelark().as_ref(), &order, 200, &body).unwrap()
    };
    assert_eq!(ids(&page(3)), ["z"]);
    assert!(page(100).next.is_none());
    let next = page(101).next.unwrap();
    assert!(next.query.contains(&("page_num".into(), "2".into())));
    let empty = json!({"items": [], "total": 900});
    let empty = look_up(modelark().as_ref(), &order, 200, &empty).unwrap();
    assert!(empty.next.is_none());
    // Other orders may have this seed too.
    if let WorkSpec::Video(video) = &mut order.work {
        video.options.seed = Some(Choice::Asked(u64::from(seed)));
    }
    assert!(modelark().find(&order, since()).is_none());
}
