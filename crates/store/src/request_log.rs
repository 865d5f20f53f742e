//! The log of requests. Entries are only added, in batches, and removed when they are old or too
//! many.
//!
//! An entry's id begins with its time, so a list is read in the order of ids, and a span of time is
//! a range of them.

use crate::columns::{FieldReader, TableRecord as _, record};
use crate::page::PageQuery;
use crate::statement::{dialect_sql, numbered, sql};
use crate::tasks::first_id;
use crate::{Conn, SqlValue, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::{AccountId, KeyId, RequestEntryId};
use mediagate_model::request_log::{RequestEntry, StatusRange};

record! {
    columns for RequestEntry of "requests" {
        id: "id",
        at: "at",
        request_id: "request_id",
        method: "method",
        route: "route",
        status: "status",
        code: "code",
        message: "message",
        account: "account_id",
        key: "key_id",
        model: "model",
        task: "task_id",
        took_ms: "took_ms",
    }
}

/// Adds an entry; one that was added before stays. Of a request with a task, the entry has the
/// task's model: the request may name none, or another name of it.
pub fn insert(conn: &mut Conn<'_>, entry: &RequestEntry) -> Result<(), StoreError> {
    sql!(
        "INSERT INTO requests (id, at, request_id, method, route, status, code, message, account_id, key_id, model,
                               task_id, took_ms)
         VALUES (:id, :at, :request_id, :method, :route, :status, :code, :message, :account, :key,
                 COALESCE((SELECT t.model FROM tasks t WHERE t.id = CAST(:task AS TEXT)), CAST(:model AS TEXT)),
                 CAST(:task AS TEXT), :took_ms)
         ON CONFLICT (id) DO NOTHING",
        id = entry.id,
        at = entry.at,
        request_id = &entry.request_id,
        method = &entry.method,
        route = &entry.route,
        status = entry.status,
        code = &entry.code,
        message = &entry.message,
        account = entry.account,
        key = entry.key,
        model = &entry.model,
        task = entry.task,
        took_ms = entry.took_ms
    )
    .execute(conn)?;
    Ok(())
}

/// Which entries to list or to count.
#[derive(Debug, Clone, Default)]
pub struct RequestFilter {
    pub account: Option<AccountId>,
    pub statuses: Option<StatusRange>,
    pub code: Option<ErrorCode>,
    pub route: Option<String>,
    pub key: Option<KeyId>,
    pub model: Option<String>,
    /// To the millisecond, as is `until`.
    pub since: Option<Timestamp>,
    /// Exclusive.
    pub until: Option<Timestamp>,
    pub request_id: Option<String>,
}

impl RequestFilter {
    /// The values of `filtered!`, in the order of its names.
    fn values(&self, from: &str, to: &str) -> Vec<SqlValue<'static>> {
        let statuses = self.statuses.unwrap_or(StatusRange::ALL);
        vec![
            self.account.into(),
            statuses.lowest.into(),
            statuses.highest.into(),
            self.code.map(|code| code.name().to_owned()).into(),
            self.route.clone().into(),
            self.key.into(),
            self.model.clone().into(),
            self.request_id.clone().into(),
            from.to_owned().into(),
            to.to_owned().into(),
        ]
    }

    /// The ids between which its entries lie; the first may be one of them.
    fn bounds(&self) -> (String, String) {
        let from = self.since.map(first_id).unwrap_or_default();
        // Sorts after every id.
        let to = self.until.map_or_else(|| "g".to_owned(), first_id);
        (from, to)
    }
}

/// The conditions of a filter. The columns are compared as expressions, so that no planner chooses
/// another index than that of the condition before them.
macro_rules! conditions {
    () => {
        "id >= :from AND id < :to AND status >= :lowest AND status <= :highest
         AND (CAST(:account AS TEXT) IS NULL OR account_id || '' = :account)
         AND (CAST(:code AS TEXT) IS NULL OR code || '' = :code)
         AND (CAST(:route AS TEXT) IS NULL OR route = :route)
         AND (CAST(:key AS TEXT) IS NULL OR key_id = :key)
         AND (CAST(:model AS TEXT) IS NULL OR model = :model)
         AND (CAST(:request AS TEXT) IS NULL OR request_id || '' = :request)"
    };
}

