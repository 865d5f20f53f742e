//! Accounts. Their keys are in `keys`.

use crate::columns::{TableRecord as _, record};
use crate::page::PageQuery;
use crate::statement::{dialect_sql, sql};
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
    sql!(
        concat!(
            "SELECT ",
            account_columns!(),
            " FROM accounts WHERE handle = :handle"
        ),
        handle
    )
    .one(conn, Account::from_row)
}

/// The account with this id.
pub fn account_by_id(conn: &mut Conn<'_>, id: AccountId) -> Result<Option<Account>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            account_columns!(),
            " FROM accounts WHERE id = :id"
        ),
        id
    )
    .one(conn, Account::from_row)
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
    sql!("SELECT id FROM accounts").values(conn)
}

/// Every account, oldest first.
pub fn all(conn: &mut Conn<'_>) -> Result<Vec<AccountRecord>, StoreError> {
    sql!(records!("ORDER BY a.created_at, a.id")).all(conn, AccountRecord::from_row)
}

/// A page of accounts.
pub fn page(
    conn: &mut Conn<'_>,
    page: PageQuery<AccountId>,
) -> Result<Vec<AccountRecord>, StoreError> {
    // Ids are hexadecimal, so every one sorts after '' and before 'g'.
    let PageQuery { after, limit, .. } = page;
    let statement = if page.ascending {
        sql!(
            records!("WHERE a.id > COALESCE(:after, '') ORDER BY a.id LIMIT :limit"),
            after,
            limit
        )
    } else {
        sql!(
            records!("WHERE a.id < COALESCE(:after, 'g') ORDER BY a.id DESC LIMIT :limit"),
            after,
            limit
        )
    };
    statement.all(conn, AccountRecord::from_row)
}

/// An account with its money.
pub fn record_of(conn: &mut Conn<'_>, id: AccountId) -> Result<Option<AccountRecord>, StoreError> {
    sql!(records!("WHERE a.id = :id"), id).one(conn, AccountRecord::from_row)
}

/// Closes an account. Returns false if it was closed before.
pub fn close(conn: &mut Conn<'_>, id: AccountId, now: Timestamp) -> Result<bool, StoreError> {
    let changed = sql!(
        "UPDATE accounts SET closed_at = :now WHERE id = :id AND closed_at IS NULL",
        id,
        now
    )
    .execute(conn)?;
    Ok(changed == 1)
}

/// Whether an account is closed. It cannot be closed before this transaction ends.
pub fn lock_and_check_closed(conn: &mut Conn<'_>, id: AccountId) -> Result<bool, StoreError> {
    // `SQLite` has one writer at a time.
    let closed_at = dialect_sql!(
        conn,
        "SELECT closed_at FROM accounts WHERE id = :id",
        "SELECT closed_at FROM accounts WHERE id = :id FOR SHARE",
        id
    )
    .value::<Option<i64>>(conn)?;
    Ok(closed_at.flatten().is_some())
}

/// Changes an account's display name.
pub fn rename(conn: &mut Conn<'_>, id: AccountId, name: &str) -> Result<(), StoreError> {
    sql!(
        "UPDATE accounts SET display_name = :name WHERE id = :id",
        id,
        name
    )
    .execute(conn)?;
    Ok(())
}

/// Changes the limit on the total cost of an account's tasks.
pub fn set_budget(
    conn: &mut Conn<'_>,
    id: AccountId,
    budget: Option<MicroDollars>,
) -> Result<(), StoreError> {
    sql!(
        "UPDATE accounts SET budget_micros = :budget WHERE id = :id",
        id,
        budget
    )
    .execute(conn)?;
    Ok(())
}

/// Sets whether an account can spend only its credit.
pub fn set_prepaid(
    conn: &mut Conn<'_>,
    account: AccountId,
    prepaid: bool,
) -> Result<(), StoreError> {
    sql!(
        "UPDATE accounts SET prepaid = :prepaid WHERE id = :account",
        account,
        prepaid
    )
    .execute(conn)?;
    Ok(())
}
