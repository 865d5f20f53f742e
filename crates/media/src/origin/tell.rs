//! Reads what a file says of its origin. Marks are claims; only a signature can be verified, and
//! that needs the feature `c2pa`.

use std::fs::File;
use std::io::{BufReader, Cursor};
use std::path::Path;

use provenance::marks::{self, Kind, Marks, MarksError};
use serde::{Deserialize, Serialize};

use super::Origin;
use mediagate_model::provenance::{Mark, Provenance, ProvenanceStatus};

/// Something that was done to a file, by its signer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deed {
    /// `c2pa.created`.
    pub action: String,
    pub when: Option<String>,
    pub software: Option<String>,
}

/// All that can be told of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examined {
    pub provenance: Provenance,
    /// `None` if it is of no kind that carries marks.
    pub kind: Option<Kind>,
    /// Signed with this deployment's own certificate, and unchanged.
    pub is_ours: bool,
    pub deeds: Vec<Deed>,
    /// Titles of what it was made of.
    pub ingredients: Vec<String>,
    /// What was asked for, where its signer states that.
    pub prompt: Option<String>,
    /// C2PA's codes for what does not hold.
    pub problems: Vec<String>,
}

/// What a file's credentials say, and whether they hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    pub status: ProvenanceStatus,
    pub signer: Option<String>,
    pub is_ours: bool,
    pub generator: Option<String>,
    pub digital_source_type: Option<String>,
    pub deeds: Vec<Deed>,
    pub ingredients: Vec<String>,
    pub prompt: Option<String>,
    pub problems: Vec<String>,
}

impl Examined {
    /// What a file's marks claim; no signature is verified. Its readers are flat and hold no more of the
    /// file than their own limits say.
    pub fn claims(file: &Path) -> Self {
        let read = File::open(file)
            .map_err(MarksError::from)
            .and_then(|file| marks::read(BufReader::new(file)));
        Self::of(read)
    }

    fn of(read: Result<Marks, MarksError>) -> Self {
        let (kind, provenance) = match read {
            Ok(marks) => (Some(marks.kind), claims(&marks)),
            Err(error) => {
                tracing::debug!(%error, "a file's marks cannot be read");
                (None, Provenance::unreadable())
            }
        };
        Self {
            provenance,
            kind,
            is_ours: false,
            deeds: Vec::new(),
            ingredients: Vec::new(),
            prompt: None,
            problems: Vec::new(),
        }
    }

    /// Whether there are credentials that this program can verify.
    pub fn can_be_verified(&self) -> bool {
        Origin::signs() && self.provenance.marks.contains(&Mark::C2pa)
    }

    /// With what its credentials say, or why they could not be read.
    #[must_use]
    pub fn verified(mut self, verified: Result<Verified, String>) -> Self {
        let verified = match verified {
            Ok(verified) => verified,
            Err(why) => {
                self.problems = vec![why];
                return self;
            }
        };
        if verified.status == ProvenanceStatus::None {
            return self;
        }
        let told = &mut self.provenance;
        told.status = verified.status;
        told.signer = verified.signer.or_else(|| told.signer.take());
        told.generator = verified.generator.or_else(|| told.generator.take());
        let source = verified.digital_source_type;
        told.digital_source_type = source.or_else(|| told.digital_source_type.take());
        self.is_ours = verified.is_ours;
        self.deeds = verified.deeds;
        self.ingredients = verified.ingredients;
        self.prompt = verified.prompt;
        self.problems = verified.problems;
        self
    }
}

/// What a file that was made and signed here says.
pub(super) fn of_own(file: &[u8], certificates: &str) -> Examined {
    let examined = Examined::of(marks::read(Cursor::new(file)));
    if !examined.can_be_verified() {
        return examined;
    }
    let verified = verify(file, certificates);
    examined.verified(verified)
}

/// What the marks claim.
fn claims(marks: &Marks) -> Provenance {
    let found = [
        (marks.manifests > 0, Mark::C2pa),
        (marks.remote_manifest.is_some(), Mark::RemoteManifest),
        (marks.xmp, Mark::Xmp),
        (marks.iptc, Mark::Iptc),
        (marks.bext, Mark::Bext),
        (marks.aigc.is_some(), Mark::Aigc),
    ];
    let found = found.into_iter().filter(|(is_there, _)| *is_there);
    Provenance {
        status: if marks.any() {
            ProvenanceStatus::Unverified
        } else {
            ProvenanceStatus::None
        },
        signer: None,
        generator: marks.software.clone(),
        digital_source_type: marks.digital_source_type.clone(),
        marks: found.map(|(_, mark)| mark).collect(),
    }
}

#[cfg(not(feature = "c2pa"))]
pub fn verify(_: &[u8], _: &str) -> Result<Verified, String> {
    Err("this program was built without the feature `c2pa`".to_owned())
}

/// Verifies a file's credentials; `certificates` are this deployment's own. The library that does it has
/// recursive parsers: strangers' files are verified in a child process only.
#[cfg(feature = "c2pa")]
pub fn verify(file: &[u8], certificates: &str) -> Result<Verified, String> {
    use provenance::credentials::{self, Format, Status, Trust};
    let kind = marks::read(Cursor::new(file)).map_err(|error| error.to_string())?;
    let format = match kind.kind {
        Kind::Mp4 => Format::Mp4,
        Kind::Png => Format::Png,
        Kind::Jpeg => Format::Jpeg,
        Kind::Wav => Format::Wav,
        Kind::Flac => Format::Flac,
        Kind::Mp3 => Format::Mp3,
    };
    let trust = Trust {
        anchors_pem: None,
        own_pem: Some(certificates),
    };
    let answer = credentials::read(file, format, &trust).map_err(|error| error.to_string())?;
    let status = match answer.status {
        Status::None => ProvenanceStatus::None,
        Status::Invalid => ProvenanceStatus::Invalid,
        Status::Valid => ProvenanceStatus::Valid,
        Status::Trusted => ProvenanceStatus::Trusted,
    };
    let signer = answer.signer.as_ref();
    let name = signer.and_then(|signer| match (&signer.name, &signer.issuer) {
        (Some(name), Some(issuer)) => Some(format!("{name} ({issuer})")),
        (name, issuer) => name.clone().or_else(|| issuer.clone()),
    });
    let deeds = answer.actions.into_iter().map(|action| Deed {
        action: action.action,
        when: action.when,
        software: action.software,
    });
    Ok(Verified {
        status,
        is_ours: signer.is_some_and(|signer| signer.own) && answer.status != Status::Invalid,
        signer: name,
        generator: answer.generator,
        digital_source_type: answer.digital_source_type,
        deeds: deeds.collect(),
        ingredients: answer.ingredients,
        prompt: answer.prompt,
        problems: answer.problems,
    })
}
