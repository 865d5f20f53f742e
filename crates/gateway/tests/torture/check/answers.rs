//! A repeated key gets the same answer, byte for byte, which is marked as replayed.

use super::{Facts, Violations};
use crate::callers::CallerHistory;
use crate::intent::RetryStyle;
use crate::tries::Try;

pub(super) fn check(facts: &Facts, histories: &[CallerHistory], violations: &mut Violations) {
    for history in histories
        .iter()
        .filter(|history| history.intent.style == RetryStyle::Keyed)
    {
        let successes: Vec<&Try> = history
            .tries
            .iter()
            .filter(|attempt| attempt.good().is_some())
            .collect();
        for (number, later) in successes.iter().enumerate() {
            for first in &successes[..number] {
                check_same_answer(facts, history, first, later, violations);
            }
        }
    }
}

fn check_same_answer(
    facts: &Facts,
    history: &CallerHistory,
    first: &Try,
    later: &Try,
    violations: &mut Violations,
) {
    let (Some(before), Some(after)) = (first.good(), later.good()) else {
        return;
    };
    let tag = &history.intent.tag;
    if first.task != later.task {
        let task = first.task.as_ref().and_then(|task| facts.tasks.get(task));
        violations.unless(task.is_some_and(super::Task::may_be_repeated), || {
            format!(
                "the key of {tag} led to {:?}, then to {:?}",
                first.task, later.task
            )
        });
        return;
    }
    // A joined stream starts with the current state.
    violations.unless(before.streamed || before.bytes == after.bytes, || {
        format!(
            "the key of {tag} got two answers:\n{}\n{}",
            String::from_utf8_lossy(&before.bytes),
            String::from_utf8_lossy(&after.bytes)
        )
    });
    // A request sent after the first answer gets a copy.
    if later.sent_at > first.ended_at {
        violations.unless(after.replayed, || {
            format!("the second answer for the key of {tag} is not marked as a copy")
        });
    }
}
