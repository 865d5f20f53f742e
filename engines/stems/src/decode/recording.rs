//! A recording that is read more than once. It knows where the bytes are, and otherwise only their
//! kind.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::error::DecodeError;
use super::format::AudioFormat;
use super::format_detection;
use super::stream::{OpenAudio, in_memory};

/// A sound file for [`super::scan`] and [`super::replay`]. Files of large formats stay on disk, so
/// that their length costs no memory.
pub struct Recording(RecordingSource);

enum RecordingSource {
    Memory(Vec<u8>),
    Disk(File, AudioFormat),
}

impl Recording {
    /// Opens a file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut bytes = Vec::new();
        file.by_ref().take(HEAD_BYTES).read_to_end(&mut bytes)?;
        let length = file.seek(SeekFrom::End(0))?;
        let mut tail = Vec::new();
        file.seek(SeekFrom::Start(length.saturating_sub(TAG_BYTES)))?;
        file.by_ref().take(TAG_BYTES).read_to_end(&mut tail)?;
        // Tags can only be cut off in memory, so a file that has one does not stay on disk.
        let is_untagged = |detected: &format_detection::DetectedFormat<'_>| {
            detected.body.len() == bytes.len() && !tail.starts_with(b"TAG")
        };
        let format = format_detection::detect(&bytes)
            .ok()
            .filter(is_untagged)
            .map(|detected| detected.format);
        // Files of other formats are small, and are searched for tags and tables.
        if let Some(
            format @ (AudioFormat::Wav
            | AudioFormat::Aiff
            | AudioFormat::Caf
            | AudioFormat::Flac
            | AudioFormat::OggVorbis
            | AudioFormat::OggFlac
            | AudioFormat::OggOpus),
        ) = format
        {
            return Ok(Self(RecordingSource::Disk(file, format)));
        }
        file.seek(SeekFrom::Start(bytes.len() as u64))?;
        file.read_to_end(&mut bytes)?;
        Ok(Self(RecordingSource::Memory(bytes)))
    }

    /// Opens the recording at its first byte.
    pub(super) fn open_media(&self) -> Result<OpenAudio<'_>, DecodeError> {
        match &self.0 {
            RecordingSource::Memory(bytes) => in_memory(bytes),
            RecordingSource::Disk(file, format) => {
                // The clone shares its position with the original, so only one reader may be
                // active at a time.
                let reopened = file.try_clone().and_then(|mut file| {
                    file.rewind()?;
                    Ok(file)
                });
                let media = reopened.map_err(|error| DecodeError::Damaged {
                    format: *format,
                    reason: error.to_string(),
                })?;
                Ok(OpenAudio {
                    format: *format,
                    media: Box::new(media),
                    mp4: None,
                    codec_name: None,
                })
            }
        }
    }
}

impl From<Vec<u8>> for Recording {
    fn from(bytes: Vec<u8>) -> Self {
        Self(RecordingSource::Memory(bytes))
    }
}

/// Enough to detect the kind.
const HEAD_BYTES: u64 = 64 * 1024;

/// The size of a tag after the sound.
const TAG_BYTES: u64 = 128;
