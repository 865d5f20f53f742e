//! Check of each ledger entry against the task, key and account that it refers to.

use std::str::FromStr as _;

use super::{Mismatch, PAGE};
use crate::columns::{TableRecord as _, record};
use crate::statement::sql;
use crate::{Conn, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::ledger::EntryKind;
use mediagate_model::money::MicroDollars;

record! {
    columns for EntryRecord of "ledger" {
        id: "l.id",
        account: "l.account_id",
        key: "l.key_id",
        task: "l.task_id",
        kind: "l.kind",
        held: "l.held_micros",
        spent: "l.spent_micros",
        credit: "l.credit_micros",
        created_at: "l.created_at",
        counted_at: "l.counted_at",
        known_account: "(SELECT a.id FROM accounts a WHERE a.id = l.account_id)",
        keys_account: "(SELECT k.account_id FROM api_keys k WHERE k.id = l.key_id)",
        task_facts: task_facts(
            "(SELECT t.account_id FROM tasks t WHERE t.id = l.task_id)",
            "(SELECT t.key_id FROM tasks t WHERE t.id = l.task_id)",
            "(SELECT t.state FROM tasks t WHERE t.id = l.task_id)",
            "(SELECT t.reserved_micros FROM tasks t WHERE t.id = l.task_id)",
            "(SELECT t.created_at FROM tasks t WHERE t.id = l.task_id)",
            "(SELECT t.finished_at FROM tasks t WHERE t.id = l.task_id)"
        ),
        settled_at: "(SELECT MAX(e.created_at) FROM ledger e WHERE e.task_id = l.task_id AND e.kind IN ('settle', 'release'))",
    }
}

fn task_facts(
    account: Option<String>,
    key: Option<String>,
    state: Option<String>,
    reserved: Option<MicroDollars>,
    created_at: Option<i64>,
    finished_at: Option<i64>,
) -> Option<EntryTask> {
    Some(EntryTask {
        account: account?,
        key: key?,
        state: state?,
        reserved: reserved?,
        created_at: created_at?,
        finished_at,
    })
}

/// The time at which an entry was written, and its id.
type EntryPosition = (i64, String);

/// Checks the entries after this time and id. Returns the position of the page's last entry, if
/// there is one, and the mismatches.
pub(super) fn page(
    conn: &mut Conn<'_>,
    (at, id): (i64, &str),
) -> Result<(Option<EntryPosition>, Vec<Mismatch>), StoreError> {
    let mut mismatches = Vec::new();
    // Looked up one by one, because Postgres would plan joins that read all tasks.
    let positions = sql!(
        concat!("SELECT ", columns!(), "
         FROM (SELECT id, account_id, key_id, task_id, kind, held_micros, spent_micros, credit_micros, created_at, counted_at
               FROM ledger WHERE (created_at, id) > (:at, :id) ORDER BY created_at, id LIMIT :page) AS l"),
        at,
        id,
        page = PAGE
    )
    .all(conn, |row| {
            let entry = EntryRecord::from_row(row)?;
            let faults = entry.faults();
            mismatches.extend(faults.into_iter().map(|detail| Mismatch {
                kind: "entry",
                id: entry.id.clone(),
                detail,
            }));
            Ok((entry.created_at, entry.id))
        })?;
    Ok((positions.into_iter().max(), mismatches))
}

/// An entry with the rows that it refers to.
struct EntryRecord {
    id: String,
    account: String,
    key: Option<String>,
    task: Option<String>,
    kind: String,
    held: MicroDollars,
    spent: MicroDollars,
    credit: MicroDollars,
    created_at: i64,
    counted_at: Option<i64>,
    /// The entry's account, if it exists.
    known_account: Option<String>,
    /// The account of the entry's key.
    keys_account: Option<String>,
    /// `None` if there is no such task.
    task_facts: Option<EntryTask>,
    /// The time of the entry that ended its task's reservation.
    settled_at: Option<i64>,
}

/// The task of an entry.
struct EntryTask {
    account: String,
    key: String,
    state: String,
    reserved: MicroDollars,
    created_at: i64,
    finished_at: Option<i64>,
}

impl EntryRecord {
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.known_account.is_none() {
            faults.push(format!("there is no account {}", self.account));
        }
        let Ok(kind) = EntryKind::from_str(&self.kind) else {
            faults.push(format!("{:?} is not a valid kind of entry", self.kind));
            return faults;
        };
        let amounts = self.amounts();
        if kind == EntryKind::Credit {
            let is_plain = (&self.key, &self.task) == (&None, &None) && self.counted_at.is_none();
            let moves_only_credit = [self.held, self.spent] == [MicroDollars::ZERO; 2]
                && self.credit != MicroDollars::ZERO;
            if !(is_plain && moves_only_credit) {
                faults.push(format!(
                    "a credit has no key and no task and changes only the credit; this one has key {:?}, task {:?} and {amounts}",
                    self.key, self.task
                ));
            }
            return faults;
        }
        let Some(task_id) = &self.task else {
            faults.push(format!("it has {amounts} and names no task"));
            return faults;
        };
        // The id prevents a task from having two entries of one kind.
        if self.id != format!("{task_id}:{}", self.kind) {
            faults.push(format!(
                "its id is not the id of the {} of task {task_id}",
                self.kind
            ));
        }
        let Some(task) = &self.task_facts else {
            faults.push(format!("it has {amounts}, and there is no task {task_id}"));
            return faults;
        };
        faults.extend(self.owner_faults(task_id, task));
        faults.extend(self.amount_faults(kind, task));
        faults
    }

    fn amounts(&self) -> String {
        format!(
            "held {}, spent {}, credit {}",
            self.held, self.spent, self.credit
        )
    }

    /// The entry must have the same owner as its task.
    fn owner_faults(&self, task_id: &str, task: &EntryTask) -> Vec<String> {
        let mut faults = Vec::new();
        if self.account != task.account {
            faults.push(format!(
                "it is of account {}, its task {task_id} of account {}",
                self.account, task.account
            ));
        }
        if self.key.as_ref() != Some(&task.key) {
            faults.push(format!(
                "it is of key {}, its task {task_id} of key {}",
                self.key.as_deref().unwrap_or("none"),
                task.key
            ));
        } else if self.keys_account.as_ref() != Some(&task.account) {
            faults.push(format!(
                "its key {} is of account {}, its task {task_id} of account {}",
                task.key,
                self.keys_account.as_deref().unwrap_or("none"),
                task.account
            ));
        }
        faults
    }

    /// The amount and time of the entry must fit its kind and its task.
    fn amount_faults(&self, kind: EntryKind, task: &EntryTask) -> Vec<String> {
        let mut faults = Vec::new();
        let zero = MicroDollars::ZERO;
        let released = zero.minus(task.reserved);
        let fits = self.credit == zero
            && match kind {
                EntryKind::Reserve => (self.held, self.spent) == (task.reserved, zero),
                EntryKind::Settle => self.held == released && self.spent >= zero,
                EntryKind::Release => (self.held, self.spent) == (released, zero),
                EntryKind::Adjust => self.held == zero && self.spent != zero,
                EntryKind::Credit => true,
            };
        if !fits {
            faults.push(format!(
                "it has {}, but no {} of a task whose reservation is {} can have that",
                self.amounts(),
                self.kind,
                task.reserved
            ));
        }
        let is_cancelled = task.state == "cancelled";
        let expected_at = match kind {
            EntryKind::Reserve => Some(task.created_at),
            // The money of a cancelled task may move when its provider's job has ended.
            EntryKind::Settle | EntryKind::Release if !is_cancelled => task.finished_at,
            _ => None,
        };
        if let Some(expected_at) = expected_at.filter(|instant| *instant != self.created_at) {
            faults.push(format!(
                "it was written at {}, but its task changed at {}",
                instant(self.created_at),
                instant(expected_at)
            ));
        }
        let settled_at = match kind {
            EntryKind::Adjust => self.settled_at,
            _ => None,
        };
        if let Some(at) = self.counted_at.filter(|at| settled_at != Some(*at)) {
            faults.push(format!(
                "it counts at {}; its task's charge counts at {}",
                instant(at),
                settled_at.map_or_else(|| "no time".to_owned(), instant)
            ));
        }
        faults
    }
}

fn instant(micros: i64) -> String {
    Timestamp::from_micros(micros).rfc3339()
}
