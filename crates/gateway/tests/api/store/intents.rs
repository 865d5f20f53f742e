//! Intents in the store: which request owns an intent, and which intents are deleted.

use std::time::Duration;

use mediagate_model::ids::{AccountId, IntentId, KeyId, TaskId};
use mediagate_model::intent::{Intent, IntentResult, RefusedOrders, RequestFingerprint};
use mediagate_store::{intents, refused_orders};

use super::{Fixture, at, postgres, sqlite};

on_both! {
    a_key_leads_to_one_intent
    a_later_attempt_makes_the_earlier_one_ineffective
    a_sent_intent_is_not_taken_over
    a_body_leads_to_its_open_intent
    an_intent_without_a_task_is_deleted
    old_intents_are_deleted
    a_refused_order_allows_one_retry
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
        attempts: 1,
        joinable_until: None,
        sent_at: None,
        created_at: at(0),
    }
}

fn two_tasks() -> IntentResult {
    IntentResult::Tasks(vec![TaskId::new(), TaskId::new()])
}

async fn a_key_leads_to_one_intent(db: Fixture) {
    let first = intent(Some("k"));
    let second = Intent {
        id: IntentId::new(),
        ..first.clone()
    };
    let elsewhere = intent(Some("k"));
    let new_intents = [first.clone(), second.clone(), elsewhere];
    let claimed = db
        .write(move |conn| {
            let claims = new_intents
                .iter()
                .map(|intent| intents::insert(conn, intent));
            claims.collect::<Result<Vec<_>, _>>()
        })
        .await;
    assert_eq!(claimed, [true, false, true], "a key belongs to its account");
    let account_of_first = first.clone();
    let stored = db
        .read(move |conn| intents::by_idempotency_key(conn, account_of_first.account, "k"))
        .await;
    assert_eq!(stored, Some(first.clone()));
    let freed = db
        .write(move |conn| {
            intents::free_key(conn, first.id)?;
            intents::insert(conn, &second)
        })
        .await;
    assert!(freed);
}

async fn a_later_attempt_makes_the_earlier_one_ineffective(db: Fixture) {
    let new = intent(Some("k"));
    let id = new.id;
    let results = db
        .write(move |conn| {
            intents::insert(conn, &new)?;
            let has_begun = intents::begin_attempt(conn, &new, "you")?;
            let has_begun_again = intents::begin_attempt(conn, &new, "late")?;
            let first_set = intents::set_result(conn, id, 1, &two_tasks())?;
            let first_left = intents::leave(conn, id, 1, true, Some(at(1)))?;
            let second_set = intents::set_result(conn, id, 2, &two_tasks())?;
            let second_set_again = intents::set_result(conn, id, 2, &two_tasks())?;
            Ok((
                has_begun,
                has_begun_again,
                first_set,
                first_left,
                second_set,
                second_set_again,
            ))
        })
        .await;
    assert_eq!(results, (true, false, false, true, true, false));
    // A request that read the intent before the result was set has to read it again.
    let stale = db.read(move |conn| intents::by_id(conn, id)).await.unwrap();
    let stale = Intent {
        result: None,
        ..stale
    };
    let stale_attempt = db.write(move |conn| intents::begin_attempt(conn, &stale, "you"));
    assert!(!stale_attempt.await);
    let left = db
        .write(move |conn| intents::leave(conn, id, 2, true, Some(at(1))))
        .await;
    assert!(left);
    let stored = db.read(move |conn| intents::by_id(conn, id)).await.unwrap();
    assert_eq!((stored.holder, stored.joinable_until), (None, Some(at(1))));
    assert!(matches!(stored.result, Some(IntentResult::Tasks(tasks)) if tasks.len() == 2));
}

/// A request that takes an intent over executes it again, so a sent one would be paid twice.
async fn a_sent_intent_is_not_taken_over(db: Fixture) {
    let new = intent(Some("k"));
    let id = new.id;
    let has_begun = db
        .write(move |conn| {
            intents::insert(conn, &new)?;
            assert!(intents::set_sent_at(conn, id, 1, Some(at(1)))?);
            let while_sent = intents::begin_attempt(conn, &new, "you")?;
            assert!(intents::set_sent_at(conn, id, 1, None)?);
            Ok([while_sent, intents::begin_attempt(conn, &new, "you")?])
        })
        .await;
    assert_eq!(has_begun, [false, true]);
}

