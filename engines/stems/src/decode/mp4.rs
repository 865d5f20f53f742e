//! Start and end of the sound in an MPEG-4 file.
//!
//! AAC encoders put silence before and after the sound. The file says how much, in an edit list or
//! in the comment that iTunes writes, but the demultiplexer does not apply either. This reads just
//! those few fields, and whether the sound is encrypted; it is not a second demultiplexer, and
//! anything unexpected means "no trimming known".

use std::io::Cursor;

use symphonia::core::io::MediaSource;

use super::foreign;
use super::spliced_media::SplicedMedia;

/// The part of the decoded samples that belongs to the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SampleSpan {
    /// Samples to drop at the start.
    pub(super) start: u64,
    /// Samples to keep after that, if the file states it.
    pub(super) length: Option<u64>,
}

/// Reads the span in samples at `rate` for the first sound track.
pub(super) fn span(file: &[u8], rate: u32) -> Option<SampleSpan> {
    let moov = find(file, *b"moov")?;
    let movie_scale = scale_and_duration(find(moov, *b"mvhd")?)?.0;
    let track = sound_track(file)?;
    let (scale, duration) = scale_and_duration(path(track, &[*b"mdia", *b"mdhd"])?)?;
    // The comment of iTunes counts samples, so it is preferred to an edit list, which may count in
    // coarser units.
    if let Some(span) = itunes_span(moov) {
        return Some(span);
    }
    // Sound tracks nearly always count in samples; other scales would only give guesses.
    if scale != rate {
        return None;
    }
    let (length, start) = first_edit(path(track, &[*b"edts", *b"elst"])?)?;
    // The edit's length counts in the movie's coarse units (often milliseconds) while the media's
    // own duration is exact: they mean the same end if they differ by no more than one unit.
    let unit = u64::from(scale.div_ceil(movie_scale));
    let edit_length = u128::from(length) * u128::from(scale) / u128::from(movie_scale);
    let edit_length = u64::try_from(edit_length).ok()?;
    let media_length = duration.saturating_sub(start);
    let length = match edit_length {
        _ if media_length > 0 && media_length.abs_diff(edit_length) <= unit => Some(media_length),
        // A file in fragments does not state its length, because it was unknown at the start.
        0 => None,
        _ => Some(edit_length),
    };
    Some(SampleSpan { start, length })
}

/// The file with a last box that ends where the file ends; `None` if it does already. Recorders
/// that died, and files that were cut, state more.
pub(super) fn with_fitting_boxes(file: &[u8]) -> Option<Box<dyn MediaSource + '_>> {
    let mut start = 0;
    loop {
        let size = match u32_at(file, start)? {
            0 => return None,
            1 => usize::try_from(u64_at(file, start + 8)?).ok()?,
            size => size as usize,
        };
        if size < 8 {
            return None;
        }
        let end = start.checked_add(size)?;
        if end > file.len() {
            let mut head = file[..start].to_vec();
            // A size of nought reaches to the end of the file.
            head.extend([0; 4]);
            let rest = Box::new(Cursor::new(file));
            let at = u64::try_from(start + 4).ok()?;
            let is_wide = u32_at(file, start)? == 1;
            if is_wide {
                // The wide size would be taken for contents.
                let kept = u64::try_from(file.len() - start).ok()?;
                head.truncate(start);
                head.extend(1_u32.to_be_bytes());
                head.extend(file.get(start + 4..start + 8)?);
                head.extend(kept.to_be_bytes());
                return Some(Box::new(SplicedMedia::new(head, rest, at + 12)));
            }
            return Some(Box::new(SplicedMedia::new(head, rest, at)));
        }
        start = end;
    }
}

/// The name of the first sound track's codec, if no decoder here knows it.
pub(super) fn unsupported_codec(file: &[u8]) -> Option<String> {
    let track = sound_track(file)?;
    let entries = path(track, &[*b"mdia", *b"minf", *b"stbl", *b"stsd"])?;
    let kind: [u8; 4] = entries.get(12..16)?.try_into().ok()?;
    if let Some(name) = foreign::mp4_codec(kind) {
        return Some(name.to_owned());
    }
    if &kind != b"mp4a" {
        return None;
    }
    let (object, config) = decoder_config(entries)?;
    Some(match object {
        0x40 => return unsupported_aac(config),
        0xa5 => "AC-3 audio".to_owned(),
        0xa6 => "E-AC-3 audio".to_owned(),
        0xa9..=0xac => "DTS audio".to_owned(),
        0xe1 => "QCELP audio".to_owned(),
        _ => return None,
    })
}

