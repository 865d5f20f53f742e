//! Nothing of an order was sent before it was approved, and each order was decided about once.

use std::collections::HashMap;

use super::{Facts, Violations};

/// `decisions` are those that were answered as successful: a decision whose answer was lost may
/// have been made, too.
pub(crate) fn check(
    facts: &Facts,
    decisions: &[(String, &'static str)],
    trusts_clocks: bool,
    violations: &mut Violations,
) {
    let mut by_task: HashMap<&str, Vec<&str>> = HashMap::new();
    for (task, decision) in decisions {
        by_task.entry(task).or_default().push(decision);
    }
    for (task, decisions) in &by_task {
        let [decision] = decisions[..] else {
            violations.add(format!("task {task} was decided about: {decisions:?}"));
            continue;
        };
        let state = facts.tasks.get(*task).map(|task| &*task.approval);
        let expected = match decision {
            "approve" => "approved",
            _ => "rejected",
        };
        violations.unless(state == Some(expected), || {
            format!("task {task} was {expected}, and is {state:?}")
        });
    }
    for task in facts.tasks.values() {
        let submissions = facts.submissions.get(&task.id).into_iter().flatten();
        let mut sent_at = submissions.filter_map(|row| row.number("created_at"));
        match task.approval.as_str() {
            "" => {}
            "approved" => violations.unless(
                !trusts_clocks || sent_at.all(|at| Some(at) >= task.approved_at),
                || format!("{task:?} was sent before it was approved"),
            ),
            _ => violations.unless(sent_at.next().is_none(), || {
                format!("{task:?} was sent without approval")
            }),
        }
    }
}
