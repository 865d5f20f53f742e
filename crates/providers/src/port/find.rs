//! Search for the job of a submission whose answer was lost.
//!
//! The question is which of the provider's jobs belongs to our order: others may have placed an
//! equal order, even with the same account. [`MatchCertainty`] says how certain a match is. Finding
//! none proves nothing: lists may lag behind, end early or be incomplete, and the job may be found
//! later.

use std::time::{Duration, SystemTime};

use super::call::Call;
use super::step::JobHandle;

/// How far the provider's clock may be behind.
pub const SKEW: Duration = Duration::from_mins(1);

/// How certain a match is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchCertainty {
    /// The job contains [`Order::idempotency_key`](crate::Order::idempotency_key), which is unique.
    Certain,
    /// The content is the same, as far as the job contains it, at least the prompt and the model,
    /// and the time matches. It may be the job of another submission of the same order, or of
    /// another user of the account.
    Likely,
}

/// A job that may be the order's.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundJob {
    /// The handle that the submission's answer would have given.
    pub handle: JobHandle,
    /// When the provider accepted it, by its own clock, if known.
    pub created_at: Option<SystemTime>,
    /// How certain the match is.
    pub identity: MatchCertainty,
}

/// The contents of the answer to a look-up.
#[derive(Debug, Clone, Default)]
pub struct LookupPage {
    /// The jobs in this answer that may be the order's, in any order.
    pub jobs: Vec<FoundJob>,
    /// The call for the next page; `None` if this was the last, or if no later one can contain the
    /// job.
    pub next: Option<Box<Call>>,
}

impl LookupPage {
    /// A page with these jobs, and no further page.
    pub fn jobs(jobs: impl IntoIterator<Item = FoundJob>) -> Self {
        Self {
            jobs: jobs.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Adds the call for the next page, if there is one.
    #[must_use]
    pub fn with_next_page(mut self, next: Option<Call>) -> Self {
        self.next = next.map(Box::new);
        self
    }
}

impl FoundJob {
    /// A job with the order's key; its age does not matter.
    pub const fn certain(handle: JobHandle, created_at: Option<SystemTime>) -> Self {
        Self {
            handle,
            created_at,
            identity: MatchCertainty::Certain,
        }
    }

    /// A job of the same content, unless it is older than the submission.
    pub fn likely(
        handle: JobHandle,
        created_at: Option<SystemTime>,
        since: SystemTime,
    ) -> Option<Self> {
        (!is_older(created_at, since)).then_some(Self {
            handle,
            created_at,
            identity: MatchCertainty::Likely,
        })
    }
}

/// Whether a job is provably older than a submission, with [`SKEW`].
pub fn is_older(created_at: Option<SystemTime>, since: SystemTime) -> bool {
    let earliest = since.checked_sub(SKEW);
    created_at
        .zip(earliest)
        .is_some_and(|(created_at, earliest)| created_at < earliest)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_older_than_the_submission_is_not_its_job() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let since = at(1_000);
        let likely =
            |created_at| FoundJob::likely(JobHandle(json!(1)), created_at, since).is_some();
        assert!(likely(Some(at(1_001))) && likely(Some(at(940))) && likely(None));
        assert!(!likely(Some(at(939))));
        let certain = FoundJob::certain(JobHandle(json!(1)), Some(at(1)));
        assert_eq!(certain.identity, MatchCertainty::Certain);
        assert!(!is_older(Some(UNIX_EPOCH), UNIX_EPOCH));
    }
}
