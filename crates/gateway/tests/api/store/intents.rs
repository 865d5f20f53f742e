//! Intents in the store: who comes first, and what is forgotten.

use std::time::Duration;

use mediagate_model::ids::{AccountId, IntentId, KeyId, TaskId};
use mediagate_model::intent::{Intent, IntentResult, RefusedAttempts, RequestFingerprint};
use mediagate_store::intents;
use mediagate_store::refusals;

use super::{Fixture, at, postgres, sqlite};

on_both! {
    a_key_leads_to_one_intent
    a_visit_leaves_the_one_before_without_effect
    what_was_sent_since_is_not_taken_over
    bodies_lead_to_what_is_open
    what_made_nothing_is_forgotten
    old_intents_are_forgotten
    what_nobody_knew_the_try_of_is_found_by_its_age
    a_refused_try_is_good_for_one_retry
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
        made: None,
        answer: None,
        holder: Some("me".into()),
        visits: 1,
        joinable_until: None,
        sent_at: None,
        of_unknown_try: false,
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
            let by_first = intents::made(conn, id, 1, &made())?;
            let left_first = intents::leave(conn, id, 1, true, Some(at(1)))?;
            let by_second = intents::made(conn, id, 2, &made())?;
            let again = intents::made(conn, id, 2, &made())?;
            Ok((came, late, by_first, left_first, by_second, again))
        })
        .await;
    assert_eq!(done, (true, false, false, true, true, false));
    // Who read it before something was made has to look again.
    let stale = db.read(move |conn| intents::by_id(conn, id)).await.unwrap();
    let stale = Intent {
        made: None,
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
    assert!(matches!(found.made, Some(IntentResult::Tasks(tasks)) if tasks.len() == 2));
}

/// Nobody pays twice: whoever takes an intent over makes it anew.
async fn what_was_sent_since_is_not_taken_over(db: Fixture) {
    let seen = intent(Some("k"));
    let id = seen.id;
    let taken = db
        .write(move |conn| {
            intents::insert(conn, &seen)?;
            assert!(intents::sent(conn, id, 1, Some(at(1)))?);
            let blind = intents::visit(conn, &seen, "you")?;
            assert!(intents::sent(conn, id, 1, None)?);
            Ok([blind, intents::visit(conn, &seen, "you")?])
        })
        .await;
    assert_eq!(taken, [false, true]);
}

async fn bodies_lead_to_what_is_open(db: Fixture) {
    let base = Intent {
        made: Some(made()),
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
            assert!(intents::sent(conn, second, 1, Some(at(1)))?);
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

async fn what_nobody_knew_the_try_of_is_found_by_its_age(db: Fixture) {
    db.write(move |conn| {
        let known = intent(None);
        let unknown = Intent {
            of_unknown_try: true,
            created_at: at(5),
            ..intent(None)
        };
        for intent in [&known, &unknown] {
            intents::insert(conn, intent)?;
        }
        let mut any = |of: &Intent, since| intents::any_of_unknown_try(conn, &of.body, at(since));
        assert!(any(&unknown, 4)?);
        assert!(!any(&unknown, 5)?, "the refusal is younger");
        assert!(!any(&known, -1)?);
        Ok(())
    })
    .await;
}

async fn a_refused_try_is_good_for_one_retry(db: Fixture) {
    let key = KeyId::new();
    let body = move |text: &str| RequestFingerprint {
        key,
        fingerprint: text.to_owned(),
    };
    db.write(move |conn| {
        let add = |conn: &mut _, text, tries, count, now| {
            let new = RefusedAttempts {
                body: body(text),
                tries,
                count,
                since: at(now),
                until: at(now + 60),
            };
            refusals::add(conn, &new, at(now))
        };
        add(conn, "aa", 0, 1, 0)?;
        add(conn, "aa", 0, 1, 1)?;
        add(conn, "aa", 2, 1, 1)?;
        add(conn, "bb", 0, 1, 0)?;
        let find = |conn: &mut _, tries, now| refusals::find(conn, &body("aa"), tries, at(now));
        assert_eq!(find(conn, 1, 2)?, Some((0, at(0))), "since the first");
        assert_eq!(find(conn, 2, 2)?, Some((2, at(1))), "the latest");
        assert_eq!(find(conn, 1, 61)?, None, "too late");
        let take = |conn: &mut _| refusals::take(conn, &body("aa"), 0);
        assert!(take(conn)? && take(conn)?);
        assert!(!take(conn)?);
        add(conn, "aa", 0, 1, 3)?;
        assert_eq!(
            find(conn, 1, 4)?,
            Some((0, at(3))),
            "those before are used up"
        );
        assert!(take(conn)?);
        assert_eq!(refusals::forget(conn, at(60))?, 1);
        Ok(())
    })
    .await;
}
