//! The cost of decoding a picture, beyond what follows from its size: scans of a JPEG, and frames
//! of a GIF or WebP that are larger than the picture. The bytes are read once, and nothing is
//! allocated.

use super::limits::{PictureError, PictureFormat, PictureLimits, check_size, megapixels};

/// Scans allowed in a JPEG of the most pixels that are allowed; a smaller picture may have more.
/// Every scan passes over all pixels, even one without a byte of data. libjpeg-turbo writes 10 for
/// a progressive colour picture and 6 for a grey one, mozjpeg tries scripts of up to 15, CMYK has
/// 13. All of these are accepted at every size.
const SCANS_AT_MOST_PIXELS: u64 = 16;
/// Scans at any size. JPEG has at most 64 coefficients in up to 14 steps; no encoder writes that
/// many.
const MAX_SCANS: u64 = 100;

/// What decoding a picture costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DecodeCost {
    /// Passes over all pixels.
    pub(super) passes: u64,
    /// Pixels of a frame that is decoded into a buffer of its own.
    pub(super) frame_pixels: u64,
}

/// Refuses a picture whose decoding costs more than any legitimate picture of its size needs.
pub(super) fn measure_cost(
    format: PictureFormat,
    bytes: &[u8],
    size: (u32, u32),
    limits: &PictureLimits,
) -> Result<DecodeCost, PictureError> {
    let mut cost = DecodeCost {
        passes: 1,
        frame_pixels: 0,
    };
    match format {
        PictureFormat::Jpeg => {
            cost.passes = jpeg_scans(bytes).max(1);
            check_scans(cost.passes, size, limits)?;
        }
        PictureFormat::Gif => {
            if let Some((width, height)) = gif_frame(bytes)
                // A frame of the picture's own size is decoded in place and costs nothing extra.
                && (width, height) != size
                && (width, height) != (0, 0)
            {
                check_size(width.max(1), height.max(1), limits)?;
                cost.frame_pixels = u64::from(width) * u64::from(height);
            }
        }
        PictureFormat::WebP => {
            if webp_frames(bytes).any(|frame| frame.0 > size.0 || frame.1 > size.1) {
                return Err(PictureError::Damaged {
                    reason: "a frame is larger than the picture".to_owned(),
                });
            }
        }
        PictureFormat::Tiff => {
            // Strips may be JPEGs, each decoded like a picture of its own. TIFF allows only
            // baseline and lossless ones, and no program writes others.
            if tiff_of_jpegs(bytes) && has_progressive_jpeg(bytes) {
                return Err(PictureError::Unsupported {
                    variant: "progressive JPEG in TIFF".to_owned(),
                });
            }
        }
        // The passes of an interlaced picture are over different pixels, so together they are one.
        PictureFormat::Png | PictureFormat::Bmp => {}
    }
    Ok(cost)
}

fn check_scans(scans: u64, size: (u32, u32), limits: &PictureLimits) -> Result<(), PictureError> {
    let pixels = u64::from(size.0) * u64::from(size.1);
    let max_passed_pixels = u64::from(limits.max_megapixels) * 1_000_000 * SCANS_AT_MOST_PIXELS;
    let limit = (max_passed_pixels / pixels.max(1)).min(MAX_SCANS);
    if scans > limit {
        return Err(PictureError::TooManyScans {
            scans,
            megapixels: megapixels(pixels),
            limit,
        });
    }
    Ok(())
}

/// The scans up to the end of the picture. Anything may follow it, such as a second picture.
fn jpeg_scans(bytes: &[u8]) -> u64 {
    let mut rest = bytes.get(2..).unwrap_or_default();
    let mut scans = 0;
    while let Some(position) = rest.iter().position(|byte| *byte == 0xff) {
        rest = rest.get(position..).unwrap_or_default();
        // Fill bytes may precede a marker.
        let Some(position) = rest.iter().position(|byte| *byte != 0xff) else {
            break;
        };
        let marker = rest.get(position).copied().unwrap_or_default();
        rest = rest.get(position + 1..).unwrap_or_default();
        match marker {
            0xd9 => break,
            0xda => scans += 1,
            // Tables, frame headers, application segments and comments are skipped: a thumbnail in
            // them is not decoded. Adobe's segment (0xee) is searched, because the decoder does not
            // skip all of an unusual one.
            0xc0..=0xcf | 0xdb..=0xed | 0xef..=0xfe => {
                if let Some((length, _)) = rest.split_first_chunk::<2>()
                    && let length @ 2.. = usize::from(u16::from_be_bytes(*length))
                {
                    rest = rest.get(length..).unwrap_or_default();
                }
            }
            // Stuffed zeros and restart markers in coded data have no length to skip.
            _ => {}
        }
    }
    scans
}

