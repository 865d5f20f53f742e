//! The operator's list of the tasks of all accounts.
//!
//! If no index over all accounts serves the filter, only a limited number of the newest tasks is
//! read, which is enough for a page unless matching tasks are rare. If they are, each account's own
//! list is queried by its indexes, and the pages are merged.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::list::{self, IdBounds};
use super::{PageQuery, TaskFilter};
use crate::columns::TableRecord as _;
use crate::conn::to_json;
use crate::{Conn, StoreError, accounts};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::{AccountId, TaskId};
use mediagate_model::task::{MediaKind, Task, TaskState};

/// Number of tasks that are read before the accounts are queried one by one.
const MAX_SCANNED: i64 = 2000;

/// A list in either direction; the condition that selects the index is spliced in.
macro_rules! list {
    ($ascending:expr, $condition:literal) => {
        if $ascending {
            list!(@ $condition, "id")
        } else {
            list!(@ $condition, "id DESC")
        }
    };
    (@ $condition:literal, $order:literal) => {
        concat!(
            "SELECT ", columns!(), " FROM (SELECT * FROM tasks WHERE id > ?1 AND id < ?2", $condition,
            " ORDER BY ", $order, " LIMIT ?12) AS newest
             WHERE (CAST(?4 AS TEXT) IS NULL OR kind = ?4) AND (CAST(?5 AS TEXT) IS NULL OR state = ?5)
             AND (CAST(?6 AS TEXT) IS NULL OR model = ?6) AND (CAST(?7 AS TEXT) IS NULL OR key_id = ?7)
             AND (CAST(?8 AS TEXT) IS NULL OR error_code = ?8) AND created_at >= ?9 AND created_at < ?10
             AND (CAST(?11 AS TEXT) IS NULL OR provider = ?11)
             ORDER BY ", $order, " LIMIT ?3"
        )
    };
}

/// A page of the tasks of all accounts. The filter's terms are ignored: terms differ from account
/// to account.
pub fn page_of_all(
    conn: &mut Conn<'_>,
    filter: &TaskFilter,
    page: PageQuery<TaskId>,
) -> Result<Vec<Task>, StoreError> {
    let is_open = matches!(filter.state, Some(TaskState::Queued | TaskState::Running));
    let is_unfiltered = filter.kind.is_none()
        && filter.state.is_none()
        && filter.model.is_none()
        && filter.key.is_none()
        && filter.error.is_none();
    // The result of an index is complete. Otherwise only the newest tasks are read, among which a
    // rare match may be missing.
    let limit = if is_open || is_unfiltered || filter.id.is_some() {
        i64::MAX
    } else {
        MAX_SCANNED
    };
    let tasks = newest(conn, filter, page, is_open, limit)?;
    if limit == i64::MAX || tasks.len() >= page.limit as usize {
        return Ok(tasks);
    }
    // If all tasks were read, the page is short because there are no more.
    if is_all_read(conn, filter, page)? {
        return Ok(tasks);
    }
    let accounts = accounts_with(conn, filter)?;
    merge_pages(conn, accounts, page, |conn, account| {
        list::page(conn, account, filter, page)
    })
}

/// Whether an account has such tasks. The subquery has an offset because Postgres might otherwise
/// read all tasks at once.
macro_rules! has {
    ($number:literal, $column:literal) => {
        concat!(
            "(CAST(?",
            $number,
            " AS TEXT) IS NULL OR EXISTS (SELECT 1 FROM tasks WHERE account_id = accounts.id AND ",
            $column,
            " = ?",
            $number,
            " LIMIT 1 OFFSET 0))"
        )
    };
}

/// The accounts that have a match for each of the conditions, not necessarily in the same task.
fn accounts_with(conn: &mut Conn<'_>, filter: &TaskFilter) -> Result<Vec<AccountId>, StoreError> {
    let key = filter.key.map(|key| key.to_string());
    conn.all(
        concat!(
            "SELECT id FROM accounts WHERE ",
            has!("1", "error_code"),
            " AND ",
            has!("2", "key_id"),
            " AND ",
            has!("3", "model"),
            " AND ",
            has!("4", "state"),
            " AND ",
            has!("5", "kind")
        ),
        &[
            filter.error.map(ErrorCode::name).into(),
            key.as_ref().into(),
            filter.model.as_ref().into(),
            filter.state.map(TaskState::name).into(),
            filter.kind.map(MediaKind::name).into(),
        ],
        |row| row.parse(0, "accounts.id"),
    )
}

