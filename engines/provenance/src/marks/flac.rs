//! FLAC: blocks of metadata. C2PA puts the manifest into an ID3 tag before the stream (A.3.4 of
//! the specification), which `id3` reads; some programs wrote an APPLICATION block.
//!
//! Pictures are skipped: the marks of a cover belong to the cover, not to the recording.

use std::io::{Read, Seek};

use super::source::LimitedSource;
use super::{FileKind, FileMarks, MAX_TEXT_BYTES, MarksError, origin_text};

const APPLICATION: u8 = 2;
const COMMENTS: u8 = 4;

pub(super) fn read(
    source: &mut LimitedSource<impl Read + Seek>,
    start: u64,
) -> Result<FileMarks, MarksError> {
    let mut marks = FileMarks::for_kind(FileKind::Flac);
    let mut position = start + 4;
    loop {
        source.count_part()?;
        let [kind, l0, l1, l2] = source.array::<4>(position)?;
        let length = u64::from(u32::from_be_bytes([0, l0, l1, l2]));
        let body = position + 4;
        let end = source.end(body, length, source.size())?;
        match kind & 0x7f {
            APPLICATION if length >= 4 && source.array(body)? == *b"c2pa" => {
                marks.add_manifest(body + 4..end);
            }
            COMMENTS => {
                let bytes = source.read_up_to(body, length.min(MAX_TEXT_BYTES))?;
                comments(&bytes, &mut marks);
            }
            _ => {}
        }
        if kind & 0x80 != 0 {
            return Ok(marks);
        }
        position = end;
    }
}

/// Vorbis comments: the vendor, then `KEY=value` each with its length before it.
fn comments(bytes: &[u8], marks: &mut FileMarks) {
    let Some((vendor, rest)) = split_counted(bytes) else {
        return;
    };
    let mut rest = rest.get(4..).unwrap_or_default();
    while let Some((comment, after)) = split_counted(rest) {
        let mut parts = comment.splitn(2, |byte| *byte == b'=');
        if let (Some(key), Some(value)) = (parts.next(), parts.next()) {
            origin_text::tag(&String::from_utf8_lossy(key), value, marks);
        }
        rest = after;
    }
    origin_text::tag("encoder", vendor, marks);
}

fn split_counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}
