//! Accounts take turns at the slots of an engine or a provider.

use std::collections::{BTreeMap, HashMap};

use mediagate_model::ids::{AccountId, KeyId, SubmissionId};
use mediagate_model::submission::{Submission, SubmissionState};
use mediagate_model::task::{Task, TaskState};
use mediagate_store::tasks::FairQueue;
use mediagate_store::{Conn, StoreError, restored, submissions, tasks, workers};

use super::{Fixture, MODELS, at, owner, postgres, sqlite, task};

on_both! {
    with_a_limit_of_one_the_accounts_alternate
    with_a_higher_limit_each_account_has_its_share
    an_account_with_more_running_tasks_is_not_preferred
    a_providers_limit_is_shared_among_accounts
    a_refused_task_waits_for_its_turn_and_a_sent_one_does_not
    models_of_one_queue_share_its_limit
    a_task_that_waits_for_the_operator_does_not_count_against_the_limit
}

type Owner = (AccountId, KeyId);

/// Accounts with this many tasks each, due one second apart, the first account's first.
fn create_accounts(
    conn: &mut Conn<'_>,
    counts: &[usize],
    change: impl Fn(&mut Task),
) -> Result<Vec<Owner>, StoreError> {
    workers::register(conn, "w", at(1_000_000))?;
    let mut second = 0;
    let mut owners = Vec::new();
    for count in counts {
        let owner = owner(conn)?;
        owners.push(owner);
        for _ in 0..*count {
            second += 1;
            let mut task = task(owner, at(second));
            change(&mut task);
            tasks::insert(conn, &task)?;
        }
    }
    Ok(owners)
}

/// The index of a task's account.
fn account_index(owners: &[Owner], task: &Task) -> usize {
    let mut owners = owners.iter();
    owners.position(|owner| owner.0 == task.account).unwrap()
}

fn end(conn: &mut Conn<'_>, task: &Task) -> Result<(), StoreError> {
    let ending = super::contract::ending(TaskState::Succeeded);
    let ended = tasks::finish(conn, task.id, Some("w"), &ending, at(900_000))?;
    assert!(ended.is_some());
    Ok(())
}

async fn with_a_limit_of_one_the_accounts_alternate(db: Fixture) {
    let order = db
        .write(|conn| {
            let owners = create_accounts(conn, &[4, 2, 1], |_| {})?;
            let mut order = Vec::new();
            while let Some(task) = tasks::claim(conn, "w", MODELS, at(100))? {
                order.push(account_index(&owners, &task));
                end(conn, &task)?;
            }
            Ok(order)
        })
        .await;
    assert_eq!(order, [0, 1, 2, 0, 1, 0, 0]);
}

async fn with_a_higher_limit_each_account_has_its_share(db: Fixture) {
    let (order, next) = db
        .write(|conn| {
            let owners = create_accounts(conn, &[9, 3], |_| {})?;
            let mut claimed = Vec::new();
            for _ in 0..4 {
                claimed.extend(tasks::claim(conn, "w", MODELS, at(100))?);
            }
            let order: Vec<_> = claimed
                .iter()
                .map(|task| account_index(&owners, task))
                .collect();
            // The second account holds one, the first holds two.
            end(conn, &claimed[1])?;
            let next = tasks::claim(conn, "w", MODELS, at(100))?.unwrap();
            Ok((order, account_index(&owners, &next)))
        })
        .await;
    assert_eq!((order.as_slice(), next), (&[0, 1, 0, 1][..], 1));
}

/// A pseudo-random sequence of orders, claims and ends, and the expected state.
#[derive(Clone)]
struct Walk {
    owners: Vec<Owner>,
    waiting: BTreeMap<usize, Vec<Task>>,
    held: Vec<Task>,
    last_turn: HashMap<usize, usize>,
    dice: u32,
}

impl Walk {
    fn draw(&mut self, limit: usize) -> usize {
        self.dice = self
            .dice
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        usize::try_from(self.dice >> 16).unwrap() % limit
    }

