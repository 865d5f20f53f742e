use super::*;
use crate::adapters::tests::{adapter, picture, stems, video};
use crate::error::ErrorBasis;
use crate::order::{PictureRole, SourcePicture};
use crate::port::RequestBody;
use crate::port::{CallEffect, OutputKind};

fn fal() -> Arc<dyn Adapter> {
    adapter("fal", &json!({}))
}

fn body(call: &Call) -> &Value {
    let RequestBody::Json(body) = &call.body else {
        panic!("not JSON");
    };
    body
}

fn with_pictures(mut order: Order, bytes: usize, roles: &[PictureRole]) -> Order {
    if let WorkSpec::Video(video) = &mut order.work {
        for role in roles {
            let mut file = picture();
            file.bytes = vec![0; bytes].into();
            video.pictures.push(SourcePicture { role: *role, file });
        }
    }
    order
}

fn handle() -> JobHandle {
    JobHandle(
        json!({"id": "r1", "status": "https://queue.fal.run/a/b/requests/r1/status",
        "response": "https://queue.fal.run/a/b/requests/r1", "cancel": "https://queue.fal.run/a/b/requests/r1/cancel"}),
    )
}

fn status(status: u16, body: &Value) -> Result<AdapterStep, ProviderError> {
    let context = fal().poll(&handle()).unwrap().context();
    fal().read_poll(
        &handle(),
        &context,
        &ProviderResponse::from_json(status, body),
    )
}

fn response(
    handle: &JobHandle,
    status_body: &Value,
    status: u16,
    body: &Value,
) -> Result<AdapterStep, ProviderError> {
    let completed = ProviderResponse::from_json(200, status_body);
    let context = fal().poll(handle).unwrap().context();
    let Ok(AdapterStep::Next(call)) = fal().read_poll(handle, &context, &completed) else {
        panic!("no second hop");
    };
    assert_eq!(
        call.target,
        CallTarget::Address("https://queue.fal.run/a/b/requests/r1".into())
    );
    fal().read_poll(
        handle,
        &call.context(),
        &ProviderResponse::from_json(status, body),
    )
}

#[test]
fn lengths_and_endpoints_are_the_models() {
    let first = [PictureRole::FirstFrame];
    let both = [PictureRole::FirstFrame, PictureRole::LastFrame];
    for (model, roles, path, duration) in [
        ("fal-ai/veo3.1", &[][..], "/fal-ai/veo3.1", json!("5s")),
        (
            "fal-ai/veo3.1/fast",
            &first[..],
            "/fal-ai/veo3.1/fast/image-to-video",
            json!("5s"),
        ),
        (
            "fal-ai/veo3.1",
            &both[..],
            "/fal-ai/veo3.1/first-last-frame-to-video",
            json!("5s"),
        ),
        (
            "fal-ai/kling-video/v2.5-turbo/pro/text-to-video",
            &first[..],
            "/fal-ai/kling-video/v2.5-turbo/pro/image-to-video",
            json!("5"),
        ),
        (
            "fal-ai/sora-2/text-to-video/pro",
            &first[..],
            "/fal-ai/sora-2/image-to-video/pro",
            json!(5),
        ),
        (
            "fal-ai/ltx-2/text-to-video/fast",
            &first[..],
            "/fal-ai/ltx-2/image-to-video/fast",
            json!(5),
        ),
        (
            "fal-ai/luma-dream-machine/ray-2",
            &first[..],
            "/fal-ai/luma-dream-machine/ray-2/image-to-video",
            json!("5s"),
        ),
        (
            "somebody/new-model",
            &first[..],
            "/somebody/new-model",
            json!(5),
        ),
    ] {
        let order = with_pictures(video(model), 9, roles);
        let call = fal().start(&order).unwrap();
        assert_eq!(call.target, CallTarget::Path(path.into()));
        assert_eq!(call.effect, CallEffect::Submission);
        let body = body(&call);
        assert_eq!(body["duration"], duration, "{model}");
        let member = if roles.len() == 2 {
            "first_frame_url"
        } else {
            "image_url"
        };
        assert_eq!(body.get(member).is_some(), !roles.is_empty(), "{model}");
    }
    let texts = adapter("fal", &json!({"duration": "text"}));
    let call = texts.start(&video("somebody/new-model")).unwrap();
    assert_eq!(body(&call)["duration"], "5");
}

