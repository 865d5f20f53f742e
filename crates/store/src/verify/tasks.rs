//! Check of each task's money against its entries, its bill and its prices.

use std::collections::HashMap;
use std::str::FromStr as _;

use super::Mismatch;
use crate::columns::{FieldReader, TableRecord as _, record};
use crate::statement::numbered;
use crate::{Conn, SqlValue, StoreError};
use mediagate_model::catalog::EMBEDDED;
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::price::{Bill, Tariff, charge};
use mediagate_model::task::TaskState;

#[macro_use]
mod submissions;

use submissions::SubmissionRow;

/// The row of a ledger entry.
struct EntryRow {
    kind: String,
    held: MicroDollars,
    spent: MicroDollars,
}

record! {
    entry_columns for EntryRow of "ledger" {
        kind: "l.kind",
        held: "l.held_micros",
        spent: "l.spent_micros",
    }
}

/// The row of a task.
struct TaskRow {
    id: String,
    provider: String,
    state: String,
    money: String,
    reserved: MicroDollars,
    cost: MicroDollars,
    /// As JSON.
    tariff: Option<String>,
    /// As JSON.
    bill: Option<String>,
    started_at: Option<i64>,
    finished_at: Option<i64>,
}

record! {
    task_columns for TaskRow of "tasks" {
        id: "t.id",
        provider: "t.provider",
        state: "t.state",
        money: "t.money",
        reserved: "t.reserved_micros",
        cost: "t.cost_micros",
        tariff: "t.tariff",
        bill: "t.bill",
        started_at: "t.started_at",
        finished_at: "t.finished_at",
    }
}

