//! Money moves once: each task's entries are those of its state, and every sum
//! is what its entries say.

use std::collections::HashMap;

use super::{Facts, Task, Violations};
use crate::db::Row;

/// Sums of entries.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Sums {
    held: i64,
    spent: i64,
    credit: i64,
}

impl Sums {
    fn of(row: &Row) -> Self {
        Self {
            held: row.micros("held_micros"),
            spent: row.micros("spent_micros"),
            credit: row.micros("credit_micros"),
        }
    }

    fn all<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let rows = rows.into_iter().map(Self::of);
        rows.fold(Self::default(), |sums, next| Self {
            held: sums.held + next.held,
            spent: sums.spent + next.spent,
            credit: sums.credit + next.credit,
        })
    }
}

pub(super) fn check(facts: &Facts, violations: &mut Violations) {
    let mut by_task: HashMap<&str, Vec<&Row>> = HashMap::new();
    for row in facts
        .ledger
        .iter()
        .filter(|row| !row.text("task_id").is_empty())
    {
        by_task.entry(row.text("task_id")).or_default().push(row);
    }
    for task in facts.tasks.values() {
        check_task(
            task,
            by_task.get(task.id.as_str()).map_or(&[], Vec::as_slice),
            violations,
        );
    }
    for id in by_task.keys() {
        violations.unless(facts.tasks.contains_key(*id), || {
            format!("entries of no task: {id}")
        });
    }
    check_keys(facts, violations);
    check_accounts(facts, violations);
    let total = Sums::all(&facts.ledger);
    violations.unless(total.held == 0, || {
        format!("{} micros are still held", total.held)
    });
}

fn check_task(task: &Task, entries: &[&Row], violations: &mut Violations) {
    let context = || format!("{task:?}: {entries:?}");
    let count = |kind: &str| {
        entries
            .iter()
            .filter(|row| row.text("kind") == kind)
            .count()
    };
    let (reserved, settled, released) = (count("reserve"), count("settle"), count("release"));
    // Every model of these settings has a price.
    violations.unless(reserved == 1, || {
        format!("not one reservation: {}", context())
    });
    let is_closed = match task.state.as_str() {
        "succeeded" => (settled, released) == (1, 0),
        "failed" => (settled, released) == (0, 1),
        "cancelled" => settled + released == 1,
        _ => settled + released == 0,
    };
    violations.unless(is_closed, || format!("the wrong entries: {}", context()));
    let sums = Sums::all(entries.iter().copied());
    violations.unless(sums.held == 0, || {
        format!("money is still held: {}", context())
    });
    violations.unless(sums.spent == task.cost, || {
        format!("not what it cost: {}", context())
    });
    let reservation = entries.iter().find(|row| row.text("kind") == "reserve");
    let reservation = reservation.map_or(0, |row| row.micros("held_micros"));
    violations.unless((0..=reservation).contains(&sums.spent), || {
        format!("more than was reserved: {}", context())
    });
    let has_owner = entries
        .iter()
        .all(|row| row.text("account_id") == task.account && row.text("key_id") == task.key);
    violations.unless(has_owner, || {
        format!("somebody else's entries: {}", context())
    });
}

fn check_keys(facts: &Facts, violations: &mut Violations) {
    for key in &facts.keys {
        let id = key.text("id");
        let entries = facts.ledger.iter().filter(|row| row.text("key_id") == id);
        let sums = Sums::all(entries);
        let recorded = Sums::of_key(key);
        violations.unless(
            (sums.held, sums.spent) == (recorded.held, recorded.spent),
            || format!("key {id} says {recorded:?}, its entries {sums:?}"),
        );
        let cost: i64 = facts
            .tasks
            .values()
            .filter(|task| task.key == id)
            .map(|task| task.cost)
            .sum();
        violations.unless(cost == recorded.spent, || {
            format!("key {id} spent {}, its tasks cost {cost}", recorded.spent)
        });
        if let Some(budget) = key.number::<i64>("budget_micros") {
            violations.unless(recorded.held + recorded.spent <= budget, || {
                format!("key {id} is over its budget of {budget}: {recorded:?}")
            });
        }
    }
}

impl Sums {
    fn of_key(row: &Row) -> Self {
        Self {
            held: row.micros("held_micros"),
            spent: row.micros("spent_micros"),
            credit: 0,
        }
    }
}

fn check_accounts(facts: &Facts, violations: &mut Violations) {
    for account in &facts.accounts {
        let (id, handle) = (account.text("id"), account.text("handle"));
        let matching = facts
            .ledger
            .iter()
            .filter(|row| row.text("account_id") == id);
        let sums = Sums::all(matching);
        let recorded = Sums::of(account);
        violations.unless(sums == recorded, || {
            format!("account {handle} says {recorded:?}, its entries {sums:?}")
        });
        let matching = facts.tasks.values().filter(|task| task.account == id);
        let cost: i64 = matching.map(|task| task.cost).sum();
        violations.unless(cost == recorded.spent, || {
            format!(
                "account {handle} spent {}, its tasks cost {cost}",
                recorded.spent
            )
        });
        let balance = recorded.credit - recorded.held - recorded.spent;
        violations.unless(account.micros("prepaid") == 0 || balance >= 0, || {
            format!("prepaid account {handle} has {balance} micros")
        });
    }
}
