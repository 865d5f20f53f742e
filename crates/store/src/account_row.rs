//! Columns of an account's row, shared by the statements of `accounts` and `keys`.

use crate::columns::record;
use mediagate_model::account::Account;

record! {
    account_columns for Account of "accounts" {
        id: "id",
        handle: "handle",
        display_name: "display_name",
        avatar: "avatar",
        created_at: "created_at",
    }
}
