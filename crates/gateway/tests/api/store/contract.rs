//! The contract of every database, through the functions that the gateway uses.

use mediagate_model::error::ErrorCode;
use mediagate_model::ids::{AccountId, AssetId, ClipId, KeyId, PersonaId, TaskId};
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::music::{Clip, ClipMedia, ClipOrigin, ClipState, Persona, StemGroup};
use mediagate_model::submission::{
    Submission, SubmissionFilter, SubmissionResolution, SubmissionState,
};
use mediagate_model::task::{MediaKind, StemTarget, TaskFailure, TaskResult, TaskState};
use mediagate_store::submissions::{AcceptanceResult, JobAcceptance};
use mediagate_store::tasks::{PageQuery, TaskEnding, TaskFilter};
use mediagate_store::{
    Conn, StoreError, accounts, assets, clips, media_folders, personas, submissions, tasks, workers,
};
use orders::{DurationSample, JobHandle};

use super::accounting::submission;
use super::{Fixture, MODELS, account, asset, at, key, owner, postgres, sqlite, task};

on_both! {
    accounts_and_keys_are_read_as_written
    a_media_folder_is_identified_by_its_path
    a_task_is_read_as_written
    a_claim_takes_the_longest_due_task_until_the_lease_ends
    a_task_is_suspect_if_its_child_process_died
    concurrent_claims_never_get_the_same_task
    a_heartbeat_renews_and_a_release_returns_a_task
    provider_tasks_are_claimed_by_model_and_started_once
    what_is_due_is_found_by_one_statement
    submissions_are_counted_until_they_end
    a_job_belongs_to_one_submission
    a_similar_submission_counts_until_its_outcome_is_known
    an_unconfirmed_submission_is_resolved_once
    progress_rises_only_for_the_holder
    a_task_ends_once
    lists_page_in_both_directions_and_filter
    duration_samples_are_of_recent_successes_and_running_tasks
    files_expire_and_are_removed
    clips_show_the_state_of_their_task_and_files
    personas_are_kept_until_deleted
    a_failed_transaction_writes_nothing
}

pub(super) fn ending(state: TaskState) -> TaskEnding {
    let is_failed = state != TaskState::Succeeded;
    TaskEnding {
        state,
        cost: MicroDollars::new(if is_failed { 0 } else { 90_000 }),
        money: if is_failed {
            ChargeState::Released
        } else {
            ChargeState::Settled
        },
        bill: None,
        output: (!is_failed).then(|| TaskResult::ClipsV1 { clips: Vec::new() }),
        failure: is_failed.then(|| TaskFailure {
            code: ErrorCode::GenerationFailed,
            message: "It broke.".into(),
        }),
    }
}

async fn accounts_and_keys_are_read_as_written(db: Fixture) {
    let someone = account("someone");
    let same_handle = account("someone");
    let key = key(someone.id);
    let (account, new_key) = (someone.clone(), key.clone());
    db.write(move |conn| {
        accounts::insert(conn, &account)?;
        accounts::insert(conn, &same_handle)?;
        accounts::insert_key(conn, &new_key)
    })
    .await;
    let stored = db.read(|conn| accounts::by_handle(conn, "someone")).await;
    assert_eq!(stored.as_ref(), Some(&someone));
    assert_eq!(
        db.read(|conn| accounts::by_handle(conn, "nobody")).await,
        None
    );
    let sha256 = key.sha256.clone();
    let caller = db
        .read(move |conn| accounts::caller_by_sha256(conn, &sha256))
        .await
        .unwrap();
    assert_eq!((&caller.key, &caller.account), (&key, &someone));
    assert!(
        db.read(|conn| accounts::caller_by_sha256(conn, "ff"))
            .await
            .is_none()
    );
    let id = key.id;
    assert!(
        db.write(move |conn| accounts::revoke_key(conn, id, at(5)))
            .await
    );
    assert!(
        !db.write(move |conn| accounts::revoke_key(conn, id, at(6)))
            .await
    );
    let keys = db.read(accounts::keys).await;
    assert_eq!(keys.len(), 1);
    assert_eq!(
        (keys[0].0.revoked_at, keys[0].1.as_str()),
        (Some(at(5)), "someone")
    );
    let minimal_key = mediagate_model::account::ApiKey {
        models: None,
        networks: None,
        budget: None,
        expires_at: None,
        scopes: Vec::new(),
        ..super::key(someone.id)
    };
    let row = minimal_key.clone();
    db.write(move |conn| accounts::insert_key(conn, &row)).await;
    let sha256 = minimal_key.sha256.clone();
    let caller = db
        .read(move |conn| accounts::caller_by_sha256(conn, &sha256))
        .await
        .unwrap();
    assert_eq!(caller.key, minimal_key);
}

async fn a_task_is_read_as_written(db: Fixture) {
    let inserted = db
        .write(|conn| {
            let task = task(owner(conn)?, at(3));
            tasks::insert(conn, &task)?;
            Ok(task)
        })
        .await;
    let (id, account) = (inserted.id, inserted.account);
    assert_eq!(
        db.read(move |conn| tasks::by_id(conn, id, account)).await,
        Some(inserted)
    );
    let stranger = mediagate_model::ids::AccountId::new();
    assert_eq!(
        db.read(move |conn| tasks::by_id(conn, id, stranger)).await,
        None
    );
    assert_eq!(
        db.read(move |conn| tasks::by_id(conn, TaskId::new(), account))
            .await,
        None
    );
    let events = db.read(move |conn| tasks::events_after(conn, id, 0)).await;
    assert_eq!(events.len(), 1);
    assert_eq!(
        (events[0].seq, events[0].state, events[0].progress),
        (1, TaskState::Queued, 0)
    );
}