#[test]
fn the_key_is_no_bearer() {
    let secret = Secret::new("id:secret");
    let Ok(Authorization::Headers(headers)) =
        fal().authorize(&secret, std::time::SystemTime::UNIX_EPOCH)
    else {
        panic!("no headers");
    };
    assert_eq!(headers, [("authorization", "Key id:secret".to_owned())]);
    assert_eq!(
        fal().hosts(),
        ["https://queue.fal.run", "https://rest.fal.ai"]
    );
}

#[test]
fn large_files_are_uploaded_first() {
    let order = with_pictures(
        video("fal-ai/veo3.1"),
        MAX_INLINE_BYTES + 1,
        &[PictureRole::FirstFrame, PictureRole::LastFrame],
    );
    let mut call = fal().start(&order).unwrap();
    for number in 1..=2 {
        assert_eq!(
            call.target,
            CallTarget::Address("https://rest.fal.ai/storage/upload/initiate".into())
        );
        assert_eq!(
            body(&call),
            &json!({"content_type": "image/png", "file_name": "picture.png"})
        );
        let upload_slot = json!({"upload_url": "https://up.example/x", "file_url": format!("https://v3.fal.media/{number}.png")});
        let Ok(AdapterStep::Next(put)) = fal().read_submission(
            &order,
            &call.context(),
            &ProviderResponse::from_json(200, &upload_slot),
        ) else {
            panic!("no upload");
        };
        assert!(!put.with_credential && put.effect == CallEffect::Free);
        assert!(
            matches!(&put.body, RequestBody::Bytes { bytes, .. } if bytes.len() == MAX_INLINE_BYTES + 1)
        );
        let refused = ProviderResponse::from_json(403, &json!({}));
        let error = fal()
            .read_submission(&order, &put.context(), &refused)
            .unwrap_err();
        assert_eq!(error.class, ErrorClass::Unavailable);
        let Ok(AdapterStep::Next(next)) = fal().read_submission(
            &order,
            &put.context(),
            &ProviderResponse::from_json(200, &json!({})),
        ) else {
            panic!("no next call");
        };
        call = *next;
    }
    assert_eq!(call.effect, CallEffect::Submission);
    let body = body(&call);
    assert_eq!(
        (&body["first_frame_url"], &body["last_frame_url"]),
        (
            &json!("https://v3.fal.media/1.png"),
            &json!("https://v3.fal.media/2.png")
        )
    );
}

#[test]
fn the_status_word_decides() {
    for word in ["IN_QUEUE", "IN_PROGRESS"] {
        let step = status(202, &json!({"status": word, "queue_position": 3}));
        assert!(matches!(
            step,
            Ok(AdapterStep::Running {
                progress: None,
                unknown_status: None,
                ..
            })
        ));
    }
    assert!(matches!(
        status(200, &json!({"status": "PAUSED"})),
        Ok(AdapterStep::Running { unknown_status: Some(word), .. }) if word == "PAUSED"
    ));
    assert_eq!(
        status(404, &json!({})).unwrap_err().class,
        ErrorClass::Missing
    );
    assert_eq!(
        status(200, &json!({})).unwrap_err().class,
        ErrorClass::Unclear
    );
    assert_eq!(
        status(502, &json!({})).unwrap_err().class,
        ErrorClass::Unclear
    );
}

