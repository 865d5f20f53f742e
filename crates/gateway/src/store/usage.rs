//! Usage: what was made and paid for, by day, model and key.

use crate::clock::Timestamp;
use crate::ids::{AccountId, KeyId};
use crate::model::money::Micros;
use crate::model::task::TaskState;
use crate::store::{Conn, StoreError};

/// Microseconds of a day.
pub const DAY: i64 = 86_400_000_000;

/// What usage is narrowed to.
#[derive(Debug, Clone)]
pub struct Filter {
    /// Whose.
    pub account: AccountId,
    /// From this instant on.
    pub from: Timestamp,
    /// Before this one.
    pub before: Timestamp,
    /// Only by this model.
    pub model: Option<String>,
    /// Only with this key.
    pub key: Option<KeyId>,
}

/// Something that happened on a day, with a model, by a key.
#[derive(Debug, Clone)]
pub struct Row<T> {
    /// Days since the epoch.
    pub day: i64,
    /// The model's own name.
    pub model: String,
    /// The key.
    pub key: KeyId,
    /// What.
    pub what: T,
}

/// What was paid, by the day of the ledger's entries.
pub fn paid(conn: &mut Conn<'_>, filter: &Filter) -> Result<Vec<Row<Micros>>, StoreError> {
    conn.all(
        "SELECT CAST(l.created_at / 86400000000 AS BIGINT), t.model, t.key_id, CAST(SUM(l.spent_micros) AS BIGINT)
         FROM ledger l JOIN tasks t ON t.id = l.task_id
         WHERE l.account_id = ?1 AND l.created_at >= ?2 AND l.created_at < ?3 AND l.spent_micros <> 0
         AND (CAST(?4 AS TEXT) IS NULL OR t.model = ?4) AND (CAST(?5 AS TEXT) IS NULL OR t.key_id = ?5)
         GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
        &[
            (&filter.account.to_string()).into(),
            filter.from.micros().into(),
            filter.before.micros().into(),
            filter.model.as_ref().into(),
            filter.key.map(|key| key.to_string()).as_ref().into(),
        ],
        |row| {
            Ok(Row {
                day: row.int(0)?,
                model: row.text(1)?,
                key: row.parse(2, "tasks.key_id")?,
                what: Micros::new(row.int(3)?),
            })
        },
    )
}

/// How many tasks ended, and how, by the day on which they did.
pub fn ended(
    conn: &mut Conn<'_>,
    filter: &Filter,
) -> Result<Vec<Row<(TaskState, u64)>>, StoreError> {
    conn.all(
        "SELECT CAST(finished_at / 86400000000 AS BIGINT), model, key_id, state, COUNT(*) FROM tasks
         WHERE account_id = ?1 AND finished_at >= ?2 AND finished_at < ?3
         AND (CAST(?4 AS TEXT) IS NULL OR model = ?4) AND (CAST(?5 AS TEXT) IS NULL OR key_id = ?5)
         GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4",
        &[
            (&filter.account.to_string()).into(),
            filter.from.micros().into(),
            filter.before.micros().into(),
            filter.model.as_ref().into(),
            filter.key.map(|key| key.to_string()).as_ref().into(),
        ],
        |row| {
            let count = u64::try_from(row.int(4)?).unwrap_or(0);
            Ok(Row {
                day: row.int(0)?,
                model: row.text(1)?,
                key: row.parse(2, "tasks.key_id")?,
                what: (row.parse(3, "tasks.state")?, count),
            })
        },
    )
}
