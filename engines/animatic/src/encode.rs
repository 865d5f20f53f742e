//! Writes encoded frames and sound to an MP4 file that plays before all of it has arrived.

use muxide::api::{AacProfile, AudioCodec, MuxerBuilder, VideoCodec};

use crate::edit_list::{SoundEdit, edit_sound};
use crate::error::MakeError;
use crate::film::VideoPacket;
use crate::options::RenderOptions;
use crate::sound::{self, aac};

/// Why there is no file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum EncodeError {
    /// The audio encoder failed; not the caller's fault.
    #[error(transparent)]
    Sound(#[from] aac::AacEncodeError),
    /// The MP4 writer failed; not the caller's fault.
    #[error("{0}")]
    File(String),
}

/// Writes the file: the packets in order, with the sound's if there is any.
pub(crate) fn write_file(
    options: &RenderOptions,
    film: Vec<VideoPacket>,
    sound: &[Vec<u8>],
) -> Result<Vec<u8>, EncodeError> {
    let (width, height) = (options.width, options.height);
    let mut builder = MuxerBuilder::new(Vec::new())
        .video(VideoCodec::H264, width, height, f64::from(options.fps))
        .with_fast_start(true);
    if !sound.is_empty() {
        builder = builder.audio(AudioCodec::Aac(AacProfile::Lc), sound::RATE, 2);
    }
    let mut muxer = builder.build().map_err(EncodeError::file)?;
    let frames = film.len() as u64;
    for (i, packet) in (0_u32..).zip(film) {
        // Computed from the frame's number: a sum of thirtieths would drift.
        let seconds = f64::from(i) / f64::from(options.fps);
        muxer
            .write_video(seconds, &packet.bytes, packet.is_key)
            .map_err(EncodeError::file)?;
    }
    let seconds_per_packet = f64::from(aac::PACKET) / f64::from(sound::RATE);
    for (i, packet) in (0_u32..).zip(sound) {
        muxer
            .write_audio(f64::from(i) * seconds_per_packet, packet)
            .map_err(EncodeError::file)?;
    }
    let written = muxer
        .finish_in_place_with_stats()
        .map_err(EncodeError::file)?;
    // The writer accepts a file without frames, but no player opens it.
    if written.video_frames == 0 || written.video_frames != frames {
        return Err(EncodeError::File(format!(
            "{} of {frames} frames reached the file",
            written.video_frames
        )));
    }
    let file = muxer.into_writer();
    if sound.is_empty() {
        return Ok(file);
    }
    edit_sound(file, &playback_edit(sound.len()))
        .ok_or_else(|| EncodeError::File("its boxes are not the expected ones".to_owned()))
}

/// The part to play of a sound of `packets` packets.
fn playback_edit(packets: usize) -> SoundEdit {
    let samples = packets as u64 * u64::from(aac::PACKET) - u64::from(aac::PRIMING);
    let millis = samples * 1000 / u64::from(sound::RATE);
    SoundEdit {
        rate: sound::RATE,
        first: aac::PRIMING,
        // In the movie's timescale, milliseconds; each track has one of its own.
        length: u32::try_from(millis).unwrap_or(u32::MAX),
    }
}

impl From<EncodeError> for MakeError {
    fn from(error: EncodeError) -> Self {
        Self::Encode(error.to_string())
    }
}

impl EncodeError {
    fn file(error: impl std::fmt::Display) -> Self {
        Self::File(error.to_string())
    }
}
