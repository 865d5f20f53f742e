//! The ledger check, a page at a time: each statement reads at most a page of rows, an account or a
//! day, from one snapshot, unaffected by concurrent writes. Nothing is repaired.
//!
//! Every row that money depends on is compared with another: the reservations of keys and accounts
//! with their tasks, their spending with the days, days with entries and ended tasks, hours with
//! days, tasks and jobs, entries with their tasks, tasks with their entries, bills and submissions,
//! and stored intents with the tasks that they refer to.
//!
//! Records that `record_ttl` removed are not a mismatch (`RetentionBounds`).

mod entries;
mod hours;
mod intents;
mod jobs;
mod sums;
mod tasks;

use crate::statement::sql;
use crate::usage::{DAY_MICROS, day_of};
use crate::{Conn, StoreError, record_expiry};
use mediagate_model::clock::Timestamp;

/// Rows per page.
const PAGE: i64 = 1000;

/// Something that does not add up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// `key`, `account`, `day`, `hours`, `entry`, `task`, `submission` or `intent`.
    pub kind: &'static str,
    /// The id of the row.
    pub id: String,
    /// The problem, with the figures.
    pub detail: String,
}

/// From when on rows must exist.
#[derive(Debug, Clone, Copy)]
struct RetentionBounds {
    /// Tasks that ended before this time may have been removed.
    removed_until: i64,
}

impl RetentionBounds {
    fn read(conn: &mut Conn<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            removed_until: record_expiry::removed_until(conn)?,
        })
    }

    /// Whether everything that ended on this day must still exist.
    const fn is_exact_day(self, day: i64) -> bool {
        day.saturating_mul(DAY_MICROS) > self.removed_until
    }
}

/// A check in progress.
#[derive(Debug, Clone)]
pub struct LedgerAudit {
    /// Ended tasks, entries and days before this time were checked earlier.
    since: Option<Timestamp>,
    next: CheckStep,
    /// Mismatches so far.
    pub mismatches: Vec<Mismatch>,
}

/// What to check next.
#[derive(Debug, Clone)]
enum CheckStep {
    AccountsAfter(String),
    DaysAfter(i64),
    EntriesAfter(i64, String),
    TasksAfter(String),
    EndedAfter(i64, String),
    IntentsAfter(String),
    Finished,
}

impl LedgerAudit {
    /// Checks everything.
    pub const fn whole() -> Self {
        Self {
            since: None,
            next: CheckStep::AccountsAfter(String::new()),
            mismatches: Vec::new(),
        }
    }

    /// Checks all sums, and the tasks, entries and days since `since`.
    pub const fn since(since: Timestamp) -> Self {
        Self {
            since: Some(since),
            next: CheckStep::AccountsAfter(String::new()),
            mismatches: Vec::new(),
        }
    }

    /// Checks the next page. Returns whether there is more.
    pub fn step(&mut self, conn: &mut Conn<'_>) -> Result<bool, StoreError> {
        // Read again for each page, because records may be removed during the check.
        let bounds = RetentionBounds::read(conn)?;
        self.next = match self.next.clone() {
            CheckStep::AccountsAfter(id) => self.check_accounts(conn, &id)?,
            CheckStep::DaysAfter(day) => self.check_day(conn, day, bounds)?,
            CheckStep::EntriesAfter(at, id) => self.check_entries(conn, (at, &id))?,
            CheckStep::TasksAfter(id) => self.check_tasks(conn, &id)?,
            CheckStep::EndedAfter(at, id) => self.check_ended_tasks(conn, (at, &id))?,
            CheckStep::IntentsAfter(id) => self.check_intents(conn, &id)?,
            CheckStep::Finished => CheckStep::Finished,
        };
        Ok(!matches!(self.next, CheckStep::Finished))
    }

    fn check_accounts(
        &mut self,
        conn: &mut Conn<'_>,
        after: &str,
    ) -> Result<CheckStep, StoreError> {
        let ids = sql!(
            "SELECT id FROM accounts WHERE id > :after ORDER BY id LIMIT 100",
            after
        )
        .values::<String>(conn)?;
        for id in &ids {
            self.mismatches.extend(sums::of_account(conn, id)?);
            self.mismatches.extend(sums::of_keys(conn, id)?);
        }
        Ok(match ids.into_iter().last() {
            Some(last) => CheckStep::AccountsAfter(last),
            None => CheckStep::DaysAfter(self.since.map_or(i64::MIN, |since| day_of(since) - 1)),
        })
    }

