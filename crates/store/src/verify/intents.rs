//! Check of stored intents against the tasks with which repeated requests are answered.

use std::collections::HashMap;

use super::Mismatch;
use crate::columns::{TableRecord as _, record};
use crate::conn::to_json;
use crate::record_expiry;
use crate::{Conn, StoreError};
use mediagate_model::intent::IntentResult;

/// Intents per page.
const PAGE: i64 = 500;

/// The row of an intent.
struct IntentRow {
    id: String,
    account: String,
    key: String,
    made: Option<String>,
    /// An `Idempotency-Key`, which all keys of an account share.
    name: Option<String>,
}

record! {
    columns for IntentRow of "intents" {
        id: "id",
        account: "account_id",
        key: "key_id",
        made: "made",
        name: "idempotency_key",
    }
}

/// Checks the intents after this id. Returns the last id of the page, if it is not empty, and the
/// mismatches.
pub(super) fn page(
    conn: &mut Conn<'_>,
    after: &str,
) -> Result<(Option<String>, Vec<Mismatch>), StoreError> {
    let page = conn.all(
        concat!(
            "SELECT ",
            columns!(),
            " FROM intents WHERE id > ?1 ORDER BY id LIMIT ?2"
        ),
        &[after.into(), PAGE.into()],
        IntentRow::from_row,
    )?;
    let last = page.last().map(|kept| kept.id.clone());
    let mut found = Vec::new();
    let mut led: Vec<(IntentRow, Vec<String>)> = Vec::new();
    for kept in page {
        match kept
            .made
            .as_deref()
            .map(serde_json::from_str::<IntentResult>)
        {
            Some(Ok(IntentResult::Tasks(tasks))) => {
                led.push((kept, tasks.iter().map(ToString::to_string).collect()));
            }
            Some(Err(_)) => found.push(kept.fault("what it made cannot be read".to_owned())),
            Some(Ok(_)) | None => {}
        }
    }
    let ids: Vec<&String> = led.iter().flat_map(|(_, tasks)| tasks).collect();
    let owners = owners(conn, &to_json(&ids)?)?;
    for (kept, tasks) in &led {
        for task in tasks {
            match owners.get(task) {
                Some((account, key)) if !kept.is_of(account, key) => {
                    found.push(kept.fault(format!(
                        "it is of account {} and key {}; task {task}, to which it leads, of account {account} and key {key}",
                        kept.account, kept.key
                    )));
                }
                None if !is_past(conn, task)? => {
                    found.push(kept.fault(format!(
                        "there is no task {task}, to which it leads, and none was removed"
                    )));
                }
                Some(_) | None => {}
            }
        }
    }
    Ok((last, found))
}

/// The account and key of each of these tasks that exists; `ids` is a JSON list.
fn owners(conn: &mut Conn<'_>, ids: &str) -> Result<HashMap<String, (String, String)>, StoreError> {
    let sql = conn.dialect(
        "SELECT id, account_id, key_id FROM tasks WHERE id IN (SELECT value FROM json_each(?1))",
        "SELECT id, account_id, key_id FROM tasks
         WHERE id = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(?1 AS TEXT) AS json))))",
    );
    let found = conn.all(sql, &[ids.into()], |row| {
        Ok((row.text(0)?, (row.text(1)?, row.text(2)?)))
    })?;
    Ok(found.into_iter().collect())
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
        self.account == account && (self.key == key || self.name.is_some())
    }

    fn fault(&self, why: String) -> Mismatch {
        Mismatch {
            what: "intent",
            id: self.id.clone(),
            why,
        }
    }
}
