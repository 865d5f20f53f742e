//! `/{brand}/persona/create` and `/{brand}/personas`.

use mediagate_core::domain::keys::NewKey;
use mediagate_model::account::Scope;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::gateway::upload;
use crate::support::spec::{assert_fields, assert_persona};
use crate::support::{Client, TestGateway, sound};

const CREATE: &str = "/musicgen/persona/create";
const BRAND_FIELD: &str = "is_service_persona";

async fn song(gateway: &TestGateway, title: &str) -> Value {
    upload(gateway, title, sound::wav_of(8_000, 1, &vec![900; 20_000])).await
}

#[tokio::test]
async fn an_unknown_field_is_ignored() {
    let mut gateway = TestGateway::builder().without_workers().start().await;
    // The client would otherwise check the request against the document, which lacks the field.
    gateway.client.documented = false;
    let root = song(&gateway, "Root").await;
    let body = json!({"root_clip_id": root["id"], "name": "Night Voice", "extra": {}});
    let persona = gateway.post(CREATE, &body).await.ok();
    assert_persona(&persona, BRAND_FIELD);
    gateway.stop().await;
}

#[tokio::test]
async fn a_persona_has_every_field_and_a_picture() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let root = song(&gateway, "Root").await;
    let other = song(&gateway, "Other").await;
    let body = json!({"root_clip_id": root["id"], "name": "Night Voice", "description": "Low and slow.",
        "clips": [other["id"], root["id"], other["id"]], "is_public": true});
    let persona = gateway.post(CREATE, &body).await.ok();
    assert_persona(&persona, BRAND_FIELD);
    assert_eq!(
        (&persona["name"], &persona["description"]),
        (&json!("Night Voice"), &json!("Low and slow."))
    );
    assert_eq!(
        (&persona["is_public"], &persona["is_public_approved"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(
        (
            &persona["is_owned"],
            &persona["is_trashed"],
            &persona[BRAND_FIELD]
        ),
        (&json!(true), &json!(false), &json!(false))
    );
    assert_eq!(persona["clip_count"], 2);
    let items = persona["persona_clips"].as_array().unwrap();
    assert_eq!(
        (&items[0]["id"], &items[0]["clip"]["id"]),
        (&json!(0), &root["id"])
    );
    assert_eq!(
        (&items[1]["id"], &items[1]["clip"]["id"]),
        (&json!(1), &other["id"])
    );
    assert_eq!(
        persona["clip"]["metadata"]["duration"], 3,
        "20,000 samples at 8 kHz, in whole seconds"
    );
    assert_eq!(
        (&persona["user_handle"], &persona["user_display_name"]),
        (&json!("default"), &json!("Default"))
    );
    for picture in ["image_s3_id", "user_image_url"] {
        let picture = gateway
            .without_key()
            .get(persona[picture].as_str().unwrap())
            .await;
        assert_eq!(
            (picture.status, picture.header("content-type")),
            (200, Some("image/png"))
        );
        image::load_from_memory(&picture.bytes).unwrap();
    }
    let audio = gateway
        .without_key()
        .get(persona["clip"]["audio_url"].as_str().unwrap())
        .await;
    assert_eq!(audio.status, 200);

    let path = format!("/musicgen/personas/{}", persona["id"].as_str().unwrap());
    let reread = gateway.get(&path).await.ok();
    assert_persona(&reread, BRAND_FIELD);
    assert_eq!(
        reread["image_s3_id"], persona["image_s3_id"],
        "the address is the same all day"
    );
    gateway.stop().await;
}

/// The strings of a record that tell something about a clip.
fn words_of(clip: &Value) -> Vec<&Value> {
    let fields = [
        "audio_url",
        "image_url",
        "image_large_url",
        "video_url",
        "title",
    ];
    let fields = fields.map(|field| &clip[field]).into_iter();
    let metadata = ["tags", "prompt"].map(|field| &clip["metadata"][field]);
    fields.chain(metadata).collect()
}

#[tokio::test]
async fn a_key_that_may_not_read_learns_nothing_of_the_clips() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let root = song(&gateway, "Secret Root").await;
    let other = song(&gateway, "Secret Other").await;
    let with_scopes = |scopes: &[Scope]| NewKey {
        scopes: scopes.to_vec(),
        ..NewKey::default()
    };
    let creator = gateway
        .caller("default", with_scopes(&[Scope::PersonaCreate]))
        .await;
    let body =
        json!({"root_clip_id": root["id"], "name": "Voice", "clips": [root["id"], other["id"]]});
    let create = async |client: &Client, key: &str| {
        let request = client.request(Method::POST, CREATE).json(&body);
        client.send(request.header("idempotency-key", key)).await
    };
    // The owner's answer is not repeated to the other key.
    let full = create(&gateway, "owner").await.ok();
    assert_eq!(full["clip"]["title"], "Secret Root");
    let refused = create(&creator, "owner").await;
    refused.refused(403, "insufficient_scope");
    assert!(!refused.whole_text().contains("Secret"));
    let answer = create(&creator, "creator").await;
    let repeated = create(&creator, "creator").await;
    assert_eq!(repeated.header("idempotent-replayed"), Some("true"));
    assert_eq!(repeated.whole_text(), answer.whole_text());
    let text = answer.whole_text();
    let persona = answer.ok();
    assert_persona(&persona, BRAND_FIELD);
    assert!(!text.contains("Secret"), "{text}");
    let items = persona["persona_clips"].as_array().unwrap();
    assert_eq!(items.len(), 2);
    for clip in items
        .iter()
        .map(|item| &item["clip"])
        .chain([&persona["clip"]])
    {
        assert!(words_of(clip).iter().all(|word| **word == ""), "{clip}");
        assert_eq!(clip["metadata"]["duration"], 0);
        assert_eq!(clip["status"], "complete");
    }
    // The picture was made by the request.
    let picture = persona["image_s3_id"].as_str().unwrap();
    assert_eq!(gateway.without_key().get(picture).await.status, 200);
    // A key that may remove but not read.
    let remover = gateway
        .caller("default", with_scopes(&[Scope::TasksCancel]))
        .await;
    let path = format!("/musicgen/clips/{}", root["id"].as_str().unwrap());
    let restore = format!("{path}/restore");
    let persona_path = format!("/musicgen/personas/{}", persona["id"].as_str().unwrap());
    for answer in [
        remover.delete(&persona_path).await,
        remover.delete(&path).await,
        remover.post(&restore, &json!({})).await,
    ] {
        let text = answer.whole_text();
        let record = answer.ok();
        let leaks = text.contains("Secret") || text.contains("/media/");
        assert!(!leaks && record["id"].is_string(), "{text}");
    }
    let restored = gateway.get(&path).await.ok();
    assert_eq!(restored["title"], "Secret Root");
    gateway.stop().await;
}

#[tokio::test]
async fn only_the_root_clip_and_the_name_are_needed() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let root = song(&gateway, "Root").await;
    let body = json!({"root_clip_id": root["id"], "name": "V", "description": null, "clips": null, "is_public": null});
    let persona = gateway.post(CREATE, &body).await.ok();
    assert_persona(&persona, BRAND_FIELD);
    assert_eq!(
        (
            &persona["description"],
            &persona["clip_count"],
            &persona["is_public"]
        ),
        (&json!(""), &json!(1), &json!(false))
    );
    gateway.stop().await;
}