/// A text with `conditions!`, and with parameters that are bound after those of the filter.
macro_rules! filtered {
    ($text:expr, [$($name:literal),*]) => {
        numbered!(
            $text,
            ["account", "lowest", "highest", "code", "route", "key", "model", "request", "from", "to", $($name),*]
        )
    };
}

/// A statement of the text between the two, by the index of the narrowest condition, which is
/// spliced in: a planner uses no index for a condition that may be NULL.
macro_rules! by_index {
    ($filter:expr, $before:expr, $after:expr, $names:tt) => {
        if $filter.request_id.is_some() {
            by_index!(@ $before, "request_id = :request AND ", $after, $names)
        } else if $filter.account.is_some() {
            by_index!(@ $before, "account_id = :account AND ", $after, $names)
        } else if $filter.code.is_some() {
            by_index!(@ $before, "code = :code AND ", $after, $names)
        } else {
            by_index!(@ $before, "", $after, $names)
        }
    };
    (@ $before:expr, $condition:literal, $after:expr, $names:tt) => {
        filtered!(concat!($before, " FROM requests WHERE ", $condition, conditions!(), $after), $names)
    };
}

/// A page of the log.
pub fn page(
    conn: &mut Conn<'_>,
    filter: &RequestFilter,
    page: PageQuery<RequestEntryId>,
) -> Result<Vec<RequestEntry>, StoreError> {
    let (mut from, mut to) = filter.bounds();
    if let Some(after) = page.after {
        let after = after.to_string();
        if page.ascending {
            // Directly after this one id.
            from = from.max(format!("{after}-"));
        } else {
            to = to.min(after);
        }
    }
    let sql = if page.ascending {
        by_index!(
            filter,
            concat!("SELECT ", columns!()),
            " ORDER BY id LIMIT :limit",
            ["limit"]
        )
    } else {
        by_index!(
            filter,
            concat!("SELECT ", columns!()),
            " ORDER BY id DESC LIMIT :limit",
            ["limit"]
        )
    };
    let mut values = filter.values(&from, &to);
    values.push(page.limit.into());
    conn.all(sql, &values, RequestEntry::from_row)
}

/// How to group errors.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one way to group")]
pub struct ErrorGrouping {
    pub by_account: bool,
    pub by_code: bool,
    pub by_key: bool,
    pub by_model: bool,
    pub by_route: bool,
    pub by_status: bool,
}

/// What the errors of a row have in common; `None` where the query does not group, or where the
/// entries have no value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ErrorGroup {
    pub account: Option<AccountId>,
    pub code: Option<String>,
    pub key: Option<KeyId>,
    pub model: Option<String>,
    pub route: Option<String>,
    pub status: Option<u32>,
}

/// How many errors a group has, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorCount {
    pub count: i64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
}

record! {
    group_columns for ErrorGroup of "requests" {
        account: "CASE CAST(:by_account AS BIGINT) WHEN 1 THEN account_id END",
        code: "CASE CAST(:by_code AS BIGINT) WHEN 1 THEN code END",
        key: "CASE CAST(:by_key AS BIGINT) WHEN 1 THEN key_id END",
        model: "CASE CAST(:by_model AS BIGINT) WHEN 1 THEN model END",
        route: "CASE CAST(:by_route AS BIGINT) WHEN 1 THEN route END",
        status: "CASE CAST(:by_status AS BIGINT) WHEN 1 THEN status END",
    }
}

record! {
    count_columns for ErrorCount of "requests" {
        count: "COUNT(*)",
        first_at: "CAST(MIN(at) AS BIGINT)",
        last_at: "CAST(MAX(at) AS BIGINT)",
    }
}

