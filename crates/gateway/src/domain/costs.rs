//! What jobs at providers cost the operator, as far as anybody knows: what the provider itself says in
//! dollars, else what the operator declares for the route.
//!
//! Noted in the transaction that closes the submission, so that each job counts once. A job that
//! made nothing costs what the provider says; one of which it says nothing is counted as unknown,
//! and never guessed.

use providers::{Cost, Unit};

use crate::clock::Timestamp;
use crate::error::Error;
use crate::model::money::Micros;
use crate::model::price::Quantity;
use crate::model::submission::{Closed, JobCost, SubmissionState};
use crate::model::task::Task;
use crate::store::{self, Conn};

/// A submission has just been closed. `cost` is what the provider said at the end, `made` how much it
/// made; `None` if nothing.
pub fn job_is_over(
    conn: &mut Conn<'_>,
    task: &Task,
    closed: Closed,
    cost: Option<Cost>,
    made: Option<Quantity>,
    now: Timestamp,
) -> Result<(), Error> {
    if closed.state == SubmissionState::Refused {
        return Ok(());
    }
    let told = cost
        .map(|cost| (cost.millionths, cost.unit.name().to_owned()))
        .or(closed.told);
    let declared = task
        .tariff
        .as_ref()
        .and_then(|tariff| tariff.cost_by(&closed.provider, &closed.route_model));
    let declared = made.zip(declared).map(|(made, price)| price.of(made));
    let job = judge(told, declared, made.is_some());
    store::hours::add_job(conn, task, &closed.provider, job, now)?;
    Ok(())
}

fn judge(told: Option<(i64, String)>, declared: Option<Micros>, is_made: bool) -> JobCost {
    // Nothing is nothing in every unit.
    let told = told.filter(|(amount, unit)| unit == Unit::Usd.name() || *amount == 0);
    // A millionth of a dollar is a micro-dollar.
    let told = told.map(|(amount, _)| Micros::new(amount));
    match (told, declared) {
        (Some(cost), _) if is_made => JobCost::Made(cost),
        (Some(cost), _) => JobCost::Wasted(cost),
        (None, Some(cost)) => JobCost::Made(cost),
        (None, None) => JobCost::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_providers_own_dollars_count_before_what_is_declared() {
        let usd = |millionths| Some((millionths, "usd".to_owned()));
        let credits = |millionths| Some((millionths, "credits".to_owned()));
        let declared = Some(Micros::new(7));
        for (told, declared, is_made, expected) in [
            (usd(5), declared, true, JobCost::Made(Micros::new(5))),
            (credits(5), declared, true, JobCost::Made(Micros::new(7))),
            (None, declared, true, JobCost::Made(Micros::new(7))),
            (credits(5), None, true, JobCost::Unknown),
            (usd(5), None, false, JobCost::Wasted(Micros::new(5))),
            (credits(0), None, false, JobCost::Wasted(Micros::ZERO)),
            (credits(5), None, false, JobCost::Unknown),
            (None, None, false, JobCost::Unknown),
        ] {
            assert_eq!(judge(told, declared, is_made), expected);
        }
    }
}
