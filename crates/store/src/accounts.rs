//! Accounts. Their keys are in `keys`.

use crate::account_row::account;
use crate::money_columns::account_money;
use crate::page::Page;
use crate::{Conn, Row, StoreError};
use mediagate_model::account::{Account, AccountRecord};
use mediagate_model::ids::AccountId;
use mediagate_model::money::Micros;

pub use crate::keys::*;

/// Does nothing if the handle is taken.
pub fn insert(conn: &mut Conn<'_>, account: &Account) -> Result<(), StoreError> {
    conn.execute(
        "INSERT INTO accounts (id, handle, display_name, avatar, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (handle) DO NOTHING",
        &[
            (&account.id.to_string()).into(),
            (&account.handle).into(),
            (&account.display_name).into(),
            (&account.avatar.to_string()).into(),
            account.created_at.micros().into(),
        ],
    )?;
    Ok(())
}

/// The account with this handle.
pub fn by_handle(conn: &mut Conn<'_>, handle: &str) -> Result<Option<Account>, StoreError> {
    conn.one(
        "SELECT id, handle, display_name, avatar, created_at FROM accounts WHERE handle = ?1",
        &[handle.into()],
        |row| account(row, 0),
    )
}

/// The account with this id.
pub fn account_by_id(conn: &mut Conn<'_>, id: AccountId) -> Result<Option<Account>, StoreError> {
    conn.one(
        "SELECT id, handle, display_name, avatar, created_at FROM accounts WHERE id = ?1",
        &[(&id.to_string()).into()],
        |row| account(row, 0),
    )
}

macro_rules! records {
    ($rest:literal) => {
        concat!(
            "SELECT a.id, a.handle, a.display_name, a.avatar, a.created_at,
                    a.prepaid, a.budget_micros, a.held_micros, a.spent_micros, a.credit_micros,
                    (SELECT COUNT(*) FROM api_keys k WHERE k.account_id = a.id AND k.revoked_at IS NULL)
             FROM accounts a ",
            $rest
        )
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
    conn.all(records!("ORDER BY a.created_at, a.id"), &[], record)
}

/// A page of accounts.
pub fn page(conn: &mut Conn<'_>, page: Page<AccountId>) -> Result<Vec<AccountRecord>, StoreError> {
    let sql = if page.ascending {
        records!("WHERE a.id > COALESCE(?1, '') ORDER BY a.id LIMIT ?2")
    } else {
        records!("WHERE a.id < COALESCE(?1, 'g') ORDER BY a.id DESC LIMIT ?2")
    };
    let after = page.after.map(|id| id.to_string());
    let values = [after.as_ref().into(), i64::from(page.limit).into()];
    conn.all(sql, &values, record)
}

/// An account with its money.
pub fn record_of(conn: &mut Conn<'_>, id: AccountId) -> Result<Option<AccountRecord>, StoreError> {
    conn.one(
        records!("WHERE a.id = ?1"),
        &[(&id.to_string()).into()],
        record,
    )
}

fn record(row: &Row<'_>) -> Result<AccountRecord, StoreError> {
    Ok(AccountRecord {
        account: account(row, 0)?,
        money: account_money(row, 5)?,
        keys: row.int(10)?,
    })
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
    budget: Option<Micros>,
) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE accounts SET budget_micros = ?2 WHERE id = ?1",
        &[(&id.to_string()).into(), budget.map(Micros::get).into()],
    )?;
    Ok(())
}

/// Whether an account can spend only its credit.
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
