//! Provenance of a file, and the fingerprints by which results are recognised.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::ids::{AccountId, AssetId, ClipId, TaskId};

/// Whether a file's signature was there, and held.
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
    /// It carries marks, of which none is a signature that was verified.
    Unverified,
    /// It is not as it was signed, or the signature is damaged.
    Invalid,
    /// It is as it was signed, by someone whom nobody vouches for.
    Valid,
    /// It is as it was signed, by someone whom an authority vouches for.
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
    /// The address of a C2PA manifest elsewhere.
    RemoteManifest,
    Xmp,
    Iptc,
    /// The broadcast extension of WAV.
    Bext,
    /// The label of China's GB 45438.
    Aigc,
    /// A watermark of this deployment, put in when the film or stem was made.
    Watermark,
    /// A label that people see.
    Label,
}

impl ProvenanceMark {
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// What a file says of its origin. Only of a valid or trusted one is more known than that somebody
/// wrote it there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    pub status: ProvenanceStatus,
    /// Who signed, by the certificate, and who issued that.
    pub signer: Option<String>,
    /// The program that signed, or that wrote the file.
    pub generator: Option<String>,
    /// A URI of IPTC's vocabulary.
    pub digital_source_type: Option<String>,
    pub marks: Vec<ProvenanceMark>,
}

impl Provenance {
    /// Of a file that cannot be read.
    pub const fn unreadable() -> Self {
        Self::with_status(ProvenanceStatus::Unreadable)
    }

    /// With marks beside those that the file states.
    #[must_use]
    pub fn with_marks(mut self, marks: impl IntoIterator<Item = ProvenanceMark>) -> Self {
        let before = self.marks.len();
        self.marks.extend(marks);
        // There is a mark now, but no signature that anybody verified.
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

/// What kind of work a result is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub enum ResultKind {
    Video,
    Song,
    Stem,
}

/// What is kept of a result, to know it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultFingerprint {
    /// Of the result's file.
    pub id: AssetId,
    pub account: AccountId,
    pub kind: ResultKind,
    /// Whether a model in this gateway made it.
    pub is_embedded: bool,
    /// The task whose record it is removed with; `None` for clips, which outlive theirs.
    pub task: Option<TaskId>,
    pub clip: Option<ClipId>,
    /// Of the file as kept, in lower-case hex.
    pub sha256: String,
    /// 40 bits, if it is watermarked.
    pub watermark: Option<u64>,
    pub fingerprint: PerceptualFingerprint,
    pub created_at: Timestamp,
}

/// Fingerprints of a result, and the keys of the index that lead to them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerceptualFingerprint {
    /// A stored `VideoPrint`, in base64.
    pub video: Option<String>,
    /// A stored `SoundPrint`, in base64.
    pub sound: Option<String>,
    pub keys: Vec<i64>,
}
