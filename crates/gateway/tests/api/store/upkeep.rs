//! Upkeep is done by one process of a cluster at a time.

use std::time::Duration;

use mediagate_store::replicas::{self, ReplicaMarks};
use mediagate_store::upkeep::{acquire, postpone};
use mediagate_store::{StoreError, meta, tasks, workers};

use super::{Fixture, MODELS, at, owner, postgres, sqlite, task};

on_both! {
    a_turn_is_taken_by_one
    an_expired_turn_can_be_taken_by_anybody
    a_stored_value_is_read_as_written
    registered_processes_are_listed_until_they_leave
    unclaimed_tasks_are_counted
}

const LONG: Duration = Duration::from_hours(1);

async fn registered_processes_are_listed_until_they_leave(db: Fixture) {
    let check_in = async |name: &'static str, brand: &str, seconds| {
        let marks = ReplicaMarks::from([("brand".to_owned(), brand.to_owned())]);
        db.write(move |conn| replicas::check_in(conn, name, &marks, at(seconds)))
            .await
    };
    assert!(check_in("one", "a", 0).await.is_empty());
    let others = check_in("two", "b", 10).await;
    assert_eq!(
        others,
        [ReplicaMarks::from([("brand".to_owned(), "a".to_owned())])]
    );
    assert_eq!(check_in("one", "c", 20).await[0]["brand"], "b");
    assert_eq!(check_in("two", "b", 30).await[0]["brand"], "c");
    db.write(|conn| replicas::leave(conn, "two")).await;
    assert!(check_in("one", "c", 40).await.is_empty());
    // Killed processes are forgotten.
    assert_eq!(check_in("three", "c", 50).await.len(), 1);
    assert!(check_in("three", "c", 200).await.is_empty());
}

async fn unclaimed_tasks_are_counted(db: Fixture) {
    let count = async |seconds, limit| {
        db.read(move |conn| tasks::count_waiting(conn, at(seconds), limit))
            .await
    };
    assert_eq!(count(0, 10).await, 0);
    db.write(|conn| -> Result<(), StoreError> {
        let owner = owner(conn)?;
        for _ in 0..3 {
            tasks::insert(conn, &task(owner, at(0)))?;
        }
        workers::register(conn, "a", at(60))?;
        workers::set_models(conn, "a", MODELS)
    })
    .await;
    assert_eq!((count(0, 10).await, count(0, 2).await), (3, 2));
    assert_eq!(count(-1, 10).await, 0, "they are not due yet");
    let claimed = db.write(|conn| tasks::claim(conn, "a", MODELS, at(0)));
    assert!(claimed.await.is_some());
    assert_eq!(count(0, 10).await, 2);
}

async fn a_turn_is_taken_by_one(db: Fixture) {
    let attempts = (0..8).map(|_| db.write(|conn| acquire(conn, "media", LONG)));
    let turns = futures_util::future::join_all(attempts).await;
    let acquired: Vec<_> = turns.into_iter().flatten().collect();
    assert_eq!(acquired.len(), 1);
    let other_kind = db.write(|conn| acquire(conn, "ledger", LONG)).await;
    assert!(other_kind.is_some(), "each kind has its own turn");
    let turn = acquired[0];
    let prolonged = db.write(move |conn| postpone(conn, &turn, 2 * LONG)).await;
    assert!(prolonged.is_some());
    assert!(
        db.write(move |conn| postpone(conn, &turn, LONG))
            .await
            .is_none(),
        "the extended turn is a different one"
    );
    let turn = prolonged.unwrap();
    db.write(move |conn| postpone(conn, &turn, Duration::ZERO))
        .await;
    assert!(
        db.write(|conn| acquire(conn, "media", LONG))
            .await
            .is_some(),
        "due again"
    );
}

async fn an_expired_turn_can_be_taken_by_anybody(db: Fixture) {
    let first = db
        .write(|conn| acquire(conn, "media", Duration::ZERO))
        .await;
    let second = db.write(|conn| acquire(conn, "media", LONG)).await;
    assert!(first.is_some() && second.is_some());
    let expired = first.unwrap();
    assert!(
        db.write(move |conn| postpone(conn, &expired, LONG))
            .await
            .is_none()
    );
    // A clock that was set back does not block the upkeep forever.
    db.write(|conn| conn.execute("UPDATE upkeep SET due_at = due_at + 900000000000000", &[]))
        .await;
    assert!(
        db.write(|conn| acquire(conn, "media", LONG))
            .await
            .is_some()
    );
}

async fn a_stored_value_is_read_as_written(db: Fixture) {
    assert_eq!(db.read(|conn| meta::get::<i64>(conn, "fact")).await, None);
    db.write(|conn| meta::set(conn, "fact", 1)).await;
    db.write(|conn| meta::set(conn, "fact", -2)).await;
    assert_eq!(
        db.read(|conn| meta::get::<i64>(conn, "fact")).await,
        Some(-2)
    );
}
