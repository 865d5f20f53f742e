//! The parent's side for the media of strangers: pictures, recordings, and files that somebody asks about.
//! Blocks. A child that dies at one has found it unusable: whatever was wrong with it, its owner is told
//! that it cannot be read.

use std::path::Path;

use super::outside::{follow, follow_each, take};
use super::{
    BadPicture, FileCheck, Job, Launcher, Limits, PictureFacts, Recordings, Unreadable, Verified,
    Word,
};
use crate::engines::clip::{KeepError, MadeClip};
use crate::engines::{EngineError, Watch};
use crate::origin::WatermarkKey;

/// What is told of media at which a child died.
const DIED: &str = "it cannot be decoded";

/// What a picture is; if `decodes`, every pixel of it can be decoded. `reserve` is called, and what it
/// returns is held, before memory is needed for that.
pub fn picture<Held>(
    launcher: &Launcher,
    file: &Path,
    decodes: bool,
    reserve: impl Fn(u64) -> Held,
    watch: &Watch,
) -> Result<Result<PictureFacts, BadPicture>, EngineError> {
    let job = Job::Picture {
        file: file.to_owned(),
        decodes,
    };
    let mut held = None;
    let mut hear = |_: &Path, word| match word {
        Word::Needs(bytes) => {
            held = Some(reserve(bytes));
            Ok(Some(String::new()))
        }
        word => Err(odd(&word)),
    };
    let ended = follow_each(launcher, job, Limits::MEDIA, watch, &mut hear);
    match ended {
        Ok((_, Word::Picture(facts))) => Ok(Ok(facts)),
        Ok((_, Word::BadPicture(why))) => Ok(Err(why)),
        Ok((_, word)) => Err(odd(&word)),
        Err(EngineError::Died(why)) => {
            tracing::warn!(%why, "a picture crashed its process");
            Ok(Err(BadPicture {
                is_too_large: false,
                message: DIED.to_owned(),
            }))
        }
        Err(error) => Err(error),
    }
}

/// A clip of a recording, or of the sum of several; `None` if their rates or channels differ.
pub fn clip_of(
    launcher: &Launcher,
    recordings: Recordings,
    watch: &Watch,
) -> Result<Option<MadeClip>, KeepError> {
    match follow(launcher, Job::Clip(recordings), Limits::MEDIA, watch) {
        Ok((folder, Word::Clips(clips))) => {
            let clip = clips.into_iter().next();
            let clip = clip.map(|clip| take(launcher, folder.path(), 0, clip));
            let clip = clip.transpose();
            clip.map_err(|error| EngineError::Broken(error.to_string()).into())
        }
        Ok((_, Word::Unreadable(why))) => Err(why.into()),
        Ok((_, word)) => Err(odd(&word).into()),
        Err(EngineError::Died(why)) => {
            tracing::warn!(%why, "a recording crashed its process");
            Err(KeepError::Decode(Unreadable {
                is_too_long: false,
                message: DIED.to_owned(),
            }))
        }
        Err(error) => Err(error.into()),
    }
}

/// What is to be seen and heard of a file.
pub fn check(
    launcher: &Launcher,
    file: &Path,
    keys: Vec<WatermarkKey>,
    certificates: &str,
    watch: &Watch,
) -> Result<FileCheck, EngineError> {
    let job = Job::Check {
        file: file.to_owned(),
        keys,
        certificates: certificates.to_owned(),
    };
    match follow(launcher, job, Limits::MEDIA, watch)? {
        (_, Word::Checked(checked)) => Ok(*checked),
        (_, word) => Err(odd(&word)),
    }
}

/// What a file's credentials say.
pub fn verify(
    launcher: &Launcher,
    file: &Path,
    certificates: &str,
    watch: &Watch,
) -> Result<Verified, String> {
    let job = Job::Verify {
        file: file.to_owned(),
        certificates: certificates.to_owned(),
    };
    match follow(launcher, job, Limits::MEDIA, watch) {
        Ok((_, Word::Verified(verified))) => verified,
        Ok((_, word)) => Err(odd(&word).to_string()),
        Err(EngineError::Died(why)) => {
            tracing::warn!(%why, "credentials crashed their process");
            Err("its credentials cannot be read".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn odd(word: &Word) -> EngineError {
    EngineError::Broken(format!("a child said {word:?}"))
}