#[tokio::test]
async fn twenty_clips_can_be_listed_beside_the_root() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let root = song(&gateway, "Root").await;
    let mut clips = Vec::new();
    for number in 1..=20 {
        let clip = song(&gateway, &format!("Song {number}")).await;
        clips.push(clip["id"].clone());
    }
    let body = json!({"root_clip_id": root["id"], "name": "Voice", "clips": clips});
    let answer = gateway.post("/musicgen/persona/create", &body).await;
    let persona = answer.ok();
    assert_eq!(persona["persona_clips"].as_array().unwrap().len(), 21);
    gateway.stop().await;
}

#[tokio::test]
async fn wrong_fields_are_named() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let root = song(&gateway, "Root").await;
    let id = root["id"].as_str().unwrap();
    let unknown = "0193a000-0000-7000-8000-000000000099";
    let cases = [
        (
            "root_clip_id",
            json!(null),
            400,
            "missing_field",
            "root_clip_id",
        ),
        (
            "root_clip_id",
            json!(""),
            400,
            "missing_field",
            "root_clip_id",
        ),
        (
            "root_clip_id",
            json!("x"),
            400,
            "invalid_value",
            "root_clip_id",
        ),
        (
            "root_clip_id",
            json!(unknown),
            404,
            "clip_not_found",
            "root_clip_id",
        ),
        ("name", json!(null), 400, "missing_field", "name"),
        ("name", json!(""), 400, "invalid_value", "name"),
        ("name", json!("  "), 400, "invalid_value", "name"),
        ("name", json!("x".repeat(81)), 400, "invalid_value", "name"),
        ("name", json!("\u{0}"), 400, "invalid_value", "name"),
        ("name", json!(7), 400, "invalid_type", "name"),
        (
            "description",
            json!("x".repeat(1001)),
            400,
            "invalid_value",
            "description",
        ),
        ("description", json!([]), 400, "invalid_type", "description"),
        ("clips", json!([]), 400, "invalid_value", "clips"),
        ("clips", json!(vec![id; 21]), 400, "invalid_value", "clips"),
        ("clips", json!("x"), 400, "invalid_type", "clips"),
        ("clips", json!([id, "x"]), 400, "invalid_value", "clips[1]"),
        ("clips", json!([1]), 400, "invalid_type", "clips[0]"),
        (
            "clips",
            json!([id, unknown]),
            404,
            "clip_not_found",
            "clips[1]",
        ),
        ("is_public", json!("yes"), 400, "invalid_type", "is_public"),
    ];
    for (field, value, status, code, param) in cases {
        let mut body = json!({"root_clip_id": id, "name": "Voice"});
        body[field] = value;
        gateway
            .post(CREATE, &body)
            .await
            .refused(status, code)
            .on_param(param);
    }
    let long = json!({"root_clip_id": id, "name": "ü".repeat(80), "description": "ü".repeat(1000)});
    gateway.post(CREATE, &long).await.ok();
    gateway.stop().await;
}

