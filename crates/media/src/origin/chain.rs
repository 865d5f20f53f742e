//! The self-made certificate of an installation: made once, kept with the data.
//!
//! On one machine it is a file that only its owner may read; of several, in their database,
//! encrypted by the signing secret.

use std::path::Path;

use provenance::credentials::{Algorithm, SelfMade, self_made};

use super::NotSigned;
use crate::seal::Seal;
use crate::signer;
use mediagate_config::{Config, Database};
use mediagate_model::clock::Clock;
use mediagate_store::Store;

const NAME: &str = "Mediagate";
const FILE: &str = "provenance.pem";
/// Whose secret it is, for [`Seal`].
const OWNER: &str = "provenance";
/// Where the key begins, after the certificates.
const KEY: &str = "-----BEGIN PRIVATE KEY-----";
pub(super) const ALGORITHM: Algorithm = Algorithm::Es256;

/// The chain that is kept, or a new one.
pub(super) fn kept(config: &Config, store: &Store, seal: &Seal) -> Result<SelfMade, NotSigned> {
    let failed = |why: String| NotSigned(format!("the self-made certificate: {why}"));
    let text = match config.database {
        Database::Sqlite => in_file(&config.data.join(FILE)),
        Database::Postgres(_) => in_database(store, seal),
    };
    let text = text.map_err(failed)?;
    let at = text.find(KEY);
    let (certificates, key) = at
        .and_then(|at| text.split_at_checked(at))
        .ok_or_else(|| failed("what is kept of it is damaged".to_owned()))?;
    Ok(SelfMade {
        certificates_pem: certificates.to_owned(),
        key_pem: key.to_owned(),
    })
}

fn fresh() -> Result<String, String> {
    let now = Clock::system().now().seconds();
    let chain = self_made(NAME, ALGORITHM, now).map_err(|error| error.to_string())?;
    Ok(chain.certificates_pem + &chain.key_pem)
}

fn in_file(path: &Path) -> Result<String, String> {
    let said = |error: std::io::Error| error.to_string();
    if !path.exists() {
        signer::write_private(path, fresh()?.as_bytes()).map_err(said)?;
    }
    // Another process may have been first: the file's content counts.
    std::fs::read_to_string(path).map_err(said)
}

fn in_database(store: &Store, seal: &Seal) -> Result<String, String> {
    let sealed = seal.close(OWNER, &fresh()?);
    let sealed = sealed.map_err(|error| error.to_string())?;
    let kept = store.keep("provenance_chain", sealed);
    let kept = kept.map_err(|error| error.to_string())?;
    seal.open(OWNER, &kept).map_err(|error| error.to_string())
}
