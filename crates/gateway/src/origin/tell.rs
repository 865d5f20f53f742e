//! Reads what a file says of its origin. Marks are claims; only a signature can be verified, and
//! that needs the feature `c2pa`.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, Cursor};
use std::path::Path;

use provenance::marks::{self, Kind, Marks, MarksError};

use super::Origin;
use crate::model::provenance::{Mark, Provenance, ProvenanceStatus};

/// Something that was done to a file, by its signer.
#[derive(Debug, Clone, PartialEq, Eq)]
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

pub(super) fn examine(file: &Path, origin: &Origin) -> Examined {
    let read = File::open(file)
        .map_err(MarksError::from)
        .and_then(|file| marks::read(BufReader::new(file)));
    told(read, || std::fs::read(file).map(Cow::Owned), origin)
}

pub(super) fn examine_bytes(file: &[u8], origin: &Origin) -> Examined {
    let read = marks::read(Cursor::new(file));
    told(read, || Ok(Cow::Borrowed(file)), origin)
}

/// `whole` is asked for the file only if there is a signature to verify.
fn told<'a>(
    read: Result<Marks, MarksError>,
    whole: impl FnOnce() -> io::Result<Cow<'a, [u8]>>,
    origin: &Origin,
) -> Examined {
    let marks = match read {
        Ok(marks) => marks,
        Err(error) => {
            tracing::debug!(%error, "a file's marks cannot be read");
            return Examined {
                provenance: Provenance::unreadable(),
                kind: None,
                is_ours: false,
                deeds: Vec::new(),
                ingredients: Vec::new(),
                prompt: None,
                problems: Vec::new(),
            };
        }
    };
    let examined = Examined {
        kind: Some(marks.kind),
        is_ours: false,
        deeds: Vec::new(),
        ingredients: Vec::new(),
        prompt: None,
        problems: Vec::new(),
        provenance: claims(&marks),
    };
    verified(examined, whole, &marks, origin)
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
fn verified<'a>(
    examined: Examined,
    _: impl FnOnce() -> io::Result<Cow<'a, [u8]>>,
    _: &Marks,
    _: &Origin,
) -> Examined {
    examined
}

/// Adds what the signature says.
#[cfg(feature = "c2pa")]
fn verified<'a>(
    mut examined: Examined,
    whole: impl FnOnce() -> io::Result<Cow<'a, [u8]>>,
    marks: &Marks,
    origin: &Origin,
) -> Examined {
    use provenance::credentials::{Format, Status};
    if marks.manifests == 0 {
        return examined;
    }
    let format = match marks.kind {
        Kind::Mp4 => Format::Mp4,
        Kind::Png => Format::Png,
        Kind::Jpeg => Format::Jpeg,
        Kind::Wav => Format::Wav,
        Kind::Flac => Format::Flac,
        Kind::Mp3 => Format::Mp3,
    };
    let answer = whole().map_err(MarksError::from).map_err(Into::into);
    let answer = answer.and_then(|bytes| origin.signing.read(&bytes, format));
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            examined.problems = vec![error.to_string()];
            return examined;
        }
    };
    let told = &mut examined.provenance;
    told.status = match answer.status {
        Status::None => return examined,
        Status::Invalid => ProvenanceStatus::Invalid,
        Status::Valid => ProvenanceStatus::Valid,
        Status::Trusted => ProvenanceStatus::Trusted,
    };
    let holds = answer.status != Status::Invalid;
    if let Some(signer) = &answer.signer {
        examined.is_ours = signer.own && holds;
        told.signer = match (&signer.name, &signer.issuer) {
            (Some(name), Some(issuer)) => Some(format!("{name} ({issuer})")),
            (name, issuer) => name.clone().or_else(|| issuer.clone()),
        };
    }
    told.generator = answer.generator.or_else(|| told.generator.take());
    let source = answer.digital_source_type;
    told.digital_source_type = source.or_else(|| told.digital_source_type.take());
    let deeds = answer.actions.into_iter();
    examined.deeds = deeds
        .map(|action| Deed {
            action: action.action,
            when: action.when,
            software: action.software,
        })
        .collect();
    examined.ingredients = answer.ingredients;
    examined.prompt = answer.prompt;
    examined.problems = answer.problems;
    examined
}
