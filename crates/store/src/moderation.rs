//! Verdicts of moderation, summed up by hour, account, key, end user, model, outcome and category.

use crate::columns::{FieldReader, record};
use crate::hourly_sums::hour_of;
use crate::statement::sql;
use crate::{Conn, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, KeyId};

/// What is counted of a verdict.
#[derive(Debug, Clone, Copy)]
pub struct CountedVerdict<'a> {
    pub account: AccountId,
    pub key: KeyId,
    pub user: Option<&'a str>,
    pub model: &'a str,
    /// `allow`, `refuse` or `error`.
    pub outcome: &'static str,
    pub category: Option<&'a str>,
}

/// Counts a verdict.
pub fn add(
    conn: &mut Conn<'_>,
    verdict: CountedVerdict<'_>,
    now: Timestamp,
) -> Result<(), StoreError> {
    sql!(
        "INSERT INTO moderation_sums (hour, account_id, key_id, end_user, model, outcome, category, verdicts)
         VALUES (:hour, :account, :key, :user, :model, :outcome, :category, 1)
         ON CONFLICT (hour, account_id, key_id, end_user, model, outcome, category) DO UPDATE SET
             verdicts = moderation_sums.verdicts + excluded.verdicts",
        hour = hour_of(now),
        account = verdict.account,
        key = verdict.key,
        user = verdict.user.unwrap_or_default(),
        model = verdict.model,
        outcome = verdict.outcome,
        category = verdict.category.unwrap_or_default()
    )
    .execute(conn)?;
    Ok(())
}

/// Which verdicts to sum up, and how to group them. They are always grouped by outcome.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is one way to group")]
pub struct VerdictQuery {
    /// To the hour, as is `until`.
    pub since: Timestamp,
    /// Exclusive.
    pub until: Timestamp,
    pub account: Option<AccountId>,
    pub key: Option<KeyId>,
    pub model: Option<String>,
    pub user: Option<String>,
    pub category: Option<String>,
    pub by_account: bool,
    pub by_key: bool,
    pub by_user: bool,
    pub by_model: bool,
    pub by_category: bool,
}

/// What the verdicts of a row have in common; empty where the query does not group, or where they
/// have no value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct VerdictGroup {
    pub account: String,
    pub key: String,
    pub user: String,
    pub model: String,
    pub category: String,
    pub outcome: String,
}

record! {
    group_columns for VerdictGroup of "moderation_sums" {
        account: "CASE CAST(:by_account AS BIGINT) WHEN 1 THEN account_id ELSE '' END",
        key: "CASE CAST(:by_key AS BIGINT) WHEN 1 THEN key_id ELSE '' END",
        user: "CASE CAST(:by_user AS BIGINT) WHEN 1 THEN end_user ELSE '' END",
        model: "CASE CAST(:by_model AS BIGINT) WHEN 1 THEN model ELSE '' END",
        category: "CASE CAST(:by_category AS BIGINT) WHEN 1 THEN category ELSE '' END",
        outcome: "outcome",
    }
}

/// The numbers of verdicts by group, at most `limit` groups, in no particular order.
pub fn counts(
    conn: &mut Conn<'_>,
    query: &VerdictQuery,
    limit: u32,
) -> Result<Vec<(VerdictGroup, i64)>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            group_columns!(),
            ", CAST(SUM(verdicts) AS BIGINT)
             FROM moderation_sums WHERE hour >= :since AND hour < :until
             AND (CAST(:account AS TEXT) IS NULL OR account_id = :account)
             AND (CAST(:key AS TEXT) IS NULL OR key_id = :key)
             AND (CAST(:user AS TEXT) IS NULL OR end_user = :user)
             AND (CAST(:model AS TEXT) IS NULL OR model = :model)
             AND (CAST(:category AS TEXT) IS NULL OR category = :category)
             GROUP BY 1, 2, 3, 4, 5, 6 LIMIT :limit"
        ),
        since = hour_of(query.since),
        until = hour_of(query.until),
        account = query.account,
        key = query.key,
        user = query.user.as_ref(),
        model = query.model.as_ref(),
        category = query.category.as_ref(),
        by_account = query.by_account,
        by_key = query.by_key,
        by_user = query.by_user,
        by_model = query.by_model,
        by_category = query.by_category,
        limit
    )
    .all(conn, |row| {
        let mut fields = FieldReader::new(row);
        Ok((fields.record()?, fields.field("moderation_sums.verdicts")?))
    })
}

/// Removes the sums of the oldest hour, if it is before this time; returns how many.
pub fn forget_hour(conn: &mut Conn<'_>, before: Timestamp) -> Result<u64, StoreError> {
    sql!(
        "DELETE FROM moderation_sums WHERE hour =
         (SELECT MIN(hour) FROM moderation_sums WHERE hour < :before)",
        before = hour_of(before)
    )
    .execute(conn)
}