async fn a_claim_takes_the_longest_due_task_until_the_lease_ends(db: Fixture) {
    let (older, newer) = db
        .write(|conn| {
            let owner = owner(conn)?;
            let (newer, older) = (task(owner, at(20)), task(owner, at(10)));
            tasks::insert(conn, &newer)?;
            tasks::insert(conn, &older)?;
            workers::register(conn, "a", at(33))?;
            workers::register(conn, "b", at(99))?;
            Ok((older, newer))
        })
        .await;
    let claim = async |worker: &'static str, now: i64| {
        db.write(move |conn| tasks::claim(conn, worker, MODELS, at(now)))
            .await
    };
    assert!(!db.read(|conn| tasks::any_due(conn, MODELS, at(9))).await);
    assert!(claim("a", 9).await.is_none(), "nothing is due yet");
    assert!(db.read(|conn| tasks::any_due(conn, MODELS, at(30))).await);
    let first = claim("a", 30).await.unwrap();
    assert_eq!(
        (first.id, first.state, first.attempts),
        (older.id, TaskState::Running, 1)
    );
    assert_eq!(first.started_at, Some(at(30)));
    assert_eq!(claim("b", 31).await.unwrap().id, newer.id);
    assert!(
        claim("c", 40).await.is_none(),
        "no process has freed it yet"
    );
    assert!(!db.read(|conn| workers::any_lapsed(conn, at(32))).await);
    assert!(db.read(|conn| workers::any_lapsed(conn, at(33))).await);
    assert_eq!(db.write(|conn| workers::free_lapsed(conn, at(33))).await, 1);
    let second_claim = claim("c", 33).await.unwrap();
    assert_eq!(
        (
            second_claim.id,
            second_claim.attempts,
            second_claim.started_at
        ),
        (older.id, 2, Some(at(30)))
    );
    let id = older.id;
    let events = db.read(move |conn| tasks::events_after(conn, id, 0)).await;
    assert_eq!(events.len(), 2, "a takeover is invisible to callers");
    let late_end = db
        .write(move |conn| {
            tasks::finish(conn, id, Some("a"), &ending(TaskState::Succeeded), at(34))
        })
        .await;
    assert_eq!(late_end, None, "a worker that lost the lease cannot end it");
}

async fn a_task_is_suspect_if_its_child_process_died(db: Fixture) {
    let (embedded, hosted) = db
        .write(|conn| {
            let owner = owner(conn)?;
            let embedded = task(owner, at(0));
            let mut hosted = task(owner, at(0));
            hosted.provider = "acme".into();
            tasks::insert(conn, &embedded)?;
            tasks::insert(conn, &hosted)?;
            workers::register(conn, "a", at(5))?;
            Ok((embedded, hosted))
        })
        .await;
    let claim = async |worker: &'static str, now: i64| {
        db.write(move |conn| tasks::claim(conn, worker, MODELS, at(now)))
            .await
            .unwrap()
            .deaths
    };
    let id = embedded.id;
    assert_eq!(claim("a", 1).await, None);
    db.write(move |conn| tasks::release(conn, id, "a", at(1)))
        .await;
    assert_eq!(
        claim("a", 2).await,
        None,
        "a worker that releases it did not die"
    );
    let state = TaskState::Queued;
    db.write(move |conn| tasks::claim_upstream(conn, "a", "animatic-1", state, 9, at(2)))
        .await;
    assert_eq!(db.write(|conn| workers::free_lapsed(conn, at(6))).await, 2);
    assert_eq!(
        claim("b", 7).await,
        None,
        "engines run in children, so the task did not kill the worker"
    );
    let set_deaths = async |worker: &'static str, deaths| {
        db.write(move |conn| tasks::set_deaths(conn, id, worker, deaths))
            .await
    };
    assert!(
        !set_deaths("a", 1).await,
        "a worker that lost the task records no death"
    );
    assert!(set_deaths("b", 1).await);
    assert!(set_deaths("b", 1).await, "the same may be written again");
    assert_eq!(db.write(workers::free_unknown).await, 1, "b has no row");
    assert_eq!(
        claim("c", 8).await,
        Some(1),
        "the death of b itself does not count"
    );
    let account = embedded.account;
    let hosted = db.read(move |conn| tasks::by_id(conn, hosted.id, account));
    assert_eq!(hosted.await.unwrap().deaths, None);
}

async fn concurrent_claims_never_get_the_same_task(db: Fixture) {
    const TASKS: usize = 24;
    db.write(|conn| {
        let owner = owner(conn)?;
        (0..TASKS).try_for_each(|_| tasks::insert(conn, &task(owner, at(0))))
    })
    .await;
    let claimer = async |name: String| {
        let mut claimed_ids = Vec::new();
        loop {
            let worker = name.clone();
            let claimed = db
                .write(move |conn| tasks::claim(conn, &worker, MODELS, at(1)))
                .await;
            match claimed {
                Some(task) => claimed_ids.push(task.id),
                None => return claimed_ids,
            }
        }
    };
    // A claim may find only tasks that another one has just claimed; then it tries again.
    let mut claimed_tasks: Vec<TaskId> = Vec::new();
    while claimed_tasks.len() < TASKS {
        let claimers = (0..8).map(|number| claimer(format!("w{number}")));
        claimed_tasks.extend(futures_util::future::join_all(claimers).await.concat());
    }
    let distinct: std::collections::HashSet<_> = claimed_tasks.iter().collect();
    assert_eq!((claimed_tasks.len(), distinct.len()), (TASKS, TASKS));
}

