//! The H.264 encoder: `OpenH264`, set up for files rather than for calls.
//!
//! Its defaults are made for video calls (Baseline profile, 120 kbit/s, frames dropped to keep
//! it); every setting that matters is therefore set here, each with its reason. The bytes depend
//! on the frames and the settings only: no clock, no thread count.
//!
//! This module knows nothing of files, or of how a quantiser is chosen.

use openh264::encoder::{
    BitRate, Complexity, EncoderConfig, FrameRate, FrameType, IntraFramePeriod, RateControlMode,
    UsageType, VuiConfig,
};
use openh264::formats::YUVSlices;
use openh264::{OpenH264API, Timestamp};
use openh264_sys2::{
    ENCODER_OPTION_SVC_ENCODE_PARAM_EXT, HIGH_COMPLEXITY, LOW_COMPLEXITY, PRO_HIGH, SEncParamExt,
    SM_SINGLE_SLICE,
};

use crate::frame::I420Frame;

/// Encodes the frames of one film with one quantiser: High profile, CABAC, BT.709, no B frames,
/// an IDR frame at the head of each group and no reference across it.
///
/// Frames come in pyramids of [`PYRAMID`]: each refers to the nearest one of a higher level, and
/// the higher levels, to which more frames refer, are finer. A pan over a photograph takes about
/// half the bytes, at the same SSIM, of a chain of frames with one quantiser. Key frames are finer
/// still: in a slow or soft shot the others hardly add to them. A frame equal to the one it refers
/// to adds nothing: it is skipped completely, so a still shot decodes to identical frames.
///
/// It encodes on the calling thread. `OpenH264`'s own thread pool frees a lock that its last task
/// still holds (`WelsEnc::CWelsTaskManageBase::OnTaskMinusOne`; cisco/openh264#3560), so the pool
/// is never started.
pub struct Encoder {
    inner: openh264::encoder::Encoder,
    settings: SEncParamExt,
    quantiser: i32,
    group: u32,
    millis_per_frame: f64,
    frames: u32,
    /// The previous frame, and how many frames before it were equal to it.
    previous: I420Frame,
    repeats: u32,
}

/// What a film's frames have in common.
#[derive(Debug, Clone, Copy)]
pub struct StreamFormat {
    pub width: u32,
    pub height: u32,
    pub fps: u32,
    /// Frames from one key frame to the next, in whole [`PYRAMID`]s.
    pub group: u32,
    /// Determines the level in the stream's header; it limits nothing.
    pub bits_per_second: u32,
}

/// The encoder failed; not the caller's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EncoderError(String);

impl Encoder {
    /// `quantiser`, from 13 (the finest) to 51, is that of the lowest level, to which half of the
    /// frames belong. The highest level is nine finer, and key frames are thirteen finer.
    pub fn new(format: StreamFormat, quantiser: u8) -> Result<Self, EncoderError> {
        if !skips_are_exact() {
            return Err(EncoderError(
                "the encoder was built without our patch".to_owned(),
            ));
        }
        let api = OpenH264API::from_source();
        let mut inner = openh264::encoder::Encoder::with_api_config(api, config(format))
            .map_err(|error| EncoderError(error.to_string()))?;
        // The raw settings can be changed only once the encoder runs, which needs a first frame.
        // The change restarts it, so that nothing of this frame remains.
        let blank = I420Frame::new(format.width, format.height);
        submit(&mut inner, &blank, 0.0, &mut Vec::new())?;
        let settings = set_raw_parameters(&mut inner)?;
        Ok(Self {
            inner,
            settings,
            quantiser: i32::from(quantiser).clamp(LEVEL_FINENESS[0] + KEY_FRAME_FINENESS, COARSEST),
            group: format.group,
            millis_per_frame: 1000.0 / f64::from(format.fps),
            frames: 0,
            previous: blank,
            repeats: 0,
        })
    }

