//! Verifies the ledger, a page at a time: each statement reads at most a page of tasks, an account
//! or a day, from one snapshot, whatever is written meanwhile. Nothing is repaired.
//!
//! Held sums must equal the reservations of tasks that may hold money and do; spent and credit sums the
//! sums of the days; a day the sum of its entries; its hours the day; and a task must have exactly
//! the entries that its state requires.

mod hours;

use crate::clock::Timestamp;
use crate::model::money::{Micros, Money};
use crate::model::task::TaskState;
use crate::store::usage::{DAY, day_of};
use crate::store::{Conn, Row, StoreError};

/// Tasks or accounts per page.
const PAGE: i64 = 1000;

/// Some tasks, each with the sums of its entries and its submissions.
macro_rules! entries_of_tasks {
    ($which:literal) => {
        concat!(
            "SELECT t.id, t.state, t.money, t.reserved_micros, t.cost_micros, COUNT(l.id),
                    CAST(COALESCE(SUM(CASE l.kind WHEN 'reserve' THEN l.held_micros ELSE 0 END), 0) AS BIGINT),
                    CAST(COALESCE(SUM(l.held_micros), 0) AS BIGINT),
                    CAST(COALESCE(SUM(CASE l.kind WHEN 'settle' THEN l.spent_micros ELSE 0 END), 0) AS BIGINT),
                    CAST(COALESCE(SUM(CASE l.kind WHEN 'settle' THEN 1 ELSE 0 END), 0) AS BIGINT),
                    CAST(COALESCE(SUM(CASE l.kind WHEN 'release' THEN 1 ELSE 0 END), 0) AS BIGINT),
                    (SELECT COUNT(*) FROM submissions s WHERE s.task_id = t.id AND s.state <> 'refused')
             FROM (SELECT id, state, money, reserved_micros, cost_micros FROM tasks WHERE ", $which, ") AS t
             LEFT JOIN ledger l ON l.task_id = t.id
             GROUP BY t.id, t.state, t.money, t.reserved_micros, t.cost_micros"
        )
    };
}

/// Something that does not add up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// `key`, `account`, `day`, `hours` or `task`.
    pub what: &'static str,
    /// Its id.
    pub id: String,
    /// The problem, with the figures.
    pub why: String,
}

/// A check in progress.
#[derive(Debug, Clone)]
pub struct Check {
    /// Tasks that ended, and days, before this were checked earlier.
    since: Option<Timestamp>,
    next: Next,
    /// Mismatches so far.
    pub found: Vec<Mismatch>,
}

/// What to check next.
#[derive(Debug, Clone)]
enum Next {
    AccountsAfter(String),
    DaysAfter(i64),
    TasksAfter(String),
    EndedAfter(i64, String),
    Nothing,
}

impl Check {
    /// Checks everything.
    pub const fn whole() -> Self {
        Self {
            since: None,
            next: Next::AccountsAfter(String::new()),
            found: Vec::new(),
        }
    }

    /// Checks all sums, and the tasks and days since `since`.
    pub const fn since(since: Timestamp) -> Self {
        Self {
            since: Some(since),
            next: Next::AccountsAfter(String::new()),
            found: Vec::new(),
        }
    }

    /// Checks the next page. Returns whether there is more.
    pub fn step(&mut self, conn: &mut Conn<'_>) -> Result<bool, StoreError> {
        self.next = match self.next.clone() {
            Next::AccountsAfter(id) => self.accounts(conn, &id)?,
            Next::DaysAfter(day) => self.day(conn, day)?,
            Next::TasksAfter(id) => self.tasks(conn, &id)?,
            Next::EndedAfter(at, id) => self.ended(conn, at, &id)?,
            Next::Nothing => Next::Nothing,
        };
        Ok(!matches!(self.next, Next::Nothing))
    }

