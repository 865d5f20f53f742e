//! Lists of an account's tasks: filters, search and pages.
//!
//! A list is read in the order of ids, by the index of the condition that the fewest tasks meet;
//! the other conditions are checked for each row. The number of tasks that meet a condition is
//! counted only up to a limit, so choosing the index is cheap.

use std::time::Duration;

use crate::columns::{TableRecord as _, attribution};
use crate::conn::to_json;
use crate::page::PageQuery;
use crate::statement::{dialect_sql, numbered, sql};
use crate::{Conn, SqlValue, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::{AccountId, KeyId, RequestId, TaskId};
use mediagate_model::search_terms;
use mediagate_model::task::{ApprovalState, MediaKind, Task, TaskPayload, TaskState};

/// Declares the filter. A field with a column is compared with it: such a line is all that the
/// lists need for another condition.
macro_rules! filter {
    (($d:tt) $($(#[$doc:meta])* $field:ident: $type:ty = $column:literal,)+) => {
        /// Which tasks to list.
        #[derive(Debug, Clone, Default)]
        pub struct TaskFilter {
            $($(#[$doc])* pub $field: Option<$type>,)+
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

        impl TaskFilter {
            /// How many columns it compares.
            pub(super) fn conditions(&self) -> usize {
                [$(self.$field.is_some()),+].into_iter().filter(|is_given| *is_given).count()
            }

            /// The values of `filtered!`, in the order of its names.
            pub(super) fn values(&self) -> Vec<SqlValue<'_>> {
                vec![
                    $(SqlValue::from(&self.$field),)+
                    self.since.map_or(i64::MIN, Timestamp::micros).into(),
                    self.until.map_or(i64::MAX, Timestamp::micros).into(),
                ]
            }
        }

        /// The conditions of a filter. The columns are compared as expressions, such as
        /// `kind || ''`, so that Postgres, which plans with the values, cannot choose another
        /// index.
        macro_rules! conditions {
            () => {
                concat!(
                    "created_at >= :since AND created_at < :until"
                    $(, " AND (CAST(:", stringify!($field), " AS TEXT) IS NULL OR ", $column, " || '' = :",
                      stringify!($field), ")")+
                )
            };
        }

        /// A text with `conditions!`, and with parameters that are bound after those of the filter.
        macro_rules! filtered {
            ($d text:expr, [$d($d name:literal),*]) => {
                $crate::statement::numbered!(
                    $d text,
                    [$(stringify!($field),)+ "since", "until", $d($d name),*]
                )
            };
        }
    };
}

filter! {
    ($)
    /// Only tasks of this kind.
    kind: MediaKind = "kind",
    /// Only in this state.
    state: TaskState = "state",
    model: String = "model",
    /// Only those that this key ordered.
    key: KeyId = "key_id",
    /// Only those that ended with this code.
    error: ErrorCode = "error_code",
    /// Only those that this provider accepted.
    provider: String = "provider",
    /// Only those whose approval is in this state.
    approval: ApprovalState = "approval_state",
    /// Only those of the request with this id.
    request: RequestId = "request_id",
}

pub(super) use {conditions, filtered};

/// A term that the task must have, if one is given. The subquery has an offset because Postgres
/// might otherwise read all tasks with the term at once, and a common term has many.
macro_rules! term {
    ($id:literal, $name:literal) => {
        concat!(
            " AND (CAST(:",
            $name,
            " AS BIGINT) IS NULL OR EXISTS (SELECT 1 FROM task_words o WHERE o.term = :",
            $name,
            " AND o.task_id = ",
            $id,
            " LIMIT 1 OFFSET 0))"
        )
    };
}

/// A list in either direction. The condition that selects the index is spliced into the text: a
/// planner uses no index for a condition that may be NULL. The far end of the page, if there is
/// one, is spliced in as well: given both ends, `SQLite` considers every index of the account
/// equally good.
macro_rules! list {
    ($direction:expr, words) => {
        // A cross join keeps SQLite to this order of the tables. The other terms are looked up
        // before the task is read.
        list!(
            $direction, "task_words w CROSS JOIN tasks", "w.task_id", " AND w.term = :term_1 AND tasks.id = w.task_id", ""
        )
    };
    ($direction:expr, $condition:literal) => {
        list!($direction, "tasks", "tasks.id", $condition, term!("tasks.id", "term_1"))
    };
    ($direction:expr, $from:literal, $id:literal, $condition:literal, $first_term:expr) => {
        match $direction {
            ListDirection::Up => list!(@ $from, $id, " > :from AND CAST(:to AS TEXT) IS NOT NULL", $condition, "", $first_term),
            ListDirection::UpTo => list!(@ $from, $id, concat!(" > :from AND ", $id, " < :to"), $condition, "", $first_term),
            ListDirection::Down => list!(@ $from, $id, " < :to AND CAST(:from AS TEXT) IS NOT NULL", $condition, " DESC", $first_term),
            ListDirection::DownTo => list!(@ $from, $id, concat!(" < :to AND ", $id, " > :from"), $condition, " DESC", $first_term),
        }
    };
    (@ $from:literal, $id:literal, $bounds:expr, $condition:literal, $order:literal, $first_term:expr) => {
        filtered!(
            concat!(
                "SELECT ", columns!(), " FROM ", $from, " WHERE account_id = :account AND ", $id, $bounds, $condition,
                " AND ", conditions!(), " AND (CAST(:without_deleted AS BIGINT) = 0 OR deleted_at IS NULL)",
                $first_term, term!($id, "term_2"), term!($id, "term_3"), term!($id, "term_4"), term!($id, "term_5"),
                term!($id, "term_6"), term!($id, "term_7"), term!($id, "term_8"),
                " ORDER BY ", $id, $order, " LIMIT :limit"
            ),
            ["account", "from", "to", "limit", "without_deleted", "term_1", "term_2", "term_3", "term_4", "term_5",
             "term_6", "term_7", "term_8"]
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
    let (index, rarest) = choose_index(conn, account, filter, &bounds)?;
    let direction = bounds.direction(page.ascending);
    let sql = match index {
        IndexChoice::Words => list!(direction, words),
        IndexChoice::Nothing => list!(direction, ""),
        IndexChoice::Approval => list!(direction, " AND approval_state = :approval"),
        IndexChoice::Request => list!(direction, " AND request_id = :request"),
        IndexChoice::Error => list!(direction, " AND error_code = :error"),
        IndexChoice::Key => list!(direction, " AND key_id = :key"),
        IndexChoice::State => list!(direction, " AND state = :state"),
        IndexChoice::Model => list!(direction, " AND model = :model"),
        IndexChoice::Kind => list!(direction, " AND kind = :kind"),
        IndexChoice::KindAndShown => list!(direction, " AND kind = :kind AND deleted_at IS NULL"),
    };
    let mut values = filter.values();
    values.extend([
        account.into(),
        (&bounds.from).into(),
        (&bounds.to).into(),
        page.limit.into(),
        filter.without_deleted.into(),
    ]);
    let terms = filter.terms.iter().copied().map(Some);
    let terms = terms
        .chain(std::iter::repeat(None))
        .take(search_terms::MAX_QUERY_TERMS);
    let mut terms: Vec<Option<i64>> = terms.collect();
    // The first term selects the rows, so it has to be the rarest one.
    terms.swap(0, rarest);
    values.extend(terms.into_iter().map(SqlValue::from));
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
    Request,
    Words,
    Approval,
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
        count!("tasks WHERE account_id = :account AND id > :from AND ", $condition; ["account", "from", "value"])
    };
    ($($from:literal),*; $names:expr) => {
        [
            numbered!(concat!("SELECT COUNT(*) FROM (SELECT 1 FROM ", $($from,)* " LIMIT 1000) AS few"), $names),
            numbered!(concat!("SELECT COUNT(*) FROM (SELECT 1 FROM ", $($from,)* " LIMIT 20000) AS few"), $names),
        ]
    };
}

const COUNT_WITH_TERM: [&str; 2] = count!(
    "task_words WHERE term = :term AND task_id > :from AND task_id < :to";
    ["term", "from", "to"]
);

/// The condition that the fewest tasks meet, and the index of the term if it is a term.
fn choose_index(
    conn: &mut Conn<'_>,
    account: AccountId,
    filter: &TaskFilter,
    bounds: &IdBounds,
) -> Result<(IndexChoice, usize), StoreError> {
    // The bounds leave one id, so no other index is needed.
    if filter.id.is_some() {
        return Ok((IndexChoice::Nothing, 0));
    }
    // A request has few tasks.
    if filter.request.is_some() {
        return Ok((IndexChoice::Request, 0));
    }
    let kind_index = if filter.without_deleted {
        IndexChoice::KindAndShown
    } else {
        IndexChoice::Kind
    };
    let conditions: Vec<(IndexChoice, [&'static str; 2], SqlValue<'_>)> = [
        (
            IndexChoice::Approval,
            count!("approval_state = :value"),
            SqlValue::from(&filter.approval),
        ),
        (
            IndexChoice::Error,
            count!("error_code = :value"),
            SqlValue::from(&filter.error),
        ),
        (
            IndexChoice::Key,
            count!("key_id = :value"),
            SqlValue::from(&filter.key),
        ),
        (
            IndexChoice::Model,
            count!("model = :value"),
            SqlValue::from(&filter.model),
        ),
        (
            IndexChoice::State,
            count!("state = :value"),
            SqlValue::from(&filter.state),
        ),
        (
            kind_index,
            count!("kind = :value"),
            SqlValue::from(&filter.kind),
        ),
    ]
    .into_iter()
    .filter(|(_, _, value)| *value != SqlValue::Null)
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
            let count = conn.one(sql, &values, |row| row.only(sql))?;
            counts.push((count.unwrap_or(0), IndexChoice::Words, position));
        }
        for (index, sql, value) in &conditions {
            let values = [account.into(), (&bounds.from).into(), value.clone()];
            let count = conn.one(sql[pass], &values, |row| row.only(sql[pass]))?;
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

/// Whether a request with this id has tasks, of this account if one is given.
pub fn has_request(
    conn: &mut Conn<'_>,
    account: Option<AccountId>,
    request: &RequestId,
) -> Result<bool, StoreError> {
    sql!(
        "SELECT CAST(1 AS BIGINT) FROM tasks WHERE request_id = :request
         AND (CAST(:account AS TEXT) IS NULL OR account_id || '' = :account) LIMIT 1",
        request,
        account
    )
    .exists(conn)
}

/// Stores the words of a task; repeating the call changes nothing.
pub(super) fn insert_words(conn: &mut Conn<'_>, task: &Task) -> Result<(), StoreError> {
    let id = task.id;
    let terms = search_terms::task_terms(task.account, &task.payload, &task.attribution);
    if terms.is_empty() {
        return Ok(());
    }
    let statement = dialect_sql!(
        conn,
        "INSERT INTO task_words (term, task_id) SELECT value, :id FROM json_each(:terms) WHERE true
         ON CONFLICT (term, task_id) DO NOTHING",
        "INSERT INTO task_words (term, task_id)
         SELECT CAST(json_array_elements_text(CAST(CAST(:terms AS TEXT) AS json)) AS BIGINT), CAST(:id AS TEXT)
         ON CONFLICT (term, task_id) DO NOTHING",
        id,
        terms = to_json(&terms)?,
    );
    statement.execute(conn).map(drop)
}

/// Removes the words of tasks whose records are removed.
pub(crate) fn remove_words(conn: &mut Conn<'_>, tasks: &[TaskId]) -> Result<(), StoreError> {
    for id in tasks {
        // The words are derived from the payload again, because there is no index by task.
        let found = sql!(
            "SELECT account_id, payload, end_user, metadata FROM tasks WHERE id = :id",
            id
        )
        .one(conn, |row| {
            let account: AccountId = row.field("account_id")?;
            let payload: TaskPayload = row.field("payload")?;
            let attribution = attribution(row.field("end_user")?, row.field("metadata")?);
            Ok(search_terms::task_terms(account, &payload, &attribution))
        })?;
        let Some(terms) = found else {
            continue;
        };
        let statement = dialect_sql!(
            conn,
            "DELETE FROM task_words WHERE task_id = :id AND term IN (SELECT value FROM json_each(:terms))",
            "DELETE FROM task_words WHERE task_id = :id AND term = ANY (ARRAY(
             SELECT CAST(json_array_elements_text(CAST(CAST(:terms AS TEXT) AS json)) AS BIGINT)))",
            id,
            terms = to_json(&terms)?,
        );
        statement.execute(conn)?;
    }
    Ok(())
}
