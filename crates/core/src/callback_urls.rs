//! Encryption of callbacks' URLs, and of the bodies that contain one, for the database. Such a URL
//! often contains a secret of its receiver.

use mediagate_media::seal::{SealError, SecretSeal};
use mediagate_model::ids::AccountId;

/// Encrypts a callback's URL, or a body that contains it.
pub fn encrypt(seal: &SecretSeal, account: AccountId, plain: &str) -> Result<String, SealError> {
    seal.encrypt(&owner_of(account), plain)
}

/// Decrypts what the database has. Earlier versions wrote it as it was.
pub fn decrypt(seal: &SecretSeal, account: AccountId, stored: &str) -> Result<String, SealError> {
    seal.decrypt_or_plain(&owner_of(account), stored)
}

/// Not the owner of the account's signing keys: one must not pass for the other.
fn owner_of(account: AccountId) -> String {
    format!("callbacks of {account}")
}
