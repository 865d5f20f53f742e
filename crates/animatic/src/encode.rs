//! Encoding: frames to H.264, H.264 to an MP4 that starts to play before it has all arrived.
//!
//! The encoder's defaults are made for video calls (a bitrate of 120 kbit/s, frames dropped to
//! keep it); every setting that matters is therefore set here, each with its reason. The bytes
//! depend on the frames and the settings only: no clock, no thread count.
//!
//! It knows nothing of where frames come from.

use muxide::api::{Muxer, MuxerBuilder, VideoCodec};
use openh264::encoder::{
    BitRate, Complexity, EncodedBitStream, Encoder, EncoderConfig, FrameRate, FrameType,
    IntraFramePeriod, QpRange, RateControlMode, UsageType, VuiConfig,
};
use openh264::formats::YUVSlices;
use openh264::{OpenH264API, Timestamp};

use crate::yuv::I420;

/// Takes frames one by one and gives the finished file.
pub(crate) struct Film {
    encoder: Encoder,
    muxer: Muxer<Vec<u8>>,
    fps: u32,
    frames: u32,
    packet: Vec<u8>,
}

/// The encoder or the file writer refused; not the caller's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct EncodeError(String);

impl Film {
    pub(crate) fn new(
        width: u32,
        height: u32,
        fps: u32,
        quality: Quality,
    ) -> Result<Self, EncodeError> {
        let encoder = encoder(width, height, fps, quality)?;
        let muxer = MuxerBuilder::new(Vec::new())
            .video(VideoCodec::H264, width, height, f64::from(fps))
            .with_fast_start(true)
            .build()
            .map_err(EncodeError::from_display)?;
        Ok(Self {
            encoder,
            muxer,
            fps,
            frames: 0,
            packet: Vec::new(),
        })
    }

    /// Encodes the next frame.
    pub(crate) fn push(&mut self, frame: &I420) -> Result<(), EncodeError> {
        let millis = u64::from(self.frames) * 1000 / u64::from(self.fps);
        let stream = encode(&mut self.encoder, frame, millis)?;
        let key = matches!(stream.frame_type(), FrameType::IDR);
        self.packet.clear();
        stream.write_vec(&mut self.packet);
        if self.packet.is_empty() {
            // Would shorten the film unnoticed: skipping is off, so this is a fault.
            return Err(EncodeError(format!(
                "the encoder dropped frame {}",
                self.frames
            )));
        }
        let seconds = f64::from(self.frames) / f64::from(self.fps);
        self.muxer
            .write_video(seconds, &self.packet, key)
            .map_err(EncodeError::from_display)?;
        self.frames += 1;
        Ok(())
    }

    /// Finishes the file.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>, EncodeError> {
        let written = self
            .muxer
            .finish_in_place_with_stats()
            .map_err(EncodeError::from_display)?;
        // The writer makes a file of no frames without complaint, and no player opens it.
        if written.video_frames == 0 || written.video_frames != u64::from(self.frames) {
            return Err(EncodeError(format!(
                "{} of {} frames reached the file",
                written.video_frames, self.frames
            )));
        }
        Ok(self.muxer.into_writer())
    }
}

