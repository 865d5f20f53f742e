//! Tasks against a small model: random sequences of actions of
//! workers, callers and time.

use mediagate_model::ids::{AccountId, KeyId, TaskId};
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::task::TaskState;
use mediagate_store::tasks::{self, TaskEnding};
use mediagate_store::{Conn, PgSession, migrations, workers};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{MODELS, at, owner, task};

const LEASE: i64 = 3;
const WORKERS: [&str; 2] = ["a", "b"];

#[derive(Debug, Clone)]
enum Step {
    Accept,
    Claim(usize),
    Heartbeat(usize),
    FreeLapsed,
    Progress(usize, usize, u8),
    Release(usize, usize),
    Finish(usize, usize, bool),
    Cancel(usize),
    Wait(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (worker, task) = (0..WORKERS.len(), 0_usize..4);
    let step = prop_oneof![
        2 => Just(Step::Accept),
        4 => worker.clone().prop_map(Step::Claim),
        3 => worker.clone().prop_map(Step::Heartbeat),
        2 => Just(Step::FreeLapsed),
        4 => (worker.clone(), task.clone(), 0_u8..100).prop_map(|(w, t, p)| Step::Progress(w, t, p)),
        1 => (worker.clone(), task.clone()).prop_map(|(w, t)| Step::Release(w, t)),
        2 => (worker, task.clone(), any::<bool>()).prop_map(|(w, t, ok)| Step::Finish(w, t, ok)),
        1 => task.prop_map(Step::Cancel),
        4 => (0_i64..5).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..60)
}

/// A task in the model.
struct ModelTask {
    id: TaskId,
    due: i64,
    state: TaskState,
    progress: u8,
    holder: Option<&'static str>,
    attempts: u32,
    events: Vec<(TaskState, u8)>,
}

impl ModelTask {
    fn is_held_by(&self, worker: &str) -> bool {
        !self.state.is_terminal() && self.holder == Some(worker)
    }

    fn record_event(&mut self) {
        self.events.push((self.state, self.progress));
    }

