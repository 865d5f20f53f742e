//! Check of the sums of accounts, keys and days against the tasks and entries behind them.

use super::{Mismatch, RetentionBounds, day_name};
use crate::columns::FieldReader;
use crate::statement::sql;
use crate::usage::DAY_MICROS;
use crate::{Conn, StoreError};
use mediagate_model::money::MicroDollars;

/// The open tasks of an account, which are few, and those that were cancelled while their provider
/// continued. Money that is reserved for any other task is a separate mismatch.
macro_rules! may_hold {
    () => {
        "(SELECT key_id, money, reserved_micros, 1 AS is_open FROM tasks
          WHERE account_id = :account AND state IN ('queued', 'running')
          UNION ALL
          SELECT key_id, money, reserved_micros, 0 FROM tasks
          WHERE account_id = :account AND money = 'held' AND state = 'cancelled')"
    };
}

/// Entries that count between `:first_instant` and `:end`: those written in this time, and corrections of tasks
/// that ended in it.
macro_rules! counted_entries {
    ($columns:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM ledger l WHERE l.created_at >= :first_instant AND l.created_at < :end AND l.counted_at IS NULL
             UNION ALL
             SELECT ",
            $columns,
            " FROM ledger l WHERE l.counted_at IS NOT NULL AND l.counted_at >= :first_instant AND l.counted_at < :end"
        )
    };
}

