//! End users of callers: the operator's limits for them, and what they have used.
//!
//! Nothing is summed up for the limits. What a user has used is read from the user's open and held
//! tasks and from the hourly sums, by one statement and so at one moment. An order locks the user's
//! row first, so that the sums cannot grow meanwhile.

use crate::attributed_sums::digest;
use crate::columns::{FieldReader, TableRecord as _, record, saturated};
use crate::hourly_sums::hour_of;
use crate::page::PageQuery;
use crate::statement::sql;
use crate::{Conn, StoreError};
use mediagate_model::account::BudgetPeriod;
use mediagate_model::budget::{EVERYONE, UserLimits, UserSums};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, UserLimitsId};

record! {
    columns for UserLimits of "end_user_limits" {
        id: "id",
        account: "account_id",
        user: "end_user",
        budget: "budget_micros",
        period: "budget_period",
        rpm: "rpm",
        max_running: "max_running",
        created_at: "created_at",
    }
}

macro_rules! limits {
    ($rest:literal) => {
        concat!("SELECT ", columns!(), " FROM end_user_limits ", $rest)
    };
}

/// The limits that apply to an end user: its own, or those for everyone.
pub fn limits_for(
    conn: &mut Conn<'_>,
    account: AccountId,
    user: &str,
) -> Result<Option<UserLimits>, StoreError> {
    let found = sql!(
        limits!("WHERE account_id = :account AND end_user IN (:user, :everyone)"),
        account,
        user,
        everyone = EVERYONE
    )
    .all(conn, UserLimits::from_row)?;
    Ok(found.into_iter().max_by_key(|limits| limits.user == user))
}

/// The limits that an operator set for exactly this end user, or for everyone.
pub fn own_limits(
    conn: &mut Conn<'_>,
    account: AccountId,
    user: &str,
) -> Result<Option<UserLimits>, StoreError> {
    sql!(
        limits!("WHERE account_id = :account AND end_user = :user"),
        account,
        user
    )
    .one(conn, UserLimits::from_row)
}

/// Sets limits, or replaces those of the same user.
pub fn put_limits(conn: &mut Conn<'_>, limits: &UserLimits) -> Result<(), StoreError> {
    columns!(insert limits into conn "ON CONFLICT (account_id, end_user) DO UPDATE SET
        budget_micros = excluded.budget_micros, budget_period = excluded.budget_period, rpm = excluded.rpm,
        max_running = excluded.max_running")?;
    Ok(())
}

/// Removes limits. Returns whether there were any.
pub fn remove_limits(conn: &mut Conn<'_>, id: UserLimitsId) -> Result<bool, StoreError> {
    let removed = sql!("DELETE FROM end_user_limits WHERE id = :id", id).execute(conn)?;
    Ok(removed == 1)
}

/// A page of limits, of one account or of all.
pub fn page(
    conn: &mut Conn<'_>,
    account: Option<AccountId>,
    page: PageQuery<UserLimitsId>,
) -> Result<Vec<UserLimits>, StoreError> {
    // Ids are hexadecimal, so every one sorts after '' and before 'g'.
    let PageQuery { after, limit, .. } = page;
    let ascending = page.ascending;
    let Some(account) = account else {
        let statement = if ascending {
            sql!(
                limits!("WHERE id > COALESCE(:after, '') ORDER BY id LIMIT :limit"),
                after,
                limit
            )
        } else {
            sql!(
                limits!("WHERE id < COALESCE(:after, 'g') ORDER BY id DESC LIMIT :limit"),
                after,
                limit
            )
        };
        return statement.all(conn, UserLimits::from_row);
    };
    let statement = if ascending {
        sql!(
            limits!(
                "WHERE account_id = :account AND id > COALESCE(:after, '') ORDER BY id LIMIT :limit"
            ),
            after,
            limit,
            account
        )
    } else {
        sql!(
            limits!(
                "WHERE account_id = :account AND id < COALESCE(:after, 'g') ORDER BY id DESC LIMIT :limit"
            ),
            after,
            limit,
            account
        )
    };
    statement.all(conn, UserLimits::from_row)
}

/// What an end user has used. `period` decides what counts against a budget.
pub fn sums(
    conn: &mut Conn<'_>,
    account: AccountId,
    user: &str,
    period: Option<BudgetPeriod>,
    now: Timestamp,
) -> Result<UserSums, StoreError> {
    let since = period.map_or(i64::MIN, |period| hour_of(period.start(now)));
    // One statement, so that a task that ends meanwhile is either held or charged, not both and not
    // neither. The condition of the index is repeated, so that the planner uses it.
    let sums = sql!(
        "SELECT t.held, t.open_tasks,
            (SELECT CAST(COALESCE(SUM(spent_micros), 0) AS BIGINT) FROM attributed_sums
             WHERE account_id = :account AND attribute = 'user' AND digest = :digest),
            (SELECT CAST(COALESCE(SUM(spent_micros), 0) AS BIGINT) FROM attributed_sums
             WHERE account_id = :account AND attribute = 'user' AND digest = :digest AND hour >= :since)
         FROM (SELECT CAST(COALESCE(SUM(CASE money WHEN 'held' THEN reserved_micros ELSE 0 END), 0) AS BIGINT) AS held,
                      CAST(COALESCE(SUM(CASE WHEN state IN ('queued', 'running') THEN 1 ELSE 0 END), 0) AS BIGINT)
                      AS open_tasks
               FROM tasks WHERE account_id = :account AND end_user = :user AND end_user IS NOT NULL
               AND (money = 'held' OR state IN ('queued', 'running'))) AS t",
        account,
        user,
        digest = digest(user),
        since
    )
    .one(conn, |row| {
        let mut fields = FieldReader::new(row);
        Ok(UserSums {
            held: fields.field("tasks.reserved_micros")?,
            open_tasks: saturated(fields.field("tasks.state")?),
            spent: fields.field("attributed_sums.spent_micros")?,
            counted: fields.field("attributed_sums.spent_micros")?,
        })
    })?;
    Ok(sums.unwrap_or_default())
}

/// Makes other orders for this end user wait until this transaction ends. Returns when all accepted
/// orders would have arrived if they were spread evenly.
pub fn lock(conn: &mut Conn<'_>, account: AccountId, user: &str) -> Result<Timestamp, StoreError> {
    // An update that changes nothing locks the row.
    let tat = sql!(
        "INSERT INTO end_users (account_id, end_user) VALUES (:account, :user)
         ON CONFLICT (account_id, end_user) DO UPDATE SET tat = end_users.tat RETURNING tat",
        account,
        user
    )
    .value::<Timestamp>(conn)?;
    Ok(tat.unwrap_or(Timestamp::from_micros(0)))
}

/// Sets when all accepted orders would have arrived.
pub fn set_arrival(
    conn: &mut Conn<'_>,
    account: AccountId,
    user: &str,
    tat: Timestamp,
) -> Result<(), StoreError> {
    sql!(
        "UPDATE end_users SET tat = :tat WHERE account_id = :account AND end_user = :user",
        account,
        user,
        tat
    )
    .execute(conn)?;
    Ok(())
}
