//! Examination of a file's provenance. Marks are claims; only a signature can be verified, and
//! that needs the feature `c2pa`.

use std::fs::File;
use std::io::{BufReader, Cursor};
use std::path::Path;

use provenance::marks::{self, FileKind, FileMarks, MarksError};
use serde::{Deserialize, Serialize};

use super::OriginMarker;
use mediagate_model::provenance::{Provenance, ProvenanceMark, ProvenanceStatus};

/// Something that was done to a file, as its signer states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedAction {
    /// For example `c2pa.created`.
    pub action: String,
    pub when: Option<String>,
    pub software: Option<String>,
}

/// All findings about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileExamination {
    pub provenance: Provenance,
    /// `None` if files of its kind carry no marks.
    pub kind: Option<FileKind>,
    /// Signed with this deployment's own certificate, and unchanged.
    pub is_ours: bool,
    pub actions: Vec<SignedAction>,
    /// Titles of the files it was made from.
    pub ingredients: Vec<String>,
    /// The prompt, if its signer states it.
    pub prompt: Option<String>,
    /// C2PA's codes of failed checks, or why the credentials could not be read.
    pub problems: Vec<String>,
}

/// A file's credentials, and whether they are valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedCredentials {
    pub status: ProvenanceStatus,
    pub signer: Option<String>,
    pub is_ours: bool,
    pub generator: Option<String>,
    pub digital_source_type: Option<String>,
    pub deeds: Vec<SignedAction>,
    pub ingredients: Vec<String>,
    pub prompt: Option<String>,
    pub problems: Vec<String>,
}

impl FileExamination {
    /// Reads the claims of a file's marks; no signature is verified. The readers are not recursive
    /// and keep only a limited part of the file in memory.
    pub fn claims(file: &Path) -> Self {
        let result = File::open(file)
            .map_err(MarksError::from)
            .and_then(|file| marks::read(BufReader::new(file)));
        Self::from_marks(result)
    }

    fn from_marks(result: Result<FileMarks, MarksError>) -> Self {
        let (kind, provenance) = match result {
            Ok(marks) => (Some(marks.kind), claims(&marks)),
            Err(error) => {
                tracing::debug!(%error, "cannot read the marks of a file");
                (None, Provenance::unreadable())
            }
        };
        Self {
            provenance,
            kind,
            is_ours: false,
            actions: Vec::new(),
            ingredients: Vec::new(),
            prompt: None,
            problems: Vec::new(),
        }
    }

    /// Whether there are credentials that this program can verify.
    pub fn can_be_verified(&self) -> bool {
        OriginMarker::signs() && self.provenance.marks.contains(&ProvenanceMark::C2pa)
    }

    /// Adds the result of verifying its credentials, or why they could not be read.
    #[must_use]
    pub fn with_verification(mut self, verified: Result<VerifiedCredentials, String>) -> Self {
        let verified = match verified {
            Ok(verified) => verified,
            Err(reason) => {
                // The marks remain unverified claims.
                self.problems = vec![reason];
                return self;
            }
        };
        // There were no credentials after all, so only the marks are known.
        if verified.status == ProvenanceStatus::None {
            return self;
        }
        let provenance = &mut self.provenance;
        provenance.status = verified.status;
        provenance.signer = verified.signer.or_else(|| provenance.signer.take());
        provenance.generator = verified.generator.or_else(|| provenance.generator.take());
        let source = verified.digital_source_type;
        provenance.digital_source_type = source.or_else(|| provenance.digital_source_type.take());
        self.is_ours = verified.is_ours;
        self.actions = verified.deeds;
        self.ingredients = verified.ingredients;
        self.prompt = verified.prompt;
        self.problems = verified.problems;
        self
    }
}

/// Reads the provenance of a file that was made and signed here.
pub(super) fn examine_own(file: &[u8], certificates: &str) -> FileExamination {
    let examined = FileExamination::from_marks(marks::read(Cursor::new(file)));
    if !examined.can_be_verified() {
        return examined;
    }
    let verified = verify(file, certificates);
    examined.with_verification(verified)
}

/// The provenance that the marks claim.
fn claims(marks: &FileMarks) -> Provenance {
    let claims = [
        (marks.manifests > 0, ProvenanceMark::C2pa),
        (
            marks.remote_manifest.is_some(),
            ProvenanceMark::RemoteManifest,
        ),
        (marks.xmp, ProvenanceMark::Xmp),
        (marks.iptc, ProvenanceMark::Iptc),
        (marks.bext, ProvenanceMark::Bext),
        (marks.aigc.is_some(), ProvenanceMark::Aigc),
    ];
    let claims = claims.into_iter().filter(|(is_there, _)| *is_there);
    Provenance {
        status: if marks.has_origin_claim() {
            ProvenanceStatus::Unverified
        } else {
            ProvenanceStatus::None
        },
        signer: None,
        generator: marks.software.clone(),
        digital_source_type: marks.digital_source_type.clone(),
        marks: claims.map(|(_, mark)| mark).collect(),
    }
}

#[cfg(not(feature = "c2pa"))]
pub fn verify(_: &[u8], _: &str) -> Result<VerifiedCredentials, String> {
    Err("this program was built without the feature `c2pa`".to_owned())
}

/// Verifies a file's credentials; `certificates` are this deployment's own. The library that does
/// it has recursive parsers: untrusted files are verified only in a child process.
#[cfg(feature = "c2pa")]
pub fn verify(file: &[u8], certificates: &str) -> Result<VerifiedCredentials, String> {
    use provenance::credentials::{self, CredentialsStatus, MediaFormat, TrustAnchors};
    let file_marks = marks::read(Cursor::new(file)).map_err(|error| error.to_string())?;
    let format = match file_marks.kind {
        FileKind::Mp4 => MediaFormat::Mp4,
        FileKind::Png => MediaFormat::Png,
        FileKind::Jpeg => MediaFormat::Jpeg,
        FileKind::Wav => MediaFormat::Wav,
        FileKind::Flac => MediaFormat::Flac,
        FileKind::Mp3 => MediaFormat::Mp3,
    };
    let trust = TrustAnchors {
        anchors_pem: None,
        own_pem: Some(certificates),
    };
    let report = credentials::read(file, format, &trust).map_err(|error| error.to_string())?;
    let status = match report.status {
        CredentialsStatus::None => ProvenanceStatus::None,
        CredentialsStatus::Invalid => ProvenanceStatus::Invalid,
        CredentialsStatus::Valid => ProvenanceStatus::Valid,
        CredentialsStatus::Trusted => ProvenanceStatus::Trusted,
    };
    let signer = report.signer.as_ref();
    let name = signer.and_then(|signer| match (&signer.name, &signer.issuer) {
        (Some(name), Some(issuer)) => Some(format!("{name} ({issuer})")),
        (name, issuer) => name.clone().or_else(|| issuer.clone()),
    });
    let actions = report.actions.into_iter().map(|action| SignedAction {
        action: action.action,
        when: action.when,
        software: action.software,
    });
    Ok(VerifiedCredentials {
        status,
        // A file that was changed after it was signed is not ours.
        is_ours: signer.is_some_and(|signer| signer.own)
            && report.status != CredentialsStatus::Invalid,
        signer: name,
        generator: report.generator,
        digital_source_type: report.digital_source_type,
        deeds: actions.collect(),
        ingredients: report.ingredients,
        prompt: report.prompt,
        problems: report.problems,
    })
}
