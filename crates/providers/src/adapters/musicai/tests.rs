//! Tests of the `musicai` adapter.

use super::*;
use crate::adapters::tests::{adapter, ids, look_up, since, stems, video};
use crate::port::{CallEffect, OutputKind};
use crate::port::{CallTarget, RequestBody};

#[test]
fn the_recording_goes_to_the_bucket_and_then_to_the_workflow() {
    let adapter = adapter("musicai", &json!({"input": "Input 1"}));
    let order = stems("my-stems");
    let next = |call: &Call, body: Value| {
        let answer = ProviderResponse::from_json(200, &body);
        match adapter
            .read_submission(&order, &call.context(), &answer)
            .unwrap()
        {
            AdapterStep::Next(call) => *call,
            other => panic!("{other:?}"),
        }
    };
    let grant = adapter.start(&order).unwrap();
    let put = next(
        &grant,
        json!({"uploadUrl": "https://bucket.example/up", "downloadUrl": "https://bucket.example/down"}),
    );
    assert_eq!(
        put.target,
        CallTarget::Address("https://bucket.example/up".into())
    );
    assert!(!put.with_credential);
    assert!(matches!(&put.body, RequestBody::Bytes { bytes, .. } if &bytes[..] == b"fLaC"));
    let submit = next(&put, json!(null));
    assert_eq!(submit.effect, CallEffect::Submission);
    let RequestBody::Json(body) = &submit.body else {
        panic!("no JSON");
    };
    assert_eq!(
        *body,
        json!({"name": "0197-key", "workflow": "my-stems", "params": {"Input 1": "https://bucket.example/down"}})
    );
    let submitted = |status, body: Value| {
        adapter.read_submission(
            &order,
            &submit.context(),
            &ProviderResponse::from_json(status, &body),
        )
    };
    assert!(matches!(
        submitted(200, json!({"id": "j-1"})),
        Ok(AdapterStep::Submitted { handle, .. }) if handle.text("id") == "j-1"
    ));
    for (status, class) in [
        (200, ErrorClass::Unclear),
        (400, ErrorClass::Rejected),
        (401, ErrorClass::Credentials),
        (402, ErrorClass::Account),
        (429, ErrorClass::RateLimited),
        (500, ErrorClass::Unclear),
    ] {
        assert_eq!(
            submitted(status, json!({})).unwrap_err().class,
            class,
            "{status}"
        );
    }
    assert_eq!(
        adapter.start(&video("x")).unwrap_err().class,
        ErrorClass::Rejected
    );
}

fn poll(status: u16, body: &Value) -> Result<AdapterStep, ProviderError> {
    let adapter = adapter("musicai", &json!({}));
    let handle = JobHandle(json!({"id": "j-1"}));
    let context = adapter.poll(&handle).unwrap().context();
    adapter.read_poll(
        &handle,
        &context,
        &ProviderResponse::from_json(status, body),
    )
}

#[test]
fn only_known_words_end_a_job() {
    for word in ["QUEUED", "STARTED"] {
        let step = poll(200, &json!({"status": word})).unwrap();
        assert!(
            matches!(
                step,
                AdapterStep::Running {
                    unknown_status: None,
                    ..
                }
            ),
            "{word}"
        );
    }
    let step = poll(200, &json!({"status": "PAUSED"})).unwrap();
    assert!(
        matches!(step, AdapterStep::Running { unknown_status: Some(word), .. } if word == "PAUSED")
    );
    for error in [
        json!({"code": "E1", "title": "Bad", "message": "no sound"}),
        json!("no sound"),
    ] {
        let failed = poll(200, &json!({"status": "FAILED", "error": error})).unwrap_err();
        assert_eq!(
            (failed.class, failed.message.as_str()),
            (ErrorClass::Failed, "no sound")
        );
    }
    for (status, class) in [
        (404, ErrorClass::Missing),
        (400, ErrorClass::Unclear),
        (429, ErrorClass::RateLimited),
        (500, ErrorClass::Unclear),
    ] {
        assert_eq!(
            poll(status, &json!({})).unwrap_err().class,
            class,
            "{status}"
        );
    }
}

#[test]
fn the_workflows_names_say_what_it_made() {
    let result = json!({"vocals": "https://cdn.example/v.wav", "Instrumental": "https://cdn.example/i.wav",
        "keys": "https://cdn.example/k.wav", "chords": "https://cdn.example/c.json", "tempo": "120", "other": 3});
    let body = json!({"status": "SUCCEEDED", "result": result});
    let AdapterStep::Done { outputs } = poll(200, &body).unwrap() else {
        panic!("not done");
    };
    let mut names: Vec<String> = outputs
        .iter()
        .map(|output| match &output.kind {
            OutputKind::Stem(target) => target.name(),
            other => panic!("{other:?}"),
        })
        .collect();
    names.sort();
    assert_eq!(names, ["Instrumental", "Keyboard", "Vocals"]);
    let empty = poll(
        200,
        &json!({"status": "SUCCEEDED", "result": {"tempo": "120"}}),
    );
    assert_eq!(empty.unwrap_err().class, ErrorClass::Failed);
}

#[test]
fn the_settings_say_what_a_workflow_makes() {
    let limits = |options: Value| match adapter("musicai", &options).limits(MediaKind::Music, "m") {
        Some(ModelLimits::Music(MusicLimits {
            stems: Some(stems), ..
        })) => stems,
        other => panic!("{other:?}"),
    };
    let usual = limits(json!({}));
    assert_eq!(
        usual.groups,
        [StemGroup::Vocals, StemGroup::Drums, StemGroup::Bass]
    );
    assert!(usual.two && usual.full && usual.other && usual.complements.is_empty());
    let two = limits(json!({"stems": ["vocals", "instrumental"]}));
    assert!(!two.full && !two.other);
    assert_eq!(two.complements, [StemGroup::Vocals]);
    let options = json!({"stems": ["kazoo"]});
    let settings = ProviderSettings::new("test", options.as_object().cloned().unwrap());
    assert_eq!(build(&settings).unwrap_err().key.as_deref(), Some("stems"));
}

#[test]
fn removing_a_job_proves_nothing() {
    let adapter = adapter("musicai", &json!({}));
    let handle = JobHandle(json!({"id": "j-1"}));
    assert_eq!(adapter.cancel(&handle).unwrap().method, Method::DELETE);
    assert!(!adapter.confirms_cancellation(&handle, &ProviderResponse::from_json(200, &json!({}))));
}

#[test]
fn a_lost_job_is_found_by_its_name() {
    let adapter = adapter("musicai", &json!({}));
    let order = stems("my-stems");
    let first = adapter.find(&order, since()).unwrap();
    assert!(first.query.iter().all(|(name, _)| name != "page"));
    let all = json!([{"id": "a", "name": "another"}, {"id": "b", "name": "0197-key"}]);
    let lookup = look_up(adapter.as_ref(), &order, 200, &all).unwrap();
    assert_eq!(ids(&lookup), ["b"]);
    let next = lookup.next.unwrap();
    assert!(next.query.contains(&("page".into(), "1".into())));
    let last = look_up(adapter.as_ref(), &order, 200, &json!([])).unwrap();
    assert!(last.next.is_none());
    assert!(adapter.find(&video("x"), since()).is_none());
}
