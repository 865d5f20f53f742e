//! A gateway in front of a gateway: the far one is a provider like any other, with
//! its embedded models.

use mediagate_core::domain::keys::NewKey;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::gateway;
use crate::support::sse::Events;
use crate::support::{TestGateway, sound};

/// A far gateway, and a near one that has it as its provider.
async fn start_pair(
    models: &str,
    protocol: &str,
    path: &str,
    options: &str,
) -> (TestGateway, TestGateway) {
    let far = TestGateway::start().await;
    let key = far.new_key("reseller", NewKey::default()).await;
    let toml = format!(
        "[providers.far]\nprotocol = \"{protocol}\"\nbase_url = \"{}{path}\"\napi_key = \"{key}\"\n{options}\n{models}",
        far.base
    );
    let near = gateway(&toml).await;
    (far, near)
}

const FILM: &str = r#"
[models.film]
kind = "video"
price = { unit = "second", usd = "0.10" }
routes = [{ provider = "far", model = "animatic-1" }]
limits = { sizes = ["480x480"], seconds = [1, 2] }
"#;

const BAND: &str = r#"
[models.band]
kind = "music"
price = { unit = "task", usd = "0.25" }
routes = [{ provider = "far", model = "stems-dsp-1" }]
limits = { stems = ["Vocals", "Drums", "Bass"] }
"#;

async fn task_states(gateway: &TestGateway) -> Vec<Value> {
    // All accounts' tasks: the reseller's key is not available here.
    let rows = gateway
        .app
        .store
        .read(|conn| conn.all("SELECT state FROM tasks", &[], |row| row.text(0)));
    let rows: Result<Vec<String>, mediagate_store::StoreError> = rows.await;
    rows.unwrap().into_iter().map(Value::from).collect()
}

async fn check_film(far: &TestGateway, near: &TestGateway, url: &str) {
    assert!(url.starts_with(&near.base), "its own copy: {url}");
    let file = near.without_key().get(url).await;
    assert_eq!((file.status, &file.bytes[4..8]), (200, &b"ftyp"[..]));
    assert_eq!(
        task_states(far).await,
        ["succeeded"],
        "one task at the far gateway"
    );
}

#[tokio::test]
async fn a_film_by_the_chat_protocol() {
    let options = "idempotency = true\nextension = true";
    let (far, near) = start_pair(FILM, "chat-video", "/v1", options).await;
    let picture = sound::data_url("image/png", &sound::png(320, 320));
    let body = json!({"model": "film", "video": {"seconds": 1, "seed": 7}, "stream": true, "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [
            {"type": "text", "text": "a lake at dawn"},
            {"type": "image_url", "image_url": {"url": picture}},
        ]},
    ]});
    let request = near
        .request(Method::POST, "/v1/chat/completions")
        .json(&body);
    let events = Events::open(request).await.rest().await;
    let videos = events[..events.len() - 1].iter().filter_map(|event| {
        let video = &event.json()["choices"][0]["delta"]["video"];
        video["url"].as_str().map(|_| video.clone())
    });
    let videos: Vec<Value> = videos.collect();
    assert_eq!(videos.len(), 1, "{events:?}");
    assert_eq!(
        (&videos[0]["width"], &videos[0]["seconds"]),
        (&json!(480), &json!(1.0))
    );
    check_film(&far, &near, videos[0]["url"].as_str().unwrap()).await;
    near.stop().await;
    far.stop().await;
}

#[tokio::test]
async fn a_film_by_the_videos_protocol() {
    let (far, near) = start_pair(FILM, "openai-videos", "/v1", "idempotency = true").await;
    let body = json!({"model": "film", "prompt": "a lake at dawn", "seconds": "2"});
    let answer = near.post("/v1/videos", &body).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    let view = near.finished(&task).await;
    assert_eq!(
        (&view["status"], &view["cost_usd"]),
        (&json!("succeeded"), &json!("0.20")),
        "{view}"
    );
    check_film(
        &far,
        &near,
        view["output"]["videos"][0]["url"].as_str().unwrap(),
    )
    .await;
    near.stop().await;
    far.stop().await;
}

#[tokio::test]
async fn a_cancellation_reaches_the_far_gateway() {
    let (far, near) = start_pair(FILM, "openai-videos", "/v1", "idempotency = true").await;
    // Long enough to be cancelled while it runs.
    let toml = std::fs::read_to_string(near.app.config.path.clone().unwrap()).unwrap();
    near.reconfigure(
        &toml
            .replace("[1, 2]", "[20]")
            .replace("480x480", "1280x720"),
    );
    let task = super::order_film(&near, "a long lake").await;
    crate::support::eventually("it runs at the far gateway", async || {
        (task_states(&far).await == ["running"]).then_some(())
    })
    .await;
    near.post(&format!("/v1/tasks/{task}/cancel"), &json!({}))
        .await
        .ok();
    crate::support::eventually("it is cancelled at the far gateway", async || {
        (task_states(&far).await == ["cancelled"]).then_some(())
    })
    .await;
    near.stop().await;
    far.stop().await;
}