    /// Appends the next frame to `packet`, as Annex B; returns whether it is a key frame.
    pub fn encode(
        &mut self,
        frame: &I420Frame,
        packet: &mut Vec<u8>,
    ) -> Result<bool, EncoderError> {
        let position_in_group = self.frames % self.group;
        let level = level(position_in_group);
        self.settings.sSpatialLayers[0].iDLayerQp = self.next_quantiser(frame, position_in_group);
        // Half of a film's bytes are in the frames of the highest level, on which all others build.
        self.settings.iComplexityMode = match level {
            0 => HIGH_COMPLEXITY,
            _ => LOW_COMPLEXITY,
        };
        apply(&mut self.inner, &mut self.settings)?;
        let millis = f64::from(self.frames) * self.millis_per_frame;
        let length_before = packet.len();
        let key = submit(&mut self.inner, frame, millis, packet)?;
        if packet.len() == length_before {
            // A dropped frame would shorten the film unnoticed. Skipping is off, so this is a bug.
            return Err(EncoderError(format!("frame {} was dropped", self.frames)));
        }
        self.frames += 1;
        Ok(key)
    }

    /// Records the next frame; returns its quantiser, as a value for the encoder's option.
    fn next_quantiser(&mut self, frame: &I420Frame, position_in_group: u32) -> i32 {
        if self.frames > 0 && *frame == self.previous {
            self.repeats += 1;
        } else {
            self.previous.copy_from(frame);
            self.repeats = 0;
        }
        let level = level(position_in_group);
        // OpenH264 itself makes the higher levels finer (`RcCalculateCascadingQp`). What it will
        // subtract is added here, so that the frame gets exactly the intended quantiser.
        if position_in_group == 0 {
            return self.quantiser - LEVEL_FINENESS[0] - KEY_FRAME_FINENESS + BUILT_IN_FINENESS[0];
        }
        if self.repeats >= REFERENCE_DISTANCE[level] {
            return COARSEST;
        }
        self.quantiser - LEVEL_FINENESS[level] + BUILT_IN_FINENESS[level]
    }
}

fn config(format: StreamFormat) -> EncoderConfig {
    EncoderConfig::new()
        // The only usage type for natural pictures that the encoder accepts.
        .usage_type(UsageType::CameraVideoRealTime)
        // Each level of the pyramid keeps its quantiser, however many bytes its frames take.
        .rate_control_mode(RateControlMode::Off)
        .skip_frames(false)
        .bitrate(BitRate::from_bps(format.bits_per_second))
        .max_frame_rate(frame_rate(format.fps))
        // Players can seek to a key frame.
        .intra_frame_period(IntraFramePeriod::from_num_frames(format.group))
        .complexity(Complexity::Low)
        // One thread, from the first frame on: see `Encoder`.
        .num_threads(1)
        // All three save bits for the static background of a video call; on a slow camera move they
        // leave patches of the old picture.
        .background_detection(false)
        .scene_change_detect(false)
        .adaptive_quantization(false)
        .vui(VuiConfig::bt709())
}

/// Settings that the safe wrapper lacks: CABAC instead of CAVLC, which saves a seventh of the bits;
/// the pyramid; one slice a frame.
#[expect(unsafe_code, reason = "a call into the C API to read its settings")]
fn set_raw_parameters(
    encoder: &mut openh264::encoder::Encoder,
) -> Result<SEncParamExt, EncoderError> {
    let mut settings = SEncParamExt::default();
    let pointer = (&raw mut settings).cast();
    // SAFETY: the encoder is initialised, as it has encoded a frame. `raw_api` requires that
    // nothing is changed that the wrapper relies on, and the wrapper relies only on the size.
    let api = unsafe { encoder.raw_api() };
    // SAFETY: this option is a `SEncParamExt`, plain data that the call fills.
    check_status(unsafe { api.get_option(ENCODER_OPTION_SVC_ENCODE_PARAM_EXT, pointer) })?;
    settings.iEntropyCodingModeFlag = 1;
    settings.iTemporalLayerNum = LEVELS;
    let layer = &mut settings.sSpatialLayers[0];
    layer.uiProfileIdc = PRO_HIGH;
    layer.sSliceArgument.uiSliceMode = SM_SINGLE_SLICE;
    apply(encoder, &mut settings)?;
    Ok(settings)
}

