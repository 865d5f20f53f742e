//! Provenance of files: signs results, reads the marks of incoming files, and holds the keys of the
//! watermark.
//!
//! Signing and verifying need the feature `c2pa`; without it files are stored unsigned, and marks
//! of incoming files are reported but not verified. This module knows files and bytes, and only the
//! ids of tasks.

mod examination;
#[cfg(feature = "c2pa")]
mod self_signed;
#[cfg(feature = "c2pa")]
mod signing;
#[cfg(feature = "c2pa")]
mod signing_services;

use provenance::watermark::MarkKey;
use ring::hmac;
use serde::{Deserialize, Serialize};

use crate::seal::SecretSeal;
use mediagate_config::{Config, ProvenanceRules};
use mediagate_model::ids::TaskId;
use mediagate_model::provenance::Provenance;
use mediagate_store::Store;

/// Why a result was not signed, or why signing is impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SigningError(pub String);

/// The kind of file to sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SignedFormat {
    Mp4,
    Flac,
    Png,
    Jpeg,
}

/// How something was made.
#[derive(Debug, Clone, Copy)]
pub enum CreationMethod<'a> {
    /// By an algorithm without training data.
    Algorithmic,
    /// By such an algorithm, from the caller's picture.
    AlgorithmicComposite,
    /// By a model that was trained on samples.
    Generated,
    /// By processing this whole file; nothing is declared as generated.
    Edited { title: &'a str, source: &'a [u8] },
}

/// The statement about a file.
#[derive(Debug, Clone, Copy)]
pub struct ResultStatement<'a> {
    pub title: &'a str,
    /// The model that made it, as the operator shows it.
    pub model: &'a str,
    /// The provider of the model, as the operator shows it.
    pub provider: Option<&'a str>,
    pub prompt: &'a str,
    /// RFC 3339.
    pub when: &'a str,
    pub made: CreationMethod<'a>,
}

/// A key of the watermark; also passed to child processes, which detect watermarks.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatermarkKey {
    /// 24 bits, part of each mark.
    pub id: u32,
    secret: u64,
}

impl std::fmt::Debug for WatermarkKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WatermarkKey({})", self.id)
    }
}

impl WatermarkKey {
    pub fn key(&self) -> Option<MarkKey> {
        MarkKey::new(self.id, self.secret).ok()
    }

    /// The key that belongs to a signing secret.
    fn derive_from(secret: &hmac::Key) -> Option<Self> {
        // Derived, because children get this key and must not have the signing secret.
        let tag = hmac::sign(secret, b"watermark");
        let (id, rest) = tag.as_ref().split_first_chunk::<3>()?;
        let (secret, _) = rest.split_first_chunk::<8>()?;
        Some(Self {
            id: u32::from_be_bytes([0, id[0], id[1], id[2]]),
            secret: u64::from_be_bytes(*secret),
        })
    }
}

/// The mark of one film, or of the stems of one recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatermarkPayload {
    pub key: WatermarkKey,
    /// 40 bits.
    pub media_id: u64,
}

/// Marks the results of this deployment.
pub struct OriginMarker {
    /// The keys of each signing secret, the newest first.
    keys: Vec<(WatermarkKey, hmac::Key)>,
    rules: ProvenanceRules,
    /// The deployment's own certificates, PEM; empty if this program does not sign.
    certificates: String,
    #[cfg(feature = "c2pa")]
    signing: signing::DeploymentSigner,
}

impl OriginMarker {
    /// Reads the certificate in the settings, or the self-signed one that is kept with the data.
    /// Blocks.
    pub fn open(
        config: &Config,
        secrets: &[Vec<u8>],
        store: &Store,
        seal: &SecretSeal,
    ) -> Result<Self, SigningError> {
        #[cfg(not(feature = "c2pa"))]
        let _ = (store, seal);
        let keys = secrets.iter().filter_map(|secret| {
            let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
            Some((WatermarkKey::derive_from(&secret)?, secret))
        });
        #[cfg(feature = "c2pa")]
        let (signing, certificates) = signing::DeploymentSigner::open(config, store, seal)?;
        Ok(Self {
            keys: keys.collect(),
            rules: config.provenance.clone(),
            #[cfg(feature = "c2pa")]
            certificates,
            #[cfg(not(feature = "c2pa"))]
            certificates: String::new(),
            #[cfg(feature = "c2pa")]
            signing,
        })
    }

