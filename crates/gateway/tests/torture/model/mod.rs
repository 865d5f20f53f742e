//! A model of one intent of a caller, and every course that it can take:
//! the durable steps in their order, with a crash, a process that is stopped, a
//! held-up message, a lost answer, a disconnect, a restored backup or changed settings
//! between any two of them. A read and a write are two steps unless a lock joins them. All
//! reachable states are checked.
//!
//! ```text
//! equal_orders  a model of its own: two orders at once that look the same
//! state       what is on disk, what is in memory, what the provider has
//! steps       who can do what next
//! world       what a step changes
//! properties  what must hold in every state
//! ```
//!
//! Every safeguard matters: without any one of them the model finds a way to pay
//! twice or never.

mod equal_orders;
mod properties;
mod state;
mod steps;
mod world;

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Instant;

use stateright::{Checker as _, HasDiscoveries, Model as _};

use state::{Rules, Safeguard, State};

/// Every kind of provider, and every policy of cancelling that makes a difference.
fn provider_rules() -> Vec<Rules> {
    let providers = [(false, false), (true, false), (false, true)];
    let policies = [(false, false), (true, false), (true, true)];
    let mut rules = Vec::new();
    for (deduplicates, looks_up) in providers {
        for (charges, cancels) in policies {
            rules.push(Rules {
                deduplicates,
                looks_up,
                cancels,
                charges,
                ..Rules::default()
            });
        }
    }
    rules
}

/// The database is restored once, with each kind of provider.
fn restore_rules() -> Vec<Rules> {
    let mut variants = provider_rules();
    for rules in &mut variants {
        (rules.tries, rules.routes, rules.restores) = (1, 2, 1);
        (rules.crashes, rules.stalls) = (0, 0);
    }
    variants
}

/// The operator changes the provider's address, with each kind of provider.
fn move_rules() -> Vec<Rules> {
    let mut variants = provider_rules();
    for rules in &mut variants {
        (rules.routes, rules.moves) = (1, 1);
        (rules.crashes, rules.stalls, rules.cancellations) = (1, 0, 0);
    }
    variants
}

/// Limits on what may happen: all of it together would take minutes.
fn bounded_rules(rules: &Rules) -> Vec<Rules> {
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
    let two_attempts = Rules {
        crashes: 1,
        cancellations: 0,
        routes: 1,
        ..rules.clone()
    };
    vec![one_task, chain, two_attempts]
}

fn explore(variants: impl IntoIterator<Item = Rules>) {
    let started = Instant::now();
    let mut states = 0;
    for rules in variants {
        let checker = rules.checker().threads(2).spawn_bfs().join();
        states += checker.unique_state_count();
        checker.assert_properties();
    }
    println!("{states} states in {:?}", started.elapsed());
}

#[test]
fn nobody_pays_twice_in_any_reachable_state() {
    explore(provider_rules().iter().flat_map(bounded_rules));
}

#[test]
fn nobody_pays_twice_after_a_restored_backup() {
    explore(restore_rules());
    for rules in restore_rules() {
        let lost = dead_ends(&rules).1;
        assert!(lost.is_empty(), "{rules:?}: {:#?}", lost.first());
    }
}

#[test]
fn nobody_pays_twice_while_settings_change() {
    explore(move_rules());
    for rules in move_rules() {
        let lost = dead_ends(&rules).1;
        assert!(lost.is_empty(), "{rules:?}: {:#?}", lost.first());
    }
}

#[test]
#[ignore = "takes minutes: everything that may happen, together"]
fn nobody_pays_twice_in_many_more_states() {
    explore(
        provider_rules()
            .into_iter()
            .map(|rules| Rules { tries: 3, ..rules }),
    );
}