async fn a_heartbeat_renews_and_a_release_returns_a_task(db: Fixture) {
    let (first, second) = db
        .write(|conn| {
            let owner = owner(conn)?;
            let (first, second) = (task(owner, at(0)), task(owner, at(1)));
            tasks::insert(conn, &first)?;
            tasks::insert(conn, &second)?;
            workers::register(conn, "a", at(5))?;
            workers::register(conn, "b", at(5))?;
            tasks::claim(conn, "a", MODELS, at(2))?;
            tasks::claim(conn, "b", MODELS, at(2))?;
            Ok((first.id, second.id))
        })
        .await;
    assert!(db.write(|conn| workers::prolong(conn, "a", at(50))).await);
    assert!(!db.write(|conn| workers::prolong(conn, "c", at(50))).await);
    assert_eq!(db.write(|conn| workers::free_lapsed(conn, at(6))).await, 1);
    let claimed = db
        .write(|conn| tasks::claim(conn, "c", MODELS, at(6)))
        .await;
    assert_eq!(
        claimed.unwrap().id,
        second,
        "only the one that was not prolonged"
    );
    assert!(
        !db.write(|conn| workers::prolong(conn, "b", at(50))).await,
        "c has claimed its task"
    );
    db.write(move |conn| tasks::release(conn, first, "b", at(7)))
        .await;
    assert!(
        !db.read(|conn| tasks::any_due(conn, MODELS, at(7))).await,
        "b holds nothing"
    );
    db.write(move |conn| tasks::release(conn, first, "a", at(8)))
        .await;
    assert!(!db.read(|conn| tasks::any_due(conn, MODELS, at(7))).await);
    let claimed = db
        .write(|conn| tasks::claim(conn, "c", MODELS, at(8)))
        .await;
    assert_eq!(claimed.unwrap().id, first);
    db.write(|conn| workers::deregister(conn, "c")).await;
    let claimed = db
        .write(|conn| tasks::claim(conn, "d", MODELS, at(9)))
        .await;
    assert!(
        claimed.is_some(),
        "a worker that leaves releases everything"
    );
}

async fn what_is_due_is_found_by_one_statement(db: Fixture) {
    let due = async |now| {
        let due = db
            .read(move |conn| tasks::due_work(conn, MODELS, at(now)))
            .await;
        (due.embedded, due.hosted, due.deliveries)
    };
    assert_eq!(due(9).await, (false, false, false));
    db.write(|conn| {
        let owner = owner(conn)?;
        let mut hosted = task(owner, at(5));
        (hosted.provider, hosted.model) = ("acme".into(), "x".into());
        tasks::insert(conn, &hosted)?;
        tasks::insert(conn, &task(owner, at(6)))
    })
    .await;
    assert_eq!(due(4).await, (false, false, false), "not due yet");
    assert_eq!(due(5).await, (false, true, false));
    assert_eq!(due(6).await, (true, true, false));
    let other_models = db.read(|conn| tasks::due_work(conn, "[\"other\"]", at(6)));
    assert!(
        !other_models.await.embedded,
        "another process has its model"
    );
    db.write(|conn| tasks::claim_upstream(conn, "a", "x", TaskState::Queued, 1, at(6)))
        .await;
    db.write(|conn| tasks::claim(conn, "a", MODELS, at(6)))
        .await;
    assert_eq!(due(9).await, (false, false, false), "all are claimed");
}

async fn provider_tasks_are_claimed_by_model_and_started_once(db: Fixture) {
    let ids = db
        .write(|conn| {
            let owner = owner(conn)?;
            let mut ids = Vec::new();
            for (number, model) in [(0, "x"), (1, "x"), (2, "y"), (3, "x")] {
                let mut task = task(owner, at(number));
                (task.provider, task.model) = ("acme".into(), model.into());
                tasks::insert(conn, &task)?;
                ids.push(task.id);
            }
            Ok(ids)
        })
        .await;
    assert!(
        !db.read(|conn| tasks::any_due(conn, MODELS, at(9))).await,
        "no engine may claim them"
    );
    let mut models = db.read(|conn| tasks::models_due(conn, at(9))).await;
    models.sort();
    assert_eq!(models, [("x".to_owned(), false), ("y".to_owned(), false)]);
    let claimed = db
        .write(|conn| tasks::claim_upstream(conn, "a", "x", TaskState::Queued, 2, at(9)))
        .await;
    let mut claimed_ids: Vec<TaskId> = claimed.iter().map(|task| task.id).collect();
    claimed_ids.sort();
    assert_eq!(claimed_ids, [ids[0], ids[1]]);
    assert!(claimed.iter().all(|task| task.state == TaskState::Queued));
    let (first, account) = (ids[0], claimed[0].account);
    let mark_running = async |worker: &'static str| {
        db.write(move |conn| tasks::mark_running(conn, first, worker, "other", "fp_0", at(10)))
            .await
    };
    assert!(!mark_running("b").await, "a holds the task");
    assert!(mark_running("a").await && mark_running("a").await);
    let task = db
        .read(move |conn| tasks::by_id(conn, first, account))
        .await
        .unwrap();
    assert_eq!(
        (task.state, task.provider.as_str(), task.event_seq),
        (TaskState::Running, "other", 2)
    );
    let is_held = async || {
        db.write(move |conn| tasks::lock_held(conn, first, "a"))
            .await
    };
    assert!(is_held().await);
    db.write(move |conn| tasks::finish(conn, first, None, &ending(TaskState::Cancelled), at(11)))
        .await;
    assert!(!is_held().await);
    assert_eq!(
        db.read(|conn| tasks::ended_since(conn, at(11))).await,
        [first]
    );
    assert!(!mark_running("a").await, "an ended task is not started");
}

fn acceptance(id: &str) -> JobAcceptance {
    JobAcceptance {
        handle: Some(JobHandle(serde_json::json!({"id": id}))),
        results: None,
        cost: None,
    }
}

/// Submissions that are about to be sent, each of its own task.
async fn intended_submissions<const N: usize>(db: &Fixture) -> [Submission; N] {
    db.write(|conn| {
        let owner = owner(conn)?;
        let intended = (0..N).map(|_| {
            let task = task(owner, at(0));
            tasks::insert(conn, &task)?;
            let submission = submission(&task, 1);
            submissions::intend(conn, &submission, "w")?;
            Ok(submission)
        });
        intended.collect::<Result<Vec<_>, StoreError>>()
    })
    .await
    .try_into()
    .unwrap()
}

