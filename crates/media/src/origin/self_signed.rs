//! The self-signed certificate of an installation: created once, kept with the data.
//!
//! A single machine keeps it in a file that only its owner may read; several keep it in their
//! database, encrypted with the signing secret.

use std::path::Path;

use provenance::credentials::{SelfMadeChain, SignatureAlgorithm, self_made};

use super::SigningError;
use crate::seal::SecretSeal;
use crate::url_signer;
use mediagate_config::{Config, DatabaseTarget};
use mediagate_model::clock::Clock;
use mediagate_store::Store;

const NAME: &str = "Mediagate";
const FILE: &str = "provenance.pem";
/// The owner of the secret, for [`SecretSeal`].
const OWNER: &str = "provenance";
/// Where the key begins, after the certificates.
const KEY_HEADER: &str = "-----BEGIN PRIVATE KEY-----";
pub(super) const ALGORITHM: SignatureAlgorithm = SignatureAlgorithm::Es256;

/// The stored chain, or a new one.
pub(super) fn load_or_create(
    config: &Config,
    store: &Store,
    seal: &SecretSeal,
) -> Result<SelfMadeChain, SigningError> {
    let failed = |reason: String| SigningError(format!("the self-signed certificate: {reason}"));
    let text = match config.database {
        DatabaseTarget::Sqlite => load_from_file(&config.data.join(FILE)),
        DatabaseTarget::Postgres(_) => load_from_database(store, seal),
    };
    let text = text.map_err(failed)?;
    let key_start = text.find(KEY_HEADER);
    let (certificates, key) = key_start
        .and_then(|key_start| text.split_at_checked(key_start))
        .ok_or_else(|| failed("the stored copy is damaged".to_owned()))?;
    Ok(SelfMadeChain {
        certificates_pem: certificates.to_owned(),
        key_pem: key.to_owned(),
    })
}

fn generate() -> Result<String, String> {
    let now = Clock::system().now().seconds();
    let chain = self_made(NAME, ALGORITHM, now).map_err(|error| error.to_string())?;
    Ok(chain.certificates_pem + &chain.key_pem)
}

fn load_from_file(path: &Path) -> Result<String, String> {
    let message = |error: std::io::Error| error.to_string();
    if !path.exists() {
        url_signer::write_private(path, generate()?.as_bytes()).map_err(message)?;
    }
    // Another process may have created it first, so the file's content counts.
    std::fs::read_to_string(path).map_err(message)
}

fn load_from_database(store: &Store, seal: &SecretSeal) -> Result<String, String> {
    // Always generated: `shared_value` returns the one that was stored first.
    let sealed = seal.encrypt(OWNER, &generate()?);
    let sealed = sealed.map_err(|error| error.to_string())?;
    let stored = store.shared_value("provenance_chain", sealed);
    let stored = stored.map_err(|error| error.to_string())?;
    seal.decrypt(OWNER, &stored)
        .map_err(|error| error.to_string())
}