#[test]
fn every_state_has_a_path_to_an_end() {
    let mut states = 0;
    for rules in provider_rules() {
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
    let mut indices: HashMap<State, usize> = HashMap::new();
    let mut predecessors: Vec<Vec<usize>> = Vec::new();
    let mut final_states = VecDeque::new();
    let mut pending: VecDeque<State> = rules.init_states().into();
    for state in &pending {
        indices.insert(state.clone(), predecessors.len());
        predecessors.push(Vec::new());
    }
    while let Some(state) = pending.pop_front() {
        let number = indices[&state];
        if state.is_over() {
            final_states.push_back(number);
        }
        for next in rules.next_states(&state) {
            let index = *indices.entry(next).or_insert_with_key(|next| {
                pending.push_back(next.clone());
                predecessors.push(Vec::new());
                predecessors.len() - 1
            });
            predecessors[index].push(number);
        }
    }
    let mut can_end: HashSet<usize> = final_states.iter().copied().collect();
    while let Some(number) = final_states.pop_front() {
        for predecessor in &predecessors[number] {
            if can_end.insert(*predecessor) {
                final_states.push_back(*predecessor);
            }
        }
    }
    let count = indices.len();
    let dead = indices
        .into_iter()
        .filter(|(_, number)| !can_end.contains(number));
    (count, dead.map(|(state, _)| state).collect())
}

/// Asserts that this property is violated without these safeguards.
#[track_caller]
fn assert_needed(safeguards: &'static [Safeguard], mut rules: Rules, property: &'static str) {
    rules.without = safeguards;
    let condition = HasDiscoveries::AllOf(std::iter::once(property).collect());
    let checker = rules.checker().threads(2).finish_when(condition);
    checker.spawn_bfs().join().assert_any_discovery(property);
}

#[test]
fn a_refusal_is_written_only_by_the_holder() {
    let rules = Rules {
        deduplicates: true,
        ..Rules::default()
    };
    assert_needed(
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
    assert_needed(
        &[Safeguard::RepetitionByHolder, Safeguard::Fence],
        rules,
        "one job for each task",
    );
}

#[test]
fn a_submission_that_is_not_found_is_not_sent_again() {
    let rules = Rules {
        looks_up: true,
        ..Rules::default()
    };
    assert_needed(
        &[Safeguard::NotFoundIsUnclear],
        rules,
        "one job for each task",
    );
}

#[test]
fn a_submission_that_may_have_been_sent_is_not_sent_again() {
    assert_needed(
        &[Safeguard::IntendedIsUnclear],
        Rules::default(),
        "one job for each task",
    );
}

#[test]
fn an_end_is_written_only_by_the_holder_of_an_open_task() {
    assert_needed(&[Safeguard::EndOnce], Rules::default(), "money moves once");
}

#[test]
fn the_intent_is_on_disk_before_the_request_leaves() {
    assert_needed(
        &[Safeguard::IntentFirst],
        Rules::default(),
        "one job for each task",
    );
}

#[test]
fn a_repetition_joins_the_existing_task() {
    let rules = Rules {
        crashes: 0,
        stalls: 0,
        ..Rules::default()
    };
    assert_needed(&[Safeguard::Join], rules, "one task is paid for");
}

#[test]
fn money_is_moved_with_the_state() {
    assert_needed(
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
    let property = "one submission that may have been accepted";
    assert_needed(&[Safeguard::RowLock], Rules::default(), property);
    // Without the fence too, a second paid job is sent.
    let rules = Rules {
        stalls: 2,
        ..Rules::default()
    };
    let both = &[Safeguard::RowLock, Safeguard::Fence];
    assert_needed(both, rules, "one job for each task");
}

#[test]
fn a_process_that_was_stopped_too_long_sends_nothing() {
    let property = "nothing is sent for a task that has failed";
    assert_needed(&[Safeguard::Fence], Rules::default(), property);
}

#[test]
fn an_acceptance_that_comes_too_late_is_reported() {
    let property = "an abandoned job is reported";
    assert_needed(&[Safeguard::GuardedAccept], Rules::default(), property);
}

#[test]
fn a_submission_is_sent_again_only_where_it_was_made() {
    let rules = Rules {
        deduplicates: true,
        moves: 1,
        ..Rules::default()
    };
    assert_needed(&[Safeguard::SameAddress], rules, "one job for each task");
}

#[test]
fn a_job_is_asked_for_only_where_it_was_made() {
    let rules = Rules {
        moves: 1,
        crashes: 0,
        stalls: 0,
        ..Rules::default()
    };
    assert_needed(
        &[Safeguard::SameAddress],
        rules,
        "a made result is not reported as failed",
    );
}

#[test]
fn open_tasks_of_a_restored_database_wait() {
    for safeguard in [&[Safeguard::HoldRestored], &[Safeguard::HoldInterrupted]] {
        // A provider that deduplicates is sent the same order again.
        let mut variants = restore_rules().into_iter();
        let rules = variants.find(|rules| rules.deduplicates).unwrap();
        assert_needed(safeguard, rules, "one job for each task");
    }
}
