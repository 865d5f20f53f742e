//! Accounts take turns at the places of an engine or a provider.

use std::collections::{BTreeMap, HashMap};

use mediagate_model::ids::{AccountId, KeyId, SubmissionId};
use mediagate_model::submission::{Submission, SubmissionState};
use mediagate_model::task::{Task, TaskState};
use mediagate_store::tasks::FairQueue;
use mediagate_store::{Conn, StoreError, restored, submissions, tasks, workers};

use super::{Fixture, MODELS, at, owner, postgres, sqlite, task};

on_both! {
    with_one_place_whoever_was_served_goes_behind_the_others
    with_several_places_each_account_has_its_share
    no_account_is_passed_by_one_that_holds_more
    places_at_a_provider_are_shared_out
    what_was_refused_waits_for_its_turn_and_what_was_sent_does_not
    models_of_one_queue_share_its_places
    what_waits_for_the_operator_has_no_place
}

type Owner = (AccountId, KeyId);

/// Accounts with so many tasks each, due one second after the other, the first account's first.
fn accounts(
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

/// Whose a task is, by the account's position.
fn whose(owners: &[Owner], task: &Task) -> usize {
    let mut owners = owners.iter();
    owners.position(|owner| owner.0 == task.account).unwrap()
}

fn end(conn: &mut Conn<'_>, task: &Task) -> Result<(), StoreError> {
    let ending = super::contract::ending(TaskState::Succeeded);
    let ended = tasks::finish(conn, task.id, Some("w"), &ending, at(900_000))?;
    assert!(ended.is_some());
    Ok(())
}

async fn with_one_place_whoever_was_served_goes_behind_the_others(db: Fixture) {
    let order = db
        .write(|conn| {
            let owners = accounts(conn, &[4, 2, 1], |_| {})?;
            let mut order = Vec::new();
            while let Some(task) = tasks::claim(conn, "w", MODELS, at(100))? {
                order.push(whose(&owners, &task));
                end(conn, &task)?;
            }
            Ok(order)
        })
        .await;
    assert_eq!(order, [0, 1, 2, 0, 1, 0, 0]);
}

async fn with_several_places_each_account_has_its_share(db: Fixture) {
    let (order, next) = db
        .write(|conn| {
            let owners = accounts(conn, &[9, 3], |_| {})?;
            let mut held = Vec::new();
            for _ in 0..4 {
                held.extend(tasks::claim(conn, "w", MODELS, at(100))?);
            }
            let order: Vec<_> = held.iter().map(|task| whose(&owners, task)).collect();
            // The second account holds one, the first holds two.
            end(conn, &held[1])?;
            let next = tasks::claim(conn, "w", MODELS, at(100))?.unwrap();
            Ok((order, whose(&owners, &next)))
        })
        .await;
    assert_eq!((order.as_slice(), next), (&[0, 1, 0, 1][..], 1));
}

/// Whatever is ordered, taken and ended in whichever order.
/// Orders, claims and ends in a fixed order without a pattern that matters, and what they lead to.
#[derive(Clone)]
struct Walk {
    owners: Vec<Owner>,
    waiting: BTreeMap<usize, Vec<Task>>,
    held: Vec<Task>,
    last_turn: HashMap<usize, usize>,
    dice: u32,
}

impl Walk {
    fn draw(&mut self, most: usize) -> usize {
        self.dice = self
            .dice
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        usize::try_from(self.dice >> 16).unwrap() % most
    }

    fn step(&mut self, conn: &mut Conn<'_>, step: usize) -> Result<(), StoreError> {
        match self.draw(5) {
            // The first account orders as much as all others.
            0 | 1 => {
                let who = if self.draw(2) == 0 { 0 } else { self.draw(4) };
                let new = task(self.owners[who], at(i64::try_from(step).unwrap()));
                tasks::insert(conn, &new)?;
                self.waiting.entry(who).or_default().push(new);
            }
            2 | 3 => self.claim(conn, step)?,
            _ if self.held.is_empty() => {}
            _ => {
                let ended = self.draw(self.held.len());
                end(conn, &self.held.remove(ended))?;
            }
        }
        Ok(())
    }

    fn claim(&mut self, conn: &mut Conn<'_>, step: usize) -> Result<(), StoreError> {
        let claimed = tasks::claim(conn, "w", MODELS, at(1000))?;
        let holds = |who: usize| {
            let of = self.held.iter();
            of.filter(|task| task.account == self.owners[who].0).count()
        };
        let turn = |who: &usize| (holds(*who), self.last_turn.get(who).copied());
        let who = self.waiting.keys().copied().min_by_key(|who| {
            let first = self.waiting[who][0].created_at;
            (turn(who), first)
        });
        assert_eq!(
            claimed.as_ref().map(|task| task.id),
            who.map(|who| self.waiting[&who][0].id),
            "step {step}"
        );
        if let (Some(who), Some(task)) = (who, claimed) {
            let of = self.waiting.get_mut(&who).unwrap();
            of.remove(0);
            if of.is_empty() {
                self.waiting.remove(&who);
            }
            self.last_turn.insert(who, step);
            self.held.push(task);
        }
        Ok(())
    }
}

async fn no_account_is_passed_by_one_that_holds_more(db: Fixture) {
    let owners = db.write(|conn| accounts(conn, &[0, 0, 0, 0], |_| {})).await;
    let mut walk = Walk {
        owners,
        waiting: BTreeMap::new(),
        held: Vec::new(),
        last_turn: HashMap::new(),
        dice: 7,
    };
    // A transaction has five seconds, on a busy machine, too.
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

/// Claims at most so many of the model; how many each account got.
fn claim(conn: &mut Conn<'_>, owners: &[Owner], most: u32) -> Result<Vec<usize>, StoreError> {
    let rooms = [("film".to_owned(), most)];
    let queue = queue(&["film"]);
    tasks::enter_queue(conn, &queue);
    let claimed = tasks::claim_in_turn(conn, "w", &queue, &rooms, u32::MAX, at(100))?;
    let mut counts = vec![0; owners.len()];
    for task in &claimed {
        counts[whose(owners, task)] += 1;
    }
    Ok(counts)
}

fn hosted(task: &mut Task) {
    (task.provider, task.model) = ("acme".into(), "film".into());
}

async fn places_at_a_provider_are_shared_out(db: Fixture) {
    let (first, second, third) = db
        .write(|conn| {
            let owners = accounts(conn, &[40, 1, 3], hosted)?;
            let first = claim(conn, &owners, 5)?;
            let second = claim(conn, &owners, 3)?;
            Ok((first, second, claim(conn, &owners, 100)?))
        })
        .await;
    assert_eq!(first, [2, 1, 2]);
    // The last one of the third account; what the others leave is the first's.
    assert_eq!(second, [2, 0, 1]);
    assert_eq!(third, [36, 0, 0]);
}

async fn what_was_refused_waits_for_its_turn_and_what_was_sent_does_not(db: Fixture) {
    let (waiting, sent) = db
        .write(|conn| {
            let owners = accounts(conn, &[3, 1], hosted)?;
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
            let about = tasks::count_unsent(conn, &queue(&["film"]))?;
            assert!(about.is_empty(), "{about:?}");
            let waiting = [claim(conn, &owners, 1)?, claim(conn, &owners, 9)?];
            let about = tasks::count_unsent(conn, &queue(&["film"]))?;
            assert_eq!(about.get("film"), Some(&3));
            Ok((waiting, whose(&owners, &sent[0])))
        })
        .await;
    assert_eq!(sent, 0, "its place is the first account's");
    assert_eq!(waiting, [[0, 1], [2, 0]], "so the next one is not");
}

async fn models_of_one_queue_share_its_places(db: Fixture) {
    let claimed = db
        .write(|conn| {
            let many = accounts(conn, &[9], hosted)?;
            let few = accounts(conn, &[2], |task| {
                hosted(task);
                task.model = "zulu".into();
            })?;
            let rooms = [("film".to_owned(), 9), ("zulu".to_owned(), 1)];
            let queue = queue(&["film", "zulu"]);
            tasks::enter_queue(conn, &queue);
            let mut claimed = Vec::new();
            for places in [2, 2] {
                claimed.push(tasks::claim_in_turn(
                    conn,
                    "w",
                    &queue,
                    &rooms,
                    places,
                    at(100),
                )?);
            }
            let owners = [many[0], few[0]];
            let whose = |tasks: &Vec<Task>| {
                let mut whose: Vec<_> = tasks.iter().map(|task| whose(&owners, task)).collect();
                whose.sort_unstable();
                whose
            };
            Ok(claimed.iter().map(whose).collect::<Vec<_>>())
        })
        .await;
    assert_eq!(claimed, [[0, 1], [0, 1]]);
}

async fn what_waits_for_the_operator_has_no_place(db: Fixture) {
    db.write(|conn| {
        let before = accounts(conn, &[3], hosted)?;
        workers::register(conn, restored::HOLDER, at(1_000_000))?;
        let state = TaskState::Queued;
        let waits = tasks::claim_upstream(conn, restored::HOLDER, "film", state, 9, at(100))?;
        assert_eq!(waits.len(), 3);
        let about = tasks::count_unsent(conn, &queue(&["film"]))?;
        assert!(about.is_empty(), "{about:?}");
        // The account is not behind another for them.
        for (owner, due) in [(before[0], 10), (owner(conn)?, 11)] {
            let mut new = task(owner, at(due));
            hosted(&mut new);
            tasks::insert(conn, &new)?;
        }
        assert_eq!(claim(conn, &before, 1)?, [1]);
        Ok(())
    })
    .await;
}
