//! Accounts and the ledger, as an operator sees them.

use std::collections::HashMap;

use serde::Serialize;
use utoipa::ToSchema;

use crate::wire::admin::keys::KeyTasksObject;
use crate::wire::money::AccountAmounts;
use mediagate_core::domain::keys::ClosedAccount;
use mediagate_model::account::AccountRecord;
use mediagate_model::attribution::Metadata;
use mediagate_model::clock::Timestamp;
use mediagate_model::csv;
use mediagate_model::ids::{AccountId, TaskId};
use mediagate_model::ledger::MoneyEntry;
use mediagate_model::money::MicroDollars;
use mediagate_store::verify::Mismatch;

/// An account. All amounts are in US dollars.
#[derive(Debug, Serialize, ToSchema)]
pub struct AdminAccount {
    /// The account's id.
    pub id: String,
    /// Always `account`.
    pub object: &'static str,
    /// Short unique name.
    pub handle: String,
    /// Display name.
    pub name: String,
    /// Whether the account can spend only its credit.
    pub prepaid: bool,
    #[serde(flatten)]
    pub amounts: AccountAmounts,
    /// Number of keys that are not revoked.
    pub keys: i64,
    /// Time of creation.
    pub created_at: String,
    /// Time when the account was closed. Null if it is open.
    #[schema(required = true)]
    pub closed_at: Option<String>,
    /// Number of keys that this request revoked, if it closed the account.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys_revoked: Option<u32>,
    /// The open tasks of the account's keys, if this request closed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<KeyTasksObject>,
}

impl AdminAccount {
    /// An account that was just closed.
    pub fn after_closing(closed: &ClosedAccount) -> Self {
        Self {
            keys_revoked: Some(closed.keys_revoked),
            tasks: Some(KeyTasksObject::new(closed.tasks)),
            ..Self::new(&closed.record)
        }
    }

    pub fn new(record: &AccountRecord) -> Self {
        let (account, money) = (&record.account, &record.money);
        Self {
            id: account.id.to_string(),
            object: "account",
            handle: account.handle.clone(),
            name: account.display_name.clone(),
            prepaid: money.prepaid,
            amounts: money.into(),
            keys: record.keys,
            created_at: account.created_at.rfc3339(),
            closed_at: record.closed_at.map(Timestamp::rfc3339),
            keys_revoked: None,
            tasks: None,
        }
    }
}

/// A ledger entry. All amounts are in US dollars.
#[derive(Debug, Serialize, ToSchema)]
pub struct LedgerEntry {
    /// The entry's id.
    pub id: String,
    /// Always `ledger_entry`.
    pub object: &'static str,
    /// Time of the entry.
    pub created_at: String,
    /// The handle of the account.
    pub account: String,
    /// The id of the API key.
    #[schema(required = true)]
    pub key_id: Option<String>,
    /// The id of the task.
    #[schema(required = true)]
    pub task_id: Option<String>,
    /// `reserve`, `settle`, `release`, `adjust` or `credit`.
    pub kind: &'static str,
    /// Change of the held amount.
    pub held_usd: String,
    /// Change of the spent amount.
    pub spent_usd: String,
    /// Change of the credit.
    pub credit_usd: String,
    /// The operator's note.
    #[schema(required = true)]
    pub note: Option<String>,
    /// The end user of the task's order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The caller's own names and values for the task's order.
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    #[schema(value_type = std::collections::BTreeMap<String, String>, required = false)]
    pub metadata: Metadata,
}

impl LedgerEntry {
    pub fn new(entry: &MoneyEntry, handles: &HashMap<AccountId, String>) -> Self {
        let account = handles.get(&entry.account).cloned();
        Self {
            id: entry.id.clone(),
            object: "ledger_entry",
            created_at: entry.created_at.rfc3339(),
            account: account.unwrap_or_else(|| entry.account.to_string()),
            key_id: entry.key.map(|id| id.to_string()),
            task_id: entry.task.map(|id| id.to_string()),
            kind: entry.kind.name(),
            held_usd: entry.held.to_string(),
            spent_usd: entry.spent.to_string(),
            credit_usd: entry.credit.to_string(),
            note: entry.note.clone(),
            user: entry.attribution.user.clone(),
            metadata: entry.attribution.metadata.clone(),
        }
    }
}

