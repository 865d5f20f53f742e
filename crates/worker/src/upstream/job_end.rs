//! Table of the ends that an accepted job can have without a result, and of what its caller is told.
//!
//! | the end | the caller gets | the submission is |
//! |---|---|---|
//! | the job's record says that it failed, for a reason that may not recur | 503 `generation_failed` | ended |
//! | the job's record says that its content is forbidden | 422 `content_policy` | ended |
//! | the job's record says that the order cannot be made, or that the job was cancelled or has expired | 422 `provider_rejected` | ended |
//! | answers in place of the record say so, or that there is no result, and persist | 422, as above | ended |
//! | the job is done; its file is missing, broken, too large, no film, or at a forbidden URL | 422 `provider_rejected` | ended |
//! | the provider, a gateway itself, does not know what became of the order | 424 `submission_unconfirmed` | unclear |
//! | the job did not end within `job_limit`, or was not found for so long | 424 `submission_unconfirmed` | unclear |
//!
//! Clients repeat an order after a 503, and each repetition is another paid job. So a 503 is only
//! for the first row: in all others a repetition would fail in the same way, or a film may exist.
//! Nothing is charged in any of them.

use providers::{ErrorClass, ProviderCost, ProviderError};

use super::hosted_task::{RunEnding, unconfirmed_ending};
use super::result_error::ResultError;
use crate::finish::{RunOutcome, SubmissionClose};
use mediagate_model::error::ErrorCode;
use mediagate_model::submission::{Submission, SubmissionState};

/// An end of an accepted job without a result.
#[derive(Debug)]
pub(super) enum JobEnd {
    /// The job's record says so.
    Told(ProviderError),
    /// Answers in place of the job's record say so, and persist.
    Persistent(ProviderError),
    /// The job is done, but its result cannot be had or used.
    Unusable(ResultError),
    /// The job did not end while it was followed.
    OutOfTime {
        /// Whether the provider last said that there is no such job.
        is_missing: bool,
    },
}

const REFUSES: &str = "The model's provider refuses this content: ";
const REJECTED: &str = "The model's provider rejected the request: ";
const LOST: &str = "The model's provider gave up the task: ";
const FAILED: &str = "The model failed at this task: ";
const UNUSABLE: &str = "The provider's result cannot be used: ";
const UNCHARGED: &str = "Nothing was charged.";
const CLIP_NOT_MADE: &str = "The provider did not make this clip";
const CLIP_UNCHARGED: &str = "It was not charged.";

impl JobEnd {
    /// The provider's error, for the submission and the route; `None` if it is no error of the
    /// provider.
    pub(super) fn provider_error(&self) -> Option<ProviderError> {
        match self {
            Self::Told(error) | Self::Persistent(error) => Some(error.clone()),
            Self::Unusable(error) => Some(ProviderError::new(
                ErrorClass::Failed,
                unusable_reason(error),
            )),
            Self::OutOfTime { .. } => None,
        }
    }

    /// The ending of the task, and of its submission, which is in this state. `cost` is what the
    /// provider reports.
    pub(super) fn into_ending(
        self,
        submission: &Submission,
        state: SubmissionState,
        cost: Option<ProviderCost>,
    ) -> RunEnding {
        let submission = Submission {
            state,
            ..submission.clone()
        };
        let error = self.provider_error();
        let outcome = match self {
            Self::Told(error) if error.class == ErrorClass::Unconfirmed => {
                return unconfirmed_ending(&submission, &error.message, None);
            }
            Self::OutOfTime { is_missing } => return timeout_ending(&submission, is_missing),
            Self::Told(error) => failure(&error),
            Self::Persistent(error) => match error.class {
                ErrorClass::Failed => rejection(&format!("{FAILED}{}", own_words(&error.message))),
                _ => failure(&error),
            },
            Self::Unusable(error) => rejection(&format!("{UNUSABLE}{}", unusable_reason(&error))),
        };
        let closing = SubmissionClose {
            id: submission.id,
            from: state,
            state: SubmissionState::Ended,
            error: error.map(|error| (error.class.name(), error.message)),
            cost: cost.map(Box::new),
            recheck_at: None,
        };
        (outcome, Some(closing))
    }
}

/// A provider's error as it is reported to the caller: of an order that was not accepted, or of a
/// job whose record says so.
pub(super) fn failure(error: &ProviderError) -> RunOutcome {
    let (code, opening) = match error.class {
        ErrorClass::Refused => (ErrorCode::ContentPolicy, REFUSES),
        ErrorClass::Rejected | ErrorClass::Unfit => (ErrorCode::ProviderRejected, REJECTED),
        ErrorClass::Lost => (ErrorCode::ProviderRejected, LOST),
        _ => (ErrorCode::GenerationFailed, FAILED),
    };
    let words = own_words(&error.message);
    RunOutcome::failed(code, format!("{opening}{words}. {UNCHARGED}"))
}

fn rejection(sentence: &str) -> RunOutcome {
    let message = format!("{}. {UNCHARGED}", sentence.trim_end_matches('.'));
    RunOutcome::failed(ErrorCode::ProviderRejected, message)
}

/// The ending of a job that was followed for as long as the operator allows. It may still succeed
/// and cost money.
fn timeout_ending(submission: &Submission, is_missing: bool) -> RunEnding {
    let (message, reason) = if is_missing {
        (
            "The provider no longer knows the job. It may have completed it, so the task was not sent again. Nothing was charged.",
            "the provider did not find the job within job_limit",
        )
    } else {
        (
            "The provider did not finish the job within the operator's time limit. Nothing was charged.",
            "the job did not finish within job_limit",
        )
    };
    let (_, closing) = unconfirmed_ending(submission, reason, None);
    let outcome = RunOutcome::failed(ErrorCode::SubmissionUnconfirmed, message);
    (outcome, closing)
}

