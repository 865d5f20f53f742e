//! Matroska probe: reads the codec, size and length of a `WebM` or another Matroska film from its
//! container, and checks that the file is complete (RFC 9559; RFC 8794 for the format of elements).
//!
//! The file is untrusted: sizes in it are checked against its length, only small values are read,
//! and elements are counted.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use mediagate_model::media::MediaType;

use super::film_probe::{BROKEN, NO_VIDEO, ProbedFilm, TRUNCATED, UNREADABLE, VideoProperties};
use super::video_codec;

/// Maximum number of elements that are looked at. Clusters are skipped as a whole, so an hour in
/// one-second clusters has a tenth of this.
const MAX_ELEMENTS: u32 = 40_000;
/// Longest document type or codec id that is read, in bytes.
const MAX_TEXT_BYTES: u64 = 32;

const EBML: u64 = 0x1a45_dfa3;
const DOC_TYPE: u64 = 0x4282;
const SEGMENT: u64 = 0x1853_8067;
const INFO: u64 = 0x1549_a966;
const TIMESTAMP_SCALE: u64 = 0x2a_d7b1;
const DURATION: u64 = 0x4489;
const TRACKS: u64 = 0x1654_ae6b;
const TRACK_ENTRY: u64 = 0xae;
const CODEC_ID: u64 = 0x86;
const VIDEO: u64 = 0xe0;
const PIXEL_WIDTH: u64 = 0xb0;
const PIXEL_HEIGHT: u64 = 0xba;
const CLUSTER: u64 = 0x1f43_b675;

/// Reads the container of a file that begins as Matroska.
pub(super) fn probe(path: &Path) -> Result<ProbedFilm, &'static str> {
    let file = File::open(path).map_err(|_| UNREADABLE)?;
    let size = file.metadata().map_err(|_| UNREADABLE)?.len();
    let mut reader = ElementReader {
        file,
        size,
        elements: 0,
    };
    let (mut media, mut facts, mut offset) = (None, SegmentFacts::default(), 0);
    while let Some(element) = reader.next(offset, size)? {
        match element.id {
            EBML => {
                let doc_type = reader.child(element, DOC_TYPE)?.ok_or(BROKEN)?;
                media = match &*reader.text(doc_type)? {
                    b"webm" => Some(MediaType::Webm),
                    b"matroska" => Some(MediaType::Mkv),
                    _ => return Err("the file is not a video"),
                };
            }
            SEGMENT => reader.read_segment(element, &mut facts)?,
            _ => {}
        }
        offset = element.end;
    }
    let media = media.ok_or(BROKEN)?;
    let (width, height) = facts.frame_size.ok_or(NO_VIDEO)?;
    if !facts.has_cluster {
        return Err(TRUNCATED);
    }
    // A live recording does not state its length.
    let properties = facts.milliseconds().map(|milliseconds| VideoProperties {
        width,
        height,
        milliseconds,
    });
    Ok(ProbedFilm {
        media,
        properties,
        codec: facts.codec,
    })
}

#[derive(Debug, Clone, Copy)]
struct MatroskaElement {
    id: u64,
    start: u64,
    end: u64,
}

#[derive(Debug, Default)]
struct SegmentFacts {
    /// Nanoseconds in a unit of `duration`.
    scale: Option<u64>,
    duration: Option<f64>,
    /// Of the first video track.
    frame_size: Option<(u32, u32)>,
    /// Of the first video track.
    codec: Option<&'static str>,
    has_cluster: bool,
}

impl SegmentFacts {
    fn milliseconds(&self) -> Option<u64> {
        const DEFAULT_SCALE: u64 = 1_000_000;
        const LONGEST_MS: f64 = 1e12;
        #[expect(clippy::cast_precision_loss, reason = "a scale is a small number")]
        let scale = self.scale.unwrap_or(DEFAULT_SCALE) as f64;
        let milliseconds = self.duration? * scale / 1e6;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "within 1..=1e12"
        )]
        (1.0..=LONGEST_MS)
            .contains(&milliseconds)
            .then_some(milliseconds as u64)
    }
}

struct ElementReader {
    file: File,
    size: u64,
    elements: u32,
}

