//! The submission is sent once.

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

use super::plain::{handle, order, provider, secret, usual};
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
    let (_, provider, _) = usual(&server.url());
    let error = submit(&provider, "m").await.unwrap_err();
    assert!(matches!(error, SubmitError::Unclear(_)), "{error:?}");
    assert_eq!(server.seen().len(), 1);
}

/// A connection that is kept and dies unnoticed is how a client comes to send
/// something twice.
#[tokio::test]
async fn a_submission_never_travels_on_a_used_connection() {
    let server = Server::start(|seen| match seen.line.as_str() {
        "GET /jobs/1" => json(200, &json!({"status": "running"})),
        _ => CLOSE,
    })
    .await;
    let (driver, provider, secret) = usual(&server.url());
    for _ in 0..3 {
        driver.poll(&provider, &secret, &handle("1")).await.unwrap();
        let error = submit(&provider, "m").await.unwrap_err();
        assert!(matches!(error, SubmitError::Unclear(_)), "{error:?}");
    }
    let seen = server.seen();
    let polls = seen.iter().filter(|one| one.line.starts_with("GET"));
    let on: Vec<usize> = polls.map(|one| one.connection).collect();
    assert_eq!(on, [1, 1, 1], "polls share a connection");
    let posts = seen.iter().filter(|one| one.line.starts_with("POST"));
    let on: Vec<usize> = posts.map(|one| one.connection).collect();
    assert_eq!(on, [2, 3, 4], "submissions have one each");
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
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn an_answer_that_stops_or_never_ends_leaves_it_unclear() {
    let stops = head(200, &[], 100).into_bytes();
    let Reply::Bytes(endless) = answer(200, &[], &vec![b' '; 1_000_001]) else {
        panic!("bytes");
    };
    for bytes in [stops, endless] {
        let server = Server::start(move |_| Reply::Bytes(bytes.clone())).await;
        let rules = ProviderRules {
            idle_timeout: Duration::from_millis(100),
            ..ProviderRules::default()
        };
        let provider = provider(&server.url(), &json!({}), rules);
        let error = submit(&provider, "m").await.unwrap_err();
        assert!(matches!(error, SubmitError::Unclear(_)), "{error:?}");
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn nothing_leaves_before_the_intent_is_kept() {
    let server = Server::start(|_| json(200, &json!({"id": "1"}))).await;
    let (driver, provider, secret) = usual(&server.url());
    let watch = ProgressWatch::new();
    for (model, calls) in [("m", 0), ("upload", 1)] {
        let before = server.seen().len();
        let intent = async || Err("disk full");
        let error = driver
            .submit(&provider, &secret, &order(model), &watch, intent)
            .await
            .unwrap_err();
        assert!(matches!(error, SubmitError::Intent("disk full")));
        assert_eq!(server.seen().len() - before, calls);
        assert_eq!(server.count("POST /jobs"), 0);
    }
}

/// The process stands still after the last look at the clock and before the
/// connection is there.
#[tokio::test]
async fn not_a_byte_leaves_once_it_is_too_late() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (driver, provider, secret) = usual(&url);
    let (prove, proved) = tokio::sync::watch::channel(Instant::now());
    let mut standstill = tokio::task::JoinSet::new();
    let intent = async || {
        let until = Instant::now() + Duration::from_millis(50);
        prove.send_replace(until);
        // The next that runs on this thread, once the connection is waited for.
        standstill.spawn(async move {
            while Instant::now() < until {
                std::thread::yield_now();
            }
        });
        Ok::<_, Infallible>(SendDeadline::from_watch(proved))
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
    let mut came = Vec::new();
    connection.read_to_end(&mut came).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&came), "");
}

#[tokio::test]
async fn what_is_proved_anew_may_leave() {
    let server = Server::start(|_| json(200, &json!({"id": "1"}))).await;
    let (driver, provider, secret) = usual(&server.url());
    let (prove, proved) = tokio::sync::watch::channel(Instant::now());
    let (watch, order) = (ProgressWatch::new(), order("m"));
    let intent = async || Ok::<_, Infallible>(SendDeadline::from_watch(proved.clone()));
    let error = driver.submit(&provider, &secret, &order, &watch, intent);
    assert!(matches!(error.await, Err(SubmitError::TooLate)));
    assert_eq!(server.seen().len(), 0);
    prove.send_replace(Instant::now() + Duration::from_mins(1));
    let sent = driver.submit(&provider, &secret, &order, &watch, intent);
    sent.await.unwrap();
    let seen = server.seen();
    let length: usize = seen[0].header("content-length").unwrap().parse().unwrap();
    assert_eq!(seen[0].body.len(), length, "it says how long it is");
}

#[tokio::test]
async fn what_fails_before_the_submission_is_no_submission() {
    let asked = Arc::new(AtomicUsize::new(0));
    let kept = asked.clone();
    let server = Server::start(|_| json(500, &json!({"message": "broken"}))).await;
    let (driver, provider, secret) = usual(&server.url());
    for (model, class, calls) in [
        ("never", ErrorClass::Rejected, 0),
        ("upload", ErrorClass::Unclear, 3),
    ] {
        let intent = async || {
            kept.fetch_add(1, Ordering::Relaxed);
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
        assert_eq!((error.class, server.seen().len()), (class, calls));
    }
    assert_eq!(
        asked.load(Ordering::Relaxed),
        0,
        "there is nothing to intend"
    );
}

#[tokio::test]
async fn an_upload_is_waited_for_and_tried_again() {
    let number = AtomicUsize::new(0);
    let server = Server::start(move |seen| {
        if seen.line == "POST /jobs" {
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
    let (_, provider, _) = usual(&server.url());
    let accepted = submit(&provider, "upload").await.unwrap();
    assert!(matches!(accepted, OrderAcceptance::Job { handle, .. } if handle.text("id") == "1"));
    assert_eq!(
        (server.count("POST /upload"), server.count("POST /jobs")),
        (5, 1)
    );
}

#[tokio::test]
async fn what_follows_a_submission_is_free_and_its_loss_unclear() {
    let number = AtomicUsize::new(0);
    let server = Server::start(move |seen| match seen.line.as_str() {
        "POST /jobs" => json(200, &json!({"see": "/number"})),
        _ if number.fetch_add(1, Ordering::Relaxed) == 1 => json(200, &json!({"id": "7"})),
        _ => json(500, &json!({})),
    })
    .await;
    let (_, provider, _) = usual(&server.url());
    let accepted = submit(&provider, "m").await.unwrap();
    assert!(matches!(accepted, OrderAcceptance::Job { handle, .. } if handle.text("id") == "7"));
    let error = submit(&provider, "m").await.unwrap_err();
    assert!(matches!(error, SubmitError::Unclear(_)), "{error:?}");
    assert_eq!(
        (server.count("POST /jobs"), server.count("GET /number")),
        (2, 5)
    );
}

/// Where a repetition is harmless, a connection that died unnoticed is, too.
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
    let on: Vec<usize> = server.seen().iter().map(|one| one.connection).collect();
    assert_eq!(on, [1, 1, 1]);
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
    let seen = server.seen();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().all(|one| one.body == r#"{"key":"key-1"}"#));
}

/// The repetition is refused: that says nothing of the first.
#[tokio::test]
async fn a_no_to_a_repetition_does_not_prove_that_nothing_was_taken() {
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
        assert_eq!(server.seen().len(), 4);
    }))
    .await;
}

/// Only what a row of the protocol's table names proves that nothing was taken.
#[tokio::test]
async fn what_no_row_names_proves_nothing() {
    let no = json!({"code": "busy", "message": "no"});
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
        let body = no.to_string();
        let server =
            Server::start(move |_| answer(status, &[("retry-after", "1")], body.as_bytes())).await;
        let (_, provider, _) = usual(&server.url());
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
async fn a_job_that_an_error_names_was_taken() {
    for status in [400, 409, 410, 425, 429, 499, 500, 503] {
        let server = Server::start(move |_| {
            json(status, &json!({"id": "7", "code": "busy", "message": "no"}))
        })
        .await;
        let (_, provider, _) = usual(&server.url());
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
    let base = server.url().replace("http:", "https:");
    let rules = ProviderRules {
        connect_timeout: Duration::from_millis(200),
        ..ProviderRules::default()
    };
    let provider = provider(&base, &json!({}), rules);
    let error = submit(&provider, "m").await.unwrap_err();
    let SubmitError::Refused(error) = error else {
        panic!("{error:?}");
    };
    assert_eq!(error.class, ErrorClass::Unavailable);
    let (_, nowhere, _) = usual("http://nowhere.invalid");
    let error = submit(&nowhere, "m").await.unwrap_err();
    assert!(matches!(error, SubmitError::Refused(error) if error.class == ErrorClass::Unavailable));
}

#[tokio::test]
async fn progress_is_read_while_the_answer_comes() {
    let server = Server::start(|_| {
        let body = "at 10% … at 40% …";
        Reply::Bytes([head(200, &[], 1000).as_bytes(), body.as_bytes()].concat())
    })
    .await;
    let (driver, provider, secret) = usual(&server.url());
    let watch = ProgressWatch::new();
    assert_eq!(watch.progress(), None);
    let order = order("m");
    let submitted = driver.submit(&provider, &secret, &order, &watch, async || {
        Ok::<_, Infallible>(SendDeadline::any_time())
    });
    let seen = async {
        while watch.progress().is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        ended = submitted => panic!("{ended:?}"),
        () = seen => assert_eq!(watch.progress(), Some(40)),
    }
}

/// The gateway spawns submissions.
#[tokio::test]
async fn a_submission_can_be_spawned() {
    let server = Server::start(|_| json(200, &json!({"id": "1"}))).await;
    let (driver, provider, secret) = usual(&server.url());
    let mut tasks = tokio::task::JoinSet::new();
    let kept = Arc::new(AtomicUsize::new(0));
    let by = kept.clone();
    tasks.spawn(async move {
        let (order, watch) = (order("m"), ProgressWatch::new());
        let intent = async || {
            tokio::task::yield_now().await;
            by.fetch_add(1, Ordering::Relaxed);
            Ok::<_, std::io::Error>(SendDeadline::any_time())
        };
        let submitted = driver.submit(&provider, &secret, &order, &watch, intent);
        submitted.await.unwrap();
    });
    tasks.join_next().await.unwrap().unwrap();
    assert_eq!(kept.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn what_the_provider_quotes_is_cut() {
    let server = Server::start(|_| {
        let message = "Incorrect key plain-secret-4711 at https://x.test/a?b=c in /srv/app/x.py";
        json(
            401,
            &json!({"message": message, "code": "no-plain-secret-4711"}),
        )
    })
    .await;
    let (driver, provider, secret) = usual(&server.url());
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

/// So many requests that begin with this.
async fn arrives(server: &Server, line: &str, count: usize) {
    while server.count(line) < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn submissions_and_polls_do_not_wait_for_each_other() {
    let submitted = AtomicUsize::new(0);
    let server = Server::start(move |seen| match seen.line.as_str() {
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
    let taken = async {
        arrives(&server, "GET /jobs/slow", 1).await;
        submit(&provider, "m").await
    };
    tokio::select! {
        _ = poll => panic!("it is never answered"),
        taken = taken => drop(taken.unwrap()),
    }
    let submission = submit(&provider, "m");
    let first = handle("1");
    let polled = async {
        arrives(&server, "POST", 2).await;
        driver.poll(&provider, &secret, &first).await
    };
    tokio::select! {
        _ = submission => panic!("it is never answered"),
        polled = polled => drop(polled.unwrap()),
    }
}
