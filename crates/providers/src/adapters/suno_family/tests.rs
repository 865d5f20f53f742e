use std::time::Duration;

use http::Method;
use serde_json::{Map, Value, json};

use crate::adapters::tests::{adapter, stems};
use crate::error::ErrorClass;
use crate::order::{Order, PersonaSpec, SongSpec, StemGroup, StemTarget, UpstreamClip, WorkSpec};
use crate::port::{
    Adapter, AdapterStep, Call, CallEffect, CallTarget, FormPart, JobHandle, OutputKind,
    OutputSource, RequestBody,
};
use crate::response::ProviderResponse;

fn song(task: &str, fields: Value) -> Order {
    let Value::Object(fields) = fields else {
        panic!("fields")
    };
    Order {
        work: WorkSpec::Song(SongSpec {
            task: task.into(),
            fields,
            uploads: Vec::new(),
        }),
        ..stems("chirp-auk")
    }
}

fn upstream(mut order: Order) -> Order {
    if let WorkSpec::Stems(stems) = &mut order.work {
        stems.source.upstream = Some(UpstreamClip {
            clip_id: "clip-1".into(),
            task_id: Some("task-1".into()),
        });
    }
    order
}

fn body(call: &Call) -> Value {
    match &call.body {
        RequestBody::Json(body) => body.clone(),
        _ => panic!("no JSON"),
    }
}

fn next(step: AdapterStep) -> Call {
    match step {
        AdapterStep::Next(call) => *call,
        other => panic!("{other:?}"),
    }
}

fn answer(
    adapter: &dyn Adapter,
    order: &Order,
    call: &Call,
    body: &Value,
) -> Result<AdapterStep, crate::ProviderError> {
    adapter.read_submission(
        order,
        &call.context(),
        &ProviderResponse::from_json(200, body),
    )
}

#[test]
fn a_song_is_sent_as_the_caller_wrote_it() {
    let adapter = adapter("suno-family", &json!({}));
    let fields = json!({"prompt": "la la", "tags": "pop", "mv": "theirs", "notify_hook": "https://x.example"});
    let call = adapter.start(&song("generate", fields.clone())).unwrap();
    assert_eq!(call.effect, CallEffect::Submission);
    assert_eq!(call.target, CallTarget::Path("/submit/music".into()));
    assert_eq!(
        body(&call),
        json!({"prompt": "la la", "tags": "pop", "mv": "chirp-auk"})
    );
    let call = adapter.start(&song("extend", fields)).unwrap();
    assert_eq!(body(&call)["task"], "extend");
    assert!(call.headers.is_empty());
}

#[test]
fn the_key_is_sent_if_the_service_supports_it() {
    let adapter = adapter("suno-family", &json!({"idempotency": true}));
    assert!(adapter.deduplicates());
    let call = adapter.start(&upstream(stems("m"))).unwrap();
    assert_eq!(
        call.headers,
        [("idempotency-key".to_owned(), "0197-key".to_owned())]
    );
}

#[test]
fn a_separation_names_the_clip_and_its_task() {
    let adapter = adapter("suno-family", &json!({}));
    let mut order = upstream(stems("chirp-auk"));
    let sent = body(&adapter.start(&order).unwrap());
    assert_eq!(
        sent,
        json!({"task": "gen_stem", "generation_type": "TEXT", "title": "Song", "mv": "chirp-auk", "prompt": "",
            "make_instrumental": true, "task_id": "task-1", "continue_clip_id": "clip-1",
            "continued_aligned_prompt": null, "continue_at": null,
            "stem_type_id": 91, "stem_type_group_name": "Two", "stem_task": "two"})
    );
    if let WorkSpec::Stems(stems) = &mut order.work {
        stems.targets = vec![StemTarget::Only(StemGroup::Drums)];
    }
    let sent = body(&adapter.start(&order).unwrap());
    assert_eq!(sent["stem_type_group_name"], "Drums");
    if let WorkSpec::Stems(stems) = &mut order.work {
        stems.full = true;
    }
    let sent = body(&adapter.start(&order).unwrap());
    assert_eq!(
        (&sent["stem_type_group_name"], &sent["stem_task"]),
        (&json!("Twelve"), &json!("twelve"))
    );
}

