//! Intents in the store: who comes first, and what is forgotten.

use std::time::Duration;

use mediagate_model::ids::{AccountId, IntentId, KeyId, TaskId};
use mediagate_model::intent::{Intent, IntentResult, RefusedOrders, RequestFingerprint};
use mediagate_store::{intents, refused_orders};

use super::{Fixture, at, postgres, sqlite};

on_both! {
    a_key_leads_to_one_intent
    a_visit_leaves_the_one_before_without_effect
    what_was_sent_since_is_not_taken_over
    bodies_lead_to_what_is_open
    what_made_nothing_is_forgotten
    old_intents_are_forgotten
    a_refused_order_is_good_for_one_retry
    a_refusal_that_is_reported_late_belongs_to_the_last_retry
}

fn intent(key: Option<&str>) -> Intent {
    Intent {
        id: IntentId::new(),
        account: AccountId::new(),
        body: RequestFingerprint {
            key: KeyId::new(),
            fingerprint: "ff".repeat(32),
        },
        idempotency_key: key.map(ToOwned::to_owned),
        result: None,
        answer: None,
        holder: Some("me".into()),
        visits: 1,
        joinable_until: None,
        sent_at: None,
        created_at: at(0),
    }
}

fn made() -> IntentResult {
    IntentResult::Tasks(vec![TaskId::new(), TaskId::new()])
}

async fn a_key_leads_to_one_intent(db: Fixture) {
    let first = intent(Some("k"));
    let second = Intent {
        id: IntentId::new(),
        ..first.clone()
    };
    let elsewhere = intent(Some("k"));
    let all = [first.clone(), second.clone(), elsewhere];
    let claimed = db
        .write(move |conn| {
            let claims = all.iter().map(|intent| intents::insert(conn, intent));
            claims.collect::<Result<Vec<_>, _>>()
        })
        .await;
    assert_eq!(claimed, [true, false, true], "a key is its account's");
    let wanted = first.clone();
    let found = db
        .read(move |conn| intents::by_idempotency_key(conn, wanted.account, "k"))
        .await;
    assert_eq!(found, Some(first.clone()));
    let freed = db
        .write(move |conn| {
            intents::free_key(conn, first.id)?;
            intents::insert(conn, &second)
        })
        .await;
    assert!(freed);
}

async fn a_visit_leaves_the_one_before_without_effect(db: Fixture) {
    let new = intent(Some("k"));
    let id = new.id;
    let done = db
        .write(move |conn| {
            intents::insert(conn, &new)?;
            let came = intents::visit(conn, &new, "you")?;
            let late = intents::visit(conn, &new, "late")?;
            let by_first = intents::set_result(conn, id, 1, &made())?;
            let left_first = intents::leave(conn, id, 1, true, Some(at(1)))?;
            let by_second = intents::set_result(conn, id, 2, &made())?;
            let again = intents::set_result(conn, id, 2, &made())?;
            Ok((came, late, by_first, left_first, by_second, again))
        })
        .await;
    assert_eq!(done, (true, false, false, true, true, false));
    // Who read it before something was made has to look again.
    let stale = db.read(move |conn| intents::by_id(conn, id)).await.unwrap();
    let stale = Intent {
        result: None,
        ..stale
    };
    let overlooked = db.write(move |conn| intents::visit(conn, &stale, "you"));
    assert!(!overlooked.await);
    let left = db
        .write(move |conn| intents::leave(conn, id, 2, true, Some(at(1))))
        .await;
    assert!(left);
    let found = db.read(move |conn| intents::by_id(conn, id)).await.unwrap();
    assert_eq!((found.holder, found.joinable_until), (None, Some(at(1))));
    assert!(matches!(found.result, Some(IntentResult::Tasks(tasks)) if tasks.len() == 2));
}

/// Nobody pays twice: whoever takes an intent over makes it anew.
async fn what_was_sent_since_is_not_taken_over(db: Fixture) {
    let seen = intent(Some("k"));
    let id = seen.id;
    let taken = db
        .write(move |conn| {
            intents::insert(conn, &seen)?;
            assert!(intents::set_sent_at(conn, id, 1, Some(at(1)))?);
            let blind = intents::visit(conn, &seen, "you")?;
            assert!(intents::set_sent_at(conn, id, 1, None)?);
            Ok([blind, intents::visit(conn, &seen, "you")?])
        })
        .await;
    assert_eq!(taken, [false, true]);
}

