//! Frames of a FLAC stream, with their positions.
//!
//! A frame counts if both of its checksums are right and another one, or the end, follows. Whatever
//! stands between good frames is skipped, and the number in the next frame says how much is lost. A
//! second file behind the first continues it.

use std::io::{self, Read};

use symphonia::core::codecs::audio::AudioCodecParameters;
use symphonia::core::codecs::audio::well_known::CODEC_ID_FLAC;
use symphonia::core::packet::Packet;
use symphonia::core::units::{Duration, Timestamp};

use super::byte_window::ByteWindow;
use super::stripped_media::{MAX_PARTS, TOO_MANY, invalid_data};

const MARK: &[u8; 4] = b"fLaC";
const STREAM_INFO: usize = 34;
/// Longest frame header, in bytes.
const MAX_HEADER: usize = 16;

/// What the stream says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StreamInfo {
    min_block: u32,
    max_block: u32,
    rate: u32,
    channels: u32,
    bits: u32,
    /// 0 if it is not known.
    total: u64,
}

impl StreamInfo {
    fn read(bytes: &[u8; STREAM_INFO]) -> Self {
        let pair = |at: usize| u32::from(bytes[at]) << 8 | u32::from(bytes[at + 1]);
        let packed = bytes[10..18]
            .iter()
            .fold(0_u64, |n, b| n << 8 | u64::from(*b));
        let field = |shift: u32, bits: u32| u32::try_from(packed >> shift & ((1 << bits) - 1));
        Self {
            min_block: pair(0),
            max_block: pair(2),
            rate: field(44, 20).unwrap_or(0),
            channels: field(41, 3).unwrap_or(0) + 1,
            bits: field(36, 5).unwrap_or(0) + 1,
            total: packed & 0xf_ffff_ffff,
        }
    }

    fn has_shape_of(&self, other: &Self) -> bool {
        (self.rate, self.channels, self.bits) == (other.rate, other.channels, other.bits)
    }
}

/// What a frame says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FrameHeader {
    /// Of the frame or of its first sample.
    number: u64,
    is_sample_number: bool,
    samples: u32,
}

/// What the numbers count in frames that claim to have one fixed size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NumberUnit {
    Unknown,
    Frame,
    /// In files of encoders older than the mark for it.
    Sample,
}

/// Reads frames.
pub(super) struct FlacFrames<R> {
    window: ByteWindow<R>,
    info: StreamInfo,
    extra_data: Box<[u8]>,
    /// Samples of the files before this one.
    base: u64,
    /// Samples that all files so far state; `None` if one does not.
    stated: Option<u64>,
    number_unit: NumberUnit,
    previous: Option<FrameHeader>,
    /// Samples of the first frame of the file.
    nominal: u32,
    position: u64,
    /// Bytes that were searched for the end of a frame that has none.
    searched: usize,
    /// Whether a frame was found that is not whole, and none after it.
    is_cut: bool,
}

/// Most of these bytes. A damaged file needs few, one made to waste time needs many.
const MAX_SEARCHED: usize = 512 << 20;

impl<R: Read> FlacFrames<R> {
    /// Reads the header.
    pub(super) fn new(source: R) -> io::Result<Self> {
        let mut window = ByteWindow::new(source);
        let mut bytes = metadata(&mut window)?;
        let info = StreamInfo::read(&bytes);
        // The decoder refuses blocks of less than 16 samples, and frames that are shorter at most
        // than at least. Old encoders wrote such values.
        if info.max_block < 16 {
            bytes[2..4].copy_from_slice(&u16::MAX.to_be_bytes());
        }
        if info.min_block < 16 || info.min_block > info.max_block {
            bytes.copy_within(2..4, 0);
        }
        bytes[4..10].fill(0);
        Ok(Self {
            window,
            info,
            extra_data: Box::from(&bytes[..]),
            base: 0,
            stated: (info.total > 0).then_some(info.total),
            number_unit: NumberUnit::Unknown,
            previous: None,
            nominal: 0,
            position: 0,
            searched: 0,
            is_cut: false,
        })
    }