fn sound_track(file: &[u8]) -> Option<&[u8]> {
    let tracks = boxes(find(file, *b"moov")?).filter(|(kind, _)| kind == b"trak");
    let is_sound = |trak: &&[u8]| {
        path(trak, &[*b"mdia", *b"hdlr"]).and_then(|h| h.get(8..12)) == Some(b"soun")
    };
    tracks.map(|(_, trak)| trak).find(is_sound)
}

/// Object type and configuration of the decoder, from the descriptors of an `mp4a` entry.
fn decoder_config(entries: &[u8]) -> Option<(u8, &[u8])> {
    let at = entries.windows(4).position(|window| window == b"esds")?;
    let mut bytes = entries.get(at + 8..)?;
    // The stream's descriptor: an identifier, flags, and what they announce.
    let (3, stream) = descriptor(&mut bytes)? else {
        return None;
    };
    let flags = *stream.get(2)?;
    let mut skip = 3;
    skip += if flags & 0x80 == 0 { 0 } else { 2 };
    if flags & 0x40 != 0 {
        skip += 1 + usize::from(*stream.get(skip)?);
    }
    skip += if flags & 0x20 == 0 { 0 } else { 2 };
    let mut bytes = stream.get(skip..)?;
    let (4, decoder) = descriptor(&mut bytes)? else {
        return None;
    };
    let object = *decoder.first()?;
    let mut bytes = decoder.get(13..)?;
    let config = match descriptor(&mut bytes) {
        Some((5, config)) => config,
        _ => &[],
    };
    Some((object, config))
}

/// Takes a descriptor off the start: its kind and contents.
fn descriptor<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (kind, mut rest) = bytes.split_first()?;
    let mut size = 0;
    for _ in 0..4 {
        let (byte, more) = rest.split_first()?;
        size = size << 7 | usize::from(byte & 0x7f);
        rest = more;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let (contents, rest) = rest.split_at_checked(size.min(rest.len()))?;
    *bytes = rest;
    Some((*kind, contents))
}

/// The variety of AAC that a configuration asks for, if it is more than AAC-LC in stereo. Taken for
/// AAC-LC, HE-AAC would lose everything above half of its frequencies.
pub(super) fn unsupported_aac(config: &[u8]) -> Option<String> {
    let bits = config
        .iter()
        .take(16)
        .fold(0_u128, |n, b| n << 8 | u128::from(*b));
    let length = config.len().min(16) * 8;
    let take = |at: usize, count: usize| {
        let shift = length.checked_sub(at + count)?;
        u32::try_from(bits >> shift & ((1 << count) - 1)).ok()
    };
    let object = take(0, 5)?;
    let rate = take(5, 4)?;
    let at = if rate == 15 { 33 } else { 9 };
    let channels = take(at, 4)?;
    let named = |name: &str| Some(name.to_owned());
    match object {
        2 => {}
        1 => return named("AAC Main"),
        3 => return named("AAC-SSR"),
        4 => return named("AAC-LTP"),
        5 => return named("HE-AAC"),
        29 => return named("HE-AAC v2"),
        23 => return named("AAC-LD"),
        39 => return named("AAC-ELD"),
        42 => return named("xHE-AAC (USAC)"),
        _ => return None,
    }
    if channels > 2 {
        let count = if channels == 7 { 8 } else { channels };
        return Some(format!("AAC with {count} channels"));
    }
    // After the configuration of AAC-LC may follow that of what HE-AAC adds: a mark of eleven bits,
    // its object type and whether it is there.
    let extension = at + 4 + 3;
    let has_sbr = take(extension, 11) == Some(0x2b7)
        && take(extension + 11, 5) == Some(5)
        && take(extension + 16, 1) == Some(1);
    has_sbr.then(|| "HE-AAC".to_owned())
}

/// Whether the first sound track is encrypted: bought in a store and tied to an account.
pub(super) fn is_encrypted(file: &[u8]) -> bool {
    let track_is_encrypted = |trak| {
        let entry = path(trak, &[*b"mdia", *b"minf", *b"stbl", *b"stsd"])?.get(12..16)?;
        let handler = path(trak, &[*b"mdia", *b"hdlr"])?.get(8..12)?;
        // Apple's FairPlay, and MPEG's Common Encryption.
        (handler == b"soun").then_some(matches!(entry, b"drms" | b"enca"))
    };
    let tracks = find(file, *b"moov").into_iter().flat_map(boxes);
    tracks
        .filter(|(kind, _)| kind == b"trak")
        .find_map(|(_, trak)| track_is_encrypted(trak))
        .unwrap_or(false)
}

