//! Headers of WAV files, mended: whatever a recorder, a pipe or an old program wrote, the reader
//! gets a plain RIFF header and the samples.
//!
//! Knows RIFF, RIFX (big-endian), RF64 and BW64 (64-bit sizes) and Sony's Wave64. A size of nought,
//! or one beyond the file, means the rest of the file.

use std::io::{self, Read, Seek, SeekFrom};

use symphonia::core::io::MediaSource;

use super::spliced_media::SplicedMedia;
use super::stripped_media::{MAX_PARTS, TOO_MANY, invalid_data};

/// Longest chunk with the sample format, in bytes.
const MAX_FORMAT: u64 = 64 * 1024;
/// Sizes from here on are written by programs that do not know the size yet.
const PLACEHOLDER_SIZES: [std::ops::RangeInclusive<u64>; 2] =
    [0x7fff_0000..=0x8000_0000, 0xffff_0000..=0xffff_ffff];

/// A WAV file, ready to be read.
pub(super) struct MendedWav<'a> {
    pub(super) content: WavContent<'a>,
    /// Whether the header states samples that the file does not contain.
    pub(super) is_cut: bool,
}

/// What is in the file.
pub(super) enum WavContent<'a> {
    /// A plain header, and samples that the reader knows.
    Samples(Box<dyn MediaSource + 'a>),
    /// An MPEG stream, without the header around it.
    Mpeg(Box<dyn MediaSource + 'a>),
    /// A codec that is not supported.
    Other(String),
}

/// Whether a file begins like one of these.
pub(super) fn is_wav(bytes: &[u8]) -> bool {
    Layout::of(bytes).is_some()
}

/// How a file writes its chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    Riff,
    BigEndian,
    SixtyFourBit,
    Wave64,
}

/// The identifiers of Wave64 end like this.
const WAVE64_TAIL: [u8; 12] = *b"\xf3\xac\xd3\x11\x8c\xd1\x00\xc0\x4f\x8e\xdb\x8a";
const WAVE64_RIFF: &[u8; 16] = b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00";

impl Layout {
    fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(WAVE64_RIFF) && bytes.get(24..28) == Some(b"wave") {
            return Some(Self::Wave64);
        }
        if bytes.get(8..12) != Some(b"WAVE") {
            return None;
        }
        match &bytes[..4] {
            b"RIFF" => Some(Self::Riff),
            b"RIFX" => Some(Self::BigEndian),
            b"RF64" | b"BW64" => Some(Self::SixtyFourBit),
            _ => None,
        }
    }

    fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::BigEndian => u16::from_be_bytes(bytes),
            _ => u16::from_le_bytes(bytes),
        }
    }

    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::BigEndian => u32::from_be_bytes(bytes),
            _ => u32::from_le_bytes(bytes),
        }
    }
}

/// A chunk's name, and its contents' offset and size.
struct Chunk {
    name: [u8; 4],
    start: u64,
    size: u64,
}

/// Reads the header up to the samples.
pub(super) fn mend<'a>(mut media: Box<dyn MediaSource + 'a>) -> io::Result<MendedWav<'a>> {
    let file_length = media.seek(SeekFrom::End(0))?;
    media.rewind()?;
    let mut head = [0; 40];
    let mut length = 0;
    while length < head.len() {
        match media.read(&mut head[length..])? {
            0 => break,
            read => length += read,
        }
    }
    let layout = Layout::of(&head[..length]).ok_or_else(|| invalid_data("it is no WAV file"))?;
    let mut position = if layout == Layout::Wave64 { 40 } else { 12 };
    let (mut format, mut fact, mut wide_size) = (None, None, None);
    for _ in 0..MAX_PARTS {
        let chunk = next_chunk(media.as_mut(), layout, position)?;
        match &chunk.name {
            b"data" => {
                let format: WavFormat =
                    format.ok_or_else(|| invalid_data("its format is missing"))?;
                let stated = match wide_size {
                    Some(size) if chunk.size >= 0xffff_ffff || chunk.size == 0 => size,
                    _ => chunk.size,
                };
                let available = file_length.saturating_sub(chunk.start);
                let samples = SampleRegion::new(media.as_mut(), chunk.start, stated, available)?;
                return Ok(format.assemble(media, layout, &samples, fact));
            }
            b"fmt " => {
                let bytes = contents(media.as_mut(), &chunk)?;
                format = Some(WavFormat::read(layout, &bytes)?);
            }
            b"fact" if chunk.size == 4 => fact = Some(contents(media.as_mut(), &chunk)?),
            b"ds64" if chunk.size >= 16 => {
                let bytes = contents(media.as_mut(), &chunk)?;
                wide_size = bytes[8..].first_chunk().copied().map(u64::from_le_bytes);
            }
            _ => {}
        }
        position = end_of(media.as_mut(), layout, &chunk)?;
    }
    Err(invalid_data(TOO_MANY))
}

