//! Submissions: each is sent once.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use providers::ErrorClass;
use providers::driver::{
    Driver, OrderAcceptance, ProgressWatch, Provider, ProviderRules, SendDeadline, SubmitError,
};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;

use super::plain::{driver_and_provider, handle, order, provider, secret};
use super::server::{CLOSE, Reply, Server, answer, head, json};

async fn submit(
    provider: &Provider,
    model: &str,
) -> Result<OrderAcceptance, SubmitError<Infallible>> {
    let intent = async || Ok(SendDeadline::any_time());
    Driver::new()
        .submit(
            provider,
            &secret(),
            &order(model),
            &ProgressWatch::new(),
            intent,
        )
        .await
}

#[tokio::test]
async fn a_server_that_reads_and_hangs_up_sees_one_request() {
    let server = Server::start(|_| CLOSE).await;
    let (_, provider, _) = driver_and_provider(&server.url());
    let error = submit(&provider, "m").await.unwrap_err();
    assert!(matches!(error, SubmitError::Unclear(_)), "{error:?}");
    assert_eq!(server.received().len(), 1);
}

/// A client may send a request twice if a reused connection has died unnoticed.
#[tokio::test]
async fn a_submission_never_travels_on_a_used_connection() {
    let server = Server::start(|request| match request.line.as_str() {
        "GET /jobs/1" => json(200, &json!({"status": "running"})),
        _ => CLOSE,
    })
    .await;
    let (driver, provider, secret) = driver_and_provider(&server.url());
    for _ in 0..3 {
        driver.poll(&provider, &secret, &handle("1")).await.unwrap();
        let error = submit(&provider, "m").await.unwrap_err();
        assert!(matches!(error, SubmitError::Unclear(_)), "{error:?}");
    }
    let received = server.received();
    let polls = received
        .iter()
        .filter(|request| request.line.starts_with("GET"));
    let connections: Vec<usize> = polls.map(|request| request.connection).collect();
    assert_eq!(connections, [1, 1, 1], "polls share a connection");
    let posts = received
        .iter()
        .filter(|request| request.line.starts_with("POST"));
    let connections: Vec<usize> = posts.map(|request| request.connection).collect();
    assert_eq!(connections, [2, 3, 4], "submissions have one each");
}

#[tokio::test]
async fn a_silent_server_leaves_it_unclear() {
    let server = Server::start(|_| Reply::Silence).await;
    let rules = ProviderRules {
        short_timeout: Duration::from_millis(100),
        work_timeout: Duration::from_millis(100),
        ..ProviderRules::default()
    };
    let provider = provider(&server.url(), &json!({}), rules);
    let error = submit(&provider, "m").await.unwrap_err();
    assert!(matches!(error, SubmitError::Unclear(_)), "{error:?}");
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn an_answer_that_stops_or_never_ends_leaves_it_unclear() {
    let truncated = head(200, &[], 100).into_bytes();
    let Reply::Bytes(too_long) = answer(200, &[], &vec![b' '; 1_000_001]) else {
        panic!("bytes");
    };
    for bytes in [truncated, too_long] {
        let server = Server::start(move |_| Reply::Bytes(bytes.clone())).await;
        let rules = ProviderRules {
            idle_timeout: Duration::from_millis(100),
            ..ProviderRules::default()
        };
        let provider = provider(&server.url(), &json!({}), rules);
        let error = submit(&provider, "m").await.unwrap_err();
        assert!(matches!(error, SubmitError::Unclear(_)), "{error:?}");
        assert_eq!(server.received().len(), 1);
    }
}

#[tokio::test]
async fn nothing_is_sent_before_the_intent_is_stored() {
    let server = Server::start(|_| json(200, &json!({"id": "1"}))).await;
    let (driver, provider, secret) = driver_and_provider(&server.url());
    let watch = ProgressWatch::new();
    for (model, calls) in [("m", 0), ("upload", 1)] {
        let requests_before = server.received().len();
        let intent = async || Err("disk full");
        let error = driver
            .submit(&provider, &secret, &order(model), &watch, intent)
            .await
            .unwrap_err();
        assert!(matches!(error, SubmitError::Intent("disk full")));
        assert_eq!(server.received().len() - requests_before, calls);
        assert_eq!(server.count("POST /jobs"), 0);
    }
}

/// The process is suspended after the deadline was checked and before the connection is open.
#[tokio::test]
async fn nothing_is_sent_after_the_deadline() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (driver, provider, secret) = driver_and_provider(&url);
    let (deadline_tx, deadline_rx) = tokio::sync::watch::channel(Instant::now());
    let mut blocker = tokio::task::JoinSet::new();
    let intent = async || {
        let until = Instant::now() + Duration::from_millis(50);
        deadline_tx.send_replace(until);
        // Runs on this thread as soon as the submission waits for its connection.
        blocker.spawn(async move {
            while Instant::now() < until {
                std::thread::yield_now();
            }
        });
        Ok::<_, Infallible>(SendDeadline::from_watch(deadline_rx))
    };
    let error = driver
        .submit(
            &provider,
            &secret,
            &order("m"),
            &ProgressWatch::new(),
            intent,
        )
        .await
        .unwrap_err();
    assert!(matches!(error, SubmitError::TooLate), "{error:?}");
    let (mut connection, _) = listener.accept().await.unwrap();
    let mut received = Vec::new();
    connection.read_to_end(&mut received).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&received), "");
}

