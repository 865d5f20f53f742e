//! The removal of finished tasks, and what remains of them.

use mediagate_model::ids::ClipId;
use mediagate_model::money::ChargeState;
use mediagate_model::music::{Clip, ClipMedia, ClipOrigin, ClipState};
use mediagate_model::submission::SubmissionState;
use mediagate_model::task::{StemTarget, TaskState};
use mediagate_model::{music::StemGroup, task::Task};
use mediagate_store::usage::UsageFilter;
use mediagate_store::{assets, clips, ledger, record_expiry, submissions, tasks, usage};

use super::money::{DIME, accept, adds_up, end, ending, insert_key_with_budget};
use super::{Fixture, asset, at, postgres, sqlite};

on_both! {
    expired_tasks_are_deleted_and_their_sums_stay
    unfinished_tasks_are_not_deleted
    a_clip_outlives_its_task
}

/// Removes the tasks that ended before `second`. Returns how many.
async fn remove_before(db: &Fixture, second: i64) -> usize {
    db.write(move |conn| {
        let past = record_expiry::expired_tasks(conn, at(second), 100)?;
        record_expiry::remove(conn, &past, at(second))?;
        Ok(past.len())
    })
    .await
}

async fn is_kept(db: &Fixture, task: &Task) -> bool {
    let id = task.id;
    let row = db
        .read(move |conn| tasks::by_id_any_account(conn, id))
        .await;
    row.is_some()
}

async fn expired_tasks_are_deleted_and_their_sums_stay(db: Fixture) {
    let key = insert_key_with_budget(&db, None).await;
    let accepted = accept(&db, &key, 3).await.unwrap();
    end(
        &db,
        &accepted[0],
        ending(TaskState::Succeeded, ChargeState::Settled, DIME),
    )
    .await;
    end(
        &db,
        &accepted[1],
        ending(TaskState::Failed, ChargeState::Released, 0),
    )
    .await;
    let filter = UsageFilter {
        account: key.account,
        from: at(0),
        before: at(200_000),
        model: None,
        key: None,
    };
    let whole_account = filter.clone();
    let usage_of = async || {
        let filter = whole_account.clone();
        let rows = db.read(move |conn| usage::rows(conn, &filter)).await;
        format!("{rows:?}")
    };
    let before = usage_of().await;
    assert_eq!(remove_before(&db, 1).await, 0, "they ended at that second");
    assert_eq!(remove_before(&db, 2).await, 2);
    assert_eq!(remove_before(&db, 2).await, 0);
    let are_kept = [
        is_kept(&db, &accepted[0]).await,
        is_kept(&db, &accepted[1]).await,
    ];
    assert_eq!(
        (are_kept, is_kept(&db, &accepted[2]).await),
        ([false; 2], true)
    );
    assert_eq!(usage_of().await, before);
    let (id, late) = (accepted[0].id, at(3));
    let past = async || {
        db.read(move |conn| record_expiry::past_task(conn, id))
            .await
    };
    let past_task = past().await.unwrap();
    assert_eq!(
        (past_task.state, past_task.cost.get()),
        (TaskState::Succeeded, DIME)
    );
    let forgotten = db
        .write(move |conn| record_expiry::forget_past_tasks(conn, late, 9))
        .await;
    assert_eq!((forgotten, past().await), (2, None));
    let entry_filter = ledger::LedgerFilter {
        account: Some(key.account),
        ..ledger::LedgerFilter::default()
    };
    let entries = db
        .read(move |conn| ledger::list(conn, &entry_filter, 100))
        .await;
    let tasks: Vec<_> = entries.iter().map(|entry| entry.task).collect();
    assert_eq!(tasks, [Some(accepted[2].id)]);
    let id = accepted[0].id;
    let events = db.read(move |conn| tasks::events_after(conn, id, 0)).await;
    assert_eq!(events, []);
    adds_up(&db).await;
    // Later ends are added to the same day.
    end(
        &db,
        &accepted[2],
        ending(TaskState::Succeeded, ChargeState::Settled, DIME),
    )
    .await;
    adds_up(&db).await;
    assert_eq!(remove_before(&db, 2).await, 1);
    adds_up(&db).await;
}

async fn unfinished_tasks_are_not_deleted(db: Fixture) {
    let key = insert_key_with_budget(&db, None).await;
    let accepted = accept(&db, &key, 2).await.unwrap();
    end(
        &db,
        &accepted[0],
        ending(TaskState::Cancelled, ChargeState::Held, DIME),
    )
    .await;
    let hosted = Task {
        provider: "acme".into(),
        ..accepted[1].clone()
    };
    let submission = super::accounting::submission(&hosted, 1);
    let id = submission.id;
    db.write(move |conn| submissions::intend(conn, &submission, "w"))
        .await;
    end(
        &db,
        &hosted,
        ending(TaskState::Failed, ChargeState::Released, 0),
    )
    .await;
    assert_eq!(
        remove_before(&db, 9).await,
        0,
        "a job still runs, and money is held"
    );
    db.write(move |conn| {
        submissions::close(
            conn,
            id,
            SubmissionState::Intended,
            SubmissionState::Ended,
            None,
            at(9),
        )
    })
    .await;
    assert_eq!(remove_before(&db, 9).await, 1);
    assert!(is_kept(&db, &accepted[0]).await);
    adds_up(&db).await;
}

async fn a_clip_outlives_its_task(db: Fixture) {
    let key = insert_key_with_budget(&db, None).await;
    let accepted = accept(&db, &key, 1).await.unwrap();
    let task = accepted[0].clone();
    end(
        &db,
        &task,
        ending(TaskState::Succeeded, ChargeState::Settled, DIME),
    )
    .await;
    let (account, job) = (key.account, task.id);
    let (complete, empty) = db
        .write(move |conn| {
            let file = asset(account, None);
            assets::insert(conn, &file)?;
            let source = super::contract::upload(
                account,
                Some(ClipMedia {
                    audio_type: mediagate_model::media::MediaType::Flac,
                    audio: file.id,
                    image: file.id,
                    image_large: file.id,
                    milliseconds: 5,
                    expires_at: None,
                }),
            );
            let stem = |media| Clip {
                id: ClipId::new(),
                origin: ClipOrigin::Stem {
                    task: job,
                    source: source.id,
                    target: StemTarget::Only(StemGroup::Vocals),
                },
                media,
                ..source.clone()
            };
            let (complete, empty) = (stem(source.media), stem(None));
            for clip in [&source, &complete, &empty] {
                clips::insert(conn, clip, 0)?;
            }
            Ok((complete, empty.id))
        })
        .await;
    assert_eq!(remove_before(&db, 9).await, 1);
    let id = complete.id;
    let stored = db.read(move |conn| clips::by_id(conn, id, account)).await;
    let expected = Clip {
        past_payload: Some(task.payload),
        ..complete
    };
    assert_eq!(
        stored.unwrap(),
        expected,
        "its task and order are still known"
    );
    assert_eq!(expected.state, ClipState::Complete);
    assert!(
        db.read(move |conn| clips::by_id(conn, empty, account))
            .await
            .is_none()
    );
    adds_up(&db).await;
}
