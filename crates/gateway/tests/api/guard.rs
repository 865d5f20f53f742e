//! What callers' addresses may lead to.

use mediagate_core::limits::WorkKind;
use mediagate_model::ids::AccountId;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::files::Files;
use crate::support::{Answer, TestGateway, sound};

fn order(url: &str) -> Value {
    json!({"model": "animatic-1", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]})
}

async fn picture(gateway: &TestGateway, url: &str) -> Answer {
    let answer = gateway.post("/v1/chat/completions", &order(url)).await;
    answer.on_param("messages[0].content[0].image_url.url");
    answer
}

async fn song(gateway: &TestGateway, url: &str) -> Answer {
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
        picture(&gateway, &url)
            .await
            .refused(422, "image_fetch_blocked");
        song(&gateway, &url)
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
    picture(&gateway, &files.url("/to-private"))
        .await
        .refused(422, "image_fetch_blocked");
    song(&gateway, &files.url("/to-private"))
        .await
        .refused(422, "audio_fetch_blocked");
    picture(&gateway, &files.url("/to-file"))
        .await
        .refused(422, "image_fetch_blocked");
    picture(&gateway, &files.url("/to-nowhere"))
        .await
        .refused(422, "image_fetch_failed");
    let before = files.hits();
    picture(&gateway, &files.url("/redirect/4"))
        .await
        .refused(422, "image_fetch_failed");
    assert_eq!(
        files.hits() - before,
        4,
        "three redirects are followed, not a fourth"
    );
    gateway.stop().await;
}

/// While there is no memory for decoding, a picture that was decoded before can be ordered with.
#[tokio::test]
async fn a_picture_is_decoded_once() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let whole = sound::png(640, 360);
    let order = |bytes: &[u8]| {
        let reference = json!({"image_url": sound::data_url("image/png", bytes)});
        json!({"model": "animatic-1", "prompt": "x", "input_reference": reference})
    };
    let (known, cut) = (order(&whole), order(&whole[..whole.len() / 2]));
    gateway.post("/v1/videos", &known).await.ok();
    let (give_back, given_back) = std::sync::mpsc::channel::<()>();
    let (begin, begun) = tokio::sync::oneshot::channel();
    let room = gateway.app.limits.media_work.clone();
    let holder = tokio::spawn(async move {
        let all = room.work(AccountId::nobody(), WorkKind::Result, u64::MAX, move |_| {
            begin.send(()).unwrap();
            given_back.recv().unwrap_err();
        });
        all.await.unwrap();
    });
    begun.await.unwrap();
    let mut waiting = Box::pin(gateway.post("/v1/videos", &cut));
    tokio::select! {
        _ = &mut waiting => panic!("it was decoded without memory"),
        known = gateway.post("/v1/videos", &known) => { known.ok(); }
    }
    drop(give_back);
    waiting.as_mut().await.refused(422, "image_invalid");
    drop(waiting);
    holder.await.unwrap();
    gateway.stop().await;
}

#[tokio::test]
async fn what_does_not_arrive_whole_is_refused() {
    let gateway = TestGateway::builder()
        .without_workers()
        .allow_loopback()
        .start()
        .await;
    let files = Files::start().await;
    picture(&gateway, &files.url("/missing"))
        .await
        .refused(422, "image_fetch_failed");
    picture(&gateway, &files.url("/truncated"))
        .await
        .refused(422, "image_fetch_failed");
    picture(&gateway, &files.url("/text"))
        .await
        .refused(422, "image_invalid");
    let announced = picture(&gateway, &files.url("/oversize")).await;
    announced.refused(422, "image_too_large");
    assert!(
        announced.message().contains("20 MB"),
        "{}",
        announced.message()
    );
    picture(&gateway, &files.url("/oversize-unannounced"))
        .await
        .refused(422, "image_too_large");
    // Nothing listens there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = listener.local_addr().unwrap().port();
    drop(listener);
    let answer = picture(&gateway, &format!("http://127.0.0.1:{closed}/x.png")).await;
    answer.refused(422, "image_fetch_failed");
    assert!(
        !answer.message().contains("127.0.0.1"),
        "{}",
        answer.message()
    );
    picture(&gateway, "http://no-such-host.invalid/x.png")
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
    let answer = picture(&gateway, &files.url("/slow")).await;
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
    let fine = json!({"prompt": "x", "input_reference": {"image_url": sound::data_url("image/png", &sound::png(8, 8))}});
    assert_eq!(gateway.post("/v1/videos", &fine).await.status, 200);
    gateway.stop().await;
}
