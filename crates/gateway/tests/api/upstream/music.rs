//! Stems by each protocol that makes them; songs by the Suno family's.

use serde_json::{Value, json};
use simulator::{RequestRole, Simulator};

use super::{gateway, provider, request_count, simulator, submissions};
use crate::support::gateway::finished;
use crate::support::{Client, TestGateway};

pub(super) const SUBMIT: &str = "/musicgen/submit/music";

/// The table of the music model `band` with this route, at 0.05 USD a stem.
pub(super) fn band(model: &str) -> String {
    format!(
        "[models.band]\nkind = \"music\"\nprice = {{ unit = \"stem\", usd = \"0.05\" }}\nroutes = [{{ provider = \"acme\", model = \"{model}\" }}]\n"
    )
}

/// A test for each protocol.
macro_rules! stems {
    ($($name:ident: $protocol:literal $model:literal $options:literal $splits:expr;)*) => {
        /// The protocols whose stems are tested here.
        pub(super) const STEMS: &[&str] = &[$($protocol),*];

        $(#[tokio::test]
        async fn $name() {
            check_stems($protocol, $model, $options, &$splits).await;
        })*
    };
}

stems! {
    elevenlabs: "elevenlabs" "stems" "" ["two", "twelve"];
    musicai: "musicai" "two-stems" "stems = [\"vocals\", \"instrumental\"]" ["two"];
    musicai_full: "musicai" "four-stems" "" ["two", "twelve"];
    lalal: "lalal" "phoenix" "" ["two"];
    lalal_full: "lalal" "auto" "" ["two", "twelve"];
    audioshake: "audioshake" "stems" "" ["two", "twelve"];
    fal: "fal" "fal-ai/demucs" "api_key = \"simulated-id:simulated-secret\"" ["two", "twelve"];
    replicate: "replicate" "cjwbw/demucs:25a173108cff36ef9f80f854c162d01df9e6528be175794b81158fa03836d953" "" ["two", "twelve"];
    suno_family: "suno-family" "chirp-auk" "" ["two", "twelve"];
    suno_family_direct: "suno-family" "chirp-bare" "upload = \"direct\"\nbatch = \"one\"" ["two", "twelve"];
}

async fn check_stems(protocol: &str, model: &str, options: &str, splits: &[&str]) {
    let simulator = simulator().await;
    let toml = provider("acme", protocol, &simulator, options) + &band(model);
    let gateway = gateway(&toml).await;
    let stem_names = gateway.get("/v1/models/band").await.ok()["capabilities"]["stems"].clone();
    let source = gateway.upload("Night Song").await;
    let mut tasks = Vec::new();
    for split in splits {
        let body = json!({"task": "gen_stem", "mv": "band", "continue_clip_id": source["id"], "stem_task": split});
        tasks.push(gateway.post(SUBMIT, &body).await.ok()["id"].clone());
    }
    for (task, split) in tasks.iter().zip(splits) {
        let view = gateway.finished(task.as_str().unwrap()).await;
        assert_eq!(view["status"], "succeeded", "{view}");
        let clips = clips(&gateway, task).await;
        for clip in &clips {
            assert_eq!(clip["video_url"], "", "the provider made none");
        }
        let groups: Vec<&str> = clips
            .iter()
            .map(|clip| clip["metadata"]["stem_type_group_name"].as_str().unwrap())
            .collect();
        if *split == "two" {
            assert_eq!(groups, ["Vocals", "Instrumental"]);
        } else {
            let stem_names: Vec<&str> = stem_names
                .as_array()
                .unwrap()
                .iter()
                .map(|name| name.as_str().unwrap())
                .collect();
            assert!(
                groups.starts_with(&stem_names),
                "{groups:?} of {stem_names:?}"
            );
            assert!(
                matches!(groups[stem_names.len()..], [] | ["Other"]),
                "{groups:?}"
            );
        }
        let cost = clips.len() * 5;
        assert_eq!(
            view["cost_usd"],
            format!("{}.{:02}", cost / 100, cost % 100)
        );
    }
    assert_eq!(submissions(&simulator), splits.len(), "one for each order");
    drop(simulator);
    for task in &tasks {
        check_clips(&gateway, &clips(&gateway, task).await).await;
    }
    gateway.stop().await;
}

async fn clips(gateway: &Client, task: &Value) -> Vec<Value> {
    let path = format!("/musicgen/tasks/{}", task.as_str().unwrap());
    gateway.get(&path).await.ok()["clips"]
        .as_array()
        .unwrap()
        .clone()
}