#[tokio::test]
async fn clips_must_be_complete_and_the_callers_own() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let root = song(&gateway, "Root").await;
    let id = root["id"].as_str().unwrap();
    let queued = gateway.separate(id, "two").await["clips"][0]["id"].clone();
    let body =
        |root: &Value, clips: Value| json!({"root_clip_id": root, "name": "Voice", "clips": clips});
    gateway
        .post(CREATE, &body(&queued, Value::Null))
        .await
        .refused(409, "clip_not_ready")
        .on_param("root_clip_id");
    gateway
        .post(CREATE, &body(&root["id"], json!([queued])))
        .await
        .refused(409, "clip_not_ready")
        .on_param("clips[0]");
    let stranger = gateway.caller("stranger", NewKey::default()).await;
    stranger
        .post(CREATE, &body(&root["id"], Value::Null))
        .await
        .refused(404, "clip_not_found")
        .on_param("root_clip_id");
    gateway.delete(&format!("/musicgen/clips/{id}")).await.ok();
    gateway
        .post(CREATE, &body(&root["id"], Value::Null))
        .await
        .refused(409, "clip_not_ready");
    gateway.stop().await;
}

#[tokio::test]
async fn personas_are_listed_and_deleted_and_strangers_see_none() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let root = song(&gateway, "Root").await;
    let mut ids = Vec::new();
    for number in 0..3 {
        let body = json!({"root_clip_id": root["id"], "name": format!("Voice {number}")});
        ids.push(
            gateway.post(CREATE, &body).await.ok()["id"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    let page = gateway.get("/musicgen/personas?limit=2").await.ok();
    assert_eq!(
        (&page["object"], &page["has_more"], &page["last_id"]),
        (&json!("list"), &json!(true), &json!(ids[1]))
    );
    for persona in page["data"].as_array().unwrap() {
        assert_persona(persona, BRAND_FIELD);
    }
    let second_page = gateway
        .get(&format!("/musicgen/personas?after={}", ids[1]))
        .await
        .ok();
    assert_eq!(second_page["data"][0]["id"], ids[0]);

    let stranger = gateway.caller("stranger", NewKey::default()).await;
    let path = format!("/musicgen/personas/{}", ids[0]);
    stranger.get(&path).await.refused(404, "persona_not_found");
    stranger
        .delete(&path)
        .await
        .refused(404, "persona_not_found");
    assert_eq!(
        stranger.get("/musicgen/personas").await.ok()["data"],
        json!([])
    );

    let deleted = gateway.delete(&path).await.ok();
    assert_persona(&deleted, BRAND_FIELD);
    assert_eq!(deleted["is_trashed"], true);
    gateway.get(&path).await.refused(404, "persona_not_found");
    gateway
        .delete(&path)
        .await
        .refused(404, "persona_not_found");
    gateway
        .get("/musicgen/personas/x")
        .await
        .refused(404, "persona_not_found");
    assert_eq!(
        gateway.get("/musicgen/personas").await.ok()["data"]
            .as_array()
            .unwrap()
            .len(),
        2
    );

    // A persona outlives the trash: its record still shows the clip.
    gateway
        .delete(&format!("/musicgen/clips/{}", root["id"].as_str().unwrap()))
        .await
        .ok();
    let persona = gateway
        .get(&format!("/musicgen/personas/{}", ids[2]))
        .await
        .ok();
    assert_eq!(persona["clip"]["is_trashed"], true);
    gateway.stop().await;
}

#[tokio::test]
async fn the_brand_in_path_and_field_is_configuration() {
    let gateway = TestGateway::builder()
        .without_workers()
        .set(|settings| {
            settings.brand = Some("acme".into());
            settings.persona_brand_field = Some("is_acme_persona".into());
            settings.personas.auto_approve = Some(true);
        })
        .start()
        .await;
    let form = reqwest::multipart::Form::new().part(
        "file",
        reqwest::multipart::Part::bytes(sound::wav_of(8_000, 1, &[900; 8_000])),
    );
    let root = gateway
        .send(
            gateway
                .request(reqwest::Method::POST, "/acme/uploads/audio")
                .multipart(form),
        )
        .await
        .ok();
    let body = json!({"root_clip_id": root["id"], "name": "Voice", "is_public": true});
    let persona = gateway.post("/acme/persona/create", &body).await.ok();
    assert_persona(&persona, "is_acme_persona");
    assert!(persona.get(BRAND_FIELD).is_none());
    assert_eq!(persona["is_public_approved"], true);
    let listed = gateway.get("/acme/personas").await.ok();
    assert_persona(&listed["data"][0], "is_acme_persona");
    gateway
        .post(CREATE, &body)
        .await
        .refused(404, "route_not_found");
    let document = gateway.get("/openapi.json").await.ok();
    assert!(document["paths"]["/acme/persona/create"].is_object());
    let schema = &document["components"]["schemas"]["PersonaRecord"];
    assert!(schema["properties"]["is_acme_persona"].is_object());
    assert!(
        schema["required"]
            .as_array()
            .unwrap()
            .contains(&json!("is_acme_persona"))
    );
    let record = gateway
        .post(
            "/acme/submit/music",
            &json!({"task": "gen_stem", "continue_clip_id": root["id"]}),
        )
        .await
        .ok();
    assert_fields(&record, crate::support::spec::TASK_RECORD, &[]);
    gateway.stop().await;
}
