//! Media that finished jobs deliver: small, but valid files of their media type. Each file is made
//! once, so that many downloads cost little.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

use bytes::Bytes;
use locks::lock;
use muxide::api::{MuxerBuilder, VideoCodec};

/// One grey H.264 frame of 160×96 pixels (Annex B, with its parameter sets).
const FRAME: &[u8] = &[
    0x00, 0x00, 0x00, 0x01, 0x67, 0x42, 0xc0, 0x0a, 0xd9, 0x02, 0x8d, 0xb0, 0x11, 0x00, 0x00, 0x03,
    0x00, 0x01, 0x00, 0x00, 0x03, 0x00, 0x02, 0x0f, 0x12, 0x26, 0x48, 0x00, 0x00, 0x00, 0x01, 0x68,
    0xcb, 0x83, 0xcb, 0x20, 0x00, 0x00, 0x01, 0x65, 0x88, 0x84, 0x05, 0x7c, 0x98, 0xa0, 0x00, 0x20,
    0x5b, 0x27, 0x27, 0x27, 0x27, 0x27, 0x27, 0x27, 0x27, 0x27, 0x5d, 0x75, 0xd7, 0x5d, 0x75, 0xd7,
    0x5d, 0x75, 0xd7, 0x5d, 0x75, 0xd7, 0x5d, 0x75, 0xd7, 0x5d, 0x75, 0xd7, 0x5d, 0x75, 0xd7, 0x5d,
    0x75, 0xd7, 0x5d, 0x75, 0xd7, 0x5d, 0x75, 0xd7, 0x5d, 0x75, 0xd7, 0x5d, 0x75, 0xd7, 0x5d, 0x78,
];

/// Width and height of [`video`]'s frames.
pub const VIDEO_SIZE: (u32, u32) = (160, 96);

/// An MP4 of this many seconds, one frame per second.
pub fn video(seconds: u32) -> Bytes {
    cached_file(MediaKey::Video(seconds), || {
        make_video(seconds).unwrap_or_default()
    })
}

/// A file by what it was made from.
#[derive(PartialEq, Eq, Hash)]
enum MediaKey {
    Video(u32),
    /// Milliseconds, and the bits of the frequency.
    Audio(u64, u64),
}

/// Maximum number of files that are cached; the tests need fewer.
const MAX_CACHED_FILES: usize = 256;

fn cached_file(key: MediaKey, make: impl FnOnce() -> Vec<u8>) -> Bytes {
    static FILES: OnceLock<Mutex<HashMap<MediaKey, Bytes>>> = OnceLock::new();
    let files = FILES.get_or_init(Mutex::default);
    // Made under the lock, so that downloads at the same time do not make one file twice.
    let mut files = lock(files);
    if let Some(file) = files.get(&key) {
        return file.clone();
    }
    let file = Bytes::from(make());
    // The files depend on requests, so the cache needs a limit. Beyond it files are made again each
    // time.
    if files.len() < MAX_CACHED_FILES {
        files.insert(key, file.clone());
    }
    file
}

fn make_video(seconds: u32) -> Option<Vec<u8>> {
    let (width, height) = VIDEO_SIZE;
    let mut muxer = MuxerBuilder::new(Vec::new())
        .video(VideoCodec::H264, width, height, 1.0)
        .with_fast_start(true)
        .build()
        .ok()?;
    // An MP4 without a frame has no length and counts as broken.
    for second in 0..seconds.max(1) {
        muxer.write_video(f64::from(second), FRAME, true).ok()?;
    }
    muxer.finish_in_place().ok()?;
    Some(muxer.into_writer())
}

/// A `WebM` of this many seconds, with one block that is no frame: for programs that read the container
/// only.
pub fn webm(seconds: u32) -> Bytes {
    let element = |id: &[u8], content: &[u8]| {
        let size = 0x0100_0000_0000_0000 | content.len() as u64;
        [id, &size.to_be_bytes(), content].concat()
    };
    let side = |pixels: u32| u16::try_from(pixels).unwrap_or(1).to_be_bytes();
    let (width, height) = VIDEO_SIZE;
    let header = element(&[0x1a, 0x45, 0xdf, 0xa3], &element(&[0x42, 0x82], b"webm"));
    let duration = f64::from(seconds) * 1000.0;
    let info = [
        element(&[0x2a, 0xd7, 0xb1], &1_000_000_u32.to_be_bytes()),
        element(&[0x44, 0x89], &duration.to_be_bytes()),
    ];
    let picture = [
        element(&[0xb0], &side(width)),
        element(&[0xba], &side(height)),
    ];
    let track = [
        element(&[0xd7], &[1]),
        element(&[0x83], &[1]),
        element(&[0x86], b"V_VP9"),
        element(&[0xe0], &picture.concat()),
    ];
    let cluster = [
        element(&[0xe7], &[0]),
        element(&[0xa3], &[0x81, 0, 0, 0x80, 0]),
    ];
    let segment = [
        element(&[0x15, 0x49, 0xa9, 0x66], &info.concat()),
        element(
            &[0x16, 0x54, 0xae, 0x6b],
            &element(&[0xae], &track.concat()),
        ),
        element(&[0x1f, 0x43, 0xb6, 0x75], &cluster.concat()),
    ];
    let segment = element(&[0x18, 0x53, 0x80, 0x67], &segment.concat());
    [header, segment].concat().into()
}

/// Frames per second of [`audio`].
pub const RATE: u32 = 44_100;

/// A WAV (16-bit stereo) of this many milliseconds: a sine of `hertz`.
pub fn audio(milliseconds: u64, hertz: f64) -> Bytes {
    let key = MediaKey::Audio(milliseconds, hertz.to_bits());
    cached_file(key, || sine(milliseconds, hertz))
}

fn sine(milliseconds: u64, hertz: f64) -> Vec<u8> {
    let frames = milliseconds * u64::from(RATE) / 1000;
    let size = u32::try_from(frames * 4).unwrap_or(u32::MAX - 36);
    let mut file = Vec::with_capacity(size as usize + 44);
    file.extend(b"RIFF");
    file.extend((size + 36).to_le_bytes());
    file.extend(b"WAVEfmt \x10\0\0\0\x01\0\x02\0");
    file.extend(RATE.to_le_bytes());
    file.extend((RATE * 4).to_le_bytes());
    file.extend(b"\x04\0\x10\0data");
    file.extend(size.to_le_bytes());
    let step = hertz * std::f64::consts::TAU / f64::from(RATE);
    let mut angle = 0.0_f64;
    for _ in 0..frames {
        #[expect(clippy::cast_possible_truncation, reason = "within ±8000")]
        let sample = (angle.sin() * 8000.0) as i16;
        angle += step;
        file.extend(sample.to_le_bytes());
        file.extend(sample.to_le_bytes());
    }
    file
}