/// Compares an account's sums with its tasks and days.
pub(super) fn of_account(conn: &mut Conn<'_>, id: &str) -> Result<Vec<Mismatch>, StoreError> {
    let mismatches = sql!(
        concat!("SELECT held_micros,
                (SELECT CAST(COALESCE(SUM(reserved_micros), 0) AS BIGINT) FROM ", may_hold!(), " AS open WHERE money = 'held'),
                spent_micros,
                (SELECT CAST(COALESCE(SUM(spent_micros), 0) AS BIGINT) FROM daily_sums WHERE account_id = :account),
                credit_micros,
                (SELECT CAST(COALESCE(SUM(credit_micros), 0) AS BIGINT) FROM daily_sums WHERE account_id = :account)
         FROM accounts WHERE id = :account"),
        account = id
    )
    .one(conn, |row| {
            let mut fields = FieldReader::new(row);
            let sums = ["held", "spent", "credited"].into_iter();
            sums.map(|name| compare_sums(&mut fields, "account", id, name))
                .collect::<Result<Vec<_>, _>>()
        })?;
    Ok(mismatches.into_iter().flatten().flatten().collect())
}

/// Checks the sums and counts of an account's keys.
pub(super) fn of_keys(conn: &mut Conn<'_>, account: &str) -> Result<Vec<Mismatch>, StoreError> {
    let mismatches = sql!(
        concat!("SELECT k.id, k.held_micros, CAST(COALESCE(o.held, 0) AS BIGINT), k.spent_micros,
                CAST(COALESCE(d.spent, 0) AS BIGINT), k.open_tasks, CAST(COALESCE(o.open, 0) AS BIGINT)
         FROM api_keys k LEFT JOIN (SELECT key_id, SUM(spent_micros) AS spent FROM daily_sums
                                    WHERE account_id = :account GROUP BY key_id) AS d ON d.key_id = k.id
         LEFT JOIN (SELECT key_id, SUM(is_open) AS open,
                           SUM(CASE money WHEN 'held' THEN reserved_micros ELSE 0 END) AS held
                    FROM ", may_hold!(), " AS open GROUP BY key_id) AS o ON o.key_id = k.id
         WHERE k.account_id = :account"),
        account
    )
    .all(conn, |row| {
            let mut fields = FieldReader::new(row);
            let id: String = fields.field("api_keys.id")?;
            let held = compare_sums(&mut fields, "key", &id, "held")?;
            let spent = compare_sums(&mut fields, "key", &id, "spent")?;
            let open: i64 = fields.field("api_keys.open_tasks")?;
            let counted: i64 = fields.field("open tasks")?;
            let miscounted = (open != counted).then(|| Mismatch {
                kind: "key",
                id,
                detail: format!("has {open} open tasks; there are {counted}"),
            });
            Ok([held, spent, miscounted])
        })?;
    Ok(mismatches.into_iter().flatten().flatten().collect())
}

/// Compares a stored sum with the sum of its entries.
fn compare_sums(
    fields: &mut FieldReader<'_, '_>,
    kind: &'static str,
    id: &str,
    name: &'static str,
) -> Result<Option<Mismatch>, StoreError> {
    let (stored, summed): (MicroDollars, MicroDollars) = (fields.field(name)?, fields.field(name)?);
    Ok((stored != summed).then(|| Mismatch {
        kind,
        id: id.to_owned(),
        detail: format!("{name} {stored}; its entries sum to {summed}"),
    }))
}

/// Compares a day's sums with its entries and the tasks that ended on it.
pub(super) fn of_day(
    conn: &mut Conn<'_>,
    day: i64,
    bounds: RetentionBounds,
) -> Result<Vec<Mismatch>, StoreError> {
    let mut mismatches = money_of_day(conn, day)?;
    mismatches.extend(counts_of_day(conn, day, bounds.is_exact_day(day))?);
    Ok(mismatches)
}

/// Compares a day's spending and credits with its entries.
fn money_of_day(conn: &mut Conn<'_>, day: i64) -> Result<Vec<Mismatch>, StoreError> {
    let first_instant = day.saturating_mul(DAY_MICROS);
    // The entries of removed tasks no longer exist. `past_micros` is their part of the sum.
    sql!(
        concat!(
            "SELECT account_id, key_id, CAST(SUM(spent) AS BIGINT), CAST(SUM(entries_spent) AS BIGINT),
                CAST(SUM(credit) AS BIGINT), CAST(SUM(entries_credit) AS BIGINT)
         FROM (SELECT account_id, key_id, spent_micros - past_micros AS spent, 0 AS entries_spent,
                      credit_micros AS credit, 0 AS entries_credit
               FROM daily_sums WHERE day = :day
               UNION ALL ",
            counted_entries!(
                "l.account_id, COALESCE(l.key_id, ''), 0, l.spent_micros, 0, l.credit_micros"
            ),
            ") AS sums
         GROUP BY account_id, key_id HAVING SUM(spent) <> SUM(entries_spent) OR SUM(credit) <> SUM(entries_credit)"
        ),
        day,
        first_instant,
        end = first_instant.saturating_add(DAY_MICROS)
    )
    .all(conn, |row| {
            let mut fields = FieldReader::new(row);
            let account: String = fields.field("daily_sums.account_id")?;
            let key: String = fields.field("daily_sums.key_id")?;
            let spent: MicroDollars = fields.field("spent")?;
            let entries_spent: MicroDollars = fields.field("entries_spent")?;
            let credit: MicroDollars = fields.field("credit")?;
            let entries_credit: MicroDollars = fields.field("entries_credit")?;
            Ok(Mismatch {
                kind: "day",
                id: day_name(day),
                detail: format!(
                    "account {account}, key {key:?}: spent {spent} and credited {credit}; its entries sum to {entries_spent} \
                     and {entries_credit}"
                ),
            })
        })
}

/// Compares a day's counts with the tasks that ended on it. If records were removed (not
/// `is_exact`), there may be fewer tasks.
fn counts_of_day(
    conn: &mut Conn<'_>,
    day: i64,
    is_exact: bool,
) -> Result<Vec<Mismatch>, StoreError> {
    let first_instant = day.saturating_mul(DAY_MICROS);
    sql!(
        "SELECT account_id, key_id, model, state, CAST(SUM(counted) AS BIGINT), CAST(SUM(there) AS BIGINT)
         FROM (SELECT account_id, key_id, model, 'succeeded' AS state, succeeded AS counted, 0 AS there
               FROM daily_sums WHERE day = :day
               UNION ALL
               SELECT account_id, key_id, model, 'failed', failed, 0 FROM daily_sums WHERE day = :day
               UNION ALL
               SELECT account_id, key_id, model, 'cancelled', cancelled, 0 FROM daily_sums WHERE day = :day
               UNION ALL
               SELECT account_id, key_id, model, state, 0, 1 FROM tasks
               WHERE finished_at IS NOT NULL AND finished_at >= :first_instant AND finished_at < :end) AS counts
         GROUP BY account_id, key_id, model, state
         HAVING SUM(counted) < SUM(there) OR (CAST(:is_exact AS BIGINT) = 1 AND SUM(counted) <> SUM(there))",
        day,
        first_instant,
        end = first_instant.saturating_add(DAY_MICROS),
        is_exact
    )
    .all(conn, |row| {
            let mut fields = FieldReader::new(row);
            let account: String = fields.field("account_id")?;
            let key: String = fields.field("key_id")?;
            let model: String = fields.field("model")?;
            let state: String = fields.field("state")?;
            let counted: i64 = fields.field("counted")?;
            let existing: i64 = fields.field("there")?;
            Ok(Mismatch {
                kind: "day",
                id: day_name(day),
                detail: format!(
                    "account {account}, key {key}, model {model}: {counted} {state}; there are {existing} such tasks"
                ),
            })
        })
}

pub(super) use counted_entries;
