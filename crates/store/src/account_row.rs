//! An account's row, shared by the statements of `accounts`, `keys` and `sessions`.

use crate::columns::{FieldReader, record};
use crate::statement::sql;
use crate::{Conn, StoreError};
use mediagate_model::account::Account;
use mediagate_model::ids::AccountId;

record! {
    account_columns for Account of "accounts" {
        id: "id",
        handle: "handle",
        display_name: "display_name",
        avatar: "avatar",
        created_at: "created_at",
    }
}

/// The account with this id, and whether it has a budget or is prepaid.
pub(crate) fn account_and_is_limited(
    conn: &mut Conn<'_>,
    id: AccountId,
) -> Result<Option<(Account, bool)>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            account_columns!(),
            ", CAST(CASE WHEN prepaid = 1 OR budget_micros IS NOT NULL THEN 1 ELSE 0 END AS BIGINT)
             FROM accounts WHERE id = :id"
        ),
        id
    )
    .one(conn, |row| {
        let mut fields = FieldReader::new(row);
        Ok((fields.record()?, fields.field("accounts.prepaid")?))
    })
}