#[tokio::test]
async fn a_later_deadline_allows_sending() {
    let server = Server::start(|_| json(200, &json!({"id": "1"}))).await;
    let (driver, provider, secret) = driver_and_provider(&server.url());
    let (deadline_tx, deadline_rx) = tokio::sync::watch::channel(Instant::now());
    let (watch, order) = (ProgressWatch::new(), order("m"));
    let intent = async || Ok::<_, Infallible>(SendDeadline::from_watch(deadline_rx.clone()));
    let error = driver.submit(&provider, &secret, &order, &watch, intent);
    assert!(matches!(error.await, Err(SubmitError::TooLate)));
    assert_eq!(server.received().len(), 0);
    deadline_tx.send_replace(Instant::now() + Duration::from_mins(1));
    let submitted = driver.submit(&provider, &secret, &order, &watch, intent);
    submitted.await.unwrap();
    let received = server.received();
    let length: usize = received[0]
        .header("content-length")
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(
        received[0].body.len(),
        length,
        "the request has a Content-Length"
    );
}

#[tokio::test]
async fn a_failure_before_the_submission_is_no_submission() {
    let intents = Arc::new(AtomicUsize::new(0));
    let intent_counter = intents.clone();
    let server = Server::start(|_| json(500, &json!({"message": "broken"}))).await;
    let (driver, provider, secret) = driver_and_provider(&server.url());
    for (model, class, calls) in [
        ("never", ErrorClass::Rejected, 0),
        ("upload", ErrorClass::Unclear, 3),
    ] {
        let intent = async || {
            intent_counter.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(SendDeadline::any_time())
        };
        let error = driver
            .submit(
                &provider,
                &secret,
                &order(model),
                &ProgressWatch::new(),
                intent,
            )
            .await
            .unwrap_err();
        let SubmitError::BeforeSubmission(error) = error else {
            panic!("{error:?}");
        };
        assert_eq!((error.class, server.received().len()), (class, calls));
    }
    assert_eq!(intents.load(Ordering::Relaxed), 0, "no intent is recorded");
}

#[tokio::test]
async fn an_upload_is_waited_for_and_tried_again() {
    let number = AtomicUsize::new(0);
    let server = Server::start(move |request| {
        if request.line == "POST /jobs" {
            return json(200, &json!({"id": "1"}));
        }
        match number.fetch_add(1, Ordering::Relaxed) {
            0 => json(503, &json!({"message": "busy"})),
            1 => CLOSE,
            2 | 3 => json(200, &json!({"ready": false})),
            _ => json(200, &json!({"ready": true})),
        }
    })
    .await;
    let (_, provider, _) = driver_and_provider(&server.url());
    let accepted = submit(&provider, "upload").await.unwrap();
    assert!(matches!(accepted, OrderAcceptance::Job { handle, .. } if handle.text("id") == "1"));
    assert_eq!(
        (server.count("POST /upload"), server.count("POST /jobs")),
        (5, 1)
    );
}

#[tokio::test]
async fn calls_after_a_submission_are_free_and_their_failure_is_unclear() {
    let number = AtomicUsize::new(0);
    let server = Server::start(move |request| match request.line.as_str() {
        "POST /jobs" => json(200, &json!({"see": "/number"})),
        _ if number.fetch_add(1, Ordering::Relaxed) == 1 => json(200, &json!({"id": "7"})),
        _ => json(500, &json!({})),
    })
    .await;
    let (_, provider, _) = driver_and_provider(&server.url());
    let accepted = submit(&provider, "m").await.unwrap();
    assert!(matches!(accepted, OrderAcceptance::Job { handle, .. } if handle.text("id") == "7"));
    let error = submit(&provider, "m").await.unwrap_err();
    assert!(matches!(error, SubmitError::Unclear(_)), "{error:?}");
    assert_eq!(
        (server.count("POST /jobs"), server.count("GET /number")),
        (2, 5)
    );
}

