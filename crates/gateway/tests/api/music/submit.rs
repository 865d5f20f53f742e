//! `POST /{brand}/submit/music` and its stems.

use mediagate_config::SubmitBody;
use mediagate_core::domain::keys::NewKey;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::gateway::upload;
use crate::support::spec::{assert_clip, assert_task_record};
use crate::support::{Client, TestGateway, sound};

const PATH: &str = "/musicgen/submit/music";

/// One unit of 24-bit audio.
const UNIT: f32 = 1.0 / 8_388_608.0;

pub(crate) async fn samples(client: &Client, address: &Value) -> stems::Audio {
    let file = client.without_key().get(address.as_str().unwrap()).await;
    assert_eq!(
        (file.status, file.header("content-type")),
        (200, Some("audio/flac"))
    );
    let decoded = stems::decode(&file.bytes, &stems::DecodeLimits::default()).unwrap();
    assert_eq!(decoded.format, stems::AudioFormat::Flac);
    decoded.audio
}

/// Asserts that the stems add up to the source, to within half a unit for each stem
/// or two units, whichever is more.
pub(crate) async fn assert_sum(client: &Client, source: &Value, clips: &[Value]) {
    let source = samples(client, &source["audio_url"]).await;
    let mut sum = vec![vec![0.0_f32; source.frames()]; source.channels().len()];
    for clip in clips {
        let stem = samples(client, &clip["audio_url"]).await;
        assert_eq!(
            (stem.rate(), stem.frames()),
            (source.rate(), source.frames())
        );
        assert!(stem.peak() > 0.0 || clip["title"].as_str().unwrap().contains("Other"));
        for (sum, stem) in sum.iter_mut().zip(stem.channels()) {
            for (sum, sample) in sum.iter_mut().zip(stem) {
                *sum += sample;
            }
        }
    }
    let pairs = sum.iter().flatten().zip(source.channels().iter().flatten());
    let worst = pairs.fold(0.0_f32, |worst, (a, b)| worst.max((a - b).abs()));
    #[expect(clippy::cast_precision_loss, reason = "a handful of stems")]
    let units = (clips.len() as f32 / 2.0).max(2.0);
    assert!(worst <= units * UNIT, "off by {} units", worst / UNIT);
}

