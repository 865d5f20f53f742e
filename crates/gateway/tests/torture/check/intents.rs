//! One intent, one task: whoever only repeated itself has one.

use super::{Facts, Task, Violations};
use crate::callers::Told;
use crate::intent::Way;
use crate::tries::Got;

/// A hang-up is noticed within a second.
const NOTICED_MICROS: i64 = 1_200_000;
/// An SDK comes again within ten seconds, here less what an answer may take.
const LATE_MICROS: i64 = 9_000_000;

pub(super) fn check(facts: &Facts, told: &[Told], found: &mut Violations) {
    for told in told {
        if told.intent.makes_a_task() {
            tasks(facts, told, found);
        } else {
            let count = facts
                .named
                .get(&told.intent.tag)
                .copied()
                .unwrap_or_default();
            found.unless(count <= 1, || {
                format!("{count} were made of {}: {told:?}", told.intent.tag)
            });
        }
        under_a_used_key(facts, told, found);
    }
}

fn tasks(facts: &Facts, told: &Told, found: &mut Violations) {
    let tasks = facts.tasks_of(&told.intent.tag);
    let more = unprovable(told, tasks);
    let paid = tasks
        .iter()
        .filter(|task| task.succeeded() || task.cost > 0)
        .count();
    found.unless(paid <= 1 + more, || {
        format!("{paid} tasks of one intent are paid for: {tasks:?} {told:?}")
    });
    let repeatable = tasks.iter().filter(|task| task.may_be_repeated()).count();
    found.unless(tasks.len() <= 1 + repeatable + more, || {
        format!(
            "one intent led to {} tasks: {tasks:?} {told:?}",
            tasks.len()
        )
    });
}

/// Times that a caller went away when its answer may have been on its way: then
/// nobody can tell that it did not arrive.
pub(crate) fn unprovable(told: &Told, tasks: &[Task]) -> usize {
    match told.intent.way {
        Way::Plain => {}
        Way::Counting => return late(told, tasks),
        Way::Keyed | Way::Sdk => return 0,
    }
    let left = told
        .tries
        .iter()
        .filter(|one| matches!(one.got, Got::HungUp));
    let on_its_way = left.filter(|one| {
        // Of a task that had ended the answer is written as soon as it is joined.
        let noticed = one.ended_at + NOTICED_MICROS;
        let mut ends = tasks.iter().filter_map(|task| task.finished_at);
        ends.any(|end| end <= noticed)
    });
    on_its_way.count()
}

/// Tries that came later than the official SDKs come again: a task that ended before is another's by then.
fn late(told: &Told, tasks: &[Task]) -> usize {
    let ends = tasks.iter().filter_map(|task| task.finished_at);
    let Some(end) = ends.min() else { return 0 };
    let again = told.tries.iter().skip(1);
    again.filter(|one| one.sent_at > end + LATE_MICROS).count()
}

/// The same key with another body is refused, and makes nothing.
fn under_a_used_key(facts: &Facts, told: &Told, found: &mut Violations) {
    if !told.tries.iter().any(|one| one.otherwise) {
        return;
    }
    let tag = &told.intent.tag;
    // What a repetition may do anew leaves its key free.
    let is_free = facts.tasks_of(tag).iter().any(Task::may_be_repeated);
    if is_free {
        return;
    }
    for one in told.tries.iter().filter(|one| one.otherwise) {
        let Some(answer) = one.answer() else {
            continue;
        };
        let refused = (answer.status, answer.is("idempotency_conflict")) == (409, true);
        // It may be too much, or over, before anybody looks at the key; or a proxy says that who was
        // to look went away.
        let later = matches!(answer.status, 429 | 502..=504);
        found.unless(refused || later, || {
            format!("the key of {tag} was taken for another body: {answer:?}")
        });
    }
    let other = told.intent.otherwise().tag;
    let made = facts.tasks_of(&other).len()
        + facts.jobs_by_tag.get(&other).map_or(0, Vec::len)
        + usize::from(facts.named.contains_key(&other));
    found.unless(made == 0, || {
        format!("something was made under the used key of {tag}")
    });
}