/// The first edit that plays media: its length in movie units and its start in media units.
fn first_edit(elst: &[u8]) -> Option<(u64, u64)> {
    let is_64_bit = *elst.first()? == 1;
    let count = u32_at(elst, 4)?.min(8);
    (0..count as usize).find_map(|i| {
        let (length, start) = if is_64_bit {
            (
                u64_at(elst, 8 + i * 20)?,
                u64_at(elst, 16 + i * 20)?.cast_signed(),
            )
        } else {
            let start = u32_at(elst, 12 + i * 12)?.cast_signed();
            (u64::from(u32_at(elst, 8 + i * 12)?), i64::from(start))
        };
        // A negative start is an empty edit: a pause before the media.
        u64::try_from(start).ok().map(|start| (length, start))
    })
}

/// iTunes' comment: hexadecimal words, of which the second is the delay and the fourth the length.
fn itunes_span(moov: &[u8]) -> Option<SampleSpan> {
    let name = b"iTunSMPB";
    let offset = moov.windows(name.len()).position(|w| w == name)?;
    let value = &moov[offset + name.len()..];
    let data = value.windows(4).take(64).position(|w| w == b"data")?;
    // After the name: four bytes of type and four of language.
    let text = value.get(data + 12..)?;
    let text = std::str::from_utf8(&text[..text.len().min(72)]).ok()?;
    let mut words = text
        .split_ascii_whitespace()
        .map(|w| u64::from_str_radix(w, 16).ok());
    let start = words.nth(1)??;
    let length = words.nth(1)??;
    (length > 0).then_some(SampleSpan {
        start,
        length: Some(length),
    })
}

fn scale_and_duration(header: &[u8]) -> Option<(u32, u64)> {
    let (scale, duration) = if *header.first()? == 1 {
        (u32_at(header, 20)?, u64_at(header, 24)?)
    } else {
        (u32_at(header, 12)?, u64::from(u32_at(header, 16)?))
    };
    (scale > 0).then_some((scale, duration))
}

fn path<'a>(body: &'a [u8], names: &[[u8; 4]]) -> Option<&'a [u8]> {
    names.iter().try_fold(body, |body, name| find(body, *name))
}

fn find(body: &[u8], name: [u8; 4]) -> Option<&[u8]> {
    boxes(body)
        .find(|(kind, _)| *kind == name)
        .map(|(_, body)| body)
}

/// The boxes side by side in `body`: kind and contents. Stops at the first that does not fit.
pub(super) fn boxes(mut body: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    std::iter::from_fn(move || {
        let kind: [u8; 4] = body.get(4..8)?.try_into().ok()?;
        let (header, size) = match u32_at(body, 0)? {
            0 => (8, body.len()),
            1 => (16, usize::try_from(u64_at(body, 8)?).ok()?),
            size => (8, size as usize),
        };
        let contents = body.get(header..size)?;
        body = &body[size..];
        Some((kind, contents))
    })
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes
        .get(offset..)?
        .first_chunk()
        .copied()
        .map(u32::from_be_bytes)
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes
        .get(offset..)?
        .first_chunk()
        .copied()
        .map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_comment_of_itunes() {
        let mut moov = b"....iTunSMPB\0\0\0\x20data\0\0\0\x01\0\0\0\0".to_vec();
        moov.extend(b" 00000000 00000840 000001CA 0000000000001000 00000000");
        assert_eq!(
            itunes_span(&moov),
            Some(SampleSpan {
                start: 2_112,
                length: Some(4_096)
            })
        );
    }

    #[test]
    fn malformed_boxes_have_no_span() {
        assert_eq!(span(b"", 44_100), None);
        assert_eq!(span(b"\0\0\0\0moov", 44_100), None);
        assert_eq!(span(b"\xff\xff\xff\xffmoov\0\0\0\x08mvhd", 44_100), None);
        assert_eq!(
            span(b"\0\0\0\x01moov\xff\xff\xff\xff\xff\xff\xff\xff", 44_100),
            None
        );
    }
}
