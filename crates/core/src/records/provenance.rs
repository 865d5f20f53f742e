//! Provenance of a file, in answers and webhooks.

use serde::Serialize;
use utoipa::ToSchema;

use mediagate_model::provenance::Provenance;

/// Provenance information in a file. Absent fields are not stated in the file. Unless the status is
/// `valid` or `trusted`, anyone can have written this information.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ProvenanceView {
    /// `none`: no marks. `unverified`: marks, but no verified signature. `invalid`: changed since
    /// it was signed, or the signature is damaged. `valid`: unchanged since it was signed, by a
    /// signer that no authority vouches for. `trusted`: unchanged since it was signed, by a signer
    /// that an authority vouches for. `unreadable`: unknown or damaged format.
    pub status: &'static str,
    /// The signer and the issuer of its certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<String>,
    /// The program that signed or wrote the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generator: Option<String>,
    /// The digital source type, a URI of the IPTC vocabulary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digital_source_type: Option<String>,
    /// The marks found: `c2pa`, `remote_manifest`, `xmp`, `iptc`, `bext`, `aigc`, `watermark`,
    /// `label`.
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
