use super::*;
use crate::adapters::tests::{adapter, ids, look_up, picture, since, stems, video};
use crate::order::StemTarget;
use crate::order::{PictureRole, SourcePicture};
use crate::port::{CallEffect, CallTarget, OutputKind, OutputSource};

fn replicate() -> Arc<dyn Adapter> {
    adapter("replicate", &json!({}))
}

fn path(call: &Call) -> &str {
    let CallTarget::Path(path) = &call.target else {
        panic!("{:?} is not a path", call.target);
    };
    path
}

fn body(call: &Call) -> &Value {
    let RequestBody::Json(body) = &call.body else {
        panic!("not JSON");
    };
    body
}

fn with_picture(mut order: Order, bytes: usize) -> Order {
    if let WorkSpec::Video(video) = &mut order.work {
        let mut file = picture();
        file.bytes = vec![0; bytes].into();
        video.pictures.push(SourcePicture {
            role: PictureRole::FirstFrame,
            file,
        });
    }
    order
}

fn next_step(handle: &Value, status: u16, body: &Value) -> Result<AdapterStep, ProviderError> {
    let handle = JobHandle(handle.clone());
    let context = replicate().poll(&handle).unwrap().context();
    replicate().read_poll(
        &handle,
        &context,
        &ProviderResponse::from_json(status, body),
    )
}

#[test]
fn the_models_name_selects_the_endpoint() {
    let hex = "ab".repeat(32);
    for (model, expected_path, version) in [
        (
            "google/veo-3.1",
            "/v1/models/google/veo-3.1/predictions",
            Value::Null,
        ),
        (
            "deployments/me/fast",
            "/v1/deployments/me/fast/predictions",
            Value::Null,
        ),
        ("me/own:abc", "/v1/predictions", json!("abc")),
        (hex.as_str(), "/v1/predictions", json!(hex)),
    ] {
        let call = replicate().start(&video(model)).unwrap();
        assert_eq!(
            (path(&call), &body(&call)["version"]),
            (expected_path, &version),
            "{model}"
        );
        assert_eq!(call.effect, CallEffect::Submission);
        assert!(call.headers.is_empty());
    }
}

#[test]
fn inputs_have_each_models_names() {
    let call = replicate().start(&video("google/veo-3.1")).unwrap();
    assert_eq!(
        body(&call)["input"],
        json!({"prompt": "a lighthouse in a storm", "duration": 5, "aspect_ratio": "16:9", "resolution": "720p"})
    );
    let call = replicate().start(&video("openai/sora-2")).unwrap();
    let input = &body(&call)["input"];
    assert_eq!(
        (&input["seconds"], &input["aspect_ratio"]),
        (&json!(5), &json!("landscape"))
    );
    let order = with_picture(video("kwaivgi/kling-v2.5-turbo-pro"), 9);
    let call = replicate().start(&order).unwrap();
    let start = body(&call)["input"]["start_image"].as_str().unwrap();
    assert!(start.starts_with("data:image/png;base64,"));
}

#[test]
fn a_large_file_is_uploaded_first() {
    let order = with_picture(video("google/veo-3"), MAX_INLINE_BYTES + 1);
    let upload = replicate().start(&order).unwrap();
    assert_eq!(
        (path(&upload), upload.effect),
        ("/v1/files", CallEffect::Free)
    );
    let context = upload.context();
    let answer = ProviderResponse::from_json(
        201,
        &json!({"id": "f1", "urls": {"get": "https://api.replicate.com/v1/files/f1"}}),
    );
    let AdapterStep::Next(call) = replicate()
        .read_submission(&order, &context, &answer)
        .unwrap()
    else {
        panic!("not the submission");
    };
    assert_eq!(call.effect, CallEffect::Submission);
    assert_eq!(
        body(&call)["input"]["image"],
        "https://api.replicate.com/v1/files/f1"
    );
    for (status, class) in [
        (500, ErrorClass::Unavailable),
        (200, ErrorClass::Unavailable),
        (401, ErrorClass::Credentials),
    ] {
        let error = replicate()
            .read_submission(
                &order,
                &context,
                &ProviderResponse::from_json(status, &json!({})),
            )
            .unwrap_err();
        assert_eq!(error.class, class, "{status}");
    }
}

