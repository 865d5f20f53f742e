//! The operator's costs of jobs at providers, as far as anybody knows: what the provider itself says in
//! dollars, else what the operator declares for the route.
//!
//! Noted in the transaction that closes the submission, so that each job counts once. A job that
//! made nothing costs what the provider says; one of which it says nothing is counted as unknown,
//! and never guessed.

use providers::ProviderCost;

use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_model::price::WorkQuantity;
use mediagate_model::submission::{ClosedSubmission, SubmissionState, classify_job_cost};
use mediagate_model::task::Task;
use mediagate_store::{self as store, Conn};

/// A submission has just been closed. `cost` is what the provider said at the end, `made` how much it
/// made; `None` if nothing.
pub fn record_job_cost(
    conn: &mut Conn<'_>,
    task: &Task,
    closed: ClosedSubmission,
    cost: Option<ProviderCost>,
    made: Option<WorkQuantity>,
    now: Timestamp,
) -> Result<(), Error> {
    // The provider took nothing, so there is no job.
    if closed.state == SubmissionState::Refused {
        return Ok(());
    }
    // What the provider says at the end replaces what it said earlier.
    let told = cost
        .map(|cost| (cost.millionths, cost.unit.name().to_owned()))
        .or(closed.reported_cost);
    // By the task's own tariff: the cost that was valid when the order was accepted.
    let declared = task
        .tariff
        .as_ref()
        .and_then(|tariff| tariff.cost_by(&closed.provider, &closed.route_model));
    // A route's cost is for what was made. What a failed job costs, only the provider knows.
    let declared = made.zip(declared).map(|(made, price)| price.cost_of(made));
    let job = classify_job_cost(told, declared, made.is_some());
    store::hourly_sums::add_job(conn, task, &closed.provider, job, now)?;
    Ok(())
}
