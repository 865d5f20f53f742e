//! The operator's list of tasks, of every account.

use super::{Filter, Page, task};
use crate::ids::{AccountId, TaskId};
use crate::model::task::{Kind, Task, TaskState};
use crate::store::{Conn, StoreError};

/// A list in either direction; the condition that selects the index is spliced in.
macro_rules! list {
    ($ascending:expr, $narrowed:literal) => {
        if $ascending {
            list!(@ "id > ?1", $narrowed, "id")
        } else {
            list!(@ "id < ?1", $narrowed, "id DESC")
        }
    };
    (@ $behind:literal, $narrowed:literal, $order:literal) => {
        concat!(
            "SELECT ", columns!(), " FROM tasks WHERE ", $behind, $narrowed,
            " AND (CAST(?3 AS TEXT) IS NULL OR kind = ?3) AND (CAST(?4 AS TEXT) IS NULL OR state = ?4)
             AND (CAST(?5 AS TEXT) IS NULL OR model = ?5) AND (CAST(?6 AS TEXT) IS NULL OR account_id = ?6)
             AND (CAST(?7 AS TEXT) IS NULL OR provider = ?7) AND (CAST(?8 AS BIGINT) = 0 OR deleted_at IS NULL)
             ORDER BY ", $order, " LIMIT ?2"
        )
    };
}

/// A page of the tasks of all accounts, or of one.
pub fn page_of_all(
    conn: &mut Conn<'_>,
    account: Option<AccountId>,
    provider: Option<&str>,
    filter: &Filter,
    page: Page<TaskId>,
) -> Result<Vec<Task>, StoreError> {
    let ascending = page.ascending;
    let is_open = matches!(filter.state, Some(TaskState::Queued | TaskState::Running));
    let sql = match (is_open, provider) {
        (true, _) => list!(ascending, " AND state IN ('queued', 'running')"),
        (false, Some(_)) => list!(ascending, " AND provider = ?7"),
        (false, None) => list!(ascending, ""),
    };
    let after = page.after.map(|id| id.to_string());
    // Sorts before, or after, every id.
    let end = if ascending { "" } else { "g" };
    let account = account.map(|id| id.to_string());
    conn.all(
        sql,
        &[
            after.as_deref().unwrap_or(end).into(),
            i64::from(page.limit).into(),
            filter.kind.map(Kind::name).into(),
            filter.state.map(TaskState::name).into(),
            filter.model.as_ref().into(),
            account.as_ref().into(),
            provider.into(),
            filter.without_deleted.into(),
        ],
        task,
    )
}
