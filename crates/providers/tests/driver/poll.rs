//! Polls: retries, batches, limits, and exchanged credentials.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use providers::ErrorClass;
use providers::driver::{Driver, PollOutcome, ProviderRules};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::plain::{GAP, driver_and_provider, handle, provider, secret};
use super::server::{CLOSE, ReceivedRequest, Reply, Server, json};

fn running_body() -> Value {
    json!({"status": "running"})
}

#[tokio::test]
async fn a_poll_is_tried_twice() {
    let number = AtomicUsize::new(0);
    let server = Server::start(move |_| match number.fetch_add(1, Ordering::Relaxed) {
        1 => json(200, &running_body()),
        _ => json(500, &json!({})),
    })
    .await;
    let (driver, provider, secret) = driver_and_provider(&server.url());
    let outcome = driver.poll(&provider, &secret, &handle("1")).await.unwrap();
    assert!(matches!(outcome, PollOutcome::Running { .. }));
    let error = driver
        .poll(&provider, &secret, &handle("1"))
        .await
        .unwrap_err();
    assert!(error.class.is_transient());
    assert_eq!(server.received().len(), 4);
}

#[tokio::test]
async fn a_poll_that_is_refused_as_one_too_many_is_not_repeated_here() {
    let server = Server::start(|_| json(429, &json!({}))).await;
    let (driver, provider, secret) = driver_and_provider(&server.url());
    let error = driver
        .poll(&provider, &secret, &handle("1"))
        .await
        .unwrap_err();
    assert_eq!(error.class, ErrorClass::RateLimited);
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_long_wait_is_left_to_the_caller() {
    let server = Server::start(|_| {
        let headers = [("retry-after", "30")];
        super::server::answer(429, &headers, b"{}")
    })
    .await;
    let (driver, provider, secret) = driver_and_provider(&server.url());
    let started = Instant::now();
    let error = driver
        .poll(&provider, &secret, &handle("1"))
        .await
        .unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(error.retry_after, Some(Duration::from_secs(30)));
    assert_eq!(server.received().len(), 1);
}

/// A status needs no more room. A provider that sends more holds no memory, announced or not.
#[tokio::test]
async fn a_status_of_more_than_256_kb_is_not_received() {
    let long = |length: usize| {
        let word = "x".repeat(length - running_body().to_string().len() - 10);
        let body = json!({"status": "running", "more": word}).to_string();
        assert_eq!(body.len(), length);
        body
    };
    for length in [256_000, 40_000] {
        let body = long(length);
        let server = Server::start(move |_| {
            let headers = [("content-type", "application/json")];
            super::server::answer(200, &headers, body.as_bytes())
        })
        .await;
        let (driver, provider, secret) = driver_and_provider(&server.url());
        let outcome = driver.poll(&provider, &secret, &handle("1")).await;
        assert!(
            matches!(outcome, Ok(PollOutcome::Running { .. })),
            "{length}"
        );
    }
    let body = long(256_001);
    let announced = super::server::head(200, &[], body.len()) + &body;
    // Without a length, the connection's end is the body's.
    let unannounced = format!("HTTP/1.1 200 X\r\nconnection: close\r\n\r\n{body}");
    for reply in [announced, unannounced] {
        let server = Server::start(move |_| Reply::AndClose(reply.clone().into_bytes())).await;
        let (driver, provider, secret) = driver_and_provider(&server.url());
        let error = driver.poll(&provider, &secret, &handle("1")).await;
        let error = error.unwrap_err();
        assert!(!error.ends_job() && error.class == ErrorClass::Unclear);
        assert_eq!(error.message, "the provider's response is too large");
    }
}

/// Large answers are read off the async threads, by turns of the providers, and all of them are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_large_answers_are_all_read() {
    let body = json!({"status": "running", "more": vec![json!({"a": 0}); 25_000]}).to_string();
    assert!((200_000..256_000).contains(&body.len()));
    let server = Server::start(move |_| {
        let headers = [("content-type", "application/json")];
        super::server::answer(200, &headers, body.as_bytes())
    })
    .await;
    let providers = [(); 2].map(|()| driver_and_provider(&server.url()));
    let polls = (0..100).map(|number| {
        let (driver, provider, secret) = providers[number % 2].clone();
        async move {
            let job = handle(&number.to_string());
            driver.poll(&provider, &secret, &job).await
        }
    });
    let outcomes = join_all(polls).await;
    let is_running = |outcome: &Result<_, _>| matches!(outcome, Ok(PollOutcome::Running { .. }));
    assert!(outcomes.iter().all(is_running));
}

#[tokio::test]
async fn an_endless_chain_of_polls_ends() {
    let server = Server::start(|request| {
        let number: u32 = request.line.rsplit('/').next().unwrap().parse().unwrap();
        json(200, &json!({"see": format!("/jobs/{}", number + 1)}))
    })
    .await;
    let (driver, provider, secret) = driver_and_provider(&server.url());
    let error = driver
        .poll(&provider, &secret, &handle("1"))
        .await
        .unwrap_err();
    assert_eq!(error.class, ErrorClass::Unclear);
    assert!(server.received().len() <= 101);
}

