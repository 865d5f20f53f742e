//! Every error says correctly whether to retry.

use super::Violations;
use crate::callers::CallerHistory;
use crate::tries::Answer;

/// Errors that a retry does not resolve and that these callers can meet: the budget is used up,
/// the key has another body, the order was rejected, or was accepted by a clock far behind and has
/// expired, the task was cancelled, the provider rejected it, or its acceptance is unknown.
const FINAL: [&str; 8] = [
    "approval_expired",
    "approval_rejected",
    "budget_exceeded",
    "cancelled",
    "content_policy",
    "idempotency_conflict",
    "provider_rejected",
    "submission_unconfirmed",
];

pub(super) fn check(histories: &[CallerHistory], violations: &mut Violations) {
    for history in histories {
        for answer in history.tries.iter().filter_map(|attempt| attempt.answer()) {
            violations.unless(is_in_order(answer), || {
                format!(
                    "{:?} got {answer:?}, retry: {}, after {:?}",
                    history.intent, answer.should_retry, answer.retry_after
                )
            });
        }
    }
}

fn is_in_order(answer: &Answer) -> bool {
    let Some(code) = answer.code.as_deref() else {
        return answer.status == 200;
    };
    if answer.streamed {
        // Its status was 200; only its last event has the error.
        return answer.should_retry != FINAL.contains(&code);
    }
    match answer.status {
        429 | 503 => answer.should_retry && answer.retry_after.is_some(),
        // Only a proxy answers so, when its gateway went away.
        502 | 504 => answer.should_retry && code == "overloaded",
        _ => !answer.should_retry && FINAL.contains(&code),
    }
}
