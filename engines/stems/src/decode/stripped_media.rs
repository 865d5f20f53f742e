//! Stripped media: containers without comments, pictures and chunks of other programs.
//!
//! Readers parse every comment and chunk, and a small file can contain millions of empty ones. Here
//! they are counted and skipped, so that readers see only what they need. In containers that cannot
//! be cut without rewriting them (Ogg, MPEG-4) entries are only counted.

use std::io::{self, SeekFrom};

use symphonia::core::io::MediaSource;

use super::error::DecodeError;
use super::format::AudioFormat;

/// Maximum number of chunks in a WAV file, or of metadata blocks in a FLAC file. Programs write a
/// few dozen.
pub(super) const MAX_PARTS: usize = 1_000;
/// Maximum number of boxes of an MPEG-4 file. A file that is cut into fragments of one second has
/// ten per fragment.
const MAX_BOXES: usize = 100_000;
/// Maximum number of comments of an Ogg file.
const MAX_COMMENTS: u32 = 10_000;

/// The file with only the headers it needs before its sound.
pub(super) fn strip<'a>(
    format: AudioFormat,
    mut media: Box<dyn MediaSource + 'a>,
    mp4: Option<&'a [u8]>,
) -> Result<Box<dyn MediaSource + 'a>, DecodeError> {
    let damaged = |reason: &str| DecodeError::Damaged {
        format,
        reason: reason.to_owned(),
    };
    match (format, mp4) {
        (AudioFormat::OggVorbis, _) => {
            let counted = ogg(media.as_mut());
            counted.map_err(|error| read_error(format, &error))?;
            media
                .rewind()
                .map_err(|_| damaged("it cannot be read twice"))?;
            Ok(media)
        }
        (AudioFormat::M4a, Some(file)) => {
            let mut remaining = MAX_BOXES;
            if has_few_boxes(file, *b"file", 0, &mut remaining) {
                Ok(super::mp4::with_fitting_boxes(file).unwrap_or(media))
            } else {
                Err(damaged(TOO_MANY))
            }
        }
        _ => Ok(media),
    }
}

/// The error for a header that cannot be read.
pub(super) fn read_error(format: AudioFormat, error: &io::Error) -> DecodeError {
    DecodeError::Damaged {
        format,
        reason: match error.kind() {
            io::ErrorKind::InvalidData => error.to_string(),
            _ => "it ends too early".to_owned(),
        },
    }
}

pub(super) const TOO_MANY: &str = "it holds too many parts that are not sound";

