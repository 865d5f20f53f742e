//! Bytes of a sound file to samples, within limits, without trusting a byte of it.
//!
//! The kind of a file is decided by its bytes (`kind`), the container and codec are read by
//! `symphonia`, and every limit is checked on what was really decoded, never on what a header
//! claims. Names, addresses and media types are deliberately no input.

mod bare;
mod kind;
mod mp4;
mod recording;
mod stream;

use std::io::Cursor;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use kind::AudioFormat;
pub use recording::Recording;

use crate::shape::Levels;
use crate::{Audio, Shape};

/// What a decoded file may cost. Checked while decoding, so that a lying header allocates nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Longest clip in seconds; default 900.
    pub max_seconds: u32,
    /// Most channels; default 8.
    pub max_channels: usize,
    /// Highest sample rate in Hz; default 192,000.
    pub max_rate: u32,
    /// Most memory for the decoded samples in bytes (4 per sample and channel); default 1 GiB.
    pub max_bytes: usize,
    /// Whether more than two channels are folded down to stereo as they are read, as quiet as they
    /// must be for their sum to stay within full scale; default no.
    pub fold_down: bool,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self {
            max_seconds: 900,
            max_channels: 8,
            max_rate: 192_000,
            max_bytes: 1 << 30,
            fold_down: false,
        }
    }
}

/// A decoded file.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The samples; never empty, and every one a finite number.
    pub audio: Audio,
    /// What the bytes turned out to be.
    pub format: AudioFormat,
}

/// Why bytes could not be decoded. Each message is fit for the client who sent them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// There was not a single byte.
    #[error("the file is empty")]
    Empty,
    /// The bytes are none of the known sound formats.
    #[error("the file is not WAV, FLAC, MP3, AAC, M4A or Ogg Vorbis audio")]
    UnknownFormat,
    /// A sound format, or a kind of one, that is not decoded here.
    #[error("{what} is not supported; send WAV, FLAC, MP3, AAC-LC, M4A or Ogg Vorbis")]
    Unsupported {
        /// What the file holds, such as "Opus audio".
        what: String,
    },
    /// The right kind of file, but its contents do not hold together.
    #[error("the {format} file is damaged: {reason}")]
    Damaged {
        /// What the file is, as far as its first bytes say.
        format: AudioFormat,
        /// What did not hold, in a few words.
        reason: String,
    },
    /// The file is in order but holds no sound.
    #[error("the file contains no audio")]
    NoAudio,
    /// It lasts longer than [`DecodeLimits::max_seconds`].
    #[error("the audio is longer than {limit_seconds} seconds")]
    TooLong {
        /// The limit that was passed.
        limit_seconds: u32,
    },
    /// It has more channels than [`DecodeLimits::max_channels`].
    #[error("the audio has {channels} channels, at most {limit} are supported")]
    TooManyChannels {
        /// What the file has.
        channels: usize,
        /// The limit that was passed.
        limit: usize,
    },
    /// Its samples need more memory than [`DecodeLimits::max_bytes`].
    #[error("the decoded audio is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The limit that was passed.
        limit_bytes: usize,
    },
}

/// Decodes a whole file held in memory.
pub fn decode(bytes: &[u8], limits: &DecodeLimits) -> Result<Decoded, DecodeError> {
    let mut channels: Vec<Vec<f32>> = Vec::new();
    let mut keep = |packet: &[Vec<f32>]| {
        channels.resize_with(packet.len(), Vec::new);
        for (channel, packet) in channels.iter_mut().zip(packet) {
            channel.extend_from_slice(packet);
        }
        true
    };
    let (format, totals) = read(in_memory(bytes)?, limits, &mut keep)?;
    for channel in &mut channels {
        channel.truncate(totals.span.end);
        channel.drain(..totals.span.start);
    }
    let audio = Audio::new(totals.rate, channels).map_err(|_| DecodeError::NoAudio)?;
    Ok(Decoded { audio, format })
}

/// What a file holds, found by decoding all of it and keeping nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Scan {
    /// Rate, channels, length and levels.
    pub shape: Shape,
    /// What the bytes turned out to be.
    pub format: AudioFormat,
    span: Range<usize>,
}

/// Reads a file once for its shape, so that [`replay`] can hand out its samples in pieces: long
/// files need twice the time, which is little, and hardly any memory.
pub fn scan(recording: &Recording, limits: &DecodeLimits) -> Result<Scan, DecodeError> {
    let scan = scan_while(recording, limits, &|| true)?;
    scan.ok_or(DecodeError::NoAudio)
}

/// The same as long as `go_on` says so; `None` when it said no.
pub fn scan_while(
    recording: &Recording,
    limits: &DecodeLimits,
    go_on: &dyn Fn() -> bool,
) -> Result<Option<Scan>, DecodeError> {
    let (mut channels, mut levels) = (0, Levels::default());
    let mut look = |packet: &[Vec<f32>]| {
        channels = packet.len();
        levels.add(packet);
        go_on()
    };
    let found = read(recording.opened()?, limits, &mut look);
    if !go_on() {
        return Ok(None);
    }
    let (format, totals) = found?;
    let shape = levels.shape(totals.rate, channels, totals.span.len());
    Ok(Some(Scan {
        shape,
        format,
        span: totals.span,
    }))
}

/// Decodes a file again that [`scan`] has read, and gives `take` its samples piece by piece, all
/// channels at a time; `take` ends it by `false`.
pub fn replay(
    recording: &Recording,
    limits: &DecodeLimits,
    scan: &Scan,
    take: &mut dyn FnMut(&[Vec<f32>]) -> bool,
) -> Result<(), DecodeError> {
    let mut at = 0;
    let mut piece: Vec<Vec<f32>> = Vec::new();
    let mut cut = |packet: &[Vec<f32>]| {
        let length = packet.first().map_or(0, Vec::len);
        let place = |border: usize| border.saturating_sub(at).min(length);
        let inside = place(scan.span.start)..place(scan.span.end);
        at += length;
        if inside.is_empty() {
            return true;
        }
        piece.resize_with(packet.len(), Vec::new);
        for (piece, packet) in piece.iter_mut().zip(packet) {
            piece.clear();
            piece.extend_from_slice(&packet[inside.clone()]);
        }
        take(&piece)
    };
    read(recording.opened()?, limits, &mut cut).map(|_| ())
}

/// A file held in memory, opened.
fn in_memory(bytes: &[u8]) -> Result<stream::Opened<'_>, DecodeError> {
    let found = kind::detect(bytes)?;
    Ok(stream::Opened {
        format: found.format,
        media: Box::new(Cursor::new(found.body)),
        mp4: (found.format == AudioFormat::M4a).then_some(found.body),
    })
}

fn read(
    opened: stream::Opened<'_>,
    limits: &DecodeLimits,
    sink: &mut stream::Sink<'_>,
) -> Result<(AudioFormat, stream::Totals), DecodeError> {
    let format = opened.format;
    // The decoders are safe code, but they compute with numbers that a hostile file chose, and
    // overflow and index checks turn the cases that they missed into panics. One bad upload must
    // not take a worker down, so a panic in there is an answer about the file. Nothing that they
    // touched outlives the call, which is what makes the assertion of unwind safety true.
    let attempt = catch_unwind(AssertUnwindSafe(|| stream::read(opened, limits, sink)));
    let totals = attempt.unwrap_or_else(|_| {
        Err(DecodeError::Damaged {
            format,
            reason: "its contents contradict each other".to_owned(),
        })
    })?;
    Ok((format, totals))
}
