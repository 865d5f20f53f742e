//! Draws the poster of a video that a provider made: its first frame, where this process can decode
//! it, which is H.264 in an MP4 with tables. There is no poster otherwise.
//!
//! The file is untrusted: its container was measured before (`film`), and what is read of it here
//! has limits.

use std::path::Path;

use super::film::{Content, Reader};

/// Largest coded frame.
const FRAME: u64 = 8 << 20;
/// Largest parameter sets.
const CONFIG: u64 = 4096;
/// Pixels of a 4K frame.
const PIXELS: u64 = 4096 * 2304;
/// Memory that drawing needs.
pub const BYTES: u64 = 64 << 20;
/// From 1 to 100.
const QUALITY: u8 = 82;
/// Nesting depth from a track to its tables.
const TABLES: u8 = 3;

/// The poster as a JPEG file; `None` if the video cannot be decoded here.
pub fn draw(path: &Path) -> Option<Vec<u8>> {
    let start = Start::find(path).ok()??;
    let stream = start.stream()?;
    let picture = animatic::frame::first_picture(&stream, PIXELS)?;
    picture.to_jpeg(QUALITY).ok()
}

/// The start of a video track.
#[derive(Default)]
struct Start {
    is_video: bool,
    /// `avcC`: the parameter sets.
    config: Vec<u8>,
    at: u64,
    length: u64,
    frame: Vec<u8>,
}

impl Start {
    /// Of the first video track that is H.264.
    fn find(path: &Path) -> Result<Option<Self>, &'static str> {
        let mut reader = Reader::open(path)?;
        let mut found = None;
        let whole = reader.whole();
        reader.each(whole, &mut |reader, next| {
            if &next.kind != b"moov" {
                return Ok(());
            }
            reader.each(next, &mut |reader, next| {
                if &next.kind == b"trak" && found.is_none() {
                    let mut start = Self::default();
                    start.read(reader, next, TABLES)?;
                    found = start.is_usable().then_some(start);
                }
                Ok(())
            })
        })?;
        if let Some(start) = &mut found {
            start.frame = reader.part(start.at, start.length)?;
        }
        Ok(found)
    }

    fn is_usable(&self) -> bool {
        self.is_video && !self.config.is_empty() && (1..=FRAME).contains(&self.length)
    }

    fn read(
        &mut self,
        reader: &mut Reader,
        within: Content,
        depth: u8,
    ) -> Result<(), &'static str> {
        reader.each(within, &mut |reader, next| {
            match &next.kind {
                b"mdia" | b"minf" | b"stbl" if depth > 0 => self.read(reader, next, depth - 1)?,
                b"hdlr" => self.is_video = reader.number(next, 8)?.to_be_bytes() == *b"vide",
                b"stsd" => self.describe(reader, next)?,
                b"stsz" => {
                    let each = reader.number(next, 4)?;
                    let first = if each == 0 {
                        reader.number(next, 12)?
                    } else {
                        each
                    };
                    self.length = first.into();
                }
                b"stco" => self.at = reader.number(next, 8)?.into(),
                b"co64" => {
                    let high = u64::from(reader.number(next, 8)?);
                    self.at = high << 32 | u64::from(reader.number(next, 12)?);
                }
                _ => {}
            }
            Ok(())
        })
    }

    /// Reads the first description of a sample.
    fn describe(&mut self, reader: &mut Reader, table: Content) -> Result<(), &'static str> {
        /// What stands in a description before its boxes.
        const HEAD: u64 = 78;
        let Some(entry) = reader.next(table.start + 8, table.end)? else {
            return Ok(());
        };
        if !matches!(&entry.kind, b"avc1" | b"avc3") || entry.length() < HEAD {
            return Ok(());
        }
        let boxes = Content {
            start: entry.start + HEAD,
            ..entry
        };
        reader.each(boxes, &mut |reader, next| {
            if &next.kind == b"avcC" && next.length() <= CONFIG {
                self.config = reader.part(next.start, next.length())?;
            }
            Ok(())
        })
    }

    /// The parameter sets and the frame, with start codes.
    fn stream(&self) -> Option<Vec<u8>> {
        let mut stream = Vec::new();
        let width = usize::from(self.config.get(4)? & 3) + 1;
        let mut rest = self.config.get(5..)?;
        for mask in [0x1f, 0xff] {
            let (count, after) = rest.split_first()?;
            rest = after;
            for _ in 0..count & mask {
                rest = unit(rest, 2, &mut stream)?;
            }
        }
        let mut frame = self.frame.as_slice();
        while !frame.is_empty() {
            frame = unit(frame, width, &mut stream)?;
        }
        Some(stream)
    }
}

/// Moves a unit, after its length of `width` bytes, to the stream. Returns what follows.
fn unit<'a>(from: &'a [u8], width: usize, stream: &mut Vec<u8>) -> Option<&'a [u8]> {
    let (length, rest) = from.split_at_checked(width)?;
    let length = length
        .iter()
        .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let (unit, rest) = rest.split_at_checked(length)?;
    stream.extend([0, 0, 0, 1]);
    stream.extend(unit);
    Some(rest)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use animatic::{Asked, Control, Direction, Options, Request};

    use super::*;

    /// A film of ours.
    fn film() -> Vec<u8> {
        let prompt = "a lake";
        let asked = Asked {
            size: Some((480, 480)),
            seconds: Some(1.0),
            ..Asked::default()
        };
        let options = Options::resolve(&asked, &Direction::parse(prompt)).unwrap();
        let request = Request {
            picture: None,
            prompt,
            options,
        };
        animatic::make(&request, &mut Control::unattended())
            .unwrap()
            .mp4
    }

    fn drawn(file: &[u8]) -> Option<Vec<u8>> {
        let mut on_disk = tempfile::NamedTempFile::new().unwrap();
        on_disk.write_all(file).unwrap();
        draw(on_disk.path())
    }

    #[test]
    fn a_film_has_a_poster_and_a_broken_one_none() {
        let film = film();
        let poster = drawn(&film).unwrap();
        assert_eq!(poster[..2], [0xff, 0xd8]);
        assert_eq!(drawn(b"no film"), None);
        // Whatever is broken, nothing worse comes of it than no poster.
        for at in (0..film.len()).step_by(film.len() / 200) {
            let mut broken = film.clone();
            broken[at] ^= 0xff;
            let _ = drawn(&broken);
            let _ = drawn(&film[..at]);
        }
    }
}
