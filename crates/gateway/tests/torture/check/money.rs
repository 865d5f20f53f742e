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
        rows.fold(Self::default(), |sums, one| Self {
            held: sums.held + one.held,
            spent: sums.spent + one.spent,
            credit: sums.credit + one.credit,
        })
    }
}

pub(super) fn check(facts: &Facts, found: &mut Violations) {
    let mut by_task: HashMap<&str, Vec<&Row>> = HashMap::new();
    for row in facts
        .ledger
        .iter()
        .filter(|row| !row.text("task_id").is_empty())
    {
        by_task.entry(row.text("task_id")).or_default().push(row);
    }
    for task in facts.tasks.values() {
        of_task(
            task,
            by_task.get(task.id.as_str()).map_or(&[], Vec::as_slice),
            found,
        );
    }
    for id in by_task.keys() {
        found.unless(facts.tasks.contains_key(*id), || {
            format!("entries of no task: {id}")
        });
    }
    of_keys(facts, found);
    of_accounts(facts, found);
    let all = Sums::all(&facts.ledger);
    found.unless(all.held == 0, || {
        format!("{} micros are still held", all.held)
    });
}

fn of_task(task: &Task, entries: &[&Row], found: &mut Violations) {
    let about = || format!("{task:?}: {entries:?}");
    let count = |kind: &str| {
        entries
            .iter()
            .filter(|row| row.text("kind") == kind)
            .count()
    };
    let (reserved, settled, released) = (count("reserve"), count("settle"), count("release"));
    // Every model of these settings has a price.
    found.unless(reserved == 1, || {
        format!("not one reservation: {}", about())
    });
    let closed = match task.state.as_str() {
        "succeeded" => (settled, released) == (1, 0),
        "failed" => (settled, released) == (0, 1),
        "cancelled" => settled + released == 1,
        _ => settled + released == 0,
    };
    found.unless(closed, || format!("the wrong entries: {}", about()));
    let sums = Sums::all(entries.iter().copied());
    found.unless(sums.held == 0, || {
        format!("something stays held: {}", about())
    });
    found.unless(sums.spent == task.cost, || {
        format!("not what it cost: {}", about())
    });
    let reserve = entries.iter().find(|row| row.text("kind") == "reserve");
    let reserve = reserve.map_or(0, |row| row.micros("held_micros"));
    found.unless((0..=reserve).contains(&sums.spent), || {
        format!("more than was reserved: {}", about())
    });
    let owners = entries
        .iter()
        .all(|row| row.text("account_id") == task.account && row.text("key_id") == task.key);
    found.unless(owners, || format!("somebody else's entries: {}", about()));
}

fn of_keys(facts: &Facts, found: &mut Violations) {
    for key in &facts.keys {
        let id = key.text("id");
        let own = facts.ledger.iter().filter(|row| row.text("key_id") == id);
        let sums = Sums::all(own);
        let running = Sums::of_key(key);
        found.unless(
            (sums.held, sums.spent) == (running.held, running.spent),
            || format!("key {id} says {running:?}, its entries {sums:?}"),
        );
        let cost: i64 = facts
            .tasks
            .values()
            .filter(|task| task.key == id)
            .map(|task| task.cost)
            .sum();
        found.unless(cost == running.spent, || {
            format!("key {id} spent {}, its tasks cost {cost}", running.spent)
        });
        if let Some(budget) = key.number::<i64>("budget_micros") {
            found.unless(running.held + running.spent <= budget, || {
                format!("key {id} is over its budget of {budget}: {running:?}")
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

fn of_accounts(facts: &Facts, found: &mut Violations) {
    for account in &facts.accounts {
        let (id, handle) = (account.text("id"), account.text("handle"));
        let own = facts
            .ledger
            .iter()
            .filter(|row| row.text("account_id") == id);
        let sums = Sums::all(own);
        let running = Sums::of(account);
        found.unless(sums == running, || {
            format!("account {handle} says {running:?}, its entries {sums:?}")
        });
        let own = facts.tasks.values().filter(|task| task.account == id);
        let cost: i64 = own.map(|task| task.cost).sum();
        found.unless(cost == running.spent, || {
            format!(
                "account {handle} spent {}, its tasks cost {cost}",
                running.spent
            )
        });
        let left = running.credit - running.held - running.spent;
        found.unless(account.micros("prepaid") == 0 || left >= 0, || {
            format!("account {handle} has {left} micros, and pays before")
        });
    }
}
