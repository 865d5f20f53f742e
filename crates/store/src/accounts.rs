//! Accounts. Their keys are in `keys`.

use crate::columns::{TableRecord as _, record};
use crate::page::PageQuery;
use crate::{Conn, StoreError};
use mediagate_model::account::{Account, AccountRecord};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::AccountId;
use mediagate_model::money::MicroDollars;

pub use crate::keys::*;

/// Adds an account; does nothing if the handle is taken.
pub fn insert(conn: &mut Conn<'_>, account: &Account) -> Result<(), StoreError> {
    account_columns!(insert account into conn "ON CONFLICT (handle) DO NOTHING")?;
    Ok(())
}

/// The account with this handle.
pub fn by_handle(conn: &mut Conn<'_>, handle: &str) -> Result<Option<Account>, StoreError> {
    conn.one(
        concat!(
            "SELECT ",
            account_columns!(),
            " FROM accounts WHERE handle = ?1"
        ),
        &[handle.into()],
        Account::from_row,
    )
}

/// The account with this id.
pub fn account_by_id(conn: &mut Conn<'_>, id: AccountId) -> Result<Option<Account>, StoreError> {
    conn.one(
        concat!(
            "SELECT ",
            account_columns!(),
            " FROM accounts WHERE id = ?1"
        ),
        &[(&id.to_string()).into()],
        Account::from_row,
    )
}

record! {
    record_columns for AccountRecord of "accounts" {
        account: ..account_columns!("a"),
        money: ..account_money_columns!("a"),
        keys: "(SELECT COUNT(*) FROM api_keys k WHERE k.account_id = a.id AND k.revoked_at IS NULL)",
        closed_at: "a.closed_at",
    }
}

macro_rules! records {
    ($rest:literal) => {
        concat!("SELECT ", record_columns!(), " FROM accounts a ", $rest)
    };
}

/// The ids of all accounts.
pub fn ids(conn: &mut Conn<'_>) -> Result<Vec<AccountId>, StoreError> {
    conn.all("SELECT id FROM accounts", &[], |row| {
        row.parse(0, "accounts.id")
    })
}

/// Every account, oldest first.
pub fn all(conn: &mut Conn<'_>) -> Result<Vec<AccountRecord>, StoreError> {
    conn.all(
        records!("ORDER BY a.created_at, a.id"),
        &[],
        AccountRecord::from_row,
    )
}

/// A page of accounts.
pub fn page(
    conn: &mut Conn<'_>,
    page: PageQuery<AccountId>,
) -> Result<Vec<AccountRecord>, StoreError> {
    // Ids are hexadecimal, so every one sorts after '' and before 'g'.
    let sql = if page.ascending {
        records!("WHERE a.id > COALESCE(?1, '') ORDER BY a.id LIMIT ?2")
    } else {
        records!("WHERE a.id < COALESCE(?1, 'g') ORDER BY a.id DESC LIMIT ?2")
    };
    let after = page.after.map(|id| id.to_string());
    let values = [after.as_ref().into(), i64::from(page.limit).into()];
    conn.all(sql, &values, AccountRecord::from_row)
}

/// An account with its money.
pub fn record_of(conn: &mut Conn<'_>, id: AccountId) -> Result<Option<AccountRecord>, StoreError> {
    conn.one(
        records!("WHERE a.id = ?1"),
        &[(&id.to_string()).into()],
        AccountRecord::from_row,
    )
}

/// Closes an account. Returns false if it was closed before.
pub fn close(conn: &mut Conn<'_>, id: AccountId, now: Timestamp) -> Result<bool, StoreError> {
    let changed = conn.execute(
        "UPDATE accounts SET closed_at = ?2 WHERE id = ?1 AND closed_at IS NULL",
        &[(&id.to_string()).into(), now.micros().into()],
    )?;
    Ok(changed == 1)
}

/// Whether an account is closed. It cannot be closed before this transaction ends.
pub fn lock_and_check_closed(conn: &mut Conn<'_>, id: AccountId) -> Result<bool, StoreError> {
    // `SQLite` has one writer at a time.
    let sql = conn.dialect(
        "SELECT closed_at FROM accounts WHERE id = ?1",
        "SELECT closed_at FROM accounts WHERE id = ?1 FOR SHARE",
    );
    let closed_at = conn.one(sql, &[(&id.to_string()).into()], |row| row.int_or_null(0))?;
    Ok(closed_at.flatten().is_some())
}

/// Changes an account's display name.
pub fn rename(conn: &mut Conn<'_>, id: AccountId, name: &str) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE accounts SET display_name = ?2 WHERE id = ?1",
        &[(&id.to_string()).into(), name.into()],
    )?;
    Ok(())
}

/// Changes the limit on the total cost of an account's tasks.
pub fn set_budget(
    conn: &mut Conn<'_>,
    id: AccountId,
    budget: Option<MicroDollars>,
) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE accounts SET budget_micros = ?2 WHERE id = ?1",
        &[
            (&id.to_string()).into(),
            budget.map(MicroDollars::get).into(),
        ],
    )?;
    Ok(())
}

/// Sets whether an account can spend only its credit.
pub fn set_prepaid(
    conn: &mut Conn<'_>,
    account: AccountId,
    prepaid: bool,
) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE accounts SET prepaid = ?2 WHERE id = ?1",
        &[(&account.to_string()).into(), prepaid.into()],
    )?;
    Ok(())
}
