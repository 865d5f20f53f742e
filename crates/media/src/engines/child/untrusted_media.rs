//! Untrusted media, the parent's side: pictures, recordings, and files to be checked. Blocks. If a
//! child dies while it reads a file, the file counts as unreadable, unless the child was asked to
//! stop. A child that dies before that says nothing about the file ([`EngineError::Unstarted`]). [`check`] returns the death as an error, which its caller reports as a finding.

use std::path::Path;

use provenance::watermark::VideoDetector;
use provenance::watermark::sound::SoundDetector;

use super::parent_side::{collect_clip, run_job, run_job_with};
use super::result_files::ResultFiles;
use super::{
    BadPicture, ChildJob, ChildLauncher, ChildLimits, ChildMessage, ClipSources, FRAMES, FileCheck,
    PictureFacts, SOUND, UnreadableRecording, VerifiedCredentials,
};
use crate::engines::clip::{ClipError, MadeClip, engine_failure};
use crate::engines::{EngineControl, EngineError};
use crate::origin::WatermarkKey;

/// Maximum size of what a child collects of a film or a recording, in bytes.
const MAX_COLLECTED_BYTES: u64 = 16 << 20;

/// The error for media that crashed a child.
const UNDECODABLE: &str = "it cannot be decoded";

/// Identifies a picture; if `decodes`, also checks that every pixel can be decoded. Before that,
/// `reserve` is called for the memory, and its result is kept until the memory is free again.
pub fn probe_picture<Held>(
    launcher: &ChildLauncher,
    file: &Path,
    decodes: bool,
    reserve: impl Fn(u64) -> Held,
    engine_control: &EngineControl,
) -> Result<Result<PictureFacts, BadPicture>, EngineError> {
    let job = ChildJob::Picture {
        file: file.to_owned(),
        decodes,
    };
    let mut held = None;
    let mut handler = |_: &ResultFiles, message| match message {
        ChildMessage::Needs(bytes) => {
            // Kept until the child has ended, when the memory is free again.
            held = Some(reserve(bytes));
            Ok(Some(String::new()))
        }
        message => Err(unexpected_message(&message)),
    };
    let result = run_job_with(
        launcher,
        job,
        ChildLimits::MEDIA,
        engine_control,
        &mut handler,
    );
    match result {
        Ok((_, ChildMessage::Picture(facts))) => Ok(Ok(facts)),
        Ok((_, ChildMessage::BadPicture(why))) => Ok(Err(why)),
        Ok((_, message)) => Err(unexpected_message(&message)),
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
    engine_control: &EngineControl,
) -> Result<Option<MadeClip>, ClipError> {
    match run_job(
        launcher,
        ChildJob::Clip(recordings),
        ChildLimits::MEDIA,
        engine_control,
    ) {
        Ok((files, ChildMessage::Clips(clips))) => {
            let clip = clips.into_iter().next();
            let clip = clip.map(|clip| collect_clip(launcher, &files, 0, clip));
            let clip = clip.transpose();
            clip.map_err(|error| EngineError::Broken(error.to_string()).into())
        }
        Ok((_, ChildMessage::Unreadable(error))) => Err(error.into()),
        Ok((_, message)) => Err(unexpected_message(&message).into()),
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

/// Looks for everything that shows where a file comes from: credentials, watermarks, fingerprints.
/// The child decodes the file, and collects the numbers in which a watermark shows. They are the
/// same for every key, so the keys stay here.
pub fn check(
    launcher: &ChildLauncher,
    file: &Path,
    keys: &[WatermarkKey],
    certificates: &str,
    engine_control: &EngineControl,
) -> Result<FileCheck, EngineError> {
    let job = ChildJob::Check {
        file: file.to_owned(),
        certificates: certificates.to_owned(),
    };
    let (files, message) = run_job(launcher, job, ChildLimits::MEDIA, engine_control)?;
    let ChildMessage::Checked(mut checked) = message else {
        return Err(unexpected_message(&message));
    };
    let collected = |name| {
        files
            .read(name, MAX_COLLECTED_BYTES)
            .map_err(engine_failure)
    };
    let frames = VideoDetector::from_bytes(&collected(FRAMES)?);
    let sound = SoundDetector::from_bytes(&collected(SOUND)?);
    let mut keys_of_film = keys.iter().filter_map(WatermarkKey::key);
    let mark = frames.and_then(|frames| keys_of_film.find_map(|key| frames.read(&key)));
    checked.looked.mark = mark.map(|mark| (mark.key_id, mark.media_id));
    if let Some(heard) = &mut checked.heard {
        let mut keys = keys.iter().filter_map(WatermarkKey::key);
        let mark = sound.and_then(|sound| keys.find_map(|key| sound.read(&key)));
        heard.mark = mark.map(|mark| (mark.key_id, mark.media_id));
    }
    Ok(*checked)
}

/// Verifies a file's credentials. Fails only if no child can start; anything else is a finding about
/// the file.
pub fn verify(
    launcher: &ChildLauncher,
    file: &Path,
    certificates: &str,
    engine_control: &EngineControl,
) -> Result<Result<VerifiedCredentials, String>, EngineError> {
    let job = ChildJob::Verify {
        file: file.to_owned(),
        certificates: certificates.to_owned(),
    };
    Ok(
        match run_job(launcher, job, ChildLimits::MEDIA, engine_control) {
            Ok((_, ChildMessage::Verified(verified))) => verified,
            Ok((_, message)) => Err(unexpected_message(&message).to_string()),
            Err(EngineError::Died(why)) => {
                tracing::warn!(%why, "reading Content Credentials crashed its process");
                Err("its credentials cannot be read".to_owned())
            }
            Err(error) if error.is_start_failure() => return Err(error),
            Err(error) => Err(error.to_string()),
        },
    )
}

fn unexpected_message(message: &ChildMessage) -> EngineError {
    EngineError::Broken(format!("a child sent {message:?}"))
}
