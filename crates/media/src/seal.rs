//! Encryption of secrets for the database: AES-256-GCM, its key derived from the signing secret by
//! HKDF-SHA256 (RFC 5869).
//!
//! With several signing secrets the first one encrypts and all of them decrypt, so that the secret
//! can be replaced.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD as BASE64;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};

/// Why something cannot be encrypted or decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// No random bytes are available.
    #[error("the system provides no random bytes")]
    NoRandom,
    /// Damaged, meant for something else, or encrypted with a signing secret that is no longer
    /// known.
    #[error("it cannot be decrypted: was the signing secret changed?")]
    Unreadable,
}

/// Encrypts and decrypts short secrets. Cheap to clone.
#[derive(Clone)]
pub struct SecretSeal(Arc<[LessSafeKey]>);

impl SecretSeal {
    /// The first of these signing secrets encrypts.
    pub fn new(secrets: &[Vec<u8>]) -> Self {
        let salt = Salt::new(HKDF_SHA256, b"mediagate");
        let keys = secrets.iter().filter_map(|secret| {
            let (key, purpose) = (salt.extract(secret), [&b"webhook secrets"[..]]);
            // Fails for keys longer than HKDF can derive; this one is 32 bytes.
            let key = key.expand(&purpose, &AES_256_GCM).ok()?;
            Some(LessSafeKey::new(UnboundKey::from(key)))
        });
        Self(keys.collect())
    }

    /// Encrypts `plain`; it can be decrypted only with the same `owner`.
    pub fn encrypt(&self, owner: &str, plain: &str) -> Result<String, SealError> {
        let key = self.0.first().ok_or(SealError::Unreadable)?;
        // Random nonces are safe for up to 2^32 texts under one key (NIST SP 800-38D).
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(|_| SealError::NoRandom)?;
        let mut sealed = plain.as_bytes().to_vec();
        // Bound to its owner, so that it cannot be used in another owner's row.
        let aad = Aad::from(owner.as_bytes());
        key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed)
            .map_err(|_| SealError::Unreadable)?;
        Ok(BASE64.encode([&nonce[..], &sealed].concat()))
    }

    /// Like [`SecretSeal::decrypt`], for columns that earlier versions did not encrypt. Text with a
    /// colon, as URLs and JSON have, is not encrypted.
    pub fn decrypt_or_plain(&self, owner: &str, stored: &str) -> Result<String, SealError> {
        if stored.contains(':') {
            return Ok(stored.to_owned());
        }
        self.decrypt(owner, stored)
    }

    /// Decrypts what [`SecretSeal::encrypt`] made.
    pub fn decrypt(&self, owner: &str, sealed: &str) -> Result<String, SealError> {
        let bytes = BASE64.decode(sealed).map_err(|_| SealError::Unreadable)?;
        let (nonce, sealed) = bytes
            .split_first_chunk::<NONCE_LEN>()
            .ok_or(SealError::Unreadable)?;
        // It may have been sealed before the signing secret was replaced.
        let plain_text = self.0.iter().find_map(|key| {
            let mut sealed = sealed.to_vec();
            let aad = Aad::from(owner.as_bytes());
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let plain = key.open_in_place(nonce, aad, &mut sealed).ok()?;
            String::from_utf8(plain.to_vec()).ok()
        });
        plain_text.ok_or(SealError::Unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seal(secrets: &[&[u8]]) -> SecretSeal {
        SecretSeal::new(
            &secrets
                .iter()
                .map(|secret| secret.to_vec())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn only_the_owner_can_decrypt_it_and_only_unchanged() {
        let seal = seal(&[b"one"]);
        let sealed = seal.encrypt("a", "whsec_x").unwrap();
        assert_eq!(seal.decrypt("a", &sealed).unwrap(), "whsec_x");
        assert!(!sealed.contains("whsec"));
        assert_ne!(sealed, seal.encrypt("a", "whsec_x").unwrap());
        assert_eq!(seal.decrypt("b", &sealed), Err(SealError::Unreadable));
        for broken in [
            "",
            "AA",
            "!",
            &sealed[..sealed.len() - 2],
            &format!("A{sealed}"),
        ] {
            assert_eq!(seal.decrypt("a", broken), Err(SealError::Unreadable));
        }
    }

    #[test]
    fn what_was_not_encrypted_is_read_as_it_is() {
        let seal = seal(&[b"one"]);
        for plain in ["https://caller.test/hook?a=1", "{\"a\":1}"] {
            assert_eq!(seal.decrypt_or_plain("a", plain).unwrap(), plain);
            let sealed = seal.encrypt("a", plain).unwrap();
            assert!(!sealed.contains(':'), "{sealed}");
            assert_eq!(seal.decrypt_or_plain("a", &sealed).unwrap(), plain);
        }
        assert!(seal.decrypt_or_plain("a", "plain").is_err());
    }

    #[test]
    fn a_new_signing_secret_reads_what_the_old_one_wrote() {
        let (old, new) = (seal(&[b"old"]), seal(&[b"new"]));
        let sealed = old.encrypt("a", "x").unwrap();
        assert_eq!(new.decrypt("a", &sealed), Err(SealError::Unreadable));
        assert_eq!(seal(&[b"new", b"old"]).decrypt("a", &sealed).unwrap(), "x");
        let sealed = seal(&[b"new", b"old"]).encrypt("a", "x").unwrap();
        assert_eq!(new.decrypt("a", &sealed).unwrap(), "x");
    }
}
