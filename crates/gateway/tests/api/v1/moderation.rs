//! Moderation: what its checks refuse makes, holds and sends nothing, in every dialect.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, KeyInit as _, Mac as _};
use mediagate_core::domain::ledger;
use mediagate_model::error::Error;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::admin::operator;
use crate::money::PRICES;
use crate::support::program::{output, program, text};
use crate::support::{Answer, Client, TestGateway, sound, video_order, videos_order};

const CHAT: &str = "/v1/chat/completions";
const VIDEOS: &str = "/v1/videos";
const MUSIC: &str = "/musicgen/submit/music";
const PERSONA: &str = "/musicgen/persona/create";
/// What the service objects to in a text.
const FORBIDDEN: &str = "forbidden";
/// 32 bytes.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=";

/// How the service responds.
#[derive(Debug, Clone)]
enum ServiceMood {
    /// Objects to texts with the word, and to pictures if this is set.
    Judges {
        objects_to_pictures: bool,
    },
    Fails(StatusCode),
    Says(String),
    Hangs,
}

struct ServiceState {
    mood: ServiceMood,
    /// The requests: path, headers and body.
    received: Vec<(String, HeaderMap, String)>,
}

/// A moderation service that speaks both protocols.
struct Moderator {
    url: String,
    state: Arc<Mutex<ServiceState>>,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for Moderator {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Moderator {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(ServiceState {
            mood: ServiceMood::Judges {
                objects_to_pictures: false,
            },
            received: Vec::new(),
        }));
        let routes = Router::new().fallback(receive).with_state(state.clone());
        let server = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { url, state, server }
    }

    fn becomes(&self, mood: ServiceMood) {
        self.state.lock().unwrap().mood = mood;
    }

    fn received(&self) -> Vec<(String, HeaderMap, String)> {
        self.state.lock().unwrap().received.clone()
    }

    fn openai_settings(&self) -> String {
        format!(
            "[[moderation.checks]]\nprotocol = \"openai\"\nendpoint = \"{}/v1\"\napi_key = \"the-key\"\n{PRICES}",
            self.url
        )
    }

    fn webhook_settings(&self) -> String {
        format!(
            "[[moderation.checks]]\nprotocol = \"webhook\"\nendpoint = \"{}/check\"\nsecret = \"{SECRET}\"\n{PRICES}",
            self.url
        )
    }
}

async fn receive(
    State(state): State<Arc<Mutex<ServiceState>>>,
    uri: Uri,
    headers: HeaderMap,
    body: String,
) -> Response {
    let mood = {
        let mut state = state.lock().unwrap();
        let request = (uri.path().to_owned(), headers, body.clone());
        state.received.push(request);
        state.mood.clone()
    };
    let objects_to_pictures = match mood {
        ServiceMood::Judges {
            objects_to_pictures,
        } => objects_to_pictures,
        ServiceMood::Fails(status) => return status.into_response(),
        ServiceMood::Says(text) => return text.into_response(),
        ServiceMood::Hangs => std::future::pending().await,
    };
    let body: Value = serde_json::from_str(&body).unwrap();
    let is_openai = uri.path() == "/v1/moderations";
    let (text, has_picture) = if is_openai {
        let text = body["input"].as_str().unwrap_or_default().to_owned();
        (text, body["input"].is_array())
    } else {
        let images = body["images"].as_array().unwrap();
        (
            body["text"].as_str().unwrap().to_owned(),
            !images.is_empty(),
        )
    };
    let is_flagged = text.contains(FORBIDDEN) || (has_picture && objects_to_pictures);
    let verdict = if is_openai {
        let categories = json!({"violence": is_flagged, "newest": null});
        json!({"results": [{"flagged": is_flagged, "categories": categories,
            "category_scores": {"violence": 0.9}}]})
    } else {
        let input = if has_picture { "images[0]" } else { "text" };
        json!({"allow": !is_flagged, "category": "house-rules", "reason": "Ask the desk.", "input": input})
    };
    verdict.to_string().into_response()
}

async fn gateway(toml: &str) -> TestGateway {
    let builder = TestGateway::builder().without_workers();
    builder.toml(toml).start().await
}

/// A gateway with a list of its own.
async fn gateway_with_terms(extra: &str) -> (TestGateway, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("terms.toml");
    let list = "[[terms]]\ncategory = \"house-rules\"\nwords = [\"forbidden\"]\n";
    std::fs::write(&file, list).unwrap();
    let check = format!(
        "[[moderation.checks]]\nprotocol = \"terms\"\nfile = '{}'\n{extra}{PRICES}",
        file.display()
    );
    (gateway(&check).await, folder)
}

