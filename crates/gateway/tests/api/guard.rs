//! The addresses that callers may have fetched.

use mediagate_core::limits::WorkKind;
use mediagate_model::ids::AccountId;
use reqwest::Method;
use serde_json::{Value, json};

use crate::process::free_port;
use crate::support::files::Files;
use crate::support::{Answer, TestGateway, sound};

fn order(url: &str) -> Value {
    json!({"model": "animatic-1", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]})
}

async fn order_with_picture(gateway: &TestGateway, url: &str) -> Answer {
    let answer = gateway.post("/v1/chat/completions", &order(url)).await;
    answer.on_param("messages[0].content[0].image_url.url");
    answer
}

async fn upload_from(gateway: &TestGateway, url: &str) -> Answer {
    let answer = gateway
        .post("/musicgen/uploads/audio", &json!({"url": url}))
        .await;
    answer.on_param("url");
    answer
}

#[tokio::test]
async fn nothing_that_is_not_public_is_fetched() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let files = Files::start().await;
    let port = files.port;
    for url in [
        files.url("/picture.png"),
        format!("http://localhost:{port}/picture.png"),
        format!("http://LOCALHOST:{port}/picture.png"),
        format!("http://2130706433:{port}/picture.png"),
        format!("http://0x7f.1:{port}/picture.png"),
        format!("http://0177.0.0.1:{port}/picture.png"),
        format!("http://[::1]:{port}/picture.png"),
        format!("http://[::ffff:127.0.0.1]:{port}/picture.png"),
        format!("http://0.0.0.0:{port}/picture.png"),
        "http://169.254.169.254/latest/meta-data/".into(),
        "http://10.0.0.1/".into(),
        "http://100.64.0.1/".into(),
        "http://8.8.8.8:22/".into(),
        format!("http://user:secret@127.0.0.1:{port}/picture.png"),
        "http://user@8.8.8.8/x.png".into(),
        "ftp://127.0.0.1/x.png".into(),
        "file:///etc/passwd".into(),
        "gopher://127.0.0.1/".into(),
        "javascript:alert(1)".into(),
        "/etc/passwd".into(),
        "picture.png".into(),
        "http://".into(),
    ] {
        order_with_picture(&gateway, &url)
            .await
            .refused(422, "image_fetch_blocked");
        upload_from(&gateway, &url)
            .await
            .refused(422, "audio_fetch_blocked");
    }
    assert_eq!(files.hits(), 0, "not one request was made");
    gateway.stop().await;
}

#[tokio::test]
async fn each_redirect_is_checked_again() {
    let gateway = TestGateway::builder()
        .without_workers()
        .allow_loopback()
        .start()
        .await;
    let files = Files::start().await;
    order_with_picture(&gateway, &files.url("/to-private"))
        .await
        .refused(422, "image_fetch_blocked");
    upload_from(&gateway, &files.url("/to-private"))
        .await
        .refused(422, "audio_fetch_blocked");
    order_with_picture(&gateway, &files.url("/to-file"))
        .await
        .refused(422, "image_fetch_blocked");
    order_with_picture(&gateway, &files.url("/to-nowhere"))
        .await
        .refused(422, "image_fetch_failed");
    let before = files.hits();
    order_with_picture(&gateway, &files.url("/redirect/4"))
        .await
        .refused(422, "image_fetch_failed");
    assert_eq!(
        files.hits() - before,
        4,
        "three redirects are followed, not a fourth"
    );
    gateway.stop().await;
}

