//! Tests of reading answers by a recipe.

use super::*;

pub(super) fn submitted(
    adapter: &dyn Adapter,
    order: &Order,
    status: u16,
    body: &Value,
) -> Result<AdapterStep, ProviderError> {
    let context = adapter.start(order).unwrap().context();
    adapter.read_submission(order, &context, &ProviderResponse::from_json(status, body))
}

#[test]
fn answers_to_a_submission_are_classified() {
    let adapter = adapter_with(
        "[ok]\nat = \"/code\"\nequals = 0\n[errors]\ncode = \"/code\"\nmessage = \"/message\"\n[errors.codes]\n1002 = \"rate_limited\"\n\"13*\" = \"refused\"\n1300 = \"account\"",
    );
    let order = video("m");
    let submit = |status, body: Value| submitted(adapter.as_ref(), &order, status, &body);
    let step = submit(200, json!({"code": 0, "id": 7})).unwrap();
    assert!(matches!(step, AdapterStep::Submitted { handle, .. } if handle.0["kept"]["id"] == 7));
    for (status, body, class) in [
        (200, json!({"code": 0}), ErrorClass::Unclear),
        (200, json!({"id": "x"}), ErrorClass::Unclear),
        (200, json!({"code": 1002}), ErrorClass::RateLimited),
        (200, json!({"code": 1300}), ErrorClass::Account),
        (200, json!({"code": 1301}), ErrorClass::Refused),
        (200, json!({"code": 9}), ErrorClass::Rejected),
        (400, json!({"code": 1301}), ErrorClass::Refused),
        (409, json!({}), ErrorClass::Rejected),
        (401, json!({}), ErrorClass::Credentials),
        (500, json!({}), ErrorClass::Unclear),
        // Whatever a 5xx contains, the order is not sent elsewhere.
        (500, json!({"code": 1002}), ErrorClass::Unclear),
        (500, json!({"code": 1301}), ErrorClass::Refused),
        (503, json!({"code": 1002}), ErrorClass::RateLimited),
        (503, json!({}), ErrorClass::Unclear),
    ] {
        let error = submit(status, body.clone()).unwrap_err();
        assert_eq!(error.class, class, "{status} {body}");
    }
    let error_with_message = submit(200, json!({"code": 9, "message": "no"})).unwrap_err();
    assert_eq!(
        (
            error_with_message.message.as_str(),
            error_with_message.code.as_deref()
        ),
        ("no", Some("9"))
    );
    let error = adapter.start(&stems("m")).unwrap_err();
    assert_eq!(error.class, ErrorClass::Rejected);
}

#[test]
fn words_tell_where_no_code_does() {
    let adapter = adapter_with(
        "[ok]\nat = \"/code\"\nequals = 0\n[errors]\ncode = \"/code\"\nmessage = \"/message\"\n[errors.codes]\n400 = \"rejected\"\n402 = \"account\"\n[errors.words]\nmoderat = \"refused\"\ninvalid = \"rejected\"",
    );
    let order = video("m");
    let class = |status, body: Value| {
        let result = submitted(adapter.as_ref(), &order, status, &body);
        result.unwrap_err().class
    };
    for (status, code, message, expected) in [
        (200, 400, "Stopped by Moderation", ErrorClass::Refused),
        (200, 402, "Stopped by moderation", ErrorClass::Account),
        (200, 7, "invalid size", ErrorClass::Rejected),
        (400, 7, "stopped by moderation", ErrorClass::Refused),
        (403, 7, "stopped by moderation", ErrorClass::Refused),
        (403, 7, "invalid key", ErrorClass::Credentials),
        (401, 7, "invalid moderator", ErrorClass::Credentials),
        (429, 7, "invalid", ErrorClass::RateLimited),
        (500, 7, "stopped by moderation", ErrorClass::Unclear),
    ] {
        let body = json!({"code": code, "message": message});
        assert_eq!(class(status, body), expected, "{status} {code} {message}");
    }
}

#[test]
fn json_in_a_text_is_read() {
    let recipe = short_recipe_with("address = \"/url\"", "address = \"/made/urls/*\"");
    let adapter = adapter_of(&format!("json_texts = [\"/made\"]\n{recipe}")).unwrap();
    let content = json!({"urls": ["https://x.example/v"]}).to_string();
    let step = next_step(
        adapter.as_ref(),
        200,
        &json!({"status": "done", "made": content}),
    );
    assert!(matches!(step, Ok(AdapterStep::Done { outputs }) if outputs.len() == 1));
    for content in [json!("{"), json!(""), json!([1]), Value::Null] {
        let error = next_step(
            adapter.as_ref(),
            200,
            &json!({"status": "done", "made": content}),
        );
        assert_eq!(error.unwrap_err().class, ErrorClass::Failed);
    }
}

