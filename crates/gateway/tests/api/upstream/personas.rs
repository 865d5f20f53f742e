//! Personas at the provider that made their clips.

use serde_json::{Value, json};
use simulator::{ConnectionCut, LinkState, NetworkState, Simulator};

use super::music::{SUBMIT, done, family, singer};
use super::{gateway, provider, simulator, submissions};
use crate::support::gateway::finished;
use crate::support::postgres::TestDatabase;
use crate::support::program::Server;
use crate::support::{Answer, Client, TestGateway, eventually};

const CREATE: &str = "/musicgen/persona/create";

/// A gateway whose database's network can be spoiled, and a persona's request.
async fn singing_behind_proxy(simulator: &Simulator) -> (TestGateway, Value) {
    let builder = TestGateway::builder().behind_proxy();
    let gateway = builder.toml(&singer(simulator)).start().await;
    let song = json!({"task": "generate", "mv": "band", "title": "Rain"});
    let song = done(&gateway, &song).await;
    let body = json!({"root_clip_id": song[0]["id"], "name": "Voice", "description": "low"});
    (gateway, body)
}

/// An SDK's second try, without a key.
async fn retried(client: &Client, body: &Value) -> Answer {
    tried(client, body, 1).await
}

/// A try before which there were so many.
async fn tried(client: &Client, body: &Value, before: u32) -> Answer {
    let request = client.request(reqwest::Method::POST, CREATE).json(body);
    let request = request.header("x-stainless-retry-count", before);
    client.send(request).await
}

