//! Frames of MPEG audio (layers I to III) and of ADTS, with their positions.
//!
//! A frame is trusted if another one follows it, or if the stream ends with it. Where frames are
//! destroyed, the number of lost ones follows from the bytes between the good ones.

use std::io::{self, Read};

use symphonia::core::audio::Channels;
use symphonia::core::codecs::audio::AudioCodecParameters;
use symphonia::core::codecs::audio::well_known::{
    CODEC_ID_AAC, CODEC_ID_MP1, CODEC_ID_MP2, CODEC_ID_MP3,
};
use symphonia::core::packet::Packet;
use symphonia::core::units::{Duration, Timestamp};

use super::byte_window::ByteWindow;
use super::mpeg_header::MpegHeader;

/// The length that the tag in an MP3 file's first frame states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StatedLength {
    /// Samples of the recording.
    pub(super) length: u64,
    /// Samples before it, which the encoder added.
    pub(super) delay: u64,
    /// Samples after it.
    pub(super) padding: u64,
}

/// Reads frames.
pub(super) struct MpegFrames<R> {
    window: ByteWindow<R>,
    first: MpegHeader,
    stated: Option<StatedLength>,
    /// Samples before the next frame.
    position: u64,
    frames: u64,
    frame_bytes: u64,
    is_cut: bool,
}

impl<R: Read> MpegFrames<R> {
    /// Finds the first frame; `None` if there is none.
    pub(super) fn new(source: R) -> io::Result<Option<Self>> {
        let mut window = ByteWindow::new(source);
        let bytes = window.ahead(2 * MAX_FRAME)?;
        let Some(first) = MpegHeader::read(bytes) else {
            return Ok(None);
        };
        let frame = &bytes[..first.size.min(bytes.len())];
        let stated = (first.layer == 3)
            .then(|| stated_length(&first, frame))
            .flatten();
        if is_tag_frame(&first, frame) {
            let size = frame.len();
            window.skip(size);
        }
        Ok(Some(Self {
            window,
            first,
            stated,
            position: 0,
            frames: 0,
            frame_bytes: 0,
            is_cut: false,
        }))
    }

    pub(super) fn parameters(&self) -> AudioCodecParameters {
        let mut parameters = AudioCodecParameters::new();
        parameters
            .for_codec(match self.first.layer {
                0 => CODEC_ID_AAC,
                1 => CODEC_ID_MP1,
                2 => CODEC_ID_MP2,
                _ => CODEC_ID_MP3,
            })
            .with_sample_rate(self.first.rate);
        if self.first.channels > 0 {
            parameters.with_channels(Channels::Discrete(match self.first.channels {
                7 => 8,
                channels => channels,
            }));
        }
        parameters
    }

    pub(super) fn stated(&self) -> Option<StatedLength> {
        self.stated
    }

    pub(super) fn rate(&self) -> u32 {
        self.first.rate
    }

    /// Whether the file ends with something that is no whole frame.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The next frame; its time is the number of samples before it, and what lies between it and
    /// the end of the previous one is lost.
    pub(super) fn next_packet(&mut self) -> io::Result<Option<Packet>> {
        let mut skipped = 0_u64;
        let mut lost_headers = 0_u64;
        loop {
            let bytes = self.window.ahead(4 * MAX_FRAME)?;
            if bytes.len() < 4 {
                // Whatever stands at the end is no whole frame.
                self.is_cut = skipped > 0;
                return Ok(None);
            }
            let header = MpegHeader::read(bytes).filter(|header| header.continues(&self.first));
            if let Some(header) = header
                && self.is_frame(header, skipped > 0)
            {
                self.lose(skipped, lost_headers);
                return self.take(header).map(Some);
            }
            if skipped == 0 && self.skip_tag()? {
                continue;
            }
            if skipped == 0 && self.is_tail() {
                return Ok(None);
            }
            lost_headers = lost_headers.max(u64::from(header.is_some() && skipped == 0));
            self.window.skip(1);
            skipped += 1;
        }
    }

    /// Whether a frame follows, or the end. After damage, one more must follow.
    fn is_frame(&mut self, header: MpegHeader, is_after_damage: bool) -> bool {
        let first = self.first;
        let bytes = self.window.ahead(0).unwrap_or(&[]);
        let mut at = header.size;
        let followers = if is_after_damage { 2 } else { 1 };
        for _ in 0..followers {
            let Some(rest) = bytes.get(at..) else {
                // Cut off: half a frame is none.
                return false;
            };
            match MpegHeader::read(rest) {
                Some(next) if next.continues(&first) => at += next.size,
                _ => return rest.len() < 4 || is_trailing_tag(rest),
            }
        }
        true
    }

    /// Moves behind a tag that states its length; returns whether one was there. Another file may
    /// follow.
    fn skip_tag(&mut self) -> io::Result<bool> {
        let Some(length) = tag_length(self.window.ahead(0)?) else {
            return Ok(false);
        };
        self.window.pass(length)?;
        Ok(true)
    }