fn next_chunk(media: &mut dyn MediaSource, layout: Layout, position: u64) -> io::Result<Chunk> {
    media.seek(SeekFrom::Start(position))?;
    if layout == Layout::Wave64 {
        let mut header = [0; 24];
        media.read_exact(&mut header)?;
        let [a, b, c, d, tail @ .., s0, s1, s2, s3, s4, s5, s6, s7] = header;
        let size = u64::from_le_bytes([s0, s1, s2, s3, s4, s5, s6, s7]);
        let name = if tail == WAVE64_TAIL {
            [a, b, c, d]
        } else {
            [0; 4]
        };
        // The size includes this header.
        return Ok(Chunk {
            name,
            start: position + 24,
            size: size.saturating_sub(24),
        });
    }
    let mut header = [0; 8];
    media.read_exact(&mut header)?;
    let [a, b, c, d, size @ ..] = header;
    Ok(Chunk {
        name: [a, b, c, d],
        start: position + 8,
        size: u64::from(layout.u32(size)),
    })
}

fn contents(media: &mut dyn MediaSource, chunk: &Chunk) -> io::Result<Vec<u8>> {
    if chunk.size > MAX_FORMAT {
        return Err(invalid_data("its format takes too many bytes"));
    }
    let mut bytes = vec![0; usize::try_from(chunk.size).unwrap_or(0)];
    media.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The offset of the next chunk. After a chunk of odd length follows a byte of padding, which some
/// programs leave out.
fn end_of(media: &mut dyn MediaSource, layout: Layout, chunk: &Chunk) -> io::Result<u64> {
    let end = chunk.start.saturating_add(chunk.size);
    if layout == Layout::Wave64 {
        return Ok(end.next_multiple_of(8));
    }
    if end.is_multiple_of(2) {
        return Ok(end);
    }
    let mut names = [0; 5];
    media.seek(SeekFrom::Start(end))?;
    let is_unpadded = media.read_exact(&mut names).is_ok()
        && is_chunk_name(&names[..4])
        && !is_chunk_name(&names[1..]);
    Ok(if is_unpadded { end } else { end + 1 })
}

/// Whether these bytes can name a chunk.
fn is_chunk_name(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| (0x20..0x7f).contains(byte))
}

/// Where the samples are.
struct SampleRegion {
    start: u64,
    length: u64,
    /// Bytes that the header states and the file does not contain.
    missing: u64,
}

impl SampleRegion {
    fn new(
        media: &mut dyn MediaSource,
        start: u64,
        stated: u64,
        available: u64,
    ) -> io::Result<Self> {
        let is_placeholder = PLACEHOLDER_SIZES
            .iter()
            .any(|sizes| sizes.contains(&stated));
        let missing = match stated {
            0 => 0,
            _ if is_placeholder => 0,
            stated => stated.saturating_sub(available),
        };
        let length = match stated {
            0 if is_chunk(media, start, available)? => 0,
            0 => available,
            stated => stated.min(available),
        };
        Ok(Self {
            start,
            length,
            missing,
        })
    }
}

