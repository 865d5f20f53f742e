//! Encoding: frames to H.264, H.264 to an MP4 that starts to play before it has all arrived.
//!
//! The encoder's defaults are made for video calls (a bitrate of 120 kbit/s, frames dropped to
//! keep it); every setting that matters is therefore set here, each with its reason. The bytes
//! depend on the frames and the settings only: no clock, no thread count.
//!
//! It knows nothing of where frames come from.

use muxide::api::{Muxer, MuxerBuilder, VideoCodec};
use openh264::encoder::{
    BitRate, Complexity, Encoder, EncoderConfig, FrameRate, FrameType, IntraFramePeriod, QpRange,
    RateControlMode, UsageType, VuiConfig,
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
    pub(crate) fn new(width: u32, height: u32, fps: u32) -> Result<Self, EncodeError> {
        let config = config(width, height, fps);
        let encoder = Encoder::with_api_config(OpenH264API::from_source(), config)
            .map_err(EncodeError::from_display)?;
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
        let (width, height) = frame.size();
        let source = YUVSlices::new(
            (frame.y(), frame.u(), frame.v()),
            (width, height),
            (width, width / 2, width / 2),
        );
        let millis = u64::from(self.frames) * 1000 / u64::from(self.fps);
        let stream = self
            .encoder
            .encode_at(&source, Timestamp::from_millis(millis))
            .map_err(EncodeError::from_display)?;
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

fn config(width: u32, height: u32, fps: u32) -> EncoderConfig {
    EncoderConfig::new()
        // The only usage type for natural pictures that the encoder accepts.
        .usage_type(UsageType::CameraVideoRealTime)
        .rate_control_mode(RateControlMode::Bitrate)
        .bitrate(BitRate::from_bps(bitrate(width, height, fps)))
        .skip_frames(false)
        .max_frame_rate(frame_rate(fps))
        // Below 14 the eye sees nothing more; above 34 skies break into blocks.
        .qp(QpRange::new(14, 34))
        // A key frame every two seconds lets players seek.
        .intra_frame_period(IntraFramePeriod::from_num_frames(fps * 2))
        .complexity(Complexity::High)
        // Both save bits where a video call's background stands still; on a slow camera move
        // they leave patches of old picture behind.
        .background_detection(false)
        .scene_change_detect(false)
        .adaptive_quantization(false)
        // One slice and one thread: the same bytes on every machine.
        .num_threads(1)
        .vui(VuiConfig::bt709())
}

/// Bits per second: enough that a moving photograph shows no blocks, by the number of pixels.
fn bitrate(width: u32, height: u32, fps: u32) -> u32 {
    let pixels_per_second = u64::from(width) * u64::from(height) * u64::from(fps);
    u32::try_from(pixels_per_second * BITS_PER_1000_PIXELS / 1000).unwrap_or(u32::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "one of three small numbers")]
fn frame_rate(fps: u32) -> FrameRate {
    FrameRate::from_hz(fps as f32)
}

const BITS_PER_1000_PIXELS: u64 = 250;
