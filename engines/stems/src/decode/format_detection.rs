//! Format detection from a file's first bytes. Reads only headers, never samples.

use super::error::DecodeError;
use super::format::AudioFormat;
use super::mpeg_header::MpegHeader;
use super::{foreign, mpeg_frames, wav};

/// A detected kind, and the part of the file with the sound.
pub(super) struct DetectedFormat<'a> {
    pub(super) format: AudioFormat,
    /// Without the tags that programs write before and after it.
    pub(super) body: &'a [u8],
}

/// Detects the kind, or says why the bytes cannot be used.
pub(super) fn detect(bytes: &[u8]) -> Result<DetectedFormat<'_>, DecodeError> {
    if bytes.is_empty() {
        return Err(DecodeError::Empty);
    }
    let has_tag = bytes.starts_with(b"ID3");
    let body = without_tags(bytes);
    if let Some(format) = by_magic(body)? {
        return Ok(DetectedFormat { format, body });
    }
    if let Some((format, offset)) = by_frame_headers(body) {
        return Ok(DetectedFormat {
            format,
            body: &body[offset..],
        });
    }
    if has_tag {
        // In practice only MP3 files have such a tag, so this one was truncated.
        return Err(DecodeError::Damaged {
            format: AudioFormat::Mp3,
            reason: "no audio frame follows its tag".to_owned(),
        });
    }
    Err(DecodeError::UnknownFormat)
}

fn by_magic(body: &[u8]) -> Result<Option<AudioFormat>, DecodeError> {
    let has_magic =
        |offset: usize, magic: &[u8]| body.get(offset..).is_some_and(|b| b.starts_with(magic));
    let is_movie = [
        &b"ftyp"[..],
        b"moov",
        b"mdat",
        b"wide",
        b"free",
        b"skip",
        b"styp",
        b"moof",
    ]
    .iter()
    .any(|kind| has_magic(4, kind));
    Ok(Some(if wav::is_wav(body) {
        AudioFormat::Wav
    } else if has_magic(0, b"FORM") && (has_magic(8, b"AIFF") || has_magic(8, b"AIFC")) {
        AudioFormat::Aiff
    } else if has_magic(0, b"caff") {
        AudioFormat::Caf
    } else if has_magic(0, b"fLaC") {
        AudioFormat::Flac
    } else if has_magic(0, b"OggS") {
        ogg_codec(body)?
    } else if has_magic(0, b"\x1a\x45\xdf\xa3") {
        AudioFormat::Matroska
    } else if is_movie {
        AudioFormat::M4a
    } else {
        return match foreign::name(body) {
            Some(content) => Err(DecodeError::Unsupported {
                content: content.to_owned(),
            }),
            None => Ok(None),
        };
    }))
}

/// The first supported codec among those of an Ogg file's first pages, each of which begins a
/// stream.
fn ogg_codec(body: &[u8]) -> Result<AudioFormat, DecodeError> {
    const MAX_STREAMS: usize = 16;
    let (mut pages, mut name) = (body, None);
    for _ in 0..MAX_STREAMS {
        let begins_stream = pages.starts_with(b"OggS") && pages.get(5).is_some_and(|b| b & 2 != 0);
        let Some(segments) = pages.get(26).filter(|_| begins_stream) else {
            break;
        };
        let table = pages.get(27..27 + usize::from(*segments)).unwrap_or(&[]);
        let size: usize = table.iter().map(|size| usize::from(*size)).sum();
        let packet = pages.get(27 + table.len()..).unwrap_or(&[]);
        match packet {
            p if p.starts_with(b"OpusHead") => return Ok(AudioFormat::OggOpus),
            p if p.starts_with(b"\x7fFLAC") => return Ok(AudioFormat::OggFlac),
            p if p.starts_with(b"\x01vorbis") => return Ok(AudioFormat::OggVorbis),
            p => name = name.or(foreign::ogg_codec(p)),
        }
        pages = packet.get(size..).unwrap_or(&[]);
    }
    match name {
        Some(content) => Err(DecodeError::Unsupported {
            content: content.to_owned(),
        }),
        None => Ok(AudioFormat::OggVorbis),
    }
}

