//! Checks of the files that a child left, before anything is stored: a compromised decoder may have
//! written anything. They read only the structure of a file, never its pixels or samples.

use std::fs::File;
use std::io::{self, Cursor, Read as _, Seek as _};

use provenance::marks::{self, FileKind};

/// Longest side of a JPEG, in pixels.
const MAX_SIDE: u16 = 16_384;

/// Why a file that a child left is not used.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadResult {
    #[error("a child left {name} with {size} bytes, more than {limit}")]
    TooLarge { name: String, size: u64, limit: u64 },
    #[error("a child left a file that is not {0}")]
    WrongKind(&'static str),
    /// Something else has the name of the file.
    #[error("a child replaced {0}")]
    Replaced(String),
    /// The job has no such file.
    #[error("a child named {0}, which is none of its files")]
    Unexpected(String),
    #[error("a child's file cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// A complete PNG, square with this side.
pub(super) fn check_png(bytes: Vec<u8>, side: u32) -> Result<Vec<u8>, BadResult> {
    is_png(&bytes, side)
        .then_some(bytes)
        .ok_or(BadResult::WrongKind("the expected PNG"))
}

fn is_png(bytes: &[u8], side: u32) -> bool {
    const HEADER: [u8; 8] = [0, 0, 0, 13, b'I', b'H', b'D', b'R'];
    let Some(chunks) = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n") else {
        return false;
    };
    let size = [side.to_be_bytes(), side.to_be_bytes()].concat();
    let has_size = |rest: &[u8]| rest.starts_with(&size);
    if !chunks.strip_prefix(&HEADER).is_some_and(has_size) {
        return false;
    }
    let mut rest = chunks;
    // Length, type, content, checksum.
    while let Some((&[l0, l1, l2, l3, ref kind @ ..], after)) = rest.split_first_chunk::<8>() {
        let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        let Some(next) = length.checked_add(4).and_then(|end| after.get(end..)) else {
            return false;
        };
        if kind == b"IEND" {
            return length == 0 && next.is_empty();
        }
        rest = next;
    }
    false
}

/// A complete JPEG of some size.
pub(super) fn check_jpeg(bytes: Vec<u8>) -> Result<Vec<u8>, BadResult> {
    is_jpeg(&bytes)
        .then_some(bytes)
        .ok_or(BadResult::WrongKind("a JPEG"))
}

fn is_jpeg(bytes: &[u8]) -> bool {
    let body = bytes.strip_prefix(&[0xff, 0xd8]);
    let Some(mut rest) = body.and_then(|body| body.strip_suffix(&[0xff, 0xd9])) else {
        return false;
    };
    let mut has_size = false;
    // Marker, length, content.
    while let [0xff, kind, high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let Some(content) = length.checked_sub(2).and_then(|end| after.get(..end)) else {
            return false;
        };
        match (kind, content) {
            // The pixels.
            (0xda, _) => return has_size,
            // The frame: precision, height, width. The other numbers in this range are tables.
            (0xc0..=0xcf, [_, h0, h1, w0, w1, ..]) if ![0xc4, 0xc8, 0xcc].contains(kind) => {
                let sides = [[*h0, *h1], [*w0, *w1]].map(u16::from_be_bytes);
                has_size = sides.iter().all(|side| (1..=MAX_SIDE).contains(side));
            }
            (0x01 | 0xd0..=0xd9, _) => return false,
            _ => {}
        }
        rest = after.get(content.len()..).unwrap_or_default();
    }
    false
}

/// A file that begins as an MP4 does.
pub(super) fn check_mp4(bytes: Vec<u8>) -> Result<Vec<u8>, BadResult> {
    let is_mp4 = bytes.get(4..8) == Some(b"ftyp");
    is_mp4
        .then_some(bytes)
        .ok_or(BadResult::WrongKind("an MP4"))
}

/// A file that begins as a FLAC does: its mark and the block about the stream.
pub(super) fn check_flac(mut file: &File) -> Result<(), BadResult> {
    const BEGINNING: [u8; 8] = *b"fLaC\0\0\0\x22";
    let mut start = [0; 8];
    file.rewind()?;
    let result = file.read_exact(&mut start);
    if let Err(error) = &result
        && error.kind() != io::ErrorKind::UnexpectedEof
    {
        return result.map_err(BadResult::from);
    }
    // The highest bit tells whether the block is the last one before the samples.
    start[4] &= 0x7f;
    let is_flac = result.is_ok() && start == BEGINNING;
    is_flac.then_some(()).ok_or(BadResult::WrongKind("a FLAC"))
}

/// A signed file, which still has to be of its kind.
#[cfg_attr(
    not(feature = "c2pa"),
    expect(dead_code, reason = "only signing needs it")
)]
pub(super) fn check_kind(bytes: Vec<u8>, kind: FileKind) -> Result<Vec<u8>, BadResult> {
    match marks::read(Cursor::new(&bytes)) {
        Ok(marks) if marks.kind == kind => {}
        _ => return Err(BadResult::WrongKind("of the kind that was to be signed")),
    }
    match kind {
        FileKind::Jpeg => check_jpeg(bytes),
        _ => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use animatic::Picture;

    use super::*;

    #[test]
    fn a_cover_is_a_png_of_its_size() {
        let png = artwork::WaveformSketch::new("clip", 10)
            .draw_cover(512)
            .unwrap();
        assert!(is_png(&png, 512));
        assert!(!is_png(&png, 1024));
        for bad in [
            &png[..png.len() - 1],
            &png[1..],
            b"",
            b"root:x:0:0:",
            b"\x89PNG\r\n\x1a\n",
        ] {
            assert!(!is_png(bad, 512));
        }
        let more = [&png[..], b"signing.key"].concat();
        assert!(!is_png(&more, 512));
        // Every length in the file may be wrong.
        for offset in 8..png.len().min(200) {
            let mut damaged = png.clone();
            damaged[offset] = 0xff;
            is_png(&damaged, 512);
        }
    }

    #[test]
    fn a_poster_is_a_jpeg() {
        let picture = Picture::from_rgb(40, 30, vec![90; 40 * 30 * 3]).unwrap();
        let jpeg = picture.to_jpeg(80).unwrap();
        assert!(is_jpeg(&jpeg));
        for bad in [
            &jpeg[..jpeg.len() - 1],
            &jpeg[1..],
            b"",
            b"\xff\xd8\xff\xd9",
            b"root:x:0:0:",
        ] {
            assert!(!is_jpeg(bad));
        }
        let frame = jpeg
            .windows(2)
            .position(|bytes| bytes == [0xff, 0xc0])
            .unwrap();
        let mut huge = jpeg.clone();
        huge[frame + 5] = 0xff;
        assert!(!is_jpeg(&huge));
        for offset in 2..jpeg.len() {
            let mut damaged = jpeg.clone();
            damaged[offset] = 0xff;
            is_jpeg(&damaged);
        }
    }

    #[test]
    fn a_recording_is_a_flac() {
        let mut file = tempfile::tempfile().unwrap();
        assert!(matches!(check_flac(&file), Err(BadResult::WrongKind(_))));
        io::Write::write_all(&mut file, b"fLaC\x80\0\0\x22\x10").unwrap();
        check_flac(&file).unwrap();
        file.rewind().unwrap();
        io::Write::write_all(&mut file, b"SQLite format 3\0").unwrap();
        assert!(matches!(check_flac(&file), Err(BadResult::WrongKind(_))));
    }
}