fn next_step(
    adapter: &dyn Adapter,
    status: u16,
    body: &Value,
) -> Result<AdapterStep, ProviderError> {
    let handle = JobHandle(json!({"kept": {"id": "a/b"}}));
    let call = adapter.poll(&handle).unwrap();
    assert_eq!(call.target, CallTarget::Path("/jobs/a%2Fb".into()));
    adapter.read_poll(
        &handle,
        &call.context(),
        &ProviderResponse::from_json(status, body),
    )
}

#[test]
fn the_state_of_a_job_is_read() {
    let adapter = adapter_with(
        "[errors]\ncode = \"/code\"\n[errors.codes]\nnsfw = \"refused\"\nbusy = \"rate_limited\"",
    );
    let next_step = |status, body: Value| next_step(adapter.as_ref(), status, &body);
    let running = |step: Result<AdapterStep, ProviderError>, word: Option<&str>| matches!(step, Ok(AdapterStep::Running { unknown_status, .. }) if unknown_status.as_deref() == word);
    assert!(running(next_step(200, json!({"status": "running"})), None));
    assert!(running(
        next_step(200, json!({"status": "pondering"})),
        Some("pondering")
    ));
    for (status, body, class) in [
        (200, json!({}), ErrorClass::Unclear),
        (200, json!({"status": "failed"}), ErrorClass::Failed),
        (500, json!({"status": "failed"}), ErrorClass::Failed),
        (
            200,
            json!({"status": "failed", "code": "nsfw"}),
            ErrorClass::Refused,
        ),
        (
            200,
            json!({"status": "failed", "code": "busy"}),
            ErrorClass::Failed,
        ),
        (404, json!({}), ErrorClass::Missing),
        (500, json!({}), ErrorClass::Unclear),
        (429, json!({}), ErrorClass::RateLimited),
        (200, json!({"status": "done"}), ErrorClass::Failed),
        (
            200,
            json!({"status": "done", "url": "nothing"}),
            ErrorClass::Failed,
        ),
    ] {
        assert_eq!(
            next_step(status, body.clone()).unwrap_err().class,
            class,
            "{status} {body}"
        );
    }
    let done = next_step(
        200,
        json!({"status": "done", "url": "https://cdn.test/v.mp4"}),
    );
    assert!(
        matches!(done, Ok(AdapterStep::Done { outputs }) if matches!(outputs[0].source, OutputSource::Address(_)))
    );
}

#[test]
fn words_that_name_a_refusal_beat_a_code_that_says_nothing() {
    let adapter = adapter_with(
        "[errors]\ncode = \"/code\"\nmessage = \"/message\"\n[errors.codes]\n400 = \"rejected\"\n500 = \"unclear\"\n501 = \"failed\"\n402 = \"account\"\n[errors.words]\nflagged = \"refused\"",
    );
    for (code, message, expected) in [
        (400, "Your prompt was Flagged", ErrorClass::Refused),
        (500, "Your prompt was flagged", ErrorClass::Refused),
        (501, "Your prompt was flagged", ErrorClass::Refused),
        (7, "Your prompt was flagged", ErrorClass::Refused),
        (400, "The image is too small", ErrorClass::Unfit),
        (500, "Internal error", ErrorClass::Failed),
    ] {
        let body = json!({"status": "failed", "code": code, "message": message});
        let error = next_step(adapter.as_ref(), 200, &body).unwrap_err();
        assert_eq!(error.class, expected, "{code} {message}");
    }
}

#[test]
fn shipped_recipes_know_the_words_of_a_refusal() {
    for (name, text) in [
        ("kie", include_str!("../../../../../../recipes/kie.toml")),
        (
            "kie-suno",
            include_str!("../../../../../../recipes/kie-suno.toml"),
        ),
        (
            "mureka",
            include_str!("../../../../../../recipes/mureka.toml"),
        ),
        (
            "openrouter",
            include_str!("../../../../../../recipes/openrouter.toml"),
        ),
        (
            "wavespeed",
            include_str!("../../../../../../recipes/wavespeed.toml"),
        ),
    ] {
        let recipe: toml::Table = text.parse().unwrap();
        let words = recipe["errors"]["words"].as_table().unwrap();
        for message in [
            "your prompt was flagged by website as violating content policies.",
            "the request does not follow our content policy",
            "blocked by moderation",
            "sensitive content",
        ] {
            let first = words
                .iter()
                .find(|(word, _)| message.contains(word.as_str()));
            assert_eq!(
                first.unwrap().1.as_str(),
                Some("refused"),
                "{name}: {message}"
            );
        }
    }
}

