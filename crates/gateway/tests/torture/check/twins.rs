//! A job belongs to one submission, and nobody gets the film of another account's picture.

use std::collections::{BTreeSet, HashMap};

use super::{Facts, ProviderJob, Task, Violations};
use crate::twins::PROMPT;

pub(super) fn check(facts: &Facts, violations: &mut Violations) {
    let mut owners: HashMap<(&str, &str), &str> = HashMap::new();
    for row in facts.submissions.values().flatten() {
        let (id, handle) = (row.text("id"), row.text("handle"));
        let earlier = (!handle.is_empty())
            .then(|| owners.insert((row.text("endpoint"), handle), id))
            .flatten();
        violations.unless(earlier.is_none(), || {
            format!("submissions {earlier:?} and {id} have the same job {handle}")
        });
    }
    // The providers' records of the pictures, by account.
    let mut pictures: HashMap<&str, BTreeSet<u64>> = HashMap::new();
    let twins = facts.tasks.values().filter(|task| task.prompt == PROMPT);
    for task in twins.filter(|task| task.succeeded()) {
        let Some(job) = job_of(facts, task) else {
            continue;
        };
        violations.unless(job.picture_bytes.is_some() == task.has_picture, || {
            format!("task {} got the film of another order: {job:?}", task.id)
        });
        let sizes = pictures.entry(&task.account).or_default();
        sizes.extend(job.picture_bytes);
    }
    let mut sizes = BTreeSet::new();
    let is_own = pictures.values().flatten().all(|size| sizes.insert(size));
    violations.unless(is_own, || {
        format!("an account got the film of another account's picture: {pictures:?}")
    });
}

fn job_of<'a>(facts: &'a Facts, task: &Task) -> Option<&'a ProviderJob> {
    let submissions = facts.submissions.get(&task.id)?.iter();
    let mut made = submissions.filter(|row| row.text("state") == "ended");
    let handle = made.next()?.text("handle");
    super::lifecycle::ids_in(handle).find_map(|id| facts.jobs.get(id))
}
