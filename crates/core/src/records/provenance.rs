//! Provenance of a file, in answers and webhooks.

use serde::Serialize;
use utoipa::ToSchema;

use mediagate_model::provenance::Provenance;

/// What a file says of its origin, without what it does not say. Unless the status is `valid` or `trusted`, anybody can have
/// written it there.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ProvenanceView {
    /// `none`: no marks. `unverified`: marks, but no signature that was verified. `invalid`: changed
    /// since it was signed, or the signature is damaged. `valid`: as it was signed, by someone whom
    /// nobody vouches for. `trusted`: as it was signed, by someone whom an authority vouches for.
    /// `unreadable`: of an unknown kind, or damaged.
    pub status: &'static str,
    /// Who signed, and who issued the certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<String>,
    /// The program that signed, or wrote the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator: Option<String>,
    /// A URI of IPTC's vocabulary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digital_source_type: Option<String>,
    /// Of `c2pa`, `remote_manifest`, `xmp`, `iptc`, `bext`, `aigc`, `watermark` and `label`.
    pub marks: Vec<&'static str>,
}

impl ProvenanceView {
    pub fn new(provenance: &Provenance) -> Self {
        Self {
            status: provenance.status.name(),
            signer: provenance.signer.clone(),
            generator: provenance.generator.clone(),
            digital_source_type: provenance.digital_source_type.clone(),
            marks: provenance.marks.iter().map(|mark| mark.name()).collect(),
        }
    }
}
