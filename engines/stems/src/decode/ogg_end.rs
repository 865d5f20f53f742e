//! The end that an Ogg file states: the position in the header of its last page (RFC 3533, section
//! 6). The reader drops a page whose checksum is wrong, so without this the end would be lost.

use std::io::{self, Read as _, SeekFrom};

use symphonia::core::io::MediaSource;

/// A page has at most this many bytes.
const MAX_PAGE: u64 = 65_307;
/// Mark, version, kind, position and serial number.
const HEADER: usize = 18;

/// The serial number of the last page's stream, and the position after its samples; `None` if no
/// page says it. The file stands at its start afterwards.
pub(super) fn last_position(media: &mut dyn MediaSource) -> io::Result<Option<(u32, i64)>> {
    let length = media.seek(SeekFrom::End(0))?;
    // Two pages, because a damaged file may end with half a page.
    media.seek(SeekFrom::Start(length.saturating_sub(2 * MAX_PAGE)))?;
    let mut tail = Vec::new();
    (&mut *media).take(2 * MAX_PAGE).read_to_end(&mut tail)?;
    media.rewind()?;
    let mut headers = tail.windows(HEADER).rev();
    let last = headers.find(|header| header.starts_with(b"OggS\0"));
    Ok(last.and_then(|header| {
        let position = i64::from_le_bytes(*header[6..].first_chunk()?);
        let serial = u32::from_le_bytes(*header[14..].first_chunk()?);
        // -1 if no packet ends on the page.
        (position > 0).then_some((serial, position))
    }))
}
