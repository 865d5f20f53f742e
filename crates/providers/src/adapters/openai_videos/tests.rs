//! Tests of the `openai-videos` adapter.

use super::*;
use crate::adapters::tests::{adapter, ids, look_up, picture, since, stems, video};
use crate::order::SourcePicture;

#[test]
fn a_failed_job_is_read_whatever_the_status() {
    let adapter = adapter("openai-videos", &json!({}));
    let handle = JobHandle(json!({"id": "video_1"}));
    let context = adapter.poll(&handle).unwrap().context();
    let body = json!({"id": "video_1", "status": "failed", "error": {"code": 500, "message": "out of memory"}});
    let error = adapter
        .read_poll(&handle, &context, &ProviderResponse::from_json(500, &body))
        .unwrap_err();
    assert_eq!(
        (error.class, error.message.as_str()),
        (ErrorClass::Failed, "out of memory")
    );
    let word = json!({"id": "video_1", "status": "pondering"});
    let step = adapter
        .read_poll(&handle, &context, &ProviderResponse::from_json(200, &word))
        .unwrap();
    assert!(
        matches!(step, AdapterStep::Running { unknown_status: Some(word), .. } if word == "pondering")
    );
}

#[test]
fn an_answer_without_an_id_proves_nothing() {
    let adapter = adapter("openai-videos", &json!({"encoding": "json"}));
    let order = video("sora-2");
    let context = adapter.start(&order).unwrap().context();
    for (status, class) in [
        (200, ErrorClass::Unclear),
        (429, ErrorClass::RateLimited),
        (400, ErrorClass::Rejected),
        (401, ErrorClass::Credentials),
        (500, ErrorClass::Unclear),
        (502, ErrorClass::Unclear),
        (503, ErrorClass::Unclear),
    ] {
        let error = adapter
            .read_submission(
                &order,
                &context,
                &ProviderResponse::from_json(status, &json!({})),
            )
            .unwrap_err();
        assert_eq!(error.class, class, "{status}");
    }
    let busy = json!({"error": {"code": "overloaded", "message": "busy"}});
    let error = adapter
        .read_submission(&order, &context, &ProviderResponse::from_json(503, &busy))
        .unwrap_err();
    assert_eq!(error.class, ErrorClass::Unavailable);
}

#[test]
fn a_picture_is_the_input_reference() {
    let mut order = video("sora-2");
    if let WorkSpec::Video(video) = &mut order.work {
        video.pictures.push(SourcePicture {
            role: PictureRole::FirstFrame,
            file: picture(),
        });
    }
    let call = adapter("openai-videos", &json!({})).start(&order).unwrap();
    let RequestBody::Multipart(parts) = call.body else {
        panic!("not multipart");
    };
    assert!(
        parts
            .iter()
            .any(|part| matches!(part, FormPart::File { name, .. } if name == "input_reference"))
    );
    let call = adapter("openai-videos", &json!({"encoding": "json"}))
        .start(&order)
        .unwrap();
    let RequestBody::Json(body) = call.body else {
        panic!("not JSON");
    };
    let url = body["input_reference"]["image_url"].as_str().unwrap();
    assert!(url.starts_with("data:image/png;base64,iVBOR"));
}

#[test]
fn music_is_rejected() {
    let error = adapter("openai-videos", &json!({}))
        .start(&stems("x"))
        .unwrap_err();
    assert_eq!(error.class, ErrorClass::Rejected);
}