#[tokio::test]
async fn a_token_is_exchanged_once_and_again_when_it_is_revoked() {
    let tokens = Arc::new(AtomicUsize::new(0));
    let issued = tokens.clone();
    let server = Server::start(move |request| {
        if request.line == "POST /token" {
            assert_eq!(request.header("authorization"), None);
            let number = issued.fetch_add(1, Ordering::Relaxed) + 1;
            return json(200, &json!({"token": format!("token-{number}")}));
        }
        let latest = format!("Bearer token-{}", issued.load(Ordering::Relaxed));
        match request.header("authorization") {
            Some(sent) if sent == latest => json(200, &running_body()),
            _ => json(401, &json!({"message": "expired"})),
        }
    })
    .await;
    let provider = provider(
        &server.url(),
        &json!({"exchange": true}),
        ProviderRules::default(),
    );
    let (driver, secret) = (Driver::new(), secret());
    let ids: Vec<_> = (0..40).map(|id| handle(&id.to_string())).collect();
    let polls = ids
        .iter()
        .map(|handle| driver.poll(&provider, &secret, handle));
    assert!(join_all(polls).await.iter().all(Result::is_ok));
    assert_eq!(server.count("POST /token"), 1);
    // The provider revokes the token.
    tokens.fetch_add(1, Ordering::Relaxed);
    driver.poll(&provider, &secret, &ids[0]).await.unwrap();
    assert_eq!(server.count("POST /token"), 2);
}

fn batch_states(request: &ReceivedRequest) -> Value {
    let ids = request.line.rsplit_once("ids=").unwrap().1;
    let ids = ids.split("%2C").filter(|id| *id != "missing");
    let state_of = |id: &str| match id {
        "done" => json!({"status": "done", "url": "https://x.test/"}),
        "odd" => json!({"status": "pondering"}),
        _ => running_body(),
    };
    let states: Map<String, Value> = ids.map(|id| (id.to_owned(), state_of(id))).collect();
    Value::Object(states)
}

#[tokio::test]
async fn polls_share_calls_and_keep_their_distance() {
    let server = Server::start(|request| json(200, &batch_states(request))).await;
    let provider = provider(
        &server.url(),
        &json!({"batch": true}),
        ProviderRules::default(),
    );
    let (driver, secret) = (Driver::new(), secret());
    let mut ids: Vec<_> = (0..117).map(|id| handle(&format!("j{id}"))).collect();
    ids.extend([handle("done"), handle("odd"), handle("missing")]);
    let started = Instant::now();
    let polls = ids
        .iter()
        .map(|handle| driver.poll(&provider, &secret, handle));
    let mut results = join_all(polls).await;
    // 120 jobs, 50 in a call.
    assert_eq!(server.received().len(), 3);
    assert!(started.elapsed() >= GAP * 2);
    assert!(results.pop().unwrap().is_err());
    assert!(
        matches!(results.pop(), Some(Ok(PollOutcome::Running { unknown_status: Some(word), .. })) if word == "pondering")
    );
    assert!(matches!(results.pop(), Some(Ok(PollOutcome::Done(outputs))) if outputs.len() == 1));
    assert!(results.iter().all(|result| matches!(
        result,
        Ok(PollOutcome::Running {
            unknown_status: None,
            ..
        })
    )));
}

#[tokio::test]
async fn a_batch_continues_without_the_poll_that_started_it() {
    let server = Server::start(|request| json(200, &batch_states(request))).await;
    let provider = provider(
        &server.url(),
        &json!({"batch": true}),
        ProviderRules::default(),
    );
    let (driver, secret) = (Driver::new(), secret());
    let (first, second, third) = (handle("a"), handle("b"), handle("c"));
    let mut dropped_poll = Box::pin(driver.poll(&provider, &secret, &first));
    let kept_poll = driver.poll(&provider, &secret, &second);
    tokio::select! {
        biased;
        _ = &mut dropped_poll => panic!("too soon"),
        () = tokio::task::yield_now() => {}
    }
    let drop_first = async {
        tokio::task::yield_now().await;
        drop(dropped_poll);
    };
    let (result, ()) = tokio::join!(kept_poll, drop_first);
    result.unwrap();
    assert_eq!(server.received()[0].line, "GET /jobs?ids=a%2Cb");
    // A batch whose polls were all dropped is not joined.
    let mut dropped_poll = Box::pin(driver.poll(&provider, &secret, &first));
    tokio::select! {
        biased;
        _ = &mut dropped_poll => panic!("too soon"),
        () = tokio::task::yield_now() => {}
    }
    drop(dropped_poll);
    driver.poll(&provider, &secret, &third).await.unwrap();
    assert_eq!(server.received()[1].line, "GET /jobs?ids=c");
}

#[tokio::test]
async fn a_failed_batch_fails_for_every_job() {
    let server = Server::start(|_| CLOSE).await;
    let provider = provider(
        &server.url(),
        &json!({"batch": true}),
        ProviderRules::default(),
    );
    let (driver, secret) = (Driver::new(), secret());
    let ids = [handle("a"), handle("b")];
    let polls = ids
        .iter()
        .map(|handle| driver.poll(&provider, &secret, handle));
    for result in join_all(polls).await {
        assert!(result.unwrap_err().class.is_transient());
    }
    assert_eq!(
        server.received().len(),
        1,
        "a second try would come too soon"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_jobs_are_polled_over_few_connections() {
    let server = Server::start(|_| json(200, &running_body())).await;
    let (driver, provider, secret) = driver_and_provider(&server.url());
    let ids: Vec<_> = (0..10_000).map(|id| handle(&id.to_string())).collect();
    let polls = ids
        .iter()
        .map(|handle| driver.poll(&provider, &secret, handle));
    assert!(join_all(polls).await.iter().all(Result::is_ok));
    let received = server.received();
    assert_eq!(received.len(), 10_000);
    let connections = received
        .iter()
        .map(|request| request.connection)
        .max()
        .unwrap();
    // There may be more connections than calls in flight, because it takes a moment to notice that
    // one is free again.
    assert!(connections <= 1000, "{connections} connections");
}
