//! Alerts about budgets: which part of which budget was used up. Each is written once.

use crate::columns::{TableRecord as _, insert, record};
use crate::statement::sql;
use crate::{Conn, StoreError};
use mediagate_model::budget::BudgetAlert;
use mediagate_model::clock::Timestamp;

record! {
    columns for BudgetAlert of "budget_alerts" {
        id: "id",
        account: "account_id",
        owner: "owner",
        owner_id: "owner_id",
        period_start: period_start("period_start"),
        budget: "budget_micros",
        percent: "percent",
        used: "used_micros",
        at: "created_at",
    }
}

/// 0 stands for no period, because NULL would be different from itself in the unique index.
fn period_start(stored: i64) -> Option<Timestamp> {
    (stored != 0).then(|| Timestamp::from_micros(stored))
}

/// Writes an alert. Returns false if it was written before.
pub fn insert(conn: &mut Conn<'_>, alert: &BudgetAlert) -> Result<bool, StoreError> {
    let inserted = insert!(conn, "budget_alerts" {
        "id": alert.id,
        "account_id": alert.account,
        "owner": alert.owner,
        "owner_id": alert.owner_id,
        "period_start": alert.period_start.map_or(0, Timestamp::micros),
        "budget_micros": alert.budget,
        "percent": alert.percent,
        "used_micros": alert.used,
        "created_at": alert.at,
    } "ON CONFLICT (account_id, owner, owner_id, period_start, budget_micros, percent) DO NOTHING")?;
    Ok(inserted == 1)
}

/// Alerts that were written at or after `since`, the oldest first.
pub fn since(
    conn: &mut Conn<'_>,
    since: Timestamp,
    limit: u32,
) -> Result<Vec<BudgetAlert>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            columns!(),
            " FROM budget_alerts WHERE created_at >= :since ORDER BY created_at, id LIMIT :limit"
        ),
        since,
        limit
    )
    .all(conn, BudgetAlert::from_row)
}
