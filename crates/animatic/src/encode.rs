//! The file: encoded frames and sound in an MP4 that starts to play before it has all arrived.
//!
//! Quality is constant and the size has a ceiling. The encoder's own rate control is for
//! networks: it answers a hard passage by coarser frames that are seen as a pulse, or by dropping
//! frames. A file has no such need, so one quantiser serves every frame: the finest that the eye
//! can use, or, where that bursts the ceiling, the finest that does not.
//!
//! It knows nothing of where frames and sounds come from.

use muxide::api::{AacProfile, AudioCodec, MuxerBuilder, VideoCodec};

use crate::edits::{Edit, edit_sound};
use crate::film::{Packet, group_length};
use crate::h264::{Encoder, EncoderError, Format};
use crate::options::Options;
use crate::sound::{self, aac};
use crate::yuv::I420;

/// Why there is no file.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum EncodeError {
    /// The encoder refused; not the caller's fault.
    #[error(transparent)]
    Video(#[from] EncoderError),
    /// The sound's encoder refused; not the caller's fault.
    #[error(transparent)]
    Sound(#[from] aac::SoundError),
    /// The file's writer refused; not the caller's fault.
    #[error("{0}")]
    File(String),
}

/// Writes the file: the film's packets in order, with the sound's where there are any.
pub(crate) fn write_file(
    options: &Options,
    film: Vec<Packet>,
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
        let seconds = f64::from(i) / f64::from(options.fps);
        muxer
            .write_video(seconds, &packet.bytes, packet.key)
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
    // The writer makes a file of no frames without complaint, and no player opens it.
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
    edit_sound(file, &heard(sound.len()))
        .ok_or_else(|| EncodeError::File("its boxes are not the known ones".to_owned()))
}

/// What is heard of a sound of so many packets.
fn heard(packets: usize) -> Edit {
    let samples = packets as u64 * u64::from(aac::PACKET) - u64::from(aac::PRIMING);
    let millis = samples * 1000 / u64::from(sound::RATE);
    Edit {
        rate: sound::RATE,
        first: aac::PRIMING,
        // The file's writer counts a file's time in milliseconds.
        length: u32::try_from(millis).unwrap_or(u32::MAX),
    }
}

impl EncodeError {
    fn file(error: impl std::fmt::Display) -> Self {
        Self::File(error.to_string())
    }
}

/// How coarsely detail is rounded: the quantiser of H.264, fixed for the whole film.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Quality(u8);

impl Quality {
    /// The quality for a film that bursts its ceiling at the best, from a few consecutive frames
    /// out of its middle: the best below that seems not to.
    pub(crate) fn measure(sample: &[I420], options: &Options) -> Result<Self, EncodeError> {
        let (mut bursts, mut fits) = (Self::BEST.0, Self::WORST.0);
        while fits - bursts > 1 {
            let middle = u8::midpoint(bursts, fits);
            if Self(middle).seems_to_fit(sample, options)? {
                fits = middle;
            } else {
                bursts = middle;
            }
        }
        Ok(Self(fits))
    }

    /// Whether a film of frames like these would stay under the ceiling.
    fn seems_to_fit(self, sample: &[I420], options: &Options) -> Result<bool, EncodeError> {
        let mut encoder = Encoder::new(format(options), self.0)?;
        let mut packet = Vec::new();
        let mut key_bytes = 0;
        for (i, frame) in sample.iter().enumerate() {
            encoder.encode(frame, &mut packet)?;
            if i == 0 {
                key_bytes = packet.len();
            }
        }
        let others = sample.len().saturating_sub(1).max(1);
        #[expect(clippy::cast_precision_loss, reason = "a few megabytes at most")]
        let (key, other, ceiling) = (
            key_bytes as f64,
            (packet.len() - key_bytes) as f64 / others as f64,
            options.max_video_bytes() as f64,
        );
        let frames = f64::from(options.frames());
        let keys = (frames / f64::from(group_length(options))).ceil();
        Ok(keys * key + (frames - keys) * other <= ceiling * CAUTION)
    }

    /// A step coarser, which takes about an eighth of the bits; `None` at the end of the scale.
    pub(crate) fn coarser(self) -> Option<Self> {
        (self < Self::WORST).then_some(Self(self.0 + 1))
    }

    /// The quantiser of H.264, 0 to 51.
    pub(crate) fn quantiser(self) -> u8 {
        self.0
    }

    /// Below this the eye sees nothing more.
    pub(crate) const BEST: Self = Self(31);

    /// The end of the scale: even white noise takes a hundredth of the ceiling.
    const WORST: Self = Self(51);
}

/// What the frames of a film have in common.
pub(crate) fn format(options: &Options) -> Format {
    let bits = options.max_video_bytes() * 8 * u64::from(options.fps) / u64::from(options.frames());
    Format {
        width: options.width,
        height: options.height,
        fps: options.fps,
        group: group_length(options),
        bits_per_second: u32::try_from(bits).unwrap_or(u32::MAX),
    }
}

/// A guess from a few frames is aimed a little below the ceiling: a film that bursts it is encoded
/// once more.
const CAUTION: f64 = 0.94;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_falls_step_by_step_to_the_end_of_the_scale() {
        let mut quality = Some(Quality::BEST);
        let mut steps = 0;
        while let Some(next) = quality {
            quality = next.coarser();
            assert!(quality.is_none_or(|coarser| coarser > next));
            steps += 1;
        }
        assert_eq!(steps, u32::from(Quality::WORST.0 - Quality::BEST.0) + 1);
    }
}
