//! Orders that make files, at an account's storage limit and on a full disk: refused before they
//! are taken. What was taken is delivered.

use futures_util::future::join_all;
use mediagate_core::domain::keys::NewKey;
use serde_json::{Value, json};

use crate::support::gateway::{finished, upload};
use crate::support::{Answer, Client, TestGateway, sound, video_order, videos_order};

const SUBMIT: &str = "/musicgen/submit/music";

/// A film that is expected to take 230,400 bytes.
const FILM_BYTES: u64 = 480 * 480;

async fn start(toml: &str, on_postgres: bool) -> TestGateway {
    let builder = TestGateway::builder().without_workers().toml(toml);
    let builder = if on_postgres {
        builder.on_postgres()
    } else {
        builder
    };
    builder.start().await
}

/// One order of every kind that the embedded models make, by path.
fn orders(clip: &Value) -> [(&'static str, Value); 5] {
    let mut stream = video_order();
    stream["stream"] = json!(true);
    let mut several = video_order();
    several["n"] = json!(3);
    [
        ("/v1/videos", videos_order()),
        ("/v1/chat/completions", video_order()),
        ("/v1/chat/completions", stream),
        ("/v1/chat/completions", several),
        (
            SUBMIT,
            json!({"task": "gen_stem", "continue_clip_id": clip["id"], "stem_task": "twelve"}),
        ),
    ]
}

async fn account(client: &Client) -> (u64, u64) {
    let account = client.get("/v1/account").await.ok();
    let number = |name: &str| account[name].as_u64().unwrap();
    (number("storage_bytes"), number("storage_expected_bytes"))
}

async fn task_count(client: &Client) -> usize {
    let tasks = client.get("/v1/tasks?limit=100").await.ok();
    tasks["data"].as_array().unwrap().len()
}

fn id_of(task: &Answer) -> String {
    assert_eq!(task.status, 200, "{}", task.text());
    task.header("x-task-id").unwrap().to_owned()
}

async fn check_orders_at_the_limit(on_postgres: bool) {
    let mut gateway = start("storage_limit = \"3MB\"", on_postgres).await;
    let full = gateway.caller("full", NewKey::default()).await;
    let other = gateway.caller("other", NewKey::default()).await;
    let clip = upload(&full, "Night Song", sound::wav(1, 1)).await;
    let (stored, expected) = account(&full).await;
    assert!(stored > 0 && expected == 0 && stored < 3_000_000 - FILM_BYTES);
    // Orders are taken for as long as the files and what is expected of the others leave room.
    let mut taken = Vec::new();
    while stored + FILM_BYTES * (taken.len() as u64) < 3_000_000 {
        taken.push(id_of(&full.post("/v1/videos", &videos_order()).await));
    }
    assert!(taken.len() >= 2, "{stored}");
    let expected = FILM_BYTES * taken.len() as u64;
    assert_eq!(account(&full).await, (stored, expected));
    for (path, order) in orders(&clip) {
        let refused = full.post(path, &order).await;
        refused.refused(413, "storage_full");
        assert!(refused.message().contains("storage_limit of 3MB"));
        let quote = json!({"endpoint": path, "body": order});
        let quote = full.post("/v1/quote", &quote).await.ok();
        let note = quote["note"].as_str().unwrap();
        assert!(note.contains("storage_limit of 3MB"), "{note}");
    }
    let persona = json!({"root_clip_id": clip["id"], "name": "Nightingale"});
    full.post("/musicgen/persona/create", &persona)
        .await
        .refused(413, "storage_full");
    assert_eq!(task_count(&full).await, taken.len());
    // Another account is not concerned.
    let film = id_of(&other.post("/v1/videos", &videos_order()).await);
    let quote = json!({"endpoint": "/v1/videos", "body": videos_order()});
    let quote = other.post("/v1/quote", &quote).await.ok();
    assert_eq!(quote["note"], Value::Null);
    // What was taken is delivered, and then no longer expected.
    gateway.start_workers().await;
    for task in &taken {
        assert_eq!(finished(&full, task).await["status"], "succeeded");
    }
    assert_eq!(finished(&other, &film).await["status"], "succeeded");
    let (delivered, expected) = account(&full).await;
    assert!(delivered > stored && expected == 0);
    gateway.stop().await;
}

#[tokio::test]
async fn orders_are_refused_at_the_storage_limit() {
    check_orders_at_the_limit(false).await;
}

#[tokio::test]
async fn orders_are_refused_at_the_storage_limit_on_postgres() {
    check_orders_at_the_limit(true).await;
}

/// Simultaneous orders of an account by two keys see each other.
async fn check_simultaneous_orders(on_postgres: bool) {
    let gateway = start("storage_limit = \"600kB\"", on_postgres).await;
    let keys = [
        gateway.caller("owls", NewKey::default()).await,
        gateway.caller("owls", NewKey::default()).await,
    ];
    let order = |number: usize| {
        let client = keys[number % 2].clone();
        async move { client.post("/v1/videos", &videos_order()).await.status }
    };
    let statuses = join_all((0..24).map(order)).await;
    let count = |status| statuses.iter().filter(|found| **found == status).count();
    // With two taken, 460,800 of 600,000 bytes are expected.
    assert_eq!((count(200), count(413)), (3, 21), "{statuses:?}");
    assert_eq!(task_count(&keys[0]).await, 3);
    gateway.stop().await;
}

#[tokio::test]
async fn simultaneous_orders_share_the_room() {
    check_simultaneous_orders(false).await;
}

#[tokio::test]
async fn simultaneous_orders_share_the_room_on_postgres() {
    check_simultaneous_orders(true).await;
}

/// A short stem is mostly covers.
#[tokio::test]
async fn clips_need_room_for_their_covers() {
    /// Two stems of a second, each with its covers.
    const SEPARATION_BYTES: u64 = 2 * (150_000 + 1_500_000);
    let mut gateway = start("storage_limit = \"6MB\"", false).await;
    let owner = gateway.caller("singer", NewKey::default()).await;
    let clip = upload(&owner, "Night Song", sound::wav(1, 1)).await;
    let (stored, _) = account(&owner).await;
    assert!(stored < 6_000_000 - SEPARATION_BYTES, "{stored}");
    let separation = |title: &str| {
        json!({"task": "gen_stem", "continue_clip_id": clip["id"], "stem_task": "two",
               "title": title})
    };
    let mut taken = Vec::new();
    for title in ["one", "two"] {
        let record = owner.post(SUBMIT, &separation(title)).await.ok();
        taken.push(record["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(account(&owner).await, (stored, 2 * SEPARATION_BYTES));
    let refused = owner.post(SUBMIT, &separation("three")).await;
    refused.refused(413, "storage_full");
    gateway.start_workers().await;
    for task in &taken {
        assert_eq!(finished(&owner, task).await["status"], "succeeded");
    }
    let (delivered, expected) = account(&owner).await;
    assert_eq!(expected, 0);
    assert!(
        delivered <= stored + 2 * SEPARATION_BYTES,
        "{delivered} of {stored}"
    );
    gateway.stop().await;
}

/// A cancelled order no longer counts.
#[tokio::test]
async fn a_cancellation_makes_room() {
    let gateway = start("storage_limit = \"100kB\"", false).await;
    let task = id_of(&gateway.post("/v1/videos", &videos_order()).await);
    let refused = gateway.post("/v1/videos", &videos_order()).await;
    refused.refused(413, "storage_full");
    gateway
        .post(&format!("/v1/tasks/{task}/cancel"), &json!({}))
        .await
        .ok();
    id_of(&gateway.post("/v1/videos", &videos_order()).await);
    gateway.stop().await;
}

/// A repetition of an order that was taken is answered with it, however full the account is now.
#[tokio::test]
async fn a_repetition_is_no_new_order() {
    let gateway = start("storage_limit = \"100kB\"", false).await;
    let order = async || {
        let request = gateway.request(reqwest::Method::POST, "/v1/videos");
        let request = request.header("idempotency-key", "the-one");
        gateway.send(request.json(&videos_order())).await
    };
    let first = id_of(&order().await);
    let repeated = order().await;
    assert_eq!(repeated.header("idempotent-replayed"), Some("true"));
    assert_eq!(id_of(&repeated), first);
    gateway.stop().await;
}

#[tokio::test]
async fn a_full_disk_takes_no_orders() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let clip = gateway.upload("Night Song").await;
    let gateway = gateway.restart(Some("disk_floor = \"1000TB\"")).await;
    for (path, order) in orders(&clip) {
        let refused = gateway.post(path, &order).await;
        refused.refused(503, "overloaded");
        assert_eq!(refused.header("retry-after"), Some("60"));
        let quote = json!({"endpoint": path, "body": order});
        let quote = gateway.post("/v1/quote", &quote).await.ok();
        assert!(quote["note"].as_str().unwrap().contains("disk"), "{quote}");
    }
    assert_eq!(task_count(&gateway).await, 0);
    // A connection test makes nothing, so it is answered.
    let mut test = video_order();
    test["max_tokens"] = json!(5);
    gateway.post("/v1/chat/completions", &test).await.ok();
    gateway.stop().await;
}