    pub(super) fn parameters(&self) -> AudioCodecParameters {
        let mut parameters = AudioCodecParameters::new();
        parameters
            .for_codec(CODEC_ID_FLAC)
            .with_sample_rate(self.info.rate)
            .with_bits_per_sample(self.info.bits)
            .with_extra_data(self.extra_data.clone());
        parameters
    }

    /// Samples that the file states to contain.
    pub(super) fn stated(&self) -> Option<u64> {
        self.stated
    }

    pub(super) fn rate(&self) -> u32 {
        self.info.rate
    }

    /// Whether the file ends with a frame that is not whole.
    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The next frame. Its time is the number of samples before it.
    pub(super) fn next_packet(&mut self) -> io::Result<Option<Packet>> {
        loop {
            let bytes = self.window.ahead(MAX_HEADER)?;
            if bytes.len() < 6 {
                return Ok(None);
            }
            if bytes.starts_with(MARK) && self.continue_with_next_file()? {
                continue;
            }
            if let Some(header) = self.header_here() {
                let length = self.frame_length(&header)?;
                self.is_cut = length.is_none();
                if let Some(length) = length {
                    return Ok(Some(self.take(header, length)));
                }
            }
            let bytes = self.window.ahead(MAX_HEADER)?;
            // To the next byte with which a frame or a file can begin.
            let skipped = bytes.iter().skip(1).position(|b| matches!(b, 0xff | b'f'));
            let skipped = skipped.map_or(bytes.len(), |skipped| skipped + 1);
            self.window.skip(skipped);
        }
    }

    /// Reads the header of a file behind the previous one; returns whether there was one.
    fn continue_with_next_file(&mut self) -> io::Result<bool> {
        let bytes = self.window.ahead(8 + STREAM_INFO)?;
        let info = bytes.get(8..).and_then(<[u8]>::first_chunk);
        let Some(info) = info.map(StreamInfo::read) else {
            return Ok(false);
        };
        if bytes[4] & 0x7f != 0 || bytes[5..8] != [0, 0, 34] {
            return Ok(false);
        }
        if !info.has_shape_of(&self.info) {
            return Err(invalid_data(OTHER_SHAPE));
        }
        metadata(&mut self.window)?;
        // What is missing at the end of the previous file is a hole before this one.
        self.base = match self.stated {
            Some(stated) => stated.max(self.position),
            None => self.position,
        };
        self.stated = self
            .stated
            .filter(|_| info.total > 0)
            .map(|_| self.base + info.total);
        self.info = info;
        (self.number_unit, self.previous, self.nominal) = (NumberUnit::Unknown, None, 0);
        Ok(true)
    }

    /// The header at the window's start, if it can belong to this stream.
    fn header_here(&mut self) -> Option<FrameHeader> {
        let bytes = self.window.ahead(MAX_HEADER).ok()?;
        let header = read_header(bytes, &self.info)?;
        let start = self.start_of(&header);
        // A number far away is that of a false header.
        let is_possible = self.stated.is_none_or(|stated| start < stated);
        (is_possible && start >= self.position).then_some(header)
    }

    /// Samples before a frame.
    fn start_of(&self, header: &FrameHeader) -> u64 {
        if header.is_sample_number {
            return self.base + header.number;
        }
        match self.number_unit {
            NumberUnit::Sample => self.base + header.number,
            NumberUnit::Unknown | NumberUnit::Frame => {
                let follows = self
                    .previous
                    .is_some_and(|previous| header.number == previous.number + 1);
                let follows_by_sample = self.number_unit == NumberUnit::Unknown
                    && self.previous.is_some_and(|previous| {
                        header.number == previous.number + u64::from(previous.samples)
                    });
                if follows || follows_by_sample {
                    return self.position;
                }
                let block = match self.nominal {
                    0 if self.info.min_block == self.info.max_block => self.info.max_block,
                    0 => header.samples,
                    nominal => nominal,
                };
                self.base + header.number.saturating_mul(u64::from(block))
            }
        }
    }

