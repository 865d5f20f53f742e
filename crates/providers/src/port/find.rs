//! Search for the job of a submission whose answer was lost.
//!
//! The question is which of the provider's jobs belongs to our order: others may have placed an
//! equal order, even with the same account. [`MatchCertainty`] says how certain a match is. A match
//! by content needs a list that shows everything that was sent: the job of an order with another
//! picture looks the same. Finding none proves nothing: lists may lag behind, end early or be
//! incomplete, and the job may be found later.

use std::time::{Duration, SystemTime};

use orders::JobHandle;

use super::call::Call;
use crate::order::Order;

/// How far the provider's clock may be behind.
pub const SKEW: Duration = Duration::from_mins(1);

/// How certain a match is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchCertainty {
    /// The job contains [`Order::idempotency_key`](crate::Order::idempotency_key), which is unique.
    Certain,
    /// The job contains everything that was sent, with the same values, and the time matches. It
    /// may be the job of another submission of the same order, or of another user of the account.
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

    /// A job with the content of `order`, unless it is older than the submission, or a list cannot
    /// show all that was sent.
    pub fn likely(
        order: &Order,
        handle: JobHandle,
        created_at: Option<SystemTime>,
        since: SystemTime,
    ) -> Option<Self> {
        (!order.has_inline_files() && !is_older(created_at, since)).then_some(Self {
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
    use crate::adapters::tests::{picture, video};
    use crate::order::{PictureRole, SourcePicture, WorkSpec};

    #[test]
    fn what_is_older_than_the_submission_is_not_its_job() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        let since = at(1_000);
        let mut order = video("film");
        let likely = |order: &Order, created_at| {
            FoundJob::likely(order, JobHandle(json!(1)), created_at, since).is_some()
        };
        assert!(likely(&order, Some(at(1_001))) && likely(&order, Some(at(940))));
        assert!(likely(&order, None) && !likely(&order, Some(at(939))));
        if let WorkSpec::Video(video) = &mut order.work {
            video.pictures.push(SourcePicture {
                role: PictureRole::FirstFrame,
                file: picture(),
            });
        }
        assert!(!likely(&order, None), "a list does not show the picture");
        let certain = FoundJob::certain(JobHandle(json!(1)), Some(at(1)));
        assert_eq!(certain.identity, MatchCertainty::Certain);
        assert!(!is_older(Some(UNIX_EPOCH), UNIX_EPOCH));
    }
}
