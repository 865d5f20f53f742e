//! Check of stored intents against the tasks with which repeated requests are answered.

use std::collections::HashMap;

use super::Mismatch;
use crate::columns::{TableRecord as _, record};
use crate::conn::to_json;
use crate::record_expiry;
use crate::statement::{dialect_sql, sql};
use crate::{Conn, StoreError};
use mediagate_model::intent::IntentResult;

/// Intents per page.
const PAGE: i64 = 500;

/// The row of an intent.
struct IntentRow {
    id: String,
    account: String,
    key: String,
    result: Option<String>,
    /// An `Idempotency-Key`, which all keys of an account share.
    idempotency_key: Option<String>,
}

record! {
    columns for IntentRow of "intents" {
        id: "id",
        account: "account_id",
        key: "key_id",
        result: "made",
        idempotency_key: "idempotency_key",
    }
}

/// Checks the intents after this id. Returns the last id of the page, if it is not empty, and the
/// mismatches.
pub(super) fn page(
    conn: &mut Conn<'_>,
    after: &str,
) -> Result<(Option<String>, Vec<Mismatch>), StoreError> {
    let page = sql!(
        concat!(
            "SELECT ",
            columns!(),
            " FROM intents WHERE id > :after ORDER BY id LIMIT :page"
        ),
        after,
        page = PAGE
    )
    .all(conn, IntentRow::from_row)?;
    let last = page.last().map(|intent| intent.id.clone());
    let mut mismatches = Vec::new();
    let mut with_tasks: Vec<(IntentRow, Vec<String>)> = Vec::new();
    for intent in page {
        match intent
            .result
            .as_deref()
            .map(serde_json::from_str::<IntentResult>)
        {
            Some(Ok(IntentResult::Tasks(tasks))) => {
                with_tasks.push((intent, tasks.iter().map(ToString::to_string).collect()));
            }
            Some(Err(_)) => mismatches.push(intent.fault("its result cannot be read".to_owned())),
            Some(Ok(_)) | None => {}
        }
    }
    let ids: Vec<&String> = with_tasks.iter().flat_map(|(_, tasks)| tasks).collect();
    let owners = owners(conn, &to_json(&ids)?)?;
    for (intent, tasks) in &with_tasks {
        for task in tasks {
            match owners.get(task) {
                Some((account, key)) if !intent.is_of(account, key) => {
                    mismatches.push(intent.fault(format!(
                        "it is of account {} and key {}; its task {task} is of account {account} and key {key}",
                        intent.account, intent.key
                    )));
                }
                None if !is_past(conn, task)? => {
                    mismatches.push(intent.fault(format!(
                        "its task {task} does not exist and was not removed"
                    )));
                }
                Some(_) | None => {}
            }
        }
    }
    Ok((last, mismatches))
}

/// The account and key of each of these tasks that exists; `ids` is a JSON list.
fn owners(conn: &mut Conn<'_>, ids: &str) -> Result<HashMap<String, (String, String)>, StoreError> {
    let owners = dialect_sql!(
        conn,
        "SELECT id, account_id, key_id FROM tasks WHERE id IN (SELECT value FROM json_each(:ids))",
        "SELECT id, account_id, key_id FROM tasks
         WHERE id = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(:ids AS TEXT) AS json))))",
        ids
    )
    .all(conn, |row| {
        Ok((
            row.field("id")?,
            (row.field("account_id")?, row.field("key_id")?),
        ))
    })?;
    Ok(owners.into_iter().collect())
}

/// Whether a task is known to have been removed.
fn is_past(conn: &mut Conn<'_>, id: &str) -> Result<bool, StoreError> {
    match id.parse() {
        Ok(id) => Ok(record_expiry::past_task(conn, id)?.is_some()),
        Err(_) => Ok(false),
    }
}

impl IntentRow {
    fn is_of(&self, account: &str, key: &str) -> bool {
        self.account == account && (self.key == key || self.idempotency_key.is_some())
    }

    fn fault(&self, detail: String) -> Mismatch {
        Mismatch {
            kind: "intent",
            id: self.id.clone(),
            detail,
        }
    }
}
