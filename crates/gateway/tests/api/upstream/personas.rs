//! Personas at the provider that made their clips.

use serde_json::{Value, json};
use simulator::{ConnectionCut, Fault, LinkState, NetworkState, Simulator};

use super::music::{SUBMIT, order_clips, suno_gateway, suno_settings};
use super::{gateway, provider, simulator, submissions};
use crate::admin::operator;
use crate::support::gateway::finished;
use crate::support::postgres::TestDatabase;
use crate::support::program::Server;
use crate::support::{Answer, Client, TestGateway, eventually};

const CREATE: &str = "/musicgen/persona/create";

/// A gateway whose database connection can be broken, and a request for a persona.
async fn suno_gateway_behind_proxy(simulator: &Simulator) -> (TestGateway, Value) {
    let builder = TestGateway::builder().behind_proxy();
    let gateway = builder.toml(&suno_settings(simulator)).start().await;
    let song = json!({"task": "generate", "mv": "band", "title": "Rain", "tags": "blues"});
    let song = order_clips(&gateway, &song).await;
    let body = json!({"root_clip_id": song[0]["id"], "name": "Voice", "description": "low"});
    (gateway, body)
}

/// An SDK's first retry, without an idempotency key.
async fn retry_once(client: &Client, body: &Value) -> Answer {
    send_after_retries(client, body, 1).await
}

/// A request that an SDK marks as this retry.
async fn send_after_retries(client: &Client, body: &Value, retry_count: u32) -> Answer {
    let request = client.request(reqwest::Method::POST, CREATE).json(body);
    let request = request.header("x-stainless-retry-count", retry_count);
    client.send(request).await
}