async fn bodies_lead_to_what_is_open(db: Fixture) {
    let base = Intent {
        result: Some(made()),
        ..intent(None)
    };
    let body = base.body.clone();
    let another = |holder: Option<&str>, created: i64| Intent {
        id: IntentId::new(),
        holder: holder.map(ToOwned::to_owned),
        created_at: at(created),
        ..base.clone()
    };
    let (left, here, mine) = (
        another(None, 0),
        another(Some("other"), 0),
        another(Some("me"), 0),
    );
    let (old, closed, closing) = (another(None, -20), another(None, 0), another(None, 0));
    let all = [&left, &here, &mine, &old, &closed, &closing].map(Clone::clone);
    let expected = vec![left.id, here.id, closing.id];
    let (found, every) = db
        .write(move |conn| {
            for intent in &all {
                intents::insert(conn, intent)?;
            }
            intents::leave(conn, closed.id, 1, false, Some(at(5)))?;
            intents::leave(conn, closing.id, 1, false, Some(at(50)))?;
            let found = intents::open_elsewhere(conn, &body, at(-10), "me", at(10))?;
            Ok((found, intents::all_with(conn, &body, at(-10))?))
        })
        .await;
    let found: Vec<_> = found.iter().map(|intent| intent.id).collect();
    assert_eq!(found, expected);
    assert_eq!(every.len(), 5);
}

async fn what_made_nothing_is_forgotten(db: Fixture) {
    let (quiet, sent) = (intent(Some("a")), intent(Some("b")));
    let (first, second) = (quiet.id, sent.id);
    let left = db
        .write(move |conn| {
            intents::insert(conn, &quiet)?;
            intents::insert(conn, &sent)?;
            assert!(intents::set_sent_at(conn, second, 1, Some(at(1)))?);
            Ok([
                intents::leave(conn, first, 1, true, None)?,
                intents::leave(conn, second, 1, true, None)?,
                intents::leave(conn, IntentId::new(), 1, true, None)?,
            ])
        })
        .await;
    assert_eq!(left, [true, true, false]);
    let found = db
        .read(move |conn| {
            Ok((
                intents::by_id(conn, first)?,
                intents::by_id(conn, second)?.is_some(),
            ))
        })
        .await;
    assert_eq!(found, (None, true), "what may have been sent is kept");
}

async fn old_intents_are_forgotten(db: Fixture) {
    let forgotten = db
        .write(|conn| {
            for second in 0..5 {
                let intent = Intent {
                    created_at: at(second),
                    ..intent(None)
                };
                intents::insert(conn, &intent)?;
            }
            let before = at(2).plus(Duration::from_secs(1));
            Ok([
                intents::forget_before(conn, before, 2)?,
                intents::forget_before(conn, before, 10)?,
            ])
        })
        .await;
    assert_eq!(forgotten, [2, 1]);
}

/// So many refused orders with this body, all at this second; expected for a minute.
fn refused(body: &RequestFingerprint, count: u32, second: i64) -> RefusedOrders {
    RefusedOrders {
        body: body.clone(),
        count,
        since: at(second),
        until: at(second + 60),
    }
}

async fn a_refused_order_is_good_for_one_retry(db: Fixture) {
    db.write(move |conn| {
        let (body, other) = (intent(None).body, intent(None).body);
        let add = |conn: &mut _, count, now| {
            refused_orders::add(conn, &refused(&body, count, now), at(now))
        };
        // A retry alone is no order.
        add(conn, 0, 0)?;
        assert!(!refused_orders::any(conn, &body, at(0))?);
        add(conn, 1, 0)?;
        add(conn, 2, 1)?;
        for _ in 0..3 {
            assert!(refused_orders::any(conn, &body, at(2))?);
            assert!(refused_orders::take(conn, &body, at(2))?);
        }
        assert!(!refused_orders::any(conn, &body, at(2))?);
        assert!(!refused_orders::take(conn, &body, at(2))?);
        assert!(!refused_orders::any(conn, &other, at(2))?);
        // A retry that is refused once more is expected for longer, and what is too late is not.
        add(conn, 1, 3)?;
        add(conn, 0, 50)?;
        assert!(refused_orders::any(conn, &body, at(109))?);
        assert!(!refused_orders::any(conn, &body, at(110))?);
        assert!(!refused_orders::take(conn, &body, at(110))?);
        add(conn, 1, 120)?;
        assert!(refused_orders::take(conn, &body, at(121))?);
        assert!(
            !refused_orders::take(conn, &body, at(121))?,
            "the late one is over"
        );
        assert_eq!(refused_orders::forget(conn, at(179))?, 0);
        assert_eq!(refused_orders::forget(conn, at(180))?, 1);
        Ok(())
    })
    .await;
}

async fn a_refusal_that_is_reported_late_belongs_to_the_last_retry(db: Fixture) {
    db.write(move |conn| {
        let body = intent(None).body;
        refused_orders::note_unmatched_retry(conn, &body, at(10))?;
        refused_orders::add(conn, &refused(&body, 1, 9), at(11))?;
        assert!(!refused_orders::any(conn, &body, at(11))?);
        refused_orders::add(conn, &refused(&body, 1, 12), at(12))?;
        assert!(refused_orders::any(conn, &body, at(12))?);
        refused_orders::note_unmatched_retry(conn, &body, at(13))?;
        assert!(
            refused_orders::take(conn, &body, at(14))?,
            "another order's"
        );
        assert_eq!(
            refused_orders::forget(conn, at(600))?,
            0,
            "a report may come"
        );
        assert_eq!(refused_orders::forget(conn, at(613))?, 1);
        Ok(())
    })
    .await;
}
