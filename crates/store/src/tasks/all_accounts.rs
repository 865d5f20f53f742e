//! The operator's list of the tasks of all accounts.
//!
//! If no index over all accounts serves the filter, only a limited number of the newest tasks is
//! read, which is enough for a page unless matching tasks are rare. If they are, each account's own
//! list is queried by its indexes, and the pages are merged.

use std::cmp::Reverse;
use std::collections::HashSet;

use super::list::{self, IdBounds, conditions, filtered};
use super::{PageQuery, TaskFilter};
use crate::columns::TableRecord as _;
use crate::conn::to_json;
use crate::statement::{dialect_sql, sql};
use crate::{Conn, StoreError, accounts};
use mediagate_model::ids::{AccountId, TaskId};
use mediagate_model::task::{Task, TaskState};

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
        filtered!(
            concat!(
                "SELECT ", columns!(), " FROM (SELECT * FROM tasks WHERE id > :from AND id < :to", $condition,
                " ORDER BY ", $order, " LIMIT :scanned) AS newest WHERE ", conditions!(),
                " ORDER BY ", $order, " LIMIT :limit"
            ),
            ["from", "to", "scanned", "limit"]
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
    let is_unfiltered = filter.conditions() == usize::from(filter.provider.is_some());
    // The result of an index is complete. Otherwise only the newest tasks are read, among which a
    // rare match may be missing.
    let has_index = is_open || is_unfiltered || filter.id.is_some() || filter.request.is_some();
    let limit = if has_index { i64::MAX } else { MAX_SCANNED };
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
    ($name:literal, $column:literal) => {
        concat!(
            "(CAST(:",
            $name,
            " AS TEXT) IS NULL OR EXISTS (SELECT 1 FROM tasks WHERE account_id = accounts.id AND ",
            $column,
            " = :",
            $name,
            " LIMIT 1 OFFSET 0))"
        )
    };
}

/// The accounts that have a match for each of the conditions, not necessarily in the same task.
fn accounts_with(conn: &mut Conn<'_>, filter: &TaskFilter) -> Result<Vec<AccountId>, StoreError> {
    let statement = sql!(
        concat!(
            "SELECT id FROM accounts WHERE ",
            has!("error", "error_code"),
            " AND ",
            has!("approval", "approval_state"),
            " AND ",
            has!("key", "key_id"),
            " AND ",
            has!("model", "model"),
            " AND ",
            has!("state", "state"),
            " AND ",
            has!("kind", "kind")
        ),
        error = &filter.error,
        approval = &filter.approval,
        key = &filter.key,
        model = &filter.model,
        state = &filter.state,
        kind = &filter.kind,
    );
    statement.values(conn)
}

/// Whether there are no more tasks than were read.
fn is_all_read(
    conn: &mut Conn<'_>,
    filter: &TaskFilter,
    page: PageQuery<TaskId>,
) -> Result<bool, StoreError> {
    let bounds = IdBounds::new(filter, page);
    macro_rules! count {
        ($condition:literal $(, $provider:ident)?) => {
            sql!(
                concat!(
                    "SELECT COUNT(*) FROM (SELECT 1 FROM tasks WHERE ", $condition,
                    "id > :from AND id < :to ORDER BY id LIMIT :limit) AS few"
                ),
                from = &bounds.from,
                to = &bounds.to,
                limit = MAX_SCANNED
                $(, $provider)?
            )
            .value::<i64>(conn)?
        };
    }
    let count = match &filter.provider {
        Some(provider) => count!("provider = :provider AND ", provider),
        None => count!(""),
    };
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
    let statement = dialect_sql!(
        conn,
        "SELECT asked.value FROM json_each(:terms) AS asked
         WHERE EXISTS (SELECT 1 FROM task_words WHERE term = asked.value)",
        "SELECT asked.term
         FROM (SELECT CAST(json_array_elements_text(CAST(CAST(:terms AS TEXT) AS json)) AS BIGINT) AS term) AS asked
         WHERE EXISTS (SELECT 1 FROM task_words WHERE term = asked.term LIMIT 1 OFFSET 0)",
        terms = to_json(&terms)?,
    );
    let existing = statement.values::<i64>(conn)?;
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
    let sql = if filter.request.is_some() {
        list!(ascending, " AND request_id = :request")
    } else if is_open {
        list!(ascending, " AND state IN ('queued', 'running')")
    } else if filter.provider.is_some() {
        list!(ascending, " AND provider = :provider")
    } else {
        list!(ascending, "")
    };
    let mut values = filter.values();
    values.extend([
        (&bounds.from).into(),
        (&bounds.to).into(),
        limit.into(),
        page.limit.into(),
    ]);
    conn.all(sql, &values, Task::from_row)
}