/// Whether a chunk that fits the file begins here, so that a size of nought before it is true.
fn is_chunk(media: &mut dyn MediaSource, start: u64, available: u64) -> io::Result<bool> {
    media.seek(SeekFrom::Start(start))?;
    let mut header = [0; 8];
    if media.read_exact(&mut header).is_err() {
        return Ok(false);
    }
    let [a, b, c, d, size @ ..] = header;
    Ok(is_chunk_name(&[a, b, c, d]) && u64::from(u32::from_le_bytes(size)) + 8 <= available)
}

/// The sample format, as written.
struct WavFormat {
    bytes: Vec<u8>,
    tag: u16,
    channels: u16,
    rate: u32,
    block: u16,
    bits: u16,
}

impl WavFormat {
    const PCM: u16 = 1;
    const FLOAT: u16 = 3;
    const EXTENSIBLE: u16 = 0xfffe;

    fn read(layout: Layout, bytes: &[u8]) -> io::Result<Self> {
        let pair = |at: usize| bytes.get(at..)?.first_chunk().map(|b| layout.u16(*b));
        let quad = |at: usize| bytes.get(at..)?.first_chunk().map(|b| layout.u32(*b));
        let read = || {
            let tag = pair(0)?;
            Some(Self {
                bytes: bytes.to_vec(),
                // The real one of an extensible format is at the start of its identifier.
                tag: pair(24).filter(|_| tag == Self::EXTENSIBLE).unwrap_or(tag),
                channels: pair(2)?,
                rate: quad(4)?,
                block: pair(12)?,
                bits: pair(14).unwrap_or(8),
            })
        };
        read().ok_or_else(|| invalid_data("its format is too short"))
    }

    /// Bytes of a sample of one channel, for formats in which all samples have the same size.
    fn width(&self) -> u16 {
        match self.block.checked_div(self.channels) {
            Some(width @ 1..=8)
                if self.block.is_multiple_of(self.channels) && width * 8 >= self.bits =>
            {
                width
            }
            _ => self.bits.div_ceil(8),
        }
    }

