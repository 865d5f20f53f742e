//! Film playback: decodes a film's frames for search, comparison and display.
//!
//! The file may come from anyone. Its tables are read within limits and checked against its length.
//! The decoder is C++: run it on untrusted files in a separate process.

use std::io::{self, Read, Seek, SeekFrom};

use openh264::decoder::{DecodedYUV, Decoder};
use openh264::formats::YUVSource as _;

use crate::picture::Picture;

/// Maximum number of bytes of a film's tables that are read.
const MAX_TABLES: u64 = 32 << 20;
/// Maximum size in bytes of one encoded frame.
const MAX_SAMPLE: u32 = 16 << 20;
/// Maximum number of frames of a film: four hours at 60 a second.
const MAX_SAMPLES: usize = 1_000_000;
/// Maximum number of top-level boxes of a file that are examined.
const MAX_BOXES: u32 = 10_000;
/// Longest side of a frame.
const MAX_SIDE: usize = 4096;
/// Maximum number of frames that may fail to decode before the rest is given up.
const MAX_FAILED: u32 = 8;

/// A frame.
#[derive(Clone, Copy)]
pub struct DecodedFrame<'a> {
    pub luma: &'a [u8],
    /// Bytes a row of luma.
    pub stride: usize,
    pub width: usize,
    pub height: usize,
    /// Counts from 0.
    pub number: u32,
    /// Mean rate of the whole film.
    pub frames_per_second: f64,
    decoded: &'a DecodedYUV<'a>,
}

impl DecodedFrame<'_> {
    /// The frame as a picture, in colour.
    pub fn picture(&self) -> Option<Picture> {
        let mut rgb = vec![0; self.width.checked_mul(self.height)?.checked_mul(3)?];
        self.decoded.write_rgb8(&mut rgb);
        let (width, height) = (self.width.try_into().ok()?, self.height.try_into().ok()?);
        Picture::from_rgb(width, height, rgb)
    }
}

/// Why a film cannot be played. The messages are for users.
#[derive(Debug, thiserror::Error)]
pub enum PlaybackError {
    #[error("it is not an MP4 file with its tables in one place")]
    NoTables,
    #[error("it has no video track")]
    NoVideo,
    /// The four-letter code of the codec.
    #[error("its video is {0}, not H.264")]
    Codec(String),
    #[error("its tables are damaged")]
    Damaged,
    #[error("its frames cannot be decoded")]
    Undecodable,
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Checks that decoding can be attempted: the film's tables are whole and its video is H.264.
/// Nothing is decoded.
pub fn check_playable(mut file: impl Read + Seek) -> Result<(), PlaybackError> {
    VideoTrack::find(&mut file).map(drop)
}

/// Decodes at most `max_frames` frames from the start and passes each to `visit` until it returns
/// false. Returns the number of frames passed.
pub fn play(
    mut file: impl Read + Seek,
    max_frames: u32,
    visit: &mut dyn FnMut(DecodedFrame<'_>) -> bool,
) -> Result<u32, PlaybackError> {
    let track = VideoTrack::find(&mut file)?;
    let mut decoder = Decoder::new().map_err(|_| PlaybackError::Undecodable)?;
    let (mut shown, mut failed) = (0, 0);
    let mut show = |decoded: &DecodedYUV<'_>| {
        let (width, height) = decoded.dimensions();
        if width > MAX_SIDE || height > MAX_SIDE || shown >= max_frames {
            return false;
        }
        let number = shown;
        shown += 1;
        visit(DecodedFrame {
            luma: decoded.y(),
            stride: decoded.strides().0,
            width,
            height,
            number,
            frames_per_second: track.frames_per_second,
            decoded,
        })
    };
    // MP4 keeps the parameter sets in its tables. The decoder reads a stream, so they go before the
    // first sample.
    let mut packet = track.parameters.clone();
    let mut is_running = true;
    for (offset, size) in &track.samples {
        file.seek(SeekFrom::Start(*offset))?;
        let mut sample = vec![0; *size as usize];
        file.read_exact(&mut sample)?;
        to_stream(&sample, track.length_bytes, &mut packet);
        match decoder.decode(&packet) {
            Ok(Some(frame)) => is_running = show(&frame),
            Ok(None) => {}
            // One bad frame does not end a film: the decoder recovers at the next key frame.
            Err(_) => failed += 1,
        }
        packet.clear();
        if !is_running || failed > MAX_FAILED {
            break;
        }
    }
    // The decoder holds frames back to put them in order; the last ones come out only here.
    if is_running && let Ok(rest) = decoder.flush_remaining() {
        for frame in &rest {
            if !show(frame) {
                break;
            }
        }
    }
    if shown == 0 {
        return Err(PlaybackError::Undecodable);
    }
    Ok(shown)
}

/// Where a film's video lies.
struct VideoTrack {
    /// Its parameter sets, as a stream.
    parameters: Vec<u8>,
    length_bytes: usize,
    /// Positions and sizes in the file, in order.
    samples: Vec<(u64, u32)>,
    frames_per_second: f64,
}

impl VideoTrack {
    fn find(file: &mut (impl Read + Seek)) -> Result<Self, PlaybackError> {
        let size = file.seek(SeekFrom::End(0))?;
        let movie = movie(file, size)?;
        let mut last_error = None;
        for (kind, content) in boxes(&movie) {
            if &kind != b"trak" {
                continue;
            }
            match Self::read(content, size) {
                Ok(Some(track)) => return Ok(track),
                Ok(None) => {}
                // A damaged track, or one of another codec, must not hide a good one after it.
                Err(error) => last_error = Some(error),
            }
        }
        Err(last_error.unwrap_or(PlaybackError::NoVideo))
    }