#[test]
fn a_recording_is_uploaded_in_five_calls() {
    let adapter = adapter("suno-family", &json!({}));
    let order = stems("chirp-auk");
    let next_after =
        |call: &Call, body: Value| next(answer(&*adapter, &order, call, &body).unwrap());

    let grant = adapter.start(&order).unwrap();
    assert_eq!(grant.effect, CallEffect::Free);
    assert_eq!(body(&grant), json!({"extension": "flac"}));
    let put = next_after(
        &grant,
        json!({"id": "up-1", "url": "https://bucket.example/", "fields": {"key": "k", "policy": "p"}}),
    );
    assert_eq!(
        put.target,
        CallTarget::Address("https://bucket.example/".into())
    );
    assert!(!put.with_credential);
    let RequestBody::Multipart(parts) = &put.body else {
        panic!("no form");
    };
    assert!(matches!(parts.last(), Some(FormPart::File { name, .. }) if name == "file"));
    assert_eq!(parts.len(), 3);
    let finish = next_after(&put, json!(null));
    assert_eq!(
        finish.target,
        CallTarget::Path("/uploads/audio/up-1/upload-finish".into())
    );
    assert_eq!(
        body(&finish),
        json!({"upload_type": "file_upload", "upload_filename": "song.flac"})
    );
    let look = next_after(&finish, json!({}));
    assert_eq!((&look.method, look.delay), (&Method::GET, None));
    let again = next_after(&look, json!({"status": "processing"}));
    assert_eq!(again.delay, Some(Duration::from_secs(2)));
    let clip = next_after(&again, json!({"status": "complete"}));
    assert_eq!(
        clip.target,
        CallTarget::Path("/uploads/audio/up-1/initialize-clip".into())
    );
    let submit = next_after(&clip, json!({"clip_id": "clip-9"}));
    assert_eq!(submit.effect, CallEffect::Submission);
    let sent = body(&submit);
    assert_eq!(sent["continue_clip_id"], "clip-9");
    assert_eq!(sent.get("task_id"), None);

    let mut look = again;
    for _ in 0..60 {
        match answer(&*adapter, &order, &look, &json!({"status": "processing"})) {
            Ok(step) => look = next(step),
            Err(error) => {
                assert_eq!(error.class, ErrorClass::Unavailable);
                return;
            }
        }
    }
    panic!("it waits for ever");
}

#[test]
fn a_recording_is_uploaded_as_one_form_or_not_at_all() {
    let direct = adapter("suno-family", &json!({"upload": "direct"}));
    let WorkSpec::Stems(separation) = stems("m").work else {
        panic!("stems")
    };
    let mut order = song("cover", json!({"tags": "jazz"}));
    if let WorkSpec::Song(song) = &mut order.work {
        song.uploads = vec![("cover_clip_id".into(), separation.source)];
    }
    let upload = direct.start(&order).unwrap();
    assert!(
        matches!(&upload.body, RequestBody::Multipart(parts) if matches!(&parts[1], FormPart::File { name, .. } if name == "file"))
    );
    let step = answer(
        &*direct,
        &order,
        &upload,
        &json!({"id": "clip-7", "status": "complete"}),
    );
    assert_eq!(
        body(&next(step.unwrap())),
        json!({"task": "cover", "tags": "jazz", "mv": "chirp-auk", "cover_clip_id": "clip-7"})
    );
    let none = adapter("suno-family", &json!({"upload": "none"}));
    assert_eq!(none.start(&order).unwrap_err().class, ErrorClass::Rejected);
    assert!(none.start(&upstream(stems("m"))).is_ok());
}

#[test]
fn a_submission_has_three_forms_of_answer() {
    let adapter = adapter("suno-family", &json!({}));
    let order = upstream(stems("m"));
    let call = adapter.start(&order).unwrap();
    for body in [
        json!({"code": "success", "message": "", "data": "t-1"}),
        json!({"code": "success", "data": {"task_id": "t-1", "status": "SUBMITTED"}}),
        json!({"id": "t-1", "clips": [], "status": "queued"}),
    ] {
        let step = answer(&*adapter, &order, &call, &body).unwrap();
        let AdapterStep::Submitted { handle, .. } = step else {
            panic!("{step:?}")
        };
        assert_eq!(handle.0, json!({"id": "t-1", "stems": true}));
    }
}

