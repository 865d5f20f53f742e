//! Requests repeated with the same body: by a caller whose answer was lost, and by an SDK that
//! marks its retries.

use std::time::Duration;

use mediagate_core::domain::keys::NewKey;
use mediagate_model::error::ErrorCode;
use reqwest::Method;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::{
    NOTICE_TIME, chat, claim, claim_soon, hang_up, prompt, request_with_key, retry_request,
    task_of, tasks,
};
use crate::support::balancer::Balancer;
use crate::support::{TestGateway, eventually, sound};

#[tokio::test]
async fn a_caller_that_got_its_answer_gets_a_new_task() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let first = gateway.post("/v1/videos", &prompt("a lake")).await;
    tokio::time::sleep(NOTICE_TIME).await;
    let second = gateway.post("/v1/videos", &prompt("a lake")).await;
    assert_ne!(task_of(&first), task_of(&second));
    assert_eq!(second.header("idempotent-replayed"), None);
    gateway.stop().await;
}

#[tokio::test]
async fn a_caller_that_hung_up_comes_back_to_its_task() {
    let mut gateway = TestGateway::builder().without_workers().start().await;
    let task = hang_up(&gateway, "/v1/chat/completions", &chat("a lake")).await;
    gateway.start_workers().await;
    gateway.finished(&task).await;
    let answer = gateway.post("/v1/chat/completions", &chat("a lake")).await;
    assert_eq!(task_of(&answer), task);
    answer.clone().ok();
    tokio::time::sleep(NOTICE_TIME).await;
    let next = gateway.post("/v1/chat/completions", &chat("a lake")).await;
    assert_ne!(task_of(&next), task, "the caller has its answer now");
    gateway.stop().await;
}

/// A caller that returns after the film has expired learns its cost, and gets no empty answer.
#[tokio::test]
async fn a_lost_answer_whose_film_has_expired_is_410() {
    const HOUR: Duration = Duration::from_hours(1);
    let mut gateway = TestGateway::builder()
        .set(|settings| settings.media_ttl = Some(HOUR))
        .manual_clock()
        .without_workers()
        .start()
        .await;
    let mut two_videos = chat("a sea");
    two_videos["n"] = 2.into();
    let mut streamed = chat("a river");
    streamed["stream"] = true.into();
    for body in [&chat("a lake"), &two_videos, &streamed] {
        hang_up(&gateway, "/v1/chat/completions", body).await;
    }
    gateway.start_workers().await;
    let finished_tasks = tasks(&gateway).await;
    for task in &finished_tasks {
        assert_eq!(gateway.finished(task).await["status"], "succeeded");
    }
    tokio::time::sleep(NOTICE_TIME).await;
    gateway.app.clock.advance(2 * HOUR);
    for body in [&chat("a lake"), &two_videos] {
        let answer = gateway.post("/v1/chat/completions", body).await;
        answer.refused(410, "link_expired");
        assert!(
            finished_tasks.contains(&task_of(&answer)),
            "{}",
            answer.text()
        );
        assert_eq!(answer.header("x-should-retry"), Some("false"));
        assert_eq!(answer.header("x-cost-usd"), Some("0.00"));
        assert!(answer.text().contains("was charged"), "{}", answer.text());
    }
    let stream = gateway.post("/v1/chat/completions", &streamed).await;
    let text = stream.text();
    assert!(
        text.contains("link_expired") && !text.contains("[DONE]"),
        "{text}"
    );
    assert!(!text.contains("\"content\""), "{text}");
    let video = format!(
        "/v1/videos/video_{}/content",
        finished_tasks[0].replace('-', "")
    );
    let content = gateway.get(&video).await;
    content.refused(410, "link_expired");
    assert_eq!(task_of(&content), finished_tasks[0]);
    // The caller knows now: the next request is a new order.
    tokio::time::sleep(NOTICE_TIME).await;
    let next = gateway.post("/v1/chat/completions", &chat("a lake")).await;
    assert!(!finished_tasks.contains(&task_of(&next)), "{}", next.text());
    next.ok();
    gateway.stop().await;
}