    fn step(&mut self, conn: &mut Conn<'_>, step: usize) -> Result<(), StoreError> {
        match self.draw(5) {
            // The first account orders as much as all others together.
            0 | 1 => {
                let account = if self.draw(2) == 0 { 0 } else { self.draw(4) };
                let new = task(self.owners[account], at(i64::try_from(step).unwrap()));
                tasks::insert(conn, &new)?;
                self.waiting.entry(account).or_default().push(new);
            }
            2 | 3 => self.claim(conn, step)?,
            _ if self.held.is_empty() => {}
            _ => {
                let index = self.draw(self.held.len());
                end(conn, &self.held.remove(index))?;
            }
        }
        Ok(())
    }

    fn claim(&mut self, conn: &mut Conn<'_>, step: usize) -> Result<(), StoreError> {
        let claimed = tasks::claim(conn, "w", MODELS, at(1000))?;
        let holds = |account: usize| {
            let held_tasks = self.held.iter();
            held_tasks
                .filter(|task| task.account == self.owners[account].0)
                .count()
        };
        let turn = |account: &usize| (holds(*account), self.last_turn.get(account).copied());
        let account = self.waiting.keys().copied().min_by_key(|account| {
            let first = self.waiting[account][0].created_at;
            (turn(account), first)
        });
        assert_eq!(
            claimed.as_ref().map(|task| task.id),
            account.map(|account| self.waiting[&account][0].id),
            "step {step}"
        );
        if let (Some(account), Some(task)) = (account, claimed) {
            let held_tasks = self.waiting.get_mut(&account).unwrap();
            held_tasks.remove(0);
            if held_tasks.is_empty() {
                self.waiting.remove(&account);
            }
            self.last_turn.insert(account, step);
            self.held.push(task);
        }
        Ok(())
    }
}

async fn an_account_with_more_running_tasks_is_not_preferred(db: Fixture) {
    let owners = db
        .write(|conn| create_accounts(conn, &[0, 0, 0, 0], |_| {}))
        .await;
    let mut walk = Walk {
        owners,
        waiting: BTreeMap::new(),
        held: Vec::new(),
        last_turn: HashMap::new(),
        dice: 7,
    };
    // A transaction is limited to five seconds, even on a busy machine.
    for first in (0..300).step_by(30) {
        walk = db
            .write(move |conn| {
                for step in first..first + 30 {
                    walk.step(conn, step)?;
                }
                Ok(walk)
            })
            .await;
    }
}

fn queue(models: &[&str]) -> FairQueue {
    FairQueue {
        name: "provider acme".into(),
        models: models.iter().map(|model| (*model).to_owned()).collect(),
    }
}

/// Claims at most this many tasks of the model; returns how many each account got.
fn claim(conn: &mut Conn<'_>, owners: &[Owner], most: u32) -> Result<Vec<usize>, StoreError> {
    let capacities = [("film".to_owned(), most)];
    let queue = queue(&["film"]);
    tasks::enter_queue(conn, &queue);
    let claimed = tasks::claim_in_turn(conn, "w", &queue, &capacities, u32::MAX, at(100))?;
    let mut counts = vec![0; owners.len()];
    for task in &claimed {
        counts[account_index(owners, task)] += 1;
    }
    Ok(counts)
}

fn make_hosted(task: &mut Task) {
    (task.provider, task.model) = ("acme".into(), "film".into());
}

async fn a_providers_limit_is_shared_among_accounts(db: Fixture) {
    let (first, second, third) = db
        .write(|conn| {
            let owners = create_accounts(conn, &[40, 1, 3], make_hosted)?;
            let first = claim(conn, &owners, 5)?;
            let second = claim(conn, &owners, 3)?;
            Ok((first, second, claim(conn, &owners, 100)?))
        })
        .await;
    assert_eq!(first, [2, 1, 2]);
    // The third account gets its last task. The remaining slots go to the first.
    assert_eq!(second, [2, 0, 1]);
    assert_eq!(third, [36, 0, 0]);
}