#[tokio::test]
async fn two_stems_come_complete_and_sum_to_the_source() {
    let gateway = TestGateway::start().await;
    let source = gateway.upload("Night Song").await;
    let source_id = source["id"].as_str().unwrap();
    let answer = gateway
        .post(
            PATH,
            &json!({"task": "gen_stem", "continue_clip_id": source_id}),
        )
        .await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    let record = answer.ok();
    assert_task_record(&record);
    assert_eq!(record["id"], task);
    assert!(
        matches!(record["status"].as_str(), Some("queued" | "streaming")),
        "{record}"
    );
    assert_eq!(record["batch_size"], 2);
    let metadata = &record["metadata"];
    assert_eq!(metadata["task"], "gen_stem");
    assert_eq!(metadata["type"], "gen");
    assert_eq!(metadata["stem_task"], "two");
    assert_eq!(metadata["stem_type_id"], 91);
    assert_eq!(metadata["stem_from_id"], source_id);
    assert_eq!(metadata["edited_clip_id"], source_id);
    assert_eq!(metadata["history"][0]["id"], source_id);

    assert_eq!(gateway.finished(&task).await["status"], "succeeded");
    let finished_record = gateway.get(&format!("/musicgen/tasks/{task}")).await.ok();
    assert_task_record(&finished_record);
    assert_eq!(finished_record["status"], "complete");
    let clips = finished_record["clips"].as_array().unwrap();
    let expected = [
        ("Vocals", "Night Song (Vocals)"),
        ("Instrumental", "Night Song (Instrumental)"),
    ];
    for (clip, (group, title)) in clips.iter().zip(expected) {
        assert_eq!(clip["status"], "complete");
        assert_eq!(clip["entity_type"], "song_schema");
        assert_eq!(clip["title"], title);
        assert_eq!(clip["model_name"], "stems-dsp-1");
        assert_eq!(clip["metadata"]["stem_type_group_name"], group);
        assert_eq!(clip["metadata"]["stem_from_id"], source_id);
        assert_eq!(clip["metadata"]["stem_task"], "two");
        assert_eq!(clip["metadata"]["is_remix"], true);
        assert_eq!(clip["metadata"]["duration"], 2.0);
        assert_eq!(clip["handle"], "default");
        for picture in ["image_url", "image_large_url", "avatar_image_url"] {
            let picture = gateway
                .without_key()
                .get(clip[picture].as_str().unwrap())
                .await;
            assert_eq!(
                (picture.status, picture.header("content-type")),
                (200, Some("image/png"))
            );
            assert_eq!(&picture.bytes[1..4], b"PNG");
        }
    }
    assert_eq!(
        record["clips"]
            .as_array()
            .unwrap()
            .iter()
            .map(|clip| &clip["id"])
            .collect::<Vec<_>>(),
        clips.iter().map(|clip| &clip["id"]).collect::<Vec<_>>(),
        "the ids are known from the start"
    );
    assert_sum(&gateway, &source, clips).await;

    // A stem is a clip like any other, and `task_id` names where it came from.
    let stem = &clips[1]["id"];
    let body = json!({"task": "gen_stem", "continue_clip_id": stem, "task_id": task, "stem_type_group_name": "bass", "title": "Low"});
    let second_record = gateway.post(PATH, &body).await.ok();
    assert_eq!(second_record["metadata"]["stem_type_group_name"], "bass");
    let finished_record = gateway
        .finished(second_record["id"].as_str().unwrap())
        .await;
    let titles: Vec<&Value> = finished_record["output"]["clips"]
        .as_array()
        .unwrap()
        .iter()
        .map(|clip| &clip["title"])
        .collect();
    assert_eq!(titles, ["Low (Bass)", "Low (No Bass)"]);
    gateway.stop().await;
}

#[tokio::test]
async fn twelve_makes_every_group_of_the_model_and_the_remainder() {
    let gateway = TestGateway::start().await;
    let source = upload(&gateway, "Loud", sound::wav(3, 5)).await;
    // As clients of the original service send it.
    let body = json!({"task": "gen_stem", "generation_type": "TEXT", "title": "", "mv": "chirp-auk", "prompt": "",
        "make_instrumental": true, "task_id": "", "continue_clip_id": source["id"], "continue_at": null,
        "stem_type_id": 91, "stem_type_group_name": "Twelve", "stem_task": "twelve"});
    let record = gateway.post(PATH, &body).await.ok();
    assert_task_record(&record);
    assert_eq!(record["batch_size"], 4);
    assert_eq!(record["metadata"]["stem_type_group_name"], "Twelve");
    assert_eq!(record["metadata"]["generation_type"], "TEXT");
    assert_eq!(record["metadata"]["make_instrumental"], true);
    let task = record["id"].as_str().unwrap();
    assert_eq!(gateway.finished(task).await["status"], "succeeded");
    let finished_record = gateway.get(&format!("/musicgen/tasks/{task}")).await.ok();
    let clips = finished_record["clips"].as_array().unwrap();
    let groups: Vec<&Value> = clips
        .iter()
        .map(|clip| &clip["metadata"]["stem_type_group_name"])
        .collect();
    assert_eq!(groups, ["Vocals", "Drums", "Bass", "Other"]);
    assert!(
        clips
            .iter()
            .all(|clip| clip["metadata"]["stem_type_id"] == 91)
    );
    assert_sum(&gateway, &source, clips).await;
    gateway.stop().await;
}