/// Nobody pays twice: what the provider made is recorded, however many attempts that takes.
#[tokio::test(flavor = "multi_thread")]
async fn a_created_persona_is_recorded_although_the_database_breaks() {
    let simulator = simulator().await;
    let (gateway, body) = suno_gateway_behind_proxy(&simulator).await;
    let before = submissions(&simulator);
    let mut cut = ConnectionCut::new("INSERT INTO personas");
    cut.times = 4;
    gateway.proxy().cut(cut);
    let first = gateway.post(CREATE, &body).await;
    gateway.proxy().wait_for_strikes(1).await;
    let created = eventually("the retry gets an answer", async || {
        let answer = retry_once(&gateway, &body).await;
        (answer.status == 200).then_some(answer.json)
    });
    let created = created.await;
    if first.status == 200 {
        assert_eq!(first.json["id"], created["id"]);
    }
    assert_eq!(submissions(&simulator), before + 1);
    let list = gateway.get("/musicgen/personas").await.ok();
    assert_eq!(list["data"].as_array().unwrap().len(), 1, "{list}");
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_created_persona_is_found_after_the_database_stalled() {
    let simulator = simulator().await;
    let (gateway, body) = suno_gateway_behind_proxy(&simulator).await;
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
    eventually("the retry gets an answer", async || {
        let answer = retry_once(&gateway, &body).await;
        (answer.status == 200).then_some(())
    })
    .await;
    assert_eq!(submissions(&simulator), before + 1);
    gateway.stop().await;
}

/// An intent that is recorded and not sent is taken from a stopped process before
/// another process carries it out.
#[tokio::test]
async fn a_process_that_was_stopped_orders_no_second_persona() {
    let simulator = simulator().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    std::fs::write(&file, suno_settings(&simulator)).unwrap();
    let data = folder.path().join("data");
    // With SQLite, a process stopped in a transaction would block all others.
    let database = TestDatabase::create().await;
    let args = [
        "--config",
        file.to_str().unwrap(),
        "--database",
        database.url.as_str(),
    ];
    let stop_after_intent = [("MEDIAGATE_STOP_AT", "intent-reserved")];
    let frozen = Server::start_with(&data, &args, &stop_after_intent).await;
    let other = Server::start(&data, &args).await;
    let key = frozen.first_key().await;
    let client_of = |server: &Server| Client::new(&server.base, Some(&key));
    let (at_frozen, at_other) = (client_of(&frozen), client_of(&other));
    let song = json!({"task": "generate", "mv": "band", "title": "Rain", "tags": "blues"});
    let song = order_clips(&at_other, &song).await;
    let before = submissions(&simulator);
    let body = json!({"root_clip_id": song[0]["id"], "name": "Voice", "description": "low"});
    let request = at_frozen.request(reqwest::Method::POST, CREATE).json(&body);
    let first = tokio::spawn(request.send());
    frozen.wait_until_stopped().await;
    first.abort();
    drop(first.await);
    let created = retry_once(&at_other, &body).await;
    assert_eq!(created.status, 200, "{}", created.text());
    frozen.signal("-CONT");
    // The process works again. The request in which it was stopped ends before it does.
    let retried = retry_once(&at_frozen, &body).await;
    frozen.stop().await;
    // After the first request has ended there, a retry creates no other persona, either.
    let third = send_after_retries(&at_other, &body, 2).await;
    assert_eq!(submissions(&simulator), before + 1);
    for answer in [retried, third] {
        assert_eq!(answer.json["id"], created.json["id"], "{}", answer.text());
    }
    other.stop().await;
}

/// No task shows it, so the operator sees it in the metric.
#[tokio::test]
async fn a_persona_with_an_unknown_outcome_is_counted() {
    let simulator = simulator().await;
    let gateway = suno_gateway(&simulator).await;
    let operator = operator(&gateway).await;
    let song = json!({"task": "generate", "mv": "band", "title": "Rain"});
    let song = order_clips(&gateway, &song).await;
    let count = async || {
        let metrics = operator.get("/metrics").await.whole_text();
        let mut lines = metrics.lines();
        let value = lines.find_map(|line| {
            line.strip_prefix("mediagate_submissions_unconfirmed_total ")
                .map(str::to_owned)
        });
        value.map_or(0, |value| value.parse::<u64>().unwrap())
    };
    let before = count().await;
    super::at_submission(&simulator, Fault::DropAfter, 1);
    let body = json!({"root_clip_id": song[0]["id"], "name": "Voice", "description": "low"});
    let answer = gateway.post(CREATE, &body).await;
    answer.refused(424, "submission_unconfirmed");
    assert_eq!(count().await, before + 1);
    gateway.stop().await;
}

#[tokio::test]
async fn a_persona_that_the_provider_forbids_is_refused() {
    let simulator = simulator().await;
    let gateway = suno_gateway(&simulator).await;
    let song = order_clips(
        &gateway,
        &json!({"task": "generate", "mv": "band", "title": "Rain", "tags": "blues"}),
    )
    .await;
    let body =
        json!({"root_clip_id": song[0]["id"], "name": "forbidden voice", "description": "x"});
    let refused = gateway.post(CREATE, &body).await;
    refused.refused(422, "content_policy");
    let list = gateway.get("/musicgen/personas").await.ok();
    assert_eq!(list["data"], json!([]));
    gateway.stop().await;
}

#[tokio::test]
async fn a_persona_sings_only_where_it_was_made() {
    let (simulator, other) = (simulator().await, simulator().await);
    let options = "upload = \"direct\"\nbatch = \"one\"";
    let toml = provider("acme", "suno-family", &simulator, options)
        + &provider("other", "suno-family", &other, options)
        + "[models.band]\nkind = \"music\"\nprice = \"free\"\nroutes = [{ provider = \"other\", model = \"chirp-record\" }, { provider = \"acme\", model = \"chirp-record\" }]\n"
        + "[models.home]\nkind = \"music\"\nprice = \"free\"\nroutes = [{ provider = \"acme\", model = \"chirp-record\" }]\n"
        + "[models.away]\nkind = \"music\"\nprice = \"free\"\nroutes = [{ provider = \"other\", model = \"chirp-record\" }]\n";
    let gateway = gateway(&toml).await;
    let song = json!({"task": "generate", "mv": "home", "title": "Rain", "tags": "blues"});
    let song = order_clips(&gateway, &song).await;
    let persona = json!({"root_clip_id": song[0]["id"], "name": "Voice", "description": "low"});
    let persona = gateway.post(CREATE, &persona).await.ok();
    let sing = |model: &str| json!({"task": "generate", "mv": model, "title": "Again", "persona_id": persona["id"]});
    gateway
        .post(SUBMIT, &sing("away"))
        .await
        .refused(400, "unsupported_value")
        .on_param("persona_id");
    // The first route does not know the persona; the second does.
    order_clips(&gateway, &sing("band")).await;
    assert_eq!((submissions(&simulator), submissions(&other)), (3, 0));
    // The order also goes to no other provider when the persona's own refuses once.
    super::at_submission(&simulator, super::status(401), 1);
    let record = gateway.post(SUBMIT, &sing("band")).await.ok();
    let view = finished(&gateway, record["id"].as_str().unwrap()).await;
    assert_eq!(view["status"], "succeeded", "{view}");
    assert_eq!((submissions(&simulator), submissions(&other)), (5, 0));
    gateway.stop().await;
}