/// Without free memory for decoding, an order with an already decoded picture is accepted.
#[tokio::test]
async fn a_picture_is_decoded_once() {
    let gateway = TestGateway::builder().without_workers().start().await;
    // 46 MB to decode: too large for the memory that is kept for small pictures, up to 32 MB each.
    let picture_bytes = sound::png(3200, 2400);
    let order = |bytes: &[u8]| {
        let reference = json!({"image_url": sound::data_url("image/png", bytes)});
        json!({"model": "animatic-1", "prompt": "x", "input_reference": reference})
    };
    let (decoded_before, truncated) = (
        order(&picture_bytes),
        order(&picture_bytes[..picture_bytes.len() / 2]),
    );
    gateway.post("/v1/videos", &decoded_before).await.ok();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (started_tx, started_rx) = tokio::sync::oneshot::channel();
    let media_work = gateway.app.limits.media_work.clone();
    let holder = tokio::spawn(async move {
        let all_memory =
            media_work.work(AccountId::nobody(), WorkKind::Result, u64::MAX, move |_| {
                started_tx.send(()).unwrap();
                released.recv().unwrap_err();
            });
        all_memory.await.unwrap();
    });
    started_rx.await.unwrap();
    let mut waiting = Box::pin(gateway.post("/v1/videos", &truncated));
    tokio::select! {
        answer = &mut waiting => panic!("it did not wait for memory: {}", answer.text()),
        decoded_before = gateway.post("/v1/videos", &decoded_before) => { decoded_before.ok(); }
    }
    drop(release);
    waiting.as_mut().await.refused(422, "image_invalid");
    drop(waiting);
    holder.await.unwrap();
    gateway.stop().await;
}

#[tokio::test]
async fn incomplete_files_are_rejected() {
    let gateway = TestGateway::builder()
        .without_workers()
        .allow_loopback()
        .start()
        .await;
    let files = Files::start().await;
    order_with_picture(&gateway, &files.url("/missing"))
        .await
        .refused(422, "image_fetch_failed");
    order_with_picture(&gateway, &files.url("/truncated"))
        .await
        .refused(422, "image_fetch_failed");
    order_with_picture(&gateway, &files.url("/text"))
        .await
        .refused(422, "image_invalid");
    let announced = order_with_picture(&gateway, &files.url("/oversize")).await;
    announced.refused(422, "image_too_large");
    assert!(
        announced.message().contains("20 MB"),
        "{}",
        announced.message()
    );
    order_with_picture(&gateway, &files.url("/oversize-unannounced"))
        .await
        .refused(422, "image_too_large");
    let closed_port = free_port();
    let answer =
        order_with_picture(&gateway, &format!("http://127.0.0.1:{closed_port}/x.png")).await;
    answer.refused(422, "image_fetch_failed");
    assert!(
        !answer.message().contains("127.0.0.1"),
        "{}",
        answer.message()
    );
    order_with_picture(&gateway, "http://no-such-host.invalid/x.png")
        .await
        .refused(422, "image_fetch_failed");
    gateway.stop().await;
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let gateway = TestGateway::builder()
        .without_workers()
        .allow_loopback()
        .start()
        .await;
    let files = Files::start().await;
    let start = tokio::time::Instant::now();
    let answer = order_with_picture(&gateway, &files.url("/slow")).await;
    answer.refused(422, "image_fetch_failed");
    assert!(
        answer.message().contains("10 seconds"),
        "{}",
        answer.message()
    );
    assert!(start.elapsed().as_secs() < 15);
    gateway.stop().await;
}

#[tokio::test]
async fn a_reference_of_the_videos_api_is_guarded_too() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let order = json!({"prompt": "x", "input_reference": {"image_url": "http://127.0.0.1/x.png"}});
    gateway
        .post("/v1/videos", &order)
        .await
        .refused(422, "image_fetch_blocked")
        .on_param("input_reference.image_url");
    let form = reqwest::multipart::Form::new()
        .text("prompt", "x")
        .text("input_reference[image_url]", "http://[::1]/x.png");
    let request = gateway.request(Method::POST, "/v1/videos").multipart(form);
    gateway
        .send(request)
        .await
        .refused(422, "image_fetch_blocked")
        .on_param("input_reference.image_url");
    let allowed = json!({"prompt": "x", "input_reference": {"image_url": sound::data_url("image/png", &sound::png(8, 8))}});
    assert_eq!(gateway.post("/v1/videos", &allowed).await.status, 200);
    gateway.stop().await;
}