    fn check_day(
        &mut self,
        conn: &mut Conn<'_>,
        after: i64,
        bounds: RetentionBounds,
    ) -> Result<CheckStep, StoreError> {
        let first_instant = after.saturating_add(1).saturating_mul(DAY_MICROS);
        let first_hour = after.saturating_add(1).saturating_mul(hours::HOURS_PER_DAY);
        // Looked up in all tables, so that a day whose sums are missing is found as well.
        let next = sql!(
            "SELECT CAST(MIN(day) AS BIGINT) FROM (SELECT MIN(day) AS day FROM daily_sums WHERE day > :after
             UNION ALL SELECT MIN(created_at) / 86400000000 FROM ledger WHERE created_at >= :first_instant
             UNION ALL SELECT MIN(counted_at) / 86400000000 FROM ledger WHERE counted_at IS NOT NULL
             AND counted_at >= :first_instant
             UNION ALL SELECT MIN(finished_at) / 86400000000 FROM tasks WHERE finished_at IS NOT NULL
             AND finished_at >= :first_instant
             UNION ALL SELECT MIN(ended_at) / 86400000000 FROM submissions WHERE ended_at IS NOT NULL
             AND ended_at >= :first_instant
             UNION ALL SELECT MIN(hour) / 24 FROM hourly_sums WHERE hour >= :first_hour) AS days",
            after,
            first_instant,
            first_hour
        )
        .value::<Option<i64>>(conn)?;
        if let Some(day) = next.flatten() {
            self.mismatches.extend(sums::of_day(conn, day, bounds)?);
            self.mismatches.extend(hours::of_day(conn, day, bounds)?);
            // If records of the day were removed, some of its jobs are missing.
            if bounds.is_exact_day(day) {
                self.mismatches.extend(jobs::of_day(conn, day)?);
            }
            return Ok(CheckStep::DaysAfter(day));
        }
        let since = self.since.map_or(i64::MIN, Timestamp::micros);
        Ok(CheckStep::EntriesAfter(since, String::new()))
    }

    fn check_entries(
        &mut self,
        conn: &mut Conn<'_>,
        after: (i64, &str),
    ) -> Result<CheckStep, StoreError> {
        let (last, mismatches) = entries::page(conn, after)?;
        self.mismatches.extend(mismatches);
        Ok(match (last, self.since) {
            (Some((at, id)), _) => CheckStep::EntriesAfter(at, id),
            (None, Some(since)) => CheckStep::EndedAfter(since.micros(), String::new()),
            (None, None) => CheckStep::TasksAfter(String::new()),
        })
    }

    fn check_tasks(&mut self, conn: &mut Conn<'_>, after: &str) -> Result<CheckStep, StoreError> {
        let page = sql!(
            "SELECT id FROM tasks WHERE id > :after ORDER BY id LIMIT :page",
            after,
            page = PAGE
        )
        .values::<String>(conn)?;
        let Some(last) = page.into_iter().last() else {
            return Ok(CheckStep::IntentsAfter(String::new()));
        };
        self.mismatches
            .extend(tasks::between_ids(conn, after, &last)?);
        Ok(CheckStep::TasksAfter(last))
    }

    fn check_ended_tasks(
        &mut self,
        conn: &mut Conn<'_>,
        (at, id): (i64, &str),
    ) -> Result<CheckStep, StoreError> {
        let page = sql!(
            "SELECT finished_at, id FROM tasks WHERE finished_at IS NOT NULL AND (finished_at, id) > (:at, :id)
             ORDER BY finished_at, id LIMIT :page",
            at,
            id,
            page = PAGE
        )
        .all(conn, |row| Ok((row.field::<i64>("finished_at")?, row.field::<String>("id")?)))?;
        let Some((last_at, last)) = page.into_iter().last() else {
            return Ok(CheckStep::IntentsAfter(String::new()));
        };
        let range = ((at, id), (last_at, last.as_str()));
        self.mismatches.extend(tasks::between_ends(conn, range)?);
        Ok(CheckStep::EndedAfter(last_at, last))
    }

    fn check_intents(&mut self, conn: &mut Conn<'_>, after: &str) -> Result<CheckStep, StoreError> {
        let (last, mismatches) = intents::page(conn, after)?;
        self.mismatches.extend(mismatches);
        Ok(last.map_or(CheckStep::Finished, CheckStep::IntentsAfter))
    }
}

/// The day as it is named in a mismatch.
fn day_name(day: i64) -> String {
    Timestamp::from_micros(day.saturating_mul(DAY_MICROS)).rfc3339()
}
