//! Each task's money against its entries, its bill and its prices.

use std::collections::HashMap;
use std::str::FromStr as _;

use super::Mismatch;
use crate::{Conn, Row, StoreError, Value};
use mediagate_model::catalog::EMBEDDED;
use mediagate_model::money::{Micros, Money};
use mediagate_model::price::{Bill, Tariff};
use mediagate_model::task::TaskState;

mod submissions;

use submissions::Sent;

/// What a statement reads of the tasks `t` that `$which` selects, with `$rest` joined to them.
macro_rules! of_tasks {
    ($columns:literal, $rest:literal, $which:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM (SELECT id, account_id, key_id, provider, state, money, reserved_micros, cost_micros, tariff, bill,
                           started_at, finished_at
                    FROM tasks WHERE ",
            $which,
            ") AS t ",
            $rest
        )
    };
}

/// The three statements about the tasks that `$which` selects.
macro_rules! statements {
    ($which:literal) => {
        Statements {
            tasks: of_tasks!(
                "t.id, t.provider, t.state, t.money, t.reserved_micros, t.cost_micros, t.tariff, t.bill,
                 t.started_at, t.finished_at",
                "",
                $which
            ),
            entries: of_tasks!(
                "l.task_id, l.kind, l.held_micros, l.spent_micros",
                "JOIN ledger l ON l.task_id = t.id",
                $which
            ),
            submissions: of_tasks!(
                "s.task_id, s.id, s.attempt, s.provider, s.route_model, s.state, s.handle, s.results, s.error_class,
                 s.accepted_at, s.answered_at, s.ended_at, s.stray, s.cost_millionths, s.cost_unit,
                 (SELECT MIN(o.id) FROM submissions o WHERE o.provider = s.provider AND o.handle = s.handle
                                                        AND s.handle IS NOT NULL AND o.id <> s.id)",
                "JOIN submissions s ON s.task_id = t.id",
                $which
            ),
        }
    };
}

struct Statements {
    tasks: &'static str,
    entries: &'static str,
    submissions: &'static str,
}

/// What is wrong with the tasks after an id, up to another.
pub(super) fn between_ids(
    conn: &mut Conn<'_>,
    after: &str,
    last: &str,
) -> Result<Vec<Mismatch>, StoreError> {
    let statements = statements!("id > ?1 AND id <= ?2");
    check(conn, &statements, &[after.into(), last.into()])
}

/// What is wrong with the tasks that ended after one, up to another; each is a time and an id.
pub(super) fn between_ends(
    conn: &mut Conn<'_>,
    ((at, id), (last_at, last)): ((i64, &str), (i64, &str)),
) -> Result<Vec<Mismatch>, StoreError> {
    let statements = statements!(
        "finished_at IS NOT NULL AND (finished_at, id) > (?1, ?2) AND (finished_at, id) <= (?3, ?4)"
    );
    let values = [at.into(), id.into(), last_at.into(), last.into()];
    check(conn, &statements, &values)
}