    /// Whether this program signs.
    pub const fn signs() -> bool {
        cfg!(feature = "c2pa")
    }

    /// Whether the certificate is self-signed, so that no authority vouches for it.
    pub const fn is_self_signed(&self) -> bool {
        self.rules.identity.is_none()
    }

    /// The mark for a task's film; `None` if films are not watermarked.
    pub fn watermark(&self, task: TaskId) -> Option<WatermarkPayload> {
        self.rules
            .watermark
            .then(|| self.watermark_payload(task))
            .flatten()
    }

    /// The mark for all stems of a task: because each has the same one, their sum has it too.
    /// `None` if stems are not watermarked.
    pub fn watermark_of_stems(&self, task: TaskId) -> Option<WatermarkPayload> {
        let is_enabled = self.rules.watermark_audio;
        is_enabled.then(|| self.watermark_payload(task)).flatten()
    }

    fn watermark_payload(&self, task: TaskId) -> Option<WatermarkPayload> {
        let (key, secret) = self.keys.first()?;
        // Derived from the task, so that it has the same mark if it runs again.
        let tag = hmac::sign(secret, format!("media {task}").as_bytes());
        let id = tag.as_ref().first_chunk::<5>()?;
        Some(WatermarkPayload {
            key: *key,
            media_id: id.iter().fold(0, |id, byte| id << 8 | u64::from(*byte)),
        })
    }

    /// The keys that the watermarks of films and stems may have been made with.
    pub fn keys(&self) -> Vec<WatermarkKey> {
        self.keys.iter().map(|(key, _)| *key).collect()
    }

    /// Signs a file; returns it unchanged if this program cannot sign. Blocks, even while a
    /// service signs or stamps.
    pub fn sign(
        &self,
        file: Vec<u8>,
        format: SignedFormat,
        statement: &ResultStatement<'_>,
    ) -> Result<Vec<u8>, SigningError> {
        #[cfg(feature = "c2pa")]
        {
            let prompt = self.rules.prompt;
            let signer = self.signing.signer();
            let signed = signing::sign(&file, format, statement, prompt, signer);
            drop(file);
            signed
        }
        #[cfg(not(feature = "c2pa"))]
        {
            let _ = (format, statement, self.rules.prompt);
            Ok(file)
        }
    }

    /// The signer, and whether an authority stamps its signatures.
    #[cfg(feature = "c2pa")]
    pub fn signer(&self) -> (&dyn provenance::credentials::ContentSigner, bool) {
        (self.signing.signer(), self.signing.stamps())
    }

    /// Whether signed files state the prompt.
    #[cfg(feature = "c2pa")]
    pub const fn tells_prompt(&self) -> bool {
        self.rules.prompt
    }

    /// Reads the provenance of a file that was made and signed here. Blocks.
    pub fn examine_own(&self, file: &[u8]) -> Provenance {
        examination::examine_own(file, self.certificates()).provenance
    }

    /// This deployment's own certificates, PEM; empty if this program does not sign.
    pub fn certificates(&self) -> &str {
        &self.certificates
    }
}

pub use examination::{FileExamination, SignedAction, VerifiedCredentials, verify};
#[cfg(feature = "c2pa")]
pub use signing::sign;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_secret_has_its_own_key() {
        let key = |secret: &[u8]| {
            let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
            WatermarkKey::derive_from(&secret).unwrap()
        };
        assert_eq!(key(b"one"), key(b"one"));
        assert_ne!(key(b"one"), key(b"two"));
        assert!(key(b"one").key().is_some());
        let shown = format!("{:?}", key(b"one"));
        assert!(!shown.contains(&key(b"one").secret.to_string()));
    }
}
