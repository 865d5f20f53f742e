//! Limits of the parts that the library parses besides the manifest: Merkle boxes of a film, and
//! the ID3 tag that MP3 and FLAC have in front. The library parses these whenever it looks for the
//! manifest's position, even before a file is signed.

use super::CredentialsError;
use super::cbor_depth::{be32, check_cbor};
use crate::marks::id3::without_stuffing;

/// The box that C2PA puts into MP4: D8FEC3D6-1B0E-483C-9297-5828877EC481.
const C2PA: [u8; 16] = 0xd8fe_c3d6_1b0e_483c_9297_5828_877e_c481_u128.to_be_bytes();
/// Maximum nesting depth of chapters and tables of contents. A table has chapters, and both have a
/// title and a picture.
const MAX_CHAPTER_DEPTH: usize = 32;
/// Maximum total number of chapters: a table lists at most 255.
const MAX_CHAPTERS: usize = 300;

/// Refuses a file whose parts the library should not parse.
pub(super) fn check(file: &[u8]) -> Result<(), CredentialsError> {
    check_merkle(file)?;
    check_tag(file)
}

/// In Merkle boxes the library allocates as much memory as a string's length claims, and parses
/// tags recursively.
fn check_merkle(file: &[u8]) -> Result<(), CredentialsError> {
    let mut rest = file;
    while let Some((head, _)) = rest.split_first_chunk::<8>() {
        let (head_length, length) = match be32(*head) {
            0 => (8, rest.len()),
            1 => {
                let long = rest.get(8..16).and_then(|long| long.try_into().ok());
                let long = long.map_or(u64::MAX, u64::from_be_bytes);
                (16, usize::try_from(long).unwrap_or(usize::MAX))
            }
            length => (8, length),
        };
        let whole_box = rest.get(..length).unwrap_or(rest);
        if head.ends_with(b"uuid")
            && let Some(content) = whole_box.get(head_length..).and_then(|b| b.strip_prefix(&C2PA))
            // After version and flags.
            && let Some(merkle) = content.get(4..).and_then(|b| b.strip_prefix(b"merkle\0"))
        {
            let mut steps = 2 * merkle.len() + 1;
            check_cbor(merkle, &mut steps)?;
        }
        // At least past the head, so that a wrong length does not stop the loop.
        rest = rest.get(length.max(8)..).unwrap_or_default();
    }
    Ok(())
}

/// The library reads nested chapters recursively, with a copy for each, and decompresses frames
/// without a limit. Both are searched for at every position, because the way in which lengths are
/// written depends on flags of the tag and of frames.
fn check_tag(file: &[u8]) -> Result<(), CredentialsError> {
    if !file.starts_with(b"ID3") {
        return Ok(());
    }
    // A tag has at most 2^28 bytes, because its length is written in four times seven bits.
    let tag = file.get(..1 << 28).unwrap_or(file);
    let length = tag.get(6..10).map_or(0, syncsafe);
    let tag = tag.get(..length + 20).unwrap_or(tag);
    check_frames(tag)?;
    if tag.get(5).is_some_and(|flags| flags & 0x80 != 0) {
        // Unsynchronisation: the tag has a zero after every 0xff, so that no decoder takes it for
        // sound.
        check_frames(&without_stuffing(tag))?;
    }
    Ok(())
}

fn check_frames(tag: &[u8]) -> Result<(), CredentialsError> {
    let (mut ends, mut chapters) = (Vec::<usize>::new(), 0);
    for (position, head) in tag.windows(16).enumerate() {
        let [name @ .., _, _, _, _, _, _, _, _, _, _, _, _] = head else {
            continue;
        };
        let sizes = head.get(4..8).unwrap_or_default();
        if matches!(name, b"CHAP" | b"CTOC") {
            // The two versions write a size differently. The larger reading counts, doubled because
            // unsynchronisation may have inserted zeros.
            let plain_size = sizes
                .iter()
                .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            let end = position.saturating_add(10 + 2 * plain_size.max(syncsafe(sizes)));
            // Chapters that end before this position do not contain it.
            ends.retain(|end| *end > position);
            ends.push(end);
            chapters += 1;
            if ends.len() > MAX_CHAPTER_DEPTH || chapters > MAX_CHAPTERS {
                return Err(CredentialsError::ManifestTooDeep);
            }
        }
        if is_packed(head) {
            return Err(CredentialsError::ManifestMalformed);
        }
    }
    Ok(())
}

/// Whether a frame begins here that is flagged as compressed and starts like compressed data. No
/// program is known to write one.
fn is_packed(head: &[u8]) -> bool {
    let [n0, n1, n2, n3, s0, _, _, _, f0, f1, rest @ ..] = head else {
        return false;
    };
    let has_frame_id = [n0, n1, n2, n3]
        .iter()
        .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    // The flags of versions 2.3 and 2.4, with no unused bit set.
    let has_packed_flag = f1 & 0x80 != 0 && f0.trailing_zeros() >= 5 && f1.trailing_zeros() >= 5
        || f1 & 0x08 != 0 && f0 & 0x8f == 0 && f1 & 0xb0 == 0;
    let is_zlib_start = |bytes: &[u8]| match bytes {
        // A zlib header (RFC 1950): method 8, a window of 32 kB at most, divisible by 31.
        [b0, b1, ..] => b0 & 0x0f == 8 && b0 >> 4 < 8 && u16::from_be_bytes([*b0, *b1]) % 31 == 0,
        _ => false,
    };
    // A length may precede the data.
    let has_zlib_data = is_zlib_start(rest) || rest.get(4..).is_some_and(is_zlib_start);
    *s0 < 16 && has_frame_id && has_packed_flag && has_zlib_data
}

/// A number with seven bits per byte.
fn syncsafe(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .fold(0, |sum, byte| sum << 7 | usize::from(byte & 0x7f))
}
