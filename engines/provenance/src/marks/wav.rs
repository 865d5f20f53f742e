//! WAV: chunks `C2PA`, `_PMX` (XMP), `bext`, `LIST/INFO` and an ID3 tag. Sound is not read.

use std::io::{Read, Seek};

use super::source::LimitedSource;
use super::{FileKind, FileMarks, MAX_TEXT_BYTES, MarksError, id3, origin_text};

pub(super) fn read(source: &mut LimitedSource<impl Read + Seek>) -> Result<FileMarks, MarksError> {
    let mut marks = FileMarks::for_kind(FileKind::Wav);
    let mut offset = 12;
    let mut data_length = None;
    while offset + 8 <= source.size() {
        source.count_part()?;
        let [kind @ .., l0, l1, l2, l3] = source.array::<8>(offset)?;
        let declared = u32::from_le_bytes([l0, l1, l2, l3]);
        let body = offset + 8;
        let mut length = u64::from(declared);
        if &kind == b"data" && declared == u32::MAX {
            // RF64 has the length elsewhere; a stream that was cut off has none.
            length = data_length.unwrap_or(source.size() - body);
        }
        let end = if &kind == b"data" {
            // A truncated recording can still be played.
            body.saturating_add(length).min(source.size())
        } else {
            source.end(body, length, source.size())?
        };
        match &kind {
            b"C2PA" => marks.add_manifest(body..end),
            b"_PMX" => {
                origin_text::xmp(
                    &source.read_up_to(body, length.min(MAX_TEXT_BYTES))?,
                    &mut marks,
                );
            }
            b"bext" => marks.bext = true,
            b"ds64" if length >= 16 => {
                data_length = Some(u64::from_le_bytes(source.array::<8>(body + 8)?));
            }
            b"LIST" => info(
                &source.read_up_to(body, length.min(MAX_TEXT_BYTES))?,
                &mut marks,
            ),
            b"id3 " | b"ID3 " if source.read_up_to(body, 3)? == b"ID3" => {
                id3::read(source, body, &mut marks)?;
            }
            _ => {}
        }
        offset = end + end % 2;
    }
    Ok(marks)
}

fn info(bytes: &[u8], marks: &mut FileMarks) {
    let Some(mut rest) = bytes.strip_prefix(b"INFO") else {
        return;
    };
    while let Some((head, body)) = rest.split_at_checked(8) {
        let [key @ .., l0, l1, l2, l3] = head else {
            return;
        };
        let length = u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize;
        let Some((value, after)) = body.split_at_checked(length) else {
            return;
        };
        origin_text::tag(&String::from_utf8_lossy(key), value, marks);
        rest = after.get(length % 2..).unwrap_or_default();
    }
}