/// Cuts `ID3v2` tags off the start and an `ID3v1` tag off the end: they contain text and pictures,
/// and a picture may contain false audio headers.
fn without_tags(mut bytes: &[u8]) -> &[u8] {
    // Tags may follow one another, if several programs have added one.
    while let Some(length) = mpeg_frames::id3_length(bytes) {
        bytes = bytes.get(length..).unwrap_or(&[]);
    }
    match bytes.len().checked_sub(128) {
        Some(end) if bytes[end..].starts_with(b"TAG") => &bytes[..end],
        _ => bytes,
    }
}

/// Junk allowed before a bare stream, as in cut recordings and radio dumps.
const MAX_JUNK: usize = 1024 * 1024;

/// MP3 and ADTS have no magic number, only frame headers. One of layer III or ADTS at the very start
/// is trusted; any other must be followed by two more, or by the file's end, at the offsets that
/// they imply.
fn by_frame_headers(body: &[u8]) -> Option<(AudioFormat, usize)> {
    if let Some(first) = MpegHeader::read(body)
        && (first.format != AudioFormat::MpegLayer2 || is_followed(body, first))
    {
        return Some((first.format, 0));
    }
    (1..body.len().min(MAX_JUNK)).find_map(|offset| {
        let rest = &body[offset..];
        if rest.starts_with(b"fLaC") && rest.get(5..8) == Some(&[0, 0, 34]) {
            return Some((AudioFormat::Flac, offset));
        }
        let header = MpegHeader::read(rest)?;
        is_followed(rest, header).then_some((header.format, offset))
    })
}

fn is_followed(bytes: &[u8], first: MpegHeader) -> bool {
    let mut at = first.size;
    for seen in 0..2 {
        match bytes.get(at..).map(MpegHeader::read) {
            Some(Some(next)) if next.continues(&first) => at += next.size,
            // The file ends behind two frames.
            None => return seen > 0,
            Some(_) => return seen > 0 && bytes.len() - at < 6,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(bytes: &[u8]) -> Result<AudioFormat, DecodeError> {
        detect(bytes).map(|f| f.format)
    }

    #[test]
    fn detects_kinds_from_bytes() {
        assert_eq!(kind(b"RIFF\0\0\0\0WAVEfmt "), Ok(AudioFormat::Wav));
        assert_eq!(kind(b"RF64\0\0\0\0WAVEds64"), Ok(AudioFormat::Wav));
        assert_eq!(kind(b"FORM\0\0\0\0AIFF"), Ok(AudioFormat::Aiff));
        assert_eq!(kind(b"caff\0\x01"), Ok(AudioFormat::Caf));
        assert_eq!(kind(b"\0\0\0\x08wide"), Ok(AudioFormat::M4a));
        assert_eq!(kind(b"fLaC\0\0\0\x22"), Ok(AudioFormat::Flac));
        assert_eq!(kind(b"\0\0\0\x20ftypM4A "), Ok(AudioFormat::M4a));
        assert_eq!(kind(b"\xff\xfb\x90\x64\0\0\0"), Ok(AudioFormat::Mp3));
        assert_eq!(kind(b"\xff\xf1\x50\x80\x2e\x7f\xfc"), Ok(AudioFormat::Aac));
    }

    #[test]
    fn names_other_formats() {
        assert_eq!(kind(b""), Err(DecodeError::Empty));
        assert_eq!(
            kind(b"\xff\xff\xff\xff\xff\xff\xff\xff"),
            Err(DecodeError::UnknownFormat)
        );
        let mut speex = b"OggS\0\x02".to_vec();
        speex.resize(26, 0);
        speex.extend(b"\x01\x08Speex   ");
        let named: [(&[u8], &str); 6] = [
            (&speex, "Speex"),
            (b"#!AMR\n", "AMR"),
            (b"wvpk", "WavPack"),
            (b"\x0b\x77\x00\x00", "AC-3"),
            (b"%PDF-1.7", "PDF"),
            (b"<!doctype html>", "a web page"),
        ];
        for (bytes, name) in named {
            let error = kind(bytes).unwrap_err().to_string();
            assert!(error.starts_with(name) || error.contains(name), "{error}");
        }
    }

    #[test]
    fn a_tag_hides_nothing_and_invents_nothing() {
        let mut tagged = b"ID3\x04\0\0\0\0\0\x04pict".to_vec();
        assert!(matches!(kind(&tagged), Err(DecodeError::Damaged { .. })));
        tagged.extend(b"fLaC");
        assert_eq!(kind(&tagged), Ok(AudioFormat::Flac));
    }
}