/// Checks that the clips are complete, lossless and stored by the gateway.
async fn check_clips(gateway: &TestGateway, clips: &[Value]) {
    for clip in clips {
        assert_eq!(clip["status"], "complete", "{clip}");
        assert_eq!(clip["video_url"], "", "the provider made none");
        for (field, kind) in [("audio_url", "audio/flac"), ("image_url", "image/png")] {
            let url = clip[field].as_str().unwrap();
            assert!(url.starts_with(&gateway.base), "{field}: {url}");
            let file = gateway.without_key().get(url).await;
            assert_eq!(
                (file.status, file.header("content-type")),
                (200, Some(kind))
            );
        }
        assert!(
            clip["metadata"]["duration"].as_f64().unwrap() > 0.0,
            "{clip}"
        );
    }
}

/// A gateway with a simulated provider of the Suno family.
pub(super) async fn suno_gateway(simulator: &Simulator) -> TestGateway {
    gateway(&suno_settings(simulator)).await
}

/// The settings of that gateway.
pub(super) fn suno_settings(simulator: &Simulator) -> String {
    let options = "upload = \"direct\"\nbatch = \"one\"";
    provider("acme", "suno-family", simulator, options) + &band("chirp-record")
}

/// Places an order and waits for its clips.
pub(super) async fn order_clips(gateway: &Client, body: &Value) -> Vec<Value> {
    let record = gateway.post(SUBMIT, body).await.ok();
    let view = finished(gateway, record["id"].as_str().unwrap()).await;
    assert_eq!(view["status"], "succeeded", "{body}: {view}");
    clips(gateway, &record["id"]).await
}

/// The last order that arrived.
fn last_order(simulator: &Simulator) -> Value {
    let journal = simulator.world().journal();
    let mut orders = journal
        .into_iter()
        .filter(|request| request.role == RequestRole::Submit);
    orders.next_back().unwrap().body
}