/// Whether there are no more tasks than were read.
fn is_all_read(
    conn: &mut Conn<'_>,
    filter: &TaskFilter,
    page: PageQuery<TaskId>,
) -> Result<bool, StoreError> {
    let bounds = IdBounds::new(filter, page);
    let mut values = vec![
        (&bounds.from).into(),
        (&bounds.to).into(),
        MAX_SCANNED.into(),
    ];
    let sql = match &filter.provider {
        Some(provider) => {
            values.push(provider.into());
            "SELECT COUNT(*) FROM (SELECT 1 FROM tasks WHERE provider = ?4 AND id > ?1 AND id < ?2 ORDER BY id LIMIT ?3) AS few"
        }
        None => {
            "SELECT COUNT(*) FROM (SELECT 1 FROM tasks WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT ?3) AS few"
        }
    };
    let count = conn.one(sql, &values, |row| row.int(0))?;
    Ok(count.unwrap_or(0) < MAX_SCANNED)
}

/// A page of the tasks of all accounts that match a search. `terms` returns an account's terms of
/// the search; those of the filter are ignored.
pub fn search_of_all(
    conn: &mut Conn<'_>,
    filter: &TaskFilter,
    page: PageQuery<TaskId>,
    terms: impl Fn(AccountId) -> Vec<i64>,
) -> Result<Vec<Task>, StoreError> {
    let accounts = accounts::ids(conn)?.into_iter();
    let searches = accounts.map(|account| (account, terms(account)));
    let searches: Vec<(AccountId, Vec<i64>)> =
        searches.filter(|(_, terms)| !terms.is_empty()).collect();
    let all_terms = searches.iter().flat_map(|(_, terms)| terms.iter().copied());
    // One statement for all accounts excludes most of them, which have no such words.
    let existing = existing_terms(conn, &all_terms.collect::<Vec<i64>>())?;
    let searches = searches
        .into_iter()
        .filter(|(_, terms)| terms.iter().all(|term| existing.contains(term)));
    merge_pages(conn, searches, page, |conn, (account, terms)| {
        let filter = TaskFilter {
            terms,
            ..filter.clone()
        };
        list::page(conn, account, &filter, page)
    })
}

/// The terms that at least one task has.
fn existing_terms(conn: &mut Conn<'_>, terms: &[i64]) -> Result<HashSet<i64>, StoreError> {
    let sql = conn.dialect(
        "SELECT asked.value FROM json_each(?1) AS asked
         WHERE EXISTS (SELECT 1 FROM task_words WHERE term = asked.value)",
        "SELECT asked.term FROM (SELECT CAST(json_array_elements_text(CAST(CAST(?1 AS TEXT) AS json)) AS BIGINT) AS term) AS asked
         WHERE EXISTS (SELECT 1 FROM task_words WHERE term = asked.term LIMIT 1 OFFSET 0)",
    );
    let terms = to_json(&terms)?;
    let existing = conn.all(sql, &[(&terms).into()], |row| row.int(0))?;
    Ok(existing.into_iter().collect())
}

/// Merges the pages of several accounts.
fn merge_pages<T>(
    conn: &mut Conn<'_>,
    accounts: impl IntoIterator<Item = T>,
    page: PageQuery<TaskId>,
    mut read_page: impl FnMut(&mut Conn<'_>, T) -> Result<Vec<Task>, StoreError>,
) -> Result<Vec<Task>, StoreError> {
    let limit = page.limit as usize;
    let mut tasks = Vec::new();
    for account in accounts {
        tasks.extend(read_page(conn, account)?);
        if tasks.len() > 50 * limit {
            sort_and_truncate(&mut tasks, page);
        }
    }
    sort_and_truncate(&mut tasks, page);
    Ok(tasks)
}

fn sort_and_truncate(tasks: &mut Vec<Task>, page: PageQuery<TaskId>) {
    if page.ascending {
        tasks.sort_by_key(|task| task.id);
    } else {
        tasks.sort_by_key(|task| Reverse(task.id));
    }
    tasks.truncate(page.limit as usize);
}

fn newest(
    conn: &mut Conn<'_>,
    filter: &TaskFilter,
    page: PageQuery<TaskId>,
    is_open: bool,
    limit: i64,
) -> Result<Vec<Task>, StoreError> {
    let bounds = IdBounds::new(filter, page);
    let ascending = page.ascending;
    let sql = match (is_open, &filter.provider) {
        (true, _) => list!(ascending, " AND state IN ('queued', 'running')"),
        (false, Some(_)) => list!(ascending, " AND provider = ?11"),
        (false, None) => list!(ascending, ""),
    };
    let key = filter.key.map(|key| key.to_string());
    conn.all(
        sql,
        &[
            (&bounds.from).into(),
            (&bounds.to).into(),
            i64::from(page.limit).into(),
            filter.kind.map(MediaKind::name).into(),
            filter.state.map(TaskState::name).into(),
            filter.model.as_ref().into(),
            key.as_ref().into(),
            filter.error.map(ErrorCode::name).into(),
            filter.since.map_or(i64::MIN, Timestamp::micros).into(),
            filter.until.map_or(i64::MAX, Timestamp::micros).into(),
            filter.provider.as_ref().into(),
            limit.into(),
        ],
        Task::from_row,
    )
}
