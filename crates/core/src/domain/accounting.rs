//! Money operations by the operator. The money of tasks is handled in `ledger`.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::app::{App, AppParts, Ctx};
use crate::domain::operator::OperatorAction;
use crate::domain::{accounts, ledger};
use mediagate_model::account::{AccountMoney, AccountRecord, ApiKey, KeyMoney};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, TaskId};
use mediagate_model::ledger::{EntryKind, MoneyEntry};
use mediagate_model::money::{ChargeState, MicroDollars};
use mediagate_model::submission::ReportedCost;
use mediagate_store::ledger::{EntrySubject, LedgerChange, LedgerFilter};
use mediagate_store::tasks::PageQuery;
use mediagate_store::{self as store, Conn};

/// Most that one command can move: more than anyone needs, and far from overflowing the sums.
pub const MAX_AMOUNT: MicroDollars = MicroDollars::new(1_000_000_000_000_000);

/// An account's money, keys and storage.
#[derive(Debug)]
pub struct AccountSummary {
    pub money: AccountMoney,
    /// With their sums and number of open tasks, oldest first.
    pub keys: Vec<(ApiKey, KeyMoney, u32)>,
    /// Bytes of stored files.
    pub storage_bytes: u64,
    /// What its open tasks are expected to add.
    pub storage_expected_bytes: u64,
}

/// The account's money, keys and storage now.
pub async fn account_summary(app: &Ctx, account: AccountId) -> Result<AccountSummary, Error> {
    let now = app.clock.now();
    app.store
        .long_read(move |conn| -> Result<AccountSummary, Error> {
            let money = money_of(conn, account)?;
            let keys = store::accounts::keys_of(conn, account, now)?;
            Ok(AccountSummary {
                money,
                keys,
                storage_bytes: store::assets::stored_bytes(conn, account)?,
                storage_expected_bytes: store::assets::expected_bytes(conn, account)?,
            })
        })
        .await
}

fn money_of(conn: &mut Conn<'_>, account: AccountId) -> Result<AccountMoney, Error> {
    let money = store::ledger::of_account(conn, account)?;
    money.ok_or_else(|| Error::internal("an account vanished"))
}

/// Every account with its sums and number of keys.
pub async fn accounts(app: &Ctx) -> Result<Vec<AccountRecord>, Error> {
    Ok(app.store.long_read(store::accounts::all).await?)
}

/// Changes to an account; `None` leaves a value as it is.
#[derive(Debug, Clone, Default)]
pub struct AccountChanges {
    /// Display name.
    pub name: Option<String>,
    /// Whether it can spend only its credit.
    pub prepaid: Option<bool>,
    /// Limit on the total cost of all its tasks; `Some(None)` removes the limit.
    pub budget: Option<Option<MicroDollars>>,
}

impl AccountChanges {
    fn write(self, conn: &mut Conn<'_>, account: AccountId) -> Result<(), Error> {
        if let Some(name) = &self.name {
            store::accounts::rename(conn, account, name)?;
        }
        if let Some(prepaid) = self.prepaid {
            store::accounts::set_prepaid(conn, account, prepaid)?;
        }
        if let Some(budget) = self.budget {
            store::accounts::set_budget(conn, account, budget)?;
        }
        Ok(())
    }
}

fn record_of(conn: &mut Conn<'_>, account: AccountId) -> Result<AccountRecord, Error> {
    let record = store::accounts::record_of(conn, account)?;
    record.ok_or_else(|| Error::internal("an account vanished"))
}

/// An account's settings for an audit log entry.
fn audit_value(record: &AccountRecord) -> Value {
    json!({
        "handle": record.account.handle,
        "name": record.account.display_name,
        "prepaid": record.money.prepaid,
        "budget_usd": record.money.budget.map(|budget| budget.to_string()),
    })
}

