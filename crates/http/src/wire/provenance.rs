//! Result of a provenance check.

use provenance::marks::FileKind;
use serde::Serialize;
use utoipa::ToSchema;

use mediagate_core::domain::provenance::check::{MatchKind, ProvenanceReport, RegistryMatch};
use mediagate_core::records::provenance::ProvenanceView;

/// What was found out about a file.
#[derive(Debug, Serialize, ToSchema)]
pub struct CheckObject {
    /// Always `provenance.check`.
    pub object: &'static str,
    /// SHA-256 of the file, in lower-case hex.
    pub sha256: String,
    /// Size of the file.
    pub bytes: u64,
    /// The file's kind; null if it is of none that carries marks.
    #[schema(required = true)]
    pub mime_type: Option<&'static str>,
    /// What the file says of its origin.
    pub provenance: ProvenanceView,
    /// What its signer says was done to it. Of an invalid signature it is worth nothing.
    pub actions: Vec<ActionObject>,
    /// Titles of what it was made of, by its signer.
    pub ingredients: Vec<String>,
    /// The prompt, where its signer states it: up to 512 characters.
    #[schema(required = true)]
    pub prompt: Option<String>,
    /// Codes of C2PA for what does not hold.
    pub problems: Vec<String>,
    /// What this deployment knows of it.
    pub ours: OursObject,
    /// Results of this deployment that fit, the surest first.
    pub matches: Vec<MatchObject>,
    /// What could not be looked at.
    pub notes: Vec<String>,
}

/// Something that was done to a file.
#[derive(Debug, Serialize, ToSchema)]
pub struct ActionObject {
    /// `c2pa.created`.
    pub action: String,
    /// When, by the signer's clock.
    #[schema(required = true)]
    pub when: Option<String>,
    /// The model or program.
    #[schema(required = true)]
    pub software: Option<String>,
}

/// Whether a file is known to come from this deployment.
#[derive(Debug, Serialize, ToSchema)]
pub struct OursObject {
    /// It has this deployment's own signature and is as it was signed.
    pub signed: bool,
    /// This deployment's watermark was read in it.
    pub watermarked: bool,
    /// It is a result of this deployment, byte for byte.
    pub exact: bool,
}

/// A result of this deployment that fits.
#[derive(Debug, Serialize, ToSchema)]
pub struct MatchObject {
    /// `exact`: byte for byte. `watermark`: the file has the result's watermark. `near`: it looks or
    /// sounds alike.
    #[serde(rename = "match")]
    pub how: &'static str,
    /// What is alike: `video` or `sound`; null unless near.
    #[schema(required = true)]
    pub of: Option<&'static str>,
    /// Part of the fingerprints' bits that differ, 0 to 1; null unless near.
    #[schema(required = true)]
    pub distance: Option<f64>,
    /// When it was made.
    pub made_at: String,
    /// `video`, `song` or `stem`.
    pub kind: &'static str,
    /// `embedded`: by a model in this gateway. `hosted`: by a provider's.
    pub made_by: &'static str,
    /// Whether your own account made it. The following fields are there only then.
    pub own: bool,
    /// The task that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The clip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip_id: Option<String>,
}

impl CheckObject {
    pub fn new(checked: &ProvenanceReport) -> Self {
        let examined = &checked.examined;
        let deeds = examined.deeds.iter();
        Self {
            object: "provenance.check",
            sha256: checked.sha256.clone(),
            bytes: checked.size_bytes,
            mime_type: examined.kind.map(|kind| match kind {
                FileKind::Mp4 => "video/mp4",
                FileKind::Png => "image/png",
                FileKind::Jpeg => "image/jpeg",
                FileKind::Wav => "audio/wav",
                FileKind::Flac => "audio/flac",
                FileKind::Mp3 => "audio/mpeg",
            }),
            provenance: ProvenanceView::new(&examined.provenance),
            actions: deeds
                .map(|deed| ActionObject {
                    action: deed.action.clone(),
                    when: deed.when.clone(),
                    software: deed.software.clone(),
                })
                .collect(),
            ingredients: examined.ingredients.clone(),
            prompt: examined.prompt.clone(),
            problems: examined.problems.clone(),
            ours: OursObject {
                signed: examined.is_ours,
                watermarked: checked.is_marked,
                exact: checked
                    .matches
                    .iter()
                    .any(|found| found.how == MatchKind::Exact),
            },
            matches: checked.matches.iter().map(MatchObject::new).collect(),
            notes: checked.notes.clone(),
        }
    }
}

impl MatchObject {
    fn new(found: &RegistryMatch) -> Self {
        let print = &found.print;
        let (how, of, distance) = match found.how {
            MatchKind::Exact => ("exact", None, None),
            MatchKind::Watermark => ("watermark", None, None),
            MatchKind::Near { of, distance } => {
                // A thousandth is finer than the measure.
                let distance = (f64::from(distance) * 1000.0).round() / 1000.0;
                ("near", Some(of), Some(distance))
            }
        };
        let own = |id: Option<String>| id.filter(|_| found.is_own);
        Self {
            how,
            of,
            distance,
            made_at: print.created_at.rfc3339(),
            kind: print.kind.into_str(),
            made_by: if print.is_embedded {
                "embedded"
            } else {
                "hosted"
            },
            own: found.is_own,
            task_id: own(print.task.map(|id| id.to_string())),
            clip_id: own(print.clip.map(|id| id.to_string())),
        }
    }
}
