//! A model of one thing that a caller wants, and every way in which it can go:
//! the durable steps in their order, with a crash, a process that stands still, a
//! held-up message, a lost answer, a hang-up, a restored backup or changed settings
//! between any two of them. A look and a write are two steps unless a lock joins them. All reachable
//! states are looked at.
//!
//! ```text
//! state       what is on disk, what is in memory, what the provider has
//! steps       who can do what next
//! world       what a step changes
//! properties  what must hold in every state
//! ```
//!
//! The model has teeth: with any one safeguard taken out, it finds a way to pay
//! twice or never.

mod properties;
mod state;
mod steps;
mod world;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Instant;

use stateright::{Checker as _, HasDiscoveries, Model as _};

use state::{Rules, Safeguard, State};

/// Every kind of provider, and every policy of cancelling that makes a difference.
fn kinds() -> Vec<Rules> {
    let providers = [(false, false), (true, false), (false, true)];
    let policies = [(false, false), (true, false), (true, true)];
    let mut all = Vec::new();
    for (deduplicates, looks_up) in providers {
        for (charges, cancels) in policies {
            all.push(Rules {
                deduplicates,
                looks_up,
                cancels,
                charges,
                ..Rules::default()
            });
        }
    }
    all
}

/// The database is restored once, under whatever provider.
fn restored() -> Vec<Rules> {
    let mut all = kinds();
    for rules in &mut all {
        (rules.tries, rules.routes, rules.restores) = (1, 1, 1);
        (rules.crashes, rules.stalls) = (0, 0);
    }
    all
}

/// The operator changes the provider's address, under whatever provider.
fn moved() -> Vec<Rules> {
    let mut all = kinds();
    for rules in &mut all {
        (rules.routes, rules.moves) = (1, 1);
        (rules.crashes, rules.stalls, rules.cancellations) = (1, 0, 0);
    }
    all
}

/// How much may happen: together all of it would take minutes.
fn small(rules: &Rules) -> Vec<Rules> {
    let one_task = Rules {
        tries: 1,
        ..rules.clone()
    };
    let chain = Rules {
        tries: 3,
        stalls: 0,
        routes: 1,
        ..rules.clone()
    };
    let both = Rules {
        crashes: 1,
        cancellations: 0,
        routes: 1,
        ..rules.clone()
    };
    vec![one_task, chain, both]
}

fn explore(all: impl IntoIterator<Item = Rules>) {
    let began = Instant::now();
    let mut states = 0;
    for rules in all {
        let checker = rules.checker().threads(2).spawn_bfs().join();
        states += checker.unique_state_count();
        checker.assert_properties();
    }
    println!("{states} states in {:?}", began.elapsed());
}

#[test]
fn nobody_pays_twice_in_any_reachable_state() {
    explore(kinds().iter().flat_map(small));
}

#[test]
fn nobody_pays_twice_after_a_restored_backup() {
    explore(restored());
    for rules in restored() {
        let lost = dead_ends(&rules).1;
        assert!(lost.is_empty(), "{rules:?}: {:#?}", lost.first());
    }
}

#[test]
fn nobody_pays_twice_while_settings_change() {
    explore(moved());
    for rules in moved() {
        let lost = dead_ends(&rules).1;
        assert!(lost.is_empty(), "{rules:?}: {:#?}", lost.first());
    }
}

#[test]
#[ignore = "takes minutes: everything that may happen, together"]
fn nobody_pays_twice_in_many_more_states() {
    explore(kinds().into_iter().map(|rules| Rules { tries: 3, ..rules }));
}

#[test]
fn every_state_leads_to_an_end() {
    let mut states = 0;
    for rules in kinds() {
        let rules = Rules {
            crashes: 1,
            stalls: 0,
            routes: 1,
            ..rules
        };
        let (reached, lost) = dead_ends(&rules);
        states += reached;
        let first = lost.first();
        assert!(
            lost.is_empty(),
            "{rules:?}: {} dead ends: {first:#?}",
            lost.len()
        );
    }
    println!("{states} states");
}

/// How many states there are, and those from which no end can be reached.
fn dead_ends(rules: &Rules) -> (usize, Vec<State>) {
    let mut known: HashMap<State, usize> = HashMap::new();
    let mut before: Vec<Vec<usize>> = Vec::new();
    let mut ends = VecDeque::new();
    let mut waiting: VecDeque<State> = rules.init_states().into();
    for state in &waiting {
        known.insert(state.clone(), before.len());
        before.push(Vec::new());
    }
    while let Some(state) = waiting.pop_front() {
        let number = known[&state];
        if state.is_over() {
            ends.push_back(number);
        }
        for next in rules.next_states(&state) {
            let index = *known.entry(next).or_insert_with_key(|next| {
                waiting.push_back(next.clone());
                before.push(Vec::new());
                before.len() - 1
            });
            before[index].push(number);
        }
    }
    let mut leads: HashSet<usize> = ends.iter().copied().collect();
    while let Some(number) = ends.pop_front() {
        for earlier in &before[number] {
            if leads.insert(*earlier) {
                ends.push_back(*earlier);
            }
        }
    }
    let count = known.len();
    let lost = known
        .into_iter()
        .filter(|(_, number)| !leads.contains(number));
    (count, lost.map(|(state, _)| state).collect())
}