async fn a_job_belongs_to_one_submission(db: Fixture) {
    let [first, second, third] = intended_submissions(&db).await;
    let accept = async |id, job: &str| {
        let acceptance = acceptance(job);
        db.write(move |conn| submissions::accept(conn, id, &acceptance, at(5)))
            .await
    };
    assert_eq!(accept(first.id, "a").await, AcceptanceResult::Accepted);
    assert_eq!(
        accept(second.id, "a").await,
        AcceptanceResult::Taken(first.id)
    );
    // The handle of a song repeats its title, which does not make it another job.
    let mut song = acceptance("a");
    song.handle.as_mut().unwrap().0["song"] = serde_json::json!({"title": "Rain"});
    let id = second.id;
    let accepted = db.write(move |conn| submissions::accept(conn, id, &song, at(5)));
    assert_eq!(accepted.await, AcceptanceResult::Taken(first.id));
    assert_eq!(accept(second.id, "b").await, AcceptanceResult::Accepted);
    assert_eq!(accept(second.id, "b").await, AcceptanceResult::Decided);
    let third_id = third.id;
    let found = async |job: &str| {
        let acceptance = acceptance(job);
        db.write(move |conn| submissions::mark_found(conn, third_id, &acceptance, at(5)))
            .await
    };
    assert!(!found("c").await, "it is not unclear");
    db.write(move |conn| {
        let (from, to) = (SubmissionState::Intended, SubmissionState::Unclear);
        submissions::close(conn, third_id, from, to, Some(("unclear", "lost")), at(6))
    })
    .await;
    assert!(!found("a").await && found("c").await);
    // An index forbids it even to a program that does not look.
    let forced = db.store.write(move |conn| {
        conn.execute(
            "UPDATE submissions SET job = '{\"id\":\"a\"}' WHERE id = ?1",
            &[(&third_id.to_string()).into()],
        )
    });
    let forced: Result<u64, StoreError> = forced.await;
    assert!(forced.is_err());
    let (handle, elsewhere) = (acceptance("a").handle.unwrap(), "fal https://other.test");
    let endpoint = first.endpoint.clone();
    let taken = db.read(move |conn| {
        let here = submissions::is_taken(conn, &endpoint, &handle)?;
        Ok((here, submissions::is_taken(conn, elsewhere, &handle)?))
    });
    assert_eq!(taken.await, (true, false));
}

async fn a_similar_submission_counts_until_its_outcome_is_known(db: Fixture) {
    let [first, second] = intended_submissions(&db).await;
    let has_twin = async |submission: &Submission, since| {
        let submission = submission.clone();
        db.read(move |conn| submissions::has_undecided_twin(conn, &submission, at(since)))
            .await
    };
    let other = Submission {
        likeness: Some("bb".into()),
        ..first.clone()
    };
    let unknown = Submission {
        likeness: None,
        ..first.clone()
    };
    assert!(has_twin(&first, 9).await && has_twin(&second, 9).await);
    assert!(!has_twin(&other, 9).await && has_twin(&unknown, 9).await);
    let id = second.id;
    db.write(move |conn| {
        let (from, to) = (SubmissionState::Intended, SubmissionState::Unclear);
        submissions::close(conn, id, from, to, Some(("unclear", "lost")), at(6))
    })
    .await;
    assert!(has_twin(&first, 0).await);
    assert!(!has_twin(&first, 9).await, "it was sent long before");
    let found = acceptance("a");
    db.write(move |conn| submissions::mark_found(conn, id, &found, at(7)))
        .await;
    assert!(!has_twin(&first, 0).await, "its job is known");
}

async fn an_unconfirmed_submission_is_resolved_once(db: Fixture) {
    let [submission] = intended_submissions(&db).await;
    let id = submission.id;
    let resolve = async |job: Option<&'static str>| {
        db.write(move |conn| submissions::resolve(conn, id, "not billed", job, at(9)))
            .await
    };
    let unconfirmed = async || {
        let page = PageQuery {
            after: None,
            limit: 10,
            ascending: false,
        };
        let filter = Some(SubmissionFilter::Unconfirmed);
        db.read(move |conn| submissions::page(conn, filter, page))
            .await
    };
    assert!(!resolve(None).await, "its outcome is not unclear");
    db.write(move |conn| {
        let (from, to) = (SubmissionState::Intended, SubmissionState::Unclear);
        submissions::close(conn, id, from, to, Some(("unclear", "lost")), at(6))?;
        submissions::schedule_lookup(conn, id, Some(at(7)))
    })
    .await;
    let due = async || {
        db.read(|conn| submissions::unclear_due(conn, 9, at(8)))
            .await
    };
    assert_eq!((unconfirmed().await.len(), due().await.len()), (1, 1));
    assert!(resolve(Some("video_1")).await);
    assert!(!resolve(None).await, "it was resolved before");
    // A look-up that was under way schedules no other one.
    db.write(move |conn| submissions::schedule_lookup(conn, id, Some(at(7))))
        .await;
    assert_eq!((unconfirmed().await.len(), due().await.len()), (0, 0));
    let record = db
        .read(move |conn| submissions::record_by_id(conn, id))
        .await;
    let resolution = SubmissionResolution {
        at: at(9),
        note: "not billed".into(),
        job: Some("video_1".into()),
    };
    assert_eq!(record.unwrap().resolution, Some(resolution));
}

