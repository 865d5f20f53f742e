//! The scenarios that every protocol goes through.
//!
//! All of them check that **the paid submission is sent once**, whatever happens; that a definite
//! rejection is distinguished from an unknown outcome; that free calls are retried; and that
//! delivered results are complete.
//!
//! Protocols that answer a submission with the result have no jobs, so the scenarios about jobs
//! skip them.

mod lost;
mod odd;
pub(crate) mod orders;
mod scenarios;
mod stage;

use std::future::Future;
use std::sync::Arc;

use providers::{Order, StemTarget};
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use stage::Stage;
pub(crate) use stage::provider;

/// An adapter with an order, and the expected result.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// The displayed name; begins with the protocol, or with `recipe/` and the recipe's provider.
    pub(crate) name: &'static str,
    pub(crate) protocol: &'static str,
    /// The protocol's own options.
    pub(crate) options: Value,
    /// The order's model, for its limits.
    pub(crate) model: &'static str,
    pub(crate) secret: &'static str,
    pub(crate) order: Order,
    pub(crate) makes: Makes,
    /// Whether jobs can be cancelled.
    pub(crate) cancels: bool,
}

impl Case {
    /// The name of the simulated provider.
    pub(crate) fn simulates(&self) -> &'static str {
        let recipe_name = self.name.strip_prefix("recipe/");
        let provider_name = recipe_name.and_then(|name| name.split(':').next());
        provider_name.unwrap_or(self.protocol)
    }
}

/// What an order makes.
#[derive(Debug, Clone)]
pub(crate) enum Makes {
    /// One MP4.
    Video,
    /// A WAV for each of these.
    Stems(Vec<StemTarget>),
    /// This many clips.
    Clips(usize),
    /// A persona.
    Persona,
}

/// A test for each scenario of a module, which runs it for all cases at once.
macro_rules! scenarios {
    ($module:ident: $($scenario:ident)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $scenario() {
            all_cases($module::$scenario).await;
        })*
    };
}

scenarios! { scenarios:
    the_order_is_within_the_limits
    it_is_made

    too_many_requests
    too_many_requests_for_a_second
    a_wrong_key
    a_forbidden_prompt
    nobody_there
    an_error_before_the_order_is_taken
    an_error_after_the_order_is_taken
    no_answer_and_no_order_taken
    no_answer_and_the_order_is_taken
    half_an_answer

    the_job_fails
    the_job_is_refused
    the_order_is_at_fault
    the_job_makes_nothing
    an_unknown_word
    slow_answers
    polls_that_fail
    a_poll_that_knows_no_such_job
    the_job_is_cancelled

    a_result_that_ends_early
    a_result_that_breaks_off
    a_slow_result
    an_expired_result
    a_result_that_lies
}

scenarios! { odd:
    a_503_proves_nothing
    a_job_that_a_refusal_names_is_followed
    one_odd_answer_about_a_job_ends_nothing
}

scenarios! { lost:
    only_some_providers_can_look_up_a_lost_job
    a_lost_job_is_found_and_finished
    a_look_up_that_fails_is_repeated
    an_order_that_never_arrived_is_not_found
    jobs_of_equal_orders_are_distinguished_or_all_returned
    the_job_of_another_order_is_not_mistaken
    what_is_older_than_the_order_is_not_its_job
    a_lost_job_is_found_behind_many_others
}

/// Cases of a scenario that run at once. Each of them would be slow if all did.
const CONCURRENT_CASES: usize = 12;

/// Runs a scenario for every case (or those that `CASE` selects), each on its own stage, and
/// reports which failed.
async fn all_cases<F>(scenario: fn(Stage) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let filter = std::env::var("CASE").unwrap_or_default();
    let turns = Arc::new(Semaphore::new(CONCURRENT_CASES));
    let mut running = JoinSet::new();
    let mut names = Vec::new();
    for case in crate::cases() {
        if case.name.contains(&filter) {
            let name = case.name;
            let turns = Arc::clone(&turns);
            let handle = running.spawn(async move {
                let _turn = turns.acquire().await.unwrap();
                scenario(Stage::new(case).await).await;
            });
            names.push((handle.id(), name));
        }
    }
    let mut failed = Vec::new();
    while let Some(result) = running.join_next().await {
        if let Err(error) = result {
            let name = names.iter().find(|(id, _)| *id == error.id());
            let panic = error.into_panic();
            let panic_message = panic.downcast_ref::<String>().cloned();
            let panic_message =
                panic_message.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.into()));
            let panic_message = panic_message.unwrap_or_default();
            failed.push(format!(
                "{}\n    {panic_message}",
                name.map_or("?", |(_, name)| name)
            ));
        }
    }
    assert!(failed.is_empty(), "failed:\n{}", failed.join("\n"));
}