/// Width and height of the first frame.
fn gif_frame(bytes: &[u8]) -> Option<(u32, u32)> {
    let flags = *bytes.get(10)?;
    let table = if flags & 0x80 == 0 {
        0
    } else {
        3 << ((flags & 7) + 1)
    };
    let mut rest = bytes.get(13 + table..)?;
    loop {
        match *rest.first()? {
            0x21 => {
                rest = rest.get(2..)?;
                while let length @ 1.. = *rest.first()? {
                    rest = rest.get(usize::from(length) + 1..)?;
                }
                rest = rest.get(1..)?;
            }
            0x2c => {
                let [w0, w1, h0, h1] = *rest.get(5..9)?.first_chunk()?;
                let side = |low, high| u32::from(u16::from_le_bytes([low, high]));
                return Some((side(w0, w1), side(h0, h1)));
            }
            _ => return None,
        }
    }
}

/// Width and height of each image coded in a WebP. Only the header of an animation's frame is
/// skipped, so the chunks inside it are visited like all others.
fn webp_frames(bytes: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    let mut rest = bytes.get(12..).unwrap_or_default();
    std::iter::from_fn(move || {
        loop {
            let (head, body) = rest.split_first_chunk::<8>()?;
            let [kind @ .., l0, l1, l2, l3] = head;
            let length = u32::from_le_bytes([*l0, *l1, *l2, *l3]) as usize;
            let skipped = match kind {
                b"ANMF" => 16,
                _ => length.saturating_add(length % 2),
            };
            rest = body.get(skipped..).unwrap_or_default();
            let size = match (kind, body) {
                (b"VP8 ", [_, _, _, 0x9d, 0x01, 0x2a, w0, w1, h0, h1, ..]) => {
                    let side = |low, high| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
                    Some((side(*w0, *w1), side(*h0, *h1)))
                }
                (b"VP8L", [0x2f, b0, b1, b2, b3, ..]) => {
                    let bits = u32::from_le_bytes([*b0, *b1, *b2, *b3]);
                    Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
                }
                _ => None,
            };
            if size.is_some() {
                return size;
            }
        }
    })
}

/// Whether the first page is compressed as JPEG.
fn tiff_of_jpegs(bytes: &[u8]) -> bool {
    const COMPRESSION: u64 = 259;
    const JPEG: u8 = 7;
    let is_little_endian = bytes.starts_with(b"II");
    let is_big_tiff = bytes.get(2..4).is_some_and(|version| version.contains(&43));
    let number = |offset: usize, length: usize| -> Option<u64> {
        let field = bytes.get(offset..offset.checked_add(length)?)?;
        let add = |sum, byte: &u8| sum << 8 | u64::from(*byte);
        Some(if is_little_endian {
            field.iter().rev().fold(0, add)
        } else {
            field.iter().fold(0, add)
        })
    };
    let (pointer_offset, pointer_bytes, entry_bytes) =
        if is_big_tiff { (8, 8, 20) } else { (4, 4, 12) };
    let entries = || {
        let start = usize::try_from(number(pointer_offset, pointer_bytes)?).ok()?;
        let count_bytes = if is_big_tiff { 8 } else { 2 };
        let count = usize::try_from(number(start, count_bytes)?).ok()?;
        let first = start.checked_add(count_bytes)?;
        bytes.get(first..)?;
        // The count is the file's claim. Entries beyond the file's end are not looked for.
        Some((0..count.min(bytes.len() / entry_bytes)).map(move |nth| first + nth * entry_bytes))
    };
    let Some(mut entries) = entries() else {
        return false;
    };
    entries.any(|offset| {
        // The value may have one, two or four bytes in either byte order. In all of these cases
        // one byte holds it.
        let value = bytes.get(offset + 4 + pointer_bytes..offset + entry_bytes);
        number(offset, 2) == Some(COMPRESSION) && value.is_some_and(|value| value.contains(&JPEG))
    })
}

/// Whether a progressive frame begins anywhere: its marker, a length that matches its number of
/// components, and eight bits per sample. Coded data never contains that sequence.
fn has_progressive_jpeg(bytes: &[u8]) -> bool {
    bytes
        .windows(5)
        .any(|window| matches!(window, [0xff | 0, 0xc2, 0, 0x0b | 0x0e | 0x11 | 0x14, 8]))
}