impl EncodeError {
    fn from_display(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// How coarsely detail is rounded: the quantiser of H.264, fixed for the whole film.
///
/// The encoder's own rate control is for networks: it answers a hard passage by coarser frames
/// that are seen as a pulse, or by dropping frames. A file has no such need, so one quantiser
/// serves every frame and [`Quality::measure`] picks it beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quality(u8);

impl Quality {
    /// The quality for a film, from a few consecutive frames out of its middle: the best, unless
    /// the picture is so busy that the file would grow out of bounds.
    pub(crate) fn measure(sample: &[I420], fps: u32) -> Result<Self, EncodeError> {
        let Some((width, height)) = sample.first().map(I420::size) else {
            return Ok(Self::BEST);
        };
        let side = |side: usize| u32::try_from(side).map_err(EncodeError::from_display);
        let mut encoder = encoder(side(width)?, side(height)?, fps, Self::BEST)?;
        let mut bytes = 0;
        for (i, frame) in sample.iter().enumerate() {
            let stream = encode(&mut encoder, frame, 0)?;
            // The first is a key frame: one in sixty of the film, and no measure of its motion.
            if i > 0 {
                bytes += stream.to_vec().len();
            }
        }
        let frames = sample.len().saturating_sub(1).max(1);
        #[expect(clippy::cast_precision_loss, reason = "a few megabytes at most")]
        let per_pixel = bytes as f64 * 8.0 / (frames * width * height) as f64;
        Ok(Self::BEST.coarser(per_pixel / BITS_PER_PIXEL))
    }

    /// Six steps of the quantiser halve the bits, roughly.
    fn coarser(self, times_too_big: f64) -> Self {
        let steps = (times_too_big.max(1.0).log2() * 6.0).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to a few steps"
        )]
        let steps = steps.clamp(0.0, f64::from(Self::WORST.0 - Self::BEST.0)) as u8;
        Self(self.0 + steps)
    }

    /// Below this the eye sees nothing more.
    const BEST: Self = Self(21);

    /// Beyond this skies break into blocks.
    const WORST: Self = Self(32);
}

fn encoder(width: u32, height: u32, fps: u32, quality: Quality) -> Result<Encoder, EncodeError> {
    let config = EncoderConfig::new()
        // The only usage type for natural pictures that the encoder accepts.
        .usage_type(UsageType::CameraVideoRealTime)
        // In this mode the quantiser walks within its range, and the range is one value.
        .rate_control_mode(RateControlMode::Bufferbased)
        .qp(QpRange::new(quality.0, quality.0))
        .skip_frames(false)
        // Bounds nothing in this mode, but the level written into the stream follows from it.
        .bitrate(BitRate::from_bps(bitrate(width, height, fps)))
        .max_frame_rate(frame_rate(fps))
        // A key frame every two seconds lets players seek.
        .intra_frame_period(IntraFramePeriod::from_num_frames(fps * 2))
        .complexity(Complexity::High)
        // All three save bits where a video call's background stands still; on a slow camera
        // move they leave patches of the old picture behind.
        .background_detection(false)
        .scene_change_detect(false)
        .adaptive_quantization(false)
        // One slice and one thread: the same bytes on every machine.
        .num_threads(1)
        .vui(VuiConfig::bt709());
    Encoder::with_api_config(OpenH264API::from_source(), config).map_err(EncodeError::from_display)
}

fn encode<'a>(
    encoder: &'a mut Encoder,
    frame: &I420,
    millis: u64,
) -> Result<EncodedBitStream<'a>, EncodeError> {
    let (width, height) = frame.size();
    let planes = (frame.y(), frame.u(), frame.v());
    let source = YUVSlices::new(planes, (width, height), (width, width / 2, width / 2));
    encoder
        .encode_at(&source, Timestamp::from_millis(millis))
        .map_err(EncodeError::from_display)
}

/// Bits per second that a film takes at most, more or less.
fn bitrate(width: u32, height: u32, fps: u32) -> u32 {
    let pixels_per_second = f64::from(width) * f64::from(height) * f64::from(fps);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive number, and the cast stops at the largest"
    )]
    let bits = (pixels_per_second * BITS_PER_PIXEL) as u32;
    bits
}

#[expect(clippy::cast_precision_loss, reason = "one of three small numbers")]
fn frame_rate(fps: u32) -> FrameRate {
    FrameRate::from_hz(fps as f32)
}

/// The budget of a busy film: 8 Mbit/s at 1280x720 and 30 frames per second.
const BITS_PER_PIXEL: f64 = 0.29;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_falls_with_the_excess_and_stays_within_bounds() {
        assert_eq!(Quality::BEST.coarser(0.2), Quality::BEST);
        assert_eq!(Quality::BEST.coarser(2.0), Quality(Quality::BEST.0 + 6));
        assert_eq!(Quality::BEST.coarser(1e9), Quality::WORST);
        assert_eq!(Quality::BEST.coarser(f64::NAN), Quality::BEST);
    }
}
