//! Songs: the request of the music API's clients, which names no task, and how it is
//! sent to providers of other protocols.

use serde_json::{Value, json};
use simulator::{RequestRole, Simulator};

use super::{gateway, provider, simulator, submissions, submitted_body};
use crate::support::TestGateway;

const SUBMIT: &str = "/musicgen/submit/music";
/// Protocols that make only songs.
pub(super) const SONG_PROTOCOLS: &[&str] = &["recipe:mureka", "recipe:kie-suno"];

fn singer_model(model: &str) -> String {
    format!(
        "[models.singer]\nkind = \"music\"\nprice = {{ unit = \"task\", usd = \"0.20\" }}\nroutes = [{{ provider = \"acme\", model = \"{model}\" }}]\n"
    )
}

async fn song_gateway(simulator: &Simulator, protocol: &str, model: &str) -> TestGateway {
    let options = match protocol {
        "fal" => "api_key = \"simulated-id:simulated-secret\"",
        _ => "",
    };
    gateway(&(provider("acme", protocol, simulator, options) + &singer_model(model))).await
}

/// Orders a song and waits for it; returns the task's record and its clips.
async fn order_song(gateway: &TestGateway, body: &Value) -> (Value, Vec<Value>) {
    let record = gateway.post(SUBMIT, body).await.ok();
    let task = record["id"].as_str().unwrap();
    let view = gateway.finished(task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    let record = gateway.get(&format!("/musicgen/tasks/{task}")).await.ok();
    let mut clips = record["clips"].as_array().unwrap().clone();
    // A provider that makes fewer than were ordered leaves the others with their reason.
    clips.retain(|clip| clip["status"] != "error");
    for clip in &clips {
        assert_eq!(clip["status"], "complete", "{clip}");
        assert_eq!(clip["video_url"], "", "the provider made none");
        let url = clip["audio_url"].as_str().unwrap();
        assert!(url.starts_with(&gateway.base), "{url}");
        assert_eq!(gateway.without_key().get(url).await.status, 200);
    }
    (view, clips)
}

#[tokio::test]
async fn a_song_by_elevenlabs() {
    let simulator = simulator().await;
    let gateway = song_gateway(&simulator, "elevenlabs", "music_v1").await;
    let model = gateway.get("/v1/models/singer").await.ok();
    assert_eq!(model["capabilities"]["input"], json!(["text"]));
    let body = json!({"prompt": "[Verse] rain on the sea", "tags": "slow blues", "title": "Rain",
        "mv": "singer", "seconds": 3, "make_instrumental": false});
    let (view, clips) = order_song(&gateway, &body).await;
    assert_eq!(view["cost_usd"], "0.20");
    assert_eq!(clips.len(), 1);
    assert_eq!(clips[0]["title"], "Rain");
    assert_eq!(clips[0]["metadata"]["tags"], "slow blues");
    let sent = json!({"model_id": "music_v1", "music_length_ms": 3000,
        "prompt": "slow blues\n\nLyrics:\n[Verse] rain on the sea"});
    assert_eq!(submitted_body(&simulator), sent);
    // The song is a clip like any other.
    let stems = json!({"task": "gen_stem", "continue_clip_id": clips[0]["id"]});
    let task = gateway.post(SUBMIT, &stems).await.ok()["id"].clone();
    let view = gateway.finished(task.as_str().unwrap()).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_song_that_moderation_refuses_is_not_sent() {
    let simulator = simulator().await;
    let checks = "[[moderation.checks]]\nprotocol = \"terms\"\n";
    let acme = provider("acme", "minimax", &simulator, "");
    let gateway = gateway(&(acme + &singer_model("music-2.0") + checks)).await;
    let body = json!({"gpt_description_prompt": "about the sea", "lyrics": "[Verse] Undress her", "mv": "singer"});
    let answer = gateway.post(SUBMIT, &body).await;
    answer.refused(422, "content_policy").on_param("lyrics");
    assert_eq!(submissions(&simulator), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn a_song_by_minimax() {
    let simulator = simulator().await;
    let gateway = song_gateway(&simulator, "minimax", "music-2.0").await;
    let body = json!({"gpt_description_prompt": "about the sea", "lyrics": "[Verse] rain", "mv": "singer"});
    let (_, clips) = order_song(&gateway, &body).await;
    assert_eq!(clips.len(), 1);
    let sent = submitted_body(&simulator);
    assert_eq!(sent["prompt"], "about the sea");
    assert_eq!(sent["lyrics"], "[Verse] rain");
    assert_eq!(sent["model"], "music-2.0");
    gateway.stop().await;
}

/// A text that the provider would not take whole is refused: cut, the song would lack its end and
/// cost the same.
#[tokio::test]
async fn a_text_that_is_too_long_is_refused_and_never_cut() {
    let ending = "LAST LINE";
    let long = |count: usize| "la ".repeat(count / 3) + ending;
    for (protocol, model, fields) in [
        (
            "elevenlabs",
            "music_v1",
            json!({"prompt": long(3_900), "lyrics": long(300)}),
        ),
        (
            "minimax",
            "music-2.0",
            json!({"tags": "pop", "lyrics": long(4_200)}),
        ),
        ("minimax", "music-2.0", json!({"prompt": long(2_500)})),
    ] {
        let simulator = simulator().await;
        let gateway = song_gateway(&simulator, protocol, model).await;
        let mut body = fields.clone();
        body["mv"] = json!("singer");
        let record = gateway.post(SUBMIT, &body).await.ok();
        let view = gateway.finished(record["id"].as_str().unwrap()).await;
        super::assert_failed(&view, "provider_rejected");
        let message = view["error"]["message"].as_str().unwrap();
        assert!(message.contains("at most"), "{message}");
        assert_eq!(submissions(&simulator), 0);
        gateway.stop().await;
    }
}

#[tokio::test]
async fn music_by_a_model_without_vocals() {
    for (protocol, model, length) in [
        (
            "fal",
            "fal-ai/stable-audio-25/text-to-audio",
            "seconds_total",
        ),
        ("replicate", "stability-ai/stable-audio-2.5", "duration"),
    ] {
        let simulator = simulator().await;
        let gateway = song_gateway(&simulator, protocol, model).await;
        let body = json!({"prompt": "slow blues", "tags": "guitar", "title": "Rain", "mv": "singer",
            "seconds": 30, "make_instrumental": true});
        let (_, clips) = order_song(&gateway, &body).await;
        assert_eq!((clips.len(), &clips[0]["title"]), (1, &json!("Rain")));
        let sent = submitted_body(&simulator);
        let sent = sent.get("input").unwrap_or(&sent).clone();
        assert_eq!(sent, json!({"prompt": "slow blues, guitar", length: 30}));
        for (name, value) in [("lyrics", json!("[Verse] rain")), ("seconds", json!(191))] {
            let mut body = body.clone();
            body[name] = value;
            let refused = gateway.post(SUBMIT, &body).await;
            refused.refused(400, "unsupported_value").on_param(name);
        }
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_song_by_lyria() {
    let simulator = simulator().await;
    let gateway = song_gateway(&simulator, "gemini-veo", "lyria-3.5").await;
    let body =
        json!({"prompt": "[Verse] rain", "tags": "slow blues", "title": "Rain", "mv": "singer"});
    let (_, clips) = order_song(&gateway, &body).await;
    assert_eq!(clips.len(), 1);
    assert_eq!(clips[0]["title"], "Rain");
    let sent = json!({"model": "lyria-3.5", "input": "slow blues\n\nLyrics:\n[Verse] rain"});
    assert_eq!(submitted_body(&simulator), sent);
    let forbidden = json!({"prompt": "a forbidden song", "mv": "singer"});
    let record = gateway.post(SUBMIT, &forbidden).await.ok();
    let view = gateway.finished(record["id"].as_str().unwrap()).await;
    super::assert_failed(&view, "content_policy");
    gateway.stop().await;
}

/// The bodies of the submissions, in their order.
fn all_submitted(simulator: &Simulator) -> Vec<Value> {
    let journal = simulator.world().journal();
    let submissions = journal
        .iter()
        .filter(|request| request.role == RequestRole::Submit);
    submissions.map(|request| request.body.clone()).collect()
}

#[tokio::test]
async fn songs_by_mureka_and_a_continuation() {
    let simulator = simulator().await;
    let gateway = song_gateway(&simulator, "recipe:mureka", "mureka-9").await;
    let with_lyrics =
        json!({"prompt": "[Verse] rain", "tags": "slow blues", "title": "Rain", "mv": "singer"});
    let (_, clips) = order_song(&gateway, &with_lyrics).await;
    assert_eq!((clips.len(), &clips[0]["title"]), (1, &json!("Rain")));
    order_song(&gateway, &json!({"prompt": "about rain", "mv": "singer"})).await;
    let instrumental =
        json!({"prompt": "slow", "tags": "blues", "make_instrumental": true, "mv": "singer"});
    order_song(&gateway, &instrumental).await;
    let continuation = json!({"prompt": "[Chorus] sun", "tags": "blues", "mv": "singer",
        "continue_clip_id": clips[0]["id"], "continue_at": 12.5});
    order_song(&gateway, &continuation).await;
    let sent = all_submitted(&simulator);
    assert_eq!(
        sent[0],
        json!({"model": "mureka-9", "lyrics": "[Verse] rain", "prompt": "slow blues", "n": 1})
    );
    assert_eq!(
        sent[1],
        json!({"model": "mureka-9", "prompt": "about rain", "n": 1})
    );
    assert_eq!(
        sent[2],
        json!({"model": "mureka-9", "prompt": "slow\nblues", "n": 1})
    );
    let song = sent[3]["song_id"].as_str().unwrap();
    assert!(song.starts_with("song-"), "{song}");
    assert_eq!(
        (&sent[3]["lyrics"], &sent[3]["extend_at"]),
        (&json!("[Chorus] sun"), &json!(12_500))
    );
    gateway.stop().await;
}

#[tokio::test]
async fn songs_by_kie_and_a_continuation() {
    let simulator = simulator().await;
    let gateway = song_gateway(&simulator, "recipe:kie-suno", "V5").await;
    let with_lyrics = json!({"prompt": "[Verse] rain", "tags": "slow blues", "title": "Rain", "mv": "singer",
        "negative_tags": "drums"});
    let (_, clips) = order_song(&gateway, &with_lyrics).await;
    assert_eq!(clips.len(), 2);
    assert_eq!(clips[1]["metadata"]["tags"], "slow blues");
    let (_, simple) = order_song(
        &gateway,
        &json!({"prompt": "about rain", "negative_tags": "drums", "mv": "singer"}),
    )
    .await;
    assert_eq!(simple.len(), 2);
    let continuation = json!({"prompt": "[Chorus] sun", "tags": "blues", "title": "On", "mv": "singer",
        "continue_clip_id": clips[1]["id"], "continue_at": 1});
    order_song(&gateway, &continuation).await;
    let persona = json!({"root_clip_id": clips[1]["id"], "name": "A voice"});
    let persona = gateway
        .post("/musicgen/persona/create", &persona)
        .await
        .ok();
    let with_persona = json!({"prompt": "[Verse] rain", "tags": "blues", "mv": "singer", "persona_id": persona["id"]});
    order_song(&gateway, &with_persona).await;
    let sent = all_submitted(&simulator);
    let custom = json!({"customMode": true, "instrumental": false, "prompt": "[Verse] rain", "style": "slow blues",
        "title": "Rain", "negativeTags": "drums", "model": "V5", "callBackUrl": "playground"});
    assert_eq!(sent[0], custom);
    assert_eq!(sent[1]["prompt"], "about rain\nWithout: drums");
    let clip = sent[2]["audioId"].as_str().unwrap();
    assert!(clip.ends_with("-2"), "the second clip: {clip}");
    assert_eq!(sent[2]["continueAt"], 1);
    let voice = (&sent[3]["name"], &sent[3]["description"]);
    assert_eq!(voice, (&json!("A voice"), &json!("A voice")));
    assert_eq!(sent[3]["audioId"], sent[2]["audioId"]);
    let id = sent[4]["personaId"].as_str().unwrap();
    assert!(!id.is_empty() && persona["id"] != id, "{id}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_cover_by_kie_of_any_recording() {
    let simulator = simulator().await;
    let gateway = song_gateway(&simulator, "recipe:kie-suno", "V5").await;
    let mine = gateway.upload("Mine").await["id"].clone();
    let cover = |clip: &Value| {
        json!({"task": "cover", "prompt": "[Verse] rain", "tags": "blues", "mv": "singer",
            "cover_clip_id": clip})
    };
    let (_, clips) = order_song(&gateway, &cover(&mine)).await;
    assert_eq!(clips.len(), 2);
    // A clip that kie.ai made is uploaded too.
    order_song(&gateway, &cover(&clips[0]["id"])).await;
    let sent = all_submitted(&simulator);
    let address = |index: usize| sent[index]["uploadUrl"].as_str().unwrap_or_default();
    assert!(address(0).contains("/files/mediagate/"), "{}", sent[0]);
    assert!(address(1).contains("/files/mediagate/"), "{}", sent[1]);
    assert_ne!(address(0), address(1));
    gateway.stop().await;
}

#[tokio::test]
async fn a_song_can_be_continued_only_by_its_own_provider() {
    let (simulator, other) = (simulator().await, simulator().await);
    let toml = provider("acme", "recipe:mureka", &simulator, "")
        + &provider("other", "recipe:kie-suno", &other, "")
        + &singer_model("mureka-9")
        + "[models.away]\nkind = \"music\"\nprice = \"free\"\nroutes = [{ provider = \"other\", model = \"V5\" }]\n"
        + "[models.both]\nkind = \"music\"\nprice = \"free\"\nroutes = [{ provider = \"other\", model = \"V5\" }, { provider = \"acme\", model = \"mureka-9\" }]\n";
    let gateway = gateway(&toml).await;
    let continuation = |model: &str, clip: &Value| json!({"prompt": "[Chorus] sun", "tags": "blues", "mv": model, "continue_clip_id": clip});
    let upload = gateway.upload("Mine").await["id"].clone();
    let (_, song) = order_song(&gateway, &json!({"prompt": "rain", "mv": "singer"})).await;
    let song = &song[0]["id"];
    for (model, clip) in [
        ("singer", &upload),
        ("away", &upload),
        ("both", &upload),
        ("away", song),
    ] {
        let body = continuation(model, clip);
        let refused = gateway.post(SUBMIT, &body).await;
        refused
            .refused(400, "unsupported_value")
            .on_param("continue_clip_id");
        let quote_request = json!({"endpoint": SUBMIT, "body": body});
        let refused = gateway.post("/v1/quote", &quote_request).await;
        refused.refused(400, "unsupported_value");
    }
    assert_eq!((submissions(&simulator), submissions(&other)), (1, 0));
    // The other provider does not get the order when the clip's own refuses once.
    super::at_submission(&simulator, super::status(401), 1);
    order_song(&gateway, &continuation("both", song)).await;
    assert_eq!((submissions(&simulator), submissions(&other)), (3, 0));
    gateway.stop().await;
}

#[tokio::test]
async fn a_song_by_a_relay_of_the_music_api() {
    let simulator = simulator().await;
    let gateway = song_gateway(&simulator, "suno-family", "chirp-auk").await;
    let body = json!({"prompt": "[Verse] rain", "tags": "blues", "title": "Rain", "mv": "singer"});
    let (_, clips) = order_song(&gateway, &body).await;
    assert_eq!(clips.len(), 2);
    let sent = submitted_body(&simulator);
    assert_eq!(sent.get("task"), None, "the API's own request names none");
    assert_eq!(sent["prompt"], "[Verse] rain");
    drop(sent);
    let continuation = json!({"prompt": "[Chorus] sun", "tags": "blues", "mv": "singer",
        "continue_clip_id": clips[0]["id"], "continue_at": 0.2});
    let record = gateway.post(SUBMIT, &continuation).await.ok();
    gateway.finished(record["id"].as_str().unwrap()).await;
    let journal = simulator.world().journal();
    let last = journal
        .iter()
        .rfind(|request| request.role == RequestRole::Submit)
        .unwrap();
    assert_eq!(last.body["task"], "extend");
    gateway.stop().await;
}

#[tokio::test]
async fn fields_that_a_model_ignores_are_refused() {
    let simulator = simulator().await;
    let gateway = song_gateway(&simulator, "elevenlabs", "music_v1").await;
    for (fields, code, param) in [
        (
            json!({"negative_tags": "drums"}),
            "unsupported_value",
            "negative_tags",
        ),
        (json!({"seconds": 2}), "unsupported_value", "seconds"),
        (json!({"seconds": 601}), "unsupported_value", "seconds"),
        (
            json!({"continue_clip_id": "x"}),
            "invalid_value",
            "continue_clip_id",
        ),
        (json!({"task_id": 5}), "invalid_type", "task_id"),
        (
            json!({"stem_type_id": "zz"}),
            "invalid_type",
            "stem_type_id",
        ),
        (json!({"stem_task": true}), "invalid_type", "stem_task"),
        (
            json!({"stem_type_group_name": []}),
            "invalid_type",
            "stem_type_group_name",
        ),
        (
            json!({"prompt": "", "tags": "", "task": "generate"}),
            "missing_field",
            "prompt",
        ),
        (json!({"duration": 30}), "unsupported_value", "duration"),
        (
            json!({"style_source": {"url": "https://example.com/a.mp3"}}),
            "unsupported_value",
            "style_source",
        ),
    ] {
        let mut body = json!({"prompt": "rain", "tags": "blues", "mv": "singer"});
        let fields = fields.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(fields);
        gateway
            .post(SUBMIT, &body)
            .await
            .refused(400, code)
            .on_param(param);
    }
    let body = json!({"prompt": "rain", "mv": "singer", "song_length": 30, "audio_url": "x"});
    let refused = gateway.post(SUBMIT, &body).await;
    refused.refused(400, "unsupported_value");
    for word in [
        "audio_url",
        "song_length",
        "The nearest known field is seconds.",
    ] {
        assert!(refused.message().contains(word), "{}", refused.message());
    }
    // Other unknown fields, and those without content, change nothing.
    let body = json!({"prompt": "rain", "mv": "singer", "token": "t", "duration": null, "image_url": "",
        "metadata": {"page": "https://example.com"}});
    let quote_request = json!({"endpoint": SUBMIT, "body": body});
    let quote = gateway.post("/v1/quote", &quote_request).await.ok();
    assert_eq!(quote["cost_usd"], "0.20");
    assert_eq!(submissions(&simulator), 0);
    gateway.stop().await;
}

#[tokio::test]
async fn unknown_fields_go_to_a_provider_that_gets_every_field() {
    let simulator = simulator().await;
    let toml = provider("lister", "recipe:mureka", &simulator, "")
        + &provider("relay", "suno-family", &simulator, "")
        + "[models.singer]\nkind = \"music\"\nprice = { unit = \"task\", usd = \"0.20\" }\n\
           routes = [{ provider = \"lister\", model = \"mureka-9\" }, \
           { provider = \"relay\", model = \"chirp-auk\" }]\n";
    let gateway = gateway(&toml).await;
    let body = json!({"prompt": "[Verse] rain", "tags": "blues", "mv": "singer", "image_url": "https://example.com/a.png"});
    order_song(&gateway, &body).await;
    let sent = submitted_body(&simulator);
    assert_eq!(sent["image_url"], "https://example.com/a.png");
    gateway.stop().await;
}

#[tokio::test]
async fn an_order_without_a_description_or_its_clip_is_refused() {
    let simulator = simulator().await;
    for (protocol, model) in [("suno-family", "chirp-auk"), ("recipe:kie-suno", "V5")] {
        let gateway = song_gateway(&simulator, protocol, model).await;
        for (body, param) in [
            (json!({"task": "generate"}), "prompt"),
            (json!({"prompt": "   "}), "prompt"),
            (
                json!({"task": "extend", "prompt": "rain"}),
                "continue_clip_id",
            ),
            (json!({"task": "cover", "prompt": "rain"}), "cover_clip_id"),
        ] {
            let mut body = body;
            body["mv"] = json!("singer");
            let refused = gateway.post(SUBMIT, &body).await;
            refused.refused(400, "missing_field").on_param(param);
        }
        gateway.stop().await;
    }
    let gateway = song_gateway(&simulator, "suno-family", "chirp-auk").await;
    for task in ["upload_extend", "infill"] {
        let body = json!({"task": task, "mv": "singer", "prompt": "rain"});
        let refused = gateway.post(SUBMIT, &body).await;
        refused
            .refused(400, "missing_field")
            .on_param("continue_clip_id");
    }
    assert_eq!(submissions(&simulator), 0);
    gateway.stop().await;
}

/// The model and the cost by a quote for this submission.
async fn quoted(gateway: &TestGateway, body: &Value) -> (Value, Value) {
    let quote_request = json!({"endpoint": SUBMIT, "body": body});
    let quote = gateway.post("/v1/quote", &quote_request).await.ok();
    (quote["model"].clone(), quote["cost_usd"].clone())
}

#[tokio::test]
async fn without_a_name_the_default_music_model_does_what_it_can() {
    let simulator = simulator().await;
    // The other model comes first by its name.
    let models = singer_model("mureka-9")
        + "[models.choir]\nkind = \"music\"\nprice = { unit = \"task\", usd = \"0.80\" }\nroutes = [{ provider = \"acme\", model = \"mureka-9\" }]\n";
    let providers = provider("acme", "recipe:mureka", &simulator, "");
    let toml = format!("default_music_model = \"singer\"\n{providers}{models}");
    let gateway = gateway(&toml).await;
    for body in [
        json!({"prompt": "rain"}),
        json!({"prompt": "rain", "mv": ""}),
    ] {
        let (model, cost) = quoted(&gateway, &body).await;
        assert_eq!((model, cost), (json!("singer"), json!("0.20")), "{body}");
        let (view, _) = order_song(&gateway, &body).await;
        assert_eq!(view["model"], "singer", "{view}");
    }
    // It does not separate, so the first model that does is used.
    let clip = gateway.upload("Mine").await["id"].clone();
    let separation = json!({"task": "gen_stem", "continue_clip_id": clip});
    assert_eq!(quoted(&gateway, &separation).await.0, "stems-dsp-1");
    // If the default one makes no songs, the first model that does is used.
    gateway.reconfigure(&format!("{providers}{models}"));
    let (model, _) = quoted(&gateway, &json!({"prompt": "rain"})).await;
    assert_eq!(model, "choir");
    gateway.stop().await;
}

#[tokio::test]
async fn without_a_song_model_the_error_names_a_protocol() {
    let gateway = TestGateway::start().await;
    for body in [
        json!({"prompt": "rain", "mv": "chirp-v4"}),
        json!({"gpt_description_prompt": "about rain"}),
    ] {
        let refused = gateway.post(SUBMIT, &body).await;
        refused.refused(400, "unsupported_value").on_param("task");
        assert!(
            refused.message().contains("suno-family"),
            "{}",
            refused.message()
        );
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_protected_song_is_refused_for_its_content() {
    let simulator = simulator().await;
    let gateway = song_gateway(&simulator, "elevenlabs", "music_v1").await;
    let body = json!({"prompt": "a forbidden song", "mv": "singer"});
    let record = gateway.post(SUBMIT, &body).await.ok();
    let view = gateway.finished(record["id"].as_str().unwrap()).await;
    super::assert_failed(&view, "content_policy");
    gateway.stop().await;
}