async fn a_refused_task_waits_for_its_turn_and_a_sent_one_does_not(db: Fixture) {
    let (waiting, sent) = db
        .write(|conn| {
            let owners = create_accounts(conn, &[3, 1], make_hosted)?;
            let mut claimed = Vec::new();
            for _ in 0..2 {
                claimed.extend(tasks::claim_upstream(
                    conn,
                    "w",
                    "film",
                    TaskState::Queued,
                    1,
                    at(100),
                )?);
            }
            for (number, task) in claimed.iter().enumerate() {
                let submission = Submission {
                    id: SubmissionId::new(),
                    task: task.id,
                    attempt: 1,
                    provider: "acme".into(),
                    route_model: "film".into(),
                    endpoint: "fal https://fal.test".into(),
                    credential: "1:aa".into(),
                    state: SubmissionState::Intended,
                    handle: None,
                    results: None,
                    created_at: at(100),
                    accepted_at: None,
                    likeness: None,
                    has_key: None,
                    job_settings: None,
                    order_settings: None,
                };
                submissions::intend(conn, &submission, "w")?;
                assert!(tasks::mark_running(
                    conn,
                    task.id,
                    "w",
                    "acme",
                    "fp",
                    at(100)
                )?);
                if number == 0 {
                    let (from, to) = (SubmissionState::Intended, SubmissionState::Refused);
                    submissions::close(conn, submission.id, from, to, None, at(100))?;
                }
                tasks::release(conn, task.id, "w", at(100))?;
            }
            let sent = tasks::claim_sent(conn, "w", "film", 10, at(100))?;
            assert_eq!(sent.len(), 1);
            assert_eq!(sent[0].id, claimed[1].id);
            let unsent = tasks::count_unsent(conn, &queue(&["film"]))?;
            assert!(unsent.is_empty(), "{unsent:?}");
            let waiting = [claim(conn, &owners, 1)?, claim(conn, &owners, 9)?];
            let unsent = tasks::count_unsent(conn, &queue(&["film"]))?;
            assert_eq!(unsent.get("film"), Some(&3));
            Ok((waiting, account_index(&owners, &sent[0])))
        })
        .await;
    assert_eq!(sent, 0, "its slot belongs to the first account");
    assert_eq!(
        waiting,
        [[0, 1], [2, 0]],
        "so the next slot is the second account's"
    );
}

async fn models_of_one_queue_share_its_limit(db: Fixture) {
    let claimed = db
        .write(|conn| {
            let first_account = create_accounts(conn, &[9], make_hosted)?;
            let second_account = create_accounts(conn, &[2], |task| {
                make_hosted(task);
                task.model = "zulu".into();
            })?;
            let capacities = [("film".to_owned(), 9), ("zulu".to_owned(), 1)];
            let queue = queue(&["film", "zulu"]);
            tasks::enter_queue(conn, &queue);
            let mut claimed = Vec::new();
            for places in [2, 2] {
                claimed.push(tasks::claim_in_turn(
                    conn,
                    "w",
                    &queue,
                    &capacities,
                    places,
                    at(100),
                )?);
            }
            let owners = [first_account[0], second_account[0]];
            let indices = |tasks: &Vec<Task>| {
                let mut indices: Vec<_> = tasks
                    .iter()
                    .map(|task| account_index(&owners, task))
                    .collect();
                indices.sort_unstable();
                indices
            };
            Ok(claimed.iter().map(indices).collect::<Vec<_>>())
        })
        .await;
    assert_eq!(claimed, [[0, 1], [0, 1]]);
}

async fn a_task_that_waits_for_the_operator_does_not_count_against_the_limit(db: Fixture) {
    db.write(|conn| {
        let owners = create_accounts(conn, &[3], make_hosted)?;
        workers::register(conn, restored::HOLDER, at(1_000_000))?;
        let state = TaskState::Queued;
        let held_tasks = tasks::claim_upstream(conn, restored::HOLDER, "film", state, 9, at(100))?;
        assert_eq!(held_tasks.len(), 3);
        let unsent = tasks::count_unsent(conn, &queue(&["film"]))?;
        assert!(unsent.is_empty(), "{unsent:?}");
        // They do not move the account back in the queue.
        for (owner, due) in [(owners[0], 10), (owner(conn)?, 11)] {
            let mut new_task = task(owner, at(due));
            make_hosted(&mut new_task);
            tasks::insert(conn, &new_task)?;
        }
        assert_eq!(claim(conn, &owners, 1)?, [1]);
        Ok(())
    })
    .await;
}
