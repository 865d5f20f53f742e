//! Lists of an account's tasks: filters, search and pages.
//!
//! A list is read in the order of ids, by the index of the condition that the fewest tasks meet;
//! the other conditions are checked for each row. The number of tasks that meet a condition is
//! counted only up to a limit, so choosing the index is cheap.

use std::time::Duration;

use crate::columns::TableRecord as _;
use crate::conn::to_json;
use crate::page::PageQuery;
use crate::{Conn, SqlValue, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::{AccountId, KeyId, TaskId};
use mediagate_model::search_terms;
use mediagate_model::task::{MediaKind, Task, TaskPayload, TaskState};

/// Which tasks to list.
#[derive(Debug, Clone, Default)]
pub struct TaskFilter {
    /// Only tasks of this kind.
    pub kind: Option<MediaKind>,
    /// Only in this state.
    pub state: Option<TaskState>,
    pub model: Option<String>,
    /// Only those that this key ordered.
    pub key: Option<KeyId>,
    /// Only those that ended with this code.
    pub error: Option<ErrorCode>,
    /// Only those that this provider accepted.
    pub provider: Option<String>,
    /// Only those accepted at this time or later.
    pub since: Option<Timestamp>,
    /// Only those accepted before this time.
    pub until: Option<Timestamp>,
    /// Only those with all of these terms ([`search_terms`]).
    pub terms: Vec<i64>,
    /// Only the task with this id.
    pub id: Option<TaskId>,
    /// Without those deleted from the Videos API's list.
    pub without_deleted: bool,
}

/// A term that the task must have, if one is given. The subquery has an offset because Postgres
/// might otherwise read all tasks with the term at once, and a common term has many.
macro_rules! term {
    ($id:literal, $number:literal) => {
        concat!(
            " AND (CAST(?",
            $number,
            " AS BIGINT) IS NULL OR EXISTS (SELECT 1 FROM task_words o WHERE o.term = ?",
            $number,
            " AND o.task_id = ",
            $id,
            " LIMIT 1 OFFSET 0))"
        )
    };
}

/// A list in either direction. The condition that selects the index is spliced into the text: a
/// planner uses no index for a condition that may be NULL. The other columns are compared as
/// expressions, such as `kind || ''`, so that Postgres, which plans with the values, cannot choose
/// another index. The far end of the page, if there is one, is spliced in as well: given both ends,
/// `SQLite` considers every index of the account equally good.
macro_rules! list {
    ($direction:expr, words) => {
        // A cross join keeps SQLite to this order of the tables. The other terms are looked up
        // before the task is read.
        list!($direction, "task_words w CROSS JOIN tasks", "w.task_id", " AND w.term = ?13 AND tasks.id = w.task_id", "")
    };
    ($direction:expr, $condition:literal) => {
        list!($direction, "tasks", "tasks.id", $condition, term!("tasks.id", "13"))
    };
    ($direction:expr, $from:literal, $id:literal, $condition:literal, $first_term:expr) => {
        match $direction {
            ListDirection::Up => list!(@ $from, $id, " > ?2 AND CAST(?3 AS TEXT) IS NOT NULL", $condition, "", $first_term),
            ListDirection::UpTo => list!(@ $from, $id, concat!(" > ?2 AND ", $id, " < ?3"), $condition, "", $first_term),
            ListDirection::Down => list!(@ $from, $id, " < ?3 AND CAST(?2 AS TEXT) IS NOT NULL", $condition, " DESC", $first_term),
            ListDirection::DownTo => list!(@ $from, $id, concat!(" < ?3 AND ", $id, " > ?2"), $condition, " DESC", $first_term),
        }
    };
    (@ $from:literal, $id:literal, $bounds:expr, $condition:literal, $order:literal, $first_term:expr) => {
        concat!(
            "SELECT ", columns!(), " FROM ", $from, " WHERE account_id = ?1 AND ", $id, $bounds, $condition,
            " AND (CAST(?5 AS TEXT) IS NULL OR kind || '' = ?5) AND (CAST(?6 AS TEXT) IS NULL OR state || '' = ?6)
             AND (CAST(?7 AS TEXT) IS NULL OR model || '' = ?7) AND (CAST(?8 AS TEXT) IS NULL OR key_id || '' = ?8)
             AND (CAST(?9 AS TEXT) IS NULL OR error_code || '' = ?9) AND created_at >= ?10 AND created_at < ?11
             AND (CAST(?12 AS BIGINT) = 0 OR deleted_at IS NULL) AND (CAST(?21 AS TEXT) IS NULL OR provider || '' = ?21)",
            $first_term, term!($id, "14"), term!($id, "15"), term!($id, "16"), term!($id, "17"), term!($id, "18"),
            term!($id, "19"), term!($id, "20"),
            " ORDER BY ", $id, $order, " LIMIT ?4"
        )
    };
}

/// The direction of a list, and whether it has a far end.
#[derive(Debug, Clone, Copy)]
enum ListDirection {
    Up,
    UpTo,
    Down,
    DownTo,
}

/// A page of the account's tasks.
pub fn page(
    conn: &mut Conn<'_>,
    account: AccountId,
    filter: &TaskFilter,
    page: PageQuery<TaskId>,
) -> Result<Vec<Task>, StoreError> {
    let bounds = IdBounds::new(filter, page);
    if bounds.from >= bounds.to {
        return Ok(Vec::new());
    }
    let account = account.to_string();
    let (index, rarest) = choose_index(conn, &account, filter, &bounds)?;
    let direction = bounds.direction(page.ascending);
    let sql = match index {
        IndexChoice::Words => list!(direction, words),
        IndexChoice::Nothing => list!(direction, ""),
        IndexChoice::Error => list!(direction, " AND error_code = ?9"),
        IndexChoice::Key => list!(direction, " AND key_id = ?8"),
        IndexChoice::State => list!(direction, " AND state = ?6"),
        IndexChoice::Model => list!(direction, " AND model = ?7"),
        IndexChoice::Kind => list!(direction, " AND kind = ?5"),
        IndexChoice::KindAndShown => list!(direction, " AND kind = ?5 AND deleted_at IS NULL"),
    };
    let key = filter.key.map(|key| key.to_string());
    let mut values: Vec<SqlValue<'_>> = vec![
        (&account).into(),
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
        filter.without_deleted.into(),
    ];
    let terms = filter.terms.iter().copied().map(Some);
    let terms = terms
        .chain(std::iter::repeat(None))
        .take(search_terms::MAX_QUERY_TERMS);
    let mut terms: Vec<Option<i64>> = terms.collect();
    // The first term selects the rows, so it has to be the rarest one.
    terms.swap(0, rarest);
    values.extend(terms.into_iter().map(SqlValue::from));
    values.push(filter.provider.as_ref().into());
    conn.all(sql, &values, Task::from_row)
}