/// Changes an account, all or nothing.
pub async fn change(
    app: &App,
    operation: OperatorAction<'_, AccountRecord>,
    account: AccountId,
    changes: AccountChanges,
) -> Result<AccountRecord, Error> {
    let now = app.clock.now();
    operation
        .write(app, move |conn, author| {
            // Read in the transaction that changes it, so that the audit log shows what was
            // replaced.
            let before = record_of(conn, account)?;
            changes.write(conn, account)?;
            let after = record_of(conn, account)?;
            let changed = (Some(audit_value(&before)), Some(audit_value(&after)));
            author.note(conn, "account.update", &after.account.handle, changed, now)?;
            Ok(after)
        })
        .await
}

/// An account's money after a credit.
#[derive(Debug, Clone)]
pub struct CreditResult {
    pub money: AccountMoney,
    /// Whether this credit made it prepaid.
    pub was_unlimited: bool,
    pub account: AccountRecord,
}

/// Pays money in, which makes an unlimited account prepaid; a negative amount withdraws.
pub async fn credit(
    app: &App,
    operation: OperatorAction<'_, CreditResult>,
    account: AccountId,
    amount: MicroDollars,
    note: Option<String>,
) -> Result<CreditResult, Error> {
    check_amount(amount)?;
    let now = app.clock.now();
    let subject = EntrySubject {
        account,
        key: None,
        task: None,
        model: None,
        attribution: None,
    };
    let change = LedgerChange {
        credit: amount,
        ..LedgerChange::default()
    };
    operation
        .write(app, move |conn, author| {
            let before = money_of(conn, account)?;
            // Credit means nothing to an account without a limit, so paying in makes it prepaid. A
            // withdrawal does not.
            let was_unlimited = !before.prepaid && amount > MicroDollars::ZERO;
            if was_unlimited {
                store::accounts::set_prepaid(conn, account, true)?;
            }
            let kind = EntryKind::Credit;
            let sums = store::ledger::add(conn, subject, kind, change, note.as_deref(), now)?;
            let account = record_of(conn, account)?;
            let audit_money = |money: &AccountMoney| json!({"prepaid": money.prepaid, "credit_usd": money.credit.to_string()});
            let mut after = audit_money(&sums.account);
            after["amount_usd"] = amount.to_string().into();
            after["note"] = note.into();
            let changed = (Some(audit_money(&before)), Some(after));
            author.note(conn, "account.credit", &account.account.handle, changed, now)?;
            Ok(CreditResult {
                money: sums.account,
                was_unlimited,
                account,
            })
        })
        .await
}

/// Corrects the cost of a task, once per task: a positive amount charges, a negative one refunds,
/// but never more than the task cost. Returns the task's total cost. The task's record does not
/// change.
pub async fn adjust(
    app: &App,
    operation: OperatorAction<'_, MicroDollars>,
    task: TaskId,
    amount: MicroDollars,
    note: String,
) -> Result<MicroDollars, Error> {
    check_amount(amount)?;
    let now = app.clock.now();
    operation
        .write(app, move |conn, author| {
            let cost = write_adjustment(conn, task, amount, &note, now)?;
            let before = json!({"cost_usd": cost.minus(amount).to_string()});
            let after = json!({
                "cost_usd": cost.to_string(),
                "amount_usd": amount.to_string(),
                "note": note,
            });
            author.note(
                conn,
                "ledger.adjust",
                &task,
                (Some(before), Some(after)),
                now,
            )?;
            Ok(cost)
        })
        .await
}

