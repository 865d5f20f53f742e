//! Format detection from a file's first bytes. Reads only headers, never samples.

use super::error::DecodeError;
use super::format::AudioFormat;

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
    let format = if has_magic(0, b"RIFF") && has_magic(8, b"WAVE") {
        AudioFormat::Wav
    } else if has_magic(0, b"fLaC") {
        AudioFormat::Flac
    } else if has_magic(4, b"ftyp") {
        AudioFormat::M4a
    } else if has_magic(0, b"OggS") {
        ogg_codec(body)?
    } else {
        const UNSUPPORTED: [(usize, &[u8], &str); 9] = [
            (0, b"RF64", "64-bit WAV"),
            (0, b"RIFX", "big-endian WAV"),
            (8, b"AIF", "AIFF audio"),
            (0, b"caff", "Core Audio Format"),
            (0, b"\x1a\x45\xdf\xa3", "a Matroska or WebM file"),
            (0, b"\x30\x26\xb2\x75", "Windows Media Audio"),
            (0, b"MThd", "a MIDI file"),
            (0, b"wvpk", "WavPack audio"),
            (0, b"MAC ", "Monkey's Audio"),
        ];
        return match UNSUPPORTED
            .iter()
            .find(|(offset, magic, _)| has_magic(*offset, magic))
        {
            Some((_, _, content)) => Err(DecodeError::Unsupported {
                content: (*content).to_owned(),
            }),
            None => Ok(None),
        };
    };
    Ok(Some(format))
}

/// The codec named in an Ogg page's first packet; only Vorbis is supported.
fn ogg_codec(body: &[u8]) -> Result<AudioFormat, DecodeError> {
    let segments = usize::from(body.get(26).copied().unwrap_or(0));
    let packet = body.get(27 + segments..).unwrap_or(&[]);
    let unsupported = |content: &str| {
        Err(DecodeError::Unsupported {
            content: content.to_owned(),
        })
    };
    match packet {
        p if p.starts_with(b"OpusHead") => unsupported("Opus audio"),
        p if p.starts_with(b"\x7fFLAC") => unsupported("FLAC inside Ogg"),
        p if p.starts_with(b"Speex   ") => unsupported("Speex audio"),
        p if p.starts_with(b"\x80theora") => unsupported("Theora video"),
        _ => Ok(AudioFormat::OggVorbis),
    }
}

/// Cuts `ID3v2` tags off the start and an `ID3v1` tag off the end: they contain text and pictures,
/// and a picture may contain false audio headers.
fn without_tags(mut bytes: &[u8]) -> &[u8] {
    // Tags may follow one another, if several programs have added one.
    while let Some(header) = bytes.first_chunk::<10>().filter(|h| h.starts_with(b"ID3")) {
        let size = header[6..]
            .iter()
            .fold(0, |n, b| n << 7 | usize::from(b & 0x7f));
        let footer = if header[5] & 0x10 == 0 { 0 } else { 10 };
        bytes = bytes.get(10 + size + footer..).unwrap_or(&[]);
    }
    match bytes.len().checked_sub(128) {
        Some(end) if bytes[end..].starts_with(b"TAG") => &bytes[..end],
        _ => bytes,
    }
}

/// Junk allowed before a bare stream, as in cut recordings and radio dumps.
const MAX_JUNK: usize = 64 * 1024;

/// MP3 and ADTS have no magic number, only frame headers. One at the very start is trusted; a later
/// one must be followed by a second at the offset it implies.
fn by_frame_headers(body: &[u8]) -> Option<(AudioFormat, usize)> {
    if let Some((format, _)) = frame_header(body) {
        return Some((format, 0));
    }
    (1..body.len().min(MAX_JUNK)).find_map(|offset| {
        let (format, size) = frame_header(&body[offset..])?;
        let (next, _) = frame_header(body.get(offset + size..)?)?;
        (next == format).then_some((format, offset))
    })
}

