//! Signing, in a child, of results made from a caller's file: the file becomes an ingredient, and a
//! library with recursive parsers reads it. The key stays with the parent: the child sends the
//! bytes to sign or stamp, and receives the signature or stamp.

use std::io::{self, BufRead as _};
use std::path::{Path, PathBuf};

use provenance::credentials::{ContentSigner, SignFailure, SignatureAlgorithm};
use provenance::marks::FileKind;
use serde::{Deserialize, Serialize};

use super::child_side::send;
use super::parent_side::run_job_with;
use super::result_checks::check_kind;
use super::result_files::{ResultFiles, write_result};
use super::{ChildJob, ChildLauncher, ChildLimits, ChildMessage, SIGNED};
use crate::engines::clip::engine_failure;
use crate::engines::{EngineControl, EngineError};
use crate::origin::{self, CreationMethod, ResultStatement, SignedFormat, SigningError};

/// A file to be signed, and the statement about it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SignOrder {
    pub file: PathBuf,
    pub format: SignedFormat,
    /// The file that it was made from.
    pub source: PathBuf,
    pub title: String,
    pub model: String,
    pub provider: Option<String>,
    pub prompt: String,
    pub tells_prompt: bool,
    /// RFC 3339.
    pub when: String,
}

/// The public part of a signer, for a child.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PublicSigner {
    algorithm: AlgorithmName,
    /// DER.
    certificates: Vec<Vec<u8>>,
    stamps: bool,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum AlgorithmName {
    Es256,
    Es384,
    Ed25519,
}

/// Maximum size in bytes of what signing adds, besides the source's own credentials.
const MAX_CREDENTIALS_BYTES: u64 = 16 << 20;

/// The parent's answer: the signature or stamp, or why there is none.
type SignAnswer = Result<Vec<u8>, String>;

/// Signs the file and returns it.
pub fn sign(
    launcher: &ChildLauncher,
    order: SignOrder,
    (signer, stamps): (&dyn ContentSigner, bool),
    engine_control: &EngineControl,
) -> Result<Vec<u8>, EngineError> {
    let public = PublicSigner {
        algorithm: match signer.algorithm() {
            SignatureAlgorithm::Es256 => AlgorithmName::Es256,
            SignatureAlgorithm::Es384 => AlgorithmName::Es384,
            SignatureAlgorithm::Ed25519 => AlgorithmName::Ed25519,
        },
        certificates: signer.certificates().map_err(engine_failure)?,
        stamps,
    };
    let mut handler = |_: &ResultFiles, message| {
        let answer: SignAnswer = match message {
            ChildMessage::ToSign(bytes) => signer.sign(&bytes).map_err(|error| error.0),
            ChildMessage::ToStamp(request) => match signer.time_stamp(&request) {
                Some(stamp) => stamp.map_err(|error| error.0),
                None => Err("there is no time-stamp authority".to_owned()),
            },
            message => return Err(EngineError::Broken(format!("a child sent {message:?}"))),
        };
        serde_json::to_string(&answer)
            .map(Some)
            .map_err(engine_failure)
    };
    let kind = match order.format {
        SignedFormat::Mp4 => FileKind::Mp4,
        SignedFormat::Png => FileKind::Png,
        SignedFormat::Jpeg => FileKind::Jpeg,
        SignedFormat::Flac => FileKind::Flac,
    };
    let size = |file: &Path| std::fs::metadata(file).map_or(0, |file| file.len());
    // The signed file contains the credentials of its source.
    let max_bytes = size(&order.file) + size(&order.source) + MAX_CREDENTIALS_BYTES;
    let job = ChildJob::Sign(order, public);
    let (files, message) = run_job_with(
        launcher,
        job,
        ChildLimits::MEDIA,
        engine_control,
        &mut handler,
    )?;
    match message {
        ChildMessage::Signed(Ok(())) => {
            let signed = files.read(SIGNED, max_bytes);
            let signed = signed.and_then(|signed| check_kind(signed, kind));
            signed.map_err(engine_failure)
        }
        ChildMessage::Signed(Err(reason)) => Err(EngineError::Broken(reason)),
        message => Err(EngineError::Broken(format!("a child sent {message:?}"))),
    }
}

/// The child's side.
pub(super) fn serve(
    order: &SignOrder,
    signer: &PublicSigner,
    folder: &Path,
) -> Result<ChildMessage, EngineError> {
    let file = std::fs::read(&order.file).map_err(engine_failure)?;
    let source = std::fs::read(&order.source).map_err(engine_failure)?;
    let statement = ResultStatement {
        title: &order.title,
        model: &order.model,
        provider: order.provider.as_deref(),
        prompt: &order.prompt,
        when: &order.when,
        made: CreationMethod::Edited {
            title: &order.title,
            source: &source,
        },
    };
    let signed = origin::sign(&file, order.format, &statement, order.tells_prompt, signer);
    let signed = match signed {
        Ok(signed) => {
            write_result(folder, SIGNED, &signed).map_err(engine_failure)?;
            Ok(())
        }
        Err(SigningError(reason)) => Err(reason),
    };
    Ok(ChildMessage::Signed(signed))
}

impl ContentSigner for PublicSigner {
    fn algorithm(&self) -> SignatureAlgorithm {
        match self.algorithm {
            AlgorithmName::Es256 => SignatureAlgorithm::Es256,
            AlgorithmName::Es384 => SignatureAlgorithm::Es384,
            AlgorithmName::Ed25519 => SignatureAlgorithm::Ed25519,
        }
    }

    fn certificates(&self) -> Result<Vec<Vec<u8>>, SignFailure> {
        Ok(self.certificates.clone())
    }

    fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, SignFailure> {
        request_signature(&ChildMessage::ToSign(bytes.to_vec()))
    }

    fn time_stamp(&self, request: &[u8]) -> Option<Result<Vec<u8>, SignFailure>> {
        self.stamps
            .then(|| request_signature(&ChildMessage::ToStamp(request.to_vec())))
    }
}

/// Requests the signature or stamp from the parent.
fn request_signature(message: &ChildMessage) -> Result<Vec<u8>, SignFailure> {
    let failed = |error: &dyn std::fmt::Display| SignFailure(error.to_string());
    send(message).map_err(|error| failed(&error))?;
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| failed(&error))?;
    let answer: SignAnswer = serde_json::from_str(&line).map_err(|error| failed(&error))?;
    answer.map_err(SignFailure)
}
