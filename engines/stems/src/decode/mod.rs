//! Decoding of sound files within limits, without trusting a byte.
//!
//! The kind is detected from the bytes (`format_detection`); what is not supported is named
//! (`foreign`). Headers of WAV files are mended (`wav`), frames of FLAC and MPEG streams are found
//! here (`flac_frames`, `mpeg_frames`), and other containers and nearly all codecs are read by
//! `symphonia`. Every limit is checked on what was actually decoded, never on what a header claims.
//! What is missing becomes silence of its own length and is listed (`timeline`). Names, URLs and
//! media types are deliberately not used.

mod aiff;
mod byte_window;
mod decoded_packet;
mod error;
mod flac_frames;
mod foreign;
mod format;
mod format_detection;
mod mp4;
mod mpeg_frames;
mod mpeg_header;
mod ogg_end;
mod opus;
mod packets;
mod recording;
mod spliced_media;
mod stream;
mod stripped_media;
mod timeline;
mod wav;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use error::{DecodeError, DecodeLimits};
pub use format::AudioFormat;
pub use recording::Recording;
pub use timeline::DamagedSpan;

use crate::shape::LevelSums;
use crate::{Audio, ClipShape};

/// A decoded file.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodedAudio {
    /// Never empty; all samples are finite.
    pub audio: Audio,
    /// Detected from the bytes.
    pub format: AudioFormat,
    /// Parts that could not be read and are silent.
    pub damage: Vec<DamagedSpan>,
}

/// Decodes a whole file in memory.
pub fn decode(bytes: &[u8], limits: &DecodeLimits) -> Result<DecodedAudio, DecodeError> {
    let mut channels: Vec<Vec<f32>> = Vec::new();
    let mut append = |packet: &[Vec<f32>]| {
        channels.resize_with(packet.len(), Vec::new);
        for (channel, packet) in channels.iter_mut().zip(packet) {
            channel.extend_from_slice(packet);
        }
        true
    };
    let (format, totals) = read(stream::in_memory(bytes)?, limits, &mut append)?;
    for channel in &mut channels {
        channel.truncate(totals.span.end);
        channel.drain(..totals.span.start);
    }
    let audio = Audio::new(totals.rate, channels).map_err(|_| DecodeError::NoAudio)?;
    let damage = totals.damage;
    Ok(DecodedAudio {
        audio,
        format,
        damage,
    })
}

/// A file's properties, found by decoding all of it without keeping the samples.
#[derive(Debug, Clone, PartialEq)]
pub struct AudioScan {
    /// Rate, channels, length and levels.
    pub shape: ClipShape,
    /// Detected from the bytes.
    pub format: AudioFormat,
    /// Parts that could not be read and are silent.
    pub damage: Vec<DamagedSpan>,
    span: Range<usize>,
}

/// Reads a file once for its shape, so that [`replay`] can then return its samples in pieces: long
/// files take twice the time, but hardly any memory.
pub fn scan(recording: &Recording, limits: &DecodeLimits) -> Result<AudioScan, DecodeError> {
    let scan = scan_while(recording, limits, &|| true)?;
    scan.ok_or(DecodeError::NoAudio)
}

/// Like [`scan`], while `should_continue` returns true; `None` once it returned false.
pub fn scan_while(
    recording: &Recording,
    limits: &DecodeLimits,
    should_continue: &dyn Fn() -> bool,
) -> Result<Option<AudioScan>, DecodeError> {
    let (mut channels, mut levels) = (0, LevelSums::default());
    let mut measure = |packet: &[Vec<f32>]| {
        channels = packet.len();
        levels.add(packet);
        should_continue()
    };
    let result = read(recording.open_media()?, limits, &mut measure);
    // A read that was stopped returns the totals of half a file, or finds it damaged. Both are
    // wrong.
    if !should_continue() {
        return Ok(None);
    }
    let (format, totals) = result?;
    let shape = levels.shape(totals.rate, channels, totals.span.len());
    Ok(Some(AudioScan {
        shape,
        format,
        damage: totals.damage,
        span: totals.span,
    }))
}

/// Decodes a file again after [`scan`], and passes its samples to `sink` piece by piece, all
/// channels at a time. If `sink` returns false, decoding stops.
pub fn replay(
    recording: &Recording,
    limits: &DecodeLimits,
    scan: &AudioScan,
    sink: &mut dyn FnMut(&[Vec<f32>]) -> bool,
) -> Result<(), DecodeError> {
    let mut position = 0;
    let mut piece: Vec<Vec<f32>> = Vec::new();
    let mut trim = |packet: &[Vec<f32>]| {
        let length = packet.first().map_or(0, Vec::len);
        let to_packet = |frame: usize| frame.saturating_sub(position).min(length);
        let kept = to_packet(scan.span.start)..to_packet(scan.span.end);
        position += length;
        if kept.is_empty() {
            return true;
        }
        piece.resize_with(packet.len(), Vec::new);
        for (piece, packet) in piece.iter_mut().zip(packet) {
            piece.clear();
            piece.extend_from_slice(&packet[kept.clone()]);
        }
        sink(&piece)
    };
    read(recording.open_media()?, limits, &mut trim).map(|_| ())
}

fn read(
    opened: stream::OpenAudio<'_>,
    limits: &DecodeLimits,
    sink: &mut stream::SampleSink<'_>,
) -> Result<(AudioFormat, stream::StreamTotals), DecodeError> {
    let format = opened.format;
    // The decoders are safe code, but compute with numbers from an untrusted file, so a case that
    // they missed panics in an overflow or index check. A bad upload must not kill a worker, so a
    // panic counts as an error of the file. Nothing that they touched outlives the call, so
    // asserting unwind safety is correct.
    let attempt = catch_unwind(AssertUnwindSafe(|| stream::read(opened, limits, sink)));
    let totals = attempt.unwrap_or_else(|_| {
        Err(DecodeError::Damaged {
            format,
            reason: "its contents contradict each other".to_owned(),
        })
    })?;
    Ok((format, totals))
}