async fn submissions_are_counted_until_they_end(db: Fixture) {
    let (task, first, second) = db
        .write(|conn| {
            let task = task(owner(conn)?, at(0));
            tasks::insert(conn, &task)?;
            let new = |attempt, credential: &str| Submission {
                credential: credential.into(),
                created_at: at(i64::from(attempt)),
                ..submission(&task, attempt)
            };
            let (first, second) = (new(1, "1:aa"), new(2, "2:bb"));
            submissions::intend(conn, &first, "w")?;
            Ok((task.id, first, second))
        })
        .await;
    assert_eq!(
        db.read(|conn| submissions::count_open(conn, "acme")).await,
        [("m".into(), "1:aa".into(), 1)]
    );
    let second_insert = second.clone();
    let refused = db
        .store
        .write(move |conn| submissions::intend(conn, &second_insert, "w"));
    assert!(
        refused.await.is_err(),
        "only after the earlier one is refused"
    );
    let id = first.id;
    let close = async |from, to| {
        let why = Some(("account", "no money"));
        let closed = db.write(move |conn| submissions::close(conn, id, from, to, why, at(2)));
        closed.await.is_some()
    };
    let (intended, refused) = (SubmissionState::Intended, SubmissionState::Refused);
    assert!(!close(SubmissionState::Accepted, SubmissionState::Ended).await);
    assert!(close(intended, refused).await);
    assert!(
        !close(intended, SubmissionState::Unclear).await,
        "it is already refused"
    );
    let (id, handle) = (second.id, JobHandle(serde_json::json!({"id": "video_1"})));
    let acceptance = JobAcceptance {
        handle: Some(handle.clone()),
        results: Some(serde_json::json!([])),
        cost: None,
    };
    let late_acceptance = acceptance.clone();
    let accepted_late =
        db.write(move |conn| submissions::accept(conn, first.id, &late_acceptance, at(5)));
    assert_eq!(
        accepted_late.await,
        AcceptanceResult::Decided,
        "it was refused"
    );
    db.write(move |conn| submissions::intend(conn, &second, "w"))
        .await;
    let second_acceptance = acceptance;
    let accepted = db.write(move |conn| submissions::accept(conn, id, &second_acceptance, at(5)));
    assert_eq!(accepted.await, AcceptanceResult::Accepted);
    assert_eq!(
        db.read(|conn| submissions::count_open(conn, "acme")).await,
        [("m".into(), "2:bb".into(), 1)]
    );
    let recent = db
        .read(|conn| submissions::count_since(conn, "acme", at(1)))
        .await;
    assert_eq!(recent, [("m".into(), "2:bb".into(), 1)], "later than that");
    let latest = db.read(move |conn| submissions::latest(conn, task)).await;
    let latest = latest.unwrap();
    assert_eq!(
        (latest.state, latest.handle, latest.accepted_at),
        (SubmissionState::Accepted, Some(handle), Some(at(5)))
    );
}

async fn progress_rises_only_for_the_holder(db: Fixture) {
    let id = db
        .write(|conn| {
            let task = task(owner(conn)?, at(0));
            tasks::insert(conn, &task)?;
            Ok(task.id)
        })
        .await;
    let raise = async |worker: &'static str, progress| {
        db.write(move |conn| tasks::raise_progress(conn, id, worker, (progress, false)))
            .await
    };
    assert!(!raise("a", 10).await, "nobody holds it");
    db.write(|conn| {
        workers::register(conn, "a", at(4))?;
        tasks::claim(conn, "a", MODELS, at(1))
    })
    .await;
    assert!(raise("a", 10).await);
    assert!(!raise("a", 10).await);
    assert!(!raise("a", 9).await);
    assert!(!raise("b", 50).await);
    db.write(|conn| workers::free_lapsed(conn, at(5))).await;
    db.write(|conn| tasks::claim(conn, "b", MODELS, at(5)))
        .await;
    assert!(!raise("a", 60).await, "it is b's now");
    assert!(!raise("b", 5).await, "progress does not fall");
    assert!(raise("b", 60).await);
    db.write(move |conn| tasks::finish(conn, id, Some("b"), &ending(TaskState::Failed), at(6)))
        .await;
    assert!(!raise("b", 70).await);
    let events = db.read(move |conn| tasks::events_after(conn, id, 0)).await;
    let shown: Vec<_> = events
        .iter()
        .map(|event| (event.seq, event.progress))
        .collect();
    assert_eq!(shown, [(1, 0), (2, 0), (3, 10), (4, 60), (5, 60)]);
    assert_eq!(
        db.read(move |conn| tasks::events_after(conn, id, 3)).await,
        events[3..]
    );
}

async fn a_task_ends_once(db: Fixture) {
    for round in 0..12 {
        let (id, account) = db
            .write(|conn| {
                let task = task(owner(conn)?, at(0));
                tasks::insert(conn, &task)?;
                Ok((task.id, task.account))
            })
            .await;
        db.write(|conn| tasks::claim(conn, "a", MODELS, at(1)))
            .await
            .unwrap();
        let end = async |worker: Option<&'static str>, state| {
            let ended = db
                .write(move |conn| tasks::finish(conn, id, worker, &ending(state), at(2)))
                .await;
            ended.map(|_| state)
        };
        let mut racers = vec![
            end(Some("a"), TaskState::Succeeded),
            end(None, TaskState::Cancelled),
            end(Some("b"), TaskState::Failed),
            end(None, TaskState::Cancelled),
            end(Some("a"), TaskState::Succeeded),
        ];
        let rotation = round % racers.len();
        racers.rotate_left(rotation);
        let winners: Vec<_> = futures_util::future::join_all(racers)
            .await
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(winners.len(), 1);
        let stored = db
            .read(move |conn| tasks::by_id(conn, id, account))
            .await
            .unwrap();
        assert_eq!(stored.state, winners[0]);
        let is_success = stored.state == TaskState::Succeeded;
        assert_eq!(
            (stored.output.is_some(), stored.failure.is_none()),
            (is_success, is_success)
        );
        assert_eq!(stored.cost.get(), if is_success { 90_000 } else { 0 });
        assert_eq!(
            (stored.progress, stored.finished_at),
            (if is_success { 100 } else { 0 }, Some(at(2)))
        );
        let events = db.read(move |conn| tasks::events_after(conn, id, 0)).await;
        assert_eq!(
            events
                .iter()
                .filter(|event| event.state.is_terminal())
                .count(),
            1
        );
        assert_eq!(events.last().unwrap().seq, stored.event_seq);
        assert!(
            !db.read(|conn| tasks::any_due(conn, MODELS, at(1_000_000)))
                .await,
            "an ended task is never due"
        );
    }
}

