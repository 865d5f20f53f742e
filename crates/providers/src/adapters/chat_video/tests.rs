use super::*;
use crate::adapters::tests::{adapter, picture, stems, video};
use crate::order::WorkSpec;
use crate::order::{Choice, ConversationMessage, PictureRole, SourcePicture};
use crate::port::{CallEffect, OutputSource, RequestBody, TimeoutClass};

fn chat(options: &Value) -> Arc<dyn Adapter> {
    adapter("chat-video", options)
}

fn body(call: &Call) -> &Value {
    let RequestBody::Json(body) = &call.body else {
        panic!("not JSON");
    };
    body
}

fn step_after(answer: &ProviderResponse) -> Result<AdapterStep, ProviderError> {
    let adapter = chat(&json!({}));
    let order = video("veo3");
    let context = adapter.start(&order).unwrap().context();
    adapter.read_submission(&order, &context, answer)
}

fn url(step: Result<AdapterStep, ProviderError>) -> String {
    let AdapterStep::Done { mut outputs } = step.unwrap() else {
        panic!("not done");
    };
    let OutputSource::Address(url) = outputs.remove(0).source else {
        panic!("no address");
    };
    url
}

fn streamed(events: &[&str]) -> ProviderResponse {
    let mut answer = ProviderResponse::from_json(200, &Value::Null);
    answer.body = events.concat().into();
    answer
}

fn chunk(delta: &Value, finish_reason: &Value) -> String {
    let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]});
    format!("data: {chunk}\n\n")
}

fn words(text: &str) -> String {
    chunk(&json!({"content": text}), &Value::Null)
}

#[test]
fn the_prompt_comes_last_with_its_pictures() {
    let mut order = video("veo3-fl");
    if let WorkSpec::Video(video) = &mut order.work {
        video.options.conversation.push(ConversationMessage {
            role: "system".into(),
            text: "be brief".into(),
        });
        for role in [PictureRole::FirstFrame, PictureRole::LastFrame] {
            video.pictures.push(SourcePicture {
                role,
                file: picture(),
            });
        }
    }
    let call = chat(&json!({})).start(&order).unwrap();
    assert_eq!(
        (call.effect, call.timeout),
        (CallEffect::Submission, TimeoutClass::Work)
    );
    assert!(call.headers.is_empty());
    let body = body(&call);
    assert_eq!(body["stream"], true);
    assert!(body.get("video").is_none());
    let messages = &body["messages"];
    assert_eq!(
        messages[0],
        json!({"role": "system", "content": "be brief"})
    );
    let parts = messages[1]["content"].as_array().unwrap();
    assert_eq!(
        parts[0],
        json!({"type": "text", "text": "a lighthouse in a storm"})
    );
    assert_eq!((parts.len(), &parts[2]["type"]), (3, &json!("image_url")));
}

#[test]
fn another_mediagate_gets_more_fields() {
    let options = json!({"stream": false, "idempotency": true, "extension": true});
    let mediagate = chat(&options);
    let mut order = video("animatic-1");
    if let WorkSpec::Video(video) = &mut order.work {
        video.options.seed = Some(Choice::Asked(7));
    }
    let call = mediagate.start(&order).unwrap();
    assert!(mediagate.deduplicates() && !chat(&json!({})).deduplicates());
    assert_eq!(
        call.headers,
        [("idempotency-key".to_owned(), "0197-key".to_owned())]
    );
    let body = body(&call);
    assert_eq!(body["stream"], false);
    assert_eq!(
        body["video"],
        json!({"seconds": 5, "size": "1280x720", "seed": 7})
    );
    assert_eq!(
        body["messages"],
        json!([{"role": "user", "content": "a lighthouse in a storm"}])
    );
    let answer = json!({"choices": [{"finish_reason": "stop", "message": {"role": "assistant",
        "content": "https://m.example/a.mp4", "video": {"id": "v", "url": "https://m.example/b.mp4"}}}]});
    assert_eq!(
        url(step_after(&ProviderResponse::from_json(200, &answer))),
        "https://m.example/b.mp4"
    );
}

