//! Tests of the `luma` adapter.

use super::*;
use crate::adapters::tests::{adapter, ids, look_up, picture, since, stems, video};
use crate::adapters::{base_url, protocol};
use crate::order::SourcePicture;
use crate::port::AdapterStep;
use crate::port::{CallEffect, CallTarget, OutputSource, RequestBody};

fn luma(api: &str) -> Arc<dyn Adapter> {
    adapter("luma", &json!({"api": api}))
}

fn with_frames(mut order: Order, seconds: u32, url: Option<&str>) -> Order {
    if let WorkSpec::Video(video) = &mut order.work {
        video.seconds = seconds;
        for role in [PictureRole::FirstFrame, PictureRole::LastFrame] {
            let mut file = picture();
            file.url = url.map(str::to_owned);
            video.pictures.push(SourcePicture { role, file });
        }
    }
    order
}

fn body(call: &Call) -> &Value {
    match &call.body {
        RequestBody::Json(body) => body,
        other => panic!("not JSON: {other:?}"),
    }
}

#[test]
fn each_api_has_its_own_address() {
    let base_url_of = |api: Option<&str>, url: Option<&str>| {
        let options = api.map(|api| ("api".to_owned(), json!(api)));
        let settings = ProviderSettings {
            base_url: url.map(|url| url.parse().unwrap()),
            ..ProviderSettings::new("test", options.into_iter().collect())
        };
        base_url(protocol("luma").unwrap(), &settings)
            .unwrap()
            .to_string()
    };
    assert_eq!(base_url_of(None, None), "https://agents.lumalabs.ai/v1");
    let older = base_url_of(Some("dream-machine"), None);
    assert_eq!(older, "https://api.lumalabs.ai/dream-machine/v1");
    let own = base_url_of(Some("dream-machine"), Some("http://10.0.0.1/x"));
    assert_eq!(own, "http://10.0.0.1/x");
}

#[test]
fn agents_take_frames_inline() {
    let order = video("ray-3.2");
    let call = luma("agents").start(&order).unwrap();
    assert_eq!(call.target, CallTarget::Path("/generations".into()));
    assert_eq!(call.effect, CallEffect::Submission);
    assert_eq!(
        body(&call),
        &json!({"type": "video", "model": "ray-3.2", "prompt": "a lighthouse in a storm",
                "aspect_ratio": "16:9", "video": {"duration": "5s", "resolution": "720p"}})
    );
    let inline = json!({"data": "iVBORw0KGgo=", "media_type": "image/png"});
    let call = luma("agents")
        .start(&with_frames(order.clone(), 5, None))
        .unwrap();
    assert_eq!(body(&call)["video"]["start_frame"], inline);
    assert_eq!(body(&call)["video"]["end_frame"], inline);
    let call = luma("agents").start(&with_frames(order, 10, None)).unwrap();
    let options = &body(&call)["video"];
    assert_eq!(options["keyframes"], json!([inline, inline]));
    assert_eq!(options["keyframe_indexes"], json!([0, 240]));
    assert_eq!(options.get("start_frame"), None);
}

#[test]
fn dream_machine_takes_addresses_only() {
    let order = with_frames(video("ray-2"), 9, Some("https://g.example/a.png"));
    let call = luma("dream-machine").start(&order).unwrap();
    assert_eq!(call.target, CallTarget::Path("/generations/video".into()));
    let frame = json!({"type": "image", "url": "https://g.example/a.png"});
    assert_eq!(
        body(&call),
        &json!({"model": "ray-2", "prompt": "a lighthouse in a storm", "aspect_ratio": "16:9",
                "resolution": "720p", "duration": "9s", "keyframes": {"frame0": frame, "frame1": frame}})
    );
    let order = with_frames(video("ray-2"), 5, None);
    let error = luma("dream-machine").start(&order).unwrap_err();
    assert_eq!(error.class, ErrorClass::Rejected);
    assert!(error.message.contains("reachable"));
}