#[test]
fn a_response_is_the_end_when_fal_says_so() {
    let done = json!({"status": "COMPLETED"});
    let ok = response(
        &handle(),
        &done,
        200,
        &json!({"video": {"url": "https://v3.fal.media/1.mp4"}}),
    );
    assert!(matches!(ok, Ok(AdapterStep::Done { .. })));
    let failed =
        json!({"status": "COMPLETED", "error": "boom", "error_type": "runner_disconnected"});
    let policy = json!({"detail": [{"loc": ["body", "prompt"], "msg": "no", "type": "content_policy_violation"}]});
    let typed = |kind: &str| json!({"detail": "so", "error_type": kind});
    let input = json!({"detail": [{"msg": "too long", "type": "too_long"}]});
    let plain = json!({"detail": "Internal"});
    // Whether the answer ends the job at once.
    for (status_body, code, body, class, is_told) in [
        (&done, 200, json!({}), ErrorClass::Failed, false),
        (&failed, 200, json!({}), ErrorClass::Failed, true),
        (&done, 422, policy, ErrorClass::Refused, true),
        (&done, 422, input, ErrorClass::Unfit, true),
        (&done, 500, plain.clone(), ErrorClass::Failed, false),
        (
            &done,
            504,
            typed("request_timeout"),
            ErrorClass::Failed,
            true,
        ),
        (&failed, 502, json!({}), ErrorClass::Failed, true),
        (
            &done,
            499,
            typed("client_cancelled"),
            ErrorClass::Lost,
            true,
        ),
        (&done, 502, json!({}), ErrorClass::Unclear, false),
        (&done, 503, plain.clone(), ErrorClass::Unavailable, false),
        (&done, 429, plain.clone(), ErrorClass::RateLimited, false),
        (&done, 404, plain, ErrorClass::Missing, false),
    ] {
        let error = response(&handle(), status_body, code, &body).unwrap_err();
        assert_eq!(error.class, class, "{code} {body}");
        let is_record = error.basis == Some(ErrorBasis::Record) || code == 200;
        assert_eq!(is_record && error.ends_job(), is_told, "{code} {body}");
    }
}

#[test]
fn answers_to_a_submission_are_classified() {
    let order = video("fal-ai/veo3.1");
    let context = fal().start(&order).unwrap().context();
    for (status, body, class) in [
        (200, json!({}), ErrorClass::Unclear),
        (401, json!({"detail": "no key"}), ErrorClass::Credentials),
        (
            403,
            json!({"detail": "User is locked. Reason: Exhausted balance."}),
            ErrorClass::Account,
        ),
        (
            422,
            json!({"detail": [{"msg": "bad"}]}),
            ErrorClass::Rejected,
        ),
        (
            422,
            json!({"detail": [{"msg": "no", "type": "content_policy_violation"}]}),
            ErrorClass::Refused,
        ),
        (429, json!({"detail": "slow"}), ErrorClass::RateLimited),
        (500, json!({"detail": "x"}), ErrorClass::Unclear),
        (503, json!({"detail": "x"}), ErrorClass::Unavailable),
        (504, json!({}), ErrorClass::Unclear),
    ] {
        let error = fal()
            .read_submission(
                &order,
                &context,
                &ProviderResponse::from_json(status, &body),
            )
            .unwrap_err();
        assert_eq!(error.class, class, "{body}");
    }
}

#[test]
fn stems_are_asked_for_and_labelled() {
    let mut order = stems("fal-ai/demucs");
    let call = fal().start(&order).unwrap();
    assert!(body(&call).get("stems").is_none(), "a full split is made");
    assert!(
        body(&call)["audio_url"]
            .as_str()
            .unwrap()
            .starts_with("data:audio/flac;base64,")
    );
    let accepted = json!({"request_id": "r1", "status_url": "https://queue.fal.run/a/b/requests/r1/status",
        "response_url": "https://queue.fal.run/a/b/requests/r1", "cancel_url": "https://queue.fal.run/a/b/requests/r1/cancel"});
    let Ok(AdapterStep::Submitted { handle, .. }) = fal().read_submission(
        &order,
        &call.context(),
        &ProviderResponse::from_json(200, &accepted),
    ) else {
        panic!("not submitted");
    };
    let file = |name: &str| json!({"url": format!("https://v3.fal.media/{name}.mp3")});
    let response_body =
        json!({"vocals": file("v"), "drums": null, "piano": file("p"), "other": file("o")});
    let Ok(AdapterStep::Done { outputs }) = response(
        &handle,
        &json!({"status": "COMPLETED"}),
        200,
        &response_body,
    ) else {
        panic!("not done");
    };
    let kinds: Vec<OutputKind> = outputs.into_iter().map(|output| output.kind).collect();
    assert_eq!(
        kinds,
        [
            OutputKind::Stem(StemTarget::Only(StemGroup::Vocals)),
            OutputKind::Stem(StemTarget::Only(StemGroup::Keyboard)),
            OutputKind::Stem(StemTarget::Other)
        ]
    );
    if let WorkSpec::Stems(stems) = &mut order.work {
        stems.targets.pop();
    }
    let call = fal().start(&order).unwrap();
    assert_eq!(body(&call)["stems"], json!(["vocals"]));
}