fn write_adjustment(
    conn: &mut Conn<'_>,
    id: TaskId,
    amount: MicroDollars,
    note: &str,
    now: Timestamp,
) -> Result<MicroDollars, Error> {
    let refuse = |message: String| Err(Error::plain(ErrorCode::NotAdjustable, message));
    let Some(task) = store::tasks::by_id_any_account(conn, id)? else {
        let message = "There is no task with this id.";
        return Err(Error::plain(ErrorCode::TaskNotFound, message));
    };
    // While money is held there is no final cost to correct, and a free task has no entries at all.
    match task.money {
        ChargeState::Settled | ChargeState::Released => {}
        ChargeState::Held => {
            return refuse(
                "The task has not ended, and its money is still held. Wait until it ends.".into(),
            );
        }
        ChargeState::Free => {
            return refuse("The task was free. There is nothing to adjust.".into());
        }
    }
    let filter = LedgerFilter {
        task: Some(id),
        ..LedgerFilter::default()
    };
    // More than there can be: a task has at most one entry of each kind.
    let entries = store::ledger::list(conn, &filter, 10)?;
    // The ledger's unique ids refuse a second adjustment too; this gives the reason. One per task
    // means that a script that runs twice refunds once.
    if let Some(before) = entries.iter().find(|entry| entry.kind == EntryKind::Adjust) {
        return refuse(format!(
            "The task was already adjusted by {} USD at {}. A task can be adjusted only once. Credit the account instead.",
            before.spent,
            before.created_at.rfc3339()
        ));
    }
    let paid = sum(&entries);
    let after = paid.plus(amount);
    if after < MicroDollars::ZERO {
        let message = format!("The task cost {paid} USD. The refund cannot be higher.");
        return Err(Error::at_field(
            ErrorCode::InvalidValue,
            "amount_usd",
            message,
        ));
    }
    // The adjustment counts in the period of the charge that it corrects. A refund for yesterday's
    // task must not make room in today's budget.
    let is_end = |entry: &&MoneyEntry| matches!(entry.kind, EntryKind::Settle | EntryKind::Release);
    let change = LedgerChange {
        spent: amount,
        counted_at: entries.iter().find(is_end).map(|entry| entry.created_at),
        ..LedgerChange::default()
    };
    let kind = EntryKind::Adjust;
    store::ledger::add(
        conn,
        ledger::entry_subject(&task),
        kind,
        change,
        Some(note),
        now,
    )?;
    Ok(after)
}

fn sum(entries: &[MoneyEntry]) -> MicroDollars {
    let spent = entries.iter().map(|entry| entry.spent);
    spent.fold(MicroDollars::ZERO, MicroDollars::plus)
}

fn check_amount(amount: MicroDollars) -> Result<(), Error> {
    let message = if amount == MicroDollars::ZERO {
        "The amount must not be 0.00 USD.".to_owned()
    } else if amount > MAX_AMOUNT || amount < MicroDollars::ZERO.minus(MAX_AMOUNT) {
        format!("The amount must be at most {MAX_AMOUNT} USD.")
    } else {
        return Ok(());
    };
    Err(Error::at_field(
        ErrorCode::InvalidValue,
        "amount_usd",
        message,
    ))
}

/// A page of ledger entries: the newest, or all in the order they were written.
pub async fn entries(
    app: &Ctx,
    filter: LedgerFilter,
    limit: u32,
    newest_first: bool,
) -> Result<Vec<MoneyEntry>, Error> {
    app.store
        .long_read(move |conn| -> Result<Vec<MoneyEntry>, Error> {
            Ok(if newest_first {
                store::ledger::newest(conn, &filter, None, limit)?
            } else {
                store::ledger::list(conn, &filter, limit)?
            })
        })
        .await
}

/// The handles of the accounts of these entries.
pub async fn handles(
    app: &Ctx,
    entries: &[MoneyEntry],
) -> Result<HashMap<AccountId, String>, Error> {
    accounts::handles(app, entries.iter().map(|entry| entry.account)).await
}

/// The reported job costs of the tasks that these entries ended, in the order of an export.
pub async fn costs_of(
    app: &Ctx,
    entries: &[MoneyEntry],
) -> Result<HashMap<TaskId, ReportedCost>, Error> {
    // The entries are in the order of the export, so everything between the first and the last is
    // read at once.
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
        return Ok(HashMap::new());
    };
    let position = |entry: &MoneyEntry| (entry.created_at, entry.id.clone());
    let (first, last) = (position(first), position(last));
    let costs = app
        .store
        .long_read(move |conn| -> Result<_, Error> {
            let (first, last) = ((first.0, first.1.as_str()), (last.0, last.1.as_str()));
            Ok(store::submissions::costs_between(conn, first, last)?)
        })
        .await?;
    Ok(costs_by_task(costs))
}

