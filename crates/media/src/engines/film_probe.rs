//! Film probe: the container of a film by its bytes, and its codec, size and length if the container
//! is one that can be read here.
//!
//! A film is delivered as its provider made it. Only a file that is no film, or a broken one, is
//! refused.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use mediagate_model::media::MediaType;

use super::{matroska_probe, mp4_probe, video_codec};

/// The size and length of a film according to its container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VideoProperties {
    pub width: u32,
    pub height: u32,
    pub milliseconds: u64,
}

/// A film of a known container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbedFilm {
    pub media: MediaType,
    /// `None` if the container does not state them, or is not read here.
    pub properties: Option<VideoProperties>,
    /// Name of the codec; `None` if it is unknown or not read here.
    pub codec: Option<&'static str>,
}

pub(super) const UNREADABLE: &str = "the file cannot be read";
pub(super) const BROKEN: &str = "the file's container is broken";
pub(super) const TRUNCATED: &str = "the file is truncated";
pub(super) const NO_VIDEO: &str = "the file has no video track";

/// The bytes that containers are recognised by: three packets of a transport stream.
const START_BYTES: u64 = 3 * 188;

/// Reads a film's container; the error says why the file is no film or a broken one.
pub fn probe(path: &Path) -> Result<ProbedFilm, &'static str> {
    let mut start = Vec::new();
    let file = File::open(path).map_err(|_| UNREADABLE)?;
    let read = file.take(START_BYTES).read_to_end(&mut start);
    read.map_err(|_| UNREADABLE)?;
    let media = container(&start).ok_or("the file is not a video")?;
    match media {
        MediaType::Mp4 | MediaType::Mov => {
            let (properties, codec) = mp4_probe::measure(path)?;
            Ok(ProbedFilm {
                media,
                properties: Some(properties),
                codec,
            })
        }
        MediaType::Mkv => matroska_probe::probe(path),
        media => Ok(ProbedFilm {
            media,
            properties: None,
            codec: video_codec::named_by_container(media),
        }),
    }
}

/// The container that begins with these bytes; `WebM` counts as the Matroska that it is.
fn container(start: &[u8]) -> Option<MediaType> {
    let at = |offset: usize, bytes: &[u8]| {
        start
            .get(offset..)
            .is_some_and(|rest| rest.starts_with(bytes))
    };
    let has_bit = |offset: usize, bit: u8| start.get(offset).is_some_and(|byte| byte & bit != 0);
    let is_any_box = |kinds: &[&[u8; 4]]| kinds.iter().any(|kind| at(4, *kind));
    let contains = |bytes: &[u8]| start.windows(bytes.len()).any(|part| part == bytes);
    if at(4, b"ftypqt  ") {
        return Some(MediaType::Mov);
    }
    if at(4, b"ftyp") {
        return Some(MediaType::Mp4);
    }
    // QuickTime files older than MP4 have no file type.
    if is_any_box(&[b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot"]) {
        return Some(MediaType::Mov);
    }
    let other = [
        (at(0, &[0x1a, 0x45, 0xdf, 0xa3]), MediaType::Mkv),
        (at(0, b"RIFF") && at(8, b"AVI "), MediaType::Avi),
        // A picture has neither animation flag nor more than one frame.
        (
            at(0, b"RIFF") && at(8, b"WEBPVP8X") && has_bit(20, 2),
            MediaType::Webp,
        ),
        (at(0, b"GIF8"), MediaType::Gif),
        (at(0, b"OggS") && contains(b"\x80theora"), MediaType::Ogv),
        (at(0, b"FLV\x01") && has_bit(4, 1), MediaType::Flv),
        (at(0, &[0, 0, 1, 0xba]), MediaType::Mpg),
        (at(0, b"G") && at(188, b"G") && at(376, b"G"), MediaType::Ts),
    ];
    let mut matching = other.into_iter().filter(|(is_matching, _)| *is_matching);
    matching.next().map(|(_, media)| media)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn probed(bytes: &[u8]) -> Result<ProbedFilm, &'static str> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        probe(file.path())
    }

    #[test]
    fn containers_are_recognised_by_their_bytes() {
        let padded = |start: &[u8]| [start, &[0; 600]].concat();
        let mut stream = vec![0; 600];
        for packet in [0, 188, 376] {
            stream[packet] = b'G';
        }
        for (bytes, media, codec) in [
            (padded(b"RIFF\0\0\0\0AVI LIST"), MediaType::Avi, None),
            (
                padded(b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\x02"),
                MediaType::Webp,
                Some("webp"),
            ),
            (padded(b"GIF89a"), MediaType::Gif, Some("gif")),
            (
                padded(b"OggS\0\x02\0\0\0\0\x80theora"),
                MediaType::Ogv,
                Some("theora"),
            ),
            (padded(b"FLV\x01\x05"), MediaType::Flv, None),
            (padded(&[0, 0, 1, 0xba, 0x44]), MediaType::Mpg, None),
            (stream, MediaType::Ts, None),
        ] {
            let film = ProbedFilm {
                media,
                properties: None,
                codec,
            };
            assert_eq!(probed(&bytes), Ok(film), "{media}");
        }
    }

    #[test]
    fn what_is_no_film_is_refused() {
        let not_a_film = Err("the file is not a video");
        for bytes in [
            &b"<html><body>Gone</body></html>"[..],
            b"{\"error\": \"no\"}",
            b"",
            b"RIFF\0\0\0\0WEBPVP8 ",
            b"RIFF\0\0\0\0WAVEfmt ",
            b"FLV\x01\x04",
            b"OggS\0\x02\0\0\x01vorbis",
            b"fLaC\0\0\0\x22",
        ] {
            assert_eq!(probed(bytes), not_a_film, "{bytes:?}");
        }
        assert!(
            probed(b"\0\0\0\x10ftypqt  \0\0\0\0").is_err(),
            "it is empty"
        );
        assert!(probed(&[0x1a, 0x45, 0xdf, 0xa3]).is_err(), "it is empty");
    }
}