/// The numbers of errors among the entries of a filter, at most `limit` groups, the largest first.
pub fn error_counts(
    conn: &mut Conn<'_>,
    filter: &RequestFilter,
    grouping: ErrorGrouping,
    limit: u32,
) -> Result<Vec<(ErrorGroup, ErrorCount)>, StoreError> {
    let (from, to) = filter.bounds();
    let sql = by_index!(
        filter,
        concat!("SELECT ", group_columns!(), ", ", count_columns!()),
        " AND status >= 400 GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY 7 DESC LIMIT :limit",
        [
            "by_account",
            "by_code",
            "by_key",
            "by_model",
            "by_route",
            "by_status",
            "limit"
        ]
    );
    let mut values = filter.values(&from, &to);
    let ErrorGrouping {
        by_account,
        by_code,
        by_key,
        by_model,
        by_route,
        by_status,
    } = grouping;
    let flags = [by_account, by_code, by_key, by_model, by_route, by_status];
    values.extend(flags.map(SqlValue::from));
    values.push(limit.into());
    conn.all(sql, &values, |row| {
        let mut fields = FieldReader::new(row);
        Ok((fields.record()?, fields.record()?))
    })
}

/// Removes at most `limit` entries from before this time, the oldest first; returns how many.
pub fn forget(conn: &mut Conn<'_>, before: Timestamp, limit: u32) -> Result<u64, StoreError> {
    remove_before(conn, &first_id(before), limit)
}

/// Removes at most `limit` of the oldest entries; returns how many.
pub fn remove_oldest(conn: &mut Conn<'_>, limit: u32) -> Result<u64, StoreError> {
    remove_before(conn, "g", limit)
}

fn remove_before(conn: &mut Conn<'_>, before: &str, limit: u32) -> Result<u64, StoreError> {
    // For an IN, Postgres may choose a join that reads the whole table.
    dialect_sql!(
        conn,
        "DELETE FROM requests WHERE id IN
         (SELECT id FROM requests WHERE id < :before ORDER BY id LIMIT :limit)",
        "DELETE FROM requests WHERE id = ANY (ARRAY
         (SELECT id FROM requests WHERE id < :before ORDER BY id LIMIT :limit))",
        before,
        limit
    )
    .execute(conn)
}

/// Removes at most `limit` of the oldest entries of an account, or of those without one; returns
/// how many.
pub fn remove_oldest_of(
    conn: &mut Conn<'_>,
    account: Option<AccountId>,
    limit: u32,
) -> Result<u64, StoreError> {
    match account {
        Some(account) => dialect_sql!(
            conn,
            "DELETE FROM requests WHERE id IN
             (SELECT id FROM requests WHERE account_id = :account ORDER BY id LIMIT :limit)",
            "DELETE FROM requests WHERE id = ANY (ARRAY
             (SELECT id FROM requests WHERE account_id = :account ORDER BY id LIMIT :limit))",
            account,
            limit
        )
        .execute(conn),
        None => dialect_sql!(
            conn,
            "DELETE FROM requests WHERE id IN
             (SELECT id FROM requests WHERE account_id IS NULL ORDER BY id LIMIT :limit)",
            "DELETE FROM requests WHERE id = ANY (ARRAY
             (SELECT id FROM requests WHERE account_id IS NULL ORDER BY id LIMIT :limit))",
            limit
        )
        .execute(conn),
    }
}

/// The number of entries of each account, and of those without one.
pub fn entries_by_account(
    conn: &mut Conn<'_>,
) -> Result<Vec<(Option<AccountId>, u64)>, StoreError> {
    sql!("SELECT account_id, COUNT(*) FROM requests GROUP BY account_id").all(conn, |row| {
        let count = u64::try_from(row.int(1)?).unwrap_or(0);
        Ok((row.parse_or_null(0, "requests.account_id")?, count))
    })
}
