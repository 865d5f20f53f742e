//! No task is lost, none ends twice, and none is made twice at a provider.

use std::collections::HashSet;

use super::{Facts, Violations};
use crate::callers::Told;
use crate::intent::Kind;
use crate::tries::task_in;

pub(super) fn check(
    facts: &Facts,
    told: &[Told],
    called_off: &[(String, String)],
    found: &mut Violations,
) {
    for task in facts.tasks.values() {
        found.unless(task.is_over(), || {
            format!("task {} is still {}", task.id, task.state)
        });
    }
    for told in told {
        promised(facts, told, found);
        made(facts, told, found);
    }
    for task in facts.tasks.values() {
        at_providers(facts, &task.id, task.succeeded(), found);
    }
    for (task, state) in called_off {
        let now = facts.tasks.get(task).map(|task| task.state.as_str());
        found.unless(now == Some(state), || {
            format!("task {task} was {state} when it was called off, and is {now:?} now")
        });
    }
}

/// Every task that a caller heard of is there, and is the caller's.
fn promised(facts: &Facts, told: &Told, found: &mut Violations) {
    let tag = &told.intent.tag;
    let tasks = facts.tasks_of(tag).iter();
    let own: HashSet<&str> = tasks.map(|task| task.id.as_str()).collect();
    for one in told.tries.iter().filter(|one| !one.otherwise) {
        let named = one.answer().filter(|answer| answer.is_good());
        let named = named.and_then(|answer| task_in(told.intent.kind, answer));
        for id in one.task.iter().chain(&named) {
            found.unless(own.contains(id.as_str()), || {
                format!("task {id} of {tag} was promised and is not there: {one:?}")
            });
        }
        if let (Some(head), Some(body)) = (&one.task, &named) {
            found.unless(head == body, || {
                format!("the head of an answer names {head}, its body {body}")
            });
        }
    }
}

/// Providers made no more for an intent than tasks asked for.
fn made(facts: &Facts, told: &Told, found: &mut Violations) {
    let tag = &told.intent.tag;
    let jobs = facts.jobs_by_tag.get(tag).map_or(&[][..], Vec::as_slice);
    if told.intent.kind == Kind::Persona {
        let good = jobs.iter().filter(|job| job.ended_well).count();
        found.unless(good <= 1, || {
            format!("{good} personas were made upstream for {tag}: {told:?}")
        });
        return;
    }
    let tasks = facts.tasks_of(tag);
    let ordered = tasks
        .iter()
        .filter(|task| facts.not_refused(&task.id) > 0)
        .count();
    found.unless(jobs.len() <= ordered, || {
        format!(
            "{} jobs were made upstream for {ordered} tasks of {tag}: {jobs:?} {tasks:?}",
            jobs.len()
        )
    });
}

fn at_providers(facts: &Facts, task: &str, succeeded: bool, found: &mut Violations) {
    let count = facts.not_refused(task);
    found.unless(count <= 1, || {
        format!("{count} orders of task {task} may have been taken")
    });
    let by_key = facts.jobs_by_key.get(task).map_or(0, Vec::len);
    found.unless(by_key <= 1, || {
        format!("{by_key} jobs were made for task {task}")
    });
    if !succeeded {
        return;
    }
    // What was delivered was made, there and nowhere else.
    let rows = facts.submissions.get(task).into_iter().flatten();
    for row in rows.filter(|row| row.text("state") != "refused") {
        let handle = row.text("handle");
        let jobs: Vec<_> = ids_in(handle).filter_map(|id| facts.jobs.get(id)).collect();
        found.unless(
            jobs.iter().any(|job| job.ended_well && !job.was_called_off),
            || format!("task {task} succeeded without a job that did: {handle} {jobs:?}"),
        );
    }
}

/// What in a handle may be a job's id.
fn ids_in(handle: &str) -> impl Iterator<Item = &str> {
    handle.split(|sign: char| !sign.is_ascii_alphanumeric() && !"-_".contains(sign))
}