/// Texts that sort before, and after, every id.
const ENDS: (&str, &str) = ("", "g");

/// The ids between which a page lies, both exclusive.
pub(super) struct IdBounds {
    pub(super) from: String,
    pub(super) to: String,
}

impl IdBounds {
    pub(super) fn new(filter: &TaskFilter, page: PageQuery<TaskId>) -> Self {
        /// Maximum difference between the clocks of the processes that generate ids.
        const MAX_CLOCK_SKEW: Duration = Duration::from_hours(2);
        // Ids begin with the time at which they were generated, so a span of time is a range of
        // ids. The exact times are checked for each row.
        let after = page.after.map(|id| id.to_string());
        let since = filter
            .since
            .map(|since| first_id(since.minus(MAX_CLOCK_SKEW)));
        let until = filter
            .until
            .map(|until| first_id(until.plus(MAX_CLOCK_SKEW)));
        let (from, to) = if page.ascending {
            (since.max(after), until)
        } else {
            (since, [until, after].into_iter().flatten().min())
        };
        let (mut from, mut to) = (
            from.unwrap_or_default(),
            to.unwrap_or_else(|| ENDS.1.into()),
        );
        if let Some(id) = filter.id {
            let id = id.to_string();
            // The bounds are directly before and directly after this one id.
            from = from.max(id.chars().take(id.len() - 1).collect());
            to = to.min(format!("{id}g"));
        }
        Self { from, to }
    }

    fn direction(&self, ascending: bool) -> ListDirection {
        match (ascending, self.from == ENDS.0, self.to == ENDS.1) {
            (true, _, true) => ListDirection::Up,
            (true, _, false) => ListDirection::UpTo,
            (false, true, _) => ListDirection::Down,
            (false, false, _) => ListDirection::DownTo,
        }
    }
}

/// A text that sorts before the ids generated at this time or later.
pub(crate) fn first_id(time: Timestamp) -> String {
    // A UUID of version 7 begins with 48 bits of milliseconds (RFC 9562).
    let milliseconds = u64::try_from(time.micros() / 1000).unwrap_or(0);
    let digits = format!("{:012x}", milliseconds.min(0xffff_ffff_ffff));
    let (high, low) = digits.split_at(8);
    format!("{high}-{low}")
}

/// The part of a filter for which an index is used; the rest is checked per row. Variants are in
/// order of preference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum IndexChoice {
    Words,
    Error,
    Key,
    Model,
    State,
    KindAndShown,
    Kind,
    Nothing,
}

/// Limits up to which rows are counted; the second one if all conditions reach the first.
const COUNT_LIMITS: [i64; 2] = [1000, 20_000];

/// Counts the tasks that meet a condition and are newer than an id, up to one of the two limits.
macro_rules! count {
    ($condition:literal) => {
        count!("tasks WHERE account_id = ?1 AND ", $condition, " AND id > ?3")
    };
    ($($from:literal),*) => {
        [
            concat!("SELECT COUNT(*) FROM (SELECT 1 FROM ", $($from,)* " LIMIT 1000) AS few"),
            concat!("SELECT COUNT(*) FROM (SELECT 1 FROM ", $($from,)* " LIMIT 20000) AS few"),
        ]
    };
}

const COUNT_WITH_TERM: [&str; 2] = count!(
    "task_words WHERE term = ?1",
    " AND task_id > ?2 AND task_id < ?3"
);