#[test]
fn a_stream_is_put_together() {
    let stop = chunk(&json!({}), &json!("stop"));
    let parts = [
        &chunk(&json!({"role": "assistant"}), &Value::Null),
        ": keep-alive\n\n",
        &words("> 12%\n"),
        &words("> 80%\n[watch](https://c.exam"),
        &words("ple/1.mp4)"),
    ];
    let whole = [&parts[..], &[&stop, "data: [DONE]\n\n"]].concat();
    assert_eq!(
        url(step_after(&streamed(&whole))),
        "https://c.example/1.mp4"
    );
    let crlf = streamed(&whole).body;
    let crlf = String::from_utf8_lossy(&crlf).replace('\n', "\r\n");
    assert_eq!(
        url(step_after(&streamed(&[&crlf]))),
        "https://c.example/1.mp4"
    );

    let broken = step_after(&streamed(&parts)).unwrap_err();
    assert_eq!(
        broken.class,
        ErrorClass::Unclear,
        "the link may continue after the break"
    );
    let adapter = chat(&json!({}));
    let so_far = streamed(&parts[..3]).body;
    assert_eq!(adapter.progress_of_part(&so_far), Some(12));
    assert_eq!(adapter.progress_of_part(&so_far[..30]), None);
    let task = br#"data: {"choices": [], "task": {"id": "t", "status": "running", "progress": 40}}

"#;
    assert_eq!(adapter.progress_of_part(task), Some(40));
}

#[test]
fn words_without_a_link_are_a_failure() {
    let answer = |content: &Value, reason: &str| {
        let body = json!({"choices": [{"message": {"content": content}, "finish_reason": reason}]});
        step_after(&ProviderResponse::from_json(200, &body))
            .unwrap_err()
            .class
    };
    assert_eq!(
        answer(&json!("It failed, sorry."), "stop"),
        ErrorClass::Failed
    );
    assert_eq!(answer(&Value::Null, "stop"), ErrorClass::Failed);
    assert_eq!(answer(&Value::Null, "content_filter"), ErrorClass::Refused);
    let nothing = step_after(&ProviderResponse::from_json(200, &json!({}))).unwrap_err();
    assert_eq!(nothing.class, ErrorClass::Unclear);
    assert_eq!(
        step_after(&streamed(&["data: [DONE]\n\n"]))
            .unwrap_err()
            .class,
        ErrorClass::Unclear
    );
}

#[test]
fn errors_are_classified_by_what_they_prove() {
    let error = |code: &str| json!({"error": {"code": code, "message": "no"}});
    for (status, body, class) in [
        (400, error("content_policy"), ErrorClass::Refused),
        (400, error("invalid_value"), ErrorClass::Rejected),
        (401, error("invalid_api_key"), ErrorClass::Credentials),
        (402, error("budget_exceeded"), ErrorClass::Account),
        (403, error("insufficient_user_quota"), ErrorClass::Account),
        (429, error("insufficient_quota"), ErrorClass::Account),
        (429, error("too_many_tasks"), ErrorClass::RateLimited),
        (409, error("cancelled"), ErrorClass::Lost),
        (500, error("internal_error"), ErrorClass::Unclear),
        (503, error("generation_failed"), ErrorClass::Failed),
        (503, error("still_running"), ErrorClass::Unclear),
        (
            424,
            error("submission_unconfirmed"),
            ErrorClass::Unconfirmed,
        ),
        (503, error("provider_unavailable"), ErrorClass::Unavailable),
        (503, error("overloaded"), ErrorClass::Unavailable),
        (503, error("shutting_down"), ErrorClass::Unavailable),
        (
            503,
            json!({"error": {"code": "shutting_down", "message": "", "task_id": "t"}}),
            ErrorClass::Unclear,
        ),
        (503, json!({}), ErrorClass::Unclear),
        (502, json!({}), ErrorClass::Unclear),
    ] {
        let error = step_after(&ProviderResponse::from_json(status, &body)).unwrap_err();
        assert_eq!(error.class, class, "{body}");
    }
}

#[test]
fn an_error_in_a_stream_is_classified() {
    let event = |code: &str| {
        format!(
            "data: {}\n\n",
            json!({"error": {"code": code, "message": "no"}})
        )
    };
    let role = chunk(&json!({"role": "assistant"}), &Value::Null);
    let task = "data: {\"choices\": [], \"task\": {\"id\": \"t\", \"progress\": 0}}\n\n";
    for (before, code, class) in [
        (role.as_str(), "content_policy", ErrorClass::Refused),
        (task, "content_policy", ErrorClass::Refused),
        (task, "generation_failed", ErrorClass::Failed),
        (task, "submission_unconfirmed", ErrorClass::Unconfirmed),
        (role.as_str(), "insufficient_quota", ErrorClass::Account),
        (task, "insufficient_quota", ErrorClass::Unclear),
        (task, "shutting_down", ErrorClass::Unclear),
        (role.as_str(), "upstream_error", ErrorClass::Unclear),
    ] {
        let error = step_after(&streamed(&[before, &event(code)])).unwrap_err();
        assert_eq!(error.class, class, "{code}");
    }
}

#[test]
fn music_is_rejected() {
    let error = chat(&json!({})).start(&stems("x")).unwrap_err();
    assert_eq!(error.class, ErrorClass::Rejected);
}
