//! Recipes for songs.

use super::answers::submitted;
use super::*;
use crate::order::SongSpec;

pub(super) const SINGER: &str = r#"
base_url = "https://api.example.com"
[music]
clips   = 2
seconds = { min = 10, max = 240 }
[submit]
path = "/songs"
[submit.body]
style        = "{tags}"
about        = "{prompt}"
words        = "{lyrics}"
avoid        = "{negative_tags}"
length       = "{seconds}"
instrumental = "{instrumental}"
name         = "{title}"
[submit.keep]
id = "/id"
[poll]
path = "/songs/{id}"
[state]
word = "/status"
done = ["done"]
[result]
address = "/songs/*/url"
"#;

fn song(fields: Value) -> Order {
    song_by("m", fields)
}

pub(super) fn song_by(model: &str, fields: Value) -> Order {
    let mut order = stems(model);
    let Value::Object(fields) = fields else {
        panic!("no fields");
    };
    order.work = WorkSpec::Song(SongSpec {
        task: "generate".into(),
        fields,
        uploads: Vec::new(),
    });
    order
}

#[test]
fn songs_are_ordered_and_all_their_clips_taken() {
    let adapter = adapter_of(SINGER).unwrap();
    let Some(ModelLimits::Music(limits)) = adapter.limits(MediaKind::Music, "m") else {
        panic!("no limits");
    };
    assert_eq!(limits.tasks, ["generate"]);
    assert_eq!(
        (limits.songs.clips, limits.songs.seconds),
        (2, Some((10, 240)))
    );
    let fields = ["negative_tags", "seconds", "make_instrumental", "lyrics"];
    assert_eq!(limits.songs.fields.as_deref(), Some(&fields[..]));
    let order =
        song(json!({"prompt": "[Verse] rain", "tags": "blues", "title": "Rain", "seconds": 30}));
    let sent = json!({"style": "blues", "about": "blues", "words": "[Verse] rain", "length": 30,
        "instrumental": false, "name": "Rain"});
    assert_eq!(content(&adapter.start(&order).unwrap().body), sent);
    let Ok(AdapterStep::Submitted { handle, .. }) =
        submitted(adapter.as_ref(), &order, 200, &json!({"id": "1"}))
    else {
        panic!("not submitted");
    };
    let songs = json!([{"url": "https://a.test/1"}, {"url": "https://a.test/2"}, {"url": "https://a.test/3"}]);
    let answer = ProviderResponse::from_json(200, &json!({"status": "done", "songs": songs}));
    let context = adapter.poll(&handle).unwrap().context();
    let AdapterStep::Done { outputs } = adapter.read_poll(&handle, &context, &answer).unwrap()
    else {
        panic!("not done");
    };
    assert_eq!(outputs.len(), 2);
    for output in outputs {
        let OutputKind::Clip(facts) = output.kind else {
            panic!("no clip");
        };
        assert_eq!(
            (facts.title.as_str(), facts.tags.as_str()),
            ("Rain", "blues")
        );
    }
    for (from, to, expected) in [
        ("clips   = 2", "clips = 0", "clips must be from 1 to 10"),
        ("length       = \"{seconds}\"\n", "", "{seconds}"),
        ("{negative_tags}", "{bad_tags}", "negative_tags"),
        (
            "address = \"/songs/*/url\"",
            "",
            "either address or content",
        ),
    ] {
        let (_, message) = fault(&SINGER.replace(from, to));
        assert!(message.contains(expected), "{from}: {message}");
    }
}

/// The shipped recipe of kie.ai, with every variant of the submission and clips with ids.
const SUNO: &str = include_str!("../../../../../../recipes/kie-suno.toml");

fn request_of(adapter: &dyn Adapter, fields: Value) -> (String, Value) {
    let call = adapter.start(&song(fields)).unwrap();
    let body = content(&call.body);
    let CallTarget::Path(path) = call.target else {
        panic!("no path");
    };
    (path, body)
}

#[test]
fn the_songs_fields_select_the_request() {
    let adapter = adapter_of(SUNO).unwrap();
    for (fields, path, has, has_not) in [
        (
            json!({"prompt": "about rain"}),
            "/generate",
            json!({"customMode": false, "prompt": "about rain"}),
            "style",
        ),
        (
            json!({"lyrics": "[Verse] rain"}),
            "/generate",
            json!({"customMode": true, "style": "song", "prompt": "[Verse] rain", "title": "Song"}),
            "negativeTags",
        ),
        (
            json!({"prompt": "[Verse] rain", "tags": "blues"}),
            "/generate",
            json!({"customMode": true, "instrumental": false, "style": "blues", "title": "blues"}),
            "audioId",
        ),
        (
            json!({"prompt": "rain", "make_instrumental": true, "negative_tags": "drums"}),
            "/generate",
            json!({"instrumental": true, "style": "rain", "negativeTags": "drums"}),
            "prompt",
        ),
        (
            json!({"prompt": "[Verse] sun", "tags": "blues", "continue_clip_id": "c", "continue_at": 12.0}),
            "/generate/extend",
            json!({"audioId": "c", "continueAt": 12, "prompt": "[Verse] sun"}),
            "instrumental",
        ),
    ] {
        let (to, body) = request_of(adapter.as_ref(), fields.clone());
        assert_eq!(to, path, "{fields}");
        for (name, value) in has.as_object().unwrap() {
            assert_eq!(body[name], *value, "{fields}: {body}");
        }
        assert!(body.get(has_not).is_none(), "{fields}: {body}");
    }
    let foreign_clip = with_recording("continue_clip_id", json!({"prompt": "sun"}));
    assert_eq!(
        adapter.start(&foreign_clip).unwrap_err().class,
        ErrorClass::Rejected
    );
}

