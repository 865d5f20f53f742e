//! One intent, one task: a caller that only repeated its request has one task.

use super::{Facts, Task, Violations};
use crate::callers::CallerHistory;
use crate::intent::RetryStyle;
use crate::tries::TryOutcome;

/// The gateway notices a disconnect within a second.
const HANG_UP_NOTICE_MICROS: i64 = 1_200_000;
/// The ten seconds within which an SDK retries, less the time that an answer may take.
const LATE_MICROS: i64 = 9_000_000;

pub(super) fn check(facts: &Facts, histories: &[CallerHistory], violations: &mut Violations) {
    for history in histories {
        if history.intent.creates_a_task() {
            check_tasks(facts, history, violations);
        } else {
            let count = facts
                .created_by_name
                .get(&history.intent.tag)
                .copied()
                .unwrap_or_default();
            violations.unless(count <= 1, || {
                format!(
                    "{count} were created for {}: {history:?}",
                    history.intent.tag
                )
            });
        }
        check_used_key(facts, history, violations);
    }
}

fn check_tasks(facts: &Facts, history: &CallerHistory, violations: &mut Violations) {
    let tasks = facts.tasks_of(&history.intent.tag);
    let unprovable = unprovable_tries(history, tasks);
    let paid_count = tasks
        .iter()
        .filter(|task| task.succeeded() || task.cost > 0)
        .count();
    violations.unless(paid_count <= 1 + unprovable, || {
        format!("{paid_count} tasks of one intent are paid for: {tasks:?} {history:?}")
    });
    let repeatable = tasks.iter().filter(|task| task.may_be_repeated()).count();
    violations.unless(tasks.len() <= 1 + repeatable + unprovable, || {
        format!(
            "one intent led to {} tasks: {tasks:?} {history:?}",
            tasks.len()
        )
    });
}

/// Tries whose caller disconnected while the answer may have been on its way: then
/// nobody can tell whether it arrived.
pub(crate) fn unprovable_tries(history: &CallerHistory, tasks: &[Task]) -> usize {
    match history.intent.style {
        RetryStyle::Plain => {}
        RetryStyle::Counting => return late_tries(history, tasks),
        RetryStyle::Keyed | RetryStyle::Sdk => return 0,
    }
    let hang_ups = history
        .tries
        .iter()
        .filter(|attempt| matches!(attempt.outcome, TryOutcome::HungUp));
    let possibly_answered = hang_ups.filter(|attempt| {
        // The answer about an ended task is written as soon as the request joins it.
        let noticed_at = attempt.ended_at + HANG_UP_NOTICE_MICROS;
        let mut ends = tasks.iter().filter_map(|task| task.finished_at);
        ends.any(|end| end <= noticed_at)
    });
    possibly_answered.count()
}

/// Tries later than the official SDKs retry: by then, a task that ended before no longer answers
/// them.
fn late_tries(history: &CallerHistory, tasks: &[Task]) -> usize {
    let ends = tasks.iter().filter_map(|task| task.finished_at);
    let Some(end) = ends.min() else { return 0 };
    let retries = history.tries.iter().skip(1);
    retries
        .filter(|attempt| attempt.sent_at > end + LATE_MICROS)
        .count()
}

/// The same key with another body is rejected, and creates nothing.
fn check_used_key(facts: &Facts, history: &CallerHistory, violations: &mut Violations) {
    if !history.tries.iter().any(|attempt| attempt.has_other_body) {
        return;
    }
    let tag = &history.intent.tag;
    // A task that may be repeated leaves its key free.
    let is_free = facts.tasks_of(tag).iter().any(Task::may_be_repeated);
    if is_free {
        return;
    }
    for attempt in history
        .tries
        .iter()
        .filter(|attempt| attempt.has_other_body)
    {
        let Some(answer) = attempt.answer() else {
            continue;
        };
        let is_refused = (answer.status, answer.is("idempotency_conflict")) == (409, true);
        // A limit or a shutdown may reject it before the key is read, or a proxy reports that the
        // gateway went away.
        let is_undecided = matches!(answer.status, 429 | 502..=504);
        violations.unless(is_refused || is_undecided, || {
            format!("the key of {tag} was accepted with another body: {answer:?}")
        });
    }
    let other_tag = history.intent.with_other_tag().tag;
    let created = facts.tasks_of(&other_tag).len()
        + facts.jobs_by_tag.get(&other_tag).map_or(0, Vec::len)
        + usize::from(facts.created_by_name.contains_key(&other_tag));
    violations.unless(created == 0, || {
        format!("something was created under the used key of {tag}")
    });
}
