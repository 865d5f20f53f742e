//! The operator's costs of jobs at providers, as far as they are known: the amount in dollars that
//! the provider reports, otherwise the cost that the operator configured for the route.
//!
//! A cost is recorded in the transaction that closes the submission, so that each job counts once.
//! A job without a result costs what the provider reports; if it reports nothing, the cost is
//! counted as unknown and never guessed.

use providers::ProviderCost;

use crate::pricing::{self, DeliveredQuantity};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_model::submission::{ClosedSubmission, SubmissionState, classify_job_cost};
use mediagate_model::task::Task;
use mediagate_store::{self as store, Conn};

/// Records the cost of a job whose submission has just been closed. `cost` is the one that the
/// provider reported at the end, `delivered` what it made; `None` if nothing.
pub fn record_job_cost(
    conn: &mut Conn<'_>,
    task: &Task,
    closed: ClosedSubmission,
    cost: Option<ProviderCost>,
    delivered: Option<DeliveredQuantity>,
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
    let route = (closed.provider.as_str(), closed.route_model.as_str());
    let configured = delivered.and_then(|made| pricing::provider_cost(task, route, made));
    let job = classify_job_cost(reported, configured, delivered.is_some());
    store::hourly_sums::add_job(conn, task, &closed.provider, job, now)?;
    store::attributed_sums::add_job(conn, task, &closed.provider, job, now)?;
    Ok(())
}
