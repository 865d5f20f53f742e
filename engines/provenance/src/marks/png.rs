//! PNG: chunks `caBX` (C2PA), `iTXt`, `tEXt` and `zTXt`. Pixels are not read.

use std::io::{Read, Seek};

use super::source::{LimitedSource, be32, until_nul};
use super::{FileKind, FileMarks, MAX_TEXT_BYTES, MarksError, origin_text};

pub(super) fn read(source: &mut LimitedSource<impl Read + Seek>) -> Result<FileMarks, MarksError> {
    let mut marks = FileMarks::for_kind(FileKind::Png);
    let mut offset = 8;
    while offset < source.size() {
        source.count_part()?;
        let [l0, l1, l2, l3, kind @ ..] = source.array::<8>(offset)?;
        let (body, length) = (offset + 8, be32([l0, l1, l2, l3]));
        let end = source.end(body, length, source.size())?;
        match &kind {
            b"IEND" => break,
            b"caBX" => marks.add_manifest(body..end),
            b"iTXt" => {
                let bytes = source.read_up_to(body, length.min(MAX_TEXT_BYTES))?;
                read_itxt(&bytes, &mut marks);
            }
            b"tEXt" => {
                let bytes = source.read_up_to(body, length.min(MAX_TEXT_BYTES))?;
                if let Some((key, value)) = until_nul(&bytes) {
                    origin_text::tag(&String::from_utf8_lossy(key), value, &mut marks);
                }
            }
            b"zTXt" => {
                // A keyword has at most 79 bytes. The rest is compressed and not read.
                let bytes = source.read_up_to(body, length.min(80))?;
                if let Some((b"Raw profile type iptc", _)) = until_nul(&bytes) {
                    marks.iptc = true;
                }
            }
            _ => {}
        }
        offset = end.saturating_add(4); // the checksum is left to the decoder
    }
    Ok(marks)
}

/// Keyword, whether and how it is compressed, language, keyword in that language, text.
fn read_itxt(bytes: &[u8], marks: &mut FileMarks) {
    let Some((key, [compressed, _, rest @ ..])) = until_nul(bytes) else {
        return;
    };
    let text = until_nul(rest).and_then(|(_, rest)| until_nul(rest));
    match (text, compressed) {
        (Some((_, text)), 0) => origin_text::tag(&String::from_utf8_lossy(key), text, marks),
        // XMP's standard requires plain text. Compressed XMP is reported, but not read.
        _ => marks.xmp |= key == b"XML:com.adobe.xmp",
    }
}