#[tokio::test]
async fn group_names_are_compared_loosely_and_impossible_ones_rejected() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let source = gateway.upload("Song").await;
    let submit = async |extra: Value| {
        let mut body = json!({"task": "gen_stem", "continue_clip_id": source["id"]});
        body.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        gateway.post(PATH, &body).await
    };
    for (name, groups) in [
        ("drums", ["Drums", "No Drums"]),
        (" BASS ", ["Bass", "No Bass"]),
        ("Vocals", ["Vocals", "Instrumental"]),
        ("instrumental", ["Instrumental", "Vocals"]),
        ("Two", ["Vocals", "Instrumental"]),
        ("Twelve", ["Vocals", "Instrumental"]),
        ("", ["Vocals", "Instrumental"]),
    ] {
        let record = submit(json!({"stem_type_group_name": name, "stem_type_id": 91}))
            .await
            .ok();
        assert_task_record(&record);
        let group_of = |n: usize| {
            record["clips"][n]["metadata"]["stem_type_group_name"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!([group_of(0), group_of(1)], groups, "{name:?}");
        for clip in record["clips"].as_array().unwrap() {
            assert_eq!(clip["status"], "queued");
            assert_eq!(
                (&clip["audio_url"], &clip["image_url"], &clip["video_url"]),
                (&json!(""), &json!(""), &json!(""))
            );
        }
    }
    for impossible in ["Guitar", "backing vocals", "Choir", "FX"] {
        for stem_task in ["two", "twelve"] {
            let answer =
                submit(json!({"stem_type_group_name": impossible, "stem_task": stem_task})).await;
            answer
                .refused(400, "unsupported_value")
                .on_param("stem_type_group_name");
            assert!(
                answer.message().contains("Vocals, Drums, Bass"),
                "{}",
                answer.message()
            );
        }
    }
    for mv in ["chirp-v4", "chirp-auk-turbo", "stems-dsp-1", ""] {
        let record = submit(json!({"mv": mv})).await.ok();
        assert_eq!(record["clips"][0]["model_name"], "stems-dsp-1");
    }
    submit(json!({"mv": "nobody-1"}))
        .await
        .refused(404, "model_not_found")
        .on_param("mv");
    submit(json!({"mv": "animatic-1"}))
        .await
        .refused(400, "unsupported_value")
        .on_param("mv");
    gateway.stop().await;
}

#[tokio::test]
async fn wrong_fields_are_named() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let source = gateway.upload("Song").await;
    let cases = [
        ("task", json!(null), "missing_field"),
        ("task", json!("cover"), "unsupported_value"),
        ("task", json!(1), "invalid_type"),
        ("continue_clip_id", json!(null), "missing_field"),
        ("continue_clip_id", json!(""), "missing_field"),
        ("continue_clip_id", json!("x"), "invalid_value"),
        ("continue_clip_id", json!(7), "invalid_type"),
        ("task_id", json!("x"), "invalid_value"),
        ("task_id", json!(source["id"]), "invalid_value"),
        ("stem_task", json!("three"), "invalid_value"),
        ("stem_task", json!(2), "invalid_type"),
        ("stem_type_id", json!(90), "invalid_value"),
        ("stem_type_id", json!("91"), "invalid_type"),
        ("stem_type_group_name", json!(1), "invalid_type"),
        ("mv", json!([]), "invalid_type"),
        ("title", json!("x".repeat(201)), "invalid_value"),
        ("title", json!("nul\u{0}"), "invalid_value"),
        ("generation_type", json!(1), "invalid_type"),
        ("make_instrumental", json!("yes"), "invalid_type"),
    ];
    for (field, value, code) in cases {
        let mut body = json!({"task": "gen_stem", "continue_clip_id": source["id"]});
        body[field] = value;
        gateway
            .post(PATH, &body)
            .await
            .refused(400, code)
            .on_param(field);
    }
    let answer = gateway
        .post(
            PATH,
            &json!({"task": "cover", "continue_clip_id": source["id"]}),
        )
        .await;
    assert!(
        answer.message().contains("gen_stem"),
        "{}",
        answer.message()
    );
    let answer = gateway.post(PATH, &json!({"stem_task": 1})).await;
    for field in ["task:", "continue_clip_id:", "stem_task:"] {
        assert!(answer.message().contains(field), "{}", answer.message());
    }
    gateway.stop().await;
}