    fn accounts(&mut self, conn: &mut Conn<'_>, after: &str) -> Result<Next, StoreError> {
        let ids = conn.all(
            "SELECT id FROM accounts WHERE id > ?1 ORDER BY id LIMIT 100",
            &[after.into()],
            |row| row.text(0),
        )?;
        for id in &ids {
            self.found.extend(account(conn, id)?);
            self.found.extend(keys(conn, id)?);
        }
        Ok(match ids.into_iter().last() {
            Some(last) => Next::AccountsAfter(last),
            None => Next::DaysAfter(self.since.map_or(i64::MIN, |since| day_of(since) - 1)),
        })
    }

    fn day(&mut self, conn: &mut Conn<'_>, after: i64) -> Result<Next, StoreError> {
        let first_instant = after.saturating_add(1).saturating_mul(DAY);
        let first_hour = after.saturating_add(1).saturating_mul(hours::HOURS);
        let next = conn.one(
            "SELECT CAST(MIN(day) AS BIGINT) FROM (SELECT MIN(day) AS day FROM daily_sums WHERE day > ?1
             UNION ALL SELECT MIN(created_at) / 86400000000 FROM ledger WHERE created_at >= ?2
             UNION ALL SELECT MIN(hour) / 24 FROM hourly_sums WHERE hour >= ?3) AS days",
            &[after.into(), first_instant.into(), first_hour.into()],
            |row| row.int_or_null(0),
        )?;
        if let Some(day) = next.flatten() {
            self.found.extend(sums_of_day(conn, day)?);
            self.found.extend(hours::of_day(conn, day)?);
            return Ok(Next::DaysAfter(day));
        }
        Ok(match self.since {
            Some(since) => Next::EndedAfter(since.micros(), String::new()),
            None => Next::TasksAfter(String::new()),
        })
    }

    fn tasks(&mut self, conn: &mut Conn<'_>, after: &str) -> Result<Next, StoreError> {
        let page = conn.all(
            "SELECT id FROM tasks WHERE id > ?1 ORDER BY id LIMIT ?2",
            &[after.into(), PAGE.into()],
            |row| row.text(0),
        )?;
        let Some(last) = page.into_iter().last() else {
            return Ok(Next::Nothing);
        };
        let values = [after.into(), (&last).into()];
        let sql = entries_of_tasks!("id > ?1 AND id <= ?2");
        let tasks = conn.all(sql, &values, Entries::read)?;
        self.found
            .extend(tasks.into_iter().flat_map(Entries::mismatches));
        Ok(Next::TasksAfter(last))
    }

    fn ended(&mut self, conn: &mut Conn<'_>, at: i64, id: &str) -> Result<Next, StoreError> {
        let page = conn.all(
            "SELECT finished_at, id FROM tasks WHERE finished_at IS NOT NULL AND (finished_at, id) > (?1, ?2)
             ORDER BY finished_at, id LIMIT ?3",
            &[at.into(), id.into(), PAGE.into()],
            |row| Ok((row.int(0)?, row.text(1)?)),
        )?;
        let Some((last_at, last)) = page.into_iter().last() else {
            return Ok(Next::Nothing);
        };
        let values = [at.into(), id.into(), last_at.into(), (&last).into()];
        let sql = entries_of_tasks!(
            "finished_at IS NOT NULL AND (finished_at, id) > (?1, ?2) AND (finished_at, id) <= (?3, ?4)"
        );
        let tasks = conn.all(sql, &values, Entries::read)?;
        self.found
            .extend(tasks.into_iter().flat_map(Entries::mismatches));
        Ok(Next::EndedAfter(last_at, last))
    }
}

/// The open tasks of an account, which are few, and those that were cancelled while their provider went
/// on: money of any other that is held is a mismatch of its own.
macro_rules! may_hold {
    () => {
        "(SELECT key_id, money, reserved_micros, 1 AS is_open FROM tasks
          WHERE account_id = ?1 AND state IN ('queued', 'running')
          UNION ALL
          SELECT key_id, money, reserved_micros, 0 FROM tasks
          WHERE account_id = ?1 AND money = 'held' AND state = 'cancelled')"
    };
}