    fn end(&mut self, state: TaskState) {
        self.state = state;
        self.holder = None;
        if state == TaskState::Succeeded {
            self.progress = 100;
        }
        self.record_event();
    }
}

#[expect(clippy::too_many_lines, reason = "one match over all steps")]
fn run(conn: &mut Conn<'_>, steps: &[Step]) {
    conn.execute(
        "UPDATE tasks SET state = 'cancelled', lease_owner = NULL WHERE state IN ('queued', 'running')",
        &[],
    )
    .unwrap();
    let owner: (AccountId, KeyId) = owner(conn).unwrap();
    let mut now = 0;
    let mut model: Vec<ModelTask> = Vec::new();
    let mut held_until = [i64::MIN; WORKERS.len()];
    conn.execute("DELETE FROM workers", &[]).unwrap();
    for step in steps {
        match *step {
            Step::Wait(seconds) => now += seconds,
            Step::Accept => {
                let task = task(owner, at(now));
                tasks::insert(conn, &task).unwrap();
                model.push(ModelTask {
                    id: task.id,
                    due: now,
                    state: TaskState::Queued,
                    progress: 0,
                    holder: None,
                    attempts: 0,
                    events: vec![(TaskState::Queued, 0)],
                });
            }
            Step::Claim(worker) => {
                let claimed = tasks::claim(conn, WORKERS[worker], MODELS, at(now)).unwrap();
                let free = model.iter_mut().filter(|known| {
                    !known.state.is_terminal() && known.due <= now && known.holder.is_none()
                });
                let expected = free.min_by_key(|known| (known.due, known.id.to_string()));
                assert_eq!(
                    claimed.as_ref().map(|task| task.id),
                    expected.as_ref().map(|known| known.id)
                );
                if let Some(known) = expected {
                    let is_new = known.state == TaskState::Queued;
                    (known.state, known.holder) = (TaskState::Running, Some(WORKERS[worker]));
                    known.attempts += 1;
                    if is_new {
                        known.record_event();
                    }
                }
            }
            Step::Heartbeat(worker) => {
                let until = at(now + LEASE);
                let is_registered = workers::prolong(conn, WORKERS[worker], until).unwrap();
                assert_eq!(is_registered, held_until[worker] != i64::MIN);
                if !is_registered {
                    workers::register(conn, WORKERS[worker], until).unwrap();
                }
                held_until[worker] = now + LEASE;
            }
            Step::FreeLapsed => {
                for until in &mut held_until {
                    if *until <= now {
                        *until = i64::MIN;
                    }
                }
                let is_lapsed = |holder: &str| {
                    WORKERS
                        .iter()
                        .position(|name| *name == holder)
                        .is_none_or(|worker| held_until[worker] == i64::MIN)
                };
                let mut expected_freed = 0;
                for known in model.iter_mut().filter(|known| !known.state.is_terminal()) {
                    if known.holder.is_some_and(is_lapsed) {
                        known.holder = None;
                        expected_freed += 1;
                    }
                }
                let any_lapsed = workers::any_lapsed(conn, at(now)).unwrap();
                let lapsed = workers::free_lapsed(conn, at(now)).unwrap();
                assert!(
                    any_lapsed || lapsed == 0,
                    "`any_lapsed` reports every lapsed worker"
                );
                let unknown = workers::free_unknown(conn).unwrap();
                assert_eq!(lapsed + unknown, expected_freed);
            }
            Step::Progress(worker, index, progress) => {
                let Some(known) = model.get_mut(index) else {
                    continue;
                };
                let is_raised =
                    tasks::raise_progress(conn, known.id, WORKERS[worker], (progress, false))
                        .unwrap();
                assert_eq!(
                    is_raised,
                    known.is_held_by(WORKERS[worker]) && progress > known.progress
                );
                if is_raised {
                    known.progress = progress;
                    known.record_event();
                }
            }
            Step::Release(worker, index) => {
                let Some(known) = model.get_mut(index) else {
                    continue;
                };
                tasks::release(conn, known.id, WORKERS[worker], at(now + 1)).unwrap();
                if known.is_held_by(WORKERS[worker]) {
                    (known.holder, known.due) = (None, now + 1);
                }
            }
            Step::Finish(worker, index, succeeds) => {
                let Some(known) = model.get_mut(index) else {
                    continue;
                };
                let state = if succeeds {
                    TaskState::Succeeded
                } else {
                    TaskState::Failed
                };
                let ended = tasks::finish(
                    conn,
                    known.id,
                    Some(WORKERS[worker]),
                    &ending(state),
                    at(now),
                )
                .unwrap();
                assert_eq!(ended.is_some(), known.is_held_by(WORKERS[worker]));
                if ended.is_some() {
                    known.end(state);
                }
            }
            Step::Cancel(index) => {
                let Some(known) = model.get_mut(index) else {
                    continue;
                };
                let ended =
                    tasks::finish(conn, known.id, None, &ending(TaskState::Cancelled), at(now))
                        .unwrap();
                assert_eq!(ended.is_some(), !known.state.is_terminal());
                if ended.is_some() {
                    known.end(TaskState::Cancelled);
                }
            }
        }
        let due = model
            .iter()
            .any(|known| !known.state.is_terminal() && known.due <= now && known.holder.is_none());
        assert_eq!(tasks::any_due(conn, MODELS, at(now)).unwrap(), due);
    }
    for known in &model {
        let stored = tasks::by_id(conn, known.id, owner.0).unwrap().unwrap();
        assert_eq!(
            (stored.state, stored.progress, stored.attempts),
            (known.state, known.progress, known.attempts)
        );
        let events = tasks::events_after(conn, known.id, 0).unwrap();
        assert!(
            events
                .iter()
                .zip(1..)
                .all(|(event, number)| event.seq == number),
            "numbered without gaps"
        );
        let shown: Vec<_> = events
            .iter()
            .map(|event| (event.state, event.progress))
            .collect();
        assert_eq!(shown, known.events);
    }
}

fn ending(state: TaskState) -> TaskEnding {
    TaskEnding {
        state,
        cost: MicroDollars::ZERO,
        money: ChargeState::Released,
        bill: None,
        output: None,
        failure: None,
    }
}

fn check(conn: &mut Conn<'_>, cases: u32) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    // The runner needs a closure that implements `Fn`.
    let conn = std::cell::RefCell::new(conn);
    let outcome = TestRunner::new(config).run(&steps(), |steps| {
        run(&mut conn.borrow_mut(), &steps);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn tasks_live_as_the_model_says_on_sqlite() {
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    let mut conn = Conn::Sqlite(&connection);
    migrations::run(&mut conn).unwrap();
    check(&mut conn, 200);
}

#[tokio::test]
async fn tasks_live_as_the_model_says_on_postgres() {
    let database = crate::support::postgres::TestDatabase::create().await;
    let url = database.url.clone();
    let checked = std::thread::spawn(move || {
        let mut session = PgSession::open(&url).unwrap();
        let mut conn = Conn::Postgres(&mut session);
        migrations::run(&mut conn).unwrap();
        check(&mut conn, 30);
    });
    if let Err(panic) = checked.join() {
        std::panic::resume_unwind(panic);
    }
}
