//! Scarce resources are shared: accounts take turns for fetches, decoders and checks.

use mediagate_core::domain::keys::NewKey;
use mediagate_core::limits::WorkKind;
use mediagate_model::ids::AccountId;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::support::client::Answer;
use crate::support::{TestGateway, eventually, sound};

/// Maximum number of simultaneous fetches of one account.
const FETCHES: usize = 8;

fn order(url: &str) -> serde_json::Value {
    let reference = json!({"image_url": url});
    json!({"model": "animatic-1", "prompt": "x", "input_reference": reference})
}

async fn answer(mut fetch: TcpStream, picture: &[u8]) {
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        picture.len()
    );
    fetch.write_all(head.as_bytes()).await.unwrap();
    fetch.write_all(picture).await.unwrap();
    fetch.shutdown().await.unwrap();
}

#[tokio::test]
async fn an_account_has_a_limit_of_fetches_and_delays_no_other() {
    let gateway = TestGateway::builder()
        .without_workers()
        .allow_loopback()
        .start()
        .await;
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/a.png", server.local_addr().unwrap());
    let mut orders = Vec::new();
    for number in 0..3 * FETCHES {
        let client = gateway.client.clone();
        let body = order(&format!("{address}?{number}"));
        orders.push(tokio::spawn(async move {
            client.post("/v1/videos", &body).await
        }));
    }
    let mut fetches = Vec::new();
    for _ in 0..FETCHES {
        fetches.push(server.accept().await.unwrap().0);
    }
    // The next request that arrives is the other account's.
    let other = gateway.caller("other", NewKey::default()).await;
    let other_order = tokio::spawn(async move { other.post("/v1/videos", &order(&address)).await });
    let fetch = server.accept().await.unwrap().0;
    answer(fetch, &sound::png(64, 48)).await;
    other_order.await.unwrap().ok();
    assert!(orders.iter().all(|order| !order.is_finished()));
    drop(fetches);
    for _ in FETCHES..orders.len() {
        let fetch = server.accept().await.unwrap().0;
        answer(fetch, &sound::png(64, 48)).await;
    }
    let mut accepted = 0;
    for order in orders {
        accepted += usize::from(order.await.unwrap().status == 200);
    }
    assert_eq!(accepted, 2 * FETCHES);
    gateway.stop().await;
}

#[tokio::test]
async fn a_quote_fetches_the_beginning_of_a_picture() {
    let gateway = TestGateway::builder()
        .without_workers()
        .allow_loopback()
        .start()
        .await;
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/a.png", server.local_addr().unwrap());
    let body = json!({"endpoint": "/v1/videos", "body": order(&address)});
    let client = gateway.client.clone();
    let quoted = tokio::spawn(async move { client.post("/v1/quote", &body).await });
    let mut fetch = server.accept().await.unwrap().0;
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 19000000\r\n\r\n";
    fetch.write_all(head.as_bytes()).await.unwrap();
    fetch.write_all(&sound::png(640, 480)).await.unwrap();
    // The gateway stops reading before the whole picture was sent.
    let mut sent = 0;
    while fetch.write_all(&[0; 8192]).await.is_ok() {
        sent += 8192;
        assert!(sent < 19_000_000, "it was fetched whole");
    }
    let quote = quoted.await.unwrap().ok();
    assert_eq!(quote["object"], "quote", "{quote}");
    gateway.stop().await;
}

#[tokio::test]
async fn checking_a_file_uses_no_capacity_of_other_work() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let (media_work, account) = (gateway.app.limits.media_work.clone(), AccountId::new());
    let (started_tx, started_rx) = tokio::sync::oneshot::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let holder = tokio::spawn(async move {
        let work = media_work.work(account, WorkKind::Check, 1, move |_| {
            started_tx.send(()).unwrap();
            released.recv().unwrap_err();
        });
        work.await.unwrap();
    });
    started_rx.await.unwrap();
    let form = |bytes: Vec<u8>| {
        let part = reqwest::multipart::Part::bytes(bytes).file_name("a.png");
        reqwest::multipart::Form::new().part("file", part)
    };
    let checker = gateway.client.clone();
    let picture = sound::png(64, 48);
    let check = tokio::spawn(async move {
        let request = checker.request(reqwest::Method::POST, "/v1/provenance/check");
        checker.send(request.multipart(form(picture))).await
    });
    crate::support::gateway::upload(&gateway.client, "song", sound::wav(1, 1)).await;
    let picture = sound::data_url("image/png", &sound::png(320, 180));
    gateway.post("/v1/videos", &order(&picture)).await.ok();
    assert!(!check.is_finished(), "only one check runs at a time");
    drop(release);
    check.await.unwrap().ok();
    holder.await.unwrap();
    gateway.stop().await;
}

/// An account holds all memory that large requests can get, and more of its work is queued.
#[tokio::test]
async fn a_picture_waits_for_no_backlog_of_another_account() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let account = AccountId::new();
    let mut backlog = Vec::new();
    for _ in 0..4 {
        let media_work = gateway.app.limits.media_work.clone();
        let (started_tx, started) = tokio::sync::oneshot::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let work = tokio::spawn(async move {
            let work = media_work.work(account, WorkKind::Result, u64::MAX, move |_| {
                started_tx.send(()).unwrap();
                released.recv().unwrap_err();
            });
            work.await.unwrap();
        });
        backlog.push((started, release, work));
    }
    let (started, release, work) = backlog.remove(0);
    started.await.unwrap();
    let picture = |width| sound::data_url("image/png", &sound::png(width, width));
    let small = other_order(&gateway, picture(64));
    let answer = tokio::time::timeout(super::PATIENCE, small).await;
    answer.expect("a small picture waits for no large one").ok();
    // A large one waits for the work that holds the memory, and then is next.
    let mut large = Box::pin(other_order(&gateway, picture(2400)));
    // One of the backlog waits for memory, too, and the others for a slot.
    let queued = eventually("it waits for memory", async || {
        (gateway.app.limits.media_work.waiting_for_memory() == 2).then_some(())
    });
    tokio::select! {
        () = queued => {}
        answer = &mut large => panic!("the memory is in use: {answer:?}"),
    }
    drop(release);
    work.await.unwrap();
    let answer = tokio::time::timeout(super::PATIENCE, large).await;
    answer.expect("a newcomer waits for no backlog").ok();
    for (_, release, work) in backlog {
        drop(release);
        work.await.unwrap();
    }
    gateway.stop().await;
}

/// An order of another account with this picture.
async fn other_order(gateway: &TestGateway, picture: String) -> Answer {
    let other = gateway.caller("other", NewKey::default()).await;
    other.post("/v1/videos", &order(&picture)).await
}
