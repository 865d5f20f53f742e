//! Result of a provenance check.

use provenance::marks::FileKind;
use serde::Serialize;
use utoipa::ToSchema;

use mediagate_core::domain::provenance::check::{MatchKind, ProvenanceReport, RegistryMatch};
use mediagate_core::records::provenance::ProvenanceView;

/// The result of a provenance check.
#[derive(Debug, Serialize, ToSchema)]
pub struct CheckObject {
    /// Always `provenance.check`.
    pub object: &'static str,
    /// SHA-256 hash of the file, in lower-case hex.
    pub sha256: String,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Media type of the file. Null if the format cannot carry provenance marks.
    #[schema(required = true)]
    pub mime_type: Option<&'static str>,
    /// Provenance information in the file.
    pub provenance: ProvenanceView,
    /// Actions on the file, as declared by the signer. Ignore them if the signature is invalid.
    pub actions: Vec<ActionObject>,
    /// Titles of the ingredients, as declared by the signer.
    pub ingredients: Vec<String>,
    /// The prompt, if the signer declares it. At most 512 characters.
    #[schema(required = true)]
    pub prompt: Option<String>,
    /// C2PA status codes of failed validations.
    pub problems: Vec<String>,
    /// Whether the file is known to come from this deployment.
    pub ours: OursObject,
    /// Matching results of this deployment, most certain first.
    pub matches: Vec<MatchObject>,
    /// Notes on what could not be checked.
    pub notes: Vec<String>,
}

/// An action on a file.
#[derive(Debug, Serialize, ToSchema)]
pub struct ActionObject {
    /// Name of the action, for example `c2pa.created`.
    pub action: String,
    /// Time of the action, by the signer's clock.
    #[schema(required = true)]
    pub when: Option<String>,
    /// The model or program that was used.
    #[schema(required = true)]
    pub software: Option<String>,
}

/// Whether a file is known to come from this deployment.
#[derive(Debug, Serialize, ToSchema)]
pub struct OursObject {
    /// Whether the file has this deployment's signature and is unchanged since it was signed.
    pub signed: bool,
    /// Whether this deployment's watermark was found in the file.
    pub watermarked: bool,
    /// Whether the file is byte-for-byte a result of this deployment.
    pub exact: bool,
}

/// A matching result of this deployment.
#[derive(Debug, Serialize, ToSchema)]
pub struct MatchObject {
    /// `exact`: identical bytes. `watermark`: the file has the result's watermark. `near`: the file
    /// looks or sounds similar.
    #[serde(rename = "match")]
    pub how: &'static str,
    /// What is similar: `video` or `sound`. Null unless `match` is `near`.
    #[schema(required = true)]
    pub of: Option<&'static str>,
    /// Fraction of differing fingerprint bits, 0 to 1. Null unless `match` is `near`.
    #[schema(required = true)]
    pub distance: Option<f64>,
    /// Time when the result was made.
    pub made_at: String,
    /// Kind of result: `video`, `song` or `stem`.
    pub kind: &'static str,
    /// `embedded`: a model in this gateway. `hosted`: a provider's model.
    pub made_by: &'static str,
    /// Whether your account made it. `task_id` and `clip_id` are present only in this case.
    pub own: bool,
    /// Id of the task that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Id of the clip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip_id: Option<String>,
}

impl CheckObject {
    pub fn new(report: &ProvenanceReport) -> Self {
        let examined = &report.examined;
        let actions = examined.actions.iter();
        Self {
            object: "provenance.check",
            sha256: report.sha256.clone(),
            bytes: report.size_bytes,
            mime_type: examined.kind.map(|kind| match kind {
                FileKind::Mp4 => "video/mp4",
                FileKind::Png => "image/png",
                FileKind::Jpeg => "image/jpeg",
                FileKind::Wav => "audio/wav",
                FileKind::Flac => "audio/flac",
                FileKind::Mp3 => "audio/mpeg",
            }),
            provenance: ProvenanceView::new(&examined.provenance),
            actions: actions
                .map(|action| ActionObject {
                    action: action.action.clone(),
                    when: action.when.clone(),
                    software: action.software.clone(),
                })
                .collect(),
            ingredients: examined.ingredients.clone(),
            prompt: examined.prompt.clone(),
            problems: examined.problems.clone(),
            ours: OursObject {
                signed: examined.is_ours,
                watermarked: report.is_marked,
                exact: report
                    .matches
                    .iter()
                    .any(|registry_match| registry_match.kind == MatchKind::Exact),
            },
            matches: report.matches.iter().map(MatchObject::new).collect(),
            notes: report.notes.clone(),
        }
    }
}

impl MatchObject {
    fn new(registry_match: &RegistryMatch) -> Self {
        let fingerprint = &registry_match.print;
        let (how, of, distance) = match registry_match.kind {
            MatchKind::Exact => ("exact", None, None),
            MatchKind::Watermark => ("watermark", None, None),
            MatchKind::Near { medium, distance } => {
                // A thousandth is finer than the accuracy of the measure.
                let distance = (f64::from(distance) * 1000.0).round() / 1000.0;
                ("near", Some(medium), Some(distance))
            }
        };
        // Others learn that the file was made here, but not by whom.
        let own = |id: Option<String>| id.filter(|_| registry_match.is_own);
        Self {
            how,
            of,
            distance,
            made_at: fingerprint.created_at.rfc3339(),
            kind: fingerprint.kind.into_str(),
            made_by: if fingerprint.is_embedded {
                "embedded"
            } else {
                "hosted"
            },
            own: registry_match.is_own,
            task_id: own(fingerprint.task.map(|id| id.to_string())),
            clip_id: own(fingerprint.clip.map(|id| id.to_string())),
        }
    }
}