/// The statement that reads the tasks `t` selected by `$which`, with `$rest` joined to them.
macro_rules! of_tasks {
    ($columns:expr, $rest:literal, $which:literal) => {
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

/// The three statements about the tasks that `$which` selects, which has parameters of these names.
macro_rules! statements {
    ($which:literal, $names:expr) => {
        TaskStatements {
            tasks: numbered!(of_tasks!(task_columns!(), "", $which), $names),
            entries: numbered!(
                of_tasks!(
                    concat!("l.task_id, ", entry_columns!()),
                    "JOIN ledger l ON l.task_id = t.id",
                    $which
                ),
                $names
            ),
            submissions: numbered!(
                of_tasks!(
                    concat!("s.task_id, ", sent_columns!()),
                    "JOIN submissions s ON s.task_id = t.id",
                    $which
                ),
                $names
            ),
        }
    };
}

struct TaskStatements {
    tasks: &'static str,
    entries: &'static str,
    submissions: &'static str,
}

/// Finds the mismatches of the tasks after one id, up to another.
pub(super) fn between_ids(
    conn: &mut Conn<'_>,
    after: &str,
    last: &str,
) -> Result<Vec<Mismatch>, StoreError> {
    let statements = statements!("id > :after AND id <= :last", ["after", "last"]);
    check(conn, &statements, &[after.into(), last.into()])
}

/// Finds the mismatches of the tasks that ended after one position, up to another; each position is
/// a time and an id.
pub(super) fn between_ends(
    conn: &mut Conn<'_>,
    ((at, id), (last_at, last)): ((i64, &str), (i64, &str)),
) -> Result<Vec<Mismatch>, StoreError> {
    let statements = statements!(
        "finished_at IS NOT NULL AND (finished_at, id) > (:at, :id) AND (finished_at, id) <= (:last_at, :last)",
        ["at", "id", "last_at", "last"]
    );
    let values = [at.into(), id.into(), last_at.into(), last.into()];
    check(conn, &statements, &values)
}

fn check(
    conn: &mut Conn<'_>,
    statements: &TaskStatements,
    values: &[SqlValue<'_>],
) -> Result<Vec<Mismatch>, StoreError> {
    let mut entries: HashMap<String, EntrySums> = HashMap::new();
    conn.all(statements.entries, values, |row| {
        let mut fields = FieldReader::new(row);
        let task_entries = entries.entry(fields.field("ledger.task_id")?);
        task_entries.or_default().add(&fields.record()?);
        Ok(())
    })?;
    let mut submissions: HashMap<String, Vec<SubmissionRow>> = HashMap::new();
    conn.all(statements.submissions, values, |row| {
        let mut fields = FieldReader::new(row);
        let task_submissions = submissions.entry(fields.field("submissions.task_id")?);
        task_submissions.or_default().push(fields.record()?);
        Ok(())
    })?;
    let mut all_mismatches = Vec::new();
    conn.all(statements.tasks, values, |row| {
        let task = TaskRow::from_row(row)?;
        let task_entries = entries.remove(&task.id).unwrap_or_default();
        let mut submissions = submissions.remove(&task.id).unwrap_or_default();
        submissions.sort_by_key(|submission| submission.attempt);
        all_mismatches.extend(task_mismatches(&task, &task_entries, &submissions));
        Ok(())
    })?;
    Ok(all_mismatches)
}

fn task_mismatches(
    task: &TaskRow,
    entries: &EntrySums,
    submissions: &[SubmissionRow],
) -> Vec<Mismatch> {
    let faults = task.faults(entries, submissions);
    let task_mismatches = faults.into_iter().map(|detail| Mismatch {
        kind: "task",
        id: task.id.clone(),
        detail,
    });
    let mut mismatches: Vec<Mismatch> = task_mismatches.collect();
    mismatches.extend(submissions::mismatches(task, submissions));
    mismatches
}

/// The sums of a task's entries.
#[derive(Default)]
struct EntrySums {
    count: u32,
    reserves: u32,
    reserved: MicroDollars,
    still_held: MicroDollars,
    settles: u32,
    settled: MicroDollars,
    releases: u32,
    adjusts: u32,
    adjusted: MicroDollars,
}

impl EntrySums {
    fn add(&mut self, entry: &EntryRow) {
        let EntryRow { kind, held, spent } = entry;
        self.count += 1;
        self.still_held = self.still_held.plus(*held);
        match kind.as_str() {
            "reserve" => {
                self.reserves += 1;
                self.reserved = self.reserved.plus(*held);
            }
            "settle" => {
                self.settles += 1;
                self.settled = self.settled.plus(*spent);
            }
            "release" => self.releases += 1,
            "adjust" => {
                self.adjusts += 1;
                self.adjusted = self.adjusted.plus(*spent);
            }
            _ => {}
        }
    }
}

impl TaskRow {
    fn is_hosted(&self) -> bool {
        self.provider != EMBEDDED
    }

    fn faults(&self, entries: &EntrySums, submissions: &[SubmissionRow]) -> Vec<String> {
        let states = (
            TaskState::from_str(&self.state),
            ChargeState::from_str(&self.money),
        );
        // Rows are read as text here, so that an unknown value is a mismatch and not an error.
        let (Ok(state), Ok(money)) = states else {
            return vec![format!(
                "{:?} is not a valid state of a task, or {:?} is not a valid state of its money",
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
                entries.still_held,
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
        faults.extend(self.price_faults(money, submissions));
        faults
    }

    /// Whether the entries are those that the task's state requires; the operator may make any
    /// adjustments that do not refund more than was paid.
    fn adds_up(&self, state: TaskState, money: ChargeState, entries: &EntrySums) -> bool {
        use TaskState::{Cancelled, Failed, Queued, Running, Succeeded};
        let ends = (entries.settles, entries.releases);
        let is_over = entries.still_held == MicroDollars::ZERO;
        let is_reserved = (entries.reserves, entries.reserved) == (1, self.reserved);
        let is_adjusted = entries.settled.plus(entries.adjusted) >= MicroDollars::ZERO;
        match money {
            ChargeState::Free => {
                entries.count == 0 && [self.cost, self.reserved] == [MicroDollars::ZERO; 2]
            }
            ChargeState::Held => {
                matches!(state, Queued | Running | Cancelled)
                    && is_reserved
                    && entries.still_held == self.reserved
                    && self.cost == self.reserved
                    && (ends, entries.adjusts) == ((0, 0), 0)
            }
            ChargeState::Settled => {
                matches!(state, Succeeded | Cancelled)
                    && is_reserved
                    && is_over
                    && is_adjusted
                    && entries.settled == self.cost
                    && ends == (1, 0)
            }
            ChargeState::Released => {
                matches!(state, Failed | Cancelled)
                    && is_reserved
                    && is_over
                    && is_adjusted
                    && self.cost == MicroDollars::ZERO
                    && ends == (0, 1)
            }
        }
    }

    /// The bill must contain the charged amount, and both must follow from the prices at the time
    /// when the task was accepted.
    fn price_faults(&self, money: ChargeState, submissions: &[SubmissionRow]) -> Vec<String> {
        let mut faults = Vec::new();
        let tariff = self.tariff.as_deref().map(serde_json::from_str::<Tariff>);
        let bill = self.bill.as_deref().map(serde_json::from_str::<Bill>);
        let (Ok(tariff), Ok(bill)) = (tariff.transpose(), bill.transpose()) else {
            faults.push("its prices or its bill cannot be read".to_owned());
            return faults;
        };
        if let Some(tariff) = tariff.as_ref().filter(|_| money != ChargeState::Free)
            && tariff.reserve() != self.reserved
        {
            faults.push(format!(
                "{} were reserved for it; by its prices it should be {}",
                self.reserved,
                tariff.reserve()
            ));
        }
        let Some(bill) = bill else {
            if money == ChargeState::Settled {
                faults.push(format!("it cost {} and has no bill", self.cost));
            }
            return faults;
        };
        if money != ChargeState::Settled {
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
        let cost = charge(bill.price, bill.quantity, self.reserved);
        if cost != bill.cost {
            faults.push(format!(
                "its bill says {}; by its price and quantity it should be {cost}",
                bill.cost
            ));
        }
        // The price is that of the route that accepted the task.
        let accepted = submissions
            .iter()
            .rev()
            .find(|submission| submission.state != "refused");
        let price = tariff.as_ref().map(|tariff| {
            accepted.map_or(tariff.price, |accepted| {
                tariff.price_by(&accepted.provider, &accepted.route_model)
            })
        });
        if price.is_some_and(|price| price != bill.price) {
            faults.push("its bill has another price than when it was accepted".to_owned());
        }
        faults
    }
}