#[test]
fn the_status_word_decides() {
    let handle = json!({"id": "p1"});
    for word in ["starting", "processing"] {
        let body = json!({"status": word, "logs": "10%|#  |\n 45%|## | 9/20"});
        assert!(matches!(
            next_step(&handle, 200, &body),
            Ok(AdapterStep::Running {
                progress: Some(45),
                unknown_status: None,
                ..
            })
        ));
    }
    assert!(matches!(
        next_step(&handle, 200, &json!({"status": "booting"})),
        Ok(AdapterStep::Running { unknown_status: Some(word), .. }) if word == "booting"
    ));
    for (status, body, class) in [
        (
            200,
            json!({"status": "failed", "error": "CUDA out of memory"}),
            ErrorClass::Failed,
        ),
        (
            200,
            json!({"status": "failed", "error": "The input or output was flagged as sensitive. (E005)"}),
            ErrorClass::Refused,
        ),
        (200, json!({"status": "canceled"}), ErrorClass::Lost),
        (200, json!({"status": "aborted"}), ErrorClass::Lost),
        (
            200,
            json!({"status": "succeeded", "output": null}),
            ErrorClass::Failed,
        ),
        (
            200,
            json!({"status": "succeeded", "output": null, "data_removed": true}),
            ErrorClass::Lost,
        ),
        (404, json!({"detail": "not found"}), ErrorClass::Missing),
        (200, json!({}), ErrorClass::Unclear),
        (502, json!({}), ErrorClass::Unclear),
    ] {
        let error = next_step(&handle, status, &body).unwrap_err();
        assert_eq!(error.class, class, "{body}");
    }
}

#[test]
fn a_video_comes_in_many_shapes() {
    for output in [
        json!("https://replicate.delivery/a.mp4"),
        json!([
            "https://replicate.delivery/a.png",
            "https://replicate.delivery/a.mp4"
        ]),
        json!({"preview": "https://replicate.delivery/a.png", "video": "https://replicate.delivery/a.mp4"}),
    ] {
        let body = json!({"status": "succeeded", "output": output});
        let Ok(AdapterStep::Done { outputs }) = next_step(&json!({"id": "p1"}), 200, &body) else {
            panic!("not done: {output}");
        };
        assert!(
            matches!(&outputs[0].source, OutputSource::Address(url) if url.ends_with("a.mp4")),
            "{output}"
        );
    }
}

#[test]
fn stems_are_labelled() {
    let mut order = stems("cjwbw/demucs:abc");
    let call = replicate().start(&order).unwrap();
    assert_eq!(body(&call)["input"]["stem"], "vocals");
    let answer = ProviderResponse::from_json(201, &json!({"id": "p1", "status": "starting"}));
    let handle = |order: &Order| {
        let step = replicate()
            .read_submission(order, &call.context(), &answer)
            .unwrap();
        let AdapterStep::Submitted { handle, .. } = step else {
            panic!("not submitted");
        };
        handle.0
    };
    let labels = |handle: &Value, output: Value| {
        let body = json!({"status": "succeeded", "output": output});
        let Ok(AdapterStep::Done { outputs }) = next_step(handle, 200, &body) else {
            panic!("not done");
        };
        outputs
            .into_iter()
            .map(|output| output.kind)
            .collect::<Vec<_>>()
    };
    let two = json!({"vocals": "https://r/v.flac", "other": "https://r/o.flac", "bass": null});
    assert_eq!(
        labels(&handle(&order), two),
        [
            OutputKind::Stem(StemTarget::Only(StemGroup::Vocals)),
            OutputKind::Stem(StemTarget::Without(StemGroup::Vocals))
        ]
    );
    if let WorkSpec::Stems(stems) = &mut order.work {
        stems.full = true;
    }
    let call = replicate().start(&order).unwrap();
    assert!(body(&call)["input"].get("stem").is_none());
    let all = json!({"vocals": "https://r/v.flac", "piano": "https://r/p.flac", "other": "https://r/o.flac"});
    assert_eq!(
        labels(&handle(&order), all),
        [
            OutputKind::Stem(StemTarget::Only(StemGroup::Vocals)),
            OutputKind::Stem(StemTarget::Only(StemGroup::Keyboard)),
            OutputKind::Stem(StemTarget::Other)
        ]
    );
}