/// How many tasks, entries and personas there are.
async fn rows(gateway: &TestGateway) -> [i64; 3] {
    let count = gateway.app.store.read(|conn| -> Result<_, Error> {
        let sql = "SELECT (SELECT COUNT(*) FROM tasks), (SELECT COUNT(*) FROM ledger), (SELECT COUNT(*) FROM personas)";
        Ok(conn.one(sql, &[], |row| Ok([row.int(0)?, row.int(1)?, row.int(2)?]))?)
    });
    count.await.unwrap().unwrap()
}

/// How many files there are below a folder.
fn files_below(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let count = entries.map(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() { files_below(&path) } else { 1 }
    });
    count.sum()
}

fn with_prompt(prompt: &str) -> Value {
    let mut order = videos_order();
    order["prompt"] = json!(prompt);
    order
}

fn with_picture() -> Value {
    let mut order = videos_order();
    let picture = sound::data_url("image/png", &sound::png(320, 180));
    order["input_reference"] = json!({"image_url": picture});
    order
}

async fn post_with_key(client: &Client, key: &str, body: &Value) -> Answer {
    let request = client.request(Method::POST, VIDEOS).json(body);
    client.send(request.header("idempotency-key", key)).await
}

/// The account's log of this action, newest first.
async fn verdicts(operator: &Client, action: &str) -> Vec<Value> {
    let path = format!("/v1/admin/audit?account=default&action={action}");
    let page = operator.get(&path).await.ok();
    page["data"].as_array().unwrap().clone()
}

async fn verify_and_stop(gateway: TestGateway) {
    assert_eq!(ledger::verify(&gateway.app).await.unwrap(), []);
    gateway.stop().await;
}