impl ElementReader {
    /// The element at `offset`, in one that ends at `end`.
    fn next(&mut self, offset: u64, end: u64) -> Result<Option<MatroskaElement>, &'static str> {
        if offset >= end {
            return Ok(None);
        }
        self.elements += 1;
        if self.elements > MAX_ELEMENTS {
            return Err(BROKEN);
        }
        let (id, id_length) = self.number(offset, end, false)?;
        let (size, size_length) = self.number(offset + id_length, end, true)?;
        let start = offset + id_length + size_length;
        // A size of only ones is unknown: the element ends where its parent does, or the file.
        let is_unknown = size == (1 << (7 * size_length)) - 1;
        let element_end = if is_unknown {
            end
        } else {
            start.checked_add(size).ok_or(BROKEN)?
        };
        if element_end > end {
            return Err(if end == self.size { TRUNCATED } else { BROKEN });
        }
        Ok(Some(MatroskaElement {
            id,
            start,
            end: element_end,
        }))
    }

    /// A number of variable length at `offset`, and that length; `masked` without the bit that
    /// marks the length.
    fn number(&self, offset: u64, end: u64, masked: bool) -> Result<(u64, u64), &'static str> {
        let mut bytes = [0; 8];
        self.read(offset, end, &mut bytes[..1])?;
        let length = bytes[0].leading_zeros() as usize + 1;
        if length > 8 {
            return Err(BROKEN);
        }
        self.read(offset, end, &mut bytes[8 - length..])?;
        if length < 8 {
            bytes[0] = 0;
        }
        if masked {
            let first = &mut bytes[8 - length];
            *first &= u8::MAX
                .checked_shr(u32::try_from(length).unwrap_or(8))
                .unwrap_or(0);
        }
        Ok((u64::from_be_bytes(bytes), length as u64))
    }

    fn read(&self, offset: u64, end: u64, bytes: &mut [u8]) -> Result<(), &'static str> {
        let is_inside = end
            .checked_sub(offset)
            .is_some_and(|rest| rest >= bytes.len() as u64);
        if !is_inside || self.file.read_exact_at(bytes, offset).is_err() {
            return Err(TRUNCATED);
        }
        Ok(())
    }

    fn child(
        &mut self,
        parent: MatroskaElement,
        id: u64,
    ) -> Result<Option<MatroskaElement>, &'static str> {
        let mut offset = parent.start;
        while let Some(element) = self.next(offset, parent.end)? {
            if element.id == id {
                return Ok(Some(element));
            }
            offset = element.end;
        }
        Ok(None)
    }

    fn text(&self, element: MatroskaElement) -> Result<Vec<u8>, &'static str> {
        let length = (element.end - element.start).min(MAX_TEXT_BYTES);
        let mut text = vec![0; usize::try_from(length).unwrap_or(0)];
        self.read(element.start, element.end, &mut text)?;
        // It may be padded with zeros.
        text.truncate(
            text.iter()
                .position(|byte| *byte == 0)
                .unwrap_or(text.len()),
        );
        Ok(text)
    }

    /// The value of an unsigned integer.
    fn integer(&self, element: MatroskaElement) -> Result<u64, &'static str> {
        let mut bytes = [0; 8];
        let length = usize::try_from(element.end - element.start).unwrap_or(usize::MAX);
        let start = 8_usize.checked_sub(length).ok_or(BROKEN)?;
        self.read(element.start, element.end, &mut bytes[start..])?;
        Ok(u64::from_be_bytes(bytes))
    }

    fn float(&self, element: MatroskaElement) -> Result<f64, &'static str> {
        let bits = self.integer(element)?;
        match element.end - element.start {
            4 => Ok(f64::from(f32::from_bits(u32::try_from(bits).unwrap_or(0)))),
            8 => Ok(f64::from_bits(bits)),
            _ => Err(BROKEN),
        }
    }

    fn read_segment(
        &mut self,
        segment: MatroskaElement,
        facts: &mut SegmentFacts,
    ) -> Result<(), &'static str> {
        let mut offset = segment.start;
        while let Some(element) = self.next(offset, segment.end)? {
            match element.id {
                INFO => {
                    if let Some(scale) = self.child(element, TIMESTAMP_SCALE)? {
                        facts.scale = Some(self.integer(scale)?);
                    }
                    if let Some(duration) = self.child(element, DURATION)? {
                        facts.duration = Some(self.float(duration)?);
                    }
                }
                TRACKS => self.read_tracks(element, facts)?,
                CLUSTER => facts.has_cluster = true,
                _ => {}
            }
            offset = element.end;
        }
        Ok(())
    }

    fn read_tracks(
        &mut self,
        tracks: MatroskaElement,
        facts: &mut SegmentFacts,
    ) -> Result<(), &'static str> {
        let mut offset = tracks.start;
        while let Some(track) = self.next(offset, tracks.end)? {
            offset = track.end;
            if track.id != TRACK_ENTRY || facts.frame_size.is_some() {
                continue;
            }
            let Some(video) = self.child(track, VIDEO)? else {
                continue;
            };
            let mut side = |id| -> Result<u32, &'static str> {
                let pixels = self.child(video, id)?.ok_or(BROKEN)?;
                let pixels = self.integer(pixels)?;
                let pixels = u16::try_from(pixels).map_err(|_| BROKEN)?;
                Ok(u32::from(pixels))
            };
            facts.frame_size = Some((side(PIXEL_WIDTH)?, side(PIXEL_HEIGHT)?));
            if let Some(codec_id) = self.child(track, CODEC_ID)? {
                facts.codec = video_codec::named_by_codec_id(&self.text(codec_id)?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn element(id: &[u8], content: &[u8]) -> Vec<u8> {
        let size = (0x0100_0000_0000_0000 | content.len() as u64).to_be_bytes();
        [id, &size, content].concat()
    }

    /// An element of unknown size, as in a live recording.
    fn open_element(id: &[u8], content: &[u8]) -> Vec<u8> {
        [id, &[0xff], content].concat()
    }

    fn header(doc_type: &[u8]) -> Vec<u8> {
        element(&[0x1a, 0x45, 0xdf, 0xa3], &element(&[0x42, 0x82], doc_type))
    }

    fn info(duration: &[u8]) -> Vec<u8> {
        let scale = element(&[0x2a, 0xd7, 0xb1], &1_000_000_u32.to_be_bytes());
        let duration = element(&[0x44, 0x89], duration);
        element(&[0x15, 0x49, 0xa9, 0x66], &[scale, duration].concat())
    }

    fn tracks(codec: &[u8]) -> Vec<u8> {
        let video = [element(&[0xb0], &[2, 128]), element(&[0xba], &[1, 104])].concat();
        let opus = [element(&[0x83], &[2]), element(&[0x86], b"A_OPUS")].concat();
        let sound = element(&[0xae], &opus);
        let picture = [element(&[0x86], codec), element(&[0xe0], &video)].concat();
        let picture = element(&[0xae], &picture);
        element(&[0x16, 0x54, 0xae, 0x6b], &[sound, picture].concat())
    }

    fn cluster() -> Vec<u8> {
        element(&[0x1f, 0x43, 0xb6, 0x75], &[0; 40])
    }

    const SEGMENT_ID: [u8; 4] = [0x18, 0x53, 0x80, 0x67];

    fn film(doc_type: &[u8], parts: &[Vec<u8>]) -> Vec<u8> {
        [header(doc_type), element(&SEGMENT_ID, &parts.concat())].concat()
    }

    fn probed(bytes: &[u8]) -> Result<ProbedFilm, &'static str> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        probe(file.path())
    }

    #[expect(
        clippy::unnecessary_wraps,
        reason = "compared with what a probe returns"
    )]
    fn properties(milliseconds: u64) -> Option<VideoProperties> {
        Some(VideoProperties {
            width: 640,
            height: 360,
            milliseconds,
        })
    }

    #[test]
    fn size_and_length_are_read() {
        let parts = [info(&4000.0_f64.to_be_bytes()), tracks(b"V_VP9"), cluster()];
        let webm = ProbedFilm {
            media: MediaType::Webm,
            properties: properties(4000),
            codec: Some("vp9"),
        };
        assert_eq!(probed(&film(b"webm", &parts)), Ok(webm));
        let parts = [info(&2500.0_f32.to_be_bytes()), tracks(b"V_VP9"), cluster()];
        let matroska = ProbedFilm {
            media: MediaType::Mkv,
            properties: properties(2500),
            codec: Some("vp9"),
        };
        assert_eq!(probed(&film(b"matroska", &parts)), Ok(matroska));
    }

    #[test]
    fn the_codec_is_that_of_the_picture() {
        for (id, codec) in [
            (&b"V_MPEG4/ISO/AVC"[..], Some("h264")),
            (b"V_MPEGH/ISO/HEVC", Some("hevc")),
            (b"V_AV1", Some("av1")),
            (b"V_VP8\0\0", Some("vp8")),
            (b"V_UNCOMPRESSED", None),
            (b"", None),
        ] {
            let parts = [info(&4000.0_f64.to_be_bytes()), tracks(id), cluster()];
            let probed = probed(&film(b"webm", &parts)).unwrap();
            assert_eq!(probed.codec, codec, "{id:?}");
        }
    }

    #[test]
    fn a_live_recording_has_no_length() {
        let mut live = header(b"webm");
        let content = open_element(&[0x1f, 0x43, 0xb6, 0x75], &[0; 40]);
        live.extend(open_element(
            &SEGMENT_ID,
            &[tracks(b"V_VP9"), content].concat(),
        ));
        let film = ProbedFilm {
            media: MediaType::Webm,
            properties: None,
            codec: Some("vp9"),
        };
        assert_eq!(probed(&live), Ok(film));
    }

    #[test]
    fn broken_files_are_refused() {
        let parts = [info(&4000.0_f64.to_be_bytes()), tracks(b"V_VP9"), cluster()];
        let whole = film(b"webm", &parts);
        for length in 0..whole.len() {
            assert!(probed(&whole[..length]).is_err(), "{length}");
        }
        assert_eq!(probed(&film(b"webm", &parts[..2])), Err(TRUNCATED));
        let sound_only = [parts[0].clone(), parts[2].clone()];
        assert_eq!(probed(&film(b"webm", &sound_only)), Err(NO_VIDEO));
        assert!(probed(&film(b"words", &parts)).is_err());
        let many = element(&[0xec], &[]).repeat(40_001);
        assert_eq!(probed(&film(b"webm", &[many])), Err(BROKEN));
    }
}
