//! Names of files that are no picture of a supported kind, and of JPEGs that the decoder would read
//! wrongly, so that a message can say what was sent and what to send instead.

/// What to send instead of a file of another kind.
const ANY: &str = "JPEG, PNG, WebP, GIF, BMP or TIFF";
/// What to send instead of an unusual JPEG.
const PLAIN_JPEG: &str = "a baseline or progressive one";

/// A file that cannot be used, and what to send instead.
pub(super) type ForeignName = (&'static str, &'static str);

/// Magic numbers: offset, bytes, name.
const MAGIC: [(usize, &[u8], &str); 41] = [
    (0, b"8BPS", "a Photoshop file"),
    (0, b"%PDF", "a PDF document"),
    (0, b"%!PS", "a PostScript file"),
    (0, b"\xc5\xd0\xd3\xc6", "a PostScript file"),
    (0, b"\0\0\0\x0cjP  ", "a JPEG 2000 picture"),
    (0, b"\xff\x4f\xff\x51", "a JPEG 2000 picture"),
    (0, b"\0\0\0\x0cJXL ", "a JPEG XL picture"),
    (0, b"\xff\x0a", "a JPEG XL picture"),
    (0, b"FUJIFILMCCD-RAW", "a camera's raw photo"),
    (0, b"IIU\0", "a camera's raw photo"),
    (0, b"IIRO", "a camera's raw photo"),
    (0, b"IIRS", "a camera's raw photo"),
    (0, b"MMOR", "a camera's raw photo"),
    (8, b"CR\x02\0", "a camera's raw photo"),
    (6, b"HEAPCCDR", "a camera's raw photo"),
    (0, b"FOVb", "a camera's raw photo"),
    (0, b"\0MRM", "a camera's raw photo"),
    (0, b"\0\0\x01\0", "an icon file"),
    (0, b"gimp xcf", "a GIMP file"),
    (0, b"v/1\x01", "an OpenEXR picture"),
    (0, b"#?RADIANCE", "a Radiance HDR picture"),
    (0, b"DDS ", "a DDS texture"),
    (0, b"qoif", "a QOI picture"),
    (0, b"farbfeld", "a farbfeld picture"),
    (0, b"AT&TFORM", "a DjVu document"),
    (128, b"DICM", "a DICOM picture"),
    (0, b"\xd7\xcd\xc6\x9a", "a Windows metafile"),
    (40, b" EMF", "a Windows metafile"),
    (0, b"\x1a\x45\xdf\xa3", "a film (WebM or Matroska)"),
    (8, b"AVI ", "a film (AVI)"),
    (0, b"FLV\x01", "a film (Flash video)"),
    (0, b"\0\0\x01\xba", "a film (MPEG)"),
    (0, b"\0\0\x01\xb3", "a film (MPEG)"),
    (0, b"\x30\x26\xb2\x75", "a film (Windows Media)"),
    (4, b"moov", "a film (QuickTime)"),
    (4, b"mdat", "a film (QuickTime)"),
    (8, b"WAVE", "a recording (WAV)"),
    (0, b"fLaC", "a recording (FLAC)"),
    (0, b"OggS", "a recording or film (Ogg)"),
    (0, b"ID3", "a recording (MP3)"),
    (0, b"PK\x03\x04", "a ZIP archive"),
];

/// The name of a file that cannot be used.
pub(super) fn name(bytes: &[u8]) -> Option<ForeignName> {
    let has = |offset: usize, magic: &[u8]| {
        bytes
            .get(offset..)
            .is_some_and(|bytes| bytes.starts_with(magic))
    };
    if bytes.starts_with(b"\xff\xd8") {
        return odd_jpeg(bytes).map(|name| (name, PLAIN_JPEG));
    }
    let name = if has(4, b"ftyp") {
        Some(by_brand(bytes))
    } else if let Some((.., name)) = MAGIC.iter().find(|(offset, magic, _)| has(*offset, magic)) {
        Some(*name)
    } else if is_raw_tiff(bytes) {
        Some("a camera's raw photo")
    } else {
        markup(bytes)
    };
    name.map(|name| (name, ANY))
}

/// The name of an ISO media file, by its brands.
fn by_brand(bytes: &[u8]) -> &'static str {
    let size = bytes.first_chunk().copied().map_or(0, u32::from_be_bytes) as usize;
    let list = bytes.get(8..size.min(bytes.len())).unwrap_or(&[]);
    let (brands, _) = list.as_chunks::<4>();
    let has = |names: &[&[u8; 4]]| brands.iter().any(|brand| names.contains(&brand));
    if has(&[b"avif", b"avis"]) {
        "an AVIF picture"
    } else if has(&[
        b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"hevm", b"hevs",
    ]) {
        "an HEIC photo"
    } else if has(&[b"mif1", b"msf1", b"miaf"]) {
        "an HEIF picture"
    } else if has(&[b"crx "]) {
        "a camera's raw photo"
    } else if has(&[b"M4A ", b"M4B "]) {
        "a recording (M4A)"
    } else {
        "a film (MP4 or QuickTime)"
    }
}