/// Reads an MPEG or ADTS frame header: the kind and the frame's size in bytes.
fn frame_header(bytes: &[u8]) -> Option<(AudioFormat, usize)> {
    let &[sync, b1, b2, b3, b4, b5, ..] = bytes else {
        return None;
    };
    if sync != 0xff || b1 & 0xe0 != 0xe0 {
        return None;
    }
    if b1 & 0xf6 == 0xf0 {
        let is_rate_valid = (b2 >> 2) & 0x0f < 13;
        let size = usize::from(b3 & 3) << 11 | usize::from(b4) << 3 | usize::from(b5) >> 5;
        return (is_rate_valid && size > 7).then_some((AudioFormat::Aac, size));
    }
    let (version, layer) = ((b1 >> 3) & 3, (b1 >> 1) & 3);
    let (bitrate, rate) = (usize::from(b2 >> 4), usize::from((b2 >> 2) & 3));
    // Refuses reserved values, other layers, and the free format (0), which hardly exists. Without
    // that, one in 2,048 positions of random bytes would count as a header.
    if version == 1 || layer != 1 || bitrate == 0 || bitrate == 15 || rate == 3 {
        return None;
    }
    let mpeg1 = version == 3;
    let kbits = if mpeg1 {
        MPEG1_KBITS[bitrate]
    } else {
        MPEG2_KBITS[bitrate]
    };
    let rate = [44_100, 48_000, 32_000][rate]
        >> match version {
            3 => 0,
            2 => 1,
            _ => 2,
        };
    // A frame has 1,152 samples, or 576 in MPEG-2. The number below is that, divided by 8 bits per
    // byte and multiplied by 1,000 bits per kilobit.
    let samples = if mpeg1 { 144_000 } else { 72_000 };
    Some((
        AudioFormat::Mp3,
        samples * kbits / rate + usize::from((b2 >> 1) & 1),
    ))
}

/// Bit rates of layer III in kbit/s, by the header's index.
const MPEG1_KBITS: [usize; 15] = [
    0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320,
];
const MPEG2_KBITS: [usize; 15] = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(bytes: &[u8]) -> Result<AudioFormat, DecodeError> {
        detect(bytes).map(|f| f.format)
    }

    #[test]
    fn detects_kinds_from_bytes() {
        assert_eq!(kind(b"RIFF\0\0\0\0WAVEfmt "), Ok(AudioFormat::Wav));
        assert_eq!(kind(b"fLaC\0\0\0\x22"), Ok(AudioFormat::Flac));
        assert_eq!(kind(b"\0\0\0\x20ftypM4A "), Ok(AudioFormat::M4a));
        assert_eq!(kind(b"\xff\xfb\x90\x64\0\0\0"), Ok(AudioFormat::Mp3));
        assert_eq!(kind(b"\xff\xf1\x50\x80\x2e\x7f\xfc"), Ok(AudioFormat::Aac));
    }

    #[test]
    fn names_other_formats() {
        assert_eq!(kind(b""), Err(DecodeError::Empty));
        assert_eq!(kind(b"<!doctype html>"), Err(DecodeError::UnknownFormat));
        assert_eq!(
            kind(b"\xff\xff\xff\xff\xff\xff\xff\xff"),
            Err(DecodeError::UnknownFormat)
        );
        let mut opus = b"OggS".to_vec();
        opus.resize(26, 0);
        opus.extend(b"\x01\x13OpusHead");
        assert!(
            matches!(kind(&opus), Err(DecodeError::Unsupported { content }) if content.contains("Opus"))
        );
        assert!(matches!(
            kind(b"FORM\0\0\0\0AIFF"),
            Err(DecodeError::Unsupported { .. })
        ));
    }

    #[test]
    fn a_tag_hides_nothing_and_invents_nothing() {
        let mut tagged = b"ID3\x04\0\0\0\0\0\x04pict".to_vec();
        assert!(matches!(kind(&tagged), Err(DecodeError::Damaged { .. })));
        tagged.extend(b"fLaC");
        assert_eq!(kind(&tagged), Ok(AudioFormat::Flac));
    }
}