    /// The length in bytes of the frame at the window's start; `None` if it is damaged.
    fn frame_length(&mut self, header: &FrameHeader) -> io::Result<Option<usize>> {
        let info = self.info;
        // Samples that are stored as they are, with one bit more for a difference of channels.
        let bits = header.samples as usize * (info.channels * (info.bits + 1)) as usize;
        let most = bits / 8 + 256;
        let mut crc = 0_u16;
        // The end of the checksum, if nothing follows that belongs to the stream.
        let mut lone_end = None;
        let mut has_next = false;
        let (mut at, mut wanted) = (0, 32 * 1024);
        loop {
            let bytes = self.window.ahead(wanted)?;
            let available = bytes.len();
            // What follows is looked at, too, so it must be there, unless the file ends.
            let is_whole = available < wanted;
            let end = if is_whole {
                available
            } else {
                available - MAX_HEADER
            };
            while at < end.min(most) {
                crc = crc16(crc, bytes[at]);
                at += 1;
                let rest = &bytes[at..];
                let is_next = follows(rest, &info);
                if crc == 0 && at > MIN_FRAME {
                    if is_next || rest.is_empty() {
                        return Ok(Some(at));
                    }
                    lone_end = lone_end.or(Some(at));
                }
                has_next |= is_next;
            }
            if is_whole || at >= most {
                // Rubbish or tags behind the last frame. The decoder takes what it needs, so a
                // checksum that is right by chance does not cut it.
                if lone_end.is_some() && !has_next {
                    return Ok(Some(available.min(most)));
                }
                break;
            }
            wanted = available + 64 * 1024;
        }
        self.searched += at;
        if self.searched > MAX_SEARCHED {
            return Err(invalid_data("most of its frames are damaged"));
        }
        Ok(None)
    }

    fn take(&mut self, header: FrameHeader, length: usize) -> Packet {
        if let (false, Some(previous)) = (header.is_sample_number, self.previous) {
            let by_sample = previous.number + u64::from(previous.samples);
            if self.number_unit == NumberUnit::Unknown
                && header.number == by_sample
                && by_sample > 1
            {
                self.number_unit = NumberUnit::Sample;
            } else if self.number_unit == NumberUnit::Unknown
                && header.number == previous.number + 1
            {
                self.number_unit = NumberUnit::Frame;
            }
        }
        let start = self.start_of(&header);
        if self.nominal == 0 {
            self.nominal = header.samples;
        }
        let bytes = self.window.ahead(length).unwrap_or(&[]);
        let data = bytes[..length.min(bytes.len())].to_vec();
        self.window.skip(length);
        self.position = start + u64::from(header.samples);
        self.previous = Some(header);
        let time = Timestamp::new(i64::try_from(start).unwrap_or(i64::MAX));
        Packet::new(0, time, Duration::from(u64::from(header.samples)), data)
    }
}

/// The message for a second file of another kind.
pub(super) const OTHER_SHAPE: &str = "it holds recordings of different rates or channels in a row";

/// Shortest frame, in bytes.
const MIN_FRAME: usize = 9;

/// Whether a frame, another file or a tag begins here.
fn follows(bytes: &[u8], info: &StreamInfo) -> bool {
    bytes.starts_with(MARK) || read_header(bytes, info).is_some()
}

