//! The operator's costs of jobs at providers, as far as they are known: the amount in dollars that
//! the provider reports, otherwise the cost that the operator configured for the route.
//!
//! A cost is recorded in the transaction that closes the submission, so that each job counts once.
//! A job without a result costs what the provider reports; if it reports nothing, the cost is
//! counted as unknown and never guessed.

use providers::ProviderCost;

use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_model::price::WorkQuantity;
use mediagate_model::submission::{ClosedSubmission, SubmissionState, classify_job_cost};
use mediagate_model::task::Task;
use mediagate_store::{self as store, Conn};

/// Records the cost of a job whose submission has just been closed. `cost` is the one that the
/// provider reported at the end, `quantity` what it made; `None` if nothing.
pub fn record_job_cost(
    conn: &mut Conn<'_>,
    task: &Task,
    closed: ClosedSubmission,
    cost: Option<ProviderCost>,
    quantity: Option<WorkQuantity>,
    now: Timestamp,
) -> Result<(), Error> {
    // The provider accepted nothing, so there is no job.
    if closed.state == SubmissionState::Refused {
        return Ok(());
    }
    // The cost reported at the end replaces one reported earlier.
    let reported = cost
        .map(|cost| (cost.millionths, cost.unit.name().to_owned()))
        .or(closed.reported_cost);
    // By the task's own tariff: the cost that was valid when the order was accepted.
    let configured = task
        .tariff
        .as_ref()
        .and_then(|tariff| tariff.cost_by(&closed.provider, &closed.route_model));
    // A route's cost applies to results. Only the provider knows the cost of a failed job.
    let configured = quantity
        .zip(configured)
        .map(|(quantity, price)| price.cost_of(quantity));
    let job = classify_job_cost(reported, configured, quantity.is_some());
    store::hourly_sums::add_job(conn, task, &closed.provider, job, now)?;
    Ok(())
}