#[tokio::test]
async fn a_song_can_be_separated_extended_concatenated_and_its_persona_can_sing() {
    let simulator = simulator().await;
    let gateway = suno_gateway(&simulator).await;
    let capabilities = gateway.get("/v1/models/band").await.ok()["capabilities"].clone();
    assert_eq!(capabilities["personas"], true);
    assert_eq!(capabilities["tasks"][0], "gen_stem");

    let song = order_clips(
        &gateway,
        &json!({"task": "generate", "mv": "band", "title": "Rain",
        "tags": "calm piano", "prompt": "[Verse] rain on the sea"}),
    )
    .await;
    assert_eq!(song.len(), 2);
    assert_eq!(
        (&song[0]["title"], &song[0]["metadata"]["tags"]),
        (&json!("Rain"), &json!("calm piano"))
    );
    assert_eq!(song[0]["metadata"]["prompt"], "[Verse] rain on the sea");
    let order = last_order(&simulator);
    assert_eq!(
        (&order["mv"], &order["title"]),
        (&json!("chirp-record"), &json!("Rain"))
    );
    let names: Vec<String> = simulator.world().jobs("suno-family")[..1]
        .iter()
        .flat_map(|job| [format!("{}_0", job.id), format!("{}_1", job.id)])
        .collect();

    // Clips that the provider made are not uploaded to it.
    let stems = order_clips(
        &gateway,
        &json!({"task": "gen_stem", "mv": "band", "continue_clip_id": song[1]["id"]}),
    )
    .await;
    assert_eq!(stems.len(), 2);
    assert_eq!(stems[0]["metadata"]["stem_from_id"], song[1]["id"]);
    assert_eq!(last_order(&simulator)["continue_clip_id"], json!(names[1]));
    let extended = order_clips(&gateway, &json!({"task": "extend", "mv": "band", "continue_clip_id": song[0]["id"], "continue_at": 1})).await;
    assert_eq!(extended.len(), 2);
    assert_eq!(last_order(&simulator)["continue_clip_id"], json!(names[0]));
    assert_eq!(request_count(&simulator, RequestRole::Upload), 0);
    // Some tasks make a single clip, and every clip has sound.
    let concatenated = order_clips(
        &gateway,
        &json!({"task": "concat", "mv": "band", "continue_clip_id": song[0]["id"]}),
    )
    .await;
    assert_eq!(concatenated.len(), 1);
    // Other clips are uploaded.
    let upload = gateway.upload("Hum").await;
    order_clips(
        &gateway,
        &json!({"task": "cover", "mv": "band", "cover_clip_id": upload["id"]}),
    )
    .await;
    assert_eq!(request_count(&simulator, RequestRole::Upload), 1);

    let persona = gateway
        .post(
            "/musicgen/persona/create",
            &json!({"root_clip_id": song[0]["id"], "name": "Voice", "description": "low"}),
        )
        .await
        .ok();
    assert_eq!(last_order(&simulator)["root_clip_id"], json!(names[0]));
    let jobs = simulator.world().jobs("suno-family");
    let sung_by_persona = order_clips(
        &gateway,
        &json!({"task": "generate", "mv": "band", "title": "Again", "persona_id": persona["id"]}),
    )
    .await;
    assert_eq!(sung_by_persona.len(), 2);
    let persona_id = last_order(&simulator)["persona_id"].clone();
    assert!(
        jobs.iter().any(|job| json!(job.id) == persona_id),
        "the provider's identifier, not the gateway's"
    );
    assert_eq!(submissions(&simulator), 7, "one for each order");

    drop(simulator);
    for clips in [song, stems, extended, concatenated, sung_by_persona] {
        check_clips(&gateway, &clips).await;
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_clip_tells_from_which_clip_it_was_made() {
    let simulator = simulator().await;
    let gateway = suno_gateway(&simulator).await;
    let order = json!({"task": "generate", "mv": "band", "title": "Rain", "prompt": "rain"});
    let song = order_clips(&gateway, &order).await;
    let source = &song[0]["id"];
    let facts_of = |metadata: &Value| {
        let names = ["task", "edited_clip_id", "is_remix", "infill"];
        names.map(|name| metadata[name].clone())
    };
    let expected = [json!("generate"), json!(""), json!(false), json!(false)];
    assert_eq!(facts_of(&song[0]["metadata"]), expected);
    for task in ["extend", "infill", "concat"] {
        let order = json!({"task": task, "mv": "band", "continue_clip_id": source, "tags": "x"});
        let record = gateway.post(SUBMIT, &order).await.ok();
        let expected = [
            json!(task),
            source.clone(),
            json!(true),
            json!(task == "infill"),
        ];
        assert_eq!(facts_of(&record["metadata"]), expected);
        gateway.finished(record["id"].as_str().unwrap()).await;
        let clips = clips(&gateway, &record["id"]).await;
        assert_eq!(facts_of(&clips[0]["metadata"]), expected);
        let path = format!("/musicgen/clips/{}", clips[0]["id"].as_str().unwrap());
        let clip = gateway.get(&path).await.ok();
        assert_eq!(facts_of(&clip["metadata"]), expected);
        let persona = json!({"root_clip_id": source, "name": "Voice", "clips": [clip["id"]]});
        let persona = gateway
            .post("/musicgen/persona/create", &persona)
            .await
            .ok();
        let is_remix =
            |item: usize| &persona["persona_clips"][item]["clip"]["metadata"]["is_remix"];
        assert_eq!((is_remix(0), is_remix(1)), (&json!(false), &json!(true)));
    }
    gateway.stop().await;
}

#[tokio::test]
async fn invalid_music_orders_are_refused_before_anything_is_sent() {
    let simulator = simulator().await;
    let gateway = suno_gateway(&simulator).await;
    let unknown_task = gateway
        .post(SUBMIT, &json!({"task": "yodel", "mv": "band"}))
        .await;
    unknown_task
        .refused(400, "unsupported_value")
        .on_param("task");
    for task in ["gen_stem", "generate", "cover"] {
        assert!(
            unknown_task.message().contains(task),
            "{}",
            unknown_task.message()
        );
    }
    let own = gateway.upload("Own").await;
    let persona = json!({"root_clip_id": own["id"], "name": "Nobody", "description": ""});
    let persona = gateway
        .post("/musicgen/persona/create", &persona)
        .await
        .ok();
    let body = json!({"task": "generate", "mv": "band", "title": "x", "persona_id": persona["id"]});
    let refused = gateway.post(SUBMIT, &body).await;
    refused
        .refused(400, "unsupported_value")
        .on_param("persona_id");
    assert!(
        refused.message().contains("upload"),
        "{}",
        refused.message()
    );
    let mut unknown = body;
    unknown["persona_id"] = json!(uuid::Uuid::new_v4());
    gateway
        .post(SUBMIT, &unknown)
        .await
        .refused(404, "persona_not_found")
        .on_param("persona_id");
    let body = json!({"task": "cover", "mv": "band", "cover_clip_id": uuid::Uuid::new_v4()});
    gateway
        .post(SUBMIT, &body)
        .await
        .refused(404, "clip_not_found")
        .on_param("cover_clip_id");
    assert_eq!(submissions(&simulator), 0);
    gateway.stop().await;
}

/// The file of one clip is a page, or at an address that nobody may fetch. The other clip is
/// delivered, as if the provider had reported the first one as failed.
#[tokio::test]
async fn a_clip_that_cannot_be_had_does_not_take_the_others_with_it() {
    let simulator = simulator().await;
    let gateway = suno_gateway(&simulator).await;
    let source = gateway.upload("Night Song").await;
    let mut orders = Vec::new();
    for title in ["torn", "astray"] {
        let song = json!({"task": "generate", "mv": "band", "title": title, "prompt": "rain"});
        let stems = json!({"task": "gen_stem", "mv": "band", "title": title,
            "continue_clip_id": source["id"]});
        for body in [song, stems] {
            orders.push(gateway.post(SUBMIT, &body).await.ok()["id"].clone());
        }
    }
    for task in &orders {
        let view = gateway.finished(task.as_str().unwrap()).await;
        assert_eq!(view["status"], "succeeded", "{view}");
        assert_eq!(view["cost_usd"], "0.05", "{view}");
        let partial = view["billing"]["partial"].as_str().unwrap();
        assert!(partial.starts_with("1 of 2"), "{partial}");
        let clips = clips(&gateway, task).await;
        assert_eq!(clips.len(), 2, "{clips:?}");
        let is_complete = |clip: &Value| clip["status"] == "complete";
        let (complete, missing): (Vec<_>, Vec<_>) = clips.into_iter().partition(is_complete);
        check_clips(&gateway, &complete).await;
        // It was promised with the order: it stays everywhere, with its reason.
        let missing = &missing[0];
        assert_eq!(
            (&missing["status"], &missing["audio_url"]),
            (&json!("error"), &json!(""))
        );
        let id = missing["id"].as_str().unwrap();
        for path in [
            format!("/musicgen/clips/{id}"),
            format!("/musicgen/feed/{id}"),
        ] {
            let answer = gateway.get(&path).await.ok();
            let clip = answer.get(0).unwrap_or(&answer);
            assert_eq!(clip["status"], "error", "{answer}");
            let reason = clip["metadata"]["error_message"].as_str().unwrap();
            assert!(reason.contains("did not make"), "{answer}");
        }
    }
    assert_eq!(submissions(&simulator), orders.len(), "one for each order");
    gateway.stop().await;
}

#[tokio::test]
async fn an_incomplete_delivery_is_charged_by_the_stem() {
    let simulator = simulator().await;
    simulator.world().set_plan(simulator::JobPlan {
        incomplete: true,
        ..simulator::JobPlan::default()
    });
    let toml = provider(
        "acme",
        "fal",
        &simulator,
        "api_key = \"simulated-id:simulated-secret\"",
    ) + &band("fal-ai/demucs");
    let gateway = gateway(&toml).await;
    let source = gateway.upload("Night Song").await;
    let order = |group: &str, split: &str| {
        json!({"task": "gen_stem", "mv": "band", "continue_clip_id": source["id"],
               "stem_task": split, "stem_type_group_name": group})
    };
    let record = gateway.post(SUBMIT, &order("Vocals", "twelve")).await.ok();
    let view = gateway.finished(record["id"].as_str().unwrap()).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    let ordered_count = record["clips"].as_array().map_or(0, Vec::len);
    let mut clips = clips(&gateway, &record["id"]).await;
    assert_eq!(clips.len(), ordered_count, "{record}");
    clips.retain(|clip| clip["status"] == "complete");
    assert_eq!(clips.len() + 1, ordered_count, "{record}");
    let cost = format!("0.{:02}", 5 * clips.len());
    assert_eq!(
        view["cost_usd"],
        json!(cost),
        "0.05 USD for each stem that was delivered"
    );
    let billing = &view["billing"];
    assert!(
        billing["partial"]
            .as_str()
            .unwrap()
            .contains("missing: Drums"),
        "{billing}"
    );
    assert_eq!(billing["quantity"], json!(clips.len().to_string()));
    // If none of the ordered stems is delivered, nothing is charged.
    let record = gateway.post(SUBMIT, &order("Drums", "two")).await.ok();
    let view = gateway.finished(record["id"].as_str().unwrap()).await;
    assert_eq!(view["cost_usd"], "0.00", "{view}");
    gateway.stop().await;
}
