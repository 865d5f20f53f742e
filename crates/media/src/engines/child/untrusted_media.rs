//! Untrusted media, the parent's side: pictures, recordings, and files that somebody asks about.
//! Blocks. A child that dies at one has found it unusable: whatever was wrong with it, its owner is told
//! that it cannot be read.

use std::path::Path;

use super::parent_side::{run_job, run_job_with, take};
use super::{
    BadPicture, ChildJob, ChildLauncher, ChildLimits, ChildMessage, ClipSources, FileCheck,
    PictureFacts, UnreadableRecording, VerifiedCredentials,
};
use crate::engines::clip::{ClipError, MadeClip};
use crate::engines::{EngineControl, EngineError};
use crate::origin::WatermarkKey;

/// What is told of media at which a child died.
const UNDECODABLE: &str = "it cannot be decoded";

/// What a picture is; if `decodes`, every pixel of it can be decoded. `reserve` is called, and what it
/// returns is held, before memory is needed for that.
pub fn probe_picture<Held>(
    launcher: &ChildLauncher,
    file: &Path,
    decodes: bool,
    reserve: impl Fn(u64) -> Held,
    watch: &EngineControl,
) -> Result<Result<PictureFacts, BadPicture>, EngineError> {
    let job = ChildJob::Picture {
        file: file.to_owned(),
        decodes,
    };
    let mut held = None;
    let mut hear = |_: &Path, word| match word {
        ChildMessage::Needs(bytes) => {
            // Held until the child has ended, when the memory is free again.
            held = Some(reserve(bytes));
            Ok(Some(String::new()))
        }
        word => Err(unexpected_message(&word)),
    };
    let ended = run_job_with(launcher, job, ChildLimits::MEDIA, watch, &mut hear);
    match ended {
        Ok((_, ChildMessage::Picture(facts))) => Ok(Ok(facts)),
        Ok((_, ChildMessage::BadPicture(why))) => Ok(Err(why)),
        Ok((_, word)) => Err(unexpected_message(&word)),
        Err(EngineError::Died(why)) => {
            tracing::warn!(%why, "decoding a picture crashed its process");
            Ok(Err(BadPicture {
                is_too_large: false,
                message: UNDECODABLE.to_owned(),
            }))
        }
        Err(error) => Err(error),
    }
}

/// A clip of a recording, or of the sum of several; `None` if their rates or channels differ.
pub fn clip_of(
    launcher: &ChildLauncher,
    recordings: ClipSources,
    watch: &EngineControl,
) -> Result<Option<MadeClip>, ClipError> {
    match run_job(
        launcher,
        ChildJob::Clip(recordings),
        ChildLimits::MEDIA,
        watch,
    ) {
        Ok((folder, ChildMessage::Clips(clips))) => {
            let clip = clips.into_iter().next();
            let clip = clip.map(|clip| take(launcher, folder.path(), 0, clip));
            let clip = clip.transpose();
            clip.map_err(|error| EngineError::Broken(error.to_string()).into())
        }
        Ok((_, ChildMessage::Unreadable(why))) => Err(why.into()),
        Ok((_, word)) => Err(unexpected_message(&word).into()),
        Err(EngineError::Died(why)) => {
            tracing::warn!(%why, "decoding a recording crashed its process");
            Err(ClipError::Decode(UnreadableRecording {
                is_too_long: false,
                message: UNDECODABLE.to_owned(),
            }))
        }
        Err(error) => Err(error.into()),
    }
}

/// What is to be seen and heard of a file.
pub fn check(
    launcher: &ChildLauncher,
    file: &Path,
    keys: Vec<WatermarkKey>,
    certificates: &str,
    watch: &EngineControl,
) -> Result<FileCheck, EngineError> {
    let job = ChildJob::Check {
        file: file.to_owned(),
        keys,
        certificates: certificates.to_owned(),
    };
    match run_job(launcher, job, ChildLimits::MEDIA, watch)? {
        (_, ChildMessage::Checked(checked)) => Ok(*checked),
        (_, word) => Err(unexpected_message(&word)),
    }
}

/// What a file's credentials say.
pub fn verify(
    launcher: &ChildLauncher,
    file: &Path,
    certificates: &str,
    watch: &EngineControl,
) -> Result<VerifiedCredentials, String> {
    let job = ChildJob::Verify {
        file: file.to_owned(),
        certificates: certificates.to_owned(),
    };
    match run_job(launcher, job, ChildLimits::MEDIA, watch) {
        Ok((_, ChildMessage::Verified(verified))) => verified,
        Ok((_, word)) => Err(unexpected_message(&word).to_string()),
        Err(EngineError::Died(why)) => {
            tracing::warn!(%why, "reading Content Credentials crashed its process");
            Err("its credentials cannot be read".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn unexpected_message(word: &ChildMessage) -> EngineError {
    EngineError::Broken(format!("a child said {word:?}"))
}