/// If repetitions are harmless, so is a reused connection that has died unnoticed.
#[tokio::test]
async fn where_the_provider_deduplicates_submissions_share_a_connection() {
    let server = Server::start(|_| json(200, &json!({"id": "1"}))).await;
    let provider = provider(
        &server.url(),
        &json!({"deduplicates": true}),
        ProviderRules::default(),
    );
    for _ in 0..3 {
        submit(&provider, "m").await.unwrap();
    }
    let connections: Vec<usize> = server
        .received()
        .iter()
        .map(|request| request.connection)
        .collect();
    assert_eq!(connections, [1, 1, 1]);
}

#[tokio::test]
async fn where_the_provider_deduplicates_an_unclear_submission_is_repeated() {
    let number = AtomicUsize::new(0);
    let server = Server::start(move |_| match number.fetch_add(1, Ordering::Relaxed) {
        0 => CLOSE,
        1 => json(502, &json!({})),
        _ => json(200, &json!({"id": "1"})),
    })
    .await;
    let provider = provider(
        &server.url(),
        &json!({"deduplicates": true}),
        ProviderRules::default(),
    );
    submit(&provider, "m").await.unwrap();
    let received = server.received();
    assert_eq!(received.len(), 3);
    assert!(
        received
            .iter()
            .all(|request| request.body == r#"{"key":"key-1"}"#)
    );
}

/// A rejected repetition proves nothing about the first submission.
#[tokio::test]
async fn a_rejected_repetition_does_not_prove_that_nothing_was_accepted() {
    join_all([401, 422, 429].map(async |status| {
        let number = AtomicUsize::new(0);
        let server = Server::start(move |_| match number.fetch_add(1, Ordering::Relaxed) {
            0 => CLOSE,
            _ => json(status, &json!({"message": "no"})),
        })
        .await;
        let provider = provider(
            &server.url(),
            &json!({"deduplicates": true}),
            ProviderRules::default(),
        );
        let error = submit(&provider, "m").await.unwrap_err();
        let SubmitError::Unclear(error) = error else {
            panic!("{status}: {error:?}");
        };
        assert_eq!(error.class, ErrorClass::Unclear);
        assert_eq!(server.received().len(), 4);
    }))
    .await;
}

/// Only answers that match a rule of the protocol's table prove that nothing was accepted.
#[tokio::test]
async fn a_status_without_a_rule_proves_nothing() {
    let error_body = json!({"code": "busy", "message": "no"});
    for (status, is_proof) in [
        (400, true),
        (402, true),
        (404, true),
        (422, true),
        (429, true),
        (408, false),
        (409, false),
        (410, false),
        (425, false),
        (499, false),
        (501, false),
        (502, false),
        (503, false),
        (504, false),
    ] {
        let body = error_body.to_string();
        let server =
            Server::start(move |_| answer(status, &[("retry-after", "1")], body.as_bytes())).await;
        let (_, provider, _) = driver_and_provider(&server.url());
        let error = submit(&provider, "m").await.unwrap_err();
        match error {
            SubmitError::Refused(_) if is_proof => {}
            SubmitError::Unclear(error) if !is_proof => {
                assert_eq!(error.class, ErrorClass::Unclear);
            }
            other => panic!("{status}: {other:?}"),
        }
        assert_eq!(server.count("POST /jobs"), 1);
    }
}

#[tokio::test]
async fn a_job_named_in_an_error_was_accepted() {
    for status in [400, 409, 410, 425, 429, 499, 500, 503] {
        let server = Server::start(move |_| {
            json(status, &json!({"id": "7", "code": "busy", "message": "no"}))
        })
        .await;
        let (_, provider, _) = driver_and_provider(&server.url());
        let accepted = submit(&provider, "m").await.unwrap();
        assert!(
            matches!(accepted, OrderAcceptance::Job { handle, .. } if handle.text("id") == "7")
        );
        assert_eq!(server.count("POST /jobs"), 1);
    }
}

#[tokio::test]
async fn a_server_without_tls_was_provably_not_reached() {
    let server = Server::start(|_| CLOSE).await;
    let https_url = server.url().replace("http:", "https:");
    let rules = ProviderRules {
        connect_timeout: Duration::from_millis(200),
        ..ProviderRules::default()
    };
    let provider = provider(&https_url, &json!({}), rules);
    let error = submit(&provider, "m").await.unwrap_err();
    let SubmitError::Refused(error) = error else {
        panic!("{error:?}");
    };
    assert_eq!(error.class, ErrorClass::Unavailable);
    let (_, unresolvable, _) = driver_and_provider("http://nowhere.invalid");
    let error = submit(&unresolvable, "m").await.unwrap_err();
    assert!(matches!(error, SubmitError::Refused(error) if error.class == ErrorClass::Unavailable));
}

#[tokio::test]
async fn progress_is_read_while_the_answer_comes() {
    let server = Server::start(|_| {
        let body = "at 10% … at 40% …";
        Reply::Bytes([head(200, &[], 1000).as_bytes(), body.as_bytes()].concat())
    })
    .await;
    let (driver, provider, secret) = driver_and_provider(&server.url());
    let watch = ProgressWatch::new();
    assert_eq!(watch.progress(), None);
    let order = order("m");
    let submitted = driver.submit(&provider, &secret, &order, &watch, async || {
        Ok::<_, Infallible>(SendDeadline::any_time())
    });
    let progress_shown = async {
        while watch.progress().is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        result = submitted => panic!("{result:?}"),
        () = progress_shown => assert_eq!(watch.progress(), Some(40)),
    }
}

/// The gateway spawns submissions, so their future must be `Send`.
#[tokio::test]
async fn a_submission_can_be_spawned() {
    let server = Server::start(|_| json(200, &json!({"id": "1"}))).await;
    let (driver, provider, secret) = driver_and_provider(&server.url());
    let mut tasks = tokio::task::JoinSet::new();
    let intents = Arc::new(AtomicUsize::new(0));
    let intent_counter = intents.clone();
    tasks.spawn(async move {
        let (order, watch) = (order("m"), ProgressWatch::new());
        let intent = async || {
            tokio::task::yield_now().await;
            intent_counter.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(SendDeadline::any_time())
        };
        let submitted = driver.submit(&provider, &secret, &order, &watch, intent);
        submitted.await.unwrap();
    });
    tasks.join_next().await.unwrap().unwrap();
    assert_eq!(intents.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn secrets_quoted_by_the_provider_are_removed() {
    let server = Server::start(|_| {
        let message = "Incorrect key plain-secret-4711 at https://x.test/a?b=c in /srv/app/x.py";
        json(
            401,
            &json!({"message": message, "code": "no-plain-secret-4711"}),
        )
    })
    .await;
    let (driver, provider, secret) = driver_and_provider(&server.url());
    let SubmitError::Refused(error) = submit(&provider, "m").await.unwrap_err() else {
        panic!("not refused");
    };
    assert_eq!(error.message, "Incorrect key … at [address] in [path]");
    assert_eq!(error.code.as_deref(), Some("no-…"));
    let error = driver
        .poll(&provider, &secret, &handle("1"))
        .await
        .unwrap_err();
    assert_eq!(error.message, "Incorrect key … at [address] in [path]");
}

/// Waits until this many requests have a line that begins with this.
async fn wait_for_requests(server: &Server, line: &str, count: usize) {
    while server.count(line) < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn submissions_and_polls_do_not_wait_for_each_other() {
    let submitted = AtomicUsize::new(0);
    let server = Server::start(move |request| match request.line.as_str() {
        "GET /jobs/slow" => Reply::Silence,
        "GET /jobs/1" => json(200, &json!({"status": "running"})),
        _ if submitted.fetch_add(1, Ordering::Relaxed) > 0 => Reply::Silence,
        _ => json(200, &json!({"id": "1"})),
    })
    .await;
    let rules = ProviderRules {
        submissions_at_once: 1,
        calls_at_once: 1,
        ..ProviderRules::default()
    };
    let provider = provider(&server.url(), &json!({}), rules);
    let (driver, secret) = (Driver::new(), secret());
    let slow = handle("slow");
    let poll = driver.poll(&provider, &secret, &slow);
    let submission_during_poll = async {
        wait_for_requests(&server, "GET /jobs/slow", 1).await;
        submit(&provider, "m").await
    };
    tokio::select! {
        _ = poll => panic!("it is never answered"),
        submission_during_poll = submission_during_poll => drop(submission_during_poll.unwrap()),
    }
    let submission = submit(&provider, "m");
    let first = handle("1");
    let poll_during_submission = async {
        wait_for_requests(&server, "POST", 2).await;
        driver.poll(&provider, &secret, &first).await
    };
    tokio::select! {
        _ = submission => panic!("it is never answered"),
        poll_during_submission = poll_during_submission => drop(poll_during_submission.unwrap()),
    }
}
