use super::*;
use crate::adapters::tests::{adapter, stems, video};
use crate::port::{CallEffect, OutputKind};

fn split(options: &Value, order: &Order) -> Call {
    let adapter = adapter("lalal", options);
    let context = adapter.start(order).unwrap().context();
    let uploaded = ProviderResponse::from_json(200, &json!({"id": "source-1", "duration": 10}));
    match adapter.read_submission(order, &context, &uploaded).unwrap() {
        AdapterStep::Next(call) => *call,
        other => panic!("{other:?}"),
    }
}

fn body(call: &Call) -> &Value {
    match &call.body {
        RequestBody::Json(body) => body,
        _ => panic!("no JSON"),
    }
}

#[test]
fn the_upload_carries_the_file_name() {
    let adapter = adapter("lalal", &json!({}));
    let mut order = stems("auto");
    let call = adapter.start(&order).unwrap();
    assert_eq!(call.effect, CallEffect::Free);
    let sent = |call: &Call| call.headers[0].1.clone();
    assert_eq!(sent(&call), "attachment; filename=\"song.flac\"");
    if let WorkSpec::Stems(stems) = &mut order.work {
        stems.source.file.name = "sóng \"x\".flac".into();
    }
    let call = adapter.start(&order).unwrap();
    assert_eq!(
        sent(&call),
        "attachment; filename*=utf-8''s%C3%B3ng%20%22x%22%2Eflac"
    );
    assert_eq!(
        adapter.start(&video("x")).unwrap_err().class,
        ErrorClass::Rejected
    );
}

#[test]
fn a_separation_requests_one_stem_or_all() {
    let mut order = stems("auto");
    let call = split(&json!({}), &order);
    assert_eq!(call.effect, CallEffect::Submission);
    let key = body(&call)["idempotency_key"].as_str().unwrap();
    assert_eq!((key.len(), &key[14..15]), (36, "4"));
    assert!(matches!(&key[19..20], "8" | "9" | "a" | "b"));
    assert_eq!(
        body(&call)["presets"],
        json!({"stem": "vocals", "extraction_level": "deep_extraction", "encoder_format": "flac"})
    );
    order.model = "phoenix".into();
    if let WorkSpec::Stems(stems) = &mut order.work {
        stems.targets = vec![StemTarget::Only(StemGroup::Guitar)];
    }
    let call = split(
        &json!({"guitar": "acoustic", "extraction": "clear_cut"}),
        &order,
    );
    assert_eq!(
        body(&call)["presets"],
        json!({"stem": "acoustic_guitar", "extraction_level": "clear_cut", "encoder_format": "flac", "splitter": "phoenix"})
    );
    if let WorkSpec::Stems(stems) = &mut order.work {
        stems.full = true;
    }
    let call = split(&json!({}), &order);
    assert_eq!(
        body(&call)["presets"]["stem_list"],
        json!(["vocals", "drum", "bass", "electric_guitar", "piano"])
    );
}

#[test]
fn a_used_key_means_that_the_order_was_taken() {
    let adapter = adapter("lalal", &json!({}));
    let order = stems("auto");
    let context = split(&json!({}), &order).context();
    let error = |code: &str, detail: &str| json!({"code": code, "detail": detail});
    for (status, body, class) in [
        (
            400,
            error(
                "idempotency_key_used",
                "Idempotency key has already been used.",
            ),
            ErrorClass::Unclear,
        ),
        (
            400,
            error("bad", "Premium license required"),
            ErrorClass::Account,
        ),
        (400, error("bad", "Unknown source"), ErrorClass::Rejected),
        (
            403,
            json!({"detail": "Not authenticated"}),
            ErrorClass::Credentials,
        ),
        (
            422,
            json!({"detail": [{"msg": "Field required", "type": "missing"}]}),
            ErrorClass::Rejected,
        ),
        (429, json!({"detail": "Too many"}), ErrorClass::RateLimited),
        (200, json!({}), ErrorClass::Unclear),
        (502, json!(null), ErrorClass::Unclear),
    ] {
        let error = adapter
            .read_submission(
                &order,
                &context,
                &ProviderResponse::from_json(status, &body),
            )
            .unwrap_err();
        assert_eq!(error.class, class, "{status} {body}");
    }
}