/// The condition that the fewest tasks meet, and the index of the term if it is a term.
fn choose_index(
    conn: &mut Conn<'_>,
    account: &str,
    filter: &TaskFilter,
    bounds: &IdBounds,
) -> Result<(IndexChoice, usize), StoreError> {
    // The bounds leave one id, so no other index is needed.
    if filter.id.is_some() {
        return Ok((IndexChoice::Nothing, 0));
    }
    let key = filter.key.map(|key| key.to_string());
    let state = filter.state.map(TaskState::name);
    let error = filter.error.map(ErrorCode::name);
    let kind = filter.kind.map(MediaKind::name);
    let kind_index = if filter.without_deleted {
        IndexChoice::KindAndShown
    } else {
        IndexChoice::Kind
    };
    let conditions: Vec<(IndexChoice, [&'static str; 2], &str)> = [
        (IndexChoice::Error, count!("error_code = ?2"), error),
        (IndexChoice::Key, count!("key_id = ?2"), key.as_deref()),
        (
            IndexChoice::Model,
            count!("model = ?2"),
            filter.model.as_deref(),
        ),
        (IndexChoice::State, count!("state = ?2"), state),
        (kind_index, count!("kind = ?2"), kind),
    ]
    .into_iter()
    .filter_map(|(index, sql, value)| Some((index, sql, value?)))
    .collect();
    if conditions.len() + filter.terms.len() < 2 {
        let condition_index = conditions.first().map(|(index, _, _)| *index);
        let term_index = filter.terms.first().map(|_| IndexChoice::Words);
        return Ok((
            condition_index
                .or(term_index)
                .unwrap_or(IndexChoice::Nothing),
            0,
        ));
    }
    let mut choice = (IndexChoice::Nothing, 0);
    for (pass, limit) in COUNT_LIMITS.into_iter().enumerate() {
        let mut counts = Vec::new();
        for (position, term) in filter.terms.iter().enumerate() {
            let sql = COUNT_WITH_TERM[pass];
            let values = [(*term).into(), (&bounds.from).into(), (&bounds.to).into()];
            let count = conn.one(sql, &values, |row| row.int(0))?;
            counts.push((count.unwrap_or(0), IndexChoice::Words, position));
        }
        for (index, sql, value) in &conditions {
            let values = [account.into(), (*value).into(), (&bounds.from).into()];
            let count = conn.one(sql[pass], &values, |row| row.int(0))?;
            counts.push((count.unwrap_or(0), *index, 0));
        }
        if let Some((fewest, index, position)) = counts.into_iter().min() {
            choice = (index, position);
            // If all conditions reach the first limit, the counts cannot be compared, so the
            // counting continues.
            if fewest < limit {
                break;
            }
        }
    }
    Ok(choice)
}

/// Stores the words of a task; repeating the call changes nothing.
pub(super) fn insert_words(
    conn: &mut Conn<'_>,
    id: TaskId,
    account: AccountId,
    payload: &TaskPayload,
) -> Result<(), StoreError> {
    let terms = search_terms::task_terms(account, payload);
    if terms.is_empty() {
        return Ok(());
    }
    let sql = conn.dialect(
        "INSERT INTO task_words (term, task_id) SELECT value, ?1 FROM json_each(?2) WHERE true
         ON CONFLICT (term, task_id) DO NOTHING",
        "INSERT INTO task_words (term, task_id)
         SELECT CAST(json_array_elements_text(CAST(CAST(?2 AS TEXT) AS json)) AS BIGINT), CAST(?1 AS TEXT)
         ON CONFLICT (term, task_id) DO NOTHING",
    );
    let (id, terms) = (id.to_string(), to_json(&terms)?);
    let values = [(&id).into(), (&terms).into()];
    conn.execute(sql, &values).map(|_| ())
}

/// Removes the words of tasks whose records are removed.
pub(crate) fn remove_words(conn: &mut Conn<'_>, tasks: &[TaskId]) -> Result<(), StoreError> {
    for id in tasks {
        // The words are derived from the payload again, because there is no index by task.
        let found = conn.one(
            "SELECT account_id, payload FROM tasks WHERE id = ?1",
            &[(&id.to_string()).into()],
            |row| {
                let account = row.parse(0, "tasks.account_id")?;
                Ok((account, row.json::<TaskPayload>(1, "tasks.payload")?))
            },
        )?;
        let Some((account, payload)) = found else {
            continue;
        };
        let terms = search_terms::task_terms(account, &payload);
        let sql = conn.dialect(
            "DELETE FROM task_words WHERE task_id = ?1 AND term IN (SELECT value FROM json_each(?2))",
            "DELETE FROM task_words WHERE task_id = ?1 AND term = ANY (ARRAY(
             SELECT CAST(json_array_elements_text(CAST(CAST(?2 AS TEXT) AS json)) AS BIGINT)))",
        );
        let (id, terms) = (id.to_string(), to_json(&terms)?);
        let values = [(&id).into(), (&terms).into()];
        conn.execute(sql, &values)?;
    }
    Ok(())
}