#[test]
fn each_model_has_its_own_name_for_a_picture() {
    let both = [PictureRole::FirstFrame, PictureRole::LastFrame];
    for (model, members) in [
        (
            "fal-ai/kling-video/v2.6/pro/text-to-video",
            ["start_image_url", "end_image_url"],
        ),
        (
            "fal-ai/kling-video/v3/pro/image-to-video",
            ["start_image_url", "end_image_url"],
        ),
        (
            "kling/v4/text-to-video",
            ["start_image_url", "end_image_url"],
        ),
        (
            "fal-ai/kling-video/o3/pro/text-to-video",
            ["image_url", "end_image_url"],
        ),
        (
            "fal-ai/kling-video/v2.5-turbo/pro/text-to-video",
            ["image_url", "tail_image_url"],
        ),
        ("fal-ai/veo3.1", ["first_frame_url", "last_frame_url"]),
    ] {
        let call = fal().start(&with_pictures(video(model), 9, &both)).unwrap();
        for member in members {
            assert!(body(&call)[member].is_string(), "{model}: {}", body(&call));
        }
    }
    let references = [PictureRole::Reference, PictureRole::Reference];
    let order = with_pictures(video("fal-ai/veo3.1/reference-to-video"), 9, &references);
    let call = fal().start(&order).unwrap();
    assert_eq!(body(&call)["image_urls"].as_array().unwrap().len(), 2);
}

#[test]
fn kling_4_has_another_owner_and_a_number_for_its_length() {
    let mut order = video("kling/v4/text-to-video");
    if let WorkSpec::Video(video) = &mut order.work {
        (video.seconds, video.size) = (30, (1920, 1080));
    }
    let call = fal().start(&order).unwrap();
    assert_eq!(
        call.target,
        CallTarget::Path("/kling/v4/text-to-video".into())
    );
    assert_eq!(
        body(&call),
        &json!({"prompt": "a lighthouse in a storm", "duration": 30, "resolution": "1080p",
                "aspect_ratio": "16:9"})
    );
    let fault = |model: &str| fal().fault_of_model(MediaKind::Video, model);
    for former in ["pro/text-to-video", "standard/image-to-video"] {
        let fault = fault(&format!("fal-ai/kling-video/v4/{former}")).unwrap();
        let task = former.split_once('/').unwrap().1;
        assert!(fault.contains(&format!("\"kling/v4/{task}\"")), "{fault}");
    }
    assert_eq!(fault("kling/v4/text-to-video"), None);
}

#[test]
fn flux_3_has_an_endpoint_for_two_frames() {
    let path = |pictures: &[PictureRole]| {
        let order = video("blackforestlabs/flux-3/text-to-video");
        fal()
            .start(&with_pictures(order, 9, pictures))
            .unwrap()
            .target
    };
    let both = [PictureRole::FirstFrame, PictureRole::LastFrame];
    for (pictures, task) in [
        (&both[..0], "text-to-video"),
        (&both[..1], "image-to-video"),
        (&both[..], "first-last-frame-to-video"),
    ] {
        let expected = format!("/blackforestlabs/flux-3/{task}");
        assert_eq!(path(pictures), CallTarget::Path(expected));
    }
}

#[test]
fn a_picture_that_no_endpoint_takes_is_refused() {
    let first = [PictureRole::FirstFrame];
    let order = with_pictures(video("fal-ai/vidu/q2/text-to-video"), 9, &first);
    assert_eq!(fal().start(&order).unwrap_err().class, ErrorClass::Rejected);
}
