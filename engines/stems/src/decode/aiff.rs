//! Headers of AIFF files that state more sound than there is, as cut files and dead recorders leave
//! them.

use std::io::{self, Read as _, Seek as _, SeekFrom};

use symphonia::core::io::MediaSource;

use super::spliced_media::SplicedMedia;

/// Most bytes before the sound that are looked through.
const MAX_HEAD: u64 = 1 << 20;
/// `FORM`, the size, and the kind.
const FORM_HEADER: u64 = 12;

/// The file with sizes that fit, and whether it states sound that it does not contain.
pub(super) fn mend<'a>(
    mut media: Box<dyn MediaSource + 'a>,
) -> io::Result<(Box<dyn MediaSource + 'a>, bool)> {
    let length = media.seek(SeekFrom::End(0))?;
    let mut start = FORM_HEADER;
    while start + 8 <= length.min(MAX_HEAD) {
        media.seek(SeekFrom::Start(start))?;
        let mut header = [0; 8];
        media.read_exact(&mut header)?;
        let [name @ .., a, b, c, d] = header;
        let size = u64::from(u32::from_be_bytes([a, b, c, d]));
        let available = length - start - 8;
        if name == *b"SSND" && size > available {
            return Ok((with_sizes(media, start, length)?, true));
        }
        // Chunks begin at even offsets.
        start += 8 + size + (size & 1);
    }
    media.rewind()?;
    Ok((media, false))
}

/// The file with a last chunk, at `start`, that ends with the file.
fn with_sizes<'a>(
    mut media: Box<dyn MediaSource + 'a>,
    start: u64,
    length: u64,
) -> io::Result<Box<dyn MediaSource + 'a>> {
    let mut head = vec![0; usize::try_from(start + 8).unwrap_or(0)];
    media.rewind()?;
    media.read_exact(&mut head)?;
    for at in [0, start] {
        let size = u32::try_from(length - at - 8).unwrap_or(u32::MAX);
        let at = usize::try_from(at + 4).unwrap_or(0);
        head[at..at + 4].copy_from_slice(&size.to_be_bytes());
    }
    Ok(Box::new(SplicedMedia::new(head, media, start + 8)))
}