#[tokio::test]
async fn only_a_complete_clip_of_the_account_can_be_separated() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let source = gateway.upload("Song").await;
    let id = source["id"].as_str().unwrap();
    let order = |clip: &Value| json!({"task": "gen_stem", "continue_clip_id": clip});
    let unknown = json!("0193a000-0000-7000-8000-000000000099");
    gateway
        .post(PATH, &order(&unknown))
        .await
        .refused(404, "clip_not_found")
        .on_param("continue_clip_id");
    let stranger = gateway.caller("stranger", NewKey::default()).await;
    stranger
        .post(PATH, &order(&source["id"]))
        .await
        .refused(404, "clip_not_found")
        .on_param("continue_clip_id");

    let record = gateway.separate(id, "two").await;
    let queued = &record["clips"][0]["id"];
    gateway
        .post(PATH, &order(queued))
        .await
        .refused(409, "clip_not_ready")
        .on_param("continue_clip_id");
    let claimed = gateway.claim().await;
    let streaming = gateway
        .get(&format!("/musicgen/tasks/{}", claimed.id))
        .await
        .ok();
    assert_eq!(
        (&streaming["status"], &streaming["clips"][0]["status"]),
        (&json!("streaming"), &json!("streaming"))
    );
    gateway
        .post(PATH, &order(queued))
        .await
        .refused(409, "clip_not_ready");
    gateway
        .fail(
            claimed.id,
            mediagate_model::error::ErrorCode::GenerationFailed,
        )
        .await;
    let failed = gateway
        .get(&format!("/musicgen/tasks/{}", claimed.id))
        .await
        .ok();
    assert_task_record(&failed);
    assert_eq!(
        (&failed["status"], &failed["clips"][0]["status"]),
        (&json!("error"), &json!("error"))
    );
    assert_eq!(failed["metadata"]["error_type"], "generation_failed");
    gateway
        .post(PATH, &order(queued))
        .await
        .refused(409, "clip_not_ready");

    let trashed = gateway.delete(&format!("/musicgen/clips/{id}")).await.ok();
    assert_clip(&trashed);
    gateway
        .post(PATH, &order(&source["id"]))
        .await
        .refused(409, "clip_not_ready");
    gateway
        .post(&format!("/musicgen/clips/{id}/restore"), &json!({}))
        .await
        .ok();
    gateway.post(PATH, &order(&source["id"])).await.ok();
    gateway.stop().await;
}

/// `submit_body = "job"`: the response that clients of a Suno-like API expect.
#[tokio::test]
async fn a_submission_may_be_answered_with_the_tasks_id_alone() {
    let builder = TestGateway::builder().without_workers();
    let builder = builder.set(|settings| settings.submit_body = Some(SubmitBody::Job));
    let gateway = builder.start().await;
    let clip = gateway.upload("Ferry").await["id"].clone();
    let body = json!({"task": "gen_stem", "continue_clip_id": clip});
    let send = async || {
        let request = gateway.request(Method::POST, PATH).json(&body);
        gateway.send(request.header("idempotency-key", "k")).await
    };
    let answer = send().await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    let submitted = answer.ok();
    assert_eq!(
        submitted,
        json!({"code": "success", "message": "", "data": task})
    );
    assert_eq!(send().await.ok(), submitted);
    let job = gateway.get(&format!("/musicgen/fetch/{task}")).await.ok();
    assert_eq!(job["code"], "success");
    assert_eq!(job["data"]["task_id"], task);
    // Errors keep their form.
    let refused = gateway.post(PATH, &json!({"task": "gen_stem"})).await;
    refused.refused(400, "missing_field");
    gateway.stop().await;
}