#[test]
fn a_state_can_be_given_without_status_words() {
    let recipe = short_recipe_with(
        "word = \"/status\"\nrunning = [\"running\"]\ndone = [\"done\"]\nfailed = [\"failed\"]\n",
        "done_when = \"/done\"\nfailed_when = \"/error\"\nrefused_when = { at = \"/moderated\", equals = true }\nprogress = \"/progress\"\nprogress_full = 1.0\n",
    );
    let adapter = adapter_of(&recipe).unwrap();
    let next_step = |body: Value| next_step(adapter.as_ref(), 200, &body);
    for body in [
        json!({"progress": 0.5}),
        json!({"done": false, "progress": "0.5"}),
    ] {
        assert!(matches!(
            next_step(body),
            Ok(AdapterStep::Running {
                progress: Some(50),
                ..
            })
        ));
    }
    let class = |body| next_step(body).unwrap_err().class;
    assert_eq!(
        class(json!({"done": true, "error": {"code": 1}})),
        ErrorClass::Failed
    );
    assert_eq!(
        class(json!({"done": true, "moderated": true})),
        ErrorClass::Refused
    );
    assert!(matches!(
        next_step(json!({"done": true, "url": "https://a.test/"})),
        Ok(AdapterStep::Done { .. })
    ));
}

fn source_of(step: Result<AdapterStep, ProviderError>) -> OutputSource {
    match step.unwrap() {
        AdapterStep::Done { mut outputs } => outputs.remove(0).source,
        other => panic!("not done: {other:?}"),
    }
}

#[test]
fn results_come_in_several_ways() {
    let done = json!({"status": "done", "url": "/files/v.mp4"});
    let result = |lines: &str| {
        let adapter = adapter_of(&short_recipe_with("address = \"/url\"", lines)).unwrap();
        source_of(next_step(adapter.as_ref(), 200, &done))
    };
    let call = |source: OutputSource| match source {
        OutputSource::Call(call) => *call,
        other => panic!("no call: {other:?}"),
    };
    let relative = call(result("address = \"/url\""));
    assert_eq!(relative.target, CallTarget::Root("/files/v.mp4".into()));
    assert!(!relative.with_credential);
    assert!(call(result("address = \"/url\"\nwith_credential = true")).with_credential);
    let content_call = call(result(
        "content = \"/jobs/{id}/content\"\ncontent_query = { q = \"{id}\" }",
    ));
    assert_eq!(
        content_call.target,
        CallTarget::Path("/jobs/a%2Fb/content".into())
    );
    assert!(content_call.with_credential && content_call.query == [("q".into(), "a/b".into())]);
}

#[test]
fn variants_and_kept_addresses() {
    let recipe = short_recipe_with("seconds = [5]", "seconds = [5]\npictures = { max = 2 }")
        .replace("id = \"/id\"", "id = \"/id\"\nurl = [\"/urls/get\", \"/url\"]")
        .replace("path = \"/jobs/{id}\"", "path = \"{url}\"")
        .replace(
            "[poll]",
            "[submit.remember]\nkind = \"{model}\"\n[[submit.variant]]\nwhen = \"last_frame\"\npath = \"/frames\"\nbody = { p = \"{prompt}\", a = \"{image}\", b = \"{last_frame}\" }\n[[submit.variant]]\nwhen = \"image\"\nmethod = \"PUT\"\nbody = { p = \"{prompt}\", a = \"{image:mime}\" }\n[poll]",
        );
    let adapter = adapter_of(&recipe).unwrap();
    let mut order = video("m");
    assert_eq!(
        adapter.start(&order).unwrap().target,
        CallTarget::Path("/jobs".into())
    );
    for (role, method, path) in [
        (PictureRole::FirstFrame, http::Method::PUT, "/jobs"),
        (PictureRole::LastFrame, http::Method::POST, "/frames"),
    ] {
        if let WorkSpec::Video(video) = &mut order.work {
            video.pictures.push(frame(role));
        }
        let call = adapter.start(&order).unwrap();
        assert_eq!(
            (call.method, call.target),
            (method, CallTarget::Path(path.into()))
        );
    }
    let body = json!({"id": 1, "url": "https://queue.test/1"});
    let Ok(AdapterStep::Submitted { handle, .. }) = submitted(adapter.as_ref(), &order, 200, &body)
    else {
        panic!("not submitted");
    };
    assert_eq!(handle.0["kept"]["kind"], "m");
    let poll = adapter.poll(&handle).unwrap();
    assert_eq!(
        poll.target,
        CallTarget::Address("https://queue.test/1".into())
    );
}
