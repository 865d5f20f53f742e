//! Keys that end, and their open tasks.

use mediagate_model::account::{KeyEnd, KeyEndReason, OpenTaskSums, TasksAtEnd};
use mediagate_model::ids::TaskId;
use mediagate_model::money::MicroDollars;
use mediagate_store::tasks::SendPermission;
use mediagate_store::{accounts, submissions, tasks, workers};

use super::accounting::submission;
use super::{Fixture, MODELS, at, owner, postgres, sqlite, task};

on_both! {
    a_key_ends_by_revocation_or_expiry
    the_open_tasks_of_a_key_are_those_that_were_sent_and_those_that_were_not
    a_task_of_an_ended_key_may_not_be_sent
}

async fn a_key_ends_by_revocation_or_expiry(db: Fixture) {
    db.write(|conn| {
        let (account, key) = owner(conn)?;
        let (_, idle) = owner(conn)?;
        let end = |conn: &mut _| accounts::key_end(conn, key, at(999));
        assert_eq!(end(conn)?, None);
        accounts::reserve_open_tasks(conn, key, 1, 3)?;
        let expired = Some(KeyEnd {
            reason: KeyEndReason::Expired,
            tasks: TasksAtEnd::CancelUnsent,
        });
        assert_eq!(accounts::key_end(conn, key, at(1000))?, expired);
        let ended = |conn: &mut _, since, expired| {
            accounts::ended_with_tasks(conn, at(since), at(expired), 10)
        };
        assert_eq!(ended(conn, 500, 999)?, []);
        // Without open tasks a key needs no attention.
        assert_eq!(ended(conn, 500, 1000)?, [(account, key)]);
        assert_eq!(ended(conn, 1001, 2000)?, []);
        assert!(accounts::revoke_key(conn, key, at(2))?);
        assert!(accounts::revoke_key(conn, idle, at(2))?);
        assert_eq!(ended(conn, 1, 3)?, [(account, key)]);
        for tasks in [
            TasksAtEnd::Cancel,
            TasksAtEnd::CancelUnsent,
            TasksAtEnd::Keep,
        ] {
            accounts::set_tasks_at_end(conn, key, tasks)?;
            let reason = KeyEndReason::Revoked;
            assert_eq!(end(conn)?, Some(KeyEnd { reason, tasks }));
        }
        assert_eq!(ended(conn, 1, 3)?, []);
        Ok(())
    })
    .await;
}

async fn the_open_tasks_of_a_key_are_those_that_were_sent_and_those_that_were_not(db: Fixture) {
    db.write(|conn| {
        workers::register(conn, "w", at(1_000_000))?;
        let owner = owner(conn)?;
        let hosted = || {
            let mut hosted = task(owner, at(2));
            (hosted.provider, hosted.model) = ("acme".into(), "film".into());
            hosted
        };
        let begun = task(owner, at(1));
        let (waiting, queued) = (task(owner, at(2)), hosted());
        let (refused, sent) = (hosted(), hosted());
        for task in [&begun, &waiting, &queued, &refused, &sent] {
            tasks::insert(conn, task)?;
        }
        let claimed = tasks::claim(conn, "w", MODELS, at(3))?;
        assert_eq!(claimed.map(|task| task.id), Some(begun.id));
        for task in [&refused, &sent] {
            tasks::claim_upstream(conn, "w", "film", task.state, 10, at(3))?;
            submissions::intend(conn, &submission(task, 1), "w")?;
            tasks::mark_running(conn, task.id, "w", "acme", "fp", at(3))?;
        }
        let refusal = submissions::latest(conn, refused.id)?.unwrap();
        let state = mediagate_model::submission::SubmissionState::Refused;
        submissions::close(conn, refusal.id, refusal.state, state, None, at(4))?;
        let mut unsent = vec![waiting.id, queued.id, refused.id];
        unsent.sort_by_key(TaskId::to_string);
        assert_eq!(tasks::open_of_key(conn, owner, true, 10)?, unsent);
        assert_eq!(tasks::open_of_key(conn, owner, false, 10)?.len(), 5);
        assert_eq!(tasks::open_of_key(conn, owner, false, 2)?.len(), 2);
        let sums = tasks::open_sums_of_key(conn, owner.0, owner.1)?;
        let expected = OpenTaskSums {
            unsent: 3,
            unsent_held: MicroDollars::new(300_000),
            sent: 2,
            sent_held: MicroDollars::new(200_000),
        };
        assert_eq!(sums, expected);
        assert_eq!(
            tasks::cancelled_and_held_of_key(conn, owner.0, owner.1)?,
            []
        );
        Ok(())
    })
    .await;
}

async fn a_task_of_an_ended_key_may_not_be_sent(db: Fixture) {
    db.write(|conn| {
        workers::register(conn, "w", at(1_000_000))?;
        let owner = owner(conn)?;
        let task = task(owner, at(1));
        tasks::insert(conn, &task)?;
        tasks::claim(conn, "w", MODELS, at(3))?;
        let permission =
            |conn: &mut _, owner, expired| tasks::lock_to_send(conn, task.id, owner, at(expired));
        assert_eq!(permission(conn, "w", 999)?, SendPermission::Granted);
        assert_eq!(permission(conn, "other", 999)?, SendPermission::NotHeld);
        assert_eq!(permission(conn, "w", 1000)?, SendPermission::KeyEnded);
        accounts::revoke_key(conn, owner.1, at(2))?;
        assert_eq!(permission(conn, "w", 3)?, SendPermission::KeyEnded);
        accounts::set_tasks_at_end(conn, owner.1, TasksAtEnd::Keep)?;
        assert_eq!(permission(conn, "w", 3)?, SendPermission::Granted);
        Ok(())
    })
    .await;
}
