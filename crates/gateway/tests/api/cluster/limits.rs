//! Limits that hold for all processes together.

use std::time::Duration;

use mediagate_core::domain::keys::NewKey;
use tokio::time::Instant;

use crate::support::{Client, TestGateway};

fn key_with_rpm(rpm: u32) -> NewKey {
    NewKey {
        name: "limited".into(),
        rpm: Some(rpm),
        ..NewKey::default()
    }
}

/// How many of these requests were let through.
async fn let_through(callers: &[Client], requests: usize) -> u32 {
    let mut passed = 0;
    for round in 0..requests / 20 {
        let caller = &callers[round % callers.len()];
        let batch = (0..20).map(|_| caller.get("/v1/models"));
        for answer in futures_util::future::join_all(batch).await {
            match answer.status {
                200 => passed += 1,
                429 => {
                    answer.refused(429, "rate_limit_exceeded");
                    assert!(answer.header("retry-after").is_some());
                }
                other => panic!("{other}: {}", answer.text()),
            }
        }
    }
    passed
}

#[tokio::test]
async fn a_keys_rate_limit_holds_for_all_processes() {
    let first = TestGateway::builder().on_postgres().start().await;
    let second = first.replica().await;
    for rpm in [60, 240] {
        let caller = first.caller("default", key_with_rpm(rpm)).await;
        let key = caller.key.clone().unwrap();
        let callers = [caller, second.with_key(&key)];
        let start = Instant::now();
        let passed = let_through(&callers, 600).await;
        // The requests that were refilled meanwhile count, too.
        let refilled = start.elapsed().as_secs_f64() * f64::from(rpm) / 60.0;
        assert!(
            f64::from(passed) <= f64::from(rpm) + refilled + 1.0,
            "{passed} of {rpm}"
        );
        // A second's worth may have expired at each process.
        assert!(passed + 2 * (rpm / 60) >= rpm, "{passed} of {rpm}");
        let refused = callers[1].get("/v1/models").await;
        if refused.status == 429 {
            assert_eq!(refused.header("x-ratelimit-remaining-requests"), Some("0"));
        }
    }
    second.stop().await;
    first.stop().await;
}

#[tokio::test]
async fn one_process_may_use_the_whole_limit() {
    let gateway = TestGateway::builder().on_postgres().start().await;
    let caller = gateway.caller("default", key_with_rpm(300)).await;
    let first = caller.get("/v1/models").await;
    assert_eq!(first.header("x-ratelimit-limit-requests"), Some("300"));
    assert_eq!(first.header("x-ratelimit-remaining-requests"), Some("299"));
    let passed = 1 + let_through(std::slice::from_ref(&caller), 400).await;
    assert!(passed >= 300 - 5, "{passed}");
    gateway.stop().await;
}

#[tokio::test]
async fn callers_are_served_although_the_database_grants_nothing() {
    let gateway = TestGateway::builder().on_postgres().start().await;
    let caller = gateway.caller("default", key_with_rpm(120)).await;
    assert_eq!(caller.get("/v1/models").await.status, 200);
    let dropped = gateway
        .app
        .store
        .write(|conn| conn.execute("DROP TABLE rate_grants", &[]));
    dropped.await.unwrap();
    // The process counts by itself.
    let passed = let_through(std::slice::from_ref(&caller), 200).await;
    assert!((115..=140).contains(&passed), "{passed}");
    tokio::time::timeout(Duration::from_mins(1), gateway.stop())
        .await
        .unwrap();
}