#[test]
fn answers_to_a_submission_are_classified() {
    let order = video("ray-3.2");
    let context = luma("agents").start(&order).unwrap().context();
    let answered = |status, body: &Value| {
        luma("agents").read_submission(&order, &context, &ProviderResponse::from_json(status, body))
    };
    assert!(matches!(
        answered(201, &json!({"id": "g"})),
        Ok(AdapterStep::Submitted { .. })
    ));
    for (status, body, class) in [
        (201, json!({}), ErrorClass::Unclear),
        (400, json!({"detail": "bad"}), ErrorClass::Rejected),
        (
            400,
            json!({"detail": "Insufficient credits"}),
            ErrorClass::Account,
        ),
        (
            400,
            json!({"detail": "advanced moderation failed"}),
            ErrorClass::Refused,
        ),
        (
            422,
            json!({"error": {"code": "content_moderated"}}),
            ErrorClass::Refused,
        ),
        (401, json!({"detail": "no"}), ErrorClass::Credentials),
        (402, json!({}), ErrorClass::Account),
        (429, json!({}), ErrorClass::RateLimited),
        (500, json!({"detail": "credits"}), ErrorClass::Unclear),
        (503, json!({}), ErrorClass::Unclear),
    ] {
        let error = answered(status, &body).unwrap_err();
        assert_eq!(error.class, class, "{status} {body}");
    }
}

#[test]
fn every_state() {
    let handle = JobHandle(json!({"id": "g"}));
    let polled = |api: &str, status, body: Value| {
        let luma = luma(api);
        let context = luma.poll(&handle).unwrap().context();
        luma.read_poll(
            &handle,
            &context,
            &ProviderResponse::from_json(status, &body),
        )
    };
    for word in ["queued", "processing", "dreaming"] {
        let step = polled("agents", 200, json!({"state": word})).unwrap();
        assert!(matches!(
            step,
            AdapterStep::Running {
                unknown_status: None,
                ..
            }
        ));
    }
    let step = polled("agents", 200, json!({"state": "pondering"})).unwrap();
    assert!(matches!(
        step,
        AdapterStep::Running {
            unknown_status: Some(_),
            ..
        }
    ));
    let address = |step| match step {
        Ok(AdapterStep::Done { outputs }) => match outputs.into_iter().next().unwrap().source {
            OutputSource::Address(url) => url,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let output = json!([{"type": "image", "url": "i"}, {"type": "video", "url": "v"}]);
    let done = json!({"state": "completed", "output": output});
    assert_eq!(address(polled("agents", 200, done.clone())), "v");
    let older = json!({"state": "completed", "assets": {"video": "w"}});
    assert_eq!(address(polled("dream-machine", 200, older)), "w");
    let class = |api, status, body| polled(api, status, body).unwrap_err().class;
    assert_eq!(class("dream-machine", 200, done), ErrorClass::Failed);
    let failed = |code: &str| json!({"state": "failed", "failure_code": code});
    assert_eq!(
        class("agents", 200, failed("content_moderated")),
        ErrorClass::Refused
    );
    assert_eq!(
        class("agents", 200, failed("budget_exhausted")),
        ErrorClass::Failed
    );
    assert_eq!(
        class("agents", 200, failed("rate_limited")),
        ErrorClass::Failed
    );
    let words = json!({"state": "failed", "failure_reason": "Output was moderated"});
    assert_eq!(class("dream-machine", 200, words), ErrorClass::Refused);
    assert_eq!(class("agents", 404, json!({})), ErrorClass::Missing);
    assert_eq!(class("agents", 500, json!({})), ErrorClass::Unclear);
}

#[test]
fn a_deletion_proves_nothing() {
    let handle = JobHandle(json!({"id": "g"}));
    assert!(luma("agents").cancel(&handle).is_none());
    let older = luma("dream-machine");
    assert!(older.cancel(&handle).is_some());
    assert!(!older.confirms_cancellation(&handle, &ProviderResponse::from_json(204, &Value::Null)));
    assert_eq!(
        older.start(&stems("x")).unwrap_err().class,
        ErrorClass::Rejected
    );
}

#[test]
fn dream_machines_list_tells_a_lost_generation_by_its_request() {
    let order = video("ray-2");
    assert!(luma("agents").find(&order, since()).is_none());
    let request =
        json!({"prompt": "a lighthouse in a storm", "duration": "5s", "aspect_ratio": "16:9"});
    let generation = |id: &str, model: &str, change: (&str, &str)| {
        let mut request = request.clone();
        request[change.0] = json!(change.1);
        json!({"id": id, "model": model, "created_at": "2023-11-14T22:13:30Z", "request": request})
    };
    let body = json!({"has_more": true, "generations": [
        generation("a", "ray-2", ("resolution", "720p")),
        generation("model", "ray-flash-2", ("resolution", "720p")),
        generation("longer", "ray-2", ("duration", "9s")),
        generation("other", "ray-2", ("prompt", "a lighthouse")),
        {"id": "silent", "model": "ray-2"},
    ]});
    let lookup = look_up(luma("dream-machine").as_ref(), &order, 200, &body).unwrap();
    assert_eq!(ids(&lookup), ["a"]);
    let next = lookup.next.unwrap();
    assert!(next.query.contains(&("offset".into(), "5".into())));
}
