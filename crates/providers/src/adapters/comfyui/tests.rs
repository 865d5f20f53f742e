use super::*;
use crate::adapters::tests::{adapter, ids, look_up, picture, since, stems, video};
use crate::limits::Durations;
use crate::order::PictureRole;
use crate::order::WorkSpec;
use crate::port::OutputSource;

const ID: &str = "0197aaaa-0000-7000-8000-000000000001";

fn options() -> Value {
    json!({
        "graph": json!({
            "3": {"class_type": "KSampler", "inputs": {"seed": 1, "steps": 20, "model": ["4", 0]}},
            "5": {"class_type": "EmptyLatentVideo", "inputs": {"width": 832, "height": 480, "length": 81}},
            "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "stored", "clip": ["4", 1]}},
            "7": {"class_type": "CLIPTextEncode", "inputs": {"text": "blurry", "clip": ["4", 1]}},
            "10": {"class_type": "LoadImage", "inputs": {"image": "example.png"}},
            "11": {"class_type": "Primitive", "inputs": {"value": "5"}},
        }).to_string(),
        "fps": 16,
        "patch": {
            "prompt": "6.inputs.text", "negative_prompt": "7.inputs.text", "image": "10.inputs.image",
            "seed": ["3.inputs.seed"], "width": "5.inputs.width", "height": "5.inputs.height",
            "frames": "5.inputs.length", "seconds": "11.inputs.value",
        },
    })
}

fn without(options: &Value, path: &str) -> Value {
    let mut options = options.clone();
    let (parent, member) = path.rsplit_once('/').unwrap();
    let parent = options.pointer_mut(parent).unwrap();
    parent.as_object_mut().unwrap().remove(member);
    options
}

fn fault_of(options: &Value) -> SettingsError {
    let settings = ProviderSettings::new("test", options.as_object().cloned().unwrap());
    build(&settings).unwrap_err()
}

fn order() -> Order {
    let mut order = video("wan");
    order.idempotency_key = ID.into();
    if let WorkSpec::Video(video) = &mut order.work {
        video.pictures.push(SourcePicture {
            role: PictureRole::FirstFrame,
            file: picture(),
        });
    }
    order
}

fn json_of(call: &Call) -> &Value {
    match &call.body {
        RequestBody::Json(body) => body,
        other => panic!("not JSON: {other:?}"),
    }
}

#[test]
fn a_picture_goes_first_and_the_graph_names_it() {
    let adapter = adapter("comfyui", &options());
    let order = order();
    let upload = adapter.start(&order).unwrap();
    assert_eq!(upload.stage, "upload");
    let RequestBody::Multipart(parts) = &upload.body else {
        panic!("not multipart");
    };
    assert!(
        parts
            .iter()
            .any(|part| matches!(part, FormPart::File { name, file_name, .. }
        if name == "image" && *file_name == format!("{ID}-0.png")))
    );
    let stored = json!({"name": "a.png", "subfolder": "in", "type": "input"});
    let step = adapter.read_submission(
        &order,
        &upload.context(),
        &ProviderResponse::from_json(200, &stored),
    );
    let AdapterStep::Next(submit) = step.unwrap() else {
        panic!("no next call");
    };
    assert_eq!(submit.effect, crate::port::CallEffect::Submission);
    let body = json_of(&submit);
    assert_eq!(body["prompt_id"], ID);
    let graph = &body["prompt"];
    assert_eq!(graph["10"]["inputs"]["image"], "in/a.png");
    assert_eq!(graph["6"]["inputs"]["text"], "a lighthouse in a storm");
    assert_eq!(graph["7"]["inputs"]["text"], "blurry", "the stored prompt");
    assert_eq!(
        graph["5"]["inputs"],
        json!({"width": 1280, "height": 720, "length": 81})
    );
    assert_eq!(graph["11"]["inputs"]["value"], "5", "text stays text");
    assert_ne!(graph["3"]["inputs"]["seed"], 1, "seeds differ by order");
    let accepted = json!({"prompt_id": ID, "number": 1, "node_errors": {}});
    let step = adapter.read_submission(
        &order,
        &submit.context(),
        &ProviderResponse::from_json(200, &accepted),
    );
    assert!(matches!(step, Ok(AdapterStep::Submitted { handle, .. }) if handle.text("id") == ID));
}