/// Nobody pays twice: what the provider made is written down, however often it takes.
#[tokio::test(flavor = "multi_thread")]
async fn a_persona_that_was_made_is_written_down_when_the_database_breaks() {
    let simulator = simulator().await;
    let (gateway, body) = singing_behind_proxy(&simulator).await;
    let before = submissions(&simulator);
    let mut cut = ConnectionCut::new("INSERT INTO personas");
    cut.times = 4;
    gateway.proxy().cut(cut);
    let first = gateway.post(CREATE, &body).await;
    gateway.proxy().wait_for_strikes(1).await;
    let made = eventually("a retry is told", async || {
        let answer = retried(&gateway, &body).await;
        (answer.status == 200).then_some(answer.json)
    });
    let made = made.await;
    if first.status == 200 {
        assert_eq!(first.json["id"], made["id"]);
    }
    assert_eq!(submissions(&simulator), before + 1);
    let all = gateway.get("/musicgen/personas").await.ok();
    assert_eq!(all["data"].as_array().unwrap().len(), 1, "{all}");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_persona_that_was_made_is_found_after_the_database_stood_still() {
    let simulator = simulator().await;
    let (gateway, body) = singing_behind_proxy(&simulator).await;
    let before = submissions(&simulator);
    gateway
        .proxy()
        .cut(ConnectionCut::new("INSERT INTO personas").holding());
    let (first, ()) = tokio::join!(gateway.post(CREATE, &body), async {
        gateway.proxy().wait_for_strikes(1).await;
        gateway.proxy().set(NetworkState::both(LinkState::held()));
    });
    first.refused(503, "overloaded");
    gateway.proxy().heal();
    eventually("a retry is told", async || {
        let answer = retried(&gateway, &body).await;
        (answer.status == 200).then_some(())
    })
    .await;
    assert_eq!(submissions(&simulator), before + 1);
    gateway.stop().await;
}

/// An intent that is on disk, and not sent, is taken away from a process that stands
/// still before another one makes what it was for.
#[tokio::test]
async fn a_process_that_stood_still_orders_no_second_persona() {
    let simulator = simulator().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    std::fs::write(&file, singer(&simulator)).unwrap();
    let data = folder.path().join("data");
    // SQLite would have everybody wait, should it stand still in a transaction.
    let database = TestDatabase::create().await;
    let words = [
        "--config",
        file.to_str().unwrap(),
        "--database",
        database.url.as_str(),
    ];
    let stopping = [("MEDIAGATE_STOP_AT", "intent-reserved")];
    let frozen = Server::start_with(&data, &words, &stopping).await;
    let other = Server::start(&data, &words).await;
    let key = frozen.first_key().await;
    let at = |server: &Server| Client::new(&server.base, Some(&key));
    let (at_frozen, at_other) = (at(&frozen), at(&other));
    let song = json!({"task": "generate", "mv": "band", "title": "Rain"});
    let song = done(&at_other, &song).await;
    let before = submissions(&simulator);
    let body = json!({"root_clip_id": song[0]["id"], "name": "Voice", "description": "low"});
    let request = at_frozen.request(reqwest::Method::POST, CREATE).json(&body);
    let first = tokio::spawn(request.send());
    frozen.wait_until_stopped().await;
    first.abort();
    drop(first.await);
    let made = retried(&at_other, &body).await;
    assert_eq!(made.status, 200, "{}", made.text());
    frozen.signal("-CONT");
    // It works again; what it stood at is over before it ends.
    let again = retried(&at_frozen, &body).await;
    frozen.stop().await;
    // What became of the first try there is no reason to make it anew.
    let third = tried(&at_other, &body, 2).await;
    assert_eq!(submissions(&simulator), before + 1);
    for answer in [again, third] {
        assert_eq!(answer.json["id"], made.json["id"], "{}", answer.text());
    }
    other.stop().await;
}

#[tokio::test]
async fn a_persona_that_the_provider_forbids_is_a_refusal() {
    let simulator = simulator().await;
    let gateway = family(&simulator).await;
    let song = done(
        &gateway,
        &json!({"task": "generate", "mv": "band", "title": "Rain"}),
    )
    .await;
    let body =
        json!({"root_clip_id": song[0]["id"], "name": "forbidden voice", "description": "x"});
    let refused = gateway.post(CREATE, &body).await;
    refused.refused(422, "content_policy");
    let none = gateway.get("/musicgen/personas").await.ok();
    assert_eq!(none["data"], json!([]));
    gateway.stop().await;
}

#[tokio::test]
async fn a_persona_sings_only_where_it_was_made() {
    let (simulator, other) = (simulator().await, simulator().await);
    let options = "upload = \"direct\"\nbatch = \"one\"";
    let toml = provider("acme", "suno-family", &simulator, options)
        + &provider("other", "suno-family", &other, options)
        + "[models.band]\nkind = \"music\"\nroutes = [{ provider = \"other\", model = \"chirp-record\" }, { provider = \"acme\", model = \"chirp-record\" }]\n"
        + "[models.home]\nkind = \"music\"\nroutes = [{ provider = \"acme\", model = \"chirp-record\" }]\n"
        + "[models.away]\nkind = \"music\"\nroutes = [{ provider = \"other\", model = \"chirp-record\" }]\n";
    let gateway = gateway(&toml).await;
    let song = json!({"task": "generate", "mv": "home", "title": "Rain"});
    let song = done(&gateway, &song).await;
    let persona = json!({"root_clip_id": song[0]["id"], "name": "Voice", "description": "low"});
    let persona = gateway.post(CREATE, &persona).await.ok();
    let sing = |model: &str| json!({"task": "generate", "mv": model, "title": "Again", "persona_id": persona["id"]});
    gateway
        .post(SUBMIT, &sing("away"))
        .await
        .refused(400, "unsupported_value")
        .on_param("persona_id");
    // The first route does not know it; the second does.
    done(&gateway, &sing("band")).await;
    assert_eq!((submissions(&simulator), submissions(&other)), (3, 0));
    // And it goes nowhere else when its provider does not take it.
    super::at_submission(&simulator, super::status(401), 1);
    let record = gateway.post(SUBMIT, &sing("band")).await.ok();
    let view = finished(&gateway, record["id"].as_str().unwrap()).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    assert_eq!((submissions(&simulator), submissions(&other)), (5, 0));
    gateway.stop().await;
}