#[expect(unsafe_code, reason = "a call into the C API to write its settings")]
fn apply(
    encoder: &mut openh264::encoder::Encoder,
    settings: &mut SEncParamExt,
) -> Result<(), EncoderError> {
    let pointer = (&raw mut *settings).cast();
    // SAFETY: as in `set_raw_parameters`.
    let api = unsafe { encoder.raw_api() };
    // SAFETY: as in `set_raw_parameters`; the call copies the settings and keeps no pointer to
    // them.
    check_status(unsafe { api.set_option(ENCODER_OPTION_SVC_ENCODE_PARAM_EXT, pointer) })
}

fn check_status(status: i32) -> Result<(), EncoderError> {
    match status {
        0 => Ok(()),
        other => Err(EncoderError(format!("the settings were refused: {other}"))),
    }
}

/// The level of a frame within its group: 0 is the highest.
fn level(frame: u32) -> usize {
    match frame % PYRAMID {
        0 => 0,
        4 => 1,
        2 | 6 => 2,
        _ => 3,
    }
}

/// Whether the encoder is the one that `build.rs` patches. Only this call makes the linker use it.
#[expect(unsafe_code, reason = "a C++ function that build.rs adds")]
fn skips_are_exact() -> bool {
    unsafe extern "C" {
        safe fn h264_skips_are_exact() -> std::ffi::c_int;
    }
    h264_skips_are_exact() != 0
}

fn submit(
    encoder: &mut openh264::encoder::Encoder,
    frame: &I420Frame,
    millis: f64,
    packet: &mut Vec<u8>,
) -> Result<bool, EncoderError> {
    let (width, height) = frame.size();
    let planes = (frame.y(), frame.u(), frame.v());
    let source = YUVSlices::new(planes, (width, height), (width, width / 2, width / 2));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most 20 seconds"
    )]
    let time = Timestamp::from_millis(millis as u64);
    let stream = encoder
        .encode_at(&source, time)
        .map_err(|error| EncoderError(error.to_string()))?;
    stream.write_vec(packet);
    Ok(matches!(stream.frame_type(), FrameType::IDR))
}

#[expect(clippy::cast_precision_loss, reason = "one of three small numbers")]
fn frame_rate(fps: u32) -> FrameRate {
    FrameRate::from_hz(fps as f32)
}

/// Levels of a pyramid, each with as many frames as those above it together.
const LEVELS: i32 = 4;

/// Frames of a pyramid.
pub const PYRAMID: u32 = 8;

/// How much finer than the lowest level each level is: steep, because a frame that nothing refers
/// to may be coarse as long as its blocks are where they should be.
const LEVEL_FINENESS: [i32; LEVELS as usize] = [9, 5, 2, 0];

/// How much finer than their level key frames are.
const KEY_FRAME_FINENESS: i32 = 4;

/// At this quantiser nothing is left to code of a frame that equals its reference.
const COARSEST: i32 = 51;

/// How many frames back the reference of each level is.
const REFERENCE_DISTANCE: [u32; LEVELS as usize] = [8, 4, 2, 1];

