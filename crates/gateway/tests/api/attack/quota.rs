//! Limits of an account's storage and of the disk.

use base64::Engine as _;
use mediagate_core::domain::keys::NewKey;
use mediagate_worker::remove_expired_media;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use serde_json::{Value, json};

use crate::support::gateway::finished;
use crate::support::{Answer, TestGateway, sound, video_order, videos_order};

async fn try_upload(gateway: &TestGateway) -> Answer {
    let form = Form::new().part("file", Part::bytes(sound::wav(2, 1)).file_name("song.wav"));
    let request = gateway.request(Method::POST, "/musicgen/uploads/audio");
    gateway.send(request.multipart(form)).await
}

fn with_picture() -> Value {
    let picture = base64::engine::general_purpose::STANDARD.encode(sound::png(64, 64));
    let mut order = videos_order();
    order["input_reference"] = json!({"image_url": format!("data:image/png;base64,{picture}")});
    order
}

async fn storage(gateway: &TestGateway) -> (u64, u64) {
    let account = gateway.get("/v1/account").await.ok();
    let number = |name: &str| account[name].as_u64().unwrap();
    (number("storage_bytes"), number("storage_limit"))
}

async fn gateway(toml: &str, on_postgres: bool) -> TestGateway {
    let builder = TestGateway::builder().toml(toml);
    let builder = if on_postgres {
        builder.on_postgres()
    } else {
        builder
    };
    builder.start().await
}

async fn check_storage_limit(on_postgres: bool) {
    let gateway = gateway("storage_limit = \"2MB\"", on_postgres).await;
    let (mut stored_before, limit) = storage(&gateway).await;
    assert_eq!(limit, 2_000_000);
    let refused = loop {
        let answer = try_upload(&gateway).await;
        if answer.status != 200 {
            break answer;
        }
        let (stored, _) = storage(&gateway).await;
        assert!(stored > stored_before && stored <= limit);
        stored_before = stored;
    };
    refused.refused(413, "storage_full");
    assert!(refused.message().contains("storage_limit") && refused.message().contains("2MB"));
    assert_eq!(
        storage(&gateway).await.0,
        stored_before,
        "a rejected upload is not counted"
    );
    // An accepted order is made and stored all the same.
    let video = gateway.post("/v1/videos", &videos_order()).await.ok();
    let task = video["id"].as_str().unwrap().replace("video_", "");
    assert_eq!(finished(&gateway, &task).await["status"], "succeeded");
    assert!(storage(&gateway).await.0 > stored_before);
    // A deletion makes room, once the files are gone.
    gateway
        .delete(&format!("/v1/videos/{}", video["id"].as_str().unwrap()))
        .await
        .ok();
    remove_expired_media(&gateway.app).await.unwrap();
    assert_eq!(storage(&gateway).await.0, stored_before);
    gateway.stop().await;
}

#[tokio::test]
async fn an_accounts_storage_is_limited() {
    check_storage_limit(false).await;
}

#[tokio::test]
async fn an_accounts_storage_is_limited_on_postgres() {
    check_storage_limit(true).await;
}

#[tokio::test]
async fn an_upload_beyond_the_storage_limit_leaves_nothing() {
    let gateway = gateway("storage_limit = \"1kB\"", false).await;
    let media = gateway.app.config.media_path();
    let before = count_files(&media);
    try_upload(&gateway).await.refused(413, "storage_full");
    let order = with_picture();
    gateway
        .post("/v1/videos", &order)
        .await
        .refused(413, "storage_full");
    assert_eq!(count_files(&media), before);
    gateway.stop().await;
}

#[tokio::test]
async fn a_refused_order_leaves_no_picture() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let new = NewKey {
        max_running: Some(1),
        ..Default::default()
    };
    let caller = gateway.with_key(&gateway.new_key("default", new).await);
    caller.post("/v1/videos", &videos_order()).await.ok();
    let media = gateway.app.config.media_path();
    let before = count_files(&media);
    let order = with_picture();
    caller
        .post("/v1/videos", &order)
        .await
        .refused(429, "too_many_tasks");
    assert_eq!(count_files(&media), before);
    gateway.stop().await;
}

/// An order that the key's limits reject is rejected before its pictures cost anything.
#[tokio::test]
async fn pictures_of_an_order_beyond_the_keys_limits_are_neither_fetched_nor_decoded() {
    let price = "[models.animatic-1]\nprice = { unit = \"second\", usd = \"0.10\" }\n";
    let gateway = TestGateway::builder()
        .without_workers()
        .allow_loopback()
        .toml(price)
        .start()
        .await;
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let address = format!("http://{}/a.png", server.local_addr().unwrap());
    let at_its_limit = NewKey {
        max_running: Some(1),
        ..NewKey::default()
    };
    let at_its_limit = gateway.caller("default", at_its_limit).await;
    at_its_limit.post("/v1/videos", &videos_order()).await.ok();
    let small_budget = NewKey {
        budget: Some("0.05".parse().unwrap()),
        ..NewKey::default()
    };
    let small_budget = gateway.caller("default", small_budget).await;
    for (caller, status, code) in [
        (at_its_limit, 429, "too_many_tasks"),
        (small_budget, 402, "budget_exceeded"),
    ] {
        for picture in [address.as_str(), "data:image/png;base64,AAAA"] {
            let mut order = videos_order();
            order["input_reference"] = json!({"image_url": picture});
            caller
                .post("/v1/videos", &order)
                .await
                .refused(status, code);
            let mut chat = video_order();
            chat["messages"][0]["content"] =
                json!([{"type": "image_url", "image_url": {"url": picture}}]);
            let answer = caller.post("/v1/chat/completions", &chat).await;
            answer.refused(status, code);
        }
    }
    let accept_error = server.accept().unwrap_err();
    assert_eq!(accept_error.kind(), std::io::ErrorKind::WouldBlock);
    gateway.stop().await;
}

#[tokio::test]
async fn a_full_disk_accepts_no_files() {
    let gateway = gateway("disk_floor = \"1000TB\"", false).await;
    try_upload(&gateway).await.refused(503, "overloaded");
    let order = with_picture();
    gateway
        .post("/v1/videos", &order)
        .await
        .refused(503, "overloaded");
    gateway.stop().await;
}

/// Files in a folder and those below it.
fn count_files(folder: &std::path::Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap();
    let count = |path: std::path::PathBuf| if path.is_dir() { count_files(&path) } else { 1 };
    entries.map(|entry| count(entry.unwrap().path())).sum()
}