fn unusable_reason(error: &ResultError) -> &str {
    match error {
        ResultError::ForbiddenAddress(reason)
        | ResultError::Broken(reason)
        | ResultError::Useless(reason) => reason,
        ResultError::Missing(_)
        | ResultError::Unavailable(_)
        | ResultError::Incomplete(_)
        | ResultError::Internal(_) => "it could not be downloaded completely",
    }
}

/// A provider's own words, without a full stop. If the provider is such a gateway too, it has put
/// them between the same sentences.
fn own_words(message: &str) -> &str {
    let message = message.trim().trim_end_matches(UNCHARGED).trim_end();
    let openings = [REFUSES, REJECTED, LOST, FAILED, UNUSABLE];
    let inner = openings
        .iter()
        .find_map(|opening| message.strip_prefix(opening));
    inner.unwrap_or(message).trim_end_matches('.')
}

/// Why a provider failed to make one clip of several, as it is reported to the caller; `None` if
/// the provider says nothing more.
pub(super) fn clip_failure(reason: &str) -> Option<String> {
    let words = own_words(reason.trim().trim_end_matches(CLIP_UNCHARGED));
    let inner = words.strip_prefix(CLIP_NOT_MADE);
    let words = inner.map_or(words, |inner| inner.trim_start_matches(':').trim());
    (!words.is_empty()).then(|| format!("{CLIP_NOT_MADE}: {words}. {CLIP_UNCHARGED}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mediagate_model::clock::Timestamp;
    use mediagate_model::ids::{SubmissionId, TaskId};

    fn submission() -> Submission {
        Submission {
            id: SubmissionId::new(),
            task: TaskId::new(),
            attempt: 1,
            provider: "acme".into(),
            route_model: "m".into(),
            endpoint: String::new(),
            credential: String::new(),
            state: SubmissionState::Accepted,
            handle: None,
            results: None,
            created_at: Timestamp::from_seconds(0),
            accepted_at: None,
            likeness: None,
            has_key: None,
            job_settings: None,
            order_settings: None,
        }
    }

    fn ending(end: JobEnd) -> (ErrorCode, SubmissionState) {
        let (outcome, closing) = end.into_ending(&submission(), SubmissionState::Accepted, None);
        let RunOutcome::Failed(failure) = outcome else {
            panic!("{}", outcome.name());
        };
        assert!(failure.message.ends_with(UNCHARGED), "{}", failure.message);
        (failure.code, closing.unwrap().state)
    }

    #[test]
    fn only_a_job_whose_record_says_that_it_failed_may_be_repeated() {
        use ErrorCode::{ContentPolicy, GenerationFailed, ProviderRejected, SubmissionUnconfirmed};
        use SubmissionState::{Ended, Unclear};
        let told = |class| JobEnd::Told(ProviderError::new(class, "so"));
        let persistent = |class| JobEnd::Persistent(ProviderError::new(class, "so"));
        let reason = || "so".to_owned();
        for (end, expected) in [
            (told(ErrorClass::Failed), (GenerationFailed, Ended)),
            (told(ErrorClass::Refused), (ContentPolicy, Ended)),
            (told(ErrorClass::Unfit), (ProviderRejected, Ended)),
            (told(ErrorClass::Lost), (ProviderRejected, Ended)),
            (
                told(ErrorClass::Unconfirmed),
                (SubmissionUnconfirmed, Unclear),
            ),
            (persistent(ErrorClass::Failed), (ProviderRejected, Ended)),
            (persistent(ErrorClass::Refused), (ContentPolicy, Ended)),
            (
                JobEnd::Unusable(ResultError::Missing(reason())),
                (ProviderRejected, Ended),
            ),
            (
                JobEnd::Unusable(ResultError::Unavailable(reason())),
                (ProviderRejected, Ended),
            ),
            (
                JobEnd::Unusable(ResultError::Incomplete(reason())),
                (ProviderRejected, Ended),
            ),
            (
                JobEnd::Unusable(ResultError::Broken(reason())),
                (ProviderRejected, Ended),
            ),
            (
                JobEnd::Unusable(ResultError::Useless(reason())),
                (ProviderRejected, Ended),
            ),
            (
                JobEnd::OutOfTime { is_missing: true },
                (SubmissionUnconfirmed, Unclear),
            ),
            (
                JobEnd::OutOfTime { is_missing: false },
                (SubmissionUnconfirmed, Unclear),
            ),
        ] {
            assert_eq!(ending(end), expected);
        }
    }

    #[test]
    fn the_words_of_another_gateway_are_not_framed_twice() {
        let message = |class, text: &str| match failure(&ProviderError::new(class, text)) {
            RunOutcome::Failed(failure) => failure.message,
            other => panic!("{}", other.name()),
        };
        let plain = message(ErrorClass::Refused, "no lakes.");
        assert_eq!(
            plain,
            "The model's provider refuses this content: no lakes. Nothing was charged."
        );
        assert_eq!(message(ErrorClass::Refused, &plain), plain);
        assert_eq!(
            message(ErrorClass::Failed, &plain),
            "The model failed at this task: no lakes. Nothing was charged."
        );
        let clip = clip_failure("no lakes.").unwrap();
        assert_eq!(
            clip,
            "The provider did not make this clip: no lakes. It was not charged."
        );
        assert_eq!(clip_failure(&clip).unwrap(), clip);
        assert_eq!(clip_failure(&plain).unwrap(), clip);
        let bare = "The provider did not make this clip. It was not charged.";
        assert_eq!(clip_failure(bare), None);
        assert_eq!(clip_failure(" "), None);
    }
}