#[test]
fn answers_to_a_submission_are_classified() {
    let order = video("google/veo-3");
    let context = replicate().start(&order).unwrap().context();
    for (status, body, class) in [
        (201, json!({}), ErrorClass::Unclear),
        (401, json!({"detail": "no token"}), ErrorClass::Credentials),
        (402, json!({"detail": "no credit"}), ErrorClass::Account),
        (
            422,
            json!({"detail": "input.prompt is required"}),
            ErrorClass::Rejected,
        ),
        (
            422,
            json!({"detail": "the prompt was flagged as sensitive"}),
            ErrorClass::Refused,
        ),
        (
            429,
            json!({"detail": "Request was throttled. Your rate limit resets in ~30s."}),
            ErrorClass::RateLimited,
        ),
        (500, json!({"detail": "internal"}), ErrorClass::Unclear),
        (503, json!({"detail": "busy"}), ErrorClass::Unavailable),
    ] {
        let error = replicate()
            .read_submission(
                &order,
                &context,
                &ProviderResponse::from_json(status, &body),
            )
            .unwrap_err();
        assert_eq!(error.class, class, "{body}");
        if status == 429 {
            assert_eq!(error.retry_after, Some(Duration::from_secs(30)));
        }
    }
}

#[test]
fn only_a_status_word_proves_a_cancellation() {
    let handle = JobHandle(json!({"id": "p1"}));
    let confirms = |word: &str| {
        let answer = ProviderResponse::from_json(200, &json!({"status": word}));
        replicate().confirms_cancellation(&handle, &answer)
    };
    assert!(confirms("canceled"));
    assert!(!confirms("processing"));
    assert!(!confirms("succeeded"));
}

#[test]
fn a_lost_prediction_is_looked_for_by_its_input() {
    let finds = |model: &str, record: Value| {
        let call = replicate().start(&video(model)).unwrap();
        let input = &call.text_fields().unwrap()["input"];
        let mut prediction =
            json!({"id": "p", "input": input, "created_at": "2023-11-14T22:13:21.5Z"});
        for (name, value) in record.as_object().unwrap() {
            prediction[name] = value.clone();
        }
        let body = json!({"results": [prediction], "next": null});
        let lookup = look_up(replicate().as_ref(), &video(model), 200, &body).unwrap();
        !ids(&lookup).is_empty()
    };
    let version = "v".repeat(10);
    assert!(finds("me/film", json!({"model": "me/film"})));
    assert!(!finds("me/film", json!({"model": "me/other"})));
    assert!(!finds(
        "me/film",
        json!({"model": "me/film", "created_at": "2023-11-14T22:00:00Z"})
    ));
    // A prediction whose data was removed an hour after the end proves nothing, and neither does
    // one without a field that was sent.
    let prompt = json!({"prompt": "a lighthouse in a storm"});
    let partly_shown = json!({"model": "me/film", "input": prompt});
    assert!(!finds("me/film", partly_shown));
    assert!(!finds("me/film", json!({"model": "me/film", "input": {}})));
    let named = format!("me/film:{version}");
    assert!(finds(
        &named,
        json!({"model": "me/film", "version": version})
    ));
    assert!(!finds(
        &named,
        json!({"model": "me/film", "version": "hidden"})
    ));
    assert!(finds(
        "deployments/me/film",
        json!({"model": "somebody/model"})
    ));
    assert!(!finds(
        "deployments/me/film",
        json!({"model": "x/y", "deployment": "me/other"})
    ));
}

#[test]
fn a_lost_separation_is_found_only_by_the_recordings_url() {
    let mut order = stems("cjwbw/demucs");
    assert!(replicate().find(&order, since()).is_none());
    let address = "https://gateway.example/media/1";
    if let WorkSpec::Stems(stems) = &mut order.work {
        stems.source.file.url = Some(address.into());
    }
    let call = replicate().start(&order).unwrap();
    let sent = call.text_fields().unwrap()["input"].clone();
    let input = |audio: &str| {
        let mut input = sent.clone();
        input["audio"] = json!(audio);
        input
    };
    let one =
        |id: &str, audio: &str| json!({"id": id, "model": "cjwbw/demucs", "input": input(audio)});
    let next = "https://api.replicate.com/v1/predictions?cursor=x";
    let body = json!({"next": next, "results": [one("a", address), one("b", "https://x/2")]});
    let lookup = look_up(replicate().as_ref(), &order, 200, &body).unwrap();
    assert_eq!(ids(&lookup), ["a"]);
    assert_eq!(lookup.jobs[0].handle.text("stems"), "vocals");
    assert_eq!(
        lookup.next.unwrap().target,
        CallTarget::Address(next.into())
    );
}