async fn a_body_leads_to_its_open_intent(db: Fixture) {
    let base = Intent {
        result: Some(two_tasks()),
        ..intent(None)
    };
    let body = base.body.clone();
    let intent_of = |holder: Option<&str>, created: i64| Intent {
        id: IntentId::new(),
        holder: holder.map(ToOwned::to_owned),
        created_at: at(created),
        ..base.clone()
    };
    let (abandoned, of_other_process, own) = (
        intent_of(None, 0),
        intent_of(Some("other"), 0),
        intent_of(Some("me"), 0),
    );
    let (old, closed, closing) = (intent_of(None, -20), intent_of(None, 0), intent_of(None, 0));
    let new_intents =
        [&abandoned, &of_other_process, &own, &old, &closed, &closing].map(Clone::clone);
    let expected = vec![abandoned.id, of_other_process.id, closing.id];
    let (open, with_body) = db
        .write(move |conn| {
            for intent in &new_intents {
                intents::insert(conn, intent)?;
            }
            intents::leave(conn, closed.id, 1, false, Some(at(5)))?;
            intents::leave(conn, closing.id, 1, false, Some(at(50)))?;
            let open = intents::open_elsewhere(conn, &body, at(-10), "me", at(10))?;
            Ok((open, intents::all_with(conn, &body, at(-10))?))
        })
        .await;
    let open: Vec<_> = open.iter().map(|intent| intent.id).collect();
    assert_eq!(open, expected);
    assert_eq!(with_body.len(), 5);
}

async fn an_intent_without_a_task_is_deleted(db: Fixture) {
    let (without_submission, with_submission) = (intent(Some("a")), intent(Some("b")));
    let (first, second) = (without_submission.id, with_submission.id);
    let left = db
        .write(move |conn| {
            intents::insert(conn, &without_submission)?;
            intents::insert(conn, &with_submission)?;
            assert!(intents::set_sent_at(conn, second, 1, Some(at(1)))?);
            Ok([
                intents::leave(conn, first, 1, true, None)?,
                intents::leave(conn, second, 1, true, None)?,
                intents::leave(conn, IntentId::new(), 1, true, None)?,
            ])
        })
        .await;
    assert_eq!(left, [true, true, false]);
    let stored = db
        .read(move |conn| {
            Ok((
                intents::by_id(conn, first)?,
                intents::by_id(conn, second)?.is_some(),
            ))
        })
        .await;
    assert_eq!(
        stored,
        (None, true),
        "an intent that may have been sent is kept"
    );
}

async fn old_intents_are_deleted(db: Fixture) {
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

/// This many rejected orders with this body, at this second; their retries are expected for a
/// minute.
fn refused_orders(body: &RequestFingerprint, count: u32, second: i64) -> RefusedOrders {
    RefusedOrders {
        body: body.clone(),
        count,
        since: at(second),
        until: at(second + 60),
    }
}

async fn a_refused_order_allows_one_retry(db: Fixture) {
    db.write(move |conn| {
        let (body, other) = (intent(None).body, intent(None).body);
        let add = |conn: &mut _, count, now| {
            refused_orders::add(conn, &refused_orders(&body, count, now), at(now))
        };
        // A retry alone is not an order.
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
        // A retry that is rejected again extends the period; a late one is not expected.
        add(conn, 1, 3)?;
        add(conn, 0, 50)?;
        assert!(refused_orders::any(conn, &body, at(109))?);
        assert!(!refused_orders::any(conn, &body, at(110))?);
        assert!(!refused_orders::take(conn, &body, at(110))?);
        add(conn, 1, 120)?;
        assert!(refused_orders::take(conn, &body, at(121))?);
        assert!(
            !refused_orders::take(conn, &body, at(121))?,
            "the expired one is not counted"
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
        refused_orders::add(conn, &refused_orders(&body, 1, 9), at(11))?;
        assert!(!refused_orders::any(conn, &body, at(11))?);
        refused_orders::add(conn, &refused_orders(&body, 1, 12), at(12))?;
        assert!(refused_orders::any(conn, &body, at(12))?);
        refused_orders::note_unmatched_retry(conn, &body, at(13))?;
        assert!(
            refused_orders::take(conn, &body, at(14))?,
            "the late refusal is another order's"
        );
        assert_eq!(
            refused_orders::forget(conn, at(600))?,
            0,
            "a late report may still come"
        );
        assert_eq!(refused_orders::forget(conn, at(613))?, 1);
        Ok(())
    })
    .await;
}
