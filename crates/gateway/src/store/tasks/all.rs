//! The operator's list of tasks, of every account.

use super::list::Bounds;
use super::{Filter, Page, task};
use crate::clock::Timestamp;
use crate::error::ErrorCode;
use crate::ids::{AccountId, TaskId};
use crate::model::task::{Kind, Task, TaskState};
use crate::store::{Conn, StoreError};

/// A list in either direction; the condition that selects the index is spliced in.
macro_rules! list {
    ($ascending:expr, $narrowed:literal) => {
        if $ascending {
            list!(@ $narrowed, "id")
        } else {
            list!(@ $narrowed, "id DESC")
        }
    };
    (@ $narrowed:literal, $order:literal) => {
        concat!(
            "SELECT ", columns!(), " FROM tasks WHERE id > ?1 AND id < ?2", $narrowed,
            " AND (CAST(?4 AS TEXT) IS NULL OR kind = ?4) AND (CAST(?5 AS TEXT) IS NULL OR state = ?5)
             AND (CAST(?6 AS TEXT) IS NULL OR model = ?6) AND (CAST(?7 AS TEXT) IS NULL OR key_id = ?7)
             AND (CAST(?8 AS TEXT) IS NULL OR error_code = ?8) AND created_at >= ?9 AND created_at < ?10
             AND (CAST(?11 AS TEXT) IS NULL OR account_id = ?11) AND (CAST(?12 AS TEXT) IS NULL OR provider = ?12)
             ORDER BY ", $order, " LIMIT ?3"
        )
    };
}

/// A page of the tasks of all accounts, or of one. The filter's terms are ignored: words belong to
/// an account.
pub fn page_of_all(
    conn: &mut Conn<'_>,
    account: Option<AccountId>,
    provider: Option<&str>,
    filter: &Filter,
    page: Page<TaskId>,
) -> Result<Vec<Task>, StoreError> {
    let bounds = Bounds::new(filter, page);
    let ascending = page.ascending;
    let is_open = matches!(filter.state, Some(TaskState::Queued | TaskState::Running));
    let sql = match (is_open, provider) {
        (true, _) => list!(ascending, " AND state IN ('queued', 'running')"),
        (false, Some(_)) => list!(ascending, " AND provider = ?12"),
        (false, None) => list!(ascending, ""),
    };
    let account = account.map(|id| id.to_string());
    let key = filter.key.map(|key| key.to_string());
    conn.all(
        sql,
        &[
            (&bounds.from).into(),
            (&bounds.to).into(),
            i64::from(page.limit).into(),
            filter.kind.map(Kind::name).into(),
            filter.state.map(TaskState::name).into(),
            filter.model.as_ref().into(),
            key.as_ref().into(),
            filter.error.map(ErrorCode::name).into(),
            filter.since.map_or(i64::MIN, Timestamp::micros).into(),
            filter.until.map_or(i64::MAX, Timestamp::micros).into(),
            account.as_ref().into(),
            provider.into(),
        ],
        task,
    )
}