#[test]
fn a_lost_video_is_looked_for_by_its_content() {
    let adapter = adapter("openai-videos", &json!({}));
    let order = video("sora-2");
    let matching = json!({"seconds": "5", "size": "1280x720", "prompt": "a lighthouse in a storm", "model": "sora-2", "created_at": 1_700_000_001});
    let video_with = |id: &str, change: Value| {
        let mut video = matching.clone();
        video["id"] = json!(id);
        for (name, value) in change.as_object().unwrap() {
            video[name] = value.clone();
        }
        video
    };
    let data = json!([
        video_with("a", json!({"seconds": "5", "size": "1280x720"})),
        video_with("b", json!({"seconds": 5, "size": null, "created_at": null})),
        video_with("longer", json!({"seconds": "8", "size": "1280x720"})),
        video_with("larger", json!({"seconds": 5, "size": "1792x1024"})),
        video_with("silent", json!({"prompt": null})),
        video_with("other", json!({"prompt": "a lighthouse"})),
        video_with("model", json!({"model": "sora-2-pro"})),
        video_with("remix", json!({"remixed_from_video_id": "a"})),
        video_with("old", json!({"created_at": 1_699_999_939})),
    ]);
    let page = |more: bool, data: &Value| {
        let body = json!({"object": "list", "data": data, "has_more": more});
        look_up(adapter.as_ref(), &order, 200, &body)
    };
    let lookup = page(true, &data).unwrap();
    // A field that is not shown may have another value.
    assert_eq!(ids(&lookup), ["a"]);
    // The last of the page is older than the order.
    assert!(lookup.next.is_none());
    let next = page(true, &json!([data[0]])).unwrap().next.unwrap();
    assert!(next.query.contains(&("after".into(), "a".into())));
    assert!(page(false, &json!([data[0]])).unwrap().next.is_none());
    assert!(page(true, &json!([])).unwrap().next.is_none());
    assert_eq!(
        page(false, &json!(null)).unwrap_err().class,
        ErrorClass::Unclear
    );
    // A server without a list.
    let error = look_up(adapter.as_ref(), &order, 405, &json!({})).unwrap_err();
    assert_eq!(error.class, ErrorClass::Rejected);
    assert!(adapter.find(&stems("x"), since()).is_none());
}

/// Reads this answer to a poll.
fn read_poll(body: &Value) -> Result<AdapterStep, ProviderError> {
    let adapter = adapter("openai-videos", &json!({}));
    let handle = JobHandle(json!({"id": "video_1"}));
    let context = adapter.poll(&handle).unwrap().context();
    adapter.read_poll(&handle, &context, &ProviderResponse::from_json(200, body))
}

#[test]
fn gateways_have_words_of_their_own_for_an_end() {
    let output_source = |body: &Value| match read_poll(body) {
        Ok(AdapterStep::Done { outputs }) => outputs[0].source.clone(),
        other => panic!("{body}: {other:?}"),
    };
    for word in ["completed", "succeeded", "success", "SUCCESS", "Done"] {
        let source = output_source(&json!({"id": "video_1", "status": word}));
        assert!(matches!(source, OutputSource::Call(call) if call.stage == "content"));
    }
    let url = "https://cdn.example.com/1.mp4";
    let with_url = json!({"id": "video_1", "status": "SUCCESS", "metadata": {"url": url}});
    assert!(matches!(output_source(&with_url), OutputSource::Address(at) if at == url));
    // An unknown status word is judged by the rest of the answer.
    let unknown = json!({"id": "video_1", "status": "rendered", "video_url": url});
    assert!(matches!(output_source(&unknown), OutputSource::Address(at) if at == url));
    for (body, class) in [
        (json!({"status": "fail"}), ErrorClass::Failed),
        (
            json!({"status": "FAILURE", "fail_reason": "no"}),
            ErrorClass::Failed,
        ),
        (
            json!({"status": "error", "error": "content policy"}),
            ErrorClass::Refused,
        ),
        (
            json!({"status": "broken", "error": {"message": "no"}}),
            ErrorClass::Failed,
        ),
        (
            json!({"status": "failed", "error": {"code": "invalid_image"}}),
            ErrorClass::Unfit,
        ),
        (
            json!({"status": "failed", "error": {"code": 422, "message": "no"}}),
            ErrorClass::Unfit,
        ),
        (json!({"status": "Canceled"}), ErrorClass::Lost),
    ] {
        assert_eq!(read_poll(&body).unwrap_err().class, class, "{body}");
    }
    for word in ["NOT_START", "pending", "Processing"] {
        assert!(matches!(
            read_poll(&json!({"status": word, "error": null})),
            Ok(AdapterStep::Running {
                unknown_status: None,
                ..
            })
        ));
    }
}