/// An account's sums against its tasks and days.
fn account(conn: &mut Conn<'_>, id: &str) -> Result<Vec<Mismatch>, StoreError> {
    let found = conn.one(
        concat!("SELECT held_micros, spent_micros, credit_micros,
                (SELECT CAST(COALESCE(SUM(reserved_micros), 0) AS BIGINT) FROM ", may_hold!(), " AS open WHERE money = 'held'),
                (SELECT CAST(COALESCE(SUM(spent_micros), 0) AS BIGINT) FROM daily_sums WHERE account_id = ?1),
                (SELECT CAST(COALESCE(SUM(credit_micros), 0) AS BIGINT) FROM daily_sums WHERE account_id = ?1)
         FROM accounts WHERE id = ?1"),
        &[id.into()],
        |row| {
            let sums = ["held", "spent", "credited"].into_iter().enumerate();
            sums.map(|(at, name)| differ(row, "account", id, name, at, at + 3))
                .collect::<Result<Vec<_>, _>>()
        },
    )?;
    Ok(found.into_iter().flatten().flatten().collect())
}

/// Sums and counts of an account's keys.
fn keys(conn: &mut Conn<'_>, account: &str) -> Result<Vec<Mismatch>, StoreError> {
    let found = conn.all(
        concat!("SELECT k.id, k.held_micros, k.spent_micros, CAST(COALESCE(o.held, 0) AS BIGINT),
                CAST(COALESCE(d.spent, 0) AS BIGINT), k.open_tasks, CAST(COALESCE(o.open, 0) AS BIGINT)
         FROM api_keys k LEFT JOIN (SELECT key_id, SUM(spent_micros) AS spent FROM daily_sums
                                    WHERE account_id = ?1 GROUP BY key_id) AS d ON d.key_id = k.id
         LEFT JOIN (SELECT key_id, SUM(is_open) AS open,
                           SUM(CASE money WHEN 'held' THEN reserved_micros ELSE 0 END) AS held
                    FROM ", may_hold!(), " AS open GROUP BY key_id) AS o ON o.key_id = k.id
         WHERE k.account_id = ?1"),
        &[account.into()],
        |row| {
            let id = row.text(0)?;
            let (open, counted) = (row.int(5)?, row.int(6)?);
            let miscounted = (open != counted).then(|| Mismatch {
                what: "key",
                id: id.clone(),
                why: format!("has {open} open tasks; there are {counted}"),
            });
            Ok([
                differ(row, "key", &id, "held", 1, 3)?,
                differ(row, "key", &id, "spent", 2, 4)?,
                miscounted,
            ])
        },
    )?;
    Ok(found.into_iter().flatten().flatten().collect())
}

fn differ(
    row: &Row<'_>,
    what: &'static str,
    id: &str,
    name: &str,
    kept: usize,
    summed: usize,
) -> Result<Option<Mismatch>, StoreError> {
    let (kept, summed) = (Micros::new(row.int(kept)?), Micros::new(row.int(summed)?));
    Ok((kept != summed).then(|| Mismatch {
        what,
        id: id.to_owned(),
        why: format!("{name} {kept}; its entries sum to {summed}"),
    }))
}

/// A day's spent and credit sums against its entries.
fn sums_of_day(conn: &mut Conn<'_>, day: i64) -> Result<Vec<Mismatch>, StoreError> {
    let first_instant = day.saturating_mul(DAY);
    conn.all(
        "SELECT account_id, key_id, CAST(SUM(spent) AS BIGINT), CAST(SUM(entries_spent) AS BIGINT),
                CAST(SUM(credit) AS BIGINT), CAST(SUM(entries_credit) AS BIGINT)
         FROM (SELECT account_id, key_id, spent_micros - past_micros AS spent, 0 AS entries_spent,
                      credit_micros AS credit, 0 AS entries_credit
               FROM daily_sums WHERE day = ?1
               UNION ALL
               SELECT account_id, COALESCE(key_id, ''), 0, spent_micros, 0, credit_micros FROM ledger
               WHERE created_at >= ?2 AND created_at < ?3) AS sums
         GROUP BY account_id, key_id HAVING SUM(spent) <> SUM(entries_spent) OR SUM(credit) <> SUM(entries_credit)",
        &[
            day.into(),
            first_instant.into(),
            first_instant.saturating_add(DAY).into(),
        ],
        |row| {
            let amount = |at| row.int(at).map(Micros::new);
            Ok(Mismatch {
                what: "day",
                id: Timestamp::from_micros(first_instant).rfc3339(),
                why: format!(
                    "account {}, key {:?}: spent {} and credited {}; its entries sum to {} and {}",
                    row.text(0)?,
                    row.text(1)?,
                    amount(2)?,
                    amount(4)?,
                    amount(3)?,
                    amount(5)?,
                ),
            })
        },
    )
}

/// A task with the sums of its entries.
struct Entries {
    id: String,
    state: TaskState,
    money: Money,
    reserved: Micros,
    cost: Micros,
    count: i64,
    reserves: Micros,
    still_holds: Micros,
    settles: Micros,
    settled_times: i64,
    released_times: i64,
    /// Submissions that no provider refused.
    sent: i64,
}

impl Entries {
    fn read(row: &Row<'_>) -> Result<Self, StoreError> {
        let amount = |at| row.int(at).map(Micros::new);
        Ok(Self {
            id: row.text(0)?,
            state: row.parse(1, "tasks.state")?,
            money: row.parse(2, "tasks.money")?,
            reserved: amount(3)?,
            cost: amount(4)?,
            count: row.int(5)?,
            reserves: amount(6)?,
            still_holds: amount(7)?,
            settles: amount(8)?,
            settled_times: row.int(9)?,
            released_times: row.int(10)?,
            sent: row.int(11)?,
        })
    }

    /// Whether the entries are those that the task's state requires; adjustments are the operator's
    /// own.
    fn add_up(&self) -> bool {
        use TaskState::{Cancelled, Failed, Queued, Running, Succeeded};
        let ends = (self.settled_times, self.released_times);
        match self.money {
            Money::Free => self.count == 0 && self.cost == Micros::ZERO,
            Money::Held => {
                matches!(self.state, Queued | Running | Cancelled)
                    && self.still_holds == self.reserved
                    && self.cost == self.reserved
                    && ends == (0, 0)
            }
            Money::Settled => {
                matches!(self.state, Succeeded | Cancelled)
                    && self.still_holds == Micros::ZERO
                    && self.settles == self.cost
                    && ends == (1, 0)
            }
            Money::Released => {
                matches!(self.state, Failed | Cancelled)
                    && self.still_holds == Micros::ZERO
                    && self.cost == Micros::ZERO
                    && ends == (0, 1)
            }
        }
    }

    fn mismatches(self) -> impl Iterator<Item = Mismatch> {
        let money = (!self.add_up()).then(|| {
            format!(
                "it is {} and its money {}; reserved {}, cost {}; the ledger reserves {}, still holds {}, settles {} \
                 ({} times) and releases {} times",
                self.state,
                self.money.name(),
                self.reserved,
                self.cost,
                self.reserves,
                self.still_holds,
                self.settles,
                self.settled_times,
                self.released_times
            )
        });
        let sent = (self.sent > 1).then(|| {
            format!(
                "it was submitted {} times without a provider's refusal in between: more than one may have been paid",
                self.sent
            )
        });
        [money, sent]
            .into_iter()
            .flatten()
            .map(move |why| Mismatch {
                what: "task",
                id: self.id.clone(),
                why,
            })
    }
}