    /// `None` if the track is not video.
    fn read(track: &[u8], file_bytes: u64) -> Result<Option<Self>, PlaybackError> {
        let damaged = || PlaybackError::Damaged;
        let media = find_box(track, *b"mdia").ok_or_else(damaged)?;
        let handler = find_box(media, *b"hdlr").ok_or_else(damaged)?;
        if handler.get(8..12) != Some(b"vide") {
            return Ok(None);
        }
        let (timescale, duration) = find_box(media, *b"mdhd")
            .and_then(timescale_and_duration)
            .ok_or_else(damaged)?;
        let table = find_box(media, *b"minf").and_then(|info| find_box(info, *b"stbl"));
        let table = table.ok_or_else(damaged)?;
        let entries = find_box(table, *b"stsd").and_then(|entries| entries.get(8..));
        let (kind, entry) = entries
            .and_then(|entries| boxes(entries).next())
            .ok_or_else(damaged)?;
        if !matches!(&kind, b"avc1" | b"avc3") {
            // The letters are shown in a message, and the file is untrusted.
            let letters = kind.iter().filter(|letter| letter.is_ascii_graphic());
            let name = letters.map(|letter| char::from(*letter)).collect();
            return Err(PlaybackError::Codec(name));
        }
        // 78 bytes of fixed fields precede the boxes of a `VisualSampleEntry` (ISO/IEC 14496-12).
        let config = entry.get(78..).and_then(|rest| find_box(rest, *b"avcC"));
        let config = config.ok_or_else(damaged)?;
        let samples = sample_positions(table, file_bytes).ok_or_else(damaged)?;
        #[expect(clippy::cast_precision_loss, reason = "a mean rate")]
        let seconds = duration as f64 / f64::from(timescale.max(1));
        #[expect(clippy::cast_precision_loss, reason = "a mean rate")]
        let per_second = samples.len() as f64 / seconds.max(0.001);
        Ok(Some(Self {
            parameters: parameters(config).ok_or_else(damaged)?,
            length_bytes: usize::from(config.get(4).ok_or_else(damaged)? & 3) + 1,
            samples,
            frames_per_second: per_second.clamp(1.0, 240.0),
        }))
    }
}

/// The content of the box that has all tables.
fn movie(file: &mut (impl Read + Seek), size: u64) -> Result<Vec<u8>, PlaybackError> {
    let mut offset = 0;
    for _ in 0..MAX_BOXES {
        if size - offset < 8 {
            break;
        }
        file.seek(SeekFrom::Start(offset))?;
        let mut head = [0; 8];
        file.read_exact(&mut head)?;
        let [a, b, c, d, kind @ ..] = head;
        let (skip, length) = match u32::from_be_bytes([a, b, c, d]) {
            1 => {
                let mut size_bytes = [0; 8];
                file.read_exact(&mut size_bytes)?;
                (16, u64::from_be_bytes(size_bytes))
            }
            0 => (8, size - offset),
            length => (8, u64::from(length)),
        };
        if length < skip || length > size - offset {
            return Err(PlaybackError::Damaged);
        }
        if &kind == b"moov" {
            if length > MAX_TABLES {
                return Err(PlaybackError::Damaged);
            }
            let mut content = Vec::new();
            file.take(length - skip).read_to_end(&mut content)?;
            return Ok(content);
        }
        offset += length;
    }
    Err(PlaybackError::NoTables)
}

/// The boxes in these bytes, up to the first one that does not fit.
fn boxes(mut rest: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let (size, kind) = (number(rest, 0)? as usize, rest.get(4..8)?);
        let content = rest.get(8..size)?;
        rest = rest.get(size..)?;
        Some((kind.try_into().ok()?, content))
    })
}