async fn lists_page_in_both_directions_and_filter(db: Fixture) {
    let (owner, mut ids) = db
        .write(|conn| {
            let owner = owner(conn)?;
            let stranger = super::owner(conn)?;
            tasks::insert(conn, &task(stranger, at(0)))?;
            let mut ids = Vec::new();
            for number in 0..5 {
                let task = task(owner, at(number));
                tasks::insert(conn, &task)?;
                ids.push(task.id);
            }
            tasks::mark_deleted(conn, ids[1], owner.0, at(9))?;
            tasks::finish(conn, ids[2], None, &ending(TaskState::Cancelled), at(9))?;
            Ok((owner, ids))
        })
        .await;
    let page = async |filter: TaskFilter, after, limit, ascending| {
        let page = PageQuery {
            after,
            limit,
            ascending,
        };
        let rows = db
            .read(move |conn| tasks::page(conn, owner.0, &filter, page))
            .await;
        rows.iter().map(|task| task.id).collect::<Vec<_>>()
    };
    let any_task = TaskFilter::default;
    assert_eq!(page(any_task(), None, 10, true).await, ids);
    assert_eq!(page(any_task(), Some(ids[1]), 2, true).await, ids[2..4]);
    let deleted = TaskFilter {
        without_deleted: true,
        ..any_task()
    };
    assert_eq!(page(deleted, None, 2, true).await, [ids[0], ids[2]]);
    let cancelled = TaskFilter {
        state: Some(TaskState::Cancelled),
        ..any_task()
    };
    assert_eq!(page(cancelled, None, 10, false).await, [ids[2]]);
    let music = TaskFilter {
        kind: Some(MediaKind::Music),
        ..any_task()
    };
    assert!(page(music, None, 10, false).await.is_empty());
    let model = TaskFilter {
        model: Some("animatic-1".into()),
        kind: Some(MediaKind::Video),
        ..any_task()
    };
    ids.reverse();
    assert_eq!(page(model, None, 10, false).await, ids);
    assert_eq!(page(any_task(), Some(ids[0]), 10, false).await, ids[1..]);
    let (deleted, kept) = (ids[3], ids[0]);
    assert!(db.read(move |conn| tasks::is_deleted(conn, deleted)).await);
    assert!(!db.read(move |conn| tasks::is_deleted(conn, kept)).await);
    assert!(
        !db.write(move |conn| tasks::mark_deleted(conn, deleted, owner.0, at(10)))
            .await,
        "only once"
    );
}

async fn duration_samples_are_of_recent_successes_and_running_tasks(db: Fixture) {
    let samples_of = async |model: &'static str| {
        let samples = db
            .read(move |conn| tasks::duration_samples(conn, model, at(1000), at(2000)))
            .await;
        let seconds = |sample: &DurationSample| {
            (
                sample.from.as_secs(),
                sample.until.as_secs(),
                sample.has_ended,
            )
        };
        samples.iter().map(seconds).collect::<Vec<_>>()
    };
    assert!(samples_of("animatic-1").await.is_empty());
    db.write(|conn| {
        let owner = owner(conn)?;
        for (started, finished, state) in [
            (0, 999, TaskState::Succeeded), // before the window
            (990, 1001, TaskState::Succeeded),
            (1000, 1005, TaskState::Succeeded),
            (1000, 1090, TaskState::Succeeded),
            (1000, 1500, TaskState::Failed),
        ] {
            let task = start_task(conn, owner, started)?;
            tasks::finish(conn, task, None, &ending(state), at(finished))?;
        }
        start_task(conn, owner, 1900)?;
        start_task(conn, owner, 900)?;
        // Not started.
        tasks::insert(conn, &task(owner, at(1000)))
    })
    .await;
    let expected = [
        (0, 90, true),
        (0, 5, true),
        (10, 11, true),
        (100, 1100, false),
        (0, 100, false),
    ];
    assert_eq!(samples_of("animatic-1").await, expected);
    assert!(samples_of("other").await.is_empty());
}

/// A task that a provider accepted at this second.
fn start_task(
    conn: &mut Conn<'_>,
    owner: (AccountId, KeyId),
    started: i64,
) -> Result<TaskId, StoreError> {
    let task = task(owner, at(started));
    tasks::insert_held(conn, &task, Some("w1"))?;
    tasks::mark_running(conn, task.id, "w1", "acme", "fp", at(started))?;
    Ok(task.id)
}

async fn a_media_folder_is_identified_by_its_path(db: Fixture) {
    let lookup = async |path: &'static str| {
        let lookup = db.read(move |conn| media_folders::lookup(conn, path)).await;
        (lookup.here, lookup.marks, lookup.has_media)
    };
    assert_eq!(lookup("/data").await, (None, vec![], false));
    db.write(|conn| media_folders::note(conn, "/data", "one"))
        .await;
    db.write(|conn| media_folders::note(conn, "/other", "two"))
        .await;
    db.write(|conn| {
        let (account, _) = owner(conn)?;
        assets::insert(conn, &asset(account, None))
    })
    .await;
    let marks = vec!["one".to_owned(), "two".to_owned()];
    let mark = Some("one".to_owned());
    assert_eq!(lookup("/data").await, (mark, marks.clone(), true));
    assert_eq!(lookup("/elsewhere").await, (None, marks, true));
}

