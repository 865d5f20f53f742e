//! No task is lost, none ends twice, and none is made twice at a provider.

use std::collections::HashSet;

use super::{Facts, Violations};
use crate::callers::CallerHistory;
use crate::intent::Kind;
use crate::tries::task_named_in;

pub(super) fn check(
    facts: &Facts,
    histories: &[CallerHistory],
    cancelled_tasks: &[(String, String)],
    violations: &mut Violations,
) {
    for task in facts.tasks.values() {
        violations.unless(task.is_over(), || {
            format!("task {} is still {}", task.id, task.state)
        });
    }
    for history in histories {
        check_promised_tasks(facts, history, violations);
        check_jobs_of_intent(facts, history, violations);
    }
    for task in facts.tasks.values() {
        check_jobs_of_task(facts, &task.id, task.succeeded(), violations);
    }
    for (task, state) in cancelled_tasks {
        let now = facts.tasks.get(task).map(|task| task.state.as_str());
        violations.unless(now == Some(state), || {
            format!("task {task} was {state} when it was cancelled, and is {now:?} now")
        });
    }
}

/// Every task that a caller was given exists, and is the caller's.
fn check_promised_tasks(facts: &Facts, history: &CallerHistory, violations: &mut Violations) {
    let tag = &history.intent.tag;
    let tasks = facts.tasks_of(tag).iter();
    let own: HashSet<&str> = tasks.map(|task| task.id.as_str()).collect();
    for attempt in history
        .tries
        .iter()
        .filter(|attempt| !attempt.has_other_body)
    {
        let body_task = attempt.answer().filter(|answer| answer.is_good());
        let body_task = body_task.and_then(|answer| task_named_in(history.intent.kind, answer));
        for id in attempt.task.iter().chain(&body_task) {
            violations.unless(own.contains(id.as_str()), || {
                format!("task {id} of {tag} was promised and does not exist: {attempt:?}")
            });
        }
        if let (Some(header_task), Some(body)) = (&attempt.task, &body_task) {
            violations.unless(header_task == body, || {
                format!("the header of an answer names task {header_task}, its body {body}")
            });
        }
    }
}

/// Providers created no more jobs for an intent than its tasks ordered.
fn check_jobs_of_intent(facts: &Facts, history: &CallerHistory, violations: &mut Violations) {
    let tag = &history.intent.tag;
    let jobs = facts.jobs_by_tag.get(tag).map_or(&[][..], Vec::as_slice);
    if history.intent.kind == Kind::Persona {
        let successes = jobs.iter().filter(|job| job.succeeded).count();
        violations.unless(successes <= 1, || {
            format!("{successes} personas were made upstream for {tag}: {history:?}")
        });
        return;
    }
    let tasks = facts.tasks_of(tag);
    let ordered = tasks
        .iter()
        .filter(|task| facts.not_refused(&task.id) > 0)
        .count();
    violations.unless(jobs.len() <= ordered, || {
        format!(
            "{} jobs were made upstream for {ordered} tasks of {tag}: {jobs:?} {tasks:?}",
            jobs.len()
        )
    });
}

fn check_jobs_of_task(facts: &Facts, task: &str, succeeded: bool, violations: &mut Violations) {
    let count = facts.not_refused(task);
    violations.unless(count <= 1, || {
        format!("{count} orders of task {task} may have been accepted")
    });
    let by_key = facts.jobs_by_key.get(task).map_or(0, Vec::len);
    violations.unless(by_key <= 1, || {
        format!("{by_key} jobs were made for task {task}")
    });
    if !succeeded {
        return;
    }
    // A delivered result was made by the job of its submission.
    let rows = facts.submissions.get(task).into_iter().flatten();
    for row in rows.filter(|row| row.text("state") != "refused") {
        let handle = row.text("handle");
        let jobs: Vec<_> = ids_in(handle).filter_map(|id| facts.jobs.get(id)).collect();
        violations.unless(
            jobs.iter().any(|job| job.succeeded && !job.was_cancelled),
            || format!("task {task} succeeded without a job that did: {handle} {jobs:?}"),
        );
    }
}

/// The parts of a handle that may be a job's id.
pub(super) fn ids_in(handle: &str) -> impl Iterator<Item = &str> {
    handle.split(|sign: char| !sign.is_ascii_alphanumeric() && !"-_".contains(sign))
}