/// The metadata as one cell: a JSON object, or nothing.
pub fn metadata_text(metadata: &Metadata) -> String {
    if metadata.is_empty() {
        return String::new();
    }
    serde_json::to_string(metadata).unwrap_or_default()
}

/// The entries as CSV, with a header.
pub fn entries_csv(entries: &[LedgerEntry]) -> String {
    let names = [
        "id",
        "created_at",
        "account",
        "key",
        "task",
        "kind",
        "held_usd",
        "spent_usd",
        "credit_usd",
        "note",
        "user",
        "metadata",
    ];
    let mut text = String::new();
    csv::line(&mut text, names.map(csv::text));
    for entry in entries {
        let line = [
            csv::plain(&entry.id),
            csv::plain(&entry.created_at),
            csv::text(&entry.account),
            entry.key_id.clone().unwrap_or_default(),
            entry.task_id.clone().unwrap_or_default(),
            csv::plain(entry.kind),
            csv::plain(&entry.held_usd),
            csv::plain(&entry.spent_usd),
            csv::plain(&entry.credit_usd),
            csv::text(entry.note.as_deref().unwrap_or_default()),
            csv::text(entry.user.as_deref().unwrap_or_default()),
            csv::text(metadata_text(&entry.metadata)),
        ];
        csv::line(&mut text, line);
    }
    text
}

/// The result of a ledger check.
#[derive(Debug, Serialize, ToSchema)]
pub struct LedgerCheck {
    /// Always `ledger_check`.
    pub object: &'static str,
    /// Whether all sums are correct.
    pub adds_up: bool,
    /// Number of entries checked.
    pub entries: i64,
    /// Number of tasks checked.
    pub tasks: i64,
    /// Number of keys checked.
    pub keys: i64,
    /// Number of accounts checked.
    pub accounts: i64,
    /// The mismatches found. At most 1,000 are listed.
    pub mismatches: Vec<LedgerMismatch>,
}

/// A mismatch in the ledger.
#[derive(Debug, Serialize, ToSchema)]
pub struct LedgerMismatch {
    /// Kind of object: `key`, `account`, `day`, `hours`, `entry`, `task`, `submission` or `intent`.
    pub what: &'static str,
    /// The id of the object.
    pub id: String,
    /// The problem, including the amounts.
    pub why: String,
}

impl LedgerCheck {
    pub fn new(mismatches: &[Mismatch], [entries, tasks, keys, accounts]: [i64; 4]) -> Self {
        // One bug can cause a mismatch in every row. The first ones are enough to find it.
        const MAX_LISTED: usize = 1000;
        let listed = mismatches.iter().take(MAX_LISTED);
        let listed = listed.map(|mismatch| LedgerMismatch {
            what: mismatch.kind,
            id: mismatch.id.clone(),
            why: mismatch.detail.clone(),
        });
        Self {
            object: "ledger_check",
            adds_up: mismatches.is_empty(),
            entries,
            tasks,
            keys,
            accounts,
            mismatches: listed.collect(),
        }
    }
}

/// A correction of a task's cost. All amounts are in US dollars.
#[derive(Debug, Serialize, ToSchema)]
pub struct AdjustmentObject {
    /// Always `adjustment`.
    pub object: &'static str,
    /// The id of the task.
    pub task_id: String,
    /// Amount charged. Negative if it was refunded.
    pub amount_usd: String,
    /// The reason.
    pub note: String,
    /// Total cost of the task after the adjustment.
    pub cost_usd: String,
}

impl AdjustmentObject {
    pub fn new(task: TaskId, amount: MicroDollars, note: &str, cost: MicroDollars) -> Self {
        Self {
            object: "adjustment",
            task_id: task.to_string(),
            amount_usd: amount.to_string(),
            note: note.to_owned(),
            cost_usd: cost.to_string(),
        }
    }
}
