//! Requests a minute, granted to processes that share a database.

use std::time::Duration;

use mediagate_model::ids::KeyId;
use mediagate_store::rates::{RateGrant, RateRule, grant};

use super::{Fixture, postgres, sqlite};

on_both! {
    a_minutes_requests_are_granted_at_once_and_then_by_the_minute
    grants_get_smaller_near_the_end
    concurrent_requests_never_exceed_the_limit
    a_clock_that_is_set_back_grants_no_extra_requests
}

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1_767_322_245 * SECOND;

async fn request_grant(db: &Fixture, key: KeyId, rule: RateRule, now: i64) -> RateGrant {
    db.write(move |conn| grant(conn, key, rule, Some(now)))
        .await
}

async fn a_minutes_requests_are_granted_at_once_and_then_by_the_minute(db: Fixture) {
    // Also numbers that do not divide a minute.
    for rpm in [1, 7, 60, 91] {
        let (key, rule) = (KeyId::new(), RateRule { rpm, most: 1 });
        for remaining in (0..rpm).rev() {
            let next = request_grant(&db, key, rule, START).await;
            assert_eq!((next.granted, next.left), (1, remaining), "{rpm}");
        }
        let refused = request_grant(&db, key, rule, START).await;
        assert_eq!((refused.granted, refused.left), (0, 0));
        let wait = Duration::from_mins(1) / rpm;
        assert!(
            refused.wait.abs_diff(wait) < Duration::from_micros(1),
            "{refused:?}"
        );
        let wait_nanos = i64::try_from(refused.wait.as_nanos()).unwrap();
        assert_eq!(
            request_grant(&db, key, rule, START + wait_nanos - 1)
                .await
                .granted,
            0
        );
        assert_eq!(
            request_grant(&db, key, rule, START + wait_nanos)
                .await
                .granted,
            1
        );
        // Ten minutes grant at most ten times as many, and an hour later a full burst is left.
        let (mut now, mut count) = (START + wait_nanos, 1);
        while now < START + 600 * SECOND {
            now += 500_000_000;
            count += request_grant(&db, key, rule, now).await.granted;
        }
        assert!(
            count <= rpm * 10 && count + 2 >= rpm.min(120) * 10,
            "{rpm}: {count}"
        );
        let after_an_hour = request_grant(&db, key, rule, now + 3600 * SECOND).await;
        assert_eq!((after_an_hour.granted, after_an_hour.left), (1, rpm - 1));
    }
}

async fn grants_get_smaller_near_the_end(db: Fixture) {
    let (key, rule) = (KeyId::new(), RateRule { rpm: 600, most: 10 });
    let mut grants = Vec::new();
    loop {
        let next = request_grant(&db, key, rule, START).await;
        if next.granted == 0 {
            break;
        }
        grants.push(next.granted);
    }
    assert_eq!(grants.iter().sum::<u32>(), 600);
    assert!(
        grants.is_sorted_by(|earlier, next| earlier >= next),
        "{grants:?}"
    );
    assert_eq!((grants[0], grants.last()), (10, Some(&1)));
}

async fn concurrent_requests_never_exceed_the_limit(db: Fixture) {
    let (key, rule) = (KeyId::new(), RateRule { rpm: 100, most: 3 });
    let requests = (0..200).map(|_| request_grant(&db, key, rule, START));
    let grants = futures_util::future::join_all(requests).await;
    assert_eq!(grants.iter().map(|grant| grant.granted).sum::<u32>(), 100);
    // The database's own clock grants requests, too.
    let other = KeyId::new();
    let first = db.write(move |conn| grant(conn, other, rule, None)).await;
    assert_eq!((first.granted, first.left), (3, 97));
}

async fn a_clock_that_is_set_back_grants_no_extra_requests(db: Fixture) {
    let (key, rule) = (KeyId::new(), RateRule { rpm: 2, most: 1 });
    assert_eq!(request_grant(&db, key, rule, START).await.granted, 1);
    assert_eq!(request_grant(&db, key, rule, START).await.granted, 1);
    let refused = request_grant(&db, key, rule, START - 600 * SECOND).await;
    assert_eq!((refused.granted, refused.left), (0, 0));
    assert_eq!(refused.wait, Duration::from_secs(630));
}
