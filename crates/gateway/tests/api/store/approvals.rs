//! Tasks that wait for approval: no statement claims them before.

use mediagate_model::clock::Timestamp;
use mediagate_model::ids::TaskId;
use mediagate_model::task::{ApprovalState, Task, TaskApproval, TaskState};
use mediagate_store::tasks::{DueWork, FairQueue, PageQuery, TaskFilter};
use mediagate_store::{Conn, StoreError, restored, tasks, workers};

use super::{Fixture, MODELS, at, owner, postgres, sqlite, task};

on_both! {
    nothing_claims_a_task_before_its_approval
    an_approval_that_has_expired_is_none
    a_task_that_ends_is_no_longer_pending
    a_restored_backup_neither_sends_nor_loses_a_pending_task
    tasks_are_listed_by_their_approval
}

/// An embedded task and one of the hosted model `film`, which wait until second 100.
fn pending_pair(conn: &mut Conn<'_>) -> Result<[Task; 2], StoreError> {
    let owner = owner(conn)?;
    let pending = |provider: &str, model: &str| Task {
        provider: provider.into(),
        model: model.into(),
        approval: Some(TaskApproval::pending_until(at(100))),
        ..task(owner, at(1))
    };
    let pair = [pending("embedded", "animatic-1"), pending("acme", "film")];
    for task in &pair {
        tasks::insert(conn, task)?;
    }
    Ok(pair)
}

/// Whether any statement finds a task to claim at this second.
fn claims_any(conn: &mut Conn<'_>, second: i64) -> Result<bool, StoreError> {
    let now = at(second);
    workers::register(conn, "w", at(1_000_000))?;
    let queue = FairQueue {
        name: "film".into(),
        models: vec!["film".into()],
    };
    let due = tasks::due_work(conn, MODELS, now)?;
    let nothing_due = DueWork {
        embedded: false,
        hosted: false,
        deliveries: false,
    };
    let capacities = [("film".to_owned(), 9)];
    let mut claimed = usize::from(due != nothing_due);
    claimed += tasks::claim_in_turn(conn, "w", &queue, &capacities, 9, now)?.len();
    for state in [TaskState::Queued, TaskState::Running] {
        claimed += tasks::claim_upstream(conn, "w", "film", state, 9, now)?.len();
    }
    claimed += tasks::claim_sent(conn, "w", "film", 9, now)?.len();
    claimed += usize::from(tasks::claim(conn, "w", MODELS, now)?.is_some());
    Ok(claimed > 0)
}

async fn nothing_claims_a_task_before_its_approval(db: Fixture) {
    db.write(|conn| {
        let [embedded, hosted] = pending_pair(conn)?;
        assert!(!restored::has_live_workers(conn, at(1))?);
        assert!(!claims_any(conn, 50)?);
        // Nor does anything free them as tasks of a dead process, or fail them as stranded.
        assert_eq!(workers::free_unknown(conn)?, 0);
        assert_eq!(workers::free_lapsed(conn, at(500_000))?, 0);
        assert_eq!(tasks::waiting(conn, "film", at(50), 9)?, []);
        let queue = FairQueue {
            name: "film".into(),
            models: vec!["film".into()],
        };
        assert!(tasks::count_unsent(conn, &queue)?.is_empty());
        for task in [&embedded, &hosted] {
            let approved = tasks::approve(conn, task.id, at(50), at(60))?.unwrap();
            let approval = approved.approval.unwrap();
            assert_eq!(
                (approval.state, approval.decided_at, approved.event_seq),
                (ApprovalState::Approved, Some(at(60)), 2)
            );
            assert_eq!(tasks::approve(conn, task.id, at(50), at(60))?, None);
            assert!(!tasks::refuse_approval(
                conn,
                task.id,
                ApprovalState::Rejected,
                at(60)
            )?);
            let events = tasks::events_after(conn, task.id, 1)?;
            assert_eq!(events.len(), 1);
            assert_eq!(events[0].state, TaskState::Queued);
        }
        let claimed = tasks::claim(conn, "w", MODELS, at(60))?.unwrap();
        assert_eq!(claimed.id, embedded.id);
        let state = TaskState::Queued;
        let claimed = tasks::claim_upstream(conn, "w", "film", state, 9, at(60))?;
        assert_eq!(claimed[0].id, hosted.id);
        Ok(())
    })
    .await;
}