fn check(
    conn: &mut Conn<'_>,
    statements: &Statements,
    values: &[Value<'_>],
) -> Result<Vec<Mismatch>, StoreError> {
    let mut entries: HashMap<String, Entries> = HashMap::new();
    conn.all(statements.entries, values, |row| {
        entries.entry(row.text(0)?).or_default().add(row)
    })?;
    let mut sent: HashMap<String, Vec<Sent>> = HashMap::new();
    conn.all(statements.submissions, values, |row| {
        let of_task = sent.entry(row.text(0)?).or_default();
        of_task.push(Sent::read(row)?);
        Ok(())
    })?;
    let mut found = Vec::new();
    conn.all(statements.tasks, values, |row| {
        let task = Record::read(row)?;
        let of_task = entries.remove(&task.id).unwrap_or_default();
        let mut sent = sent.remove(&task.id).unwrap_or_default();
        sent.sort_by_key(|one| one.attempt);
        found.extend(mismatches(&task, &of_task, &sent));
        Ok(())
    })?;
    Ok(found)
}

fn mismatches(task: &Record, entries: &Entries, sent: &[Sent]) -> Vec<Mismatch> {
    let faults = task.faults(entries, sent);
    let of_task = faults.into_iter().map(|why| Mismatch {
        what: "task",
        id: task.id.clone(),
        why,
    });
    let mut found: Vec<Mismatch> = of_task.collect();
    found.extend(submissions::mismatches(task, sent));
    found
}

/// The sums of a task's entries.
#[derive(Default)]
struct Entries {
    count: u32,
    reserves: u32,
    reserved: Micros,
    still_holds: Micros,
    settles: u32,
    settled: Micros,
    releases: u32,
    adjusts: u32,
    adjusted: Micros,
}

impl Entries {
    fn add(&mut self, row: &Row<'_>) -> Result<(), StoreError> {
        let (held, spent) = (Micros::new(row.int(2)?), Micros::new(row.int(3)?));
        self.count += 1;
        self.still_holds = self.still_holds.plus(held);
        match row.text(1)?.as_str() {
            "reserve" => {
                self.reserves += 1;
                self.reserved = self.reserved.plus(held);
            }
            "settle" => {
                self.settles += 1;
                self.settled = self.settled.plus(spent);
            }
            "release" => self.releases += 1,
            "adjust" => {
                self.adjusts += 1;
                self.adjusted = self.adjusted.plus(spent);
            }
            _ => {}
        }
        Ok(())
    }
}

/// A task as its row says it.
struct Record {
    id: String,
    provider: String,
    state: String,
    money: String,
    reserved: Micros,
    cost: Micros,
    /// As JSON.
    tariff: Option<String>,
    /// As JSON.
    bill: Option<String>,
    started_at: Option<i64>,
    finished_at: Option<i64>,
}

impl Record {
    fn read(row: &Row<'_>) -> Result<Self, StoreError> {
        let amount = |at| row.int(at).map(Micros::new);
        Ok(Self {
            id: row.text(0)?,
            provider: row.text(1)?,
            state: row.text(2)?,
            money: row.text(3)?,
            reserved: amount(4)?,
            cost: amount(5)?,
            tariff: row.text_or_null(6)?,
            bill: row.text_or_null(7)?,
            started_at: row.int_or_null(8)?,
            finished_at: row.int_or_null(9)?,
        })
    }

    fn is_hosted(&self) -> bool {
        self.provider != EMBEDDED
    }

    fn faults(&self, entries: &Entries, sent: &[Sent]) -> Vec<String> {
        let known = (
            TaskState::from_str(&self.state),
            Money::from_str(&self.money),
        );
        let (Ok(state), Ok(money)) = known else {
            return vec![format!(
                "{:?} is no state, or {:?} none of money",
                self.state, self.money
            )];
        };
        let mut faults = Vec::new();
        if !self.adds_up(state, money, entries) {
            faults.push(format!(
                "it is {state} and its money {}; reserved {}, cost {}; the ledger reserves {} ({} times), still holds {}, \
                 settles {} ({} times), releases {} times and adjusts by {}",
                money.name(),
                self.reserved,
                self.cost,
                entries.reserved,
                entries.reserves,
                entries.still_holds,
                entries.settled,
                entries.settles,
                entries.releases,
                entries.adjusted,
            ));
        }
        if state.is_terminal() != self.finished_at.is_some() {
            faults.push(format!(
                "it is {state}, and {} end",
                if state.is_terminal() {
                    "has no"
                } else {
                    "has an"
                }
            ));
        }
        faults.extend(self.mispriced(money, sent));
        faults
    }

    /// Whether the entries are those that the task's state requires; adjustments are the operator's
    /// own, and never give back more than was paid.
    fn adds_up(&self, state: TaskState, money: Money, entries: &Entries) -> bool {
        use TaskState::{Cancelled, Failed, Queued, Running, Succeeded};
        let ends = (entries.settles, entries.releases);
        let is_over = entries.still_holds == Micros::ZERO;
        let is_reserved = (entries.reserves, entries.reserved) == (1, self.reserved);
        let is_adjusted = entries.settled.plus(entries.adjusted) >= Micros::ZERO;
        match money {
            Money::Free => entries.count == 0 && [self.cost, self.reserved] == [Micros::ZERO; 2],
            Money::Held => {
                matches!(state, Queued | Running | Cancelled)
                    && is_reserved
                    && entries.still_holds == self.reserved
                    && self.cost == self.reserved
                    && (ends, entries.adjusts) == ((0, 0), 0)
            }
            Money::Settled => {
                matches!(state, Succeeded | Cancelled)
                    && is_reserved
                    && is_over
                    && is_adjusted
                    && entries.settled == self.cost
                    && ends == (1, 0)
            }
            Money::Released => {
                matches!(state, Failed | Cancelled)
                    && is_reserved
                    && is_over
                    && is_adjusted
                    && self.cost == Micros::ZERO
                    && ends == (0, 1)
            }
        }
    }

    /// The bill must say what was charged, and the prices from when the task was accepted lead to both.
    fn mispriced(&self, money: Money, sent: &[Sent]) -> Vec<String> {
        let mut faults = Vec::new();
        let tariff = self.tariff.as_deref().map(serde_json::from_str::<Tariff>);
        let bill = self.bill.as_deref().map(serde_json::from_str::<Bill>);
        let (Ok(tariff), Ok(bill)) = (tariff.transpose(), bill.transpose()) else {
            faults.push("its prices or its bill cannot be read".to_owned());
            return faults;
        };
        if let Some(tariff) = tariff.as_ref().filter(|_| money != Money::Free)
            && tariff.reserve() != self.reserved
        {
            faults.push(format!(
                "{} were reserved for it; by its prices that is {}",
                self.reserved,
                tariff.reserve()
            ));
        }
        let Some(bill) = bill else {
            if money == Money::Settled {
                faults.push(format!("it cost {} and has no bill", self.cost));
            }
            return faults;
        };
        if money != Money::Settled {
            faults.push(format!(
                "it has a bill of {}, and its money is {}",
                bill.cost,
                money.name()
            ));
        } else if bill.cost != self.cost {
            faults.push(format!(
                "its bill says {}; it cost {}",
                bill.cost, self.cost
            ));
        }
        let by_price = bill.price.map(|price| price.of(bill.quantity));
        if let Some(cost) = by_price.map(|cost| cost.min(self.reserved))
            && cost != bill.cost
        {
            faults.push(format!(
                "its bill says {}; by its price and quantity that is {cost}",
                bill.cost
            ));
        }
        let made = sent.iter().rev().find(|one| one.state != "refused");
        let price = tariff.as_ref().map(|tariff| {
            made.map_or(tariff.price, |made| {
                tariff.price_by(&made.provider, &made.route_model)
            })
        });
        if price.is_some_and(|price| price != bill.price) {
            faults.push("its bill has another price than it was accepted at".to_owned());
        }
        faults
    }
}
