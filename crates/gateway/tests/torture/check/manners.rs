//! Whoever did not get what it asked for was told the truth of whether to come again.

use super::Violations;
use crate::callers::Told;
use crate::tries::Answer;

/// Refusals that repeating does not mend, and that these callers can meet: their money is used up,
/// their key is taken, somebody called it off, the provider said no, or nobody knows whether it said yes.
const FINAL: [&str; 6] = [
    "budget_exceeded",
    "cancelled",
    "content_policy",
    "idempotency_conflict",
    "provider_rejected",
    "submission_unconfirmed",
];

pub(super) fn check(told: &[Told], found: &mut Violations) {
    for told in told {
        for answer in told.tries.iter().filter_map(|one| one.answer()) {
            found.unless(is_in_order(answer), || {
                format!(
                    "{:?} was told {answer:?}, to come again: {}, after {:?}",
                    told.intent, answer.should_retry, answer.retry_after
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
        // It began well, so that only its last event can tell.
        return answer.should_retry != FINAL.contains(&code);
    }
    match answer.status {
        429 | 503 => answer.should_retry && answer.retry_after.is_some(),
        // Only a proxy says so, of a gateway that went away.
        502 | 504 => answer.should_retry && code == "overloaded",
        _ => !answer.should_retry && FINAL.contains(&code),
    }
}
