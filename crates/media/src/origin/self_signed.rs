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
const KEY: &str = "-----BEGIN PRIVATE KEY-----";
pub(super) const ALGORITHM: SignatureAlgorithm = SignatureAlgorithm::Es256;

/// The stored chain, or a new one.
pub(super) fn load_or_create(
    config: &Config,
    store: &Store,
    seal: &SecretSeal,
) -> Result<SelfMadeChain, SigningError> {
    let failed = |why: String| SigningError(format!("the self-signed certificate: {why}"));
    let text = match config.database {
        DatabaseTarget::Sqlite => load_from_file(&config.data.join(FILE)),
        DatabaseTarget::Postgres(_) => load_from_database(store, seal),
    };
    let text = text.map_err(failed)?;
    let at = text.find(KEY);
    let (certificates, key) = at
        .and_then(|at| text.split_at_checked(at))
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
    let said = |error: std::io::Error| error.to_string();
    if !path.exists() {
        url_signer::write_private(path, generate()?.as_bytes()).map_err(said)?;
    }
    // Another process may have created it first: the file's content counts.
    std::fs::read_to_string(path).map_err(said)
}

fn load_from_database(store: &Store, seal: &SecretSeal) -> Result<String, String> {
    // Always generated: `keep` returns the one that was stored first.
    let sealed = seal.encrypt(OWNER, &generate()?);
    let sealed = sealed.map_err(|error| error.to_string())?;
    let kept = store.shared_value("provenance_chain", sealed);
    let kept = kept.map_err(|error| error.to_string())?;
    seal.decrypt(OWNER, &kept)
        .map_err(|error| error.to_string())
}