/// Reads the marks and blocks before the first frame; returns what describes the stream.
fn metadata<R: Read>(window: &mut ByteWindow<R>) -> io::Result<[u8; STREAM_INFO]> {
    window.pass(MARK.len())?;
    let mut info = None;
    for _ in 0..MAX_PARTS {
        let header = window.ahead(4)?;
        let &[kind, a, b, c, ..] = header else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        window.skip(4);
        let size = u32::from_be_bytes([0, a, b, c]) as usize;
        if kind << 1 == 0 {
            if info.is_some() {
                return Err(invalid_data("it describes more than one stream"));
            }
            if size != STREAM_INFO {
                let reason = "the description of its stream has a wrong length";
                return Err(invalid_data(reason));
            }
            let bytes = window.ahead(STREAM_INFO)?.first_chunk().copied();
            info = Some(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        }
        // A picture is never in memory.
        if window.pass(size)? < size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if kind >= 0x80 {
            return info.ok_or_else(|| invalid_data("it does not describe its stream"));
        }
    }
    Err(invalid_data(TOO_MANY))
}

fn read_header(bytes: &[u8], info: &StreamInfo) -> Option<FrameHeader> {
    let &[0xff, second, sizes, shape, ..] = bytes else {
        return None;
    };
    if second & 0xfe != 0xf8 || shape & 1 != 0 {
        return None;
    }
    let channels = match shape >> 4 {
        channels @ 0..=7 => u32::from(channels) + 1,
        8..=10 => 2,
        _ => return None,
    };
    let bits = match shape >> 1 & 7 {
        0 => info.bits,
        1 => 8,
        2 => 12,
        4 => 16,
        5 => 20,
        6 => 24,
        7 => 32,
        _ => return None,
    };
    let (number, mut at) = coded_number(bytes)?;
    let pair = |at: usize| Some(u32::from(*bytes.get(at)?) << 8 | u32::from(*bytes.get(at + 1)?));
    let samples = match sizes >> 4 {
        0 => return None,
        1 => 192,
        n @ 2..=5 => 576 << (n - 2),
        6 => {
            at += 1;
            u32::from(*bytes.get(at - 1)?) + 1
        }
        7 => {
            at += 2;
            pair(at - 2)? + 1
        }
        n => 256 << (n - 8),
    };
    let rate = match sizes & 15 {
        0 => info.rate,
        n @ 1..=11 => FRAME_RATES[usize::from(n) - 1],
        12 => {
            at += 1;
            u32::from(*bytes.get(at - 1)?) * 1_000
        }
        13 => {
            at += 2;
            pair(at - 2)?
        }
        14 => {
            at += 2;
            pair(at - 2)? * 10
        }
        _ => return None,
    };
    if (rate, channels, bits) != (info.rate, info.channels, info.bits)
        || crc8(bytes.get(..at)?) != *bytes.get(at)?
    {
        return None;
    }
    Some(FrameHeader {
        number,
        is_sample_number: second & 1 == 1,
        samples,
    })
}

const FRAME_RATES: [u32; 11] = [
    88_200, 176_400, 192_000, 8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000,
];

/// A number in up to seven bytes, coded like a character of UTF-8, and the offset behind it.
fn coded_number(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.get(4)?;
    let more = match first.leading_ones() {
        0 => 0,
        ones @ 2..=7 => ones as usize - 1,
        _ => return None,
    };
    let mask = if more == 0 { 0x7f } else { 0x3f_u8 >> more };
    let mut number = u64::from(first & mask);
    for byte in bytes.get(5..5 + more)? {
        if byte & 0xc0 != 0x80 {
            return None;
        }
        number = number << 6 | u64::from(byte & 0x3f);
    }
    Some((number, 5 + more))
}

fn crc8(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ byte, |crc, _| {
            crc << 1 ^ if crc & 0x80 == 0 { 0 } else { 7 }
        })
    })
}

fn crc16(crc: u16, byte: u8) -> u16 {
    crc << 8 ^ CRC16[usize::from(crc.to_be_bytes()[0] ^ byte)]
}

const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut index = 0_u16;
    while index < 256 {
        let mut crc = index << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = crc << 1 ^ if crc & 0x8000 == 0 { 0 } else { 0x8005 };
            bit += 1;
        }
        table[index as usize] = crc;
        index += 1;
    }
    table
};