pub(super) fn invalid_data(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Checks the number of comments that the file states, at the start of the second page.
fn ogg(media: &mut dyn MediaSource) -> io::Result<()> {
    /// A page's body has at most this length.
    const PAGE: u32 = 65_025;
    let first = ogg_page(media)?;
    skip(media, first)?;
    ogg_page(media)?;
    let mut start = [0; 11];
    // A second page without Vorbis comments is left to the reader.
    if media.read_exact(&mut start).is_err() || &start[..7] != b"\x03vorbis" {
        return Ok(());
    }
    let vendor = u32::from_le_bytes([start[7], start[8], start[9], start[10]]);
    if vendor > PAGE {
        return Err(invalid_data(TOO_MANY));
    }
    skip(media, u64::from(vendor))?;
    let mut count = [0; 4];
    if media.read_exact(&mut count).is_ok() && u32::from_le_bytes(count) > MAX_COMMENTS {
        return Err(invalid_data(TOO_MANY));
    }
    Ok(())
}

/// Skips a page's header; returns the length of its body.
fn ogg_page(media: &mut dyn MediaSource) -> io::Result<u64> {
    let mut header = [0; 27];
    media.read_exact(&mut header)?;
    let mut sizes = vec![0; usize::from(header[26])];
    media.read_exact(&mut sizes)?;
    Ok(sizes.iter().map(|size| u64::from(*size)).sum())
}

fn skip(media: &mut dyn MediaSource, bytes: u64) -> io::Result<()> {
    let bytes = i64::try_from(bytes).map_err(|_| invalid_data(TOO_MANY))?;
    media.seek(SeekFrom::Current(bytes)).map(|_| ())
}

/// Whether a box of the kind `parent` contains at most `remaining` boxes, including nested ones.
fn has_few_boxes(body: &[u8], parent: [u8; 4], depth: usize, remaining: &mut usize) -> bool {
    /// Real containers are not nested deeper.
    const MAX_DEPTH: usize = 12;
    const CONTAINERS: [&[u8; 4]; 14] = [
        b"moov", b"trak", b"mdia", b"minf", b"stbl", b"udta", b"ilst", b"edts", b"dinf", b"mvex",
        b"moof", b"traf", b"meta", b"----",
    ];
    for (kind, contents) in super::mp4::boxes(body) {
        let Some(rest) = remaining.checked_sub(1) else {
            return false;
        };
        *remaining = rest;
        // A list of tags has a box for each tag, whatever the tag's name; its values are boxes too.
        let is_container = CONTAINERS.contains(&&kind) || &parent == b"ilst" || kind[0] == 0xa9;
        // Some programs write a version in `meta`, some do not.
        let contents = match contents {
            [0, 0, 0, 0, inner @ ..] if &kind == b"meta" => inner,
            contents => contents,
        };
        if is_container && depth < MAX_DEPTH && !has_few_boxes(contents, kind, depth + 1, remaining)
        {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::{flac24, wav32f};
    use crate::{Audio, DecodeLimits, decode};

    fn tone() -> Audio {
        let wave = (0..3_000_u16).map(|n| (f32::from(n) * 0.1).sin() * 0.5);
        Audio::new(8_000, vec![wave.collect(); 2]).unwrap()
    }

    fn with_chunks(count: usize) -> Vec<u8> {
        let plain = wav32f(&tone()).unwrap();
        let mut wav = plain[..12].to_vec();
        for _ in 0..count {
            wav.extend(b"JUNK\0\0\0\0");
        }
        wav.extend(b"LIST\x05\0\0\0INFOx\0");
        wav.extend(&plain[12..]);
        let size = u32::try_from(wav.len() - 8).unwrap();
        wav[4..8].copy_from_slice(&size.to_le_bytes());
        wav
    }

    fn with_comments(count: u32) -> Vec<u8> {
        let plain = flac24(&tone()).unwrap();
        let mut block = 0_u32.to_le_bytes().to_vec();
        block.extend(count.to_le_bytes());
        block.resize(block.len() + 4 * count as usize, 0);
        let mut flac = plain[..42].to_vec();
        flac[4] = 0;
        let size = u32::try_from(block.len()).unwrap().to_be_bytes();
        flac.extend([0x84, size[1], size[2], size[3]]);
        flac.extend(block);
        flac.extend(&plain[42..]);
        flac
    }

    fn mp4_box(kind: [u8; 4], contents: &[u8]) -> Vec<u8> {
        let size = u32::try_from(8 + contents.len()).unwrap();
        [&size.to_be_bytes(), &kind[..], contents].concat()
    }

    #[test]
    fn parts_without_sound_are_skipped() {
        let read = |bytes: &[u8]| decode(bytes, &DecodeLimits::default()).unwrap().audio;
        assert_eq!(read(&with_chunks(0)), tone());
        assert_eq!(read(&with_chunks(900)), tone());
        let plain = read(&flac24(&tone()).unwrap());
        // A reader would parse four million empty comments for seconds.
        assert_eq!(read(&with_comments(4_000_000)), plain);
    }

    #[test]
    fn too_many_parts_are_refused() {
        let error = decode(&with_chunks(1_001), &DecodeLimits::default()).unwrap_err();
        assert!(error.to_string().contains("too many parts"), "{error}");
        let mut flac = flac24(&tone()).unwrap();
        flac[4] = 0;
        let frames = flac.split_off(42);
        for _ in 0..1_001 {
            flac.extend([1, 0, 0, 0]);
        }
        flac.extend([0x81, 0, 0, 0]);
        flac.extend(frames);
        let error = decode(&flac, &DecodeLimits::default()).unwrap_err();
        assert!(error.to_string().contains("too many parts"), "{error}");
        let m4a = b"\0\0\0\x10ftypM4A \0\0\0\0";
        let empty_boxes = b"\0\0\0\x08free".repeat(MAX_BOXES);
        // The values of every tag count, even of tags that no reader knows.
        let cover = mp4_box(
            *b"covr",
            &b"\0\0\0\x10data\0\0\0\0\0\0\0\0".repeat(MAX_BOXES),
        );
        let tags = mp4_box(*b"moov", &mp4_box(*b"udta", &mp4_box(*b"ilst", &cover)));
        for boxes in [empty_boxes, tags] {
            let error = decode(&[m4a, &boxes[..]].concat(), &DecodeLimits::default()).unwrap_err();
            assert!(error.to_string().contains("too many parts"), "{error}");
        }
        let mut ogg = b"OggS\0\x02".to_vec();
        ogg.resize(26, 0);
        ogg.extend(b"\x01\x08\x01vorbis ");
        ogg.extend(b"OggS\0\0");
        ogg.resize(ogg.len() + 20, 0);
        ogg.extend(b"\x01\xff\x03vorbis\0\0\0\0\xff\xff\xff\0");
        let error = decode(&ogg, &DecodeLimits::default()).unwrap_err();
        assert!(error.to_string().contains("too many parts"), "{error}");
    }
}