/// What each task cost. For jobs at one provider, that is their sum; if the costs cannot be added
/// up, the latest one.
fn costs_by_task(in_order: Vec<(TaskId, ReportedCost)>) -> HashMap<TaskId, ReportedCost> {
    let mut costs: HashMap<TaskId, ReportedCost> = HashMap::new();
    for (task, mut cost) in in_order {
        if let Some(before) = costs.remove(&task)
            && (&before.provider, &before.unit) == (&cost.provider, &cost.unit)
        {
            cost.millionths = cost.millionths.saturating_add(before.millionths);
        }
        costs.insert(task, cost);
    }
    costs
}

pub async fn counts(app: &AppParts) -> Result<[i64; 4], Error> {
    Ok(app.store.long_read(store::ledger::counts).await?)
}

/// Creates an account. The handle must be new.
pub async fn create(
    app: &App,
    operation: OperatorAction<'_, AccountRecord>,
    handle: &str,
    changes: AccountChanges,
) -> Result<AccountRecord, Error> {
    // The avatar is stored before the transaction, as a file must exist before its record. If the
    // handle is taken, upkeep removes the file.
    let (account, avatar) = accounts::draft(app, handle).await?;
    let now = app.clock.now();
    operation
        .write(app, move |conn, author| {
            if store::accounts::by_handle(conn, &account.handle)?.is_some() {
                let message = format!("The account {:?} already exists.", account.handle);
                return Err(Error::at_field(ErrorCode::HandleTaken, "handle", message));
            }
            store::accounts::insert(conn, &account)?;
            store::assets::insert(conn, &avatar)?;
            changes.write(conn, account.id)?;
            let record = record_of(conn, account.id)?;
            let changed = (None, Some(audit_value(&record)));
            author.note(conn, "account.create", &account.handle, changed, now)?;
            Ok(record)
        })
        .await
}

/// At most `limit` ledger entries, newest first, and whether more follow. `after` is the id of the
/// last entry of the page before.
pub async fn page(
    app: &Ctx,
    filter: LedgerFilter,
    after: Option<String>,
    limit: u32,
) -> Result<(Vec<MoneyEntry>, bool), Error> {
    let read = app.store.long_read(move |conn| -> Result<_, Error> {
        let start = match &after {
            None => None,
            Some(id) => match store::ledger::time_of(conn, id)? {
                Some(at) => Some((at, id.as_str())),
                None => return Err(Error::unknown_cursor()),
            },
        };
        Ok(store::ledger::newest(conn, &filter, start, limit + 1)?)
    });
    let mut entries = store::await_within_limit(read).await?;
    let has_more = store::page::truncate_to_limit(&mut entries, limit);
    Ok((entries, has_more))
}

/// A page of accounts, and whether more follow.
pub async fn account_page(
    app: &Ctx,
    page: PageQuery<AccountId>,
) -> Result<(Vec<AccountRecord>, bool), Error> {
    let (limit, one_more) = (page.limit, page.with_one_more());
    let read = app
        .store
        .long_read(move |conn| store::accounts::page(conn, one_more));
    let mut accounts = read.await?;
    let has_more = store::page::truncate_to_limit(&mut accounts, limit);
    Ok((accounts, has_more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_one_task_are_added_up_where_they_can_be() {
        let cost = |provider: &str, millionths, unit: &str| ReportedCost {
            provider: provider.to_owned(),
            millionths,
            unit: unit.to_owned(),
        };
        let (two, mixed) = (TaskId::new(), TaskId::new());
        let costs = costs_by_task(vec![
            (two, cost("acme", 5, "usd")),
            (mixed, cost("acme", 5, "usd")),
            (two, cost("acme", 7, "usd")),
            (mixed, cost("other", 3, "credits")),
        ]);
        assert_eq!(costs[&two], cost("acme", 12, "usd"));
        assert_eq!(costs[&mixed], cost("other", 3, "credits"));
    }
}