#[test]
fn a_key_of_another_form_is_no_prompt_id() {
    let mut order = order();
    order.idempotency_key = "0197-key".into();
    if let WorkSpec::Video(video) = &mut order.work {
        video.pictures.clear();
    }
    let call = adapter("comfyui", &options()).start(&order).unwrap();
    assert_eq!(json_of(&call).get("prompt_id"), None);
}

#[test]
fn limits_follow_the_places() {
    let adapter = adapter("comfyui", &options());
    let Some(ModelLimits::Video(limits)) = adapter.limits(MediaKind::Video, "wan") else {
        panic!("no limits");
    };
    assert_eq!(limits.sizes[0], (832, 480));
    assert_eq!(limits.durations, Durations::Range { min: 1, max: 10 });
    assert!(limits.pictures.needed && limits.pictures.max == 1);
    assert!(limits.seed && limits.negative_prompt);
    assert_eq!(adapter.limits(MediaKind::Music, "wan"), None);
    assert_eq!(
        adapter.start(&stems("wan")).unwrap_err().class,
        ErrorClass::Rejected
    );
}

#[test]
fn wrong_settings_are_named() {
    let good = options();
    let mut bad = good.clone();
    bad["patch"]["prompt"] = json!("66.inputs.text");
    let error = fault_of(&bad);
    assert_eq!(error.key.as_deref(), Some("patch.prompt"));
    assert!(error.message.contains("66.inputs.text"), "{error}");
    bad["patch"]["prompt"] = json!("6.inputs.clip");
    assert!(fault_of(&bad).message.contains("connected to another node"));
    bad["patch"]["prompt"] = json!("6.inputs.text");
    bad["patch"]["promt"] = json!("6.inputs.text");
    assert_eq!(fault_of(&bad).key.as_deref(), Some("patch"));
    for (missing, key) in [
        ("/graph", "graph"),
        ("/fps", "fps"),
        ("/patch/prompt", "patch.prompt"),
        ("/patch/width", "patch"),
    ] {
        assert_eq!(fault_of(&without(&good, missing)).key.as_deref(), Some(key));
    }
    for (graph, says) in [
        ("file:/nowhere/graph.json", "cannot read"),
        ("{", "not JSON"),
        (r#"{"nodes": [], "links": []}"#, "API format"),
        (r#"{"3": {}}"#, "no inputs"),
        ("[]", "must be a graph"),
    ] {
        bad = good.clone();
        bad["graph"] = json!(graph);
        assert!(fault_of(&bad).message.contains(says), "{graph}");
    }
    bad = good;
    bad["api"] = json!("v2");
    assert_eq!(fault_of(&bad).key.as_deref(), Some("patch.image"));
}

#[test]
fn models_may_have_graphs_and_places_of_their_own() {
    let options = json!({
        "graphs": {
            "a": r#"{"1": {"inputs": {"text": ""}}}"#,
            "b": {"graph": {"2": {"inputs": {"text": ""}}}, "patch": {"prompt": "2.inputs.text"}},
        },
        "patch": {"prompt": "1.inputs.text"},
    });
    let adapter = adapter("comfyui", &options);
    for (model, node) in [("a", "1"), ("b", "2")] {
        let call = adapter.start(&video(model)).unwrap();
        let graph = &json_of(&call)["prompt"];
        assert_eq!(graph[node]["inputs"]["text"], "a lighthouse in a storm");
    }
    assert_eq!(adapter.limits(MediaKind::Video, "c"), None);
    assert_eq!(
        adapter.start(&video("c")).unwrap_err().class,
        ErrorClass::Rejected
    );
}

fn next_step(stage: &'static str, body: &Value) -> Result<AdapterStep, ProviderError> {
    let context = Call::get(stage, "").context();
    let handle = JobHandle(json!({"id": ID}));
    adapter("comfyui", &options()).read_poll(
        &handle,
        &context,
        &ProviderResponse::from_json(200, body),
    )
}

#[test]
fn a_lost_job_is_distinguished_from_a_waiting_one() {
    let step = next_step("history", &json!({})).unwrap();
    assert!(matches!(step, AdapterStep::Next(call) if call.stage == "queue"));
    let waiting = json!({"queue_running": [], "queue_pending": [[4, ID, {}, {}, []]]});
    assert!(matches!(
        next_step("queue", &waiting),
        Ok(AdapterStep::Running { .. })
    ));
    let gone = json!({"queue_running": [[3, "other", {}, {}, []]], "queue_pending": []});
    let step = next_step("queue", &gone).unwrap();
    assert!(matches!(step, AdapterStep::Next(call) if call.stage == "history again"));
    assert_eq!(
        next_step("history again", &json!({})).unwrap_err().class,
        ErrorClass::Lost
    );
    for (stage, body) in [("history", json!([])), ("queue", json!({}))] {
        assert_eq!(
            next_step(stage, &body).unwrap_err().class,
            ErrorClass::Unclear
        );
    }
}

fn end_step(word: &str, outputs: &Value, messages: &Value) -> Result<AdapterStep, ProviderError> {
    let status = json!({"status_str": word, "completed": word == "success", "messages": messages});
    next_step(
        "history",
        &json!({ID: {"outputs": outputs, "status": status}}),
    )
}

#[test]
fn the_video_is_found_under_any_key() {
    let picture = json!({"filename": "a.png", "subfolder": "", "type": "output"});
    let preview = json!({"filename": "p.mp4", "subfolder": "", "type": "temp"});
    let film = json!({"filename": "v.mp4", "subfolder": "video", "type": "output"});
    for key in ["images", "gifs", "video", "videos"] {
        let outputs =
            json!({"9": {"images": [preview, picture]}, "12": {key: [film], "animated": [true]}});
        let Ok(AdapterStep::Done { outputs }) = end_step("success", &outputs, &json!([])) else {
            panic!("not done");
        };
        let OutputSource::Call(call) = &outputs[0].source else {
            panic!("no call");
        };
        assert_eq!(call.query[0], ("filename".into(), "v.mp4".into()));
        assert_eq!(call.query[1], ("subfolder".into(), "video".into()));
    }
    let nothing = end_step(
        "success",
        &json!({"9": {"images": [picture], "text": ["x"]}}),
        &json!([]),
    );
    assert_eq!(nothing.unwrap_err().class, ErrorClass::Failed);
}

#[test]
fn failures_are_classified() {
    let events = |event: &str, says: &str| json!([["execution_start", {}], [event, {"node_type": "KSampler", "exception_message": says, "exception_type": "RuntimeError"}]]);
    let class = |messages: &Value| end_step("error", &json!({}), messages).unwrap_err().class;
    assert_eq!(
        class(&events("execution_error", "out of memory")),
        ErrorClass::Failed
    );
    assert_eq!(
        class(&events("execution_error", "content_policy_violation: no")),
        ErrorClass::Refused
    );
    assert_eq!(
        class(&events("execution_interrupted", "")),
        ErrorClass::Lost
    );
    assert_eq!(class(&json!([])), ErrorClass::Failed);
    let error = end_step(
        "error",
        &json!({}),
        &events("execution_error", "out of memory"),
    )
    .unwrap_err();
    assert_eq!(error.message, "KSampler: out of memory");
    assert!(matches!(
        end_step("pondering", &json!({}), &json!([])),
        Ok(AdapterStep::Running { unknown_status: Some(word), .. }) if word == "pondering"
    ));
}

#[test]
fn a_submission_that_is_not_taken_says_why() {
    let adapter = adapter("comfyui", &options());
    let (order, context) = (order(), Call::get("submit", "").context());
    let class = |status: u16, body: &Value| {
        let answer = ProviderResponse::from_json(status, body);
        adapter
            .read_submission(&order, &context, &answer)
            .unwrap_err()
    };
    let wrong = json!({
        "error": {"type": "prompt_outputs_failed_validation", "message": "Prompt outputs failed validation", "details": "", "extra_info": {}},
        "node_errors": {"10": {"class_type": "LoadImage", "errors": [{"type": "custom_validation_failed", "message": "Custom validation failed for node", "details": "image - Invalid image file: a.png"}]}},
    });
    let error = class(400, &wrong);
    assert_eq!(error.class, ErrorClass::Rejected);
    assert!(error.message.contains("Invalid image file"), "{error}");
    assert_eq!(
        class(200, &json!({"node_errors": wrong["node_errors"]})).class,
        ErrorClass::Rejected
    );
    assert_eq!(class(200, &json!({})).class, ErrorClass::Unclear);
    assert_eq!(class(500, &json!({})).class, ErrorClass::Unclear);
    let refused = json!({"error": {"type": "content_policy_violation", "message": "no"}});
    assert_eq!(class(400, &refused).class, ErrorClass::Refused);
}

#[test]
fn only_the_newer_cancellation_proves_anything() {
    let handle = JobHandle(json!({"id": ID}));
    let accepted = ProviderResponse::from_json(200, &json!({}));
    let newer = adapter("comfyui", &options());
    assert!(newer.confirms_cancellation(&handle, &accepted));
    let mut options = options();
    options["cancel"] = json!("queue");
    let older = adapter("comfyui", &options);
    assert_eq!(
        json_of(&older.cancel(&handle).unwrap()),
        &json!({"delete": [ID]})
    );
    assert!(!older.confirms_cancellation(&handle, &accepted));
}

#[test]
fn the_jobs_api_is_read() {
    let mut options = without(&options(), "/patch/image");
    options["api"] = json!("v2");
    let adapter = adapter("comfyui", &options);
    let order = video("wan");
    let call = adapter.start(&order).unwrap();
    assert!(json_of(&call)["workflow"]["6"].is_object());
    assert_eq!(
        call.headers,
        [("idempotency-key".into(), order.idempotency_key.clone())]
    );
    let handle = JobHandle(json!({"id": "job_1"}));
    let next_step = |status: u16, body: &Value| {
        let context = adapter.poll(&handle).unwrap().context();
        adapter.read_poll(
            &handle,
            &context,
            &ProviderResponse::from_json(status, body),
        )
    };
    for word in ["queued", "running", "canceling"] {
        let step = next_step(200, &json!({"status": word, "progress": {"value": 0.5}}));
        assert!(matches!(
            step,
            Ok(AdapterStep::Running {
                progress: Some(50),
                ..
            })
        ));
    }
    for (word, code, class) in [
        ("failed", "execution_error", ErrorClass::Failed),
        ("failed", "content_policy_violation", ErrorClass::Refused),
        ("canceled", "", ErrorClass::Lost),
        ("expired", "", ErrorClass::Lost),
        ("succeeded", "", ErrorClass::Failed),
    ] {
        let body = json!({"status": word, "outputs": [], "error": {"code": code, "message": "x"}});
        assert_eq!(next_step(200, &body).unwrap_err().class, class, "{word}");
    }
    assert_eq!(
        next_step(404, &json!({})).unwrap_err().class,
        ErrorClass::Missing
    );
    for url in ["https://cdn.test/v.mp4?sig=1", "/files/v.mp4"] {
        let body = json!({"status": "succeeded", "outputs": [{"type": "image", "url": "/p.png"}, {"type": "video", "url": url}]});
        let Ok(AdapterStep::Done { outputs }) = next_step(200, &body) else {
            panic!("not done");
        };
        assert_eq!(
            matches!(outputs[0].source, OutputSource::Call(_)),
            url.starts_with('/')
        );
    }
    let reuse = json!({"error": {"code": "idempotency_key_reuse", "message": "used"}});
    let error = adapter.read_submission(
        &order,
        &call.context(),
        &ProviderResponse::from_json(422, &reuse),
    );
    assert_eq!(error.unwrap_err().class, ErrorClass::Unclear);
}

#[test]
fn a_lost_job_is_found_by_the_id_that_it_was_given() {
    let comfy = adapter("comfyui", &options());
    let mut order = video("wan");
    assert!(comfy.find(&order, since()).is_none());
    order.idempotency_key = ID.into();
    let ended = json!({ID: {"outputs": {}}});
    let lookup = look_up(comfy.as_ref(), &order, 200, &ended).unwrap();
    assert_eq!(ids(&lookup), [ID]);
    let queue = look_up(comfy.as_ref(), &order, 200, &json!({})).unwrap();
    let context = queue.next.unwrap().context();
    let answer = |body: Value| ProviderResponse::from_json(200, &body);
    let waiting = json!({"queue_running": [], "queue_pending": [[1, ID, {}]]});
    let lookup = comfy.read_lookup(&order, since(), &context, &answer(waiting));
    assert_eq!(ids(&lookup.unwrap()), [ID]);
    let empty = json!({"queue_running": [], "queue_pending": []});
    let again = comfy
        .read_lookup(&order, since(), &context, &answer(empty))
        .unwrap();
    let context = again.next.unwrap().context();
    let last = comfy
        .read_lookup(&order, since(), &context, &answer(json!({})))
        .unwrap();
    assert!(last.jobs.is_empty() && last.next.is_none());
    assert!(
        comfy
            .read_lookup(&order, since(), &context, &answer(json!([])))
            .is_err()
    );
}
