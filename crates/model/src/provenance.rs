//! Provenance of a file, and the fingerprints by which results are recognised.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::ids::{AccountId, AssetId, ClipId, TaskId};

/// Whether a file has a signature, and whether it is valid.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::EnumString,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum ProvenanceStatus {
    /// It carries no mark.
    None,
    /// It carries marks, but no verified signature.
    Unverified,
    /// It was changed after it was signed, or the signature is damaged.
    Invalid,
    /// It is unchanged since it was signed, by an unknown signer.
    Valid,
    /// It is unchanged since it was signed, by a signer that an authority vouches for.
    Trusted,
    /// Its kind is unknown, or it is damaged.
    Unreadable,
}

impl ProvenanceStatus {
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// A mark that a file carries.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::EnumString,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum ProvenanceMark {
    /// A C2PA manifest in the file.
    C2pa,
    /// The URL of a C2PA manifest elsewhere.
    RemoteManifest,
    Xmp,
    Iptc,
    /// The broadcast extension of WAV.
    Bext,
    /// The label of China's GB 45438.
    Aigc,
    /// A watermark of this deployment, embedded when the film or stem was made.
    Watermark,
    /// A visible label.
    Label,
}

impl ProvenanceMark {
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// What a file states about its origin. Unless the status is valid or trusted, anyone may have
/// written it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    pub status: ProvenanceStatus,
    /// The signer according to the certificate, and the certificate's issuer.
    pub signer: Option<String>,
    /// The program that signed, or that wrote the file.
    pub generator: Option<String>,
    /// A URI of IPTC's vocabulary.
    pub digital_source_type: Option<String>,
    pub marks: Vec<ProvenanceMark>,
}

impl Provenance {
    /// The provenance of a file that cannot be read.
    pub const fn unreadable() -> Self {
        Self::with_status(ProvenanceStatus::Unreadable)
    }

    /// Adds marks to those that the file states.
    #[must_use]
    pub fn with_marks(mut self, marks: impl IntoIterator<Item = ProvenanceMark>) -> Self {
        let before = self.marks.len();
        self.marks.extend(marks);
        // There is a mark now, but no verified signature.
        if self.status == ProvenanceStatus::None && self.marks.len() > before {
            self.status = ProvenanceStatus::Unverified;
        }
        self
    }

    pub const fn with_status(status: ProvenanceStatus) -> Self {
        Self {
            status,
            signer: None,
            generator: None,
            digital_source_type: None,
            marks: Vec::new(),
        }
    }
}

/// The kind of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub enum ResultKind {
    Video,
    Song,
    Stem,
}

/// The registry's entry for a result, by which it is recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultFingerprint {
    /// The id of the result's file.
    pub id: AssetId,
    pub account: AccountId,
    pub kind: ResultKind,
    /// Whether a model in this gateway made it.
    pub is_embedded: bool,
    /// The task with whose record it is removed; `None` for clips, which outlive their tasks.
    pub task: Option<TaskId>,
    pub clip: Option<ClipId>,
    /// SHA-256 of the file as stored, in lower-case hex.
    pub sha256: String,
    /// The watermark's 40 bits, if it has one.
    pub watermark: Option<u64>,
    pub fingerprint: PerceptualFingerprint,
    pub created_at: Timestamp,
}

/// Fingerprints of a result, and the index keys that find them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerceptualFingerprint {
    /// A stored `VideoPrint`, in base64.
    pub video: Option<String>,
    /// A stored `SoundPrint`, in base64.
    pub sound: Option<String>,
    pub keys: Vec<i64>,
}