    /// Whether only tags follow.
    fn is_tail(&mut self) -> bool {
        self.window.ahead(0).is_ok_and(is_trailing_tag)
    }

    /// Counts the samples of lost frames.
    fn lose(&mut self, skipped: u64, at_least: u64) {
        if skipped == 0 || self.frames == 0 {
            return;
        }
        let mean = (self.frame_bytes / self.frames).max(1);
        let lost = ((skipped + mean / 2) / mean).max(at_least);
        self.position += lost * u64::from(self.first.samples);
    }

    fn take(&mut self, header: MpegHeader) -> io::Result<Packet> {
        let bytes = self.window.ahead(header.size)?;
        let bytes = &bytes[..header.size.min(bytes.len())];
        let data = match header.layer {
            0 => bytes.get(header.header_size..).unwrap_or(&[]),
            _ => bytes,
        };
        let (position, samples) = (self.position, u64::from(header.samples));
        let time = Timestamp::new(i64::try_from(position).unwrap_or(i64::MAX));
        let packet = Packet::new(0, time, Duration::from(samples), data);
        self.window.skip(header.size);
        self.position += samples;
        self.frames += 1;
        self.frame_bytes += header.size as u64;
        Ok(packet)
    }
}

/// Larger than any frame.
const MAX_FRAME: usize = 8 * 1024;

/// Tags that programs write after the sound.
fn is_trailing_tag(bytes: &[u8]) -> bool {
    const TAGS: [&[u8]; 5] = [b"TAG", b"APETAGEX", b"LYRICSBEGIN", b"ID3", b"3DI"];
    TAGS.iter().any(|tag| bytes.starts_with(tag)) || bytes.iter().all(|byte| *byte == 0)
}

/// The length in bytes of an `ID3` tag at the start.
fn tag_length(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(b"TAG") {
        return Some(128);
    }
    id3_length(bytes)
}

/// The length in bytes of an `ID3v2` tag at the start.
pub(super) fn id3_length(bytes: &[u8]) -> Option<usize> {
    let header = bytes
        .first_chunk::<10>()
        .filter(|header| header.starts_with(b"ID3"))?;
    let size = header[6..]
        .iter()
        .fold(0, |n, b| n << 7 | usize::from(b & 0x7f));
    let footer = if header[5] & 0x10 == 0 { 0 } else { 10 };
    Some(10 + size + footer)
}

/// The offset of the tag that an encoder writes in place of sound into the first frame.
fn tag_offset(header: &MpegHeader, frame: &[u8]) -> Option<usize> {
    let side = match (header.is_mpeg1, header.channels) {
        (true, 1) | (false, 2) => 17,
        (true, _) => 32,
        (false, _) => 9,
    };
    let has = |at: usize, tag: &[u8]| frame.get(at..).is_some_and(|rest| rest.starts_with(tag));
    // Some encoders count a checksum into the offset, some do not.
    [4 + side, 6 + side]
        .into_iter()
        .find(|at| has(*at, b"Xing") || has(*at, b"Info"))
}

fn is_tag_frame(header: &MpegHeader, frame: &[u8]) -> bool {
    let is_vbri = frame.get(36..40) == Some(b"VBRI");
    header.layer == 3 && (is_vbri || tag_offset(header, frame).is_some())
}

fn stated_length(header: &MpegHeader, frame: &[u8]) -> Option<StatedLength> {
    let quad = |at: usize| {
        frame
            .get(at..)?
            .first_chunk()
            .copied()
            .map(u32::from_be_bytes)
    };
    let samples = u64::from(header.samples);
    let Some(tag) = tag_offset(header, frame) else {
        let frames = (frame.get(36..40)? == b"VBRI")
            .then(|| quad(50))
            .flatten()?;
        return Some(StatedLength {
            length: u64::from(frames) * samples,
            delay: 0,
            padding: 0,
        });
    };
    let flags = quad(tag + 4)?;
    let mut at = tag + 8;
    let frames = (flags & 1 != 0).then(|| quad(at)).flatten();
    for (flag, size) in [(1, 4), (2, 4), (4, 100), (8, 4)] {
        at += if flags & flag == 0 { 0 } else { size };
    }
    let total = u64::from(frames.filter(|frames| *frames > 0)?) * samples;
    let encoder = frame.get(at..at + 4).unwrap_or(&[]);
    let trims = frame
        .get(at + 21..at + 24)
        .filter(|_| [&b"LAME"[..], b"Lavf", b"Lavc"].contains(&encoder));
    let (delay, padding) = match trims {
        Some(&[a, b, c]) => {
            /// Of the decoder.
            const DECODER_DELAY: u64 = 529;
            let delay = u64::from(a) << 4 | u64::from(b) >> 4;
            let padding = (u64::from(b) & 15) << 8 | u64::from(c);
            (delay + DECODER_DELAY, padding.saturating_sub(DECODER_DELAY))
        }
        _ => (0, 0),
    };
    let length = total
        .checked_sub(delay + padding)
        .filter(|length| *length > 0)?;
    Some(StatedLength {
        length,
        delay,
        padding,
    })
}