fn with_recording(field: &str, fields: Value) -> Order {
    let mut order = song(fields);
    if let WorkSpec::Song(song) = &mut order.work {
        let WorkSpec::Stems(stems) = stems("m").work else {
            panic!("no recording");
        };
        song.uploads = vec![(field.into(), stems.source)];
    }
    order
}

#[test]
fn a_cover_is_made_of_a_recording_that_was_uploaded() {
    for (base_url, to) in [
        (
            None,
            CallTarget::Address("https://kieai.redpandaai.co/api/file-stream-upload".into()),
        ),
        (
            Some("https://relay.test/v1"),
            CallTarget::Path("/api/file-stream-upload".into()),
        ),
    ] {
        let options = json!({"recipe": SUNO});
        let settings = ProviderSettings {
            base_url: base_url.map(|url| url.parse().unwrap()),
            ..ProviderSettings::new("test", options.as_object().cloned().unwrap())
        };
        let adapter = build(&settings).unwrap();
        let order = with_recording(
            "cover_clip_id",
            json!({"prompt": "[Verse] rain", "tags": "blues"}),
        );
        let upload = adapter.start(&order).unwrap();
        assert_eq!((&upload.target, upload.effect), (&to, CallEffect::Free));
        assert_eq!(content(&upload.body)["fileName"], "0197-key-song.flac");
        let accepted = json!({"code": 200, "data": {"downloadUrl": "https://files.test/1"}});
        let accepted = ProviderResponse::from_json(200, &accepted);
        let Ok(AdapterStep::Next(call)) =
            adapter.read_submission(&order, &upload.context(), &accepted)
        else {
            panic!("no order");
        };
        assert_eq!(
            call.target,
            CallTarget::Path("/generate/upload-cover".into())
        );
        let body = content(&call.body);
        assert_eq!(body["uploadUrl"], "https://files.test/1");
        assert_eq!(
            (&body["customMode"], &body["prompt"]),
            (&json!(true), &json!("[Verse] rain"))
        );
    }
    let mut gone = with_recording("cover_clip_id", json!({"prompt": "rain"}));
    if let WorkSpec::Song(song) = &mut gone.work {
        song.uploads[0].1.file.bytes = bytes::Bytes::new();
    }
    assert_eq!(
        adapter_of(SUNO).unwrap().start(&gone).unwrap_err().class,
        ErrorClass::Rejected
    );
}

#[test]
fn clips_have_the_names_that_the_provider_gives_them() {
    let adapter = adapter_of(SUNO).unwrap();
    let order = song(json!({"prompt": "about rain", "title": "Rain"}));
    let accepted = json!({"code": 200, "data": {"taskId": "t"}});
    let Ok(AdapterStep::Submitted { handle, .. }) =
        submitted(adapter.as_ref(), &order, 200, &accepted)
    else {
        panic!("not submitted");
    };
    let clips = json!([
        {"id": "a", "audioUrl": "https://a.test/1", "title": "Wet", "tags": "blues", "prompt": "[Verse]"},
        {"id": "b", "audioUrl": "https://a.test/2"},
        {"id": "c", "audioUrl": ""},
    ]);
    let done = json!({"code": 200, "data": {"status": "SUCCESS", "response": {"sunoData": clips}}});
    let context = adapter.poll(&handle).unwrap().context();
    let AdapterStep::Done { outputs } = adapter
        .read_poll(&handle, &context, &ProviderResponse::from_json(200, &done))
        .unwrap()
    else {
        panic!("not done");
    };
    let facts: Vec<_> = outputs
        .iter()
        .map(|output| match &output.kind {
            OutputKind::Clip(facts) => {
                [&facts.id, &facts.title, &facts.tags, &facts.prompt].map(String::as_str)
            }
            _ => panic!("no clip"),
        })
        .collect();
    assert_eq!(
        facts,
        [
            ["a", "Wet", "blues", "[Verse]"],
            ["b", "Rain", "", "about rain"]
        ]
    );
}

#[test]
fn fields_missing_in_one_request_are_not_offered() {
    let limits = |text: &str| match adapter_of(text).unwrap().limits(MediaKind::Music, "m") {
        Some(ModelLimits::Music(limits)) => limits.songs.fields.unwrap(),
        _ => panic!("no limits"),
    };
    assert_eq!(
        limits(SUNO),
        ["negative_tags", "make_instrumental", "lyrics"]
    );
    let without_negative_tags = SUNO.replacen("negativeTags = \"{negative_tags}\"\n", "", 1);
    assert_eq!(
        limits(&without_negative_tags),
        ["make_instrumental", "lyrics"]
    );
    for (from, to, expected) in [
        ("when = \"clip\"", "when = \"clop\"", "clop"),
        (
            "when = [\"lyrics\", \"style\"]",
            "when = []",
            "must name at least one value",
        ),
        ("audioId          = \"{clip}\"\n", "", "{clip}"),
        ("address = \"/audioUrl\"", "", "either address or content"),
    ] {
        let (_, message) = fault(&SUNO.replace(from, to));
        assert!(message.contains(expected), "{from}: {message}");
    }
}