fn find_box(content: &[u8], kind: [u8; 4]) -> Option<&[u8]> {
    let matching = boxes(content).find(|(box_kind, _)| *box_kind == kind);
    matching.map(|(_, content)| content)
}

fn number(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..offset.checked_add(4)?)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

fn number_64(bytes: &[u8], offset: usize) -> Option<u64> {
    let (high, low) = (number(bytes, offset)?, number(bytes, offset + 4)?);
    Some(u64::from(high) << 32 | u64::from(low))
}

/// Timescale and duration.
fn timescale_and_duration(header: &[u8]) -> Option<(u32, u64)> {
    match header.first()? {
        1 => Some((number(header, 20)?, number_64(header, 24)?)),
        _ => Some((number(header, 12)?, u64::from(number(header, 16)?))),
    }
}

/// The parameter sets in a decoder's configuration, as a stream.
fn parameters(config: &[u8]) -> Option<Vec<u8>> {
    let mut stream = Vec::new();
    let mut offset = 5;
    for mask in [0x1f, 0xff] {
        let count = config.get(offset)? & mask;
        offset += 1;
        for _ in 0..count {
            let size = usize::from(u16::from_be_bytes([
                *config.get(offset)?,
                *config.get(offset + 1)?,
            ]));
            offset += 2;
            stream.extend_from_slice(&[0, 0, 0, 1]);
            stream.extend_from_slice(config.get(offset..offset + size)?);
            offset += size;
        }
    }
    Some(stream)
}

/// Where each sample lies, all of them within the file.
fn sample_positions(table: &[u8], file_bytes: u64) -> Option<Vec<(u64, u32)>> {
    let sizes = find_box(table, *b"stsz")?;
    let (fixed_size, count) = (number(sizes, 4)?, number(sizes, 8)? as usize);
    if count > MAX_SAMPLES {
        return None;
    }
    let runs = find_box(table, *b"stsc")?;
    let (chunks, is_64_bit) = match find_box(table, *b"stco") {
        Some(chunks) => (chunks, false),
        None => (find_box(table, *b"co64")?, true),
    };
    let mut positions = Vec::new();
    let mut run = 0;
    for chunk in 0..number(chunks, 4)? as usize {
        // Moves on if the next run begins at this chunk.
        while run + 1 < number(runs, 4)? as usize
            && number(runs, 8 + (run + 1) * 12)? as usize <= chunk + 1
        {
            run += 1;
        }
        let mut offset = if is_64_bit {
            number_64(chunks, 8 + chunk * 8)?
        } else {
            u64::from(number(chunks, 8 + chunk * 4)?)
        };
        for _ in 0..number(runs, 12 + run * 12)? {
            // A run may claim billions of samples in a chunk; the table of sizes has their true
            // number.
            if positions.len() == count {
                break;
            }
            let size = match fixed_size {
                0 => number(sizes, 12 + positions.len() * 4)?,
                fixed_size => fixed_size,
            };
            if size > MAX_SAMPLE || offset.checked_add(u64::from(size))? > file_bytes {
                return None;
            }
            positions.push((offset, size));
            offset += u64::from(size);
        }
    }
    (positions.len() == count && count > 0).then_some(positions)
}

/// Appends a sample's units to a stream, with start codes in place of lengths.
fn to_stream(mut sample: &[u8], length_bytes: usize, stream: &mut Vec<u8>) {
    while let Some((length, rest)) = sample.split_at_checked(length_bytes) {
        let length = length
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let Some((unit, after)) = rest.split_at_checked(length) else {
            return;
        };
        if length > 0 {
            stream.extend_from_slice(&[0, 0, 0, 1]);
            stream.extend_from_slice(unit);
        }
        sample = after;
    }
}
