//! The row of an account, which its own statements read, and those of its keys.

use crate::{Row, StoreError};
use mediagate_model::account::Account;
use mediagate_model::clock::Timestamp;

pub(super) fn account(row: &Row<'_>, at: usize) -> Result<Account, StoreError> {
    Ok(Account {
        id: row.parse(at, "accounts.id")?,
        handle: row.text(at + 1)?,
        display_name: row.text(at + 2)?,
        avatar: row.parse(at + 3, "accounts.avatar")?,
        created_at: Timestamp::from_micros(row.int(at + 4)?),
    })
}