async fn an_approval_that_has_expired_is_none(db: Fixture) {
    db.write(|conn| {
        let pair = pending_pair(conn)?;
        assert_eq!(tasks::expired_approvals(conn, at(99), 9)?, []);
        let mut expired = tasks::expired_approvals(conn, at(100), 9)?;
        expired.sort_unstable();
        let mut ids = pair.each_ref().map(|task| task.id);
        ids.sort_unstable();
        assert_eq!(expired, ids);
        assert_eq!(tasks::expired_approvals(conn, at(100), 1)?.len(), 1);
        assert_eq!(tasks::approve(conn, ids[0], at(100), at(100))?, None);
        Ok(())
    })
    .await;
}

async fn a_task_that_ends_is_no_longer_pending(db: Fixture) {
    db.write(|conn| {
        let [first, second] = pending_pair(conn)?;
        let state = ApprovalState::Rejected;
        assert!(tasks::refuse_approval(conn, first.id, state, at(5))?);
        let ending = super::contract::ending(TaskState::Cancelled);
        for (task, state, decided) in [
            (&first, ApprovalState::Rejected, 5),
            (&second, ApprovalState::Cancelled, 6),
        ] {
            let ended = tasks::finish(conn, task.id, None, &ending, at(6))?.unwrap();
            let approval = ended.approval.unwrap();
            assert_eq!(
                (approval.state, approval.decided_at),
                (state, Some(at(decided)))
            );
            assert_eq!(tasks::approve(conn, task.id, at(50), at(50))?, None);
        }
        assert_eq!(tasks::expired_approvals(conn, at(100), 9)?, []);
        Ok(())
    })
    .await;
}

async fn a_restored_backup_neither_sends_nor_loses_a_pending_task(db: Fixture) {
    db.write(|conn| {
        let [_, hosted] = pending_pair(conn)?;
        // Since the backup it may have been approved and sent, so the operator decides first.
        assert_eq!(restored::hold(conn)?, 1);
        assert!(restored::release_task(conn, hosted.id, at(50))?);
        assert!(!claims_any(conn, 60)?, "it waits for approval again");
        assert_eq!(restored::hold(conn)?, 1);
        let approved = tasks::approve(conn, hosted.id, at(50), at(60))?;
        assert!(approved.is_some());
        assert!(!claims_any(conn, 60)?, "it waits for the operator");
        assert!(restored::release_task(conn, hosted.id, at(60))?);
        assert!(claims_any(conn, 60)?);
        Ok(())
    })
    .await;
}

async fn tasks_are_listed_by_their_approval(db: Fixture) {
    db.write(|conn| {
        let pair = pending_pair(conn)?;
        let account = pair[0].account;
        tasks::insert(conn, &task((account, pair[0].key), at(2)))?;
        tasks::approve(conn, pair[0].id, at(50), at(60))?;
        let bounded = TaskFilter {
            since: Some(Timestamp::from_seconds(0)),
            until: Some(at(1_000_000_000)),
            ..TaskFilter::default()
        };
        let mut queries = Vec::new();
        for filter in [TaskFilter::default(), bounded] {
            for ascending in [true, false] {
                let page = PageQuery {
                    after: None,
                    limit: 9,
                    ascending,
                };
                queries.push((filter.clone(), page));
            }
        }
        for (state, expected) in [
            (ApprovalState::Approved, vec![pair[0].id]),
            (ApprovalState::Pending, vec![pair[1].id]),
            (ApprovalState::Rejected, vec![]),
        ] {
            let ids = |tasks: Vec<Task>| tasks.iter().map(|task| task.id).collect::<Vec<TaskId>>();
            for (bounds, page) in &queries {
                let filter = TaskFilter {
                    approval: Some(state),
                    ..bounds.clone()
                };
                let own = tasks::page(conn, account, &filter, *page)?;
                assert_eq!(ids(own), expected);
                let all = tasks::page_of_all(conn, &filter, *page)?;
                assert_eq!(ids(all), expected);
            }
        }
        Ok(())
    })
    .await;
}