#[tokio::test]
async fn stems_and_a_persona() {
    let options = "upload = \"direct\"\ntasks = []\nidempotency = true";
    let (far, near) = start_pair(BAND, "suno-family", "/musicgen", options).await;
    let source = near.upload("Night Song").await;
    for (split, groups) in [
        ("two", vec!["Vocals", "Instrumental"]),
        ("twelve", vec!["Vocals", "Drums", "Bass"]),
    ] {
        let body = json!({"task": "gen_stem", "mv": "band", "continue_clip_id": source["id"], "stem_task": split});
        let record = near.post("/musicgen/submit/music", &body).await.ok();
        let task = record["id"].as_str().unwrap();
        let view = near.finished(task).await;
        assert_eq!(
            (&view["status"], &view["cost_usd"]),
            (&json!("succeeded"), &json!("0.25")),
            "{view}"
        );
        let record_view = near.get(&format!("/musicgen/tasks/{task}")).await.ok();
        let clips = record_view["clips"].as_array().unwrap();
        let stem_names: Vec<&Value> = clips
            .iter()
            .map(|clip| &clip["metadata"]["stem_type_group_name"])
            .collect();
        assert_eq!(stem_names, groups);
        for clip in clips {
            let url = clip["audio_url"].as_str().unwrap();
            assert!(url.starts_with(&near.base), "{url}");
            assert_eq!(near.without_key().get(url).await.status, 200);
        }
        // The far gateway knows its own clips by its own identifiers.
        let body = json!({"root_clip_id": clips[0]["id"], "name": "Voice", "description": "low"});
        near.post("/musicgen/persona/create", &body).await.ok();
    }
    assert_eq!(task_states(&far).await, ["succeeded", "succeeded"]);
    let personas = far
        .app
        .store
        .read(|conn| conn.one("SELECT COUNT(*) FROM personas", &[], |row| row.int(0)));
    let personas: Result<Option<i64>, mediagate_store::StoreError> = personas.await;
    assert_eq!(personas.unwrap(), Some(2));
    near.stop().await;
    far.stop().await;
}

/// Forwards connections to `target`. Of the first submission's answer it forwards
/// only the first bytes, so that the caller cannot know the outcome.
async fn lossy_proxy(target: String) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut has_lost = false;
        while let Ok((mut near, _)) = listener.accept().await {
            let mut far = tokio::net::TcpStream::connect(&target).await.unwrap();
            let mut request = vec![0; 65536];
            let length = near.read(&mut request).await.unwrap_or(0);
            if far.write_all(&request[..length]).await.is_err() {
                continue;
            }
            let loses = request.starts_with(b"POST") && !has_lost;
            has_lost |= loses;
            tokio::spawn(async move {
                if loses {
                    let (mut from_near, mut to_far) = (near, far);
                    let (mut near_read, mut near_write) = from_near.split();
                    let (mut far_read, mut far_write) = to_far.split();
                    let answer = async {
                        let mut start = [0; 8];
                        far_read.read_exact(&mut start).await?;
                        near_write.write_all(&start).await
                    };
                    tokio::select! {
                        _ = answer => {}
                        _ = tokio::io::copy(&mut near_read, &mut far_write) => {}
                    }
                } else {
                    drop(tokio::io::copy_bidirectional(&mut near, &mut far).await);
                }
            });
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn an_order_with_a_lost_answer_is_repeated_and_makes_one_task() {
    let far = TestGateway::start().await;
    let key = far.new_key("reseller", NewKey::default()).await;
    let proxy_url = lossy_proxy(far.base.trim_start_matches("http://").to_owned()).await;
    let toml = format!(
        "[providers.far]\nprotocol = \"openai-videos\"\nbase_url = \"{proxy_url}/v1\"\napi_key = \"{key}\"\nidempotency = true\n{FILM}"
    );
    let near = gateway(&toml).await;
    let body = json!({"model": "film", "prompt": "a lake at dawn", "seconds": "1"});
    let answer = near.post("/v1/videos", &body).await;
    let task = answer.header("x-task-id").unwrap().to_owned();
    let view = near.finished(&task).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    assert_eq!(
        task_states(&far).await,
        ["succeeded"],
        "one task at the far gateway"
    );
    near.stop().await;
    far.stop().await;
}