#[tokio::test]
async fn a_refused_order_of_any_dialect_makes_nothing() {
    let (gateway, _folder) = gateway_with_terms("").await;
    let clip = gateway.upload("Ferry").await["id"].clone();
    let before = rows(&gateway).await;
    let mut chat = video_order();
    chat["messages"][0]["content"] = json!("a Ｆörbidden lake");
    let split = json!({"task": "gen_stem", "continue_clip_id": clip, "title": "FORBIDDEN"});
    let persona = json!({"root_clip_id": clip, "name": "Voice", "description": "forbidden"});
    for (path, body, param) in [
        (CHAT, &chat, "messages"),
        (VIDEOS, &with_prompt("a forbidden lake"), "prompt"),
        (MUSIC, &split, "title"),
        (PERSONA, &persona, "description"),
    ] {
        let answer = gateway.post(path, body).await;
        answer.refused(422, "content_policy").on_param(param);
        let message = answer.message();
        assert!(message.contains("\"house-rules\""), "{message}");
    }
    let router =
        json!({"model": "animatic-1", "prompt": "forbidden", "duration": 1, "size": "480x480"});
    let answer = gateway.post("/api/v1/videos", &router).await;
    answer.refused(422, "content_policy");
    assert_eq!(rows(&gateway).await, before, "nothing was made or held");
    // What is only quoted, or allowed, is not refused.
    let quoted = json!({"endpoint": VIDEOS, "body": with_prompt("forbidden")});
    gateway.post("/v1/quote", &quoted).await.ok();
    gateway.post(VIDEOS, &with_prompt("a lake")).await.ok();
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn every_verdict_is_logged_and_counted() {
    let (gateway, _folder) = gateway_with_terms("[moderation]\nkeep = false\n").await;
    let operator = operator(&gateway).await;
    let mut order = with_prompt("a forbidden lake");
    order["user"] = json!("ada");
    for _ in 0..2 {
        let answer = gateway.post(VIDEOS, &order).await;
        answer.refused(422, "content_policy");
    }
    gateway.post(VIDEOS, &with_prompt("a lake")).await.ok();
    let refused = verdicts(&operator, "moderation.refuse").await;
    assert_eq!(refused.len(), 2, "{refused:?}");
    let after = &refused[0]["after"];
    assert_eq!(after["category"], "house-rules");
    assert_eq!(after["param"], "prompt");
    assert_eq!(after["user"], "ada");
    assert_eq!(after["model"], "animatic-1");
    assert_eq!(refused[0]["actor"]["kind"], "configuration");
    assert!(!refused[0].to_string().contains("lake"), "{refused:?}");
    assert_eq!(verdicts(&operator, "moderation.allow").await.len(), 1);

    let counts = operator.get("/v1/admin/moderation").await.ok();
    assert_eq!(counts["total"], 3);
    let first = &counts["data"][0];
    assert_eq!(first["outcome"], "refuse");
    assert_eq!(first["category"], "house-rules");
    assert_eq!(first["user"], "ada");
    assert_eq!(first["model"], "animatic-1");
    assert_eq!(first["count"], 2);
    assert!(first["key"]["id"].is_string(), "{first}");
    assert_eq!(counts["data"][1]["category"], Value::Null);
    let path = "/v1/admin/moderation?group_by=account&category=house-rules&since=2020-01-01";
    let counts = operator.get(path).await.ok();
    let expected =
        json!([{"object": "verdict_count", "outcome": "refuse", "account": "default", "count": 2}]);
    assert_eq!(counts["data"], expected);
    let past = operator
        .get("/v1/admin/moderation?until=2020-01-01")
        .await
        .ok();
    assert_eq!(past["total"], 0);
    let answer = operator.get("/v1/admin/moderation?group_by=colour").await;
    answer.refused(400, "invalid_value").on_param("group_by");
    gateway.stop().await;
}

#[tokio::test]
async fn texts_are_kept_if_the_settings_say_so() {
    let (gateway, _folder) = gateway_with_terms("[moderation]\nkeep = true\n").await;
    let operator = operator(&gateway).await;
    let answer = gateway.post(VIDEOS, &with_prompt("a forbidden lake")).await;
    answer.refused(422, "content_policy");
    let refused = verdicts(&operator, "moderation.refuse").await;
    let expected = json!([{"param": "prompt", "text": "a forbidden lake"}]);
    assert_eq!(refused[0]["after"]["texts"], expected);
    gateway.stop().await;
}

#[tokio::test]
async fn a_service_judges_each_text_and_picture_by_itself() {
    let moderator = Moderator::start().await;
    let gateway = gateway(&moderator.openai_settings()).await;
    let media = gateway.app.config.media_path();
    let files = files_below(&media);
    let answer = gateway.post(VIDEOS, &with_prompt("a forbidden lake")).await;
    answer.refused(422, "content_policy").on_param("prompt");
    assert!(
        answer.message().contains("\"violence\""),
        "{}",
        answer.message()
    );
    moderator.becomes(ServiceMood::Judges {
        objects_to_pictures: true,
    });
    let answer = gateway.post(VIDEOS, &with_picture()).await;
    answer.refused(422, "content_policy");
    let param = answer.json["error"]["param"].as_str().unwrap();
    assert!(param.starts_with("input_reference"), "{param}");
    assert_eq!(rows(&gateway).await, [0, 0, 0]);
    assert_eq!(files_below(&media), files, "the picture was removed");
    let received = moderator.received();
    assert_eq!(received.len(), 3, "one text, then a text and a picture");
    for (path, headers, body) in &received {
        assert_eq!(path, "/v1/moderations");
        assert_eq!(headers["authorization"], "Bearer the-key");
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["model"], "omni-moderation-latest");
    }
    let is_picture = |body: &str| body.contains("data:image/png;base64,");
    let pictures = received.iter().filter(|(_, _, body)| is_picture(body));
    assert_eq!(pictures.count(), 1);
    moderator.becomes(ServiceMood::Judges {
        objects_to_pictures: false,
    });
    gateway.post(VIDEOS, &with_picture()).await.ok();
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn a_webhook_is_signed_and_names_the_input() {
    let moderator = Moderator::start().await;
    let gateway = gateway(&moderator.webhook_settings()).await;
    moderator.becomes(ServiceMood::Judges {
        objects_to_pictures: true,
    });
    let answer = gateway.post(VIDEOS, &with_picture()).await;
    answer.refused(422, "content_policy");
    let param = answer.json["error"]["param"].as_str().unwrap();
    assert!(param.starts_with("input_reference"), "{param}");
    let message = answer.message();
    assert!(
        message.contains("\"house-rules\"") && message.contains("Ask the desk."),
        "{message}"
    );
    let received = moderator.received();
    let [(path, headers, body)] = received.as_slice() else {
        panic!("{received:?}");
    };
    assert_eq!(path, "/check");
    let header = |name: &str| headers[name].to_str().unwrap();
    let key = BASE64
        .decode(SECRET.strip_prefix("whsec_").unwrap())
        .unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    let (id, time) = (header("webhook-id"), header("webhook-timestamp"));
    mac.update(format!("{id}.{time}.{body}").as_bytes());
    let expected = format!("v1,{}", BASE64.encode(mac.finalize().into_bytes()));
    assert_eq!(header("webhook-signature"), expected);
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["stage"], "order");
    assert_eq!(body["text"], "a lake at dawn");
    assert!(body["task"].is_string());
    assert_eq!(body["images"].as_array().unwrap().len(), 1);
    assert_eq!(rows(&gateway).await, [0, 0, 0]);
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn a_service_without_a_verdict_refuses_unless_the_settings_allow_it() {
    let moderator = Moderator::start().await;
    let moods = [
        ServiceMood::Fails(StatusCode::INTERNAL_SERVER_ERROR),
        ServiceMood::Fails(StatusCode::FOUND),
        ServiceMood::Says("{}".to_owned()),
        ServiceMood::Says("x".repeat(1 << 20)),
        ServiceMood::Hangs,
    ];
    let settings = moderator.openai_settings();
    let strict = gateway(&format!("[moderation]\ntimeout = \"500ms\"\n{settings}")).await;
    let lenient = gateway(&format!(
        "[moderation]\ntimeout = \"500ms\"\non_error = \"allow\"\n{settings}"
    ))
    .await;
    for (number, mood) in moods.into_iter().enumerate() {
        moderator.becomes(mood.clone());
        let answer = strict.post(VIDEOS, &videos_order()).await;
        answer.refused(422, "content_policy").on_param("prompt");
        assert!(
            answer.message().contains("unchecked"),
            "{mood:?}: {}",
            answer.message()
        );
        let order = with_prompt(&format!("lake number {number}"));
        lenient.post(VIDEOS, &order).await.ok();
    }
    assert_eq!(rows(&strict).await, [0, 0, 0]);
    let operator = operator(&strict).await;
    assert_eq!(verdicts(&operator, "moderation.error").await.len(), 5);
    verify_and_stop(strict).await;
    // A service that is down.
    drop(moderator);
    let last = with_prompt("the last lake");
    let answer = tokio::time::timeout(Duration::from_secs(30), lenient.post(VIDEOS, &last));
    answer.await.unwrap().ok();
    verify_and_stop(lenient).await;
}

#[tokio::test]
async fn a_repeated_order_is_not_judged_a_second_time() {
    let moderator = Moderator::start().await;
    let gateway = gateway(&moderator.openai_settings()).await;
    for _ in 0..2 {
        post_with_key(&gateway, "good", &with_prompt("a lake"))
            .await
            .ok();
    }
    assert_eq!(moderator.received().len(), 1);
    let forbidden = with_prompt("a forbidden lake");
    let first = post_with_key(&gateway, "bad", &forbidden).await;
    first.refused(422, "content_policy");
    let second = post_with_key(&gateway, "bad", &forbidden).await;
    second.refused(422, "content_policy").on_param("prompt");
    assert_eq!(second.message(), first.message());
    assert_eq!(moderator.received().len(), 2);
    // Another order is another matter.
    let other = post_with_key(&gateway, "worse", &forbidden).await;
    other.refused(422, "content_policy");
    assert_eq!(moderator.received().len(), 3);
    verify_and_stop(gateway).await;
}

#[tokio::test]
async fn config_check_names_faults_and_warns_public_gateways() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    let check = async |toml: &str| {
        std::fs::write(&file, toml).unwrap();
        let arguments = ["config", "check", "--config", file.to_str().unwrap()];
        let result = output(program(&arguments)).await;
        (result.status.code(), text(&result.stderr).to_owned())
    };
    for (toml, expected) in [
        ("[moderation]\nresults = true\n", "`moderation.results`"),
        (
            "[[moderation.checks]]\nprotocol = \"pictures\"\nmodel = \"opennsfw\"\n",
            "\"pictures\" is not possible",
        ),
        (
            "[[moderation.checks]]\nprotocol = \"openai\"\n",
            "endpoint`: is required",
        ),
    ] {
        let (code, error) = check(toml).await;
        assert_eq!(code, Some(2), "{error}");
        assert!(error.contains(expected), "{toml}: {error}");
    }
    let public = "public_url = \"https://media.example.com\"\n";
    let (code, error) = check(public).await;
    assert_eq!(code, Some(0), "{error}");
    assert!(
        error.contains("warning: ") && error.contains("2026/1744"),
        "{error}"
    );
    let checked = format!("{public}[[moderation.checks]]\nprotocol = \"terms\"\n");
    let (code, error) = check(&checked).await;
    assert_eq!(code, Some(0), "{error}");
    assert!(!error.contains("2026/1744"), "{error}");
}