async fn files_expire_and_are_removed(db: Fixture) {
    let (account, files) = db
        .write(|conn| {
            let (account, _) = owner(conn)?;
            let mut files = vec![
                asset(account, None),
                asset(account, Some(at(20))),
                asset(account, Some(at(10))),
            ];
            for number in 0..120 {
                files.push(asset(account, Some(at(100 + number))));
            }
            for file in &files {
                assets::insert(conn, file)?;
            }
            Ok((account, files))
        })
        .await;
    for file in &files[..2] {
        let id = file.id;
        let read = db.read(move |conn| assets::by_id(conn, id)).await;
        assert_eq!(read.as_ref(), Some(file));
    }
    let owned = async |id, owner| {
        let file = db.read(move |conn| assets::by_owner(conn, id, owner)).await;
        file.map(|file| file.id)
    };
    let stranger = mediagate_model::ids::AccountId::new();
    let kept = files[1].id;
    assert_eq!(owned(kept, account).await, Some(kept));
    assert_eq!(owned(kept, stranger).await, None);
    let expired = async |now| {
        let rows = db.read(move |conn| assets::expired(conn, at(now))).await;
        rows.iter().map(|file| file.id).collect::<Vec<_>>()
    };
    assert_eq!(expired(9).await, []);
    assert_eq!(expired(20).await, [files[2].id, files[1].id]);
    assert_eq!(expired(1000).await.len(), 100, "at most a hundred at once");
    let (first, permanent) = (files[2].id, files[0].id);
    db.write(move |conn| assets::mark_removed(conn, first, at(21), at(31)))
        .await;
    db.write(move |conn| assets::mark_removed(conn, first, at(22), at(32)))
        .await;
    assert_eq!(
        db.read(move |conn| assets::by_id(conn, first))
            .await
            .unwrap()
            .removed_at,
        Some(at(21))
    );
    assert_eq!(owned(first, account).await, None, "it was removed");
    assert_eq!(expired(21).await, [files[1].id]);
    let deletable = async |now| {
        let rows = db.read(move |conn| assets::deletable(conn, at(now))).await;
        rows.iter().map(|file| file.id).collect::<Vec<_>>()
    };
    assert_eq!(deletable(30).await, [], "it is kept aside for a while");
    assert_eq!(deletable(31).await, [first]);
    assert_eq!(
        db.write(|conn| assets::restore_early(conn, at(21))).await,
        0
    );
    assert!(
        !db.read(|conn| assets::any_removed_early(conn, at(21)))
            .await
    );
    assert!(
        db.read(|conn| assets::any_removed_early(conn, at(-1000)))
            .await
    );
    let restored = db.write(|conn| assets::restore_early(conn, at(-1000)));
    assert_eq!(restored.await, 1, "the clock was ahead");
    assert_eq!(deletable(31).await, []);
    db.write(move |conn| assets::mark_removed(conn, first, at(21), at(31)))
        .await;
    db.write(move |conn| assets::mark_deleted(conn, first))
        .await;
    assert_eq!(deletable(1000).await, []);
    let ids = [AssetId::new(), first, permanent];
    let existing = db.read(move |conn| assets::existing_ids(conn, &ids)).await;
    assert_eq!(existing.len(), 2);
    assert!(existing.contains(&first) && existing.contains(&permanent));
    let removed = db.read(move |conn| assets::removed_ids(conn, &ids)).await;
    assert_eq!(removed, [first]);
    assert_eq!(db.read(|conn| assets::existing_ids(conn, &[])).await, []);
    db.write(move |conn| assets::expire(conn, permanent, stranger, at(5)))
        .await;
    assert_eq!(expired(9).await, []);
    db.write(move |conn| assets::expire(conn, permanent, account, at(5)))
        .await;
    assert_eq!(expired(9).await, [permanent]);
    db.write(move |conn| assets::expire(conn, permanent, account, at(50)))
        .await;
    assert_eq!(
        expired(9).await,
        [permanent],
        "a past expiry is not postponed"
    );
}

pub(super) fn upload(account: mediagate_model::ids::AccountId, media: Option<ClipMedia>) -> Clip {
    Clip {
        id: ClipId::new(),
        account,
        past_payload: None,
        origin: ClipOrigin::Upload,
        title: "Song".into(),
        model: String::new(),
        asked_model: String::new(),
        state: ClipState::Complete,
        media,
        media_removed: false,
        is_trashed: false,
        failure: None,
        upstream: None,
        provenance: None,
        notes: None,
        created_at: at(0),
    }
}