#[test]
fn a_rejected_submission_is_classified() {
    let adapter = adapter("suno-family", &json!({}));
    let order = upstream(stems("m"));
    let context = adapter.start(&order).unwrap().context();
    let mediagate = |code: &str| json!({"error": {"code": code, "message": "so it is"}});
    let enveloped = |code: &str| json!({"code": code, "message": "so it is", "data": null});
    for (status, body, class) in [
        (200, enveloped("invalid_request"), ErrorClass::Rejected),
        (200, enveloped("quota_not_enough"), ErrorClass::Account),
        (200, enveloped("429"), ErrorClass::RateLimited),
        (
            200,
            enveloped("sensitive_words_detected"),
            ErrorClass::Refused,
        ),
        (
            200,
            json!({"code": "strange", "data": {"task_id": "t"}}),
            ErrorClass::Unclear,
        ),
        (
            200,
            json!({"code": "success", "data": ""}),
            ErrorClass::Unclear,
        ),
        (200, json!({"status": "queued"}), ErrorClass::Unclear),
        (200, json!("nonsense"), ErrorClass::Unclear),
        (
            403,
            enveloped("insufficient_user_quota"),
            ErrorClass::Account,
        ),
        (400, enveloped("invalid_request"), ErrorClass::Rejected),
        (500, enveloped("do_request_failed"), ErrorClass::Unclear),
        (502, json!(null), ErrorClass::Unclear),
        (503, json!(null), ErrorClass::Unclear),
        (401, mediagate("invalid_api_key"), ErrorClass::Credentials),
        (402, mediagate("budget_exceeded"), ErrorClass::Account),
        (
            403,
            mediagate("insufficient_scope"),
            ErrorClass::Credentials,
        ),
        (400, mediagate("unsupported_value"), ErrorClass::Rejected),
        (409, mediagate("idempotency_conflict"), ErrorClass::Unclear),
        (422, mediagate("content_policy"), ErrorClass::Refused),
        (
            424,
            mediagate("submission_unconfirmed"),
            ErrorClass::Unconfirmed,
        ),
        (429, mediagate("too_many_tasks"), ErrorClass::RateLimited),
        (503, mediagate("overloaded"), ErrorClass::Unavailable),
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

fn handle(id: &str) -> JobHandle {
    JobHandle(json!({"id": id, "stems": true}))
}

fn poll(status: u16, body: &Value) -> Result<AdapterStep, crate::ProviderError> {
    let adapter = adapter("suno-family", &json!({}));
    let context = adapter.poll(&handle("t")).unwrap().context();
    adapter.read_poll(
        &handle("t"),
        &context,
        &ProviderResponse::from_json(status, body),
    )
}

fn task(status: &str, clips: &Value) -> Value {
    json!({"code": "success", "message": "", "data":
        {"task_id": "t", "status": status, "progress": "40%", "fail_reason": "it broke", "data": clips}})
}

#[test]
fn only_known_words_end_a_task() {
    let clip = |status: &str| json!([{"id": "c", "status": status, "audio_url": "https://cdn.example/c.mp3"}]);
    for word in ["NOT_START", "SUBMITTED", "QUEUED", "IN_PROGRESS"] {
        let step = poll(200, &task(word, &json!([]))).unwrap();
        assert!(
            matches!(
                step,
                AdapterStep::Running {
                    progress: Some(40),
                    unknown_status: None,
                    ..
                }
            ),
            "{word}"
        );
    }
    for (task_word, clip_word) in [
        ("UNKNOWN", "complete"),
        ("PONDERING", "complete"),
        ("IN_PROGRESS", "pondering"),
    ] {
        let step = poll(200, &task(task_word, &clip(clip_word))).unwrap();
        assert!(
            matches!(
                step,
                AdapterStep::Running {
                    unknown_status: Some(_),
                    ..
                }
            ),
            "{task_word}"
        );
    }
    for word in ["submitted", "queued", "streaming"] {
        let bare = json!({"id": "t", "status": word, "clips": clip(word)});
        assert!(matches!(
            poll(200, &bare).unwrap(),
            AdapterStep::Running {
                unknown_status: None,
                ..
            }
        ));
        assert!(matches!(
            poll(200, &task("SUCCESS", &clip(word))).unwrap(),
            AdapterStep::Running { .. }
        ));
    }
    let bare = json!({"id": "t", "status": "complete", "clips": clip("complete")});
    assert!(matches!(
        poll(200, &bare).unwrap(),
        AdapterStep::Done { .. }
    ));
    let early = task("IN_PROGRESS", &clip("complete"));
    assert!(matches!(
        poll(200, &early).unwrap(),
        AdapterStep::Done { .. }
    ));
}

#[test]
fn finished_clips_are_delivered_even_when_others_failed() {
    let clips = json!([
        {"id": "a", "status": "complete", "audio_url": "https://cdn.example/a.mp3", "title": "Song (Vocals)",
         "video_url": "https://cdn.example/a.mp4", "model_name": "chirp-stem",
         "metadata": {"tags": "pop", "prompt": "la", "stem_type_id": 91.0, "stem_type_group_name": "Vocals"}},
        {"id": "b", "status": "complete", "audio_url": "https://cdn.example/b.mp3", "title": "Song - Instrumental", "metadata": {}},
        {"id": "c", "status": "error", "metadata": {"error_type": "generation_failed"}},
        {"id": "e", "status": "error", "metadata": {"error_type": "generation_failed", "error_message": "no bass here", "stem_type_group_name": "Bass"}},
        {"id": "d", "status": "complete", "audio_url": "", "metadata": {"stem_type_group_name": "Bass"}}
    ]);
    let AdapterStep::Done { outputs } = poll(200, &task("SUCCESS", &clips)).unwrap() else {
        panic!("not done");
    };
    assert_eq!(outputs.len(), 3);
    let OutputKind::Clip(first) = &outputs[0].kind else {
        panic!("no clip")
    };
    assert_eq!(
        (first.id.as_str(), first.task_id.as_deref()),
        ("a", Some("t"))
    );
    assert_eq!(
        (
            first.tags.as_str(),
            first.prompt.as_str(),
            first.model_name.as_str()
        ),
        ("pop", "la", "chirp-stem")
    );
    assert_eq!(first.stem, Some(StemTarget::Only(StemGroup::Vocals)));
    assert!(matches!(&outputs[0].source, OutputSource::Address(url) if url.ends_with("a.mp3")));
    let OutputKind::Clip(second) = &outputs[1].kind else {
        panic!("no clip")
    };
    assert_eq!(second.stem, Some(StemTarget::Without(StemGroup::Vocals)));
    let failed = OutputKind::FailedClip {
        stem: Some(StemTarget::Only(StemGroup::Bass)),
        reason: "no bass here".into(),
    };
    assert_eq!(outputs[2].kind, failed);
}

#[test]
fn a_failure_says_why() {
    let clip = |kind: &str, message: &str| json!([{"id": "c", "status": "error", "metadata": {"error_type": kind, "error_message": message}}]);
    for (body, class, message) in [
        (task("FAILURE", &json!([])), ErrorClass::Failed, "it broke"),
        (
            task("IN_PROGRESS", &clip("internal", "no sound")),
            ErrorClass::Failed,
            "no sound",
        ),
        (
            task("FAILURE", &clip("moderation_failure", "not that")),
            ErrorClass::Refused,
            "not that",
        ),
        (
            task("FAILURE", &clip("content_policy", "not that")),
            ErrorClass::Refused,
            "not that",
        ),
        (
            task("FAILURE", &clip("cancelled", "called off")),
            ErrorClass::Lost,
            "called off",
        ),
    ] {
        let error = poll(200, &body).unwrap_err();
        assert_eq!((error.class, error.message.as_str()), (class, message));
    }
    let empty = poll(200, &task("SUCCESS", &json!([]))).unwrap_err();
    assert_eq!(empty.class, ErrorClass::Failed);
    let gone = json!({"code": "task_not_exist", "message": "no such task", "data": null});
    assert_eq!(poll(200, &gone).unwrap_err().class, ErrorClass::Missing);
    assert_eq!(
        poll(404, &json!(null)).unwrap_err().class,
        ErrorClass::Missing
    );
    for status in [400, 402, 500, 502] {
        assert_eq!(
            poll(status, &json!(null)).unwrap_err().class,
            ErrorClass::Unclear,
            "{status}"
        );
    }
    assert_eq!(
        poll(429, &json!(null)).unwrap_err().class,
        ErrorClass::RateLimited
    );
}

#[test]
fn a_list_may_be_in_any_order_and_may_miss_some() {
    let adapter = adapter("suno-family", &json!({}));
    let (a, b, c) = (handle("a"), handle("b"), handle("c"));
    let handles = [&a, &b, &c];
    let call = adapter.poll_many(&handles).unwrap();
    assert_eq!(body(&call)["ids"], json!(["a", "b", "c"]));
    let list = json!({"code": "success", "data": [
        {"task_id": "c", "status": "FAILURE", "fail_reason": "no", "data": []},
        {"task_id": "a", "status": "QUEUED", "progress": "0%", "data": []},
    ]});
    let steps = adapter.read_poll_many(
        &handles,
        &call.context(),
        &ProviderResponse::from_json(200, &list),
    );
    assert!(matches!(steps[0], Ok(AdapterStep::Running { .. })));
    assert_eq!(steps[1].as_ref().unwrap_err().class, ErrorClass::Unclear);
    assert_eq!(steps[2].as_ref().unwrap_err().class, ErrorClass::Failed);
    for (status, class) in [
        (404, ErrorClass::Unclear),
        (429, ErrorClass::RateLimited),
        (401, ErrorClass::Credentials),
        (500, ErrorClass::Unclear),
    ] {
        let answer = ProviderResponse::from_json(status, &json!(null));
        let steps = adapter.read_poll_many(&handles, &call.context(), &answer);
        assert!(
            steps
                .iter()
                .all(|step| step.as_ref().is_err_and(|error| error.class == class)),
            "{status}"
        );
    }
    let one = super::super::tests::adapter("suno-family", &json!({"batch": "one"}));
    assert!(one.poll_many(&handles).is_none());
    assert_eq!(one.pace().batch, 1);
}

#[test]
fn a_persona_is_created_by_one_call() {
    let adapter = adapter("suno-family", &json!({}));
    let order = Order {
        work: WorkSpec::Persona(PersonaSpec {
            root_clip: "c-1".into(),
            root_job: None,
            clips: vec!["c-1".into()],
            name: "Voice".into(),
            description: String::new(),
            is_public: false,
        }),
        ..stems("m")
    };
    let call = adapter.start(&order).unwrap();
    assert_eq!(call.effect, CallEffect::Submission);
    assert_eq!(
        body(&call),
        json!({"root_clip_id": "c-1", "name": "Voice", "description": "", "clips": ["c-1"], "is_public": false})
    );
    let record = json!({"id": "p-1", "name": "Voice"});
    for body in [
        record.clone(),
        json!({"code": "success", "data": record.clone()}),
    ] {
        let step = answer(&*adapter, &order, &call, &body).unwrap();
        let AdapterStep::Done { outputs } = step else {
            panic!("not done")
        };
        let persona = OutputKind::Persona {
            id: "p-1".into(),
            record: record.clone(),
        };
        assert_eq!(outputs[0].kind, persona);
        assert!(matches!(outputs[0].source, OutputSource::Nothing));
    }
    let nothing = answer(&*adapter, &order, &call, &json!({}));
    assert_eq!(nothing.unwrap_err().class, ErrorClass::Unclear);
}

#[test]
fn limits_state_the_supported_tasks() {
    let limits = |options: Value| match adapter("suno-family", &options)
        .limits(crate::MediaKind::Music, "m")
    {
        Some(crate::ModelLimits::Music(limits)) => limits,
        other => panic!("{other:?}"),
    };
    assert!(limits(json!({})).tasks.iter().any(|task| task == "cover"));
    assert_eq!(limits(json!({"tasks": []})).tasks, Vec::<String>::new());
    assert!(limits(json!({})).personas);
    assert!(
        adapter("suno-family", &Value::Object(Map::new()))
            .limits(crate::MediaKind::Video, "m")
            .is_none()
    );
}