fn next_step(task: &Value) -> Result<AdapterStep, ProviderError> {
    let adapter = adapter("lalal", &json!({}));
    let handle = JobHandle(json!({"id": "t-1"}));
    let context = adapter.poll(&handle).unwrap().context();
    let body = json!({"result": {"t-1": task}});
    adapter.read_poll(&handle, &context, &ProviderResponse::from_json(200, &body))
}

#[test]
fn only_known_words_end_a_task() {
    let step = next_step(&json!({"status": "progress", "progress": 42})).unwrap();
    assert!(matches!(
        step,
        AdapterStep::Running {
            progress: Some(42),
            unknown_status: None,
            ..
        }
    ));
    let step = next_step(&json!({"status": "resting"})).unwrap();
    assert!(matches!(
        step,
        AdapterStep::Running {
            unknown_status: Some(_),
            ..
        }
    ));
    for (task, class, message) in [
        (
            json!({"status": "error", "error": {"code": "inference_error", "detail": "no voice", "id": "x"}}),
            ErrorClass::Failed,
            "no voice",
        ),
        (
            json!({"status": "server_error", "error": "it is gone"}),
            ErrorClass::Failed,
            "it is gone",
        ),
        (
            json!({"status": "cancelled"}),
            ErrorClass::Lost,
            "the task was cancelled at the provider",
        ),
        (
            json!({"status": "success", "result": {"tracks": []}}),
            ErrorClass::Failed,
            "the provider reports success but returned no result",
        ),
    ] {
        let error = next_step(&task).unwrap_err();
        assert_eq!((error.class, error.message.as_str()), (class, message));
    }
}

#[test]
fn tracks_are_labelled_by_the_provider() {
    let tracks = json!({"tracks": [
        {"type": "stem", "label": "drum", "url": "http://d.example/1"},
        {"type": "stem", "label": "electric_guitar", "url": "http://d.example/2"},
        {"type": "back", "label": "no_vocals", "url": "http://d.example/3"},
        {"type": "back", "label": "no_multistem", "url": "http://d.example/4"},
        {"type": "stem", "label": "vocals@1", "url": "http://d.example/5"},
    ]});
    let step = next_step(&json!({"status": "success", "result": tracks})).unwrap();
    let AdapterStep::Done { outputs } = step else {
        panic!("not done");
    };
    let names: Vec<String> = outputs
        .iter()
        .map(|output| match output.kind {
            OutputKind::Stem(target) => target.name(),
            _ => panic!("no stem"),
        })
        .collect();
    assert_eq!(names, ["Drums", "Guitar", "Instrumental", "Other"]);
}

#[test]
fn many_tasks_are_polled_with_one_request() {
    let adapter = adapter("lalal", &json!({}));
    let (a, b) = (JobHandle(json!({"id": "a"})), JobHandle(json!({"id": "b"})));
    let call = adapter.poll_many(&[&a, &b]).unwrap();
    assert_eq!(*body(&call), json!({"task_ids": ["a", "b"]}));
    let answer = json!({"result": {"b": {"status": "progress", "progress": 0}}});
    let steps = adapter.read_poll_many(
        &[&a, &b],
        &call.context(),
        &ProviderResponse::from_json(200, &answer),
    );
    assert_eq!(steps[0].as_ref().unwrap_err().class, ErrorClass::Unclear);
    assert!(matches!(steps[1], Ok(AdapterStep::Running { .. })));
}

#[test]
fn a_cancellation_is_confirmed_by_the_providers_status() {
    let adapter = adapter("lalal", &json!({}));
    let handle = JobHandle(json!({"id": "a"}));
    assert!(adapter.cancel(&handle).is_some());
    let with_status = |status: &str| {
        ProviderResponse::from_json(200, &json!({"result": {"a": {"status": status}}}))
    };
    assert!(adapter.confirms_cancellation(&handle, &with_status("success")));
    assert!(!adapter.confirms_cancellation(&handle, &with_status("server_error")));
    assert!(
        !adapter.confirms_cancellation(&handle, &ProviderResponse::from_json(500, &json!(null)))
    );
}