async fn clips_show_the_state_of_their_task_and_files(db: Fixture) {
    let (account, job, source, stems) = db
        .write(|conn| {
            let owner = owner(conn)?;
            let file = asset(owner.0, Some(at(50)));
            assets::insert(conn, &file)?;
            let media = ClipMedia {
                audio_type: mediagate_model::media::MediaType::Flac,
                audio: file.id,
                image: file.id,
                image_large: file.id,
                milliseconds: 12_345,
                expires_at: file.expires_at,
            };
            let source = upload(owner.0, Some(media));
            clips::insert(conn, &source, 0)?;
            let job = task(owner, at(1));
            tasks::insert(conn, &job)?;
            let stem = |target| Clip {
                id: ClipId::new(),
                past_payload: None,
                origin: ClipOrigin::Stem {
                    task: job.id,
                    source: source.id,
                    target,
                },
                model: "stems-dsp-1".into(),
                asked_model: "chirp-auk".into(),
                state: ClipState::Queued,
                media: None,
                ..source.clone()
            };
            // The stems are written in reverse order.
            let stems = [
                stem(StemTarget::Only(StemGroup::Vocals)),
                stem(StemTarget::Without(StemGroup::Vocals)),
            ];
            clips::insert(conn, &stems[1], 1)?;
            clips::insert(conn, &stems[0], 0)?;
            Ok((owner.0, job.id, source, stems))
        })
        .await;
    let id = source.id;
    let get = async |id| {
        db.read(move |conn| clips::by_id(conn, id, account))
            .await
            .unwrap()
    };
    assert_eq!(get(id).await, source);
    let stranger = mediagate_model::ids::AccountId::new();
    assert_eq!(
        db.read(move |conn| clips::by_id(conn, id, stranger)).await,
        None
    );
    assert_eq!(
        db.read(move |conn| clips::of_task(conn, job, account))
            .await,
        stems
    );
    db.write(|conn| tasks::claim(conn, "a", MODELS, at(2)))
        .await
        .unwrap();
    assert_eq!(get(stems[0].id).await.state, ClipState::Running);
    let (vocals, media) = (stems[0].id, source.media.unwrap());
    db.write(move |conn| {
        tasks::finish(conn, job, Some("a"), &ending(TaskState::Succeeded), at(3))?;
        clips::complete(conn, vocals, &media)
    })
    .await;
    let completed = get(vocals).await;
    assert_eq!(
        (completed.state, completed.media),
        (ClipState::Complete, Some(media))
    );

    let page = async |trashed, after, limit| {
        let page = PageQuery {
            after,
            limit,
            ascending: false,
        };
        let rows = db
            .read(move |conn| clips::page(conn, account, trashed, page))
            .await;
        rows.iter().map(|clip| clip.id).collect::<Vec<_>>()
    };
    assert_eq!(page(false, None, 10).await, [stems[1].id, stems[0].id, id]);
    assert_eq!(page(false, Some(stems[1].id), 1).await, [stems[0].id]);
    db.write(move |conn| clips::set_trashed(conn, id, stranger, true))
        .await;
    assert!(!get(id).await.is_trashed);
    db.write(move |conn| clips::set_trashed(conn, id, account, true))
        .await;
    assert_eq!(
        (page(true, None, 10).await, get(id).await.is_trashed),
        (vec![id], true)
    );
    db.write(move |conn| assets::mark_removed(conn, media.audio, at(60), at(60)))
        .await;
    assert!(get(id).await.media_removed);
}

async fn personas_are_kept_until_deleted(db: Fixture) {
    let (account, mut inserted) = db
        .write(|conn| {
            let (account, _) = owner(conn)?;
            let file = asset(account, None);
            assets::insert(conn, &file)?;
            let (root, other) = (upload(account, None), upload(account, None));
            clips::insert(conn, &root, 0)?;
            clips::insert(conn, &other, 0)?;
            let mut inserted = Vec::new();
            for number in 0..3 {
                let persona = Persona {
                    id: PersonaId::new(),
                    account,
                    name: format!("Voice {number} \u{1f3a4}"),
                    description: "Low\nand slow".into(),
                    image: file.id,
                    root_clip: root.id,
                    clips: vec![root.id, other.id],
                    is_public: number == 1,
                    is_public_approved: number == 2,
                    upstream: None,
                    created_at: at(number),
                };
                personas::insert(conn, &persona)?;
                inserted.push(persona);
            }
            Ok((account, inserted))
        })
        .await;
    inserted.reverse();
    let page = PageQuery {
        after: None,
        limit: 10,
        ascending: false,
    };
    assert_eq!(
        db.read(move |conn| personas::page(conn, account, page))
            .await,
        inserted
    );
    let after = PageQuery {
        after: Some(inserted[0].id),
        limit: 1,
        ascending: false,
    };
    assert_eq!(
        db.read(move |conn| personas::page(conn, account, after))
            .await,
        inserted[1..2]
    );
    let (id, stranger) = (inserted[1].id, mediagate_model::ids::AccountId::new());
    assert_eq!(
        db.read(move |conn| personas::by_id(conn, id, account))
            .await
            .as_ref(),
        Some(&inserted[1])
    );
    assert_eq!(
        db.read(move |conn| personas::by_id(conn, id, stranger))
            .await,
        None
    );
    assert!(
        !db.write(move |conn| personas::trash(conn, id, stranger))
            .await
    );
    assert!(
        db.write(move |conn| personas::trash(conn, id, account))
            .await
    );
    assert!(
        !db.write(move |conn| personas::trash(conn, id, account))
            .await
    );
    assert_eq!(
        db.read(move |conn| personas::by_id(conn, id, account))
            .await,
        None
    );
}

async fn a_failed_transaction_writes_nothing(db: Fixture) {
    let failed: Result<(), StoreError> = db
        .store
        .write(|conn| {
            accounts::insert(conn, &account("undone"))?;
            Err(StoreError::Closed)
        })
        .await;
    assert!(failed.is_err());
    assert_eq!(
        db.read(|conn| accounts::by_handle(conn, "undone")).await,
        None
    );
    // A write that the database itself rejects leaves nothing, either.
    let refused: Result<(), StoreError> = db
        .store
        .write(|conn| {
            accounts::insert(conn, &account("refused"))?;
            let nobody = (
                mediagate_model::ids::AccountId::new(),
                mediagate_model::ids::KeyId::new(),
            );
            tasks::insert(conn, &task(nobody, at(0)))
        })
        .await;
    assert!(refused.is_err(), "a task of no account");
    assert_eq!(
        db.read(|conn| accounts::by_handle(conn, "refused")).await,
        None
    );
    // Other writes at the same time are not affected.
    let writes = (0..20).map(|number| {
        db.store.write(move |conn| {
            accounts::insert(conn, &account(&format!("n{number}")))?;
            if number % 3 == 0 {
                Err(StoreError::Closed)
            } else {
                Ok(())
            }
        })
    });
    let results = futures_util::future::join_all(writes).await;
    for (number, result) in results.iter().enumerate() {
        assert_eq!(result.is_err(), number % 3 == 0);
        let stored = db
            .read(move |conn| accounts::by_handle(conn, &format!("n{number}")))
            .await;
        assert_eq!(stored.is_some(), number % 3 != 0);
    }
    db.store.ping().await.unwrap();
}