/// How much finer the encoder makes each level by itself.
const BUILT_IN_FINENESS: [i32; LEVELS as usize] = [5, 2, 1, 0];

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: StreamFormat = StreamFormat {
        width: 64,
        height: 48,
        fps: 24,
        group: 48,
        bits_per_second: 1_000_000,
    };

    /// A frame of a sliding texture.
    fn frame(shift: usize) -> I420Frame {
        let mut rgba = Vec::new();
        for y in 0..48 {
            for x in 0..64 {
                let value = u8::try_from((x + shift) * 5 % 200 + y % 7 * 8).unwrap();
                rgba.extend([value, value / 2, 90, 255]);
            }
        }
        let mut frame = I420Frame::new(64, 48);
        frame.read_rgba(&rgba);
        frame
    }

    /// The kinds of the NAL units in a packet, and the profile if it has an SPS.
    fn units(packet: &[u8]) -> (Vec<u8>, Option<u8>) {
        let starts: Vec<usize> = (0..packet.len().saturating_sub(4))
            .filter(|&i| packet[i..i + 3] == [0, 0, 1])
            .map(|i| i + 3)
            .collect();
        let kinds = starts.iter().map(|&start| packet[start] & 31).collect();
        let sps = starts.iter().find(|&&start| packet[start] & 31 == 7);
        (kinds, sps.map(|&start| packet[start + 1]))
    }

    #[test]
    fn the_stream_is_high_profile_and_every_key_frame_an_idr() {
        let mut encoder = Encoder::new(FORMAT, 24).unwrap();
        let mut keys = Vec::new();
        for i in 0..100 {
            let mut packet = Vec::new();
            let key = encoder.encode(&frame(i), &mut packet).unwrap();
            let (kinds, profile) = units(&packet);
            assert_eq!(key, kinds.contains(&5), "frame {i}: {kinds:?}");
            assert_eq!(key, profile == Some(100), "frame {i}: {profile:?}");
            if key {
                keys.push(i);
            }
        }
        assert_eq!(keys, [0, 48, 96]);
    }

    #[test]
    fn frames_equal_to_their_references_take_a_few_bytes() {
        let mut encoder = Encoder::new(FORMAT, 31).unwrap();
        let mut sizes = Vec::new();
        for i in 0..24 {
            let mut packet = Vec::new();
            // The picture stops moving at the fifth frame, but the ninth refers to the first.
            encoder.encode(&frame(i.min(4)), &mut packet).unwrap();
            sizes.push(packet.len());
        }
        assert!(sizes[8] > 2 * sizes[16], "{sizes:?}");
        assert!(
            sizes[9..].iter().all(|&size| size == sizes[16]),
            "{sizes:?}"
        );
    }

    #[test]
    fn a_coarser_quantiser_takes_fewer_bytes_and_the_output_is_reproducible() {
        let bytes = |quantiser| {
            let mut encoder = Encoder::new(FORMAT, quantiser).unwrap();
            let mut stream = Vec::new();
            for i in 0..12 {
                encoder.encode(&frame(i * 3), &mut stream).unwrap();
            }
            stream
        };
        assert!(bytes(20) == bytes(20));
        assert!(bytes(40).len() < bytes(20).len() / 2);
    }

    /// `OpenH264`'s own threads write to memory that the end of their encoder may have freed. A
    /// thread without a name inherits that of the thread that started it, so this one gets its own
    /// name.
    #[cfg(target_os = "linux")]
    #[test]
    fn an_encoder_starts_no_thread() {
        let threads = std::thread::Builder::new()
            .name("lone-encoder".to_owned())
            .spawn(threads_while_encoding);
        assert_eq!(threads.unwrap().join().unwrap(), 1);
    }

    /// The number of threads with this thread's name during the encoding of a film that is large
    /// enough to be cut into slices.
    #[cfg(target_os = "linux")]
    fn threads_while_encoding() -> usize {
        let format = StreamFormat {
            width: 640,
            height: 480,
            ..FORMAT
        };
        let mut encoder = Encoder::new(format, 30).unwrap();
        encoder
            .encode(&I420Frame::new(640, 480), &mut Vec::new())
            .unwrap();
        let name = std::fs::read("/proc/thread-self/comm").unwrap();
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names = tasks.map(|task| std::fs::read(task.unwrap().path().join("comm")));
        // A thread that ended in the meantime is not counted.
        names
            .filter(|task| task.as_ref().is_ok_and(|task| *task == name))
            .count()
    }

    /// Other platforms have no such functions.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn our_functions_give_what_plain_c_gives() {
        for seed in 0..4 {
            let sse2 = name(h264_sse2_differs(seed));
            assert_eq!(sse2, None, "SSE2, seed {seed}");
            let avx2 = name(h264_avx2_differs(seed));
            assert_eq!(avx2, None, "AVX2, seed {seed}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "C++ functions for this test")]
    unsafe extern "C" {
        safe fn h264_sse2_differs(seed: u32) -> *const std::ffi::c_char;
        safe fn h264_avx2_differs(seed: u32) -> *const std::ffi::c_char;
    }

    /// The C++ name of a function whose output differs.
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "a C string from C++")]
    fn name(text: *const std::ffi::c_char) -> Option<String> {
        // SAFETY: if it is not null, it is a string literal in the C++.
        let text = (!text.is_null()).then(|| unsafe { std::ffi::CStr::from_ptr(text) });
        text.map(|text| text.to_string_lossy().into_owned())
    }
}
