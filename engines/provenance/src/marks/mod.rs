//! The marks that a file carries when it comes in: the position of its C2PA manifest, whether there
//! is XMP or IPTC, and its declared source type.
//!
//! Nothing is verified here: the writer of the file can have written anything. This module owns the
//! layouts of MP4, PNG, JPEG, WAV, FLAC and MP3 as far as needed for marks, and their limits. It
//! must not know how a manifest is built or signed. A file is read in pieces: the memory in use has
//! a fixed limit and never exceeds the file's size.

use std::io::{self, Read, Seek};
use std::ops::Range;

mod flac;
pub(crate) mod id3;
mod jpeg;
mod mp4;
mod origin_text;
mod png;
mod source;
mod wav;

use source::LimitedSource;

/// Maximum number of containers, boxes, chunks or frames that are read in one file.
pub const MAX_PARTS: u32 = 20_000;
/// Maximum number of bytes that are read of one file, whatever its size.
pub const MAX_READ_BYTES: u64 = 32 << 20;
/// Maximum size in bytes of one piece of text (XMP, a comment) that is read.
pub const MAX_TEXT_BYTES: u64 = 1 << 20;
/// Maximum length in characters of a value that is reported.
pub const MAX_VALUE_CHARS: usize = 512;
/// Deepest nesting of boxes.
pub const MAX_DEPTH: u32 = 6;

/// The kind of a file, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// MP4, M4A and the rest of their family.
    Mp4,
    Png,
    Jpeg,
    Wav,
    Flac,
    Mp3,
}

/// The marks of a file. All of them are unverified claims.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileMarks {
    pub kind: FileKind,
    /// Bytes of the file that are its first C2PA manifest store (JUMBF, without the container's own
    /// header). In a JPEG with several such segments, the range includes the heads between them.
    pub manifest: Option<Range<u64>>,
    /// Manifest stores found. More than one is against the specification, and no validator accepts
    /// any of them.
    pub manifests: u32,
    /// The URL of the manifest according to XMP (`dcterms:provenance`). Never fetched here.
    pub remote_manifest: Option<String>,
    pub xmp: bool,
    /// IPTC: a block of IIM, or properties of IPTC's in XMP.
    pub iptc: bool,
    /// EBU's broadcast extension of WAV.
    pub bext: bool,
    /// A URI of IPTC's or C2PA's vocabulary, or the value found in its place: from XMP or a tag,
    /// otherwise from the last manifest in the store.
    pub digital_source_type: Option<String>,
    /// The label of China's GB 45438, unchanged (JSON, by that standard).
    pub aigc: Option<String>,
    /// The program that wrote the file, by its own tag.
    pub software: Option<String>,
}

impl FileMarks {
    fn for_kind(kind: FileKind) -> Self {
        Self {
            kind,
            manifest: None,
            manifests: 0,
            remote_manifest: None,
            xmp: false,
            iptc: false,
            bext: false,
            digital_source_type: None,
            aigc: None,
            software: None,
        }
    }

    /// Whether any mark states an origin; a program's name alone does not.
    pub fn has_origin_claim(&self) -> bool {
        self.manifests > 0
            || self.xmp
            || self.iptc
            || self.bext
            || self.digital_source_type.is_some()
            || self.aigc.is_some()
    }

    fn add_manifest(&mut self, range: Range<u64>) {
        self.manifests = self.manifests.saturating_add(1);
        self.manifest.get_or_insert(range);
    }
}

/// Why a file's marks could not be read.
#[derive(Debug, thiserror::Error)]
pub enum MarksError {
    /// Not a known kind of file.
    #[error("not MP4, PNG, JPEG, WAV, FLAC or MP3")]
    UnknownKind,
    /// A length extends beyond the end of the file, or of the part that it is in.
    #[error("damaged at byte {offset}: {problem}")]
    Damaged { offset: u64, problem: &'static str },
    /// More parts, or deeper ones, than the limits allow.
    #[error("too many or too deeply nested parts")]
    TooManyParts,
    /// More bytes of it would have to be read than [`MAX_READ_BYTES`].
    #[error("its marks take more bytes than are read")]
    TooLong,
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Reads the marks of a file.
pub fn read(file: impl Read + Seek) -> Result<FileMarks, MarksError> {
    let mut source = LimitedSource::new(file)?;
    let start = source.read_up_to(0, 12)?;
    let mut marks = match start.as_slice() {
        [b'f', b'L', b'a', b'C', ..] => flac::read(&mut source, 0)?,
        [b'I', b'D', b'3', ..] => read_tagged(&mut source)?,
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => png::read(&mut source)?,
        [
            b'R',
            b'I' | b'F',
            b'F' | b'6',
            b'F' | b'4',
            _,
            _,
            _,
            _,
            b'W',
            b'A',
            b'V',
            b'E',
        ] => wav::read(&mut source)?,
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => mp4::read(&mut source)?,
        [0xff, 0xd8, 0xff, ..] => jpeg::read(&mut source)?,
        [0xff, second, ..] if second & 0xe0 == 0xe0 => FileMarks::for_kind(FileKind::Mp3),
        _ => return Err(MarksError::UnknownKind),
    };
    if marks.digital_source_type.is_none()
        && let Some(range) = marks.manifest.clone()
    {
        marks.digital_source_type = origin_text::in_manifest(&mut source, range)?;
    }
    Ok(marks)
}

/// Reads a file that begins with an ID3 tag: MP3, or FLAC, whose manifest C2PA puts into the tag.
fn read_tagged(source: &mut LimitedSource<impl Read + Seek>) -> Result<FileMarks, MarksError> {
    let mut marks = FileMarks::for_kind(FileKind::Mp3);
    let end = id3::read(source, 0, &mut marks)?;
    if source.read_up_to(end, 4)? != b"fLaC" {
        return Ok(marks);
    }
    // Both may carry marks: the tag has the manifest, the stream its own comments. Those of the tag
    // take precedence.
    let inner = flac::read(source, end)?;
    marks.kind = FileKind::Flac;
    marks.manifests = marks.manifests.saturating_add(inner.manifests);
    marks.manifest = marks.manifest.or(inner.manifest);
    marks.remote_manifest = marks.remote_manifest.or(inner.remote_manifest);
    marks.xmp |= inner.xmp;
    marks.iptc |= inner.iptc;
    marks.digital_source_type = marks.digital_source_type.or(inner.digital_source_type);
    marks.aigc = marks.aigc.or(inner.aigc);
    marks.software = marks.software.or(inner.software);
    Ok(marks)
}

#[cfg(test)]
mod tests;