/// With these safeguards taken out, this comes to light.
#[track_caller]
fn needs(safeguards: &'static [Safeguard], mut rules: Rules, property: &'static str) {
    rules.without = safeguards;
    let enough = HasDiscoveries::AllOf(std::iter::once(property).collect());
    let checker = rules.checker().threads(2).finish_when(enough);
    checker.spawn_bfs().join().assert_any_discovery(property);
}

#[test]
fn a_refusal_is_written_only_by_the_holder() {
    let rules = Rules {
        deduplicates: true,
        ..Rules::default()
    };
    needs(
        &[Safeguard::RefusalByHolder],
        rules,
        "one job for each task",
    );
}

#[test]
fn a_submission_is_repeated_only_by_the_holder() {
    let rules = Rules {
        deduplicates: true,
        ..Rules::default()
    };
    needs(
        &[Safeguard::RepetitionByHolder, Safeguard::Fence],
        rules,
        "one job for each task",
    );
}

#[test]
fn what_cannot_be_found_is_not_sent_again() {
    let rules = Rules {
        looks_up: true,
        ..Rules::default()
    };
    needs(
        &[Safeguard::NotFoundIsUnclear],
        rules,
        "one job for each task",
    );
}

#[test]
fn what_may_have_been_sent_is_not_sent_again() {
    needs(
        &[Safeguard::IntendedIsUnclear],
        Rules::default(),
        "one job for each task",
    );
}

#[test]
fn an_end_is_written_only_by_the_holder_of_an_open_task() {
    needs(&[Safeguard::EndOnce], Rules::default(), "money moves once");
}

#[test]
fn the_intent_is_on_disk_before_the_request_leaves() {
    needs(
        &[Safeguard::IntentFirst],
        Rules::default(),
        "one job for each task",
    );
}

#[test]
fn a_repetition_is_led_to_the_task_that_exists() {
    let rules = Rules {
        crashes: 0,
        stalls: 0,
        ..Rules::default()
    };
    needs(&[Safeguard::Join], rules, "one task is paid for");
}

#[test]
fn money_is_moved_with_the_state() {
    needs(
        &[Safeguard::MoneyWithState],
        Rules::default(),
        "closed with the end",
    );
}

#[test]
fn a_cancelled_task_that_is_charged_is_followed_to_its_end() {
    let rules = Rules {
        charges: true,
        without: &[Safeguard::FollowCancelled],
        tries: 1,
        ..Rules::default()
    };
    assert!(!dead_ends(&rules).1.is_empty());
}

#[test]
fn an_intent_is_written_under_the_lock_that_it_was_decided_under() {
    let property = "one submission that may have been taken";
    needs(&[Safeguard::RowLock], Rules::default(), property);
    // What leaves then is a second paid job.
    let rules = Rules {
        stalls: 2,
        ..Rules::default()
    };
    let both = &[Safeguard::RowLock, Safeguard::Fence];
    needs(both, rules, "one job for each task");
}

#[test]
fn who_stood_still_for_too_long_sends_nothing() {
    let property = "nothing leaves for a task that has failed";
    needs(&[Safeguard::Fence], Rules::default(), property);
}

#[test]
fn an_acceptance_that_comes_too_late_is_told_of() {
    let property = "a job that nobody follows is told of";
    needs(&[Safeguard::GuardedAccept], Rules::default(), property);
}

#[test]
fn a_submission_is_sent_again_only_where_it_was_made() {
    let rules = Rules {
        deduplicates: true,
        moves: 1,
        ..Rules::default()
    };
    needs(&[Safeguard::SamePlace], rules, "one job for each task");
}

#[test]
fn a_job_is_asked_for_only_where_it_was_made() {
    let rules = Rules {
        moves: 1,
        crashes: 0,
        stalls: 0,
        ..Rules::default()
    };
    needs(
        &[Safeguard::SamePlace],
        rules,
        "what was made is not said to have failed",
    );
}

#[test]
fn open_tasks_of_a_restored_database_wait() {
    let rules = restored().swap_remove(0);
    needs(&[Safeguard::HoldRestored], rules, "one job for each task");
}
