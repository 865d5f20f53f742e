//! Upkeep is done by one process of a cluster at a time.

use std::time::Duration;

use mediagate::store::meta;
use mediagate::store::upkeep::{put_off, take};

use super::{Fixture, postgres, sqlite};

on_both! {
    a_turn_is_taken_by_one
    a_turn_that_ran_out_is_anybodys
    what_is_remembered_comes_back
}

const LONG: Duration = Duration::from_hours(1);

async fn a_turn_is_taken_by_one(db: Fixture) {
    let many = (0..8).map(|_| db.write(|conn| take(conn, "media", LONG)));
    let turns = futures_util::future::join_all(many).await;
    let taken: Vec<_> = turns.into_iter().flatten().collect();
    assert_eq!(taken.len(), 1);
    let other = db.write(|conn| take(conn, "ledger", LONG)).await;
    assert!(other.is_some(), "each kind by itself");
    let turn = taken[0];
    let prolonged = db.write(move |conn| put_off(conn, &turn, 2 * LONG)).await;
    assert!(prolonged.is_some());
    assert!(
        db.write(move |conn| put_off(conn, &turn, LONG))
            .await
            .is_none(),
        "the turn that was prolonged is another"
    );
    let turn = prolonged.unwrap();
    db.write(move |conn| put_off(conn, &turn, Duration::ZERO))
        .await;
    assert!(
        db.write(|conn| take(conn, "media", LONG)).await.is_some(),
        "due again"
    );
}

async fn a_turn_that_ran_out_is_anybodys(db: Fixture) {
    let first = db.write(|conn| take(conn, "media", Duration::ZERO)).await;
    let second = db.write(|conn| take(conn, "media", LONG)).await;
    assert!(first.is_some() && second.is_some());
    let late = first.unwrap();
    assert!(
        db.write(move |conn| put_off(conn, &late, LONG))
            .await
            .is_none()
    );
    // A clock that was set back leaves nothing waiting for ever.
    db.write(|conn| conn.execute("UPDATE upkeep SET due_at = due_at + 900000000000000", &[]))
        .await;
    assert!(db.write(|conn| take(conn, "media", LONG)).await.is_some());
}

async fn what_is_remembered_comes_back(db: Fixture) {
    assert_eq!(db.read(|conn| meta::get::<i64>(conn, "fact")).await, None);
    db.write(|conn| meta::set(conn, "fact", 1)).await;
    db.write(|conn| meta::set(conn, "fact", -2)).await;
    assert_eq!(
        db.read(|conn| meta::get::<i64>(conn, "fact")).await,
        Some(-2)
    );
}
