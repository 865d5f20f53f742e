//! MP4 and M4A: `uuid` boxes (C2PA, XMP), `udta` and `meta` with `keys` and `ilst`. This module
//! knows nothing of tracks and samples.

use std::io::{Read, Seek};
use std::ops::Range;

use super::source::{LimitedSource, be32};
use super::{FileKind, FileMarks, MAX_DEPTH, MAX_TEXT_BYTES, MarksError, origin_text};

/// D8FEC3D6-1B0E-483C-9297-5828877EC481, of the C2PA specification (A.5).
const C2PA: [u8; 16] = [
    0xd8, 0xfe, 0xc3, 0xd6, 0x1b, 0x0e, 0x48, 0x3c, 0x92, 0x97, 0x58, 0x28, 0x87, 0x7e, 0xc4, 0x81,
];
/// BE7ACFCB-97A9-42E8-9C71-999491E3AFAC, of part 3 of the XMP specification.
const XMP: [u8; 16] = [
    0xbe, 0x7a, 0xcf, 0xcb, 0x97, 0xa9, 0x42, 0xe8, 0x9c, 0x71, 0x99, 0x94, 0x91, 0xe3, 0xaf, 0xac,
];
/// Maximum number of keys of `mdta` that are remembered to name the items of `ilst`.
const MAX_KEYS: usize = 256;

struct Mp4Box {
    kind: [u8; 4],
    body: Range<u64>,
}

pub(super) fn read(source: &mut LimitedSource<impl Read + Seek>) -> Result<FileMarks, MarksError> {
    let mut marks = FileMarks::for_kind(FileKind::Mp4);
    let mut offset = 0;
    let size = source.size();
    while let Some(part) = next(source, &mut offset, size)? {
        match &part.kind {
            b"uuid" => uuid(source, part.body, &mut marks)?,
            b"moov" | b"udta" | b"meta" => read_children(source, &part, 1, &mut marks)?,
            _ => {}
        }
    }
    Ok(marks)
}

/// The box at `offset`, which is advanced past it; `None` at the end of its parent.
fn next(
    source: &mut LimitedSource<impl Read + Seek>,
    offset: &mut u64,
    end: u64,
) -> Result<Option<Mp4Box>, MarksError> {
    // Fewer bytes than a head: QuickTime ends some lists with four zero bytes.
    if offset.saturating_add(8) > end {
        return Ok(None);
    }
    source.count_part()?;
    let [s0, s1, s2, s3, kind @ ..] = source.array::<8>(*offset)?;
    let (head, size) = match be32([s0, s1, s2, s3]) {
        0 => (8, end - *offset),
        1 => (16, u64::from_be_bytes(source.array(*offset + 8)?)),
        size => (8, size),
    };
    if size < head {
        return Err(MarksError::Damaged {
            offset: *offset,
            problem: "a box is smaller than its head",
        });
    }
    let box_end = source.end(*offset, size, end)?;
    let body = *offset + head..box_end;
    *offset = box_end;
    Ok(Some(Mp4Box { kind, body }))
}

fn uuid(
    source: &mut LimitedSource<impl Read + Seek>,
    body: Range<u64>,
    marks: &mut FileMarks,
) -> Result<(), MarksError> {
    let id = source.read_up_to(body.start, 16.min(body.end - body.start))?;
    let inner = body.start + id.len() as u64;
    if id == XMP {
        let length = (body.end - inner).min(MAX_TEXT_BYTES);
        origin_text::xmp(&source.read_up_to(inner, length)?, marks);
    } else if id == C2PA {
        // Version and flags, then a NUL-terminated purpose. For a manifest, an offset and the
        // manifest follow.
        let head = source.read_up_to(inner, 64.min(body.end - inner))?;
        let purpose = head.get(4..).unwrap_or_default();
        if let Some(rest) = purpose
            .strip_prefix(b"manifest\0")
            .or_else(|| purpose.strip_prefix(b"original\0"))
            .or_else(|| purpose.strip_prefix(b"update\0"))
        {
            let start = inner + (head.len() - rest.len()) as u64 + 8;
            if start <= body.end {
                marks.add_manifest(start..body.end);
            }
        }
    }
    Ok(())
}

/// Reads the boxes inside a box.
fn read_children(
    source: &mut LimitedSource<impl Read + Seek>,
    parent: &Mp4Box,
    depth: u32,
    marks: &mut FileMarks,
) -> Result<(), MarksError> {
    if depth > MAX_DEPTH {
        return Err(MarksError::TooManyParts);
    }
    let (mut offset, end) = (parent.body.start, parent.body.end);
    if &parent.kind == b"meta" && is_full_box(source, offset, end)? {
        offset = (offset + 4).min(end);
    }
    let mut keys = Vec::new();
    while let Some(part) = next(source, &mut offset, end)? {
        let length = (part.body.end - part.body.start).min(MAX_TEXT_BYTES);
        match &part.kind {
            b"uuid" => uuid(source, part.body, marks)?,
            b"udta" | b"meta" => read_children(source, &part, depth + 1, marks)?,
            b"XMP_" => origin_text::xmp(&source.read_up_to(part.body.start, length)?, marks),
            b"keys" => keys = names(&source.read_up_to(part.body.start, length)?),
            b"ilst" => items(source, part.body, &keys, marks)?,
            _ => {}
        }
    }
    Ok(())
}

/// `meta` has version and flags in MP4, and none in `QuickTime`.
fn is_full_box(
    source: &mut LimitedSource<impl Read + Seek>,
    offset: u64,
    end: u64,
) -> Result<bool, MarksError> {
    let head = source.read_up_to(offset, 8.min(end - offset))?;
    Ok(head.get(4..8) != Some(b"hdlr"))
}

/// The keys of `mdta`: version and flags, a count, then each with its size and namespace.
fn names(bytes: &[u8]) -> Vec<String> {
    let mut rest = bytes.get(8..).unwrap_or_default();
    let mut names = Vec::new();
    while let Some((size, _)) = rest.split_first_chunk::<4>() {
        let size = u32::from_be_bytes(*size) as usize;
        let (Some(name), Some(after)) = (rest.get(8..size), rest.get(size..)) else {
            break;
        };
        if names.len() == MAX_KEYS {
            break;
        }
        names.push(String::from_utf8_lossy(name).into_owned());
        rest = after;
    }
    names
}

fn items(
    source: &mut LimitedSource<impl Read + Seek>,
    list: Range<u64>,
    keys: &[String],
    marks: &mut FileMarks,
) -> Result<(), MarksError> {
    let mut offset = list.start;
    while let Some(item) = next(source, &mut offset, list.end)? {
        // An item is named by its number in `keys`, by one of Apple's names, or freely: `----` with
        // a box `name`.
        let number = usize::try_from(be32(item.kind)).ok();
        let mut name = number
            .and_then(|number| keys.get(number.checked_sub(1)?))
            .cloned()
            .unwrap_or_else(|| item.kind.iter().map(|byte| char::from(*byte)).collect());
        let mut inner = item.body.start;
        while let Some(part) = next(source, &mut inner, item.body.end)? {
            let length = (part.body.end - part.body.start).min(MAX_TEXT_BYTES);
            match &part.kind {
                b"name" => {
                    let bytes = source.read_up_to(part.body.start, length)?;
                    name = String::from_utf8_lossy(bytes.get(4..).unwrap_or_default()).into_owned();
                }
                b"data" => {
                    let bytes = source.read_up_to(part.body.start, length)?;
                    origin_text::tag(&name, bytes.get(8..).unwrap_or_default(), marks);
                }
                _ => {}
            }
        }
    }
    Ok(())
}