    /// Puts a header that the reader understands before the samples.
    fn assemble<'a>(
        &self,
        media: Box<dyn MediaSource + 'a>,
        layout: Layout,
        samples: &SampleRegion,
        fact: Option<Vec<u8>>,
    ) -> MendedWav<'a> {
        let block = match self.tag {
            1 | 3 | 6 | 7 => u64::from(self.width()) * u64::from(self.channels),
            _ => u64::from(self.block),
        };
        let block = block.max(1);
        let content = match (self.tag, self.width()) {
            (Self::PCM, 1..=4) | (Self::FLOAT, 4 | 8) | (6 | 7, 1) | (2 | 0x11, _) => {
                let (start, length) = (samples.start, samples.length - samples.length % block);
                let head = self.head(length, fact);
                WavContent::Samples(if layout == Layout::BigEndian && self.width() > 1 {
                    let width = u64::from(self.width());
                    let swapped = SwappedSamples::new(media, start, length, width);
                    Box::new(SplicedMedia::new(head, Box::new(swapped), 0))
                } else {
                    Box::new(SplicedMedia::new(head, media, start))
                })
            }
            (0x50 | 0x55, _) => WavContent::Mpeg(Box::new(SplicedMedia::new(
                Vec::new(),
                media,
                samples.start,
            ))),
            _ => WavContent::Other(self.codec_name()),
        };
        MendedWav {
            content,
            is_cut: samples.missing >= block,
        }
    }

    fn head(&self, length: u64, fact: Option<Vec<u8>>) -> Vec<u8> {
        let mut format = Vec::new();
        if matches!(self.tag, 2 | 0x11) {
            format.clone_from(&self.bytes);
        } else {
            let (width, bits) = (self.width(), self.width() * 8);
            let block = width.wrapping_mul(self.channels);
            format.extend(self.tag.to_le_bytes());
            format.extend(self.channels.to_le_bytes());
            format.extend(self.rate.to_le_bytes());
            format.extend(self.rate.wrapping_mul(u32::from(block)).to_le_bytes());
            format.extend(block.to_le_bytes());
            format.extend(bits.to_le_bytes());
            if matches!(self.tag, 6 | 7) {
                format.extend([0, 0]);
            }
        }
        let size = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
        let mut chunks = b"WAVEfmt ".to_vec();
        chunks.extend(size(format.len()));
        let is_odd = format.len() % 2 == 1;
        chunks.extend(format);
        chunks.extend(is_odd.then_some(0));
        if let Some(fact) = fact.filter(|_| matches!(self.tag, 2 | 0x11)) {
            chunks.extend(b"fact\x04\0\0\0");
            chunks.extend(fact);
        }
        chunks.extend(b"data");
        let total = usize::try_from(length).unwrap_or(usize::MAX);
        let is_known = length < u64::from(u32::MAX) - 1024;
        chunks.extend(if is_known { size(total) } else { [0xff; 4] });
        let mut head = b"RIFF".to_vec();
        head.extend(match total.checked_add(chunks.len()) {
            Some(total) if is_known => size(total),
            _ => [0xff; 4],
        });
        head.extend(chunks);
        head
    }

    fn codec_name(&self) -> String {
        let name = match self.tag {
            Self::PCM | Self::FLOAT => return format!("WAV with samples of {} bits", self.bits),
            0x05 | 0x0a | 0x160..=0x163 => "Windows Media Audio",
            0x20 | 0x22 => "TrueSpeech",
            0x31 => "GSM 6.10",
            0x14 | 0x40 | 0x45 | 0x64 | 0x65 => "G.726",
            0x42 | 0x111 => "G.723",
            0x83 | 0x131 => "G.729",
            0xff | 0x1600 | 0x1602 | 0x706d | 0x4143 => "AAC",
            0x270 => "ATRAC3",
            0x92 | 0x2000 => "AC-3",
            0x08 | 0x2001 => "DTS",
            0x674f..=0x6751 | 0x676f..=0x6771 => "Vorbis",
            0x704f => "Opus",
            0xa109 => "Speex",
            0xf1ac => "FLAC",
            0x5756 => "WavPack",
            tag => return format!("WAV with the codec 0x{tag:04x}"),
        };
        format!("{name} inside WAV")
    }
}

/// Samples in the other byte order, swapped as they are read.
struct SwappedSamples<'a> {
    media: Box<dyn MediaSource + 'a>,
    start: u64,
    length: u64,
    width: u64,
    position: u64,
}

impl<'a> SwappedSamples<'a> {
    fn new(media: Box<dyn MediaSource + 'a>, start: u64, length: u64, width: u64) -> Self {
        Self {
            media,
            start,
            length,
            width,
            position: 0,
        }
    }
}

impl Read for SwappedSamples<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.length.saturating_sub(self.position);
        let wanted = rest.min(buffer.len() as u64);
        if wanted == 0 {
            return Ok(0);
        }
        let inside = self.position % self.width;
        let span = (inside + wanted).next_multiple_of(self.width);
        let mut samples = vec![0; usize::try_from(span).unwrap_or(0)];
        let from = self.start + self.position - inside;
        self.media.seek(SeekFrom::Start(from))?;
        self.media.read_exact(&mut samples)?;
        let width = usize::try_from(self.width).unwrap_or(1);
        samples.chunks_exact_mut(width).for_each(<[u8]>::reverse);
        let inside = usize::try_from(inside).unwrap_or(0);
        let count = usize::try_from(wanted).unwrap_or(0);
        buffer[..count].copy_from_slice(&samples[inside..inside + count]);
        self.position += wanted;
        Ok(count)
    }
}

impl Seek for SwappedSamples<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
        };
        self.position = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

impl MediaSource for SwappedSamples<'_> {
    fn is_seekable(&self) -> bool {
        self.media.is_seekable()
    }

    fn byte_len(&self) -> Option<u64> {
        Some(self.length)
    }
}