/// The name of a text that describes a picture or a page.
fn markup(bytes: &[u8]) -> Option<&'static str> {
    const LOOKED_AT: usize = 8 * 1024;
    let head = &bytes[..bytes.len().min(LOOKED_AT)];
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let head = head.trim_ascii_start().to_ascii_lowercase();
    let has = |text: &[u8]| head.windows(text.len()).any(|window| window == text);
    if head.first() != Some(&b'<') {
        return None;
    }
    Some(if has(b"<html") || has(b"<!doctype html") {
        "a web page"
    } else if has(b"<svg") {
        "an SVG drawing"
    } else {
        "an XML document"
    })
}

/// Whether a TIFF holds a camera's raw data: its first page is then only a preview. Adobe's format
/// has a tag of its own; others put the photo into a page below the first, which is marked as
/// reduced, and name the camera.
fn is_raw_tiff(bytes: &[u8]) -> bool {
    let is_little = bytes.starts_with(b"II*\0");
    if !is_little && !bytes.starts_with(b"MM\0*") {
        return false;
    }
    let pair = |at: usize| {
        let pair = *bytes.get(at..)?.first_chunk()?;
        Some(if is_little {
            u16::from_le_bytes(pair)
        } else {
            u16::from_be_bytes(pair)
        })
    };
    let quad = |at: usize| {
        let quad = *bytes.get(at..)?.first_chunk()?;
        Some(if is_little {
            u32::from_le_bytes(quad)
        } else {
            u32::from_be_bytes(quad)
        })
    };
    let start = quad(4).map_or(0, |start| start as usize);
    let entries = 0..usize::from(pair(start).unwrap_or(0));
    let tags: Vec<(u16, u32)> = entries
        .map_while(|nth| {
            let at = start.checked_add(2 + nth * 12)?;
            Some((pair(at)?, quad(at + 8)?))
        })
        .collect();
    let value = |tag: u16| {
        tags.iter()
            .find(|(found, _)| *found == tag)
            .map(|(_, value)| *value)
    };
    let is_preview = value(254) == Some(1);
    value(50_706).is_some() || (is_preview && value(330).is_some() && value(271).is_some())
}

/// The name of a JPEG that the decoder cannot read, or reads wrongly without an error.
fn odd_jpeg(bytes: &[u8]) -> Option<&'static str> {
    let mut rest = bytes.get(2..)?;
    let mut frame: Option<JpegFrame> = None;
    loop {
        let position = rest.iter().position(|byte| *byte == 0xff)?;
        rest = rest.get(position..)?;
        let position = rest.iter().position(|byte| *byte != 0xff)?;
        let marker = *rest.get(position)?;
        rest = rest.get(position + 1..)?;
        // Stuffed zeros, restarts and the marks of the start have no length.
        if matches!(marker, 0 | 1 | 0xd0..=0xd8) {
            continue;
        }
        if marker == 0xd9 {
            return None;
        }
        let length = usize::from(u16::from_be_bytes(*rest.first_chunk()?));
        let segment = rest.get(2..length)?;
        rest = rest.get(length..)?;
        match marker {
            0xc9..=0xcb | 0xcd..=0xcf => return Some("an arithmetic-coded JPEG"),
            0xc3 | 0xc7 => return Some("a lossless JPEG"),
            0xc5 | 0xc6 => return Some("a hierarchical JPEG"),
            0xc0..=0xc2 => {
                let found = JpegFrame::read(marker, segment)?;
                if let Some(name) = found.odd_name() {
                    return Some(name);
                }
                frame = Some(found);
            }
            0xda => {
                let components = usize::from(*segment.first()?);
                // The decoder does not place such blocks correctly.
                if let Some(frame) = &frame
                    && frame.is_sequential
                    && frame.has_vertical_subsampling()
                    && components < frame.sampling.len()
                {
                    return Some("a JPEG that has its colours in separate scans");
                }
            }
            _ => {}
        }
    }
}

/// What a JPEG's frame header says.
struct JpegFrame {
    is_sequential: bool,
    bits: u8,
    /// Horizontally and vertically, for each component.
    sampling: Vec<(u8, u8)>,
}

impl JpegFrame {
    fn read(marker: u8, segment: &[u8]) -> Option<Self> {
        let count = usize::from(*segment.get(5)?);
        let components = segment.get(6..6 + 3 * count)?;
        let (components, _) = components.as_chunks::<3>();
        let sampling = components
            .iter()
            .map(|[_, factors, _]| (factors >> 4, factors & 15));
        Some(Self {
            is_sequential: marker != 0xc2,
            bits: *segment.first()?,
            sampling: sampling.collect(),
        })
    }

    fn odd_name(&self) -> Option<&'static str> {
        if self.bits != 8 {
            return Some("a JPEG with more than eight bits a sample");
        }
        let luma = self.sampling.first()?;
        let is_coarser = |other: &(u8, u8)| other.0 > luma.0 || other.1 > luma.1;
        // Four components are inks, each as fine as the others.
        (self.sampling.len() == 3 && self.sampling.iter().any(is_coarser))
            .then_some("a JPEG whose brightness is coarser than its colours")
    }

    fn has_vertical_subsampling(&self) -> bool {
        self.sampling.len() > 1 && self.sampling.iter().any(|(_, vertical)| *vertical > 1)
    }
}
