//! `ID3v2` tags, in front of MP3 and FLAC and in a chunk of WAV: frames GEOB (C2PA), PRIV (XMP),
//! TXXX and TSSE. This module does not know what follows the tag.

use std::io::{Read, Seek};

use super::source::{LimitedSource, until_nul};
use super::{FileMarks, MAX_TEXT_BYTES, MarksError, origin_text};

/// Bytes of a GEOB frame's head that are read: its type, file name and description.
const HEAD: u64 = 1024;
/// The MIME types of a manifest. The first is reportedly required by edition 2.4 of the
/// specification. The second is required by edition 2.2 and written by the C2PA library. The third
/// was written by older versions of it.
const C2PA_TYPES: [&[u8]; 3] = [
    b"application/jumbf",
    b"application/c2pa",
    b"application/x-c2pa-manifest-store",
];

/// Reads a tag, and returns where it ends.
pub(super) fn read(
    source: &mut LimitedSource<impl Read + Seek>,
    start: u64,
    marks: &mut FileMarks,
) -> Result<u64, MarksError> {
    let [_, _, _, version, _, flags, s0, s1, s2, s3] = source.array::<10>(start)?;
    let end = source.end(start + 10, syncsafe([s0, s1, s2, s3]), source.size())?;
    let mut position = start + 10;
    if !matches!(version, 3 | 4) {
        return Ok(end); // 2.2 has frame ids of three letters, and is older than all of these marks
    }
    if flags & 0x40 != 0 {
        let size = source.array(position)?;
        position = match version {
            3 => source.end(position + 4, u64::from(u32::from_be_bytes(size)), end)?,
            _ => source.end(position, syncsafe(size), end)?,
        };
    }
    while position + 10 <= end {
        source.count_part()?;
        let [kind @ .., s0, s1, s2, s3, _, format_flags] = source.array::<10>(position)?;
        if kind == [0; 4] {
            break; // padding
        }
        let size = [s0, s1, s2, s3];
        let length = match version {
            3 => u64::from(u32::from_be_bytes(size)),
            _ => syncsafe(size),
        };
        let body = position + 10;
        position = source.end(body, length, end)?;
        // Frames that are compressed, encrypted, or preceded by their group or length are skipped.
        let unsupported_flags = if version == 4 { 0x4d } else { 0xe0 };
        let is_unsynchronised = version == 4 && (flags & 0x80 != 0 || format_flags & 0x02 != 0);
        if format_flags & unsupported_flags == 0 {
            frame(source, kind, body..position, is_unsynchronised, marks)?;
        }
    }
    let footer = if flags & 0x10 != 0 { 10 } else { 0 };
    Ok(end.saturating_add(footer))
}

fn frame(
    source: &mut LimitedSource<impl Read + Seek>,
    kind: [u8; 4],
    body: std::ops::Range<u64>,
    is_unsynchronised: bool,
    marks: &mut FileMarks,
) -> Result<(), MarksError> {
    let length = body.end - body.start;
    let content = |bytes: Vec<u8>| {
        if is_unsynchronised {
            without_stuffing(&bytes)
        } else {
            bytes
        }
    };
    match &kind {
        // A manifest with bytes between its own is not a range of the file.
        b"GEOB" if !is_unsynchronised => {
            let head = source.read_up_to(body.start, length.min(HEAD))?;
            if let Some(offset) = object(&head) {
                marks.add_manifest(body.start + offset..body.end);
            }
        }
        b"PRIV" => {
            let bytes = content(source.read_up_to(body.start, length.min(MAX_TEXT_BYTES))?);
            if let Some((b"XMP", packet)) = until_nul(&bytes) {
                origin_text::xmp(packet, marks);
            }
        }
        b"TXXX" | b"TSSE" => {
            let bytes = content(source.read_up_to(body.start, length.min(MAX_TEXT_BYTES))?);
            let text = text(&bytes);
            match (text.split_once('\0'), &kind) {
                (Some((key, value)), b"TXXX") => {
                    origin_text::tag(key, value.trim_end_matches('\0').as_bytes(), marks);
                }
                (_, b"TSSE") => origin_text::tag("tsse", text.as_bytes(), marks),
                _ => {}
            }
        }
        _ => {}
    }
    Ok(())
}

/// The bytes before unsynchronisation, which puts a zero after each 0xff (ID3v2.4, section 6.1).
pub(crate) fn without_stuffing(bytes: &[u8]) -> Vec<u8> {
    let before = std::iter::once(&0).chain(bytes);
    let kept = bytes.iter().zip(before);
    kept.filter(|&(&byte, &before)| !(before == 0xff && byte == 0))
        .map(|(&byte, _)| byte)
        .collect()
}

/// Where the object of a GEOB frame begins, if it is a manifest.
fn object(head: &[u8]) -> Option<u64> {
    let (&encoding, rest) = head.split_first()?;
    let (mime, rest) = until_nul(rest)?;
    if !C2PA_TYPES.contains(&mime) {
        return None;
    }
    let rest = after_text(encoding, after_text(encoding, rest)?)?;
    Some((head.len() - rest.len()) as u64)
}

/// The bytes after a text that ends with a NUL in its encoding.
fn after_text(encoding: u8, bytes: &[u8]) -> Option<&[u8]> {
    if !matches!(encoding, 1 | 2) {
        return until_nul(bytes).map(|(_, rest)| rest);
    }
    let position = bytes.chunks_exact(2).position(|pair| pair == [0, 0])?;
    bytes.get(2 * position + 2..)
}

/// A text frame: a byte for the encoding, then the text.
fn text(bytes: &[u8]) -> String {
    let Some((&encoding, rest)) = bytes.split_first() else {
        return String::new();
    };
    if !matches!(encoding, 1 | 2) {
        return String::from_utf8_lossy(rest).into_owned();
    }
    let is_little_endian = encoding == 1 && rest.starts_with(&[0xff, 0xfe]);
    let units = rest.chunks_exact(2).filter_map(|pair| {
        let pair = <[u8; 2]>::try_from(pair).ok()?;
        let unit = if is_little_endian {
            u16::from_le_bytes(pair)
        } else {
            u16::from_be_bytes(pair)
        };
        (unit != 0xfeff).then_some(unit)
    });
    char::decode_utf16(units)
        .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

/// A number with seven bits per byte, so that no length looks like the beginning of sound.
fn syncsafe(bytes: [u8; 4]) -> u64 {
    bytes
        .iter()
        .fold(0, |sum, byte| sum << 7 | u64::from(byte & 0x7f))
}
