//! The same key gets the same answer, byte for byte, and is told so.

use super::{Facts, Violations};
use crate::callers::Told;
use crate::intent::Way;
use crate::tries::Try;

pub(super) fn check(facts: &Facts, told: &[Told], found: &mut Violations) {
    for told in told.iter().filter(|told| told.intent.way == Way::Keyed) {
        let good: Vec<&Try> = told
            .tries
            .iter()
            .filter(|one| one.good().is_some())
            .collect();
        for (number, later) in good.iter().enumerate() {
            for first in &good[..number] {
                same(facts, told, first, later, found);
            }
        }
    }
}

fn same(facts: &Facts, told: &Told, first: &Try, later: &Try, found: &mut Violations) {
    let (Some(before), Some(after)) = (first.good(), later.good()) else {
        return;
    };
    let tag = &told.intent.tag;
    if first.task != later.task {
        let task = first.task.as_ref().and_then(|task| facts.tasks.get(task));
        found.unless(task.is_some_and(super::Task::may_be_repeated), || {
            format!(
                "the key of {tag} led to {:?}, then to {:?}",
                first.task, later.task
            )
        });
        return;
    }
    // A stream is told from where it was joined.
    found.unless(before.streamed || before.bytes == after.bytes, || {
        format!(
            "the key of {tag} got two answers:\n{}\n{}",
            String::from_utf8_lossy(&before.bytes),
            String::from_utf8_lossy(&after.bytes)
        )
    });
    // Whoever comes when the first was answered gets a copy.
    if later.sent_at > first.ended_at {
        found.unless(after.replayed, || {
            format!("the key of {tag} is not told that it is a copy")
        });
    }
}
