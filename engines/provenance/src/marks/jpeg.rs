//! JPEG: segments `APP11` (C2PA), `APP1` (XMP) and `APP13` (IPTC). Pixels are not read.

use std::io::{Read, Seek};

use super::source::{LimitedSource, be32};
use super::{FileKind, FileMarks, MarksError, origin_text};

const XMP: &[u8] = b"http://ns.adobe.com/xap/1.0/\0";
const PHOTOSHOP: &[u8] = b"Photoshop 3.0\0";
/// IPTC's own block among Photoshop's.
const IIM: &[u8] = b"8BIM\x04\x04";
/// Bytes before a part of a box: the identifier, the box's number and the part's number.
const PART_HEAD: u64 = 8;

pub(super) fn read(source: &mut LimitedSource<impl Read + Seek>) -> Result<FileMarks, MarksError> {
    let mut marks = FileMarks::for_kind(FileKind::Jpeg);
    let mut offset = 2;
    while offset + 4 <= source.size() {
        source.count_part()?;
        let [0xff, kind, high, low] = source.array::<4>(offset)? else {
            return Err(MarksError::Damaged {
                offset,
                problem: "no segment where one is expected",
            });
        };
        match kind {
            // A fill byte.
            0xff => {
                offset += 1;
                continue;
            }
            // The pixels, or the end.
            0xda | 0xd9 => break,
            // A marker without a length.
            0x01 | 0xd0..=0xd7 => {
                offset += 2;
                continue;
            }
            _ => {}
        }
        let length = u64::from(u16::from_be_bytes([high, low]));
        if length < 2 {
            return Err(MarksError::Damaged {
                offset,
                problem: "a segment shorter than its length",
            });
        }
        let (body, end) = (offset + 4, source.end(offset + 2, length, source.size())?);
        match kind {
            0xe1 | 0xed => read_segment(&source.read_up_to(body, end - body)?, &mut marks),
            0xeb => part_of_box(source, body, end, &mut marks)?,
            _ => {}
        }
        offset = end;
    }
    Ok(marks)
}

fn read_segment(bytes: &[u8], marks: &mut FileMarks) {
    if let Some(packet) = bytes.strip_prefix(XMP) {
        origin_text::xmp(packet, marks);
    }
    if let Some(blocks) = bytes.strip_prefix(PHOTOSHOP) {
        marks.iptc |= blocks.windows(IIM.len()).any(|window| window == IIM);
    }
}

/// A box is spread over as many segments as needed, each with the box's own head.
fn part_of_box(
    source: &mut LimitedSource<impl Read + Seek>,
    body: u64,
    end: u64,
    marks: &mut FileMarks,
) -> Result<(), MarksError> {
    // Identifier, the box's number, the part's, and the head of the box.
    if end - body < PART_HEAD + 8 {
        return Ok(());
    }
    let [id0, id1, _, _, number @ ..] = source.array::<8>(body)?;
    let [_, _, _, _, kind @ ..] = source.array::<8>(body + PART_HEAD)?;
    if (&[id0, id1], &kind) != (b"JP", b"jumb") {
        return Ok(());
    }
    if be32(number) > 1 {
        if let Some(range) = &mut marks.manifest {
            range.end = range.end.max(end);
        }
        return Ok(());
    }
    if end - body < PART_HEAD + 8 + 12 {
        return Ok(());
    }
    // The first box in it is its description, which begins with its type.
    let [_, _, _, _, inner @ ..] = source.array::<8>(body + PART_HEAD + 8)?;
    let is_c2pa = &inner == b"jumd" && &source.array::<4>(body + PART_HEAD + 16)? == b"c2pa";
    if is_c2pa {
        marks.add_manifest(body + PART_HEAD..end);
    }
    Ok(())
}