#[tokio::test]
async fn a_hang_up_behind_a_proxy_is_noticed() {
    let mut gateway = TestGateway::builder().without_workers().start().await;
    let port = gateway.client.base.rsplit_once(':').unwrap().1;
    let proxy = Balancer::in_front_of(&[port.parse().unwrap()]).await;
    gateway.client.base.clone_from(&proxy.base);
    let task = hang_up(&gateway, "/v1/chat/completions", &chat("a lake")).await;
    tokio::time::sleep(NOTICE_TIME).await;
    gateway.start_workers().await;
    gateway.finished(&task).await;
    let answer = gateway.post("/v1/chat/completions", &chat("a lake")).await;
    assert_eq!(task_of(&answer), task);
    gateway.stop().await;
}

/// Old clients send a line break after a body, others their next request. hyper then holds bytes that
/// it has not used, and does not notice the end behind them.
#[tokio::test]
async fn a_hang_up_behind_surplus_bytes_is_noticed() {
    let mut gateway = TestGateway::builder().without_workers().start().await;
    let tails = ["\r\n", "GET /v1/models HTTP/1.1\r\n", &"x".repeat(60_000)];
    let mut left = Vec::new();
    for (number, tail) in tails.into_iter().enumerate() {
        let body = chat(&format!("lake {number}")).to_string();
        let key = gateway.client.key.as_ref().unwrap();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let address = gateway.client.base.strip_prefix("http://").unwrap();
        let mut caller = TcpStream::connect(address).await.unwrap();
        let before = tasks(&gateway).await;
        let request = head + &body + tail;
        caller.write_all(request.as_bytes()).await.unwrap();
        let task = eventually("the task is accepted", async || {
            let current = tasks(&gateway).await;
            current.iter().find(|id| !before.contains(id)).cloned()
        });
        left.push((number, task.await));
    }
    // The last ones return while their films are not made yet, the first one afterwards.
    gateway.start_workers().await;
    for (number, task) in left {
        if number == 0 {
            gateway.finished(&task).await;
        }
        let prompt = format!("lake {number}");
        let answer = gateway.post("/v1/chat/completions", &chat(&prompt)).await;
        assert_eq!(task_of(&answer), task, "{prompt}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn three_callers_without_answers_join_three_tasks() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let mut requests = Vec::new();
    for count in 1..=3 {
        // While the earlier callers are connected, each request is an intent of its own.
        let request = gateway.request(Method::POST, "/v1/chat/completions");
        requests.push(tokio::spawn(request.json(&chat("a lake")).send()));
        crate::support::eventually("another task", async || {
            (tasks(&gateway).await.len() == count).then_some(())
        })
        .await;
    }
    for request in requests {
        request.abort();
        drop(request.await);
    }
    tokio::time::sleep(NOTICE_TIME).await;
    let mut lost_tasks = tasks(&gateway).await;
    lost_tasks.sort();
    let mut joined_tasks = Vec::new();
    let mut repetitions = Vec::new();
    for _ in 0..3 {
        let request = gateway
            .request(Method::POST, "/v1/chat/completions")
            .json(&chat("a lake"));
        let client = gateway.client.clone();
        repetitions.push(tokio::spawn(async move { client.send(request).await }));
    }
    // All three wait for identical tasks.
    tokio::time::sleep(NOTICE_TIME).await;
    assert_eq!(tasks(&gateway).await.len(), 3);
    while let Some(task) = claim(&gateway).await {
        gateway.fail(task, ErrorCode::ContentPolicy).await;
    }
    for answer in repetitions {
        joined_tasks.push(task_of(&answer.await.unwrap()));
    }
    joined_tasks.sort();
    assert_eq!(joined_tasks, lost_tasks, "each joins one lost task");
    gateway.stop().await;
}

#[tokio::test]
async fn while_the_first_caller_waits_the_same_body_is_a_new_intent() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let open_stream = || {
        let mut body = chat("a lake");
        body["stream"] = true.into();
        let request = gateway.request(Method::POST, "/v1/chat/completions");
        crate::support::sse::Events::open(request.json(&body))
    };
    let mut first = open_stream().await;
    first.next().await.unwrap();
    let mut second = open_stream().await;
    second.next().await.unwrap();
    assert_eq!(tasks(&gateway).await.len(), 2);
    drop((first, second));
    tokio::time::sleep(NOTICE_TIME).await;
    let mut third = open_stream().await;
    third.next().await.unwrap();
    assert_eq!(tasks(&gateway).await.len(), 2, "one of them was joined");
    gateway.stop().await;
}

#[tokio::test]
async fn a_repetition_after_a_timed_out_wait_joins_its_task() {
    let gateway = TestGateway::builder()
        .set(|settings| settings.wait_limit = Some(Duration::from_millis(200)))
        .without_workers()
        .start()
        .await;
    let first = gateway.post("/v1/chat/completions", &chat("a lake")).await;
    first.refused(503, "still_running");
    for _ in 0..2 {
        let repetition = gateway.post("/v1/chat/completions", &chat("a lake")).await;
        repetition.refused(503, "still_running");
        assert_eq!(task_of(&repetition), task_of(&first));
    }
    let other = gateway.post("/v1/chat/completions", &chat("a sea")).await;
    assert_ne!(task_of(&other), task_of(&first));
    gateway.stop().await;
}

#[tokio::test]
async fn the_retry_of_an_sdk_joins_its_first_try_while_that_is_open_or_just_ended() {
    let gateway = TestGateway::builder()
        .without_workers()
        .manual_clock()
        .start()
        .await;
    let first = gateway.post("/v1/videos", &prompt("a lake")).await;
    let retry = gateway
        .send(retry_request(&gateway, "/v1/videos", &prompt("a lake")))
        .await;
    assert_eq!(task_of(&retry), task_of(&first));
    let colleague = gateway.caller("default", NewKey::default()).await;
    let other_key = colleague
        .send(retry_request(&colleague, "/v1/videos", &prompt("a lake")))
        .await;
    assert_ne!(task_of(&other_key), task_of(&first), "the API keys differ");
    let retry = || gateway.send(retry_request(&gateway, "/v1/videos", &prompt("a lake")));
    gateway.app.clock.advance(Duration::from_secs(3601));
    assert_eq!(task_of(&retry().await), task_of(&first), "its task is open");
    let task = gateway.claim().await;
    gateway.fail(task.id, ErrorCode::ContentPolicy).await;
    tokio::time::sleep(NOTICE_TIME).await;
    gateway.app.clock.advance(Duration::from_secs(9));
    assert_eq!(task_of(&retry().await), task_of(&first));
    tokio::time::sleep(NOTICE_TIME).await;
    gateway.app.clock.advance(Duration::from_secs(11));
    assert_ne!(task_of(&retry().await), task_of(&first));
    gateway.stop().await;
}

#[tokio::test]
async fn the_retries_of_several_sdks_join_several_tasks() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let mut first_tasks = Vec::new();
    for _ in 0..3 {
        first_tasks.push(task_of(
            &gateway.post("/v1/videos", &prompt("a lake")).await,
        ));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut joined_tasks = Vec::new();
    for _ in 0..3 {
        let retry = gateway
            .send(retry_request(&gateway, "/v1/videos", &prompt("a lake")))
            .await;
        joined_tasks.push(task_of(&retry));
    }
    joined_tasks.sort();
    first_tasks.sort();
    assert_eq!(joined_tasks, first_tasks);
    assert_eq!(tasks(&gateway).await.len(), 3);
    gateway.stop().await;
}

/// When a server starts, a connection that waited may deliver an abandoned request together with
/// its retry.
#[tokio::test]
async fn concurrent_retries_share_one_task() {
    let gateway = TestGateway::builder().without_workers().start().await;
    for (round, is_first_lost) in [false, true].repeat(4).into_iter().enumerate() {
        let body = prompt(&format!("lake {round}"));
        let first = if is_first_lost {
            None
        } else {
            Some(task_of(&gateway.post("/v1/videos", &body).await))
        };
        let retries = (0..8).map(|_| gateway.send(retry_request(&gateway, "/v1/videos", &body)));
        let answers = futures_util::future::join_all(retries).await;
        let mut joined: Vec<String> = answers.iter().map(task_of).collect();
        joined.extend(first);
        joined.dedup();
        assert_eq!(joined.len(), 1, "round {round}: {joined:?}");
    }
    assert_eq!(tasks(&gateway).await.len(), 8);
    gateway.stop().await;
}

#[tokio::test]
async fn concurrent_retries_share_one_persona() {
    let gateway = TestGateway::start().await;
    let clip = gateway.upload("Song").await["id"].clone();
    for round in 0..4 {
        let body = serde_json::json!({"root_clip_id": clip, "name": format!("singer {round}")});
        let path = "/musicgen/persona/create";
        let retries = (0..8).map(|_| gateway.send(retry_request(&gateway, path, &body)));
        let answers = futures_util::future::join_all(retries).await;
        let mut personas: Vec<_> = answers
            .into_iter()
            .map(|answer| answer.ok()["id"].clone())
            .collect();
        personas.dedup();
        assert_eq!(personas.len(), 1, "round {round}: {personas:?}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_retry_of_a_failed_order_creates_a_new_task() {
    let gateway = TestGateway::builder().without_workers().start().await;
    let first = gateway.post("/v1/videos", &prompt("a lake")).await;
    let task = gateway.claim().await;
    gateway.fail(task.id, ErrorCode::GenerationFailed).await;
    let retry = gateway
        .send(retry_request(&gateway, "/v1/videos", &prompt("a lake")))
        .await;
    assert_ne!(task_of(&retry), task_of(&first));
    gateway.stop().await;
}

#[tokio::test]
async fn an_unconfirmed_submission_is_reported_again_for_ten_minutes() {
    let gateway = TestGateway::builder()
        .without_workers()
        .manual_clock()
        .start()
        .await;
    let send = || {
        let request = gateway
            .request(Method::POST, "/v1/chat/completions")
            .json(&chat("a lake"));
        let client = gateway.client.clone();
        tokio::spawn(async move { client.send(request).await })
    };
    let first = send();
    let task = claim_soon(&gateway).await;
    gateway.fail(task, ErrorCode::SubmissionUnconfirmed).await;
    let first = first.await.unwrap();
    first.refused(424, "submission_unconfirmed");
    tokio::time::sleep(NOTICE_TIME).await;
    for _ in 0..2 {
        let repetition = send().await.unwrap();
        repetition.refused(424, "submission_unconfirmed");
        assert_eq!(task_of(&repetition), task_of(&first));
    }
    let with_new_key = gateway
        .send(request_with_key(
            &gateway,
            "/v1/videos",
            "new",
            &prompt("a lake"),
        ))
        .await;
    assert_ne!(
        task_of(&with_new_key),
        task_of(&first),
        "a new key asks for another try"
    );
    gateway.app.clock.advance(Duration::from_secs(601));
    let repetition_after_ten_minutes = send();
    crate::support::eventually("a new task", async || {
        (tasks(&gateway).await.len() == 3).then_some(())
    })
    .await;
    repetition_after_ten_minutes.abort();
    gateway.stop().await;
}

#[tokio::test]
async fn an_upload_whose_answer_was_lost_is_found_again() {
    let gateway = TestGateway::start().await;
    let upload = || {
        let part = reqwest::multipart::Part::bytes(sound::wav(1, 7)).file_name("song.wav");
        let form = reqwest::multipart::Form::new().part("file", part);
        let request = gateway.request(Method::POST, "/musicgen/uploads/audio");
        request
            .header("x-stainless-retry-count", "1")
            .multipart(form)
    };
    let first = gateway.send(upload()).await.ok();
    let second = gateway.send(upload()).await.ok();
    assert_eq!(first["id"], second["id"]);
    gateway.stop().await;
}
