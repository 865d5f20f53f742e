//! Accounts: each owns what is made for it.

use std::collections::{HashMap, HashSet};

use crate::app::{AppParts, Ctx};
use crate::domain::assets::{self, AssetLifetime};
use crate::domain::audit::ChangeAuthor;
use mediagate_model::account::Account;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::AccountId;
use mediagate_model::media::{Asset, MediaType};
use mediagate_store as store;

/// The account that keys belong to if none is named.
pub const DEFAULT_HANDLE: &str = "default";

/// The account with this handle. If it does not exist, it is created, with the command line as
/// author.
pub async fn ensure(app: &AppParts, handle: &str) -> Result<Account, Error> {
    ensure_by(app, handle, ChangeAuthor::command("accounts create")).await
}

/// Like [`ensure`], with the author of the change.
pub async fn ensure_by(
    app: &AppParts,
    handle: &str,
    author: ChangeAuthor,
) -> Result<Account, Error> {
    check_handle(handle)?;
    // Looked up before anything is drawn: each picture for an account that exists would be a file
    // without a record.
    if let Some(account) = by_handle(app, handle).await? {
        return Ok(account);
    }
    let (account, avatar) = draft(app, handle).await?;
    let now = app.clock.now();
    app.store
        .write(move |conn| -> Result<(), Error> {
            store::accounts::insert(conn, &account)?;
            // Another process may have created it first; our picture then belongs to no account,
            // and upkeep removes it.
            if store::accounts::by_handle(conn, &account.handle)?
                .is_some_and(|stored| stored.id == account.id)
            {
                store::assets::insert(conn, &avatar)?;
                let after = serde_json::json!({
                    "handle": account.handle,
                    "name": account.display_name,
                });
                let changed = (None, Some(after));
                author.note(conn, "account.create", &account.handle, changed, now)?;
            }
            Ok(())
        })
        .await?;
    // Read back instead of returned: another process may have created it first, with another id.
    by_handle(app, handle)
        .await?
        .ok_or_else(|| Error::internal("an account vanished"))
}

/// A new account and its picture, neither in the database yet.
pub(super) async fn draft(app: &AppParts, handle: &str) -> Result<(Account, Asset), Error> {
    check_handle(handle)?;
    let id = AccountId::new();
    let picture = artwork::avatar(animatic::FONT, &id.to_string(), handle, 256);
    let picture = picture.map_err(Error::internal)?;
    let avatar = assets::keep(
        app,
        id,
        MediaType::Png,
        picture.into(),
        AssetLifetime::Forever,
    )
    .await?;
    let account = Account {
        id,
        handle: handle.to_owned(),
        display_name: display_name(handle),
        avatar: avatar.id,
        created_at: app.clock.now(),
    };
    Ok((account, avatar))
}

/// The error for a handle that no account has.
pub fn not_found() -> Error {
    let message = "There is no account with this handle.";
    Error::plain(ErrorCode::AccountNotFound, message)
}

pub async fn by_handle(app: &Ctx, handle: &str) -> Result<Option<Account>, Error> {
    let handle = handle.to_owned();
    Ok(app
        .store
        .read(move |conn| store::accounts::by_handle(conn, &handle))
        .await?)
}

/// The handles of these accounts.
pub async fn handles(
    app: &Ctx,
    ids: impl Iterator<Item = AccountId>,
) -> Result<HashMap<AccountId, String>, Error> {
    let ids: HashSet<AccountId> = ids.collect();
    let read = app.store.long_read(move |conn| -> Result<_, Error> {
        let mut handles = HashMap::with_capacity(ids.len());
        for id in ids {
            if let Some(account) = store::accounts::account_by_id(conn, id)? {
                handles.insert(id, account.handle);
            }
        }
        Ok(handles)
    });
    read.await
}

/// What a handle must be, for error messages.
pub const HANDLE_RULE: &str = "Must be 1 to 40 characters from a-z, 0-9, - and _.";

/// Whether a text is a valid handle.
pub fn is_handle(text: &str) -> bool {
    (1..=40).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
}

fn check_handle(handle: &str) -> Result<(), Error> {
    if is_handle(handle) {
        Ok(())
    } else {
        Err(Error::at_field(
            ErrorCode::InvalidValue,
            "handle",
            HANDLE_RULE,
        ))
    }
}

/// `night-owls` becomes `Night Owls`. A handle without letters and digits stays as it is.
fn display_name(handle: &str) -> String {
    let words = handle.split(['-', '_']).filter(|word| !word.is_empty());
    let capitals = words.map(|word| word[..1].to_uppercase() + &word[1..]);
    let name = capitals.collect::<Vec<_>>().join(" ");
    if name.is_empty() {
        return handle.to_owned();
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_become_names() {
        assert_eq!(display_name("night-owls_2"), "Night Owls 2");
        assert_eq!(display_name("-"), "-");
        assert!(check_handle("night-owls_2").is_ok());
        for bad in ["", "Big", "a b", "ü", &"a".repeat(41)] {
            assert!(check_handle(bad).is_err(), "{bad:?}");
        }
    }
}
