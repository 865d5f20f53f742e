//! The life of tasks against a tiny model of it: random sequences of what
//! workers, callers and time do.

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

/// What the model knows of a task.
struct Known {
    id: TaskId,
    due: i64,
    state: TaskState,
    progress: u8,
    holder: Option<&'static str>,
    attempts: u32,
    events: Vec<(TaskState, u8)>,
}

impl Known {
    fn is_held_by(&self, worker: &str) -> bool {
        !self.state.is_terminal() && self.holder == Some(worker)
    }

    fn happened(&mut self) {
        self.events.push((self.state, self.progress));
    }

    fn end(&mut self, state: TaskState) {
        self.state = state;
        self.holder = None;
        if state == TaskState::Succeeded {
            self.progress = 100;
        }
        self.happened();
    }
}

#[expect(clippy::too_many_lines, reason = "one scene, in its order")]
fn run(conn: &mut Conn<'_>, steps: &[Step]) {
    conn.execute(
        "UPDATE tasks SET state = 'cancelled', lease_owner = NULL WHERE state IN ('queued', 'running')",
        &[],
    )
    .unwrap();
    let owner: (AccountId, KeyId) = owner(conn).unwrap();
    let mut now = 0;
    let mut known: Vec<Known> = Vec::new();
    let mut held_until = [i64::MIN; WORKERS.len()];
    conn.execute("DELETE FROM workers", &[]).unwrap();
    for step in steps {
        match *step {
            Step::Wait(seconds) => now += seconds,
            Step::Accept => {
                let task = task(owner, at(now));
                tasks::insert(conn, &task).unwrap();
                known.push(Known {
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
                let free = known
                    .iter_mut()
                    .filter(|k| !k.state.is_terminal() && k.due <= now && k.holder.is_none());
                let expected = free.min_by_key(|k| (k.due, k.id.to_string()));
                assert_eq!(
                    claimed.as_ref().map(|task| task.id),
                    expected.as_ref().map(|k| k.id)
                );
                if let Some(k) = expected {
                    let is_new = k.state == TaskState::Queued;
                    (k.state, k.holder) = (TaskState::Running, Some(WORKERS[worker]));
                    k.attempts += 1;
                    if is_new {
                        k.happened();
                    }
                }
            }
            Step::Heartbeat(worker) => {
                let until = at(now + LEASE);
                let held = workers::prolong(conn, WORKERS[worker], until).unwrap();
                assert_eq!(held, held_until[worker] != i64::MIN);
                if !held {
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
                let lapsed = |holder: &str| {
                    WORKERS
                        .iter()
                        .position(|name| *name == holder)
                        .is_none_or(|worker| held_until[worker] == i64::MIN)
                };
                let mut freed = 0;
                for k in known.iter_mut().filter(|k| !k.state.is_terminal()) {
                    if k.holder.is_some_and(lapsed) {
                        k.holder = None;
                        freed += 1;
                    }
                }
                let any = workers::any_lapsed(conn, at(now)).unwrap();
                let lapsed = workers::free_lapsed(conn, at(now)).unwrap();
                assert!(any || lapsed == 0, "there is something to look for");
                let unknown = workers::free_unknown(conn).unwrap();
                assert_eq!(lapsed + unknown, freed);
            }
            Step::Progress(worker, which, progress) => {
                let Some(k) = known.get_mut(which) else {
                    continue;
                };
                let rose =
                    tasks::raise_progress(conn, k.id, WORKERS[worker], (progress, false)).unwrap();
                assert_eq!(rose, k.is_held_by(WORKERS[worker]) && progress > k.progress);
                if rose {
                    k.progress = progress;
                    k.happened();
                }
            }
            Step::Release(worker, which) => {
                let Some(k) = known.get_mut(which) else {
                    continue;
                };
                tasks::release(conn, k.id, WORKERS[worker], at(now + 1)).unwrap();
                if k.is_held_by(WORKERS[worker]) {
                    (k.holder, k.due) = (None, now + 1);
                }
            }
            Step::Finish(worker, which, succeeds) => {
                let Some(k) = known.get_mut(which) else {
                    continue;
                };
                let state = if succeeds {
                    TaskState::Succeeded
                } else {
                    TaskState::Failed
                };
                let ended =
                    tasks::finish(conn, k.id, Some(WORKERS[worker]), &ending(state), at(now))
                        .unwrap();
                assert_eq!(ended.is_some(), k.is_held_by(WORKERS[worker]));
                if ended.is_some() {
                    k.end(state);
                }
            }
            Step::Cancel(which) => {
                let Some(k) = known.get_mut(which) else {
                    continue;
                };
                let ended = tasks::finish(conn, k.id, None, &ending(TaskState::Cancelled), at(now))
                    .unwrap();
                assert_eq!(ended.is_some(), !k.state.is_terminal());
                if ended.is_some() {
                    k.end(TaskState::Cancelled);
                }
            }
        }
        let due = known
            .iter()
            .any(|k| !k.state.is_terminal() && k.due <= now && k.holder.is_none());
        assert_eq!(tasks::any_due(conn, MODELS, at(now)).unwrap(), due);
    }
    for k in &known {
        let found = tasks::by_id(conn, k.id, owner.0).unwrap().unwrap();
        assert_eq!(
            (found.state, found.progress, found.attempts),
            (k.state, k.progress, k.attempts)
        );
        let events = tasks::events_after(conn, k.id, 0).unwrap();
        assert!(
            events
                .iter()
                .zip(1..)
                .all(|(event, number)| event.seq == number),
            "numbered without gaps"
        );
        let told: Vec<_> = events
            .iter()
            .map(|event| (event.state, event.progress))
            .collect();
        assert_eq!(told, k.events);
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
    // The connection is not the runner's to share.
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
