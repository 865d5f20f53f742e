//! Submissions: requests to a provider for a task, and their outcomes, as far as they are known.

use orders::{CostUnit, JobHandle};
use serde_json::Value;

use crate::clock::Timestamp;
use crate::ids::{SubmissionId, TaskId};
use crate::money::MicroDollars;
use crate::task::TaskState;

/// The state of a submission. These sets of states have names:
///
/// * *open* ([`Self::is_open`]): `intended` and `accepted`. The provider has or may have a running
///   job;
/// * *undecided*: `intended` and `unclear`. It is not known whether the provider has a job;
/// * *unconfirmed* ([`SubmissionFilter::Unconfirmed`]): `unclear` and `found`, until an operator
///   resolves it. The outcome was not known when the task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub enum SubmissionState {
    /// On disk, about to be sent or sent; the provider's answer is not on disk yet.
    Intended,
    /// The provider accepted it.
    Accepted,
    /// The provider is known not to have accepted it.
    Refused,
    /// Whether the provider accepted it could not be determined.
    Unclear,
    /// It was unclear when its task ended; a later look-up found the job at the provider.
    Found,
    /// The provider's job is over.
    Ended,
}

impl SubmissionState {
    /// Whether the provider has, or may have, a running job for it.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Intended | Self::Accepted)
    }

    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// Which submissions to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum SubmissionFilter {
    /// `unclear` and `found` submissions that no operator has resolved: whether the provider
    /// accepted them was not known when their tasks ended.
    Unconfirmed,
}

/// A submission as the operator sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct SubmissionRecord {
    pub submission: Submission,
    /// The handle of the account.
    pub account: String,
    pub task_state: TaskState,
    /// The error's class and message.
    pub error: Option<(String, String)>,
    pub resolution: Option<SubmissionResolution>,
}

/// The decision of an operator about an unconfirmed submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmissionResolution {
    pub at: Timestamp,
    /// The reason, in the operator's words.
    pub note: String,
    /// The provider's id of the job, if the operator found one.
    pub job: Option<String>,
}

/// The cost of a job as reported by its provider, for the operator's margin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedCost {
    /// The operator's name for the provider.
    pub provider: String,
    /// In millionths of the unit.
    pub millionths: i64,
    /// The provider's unit, named as in `orders::CostUnit`.
    pub unit: String,
}

/// A submission that has just been closed, with the cost of its job if the provider reported one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedSubmission {
    pub task: TaskId,
    pub state: SubmissionState,
    /// The operator's name for the provider.
    pub provider: String,
    /// The provider's name for the model.
    pub route_model: String,
    /// In millionths of a unit, and the unit.
    pub reported_cost: Option<(i64, String)>,
}

/// What a job cost the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobCost {
    /// The cost of a job with a result.
    Made(MicroDollars),
    /// The provider reported this cost, although the job had no result.
    Wasted(MicroDollars),
    /// It is unknown.
    Unknown,
}

/// The cost of a job: the one `reported` by the provider, in millionths of a unit, or the one that
/// the operator `declared` for the result.
pub fn classify_job_cost(
    reported: Option<(i64, String)>,
    declared: Option<MicroDollars>,
    is_made: bool,
) -> JobCost {
    // Only dollars can be summed up, but zero is zero in every unit.
    let reported = reported.filter(|(amount, unit)| unit == CostUnit::Usd.name() || *amount == 0);
    // Millionths of a dollar are micro-dollars, so nothing is converted.
    let reported = reported.map(|(amount, _)| MicroDollars::new(amount));
    match (reported, declared) {
        (Some(cost), _) if is_made => JobCost::Made(cost),
        (Some(cost), _) => JobCost::Wasted(cost),
        (None, Some(cost)) => JobCost::Made(cost),
        (None, None) => JobCost::Unknown,
    }
}

/// The end of a submission.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SubmissionEnd {
    /// When the provider answered the order.
    pub answered_at: Option<Timestamp>,
    /// When it was closed.
    pub ended_at: Option<Timestamp>,
    /// The class of the error, and the provider's message without secrets.
    pub error: Option<(String, String)>,
}

/// A request that was sent, or was about to be sent, to a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// Also the idempotency key for providers that deduplicate.
    pub id: SubmissionId,
    /// The task it is for.
    pub task: TaskId,
    /// Counts from 1 for each task.
    pub attempt: u32,
    /// The operator's name for the provider.
    pub provider: String,
    /// The provider's name for the model.
    pub route_model: String,
    /// The protocol and the base URL it was made with: `upstream::ProviderSite::endpoint`.
    pub endpoint: String,
    /// Id of the credential it was made with: `upstream::ProviderCredential::id`.
    pub credential: String,
    pub state: SubmissionState,
    /// Identifies the job at the provider.
    pub handle: Option<JobHandle>,
    /// Results contained in the provider's response to the order, if any.
    pub results: Option<Value>,
    pub created_at: Timestamp,
    pub accepted_at: Option<Timestamp>,
    /// `orders::Order::likeness` of the order; `None` also if an earlier version sent it.
    pub likeness: Option<String>,
    /// Whether an idempotency key went out with it; `None` if an earlier version sent it.
    pub has_key: Option<bool>,
    /// Digest of the settings by which its job is asked for: `upstream::ProviderSite::job_settings`;
    /// `None` if an earlier version sent it.
    pub job_settings: Option<String>,
    /// Digest of all settings that shape its request: `upstream::ProviderSite::order_settings`;
    /// `None` if an earlier version sent it.
    pub order_settings: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_providers_own_dollars_count_before_what_is_declared() {
        let usd = |millionths| Some((millionths, "usd".to_owned()));
        let credits = |millionths| Some((millionths, "credits".to_owned()));
        let declared = Some(MicroDollars::new(7));
        for (reported, declared, is_made, expected) in [
            (usd(5), declared, true, JobCost::Made(MicroDollars::new(5))),
            (
                credits(5),
                declared,
                true,
                JobCost::Made(MicroDollars::new(7)),
            ),
            (None, declared, true, JobCost::Made(MicroDollars::new(7))),
            (credits(5), None, true, JobCost::Unknown),
            (usd(5), None, false, JobCost::Wasted(MicroDollars::new(5))),
            (credits(0), None, false, JobCost::Wasted(MicroDollars::ZERO)),
            (credits(5), None, false, JobCost::Unknown),
            (None, None, false, JobCost::Unknown),
        ] {
            assert_eq!(classify_job_cost(reported, declared, is_made), expected);
        }
    }
}
