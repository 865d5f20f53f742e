//! The nesting depth of a manifest's values. It is determined with a list of open containers, never
//! by recursion, before the library parses the same bytes with recursion.
//!
//! The library limits boxes (32), lists and maps (128), JSON (128), ingredients (200) and ASN.1
//! (128) by itself. It does not limit CBOR tags: a few thousand nested ones crash the process.
//!
//! The check sees the same bytes as the library: the library itself extracts the manifest store of
//! a file. In the store, boxes are found by searching for their names at every position, and not by
//! walking from box to box, so that a length that the library reads differently cannot hide one.

use std::io::{Cursor, Read};

use c2pa::jumbf_io::load_jumbf_from_stream;

use super::{CredentialsError, MAX_MANIFEST_BYTES, MediaFormat, container_limits};

/// How deep lists, maps, tags and strings with CBOR in them may be nested. Files of eight programs
/// have twelve levels at most; a level takes up to 4 kB of a stack of 2 MB.
pub const MAX_CBOR_DEPTH: usize = 64;
/// Refuses a file whose manifests the library should not parse, whether the file is read or is an
/// ingredient.
pub(super) fn check(file: &[u8], format: MediaFormat) -> Result<(), CredentialsError> {
    // First, because the library already parses tags and Merkle boxes while it looks for the store.
    container_limits::check(file)?;
    let mut kinds = vec![format.mime()];
    // The library decides by the first bytes if they contradict the declared kind, so both are
    // tried.
    kinds.extend(kind_by_start(file).filter(|kind| *kind != format.mime()));
    for kind in kinds {
        // The library later reads the store with this same function. Anything on which it fails
        // here never reaches its parsers.
        if let Ok(store) = load_jumbf_from_stream(kind, &mut Cursor::new(file)) {
            check_store(&store)?;
        }
    }
    Ok(())
}

fn kind_by_start(file: &[u8]) -> Option<&'static str> {
    let format = match file {
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => MediaFormat::Mp4,
        [b'R', b'I', b'F', b'F', ..] => MediaFormat::Wav,
        [0x89, b'P', b'N', b'G', ..] => MediaFormat::Png,
        [0xff, 0xd8, ..] => MediaFormat::Jpeg,
        [b'f', b'L', b'a', b'C', ..] => MediaFormat::Flac,
        [b'I', b'D', b'3', ..] => MediaFormat::Mp3,
        _ => return None,
    };
    Some(format.mime())
}

/// Refuses a store with harmful values, in compressed manifests too.
pub(super) fn check_store(store: &[u8]) -> Result<(), CredentialsError> {
    check_values(store)?;
    let (mut unpacked, mut packed) = (0, 0);
    for content in boxes(store, *b"brob") {
        // Boxes are searched for at every byte, so false ones may overlap. Without this sum, a
        // small store could have the same bytes unpacked again and again.
        packed += content.len();
        if packed > store.len() {
            return Err(CredentialsError::ManifestMalformed);
        }
        // All manifests share one limit, and one byte beyond it shows that it was passed.
        let remaining = MAX_MANIFEST_BYTES - unpacked;
        let mut manifest = Vec::new();
        let unpacking = brotli_decompressor::Decompressor::new(content, 4096);
        // An error is ignored: the part unpacked before the damage is still checked.
        let _ = unpacking.take(remaining + 1).read_to_end(&mut manifest);
        unpacked += manifest.len() as u64;
        if unpacked > MAX_MANIFEST_BYTES {
            return Err(CredentialsError::ManifestTooLong(unpacked));
        }
        check_values(&manifest)?;
    }
    Ok(())
}

fn check_values(store: &[u8]) -> Result<(), CredentialsError> {
    // Real boxes do not overlap, so each byte is checked once, and false boxes inside others add a
    // little. A store that takes twice as many steps was built to waste time.
    let mut steps = 2 * store.len();
    for content in boxes(store, *b"cbor") {
        check_cbor(content, &mut steps)?;
    }
    Ok(())
}

/// The contents of everything that can be a box of this name.
fn boxes(store: &[u8], name: [u8; 4]) -> impl Iterator<Item = &[u8]> {
    let positions = store.windows(8).enumerate();
    positions.filter_map(move |(start, head)| {
        if !head.ends_with(&name) {
            return None;
        }
        match be32(*head.first_chunk::<8>()?) {
            // A 64-bit length follows, which a store of this size never needs.
            1 => store.get(start + 16..),
            length => store.get(start + 8..start.checked_add(length)?),
        }
    })
}

/// The length before a box's name.
pub(super) fn be32(head: [u8; 8]) -> usize {
    let [a, b, c, d, ..] = head;
    u32::from_be_bytes([a, b, c, d]) as usize
}

/// A container of values that is not at its end.
enum OpenContainer {
    /// This many values follow.
    Values(u64),
    /// Values follow until a break.
    UntilBreak,
    /// A byte string that contains a value; the position of its end.
    Bytes(usize),
}

/// Checks one value, as a parser would read it. Parsers stop at malformed data, and so does this.
pub(super) fn check_cbor(bytes: &[u8], steps: &mut usize) -> Result<(), CredentialsError> {
    let mut scan = CborScan {
        bytes,
        position: 0,
        open: Vec::with_capacity(MAX_CBOR_DEPTH),
    };
    loop {
        *steps = steps
            .checked_sub(1)
            .ok_or(CredentialsError::ManifestMalformed)?;
        let is_whole = match scan.next()? {
            ScanStep::Complete => true,
            ScanStep::ContainerStart => false,
            ScanStep::Malformed => scan.leave_string(),
        };
        if is_whole && scan.close() {
            return Ok(());
        }
    }
}

/// The item at a position.
enum ScanStep {
    /// A value that contains no others, or a break.
    Complete,
    /// The beginning of one that contains others.
    ContainerStart,
    Malformed,
}

struct CborScan<'a> {
    bytes: &'a [u8],
    position: usize,
    open: Vec<OpenContainer>,
}

impl<'a> CborScan<'a> {
    fn next(&mut self) -> Result<ScanStep, CredentialsError> {
        let rest = self.rest();
        let Some((head_length, kind, number)) = head(rest) else {
            return Ok(ScanStep::Malformed);
        };
        let content = rest.get(head_length..).unwrap_or_default();
        self.position += head_length;
        let container = match (kind, number) {
            (TEXT | BYTES, Some(length)) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                let Some(content) = content.get(..length) else {
                    return self.overlong();
                };
                // The library parses some byte strings as separate CBOR, with recursion again. Any
                // that could begin a container is checked as if it were one.
                let is_cbor = kind == BYTES
                    && content
                        .first()
                        .is_some_and(|byte| can_contain_values(*byte));
                if !is_cbor {
                    self.position += length;
                    return Ok(ScanStep::Complete);
                }
                OpenContainer::Bytes(self.position + length)
            }
            (LIST | MAP, Some(0)) => return Ok(ScanStep::Complete),
            (LIST, Some(values)) => OpenContainer::Values(values),
            (MAP, Some(pairs)) => OpenContainer::Values(pairs.saturating_mul(2)),
            (TAG, Some(_)) => OpenContainer::Values(1),
            (TEXT | BYTES | LIST | MAP, None) => OpenContainer::UntilBreak,
            (SIMPLE, None) => {
                let is_expected = matches!(self.open.last(), Some(OpenContainer::UntilBreak));
                return Ok(if is_expected {
                    self.open.pop();
                    ScanStep::Complete
                } else {
                    ScanStep::Malformed
                });
            }
            (TAG | NUMBER | NEGATIVE, None) => return Ok(ScanStep::Malformed),
            _ => return Ok(ScanStep::Complete),
        };
        if self.open.len() == MAX_CBOR_DEPTH {
            return Err(CredentialsError::ManifestTooDeep);
        }
        self.open.push(container);
        Ok(ScanStep::ContainerStart)
    }

    /// The bytes up to the end of the innermost string.
    fn rest(&self) -> &'a [u8] {
        let mut strings = self.open.iter().rev();
        let end = strings.find_map(|open| match open {
            OpenContainer::Bytes(end) => Some(*end),
            OpenContainer::Values(_) | OpenContainer::UntilBreak => None,
        });
        let end = end.unwrap_or(self.bytes.len());
        self.bytes.get(self.position..end).unwrap_or_default()
    }

    /// A string that extends beyond its container. The library allocates memory for all of it
    /// before it checks the length. Inside a byte string it only shows that this is not CBOR.
    fn overlong(&self) -> Result<ScanStep, CredentialsError> {
        let in_string = self
            .open
            .iter()
            .any(|open| matches!(open, OpenContainer::Bytes(_)));
        if in_string {
            Ok(ScanStep::Malformed)
        } else {
            Err(CredentialsError::ManifestMalformed)
        }
    }

    /// Continues after the innermost byte string, or at the end. The string then counts as a
    /// complete value.
    fn leave_string(&mut self) -> bool {
        while let Some(open) = self.open.pop() {
            if let OpenContainer::Bytes(end) = open {
                self.position = end;
                return true;
            }
        }
        true
    }

    /// Closes the containers that end with the last value. Returns whether none is open any more.
    fn close(&mut self) -> bool {
        while let Some(open) = self.open.last_mut() {
            match open {
                OpenContainer::UntilBreak => return false,
                OpenContainer::Values(values) => {
                    *values -= 1;
                    if *values > 0 {
                        return false;
                    }
                }
                OpenContainer::Bytes(end) => self.position = *end,
            }
            self.open.pop();
        }
        true
    }
}

const NUMBER: u8 = 0;
const NEGATIVE: u8 = 1;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const LIST: u8 = 4;
const MAP: u8 = 5;
const TAG: u8 = 6;
const SIMPLE: u8 = 7;

/// Whether a value that begins with this byte can contain others.
fn can_contain_values(first: u8) -> bool {
    matches!(first >> 5, BYTES | LIST | MAP | TAG)
}

/// The length of a value's head, its kind, and its number: `None` for an indefinite length.
fn head(bytes: &[u8]) -> Option<(usize, u8, Option<u64>)> {
    let (first, rest) = bytes.split_first()?;
    let kind = first >> 5;
    let length = match first & 0x1f {
        number @ 0..24 => return Some((1, kind, Some(u64::from(number)))),
        24 => 1,
        25 => 2,
        26 => 4,
        27 => 8,
        31 => return Some((1, kind, None)),
        _ => return None,
    };
    let number = rest.get(..length)?;
    let number = number
        .iter()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    Some((1 + length, kind, Some(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(bytes: &[u8]) -> &'static str {
        match check_cbor(bytes, &mut (2 * bytes.len() + 1)) {
            Ok(()) => "fine",
            Err(CredentialsError::ManifestTooDeep) => "deep",
            Err(_) => "malformed",
        }
    }

    /// `times` of these containers around a number.
    fn nested(opens: &[u8], times: usize, closes: &[u8]) -> Vec<u8> {
        [opens.repeat(times), vec![0], closes.repeat(times)].concat()
    }

    #[test]
    fn every_kind_that_holds_values_counts() {
        let max_depth = MAX_CBOR_DEPTH;
        let cases: [(&[u8], &[u8]); 7] = [
            (&[0x81], &[]),
            (&[0x82, 0x20], &[]),
            (&[0xa1, 0x61, b'x'], &[]),
            (&[0xc0], &[]),
            (&[0xdb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], &[]),
            (&[0x9f], &[0xff]),
            (&[0xbf, 0x00], &[0xff]),
        ];
        for (opens, closes) in cases {
            assert_eq!(
                verdict(&nested(opens, max_depth, closes)),
                "fine",
                "{opens:?}"
            );
            for times in [max_depth + 1, 8_000] {
                let deep = nested(opens, times, closes);
                assert_eq!(verdict(&deep), "deep", "{times} of {opens:?}");
                // The containers need not end.
                assert_eq!(verdict(&opens.repeat(times)), "deep");
            }
        }
    }

    #[test]
    fn byte_strings_are_searched_and_skipped_if_they_are_no_cbor() {
        let string = |content: &[u8]| {
            let length = u16::try_from(content.len()).unwrap();
            [&[0x59][..], &length.to_be_bytes(), content].concat()
        };
        let deep = nested(&[0xc1], 1000, &[]);
        assert_eq!(verdict(&string(&deep)), "deep");
        assert_eq!(verdict(&string(&string(&deep))), "deep");
        // A picture, DER, and a list that ends too early or has a string that is too long.
        let contents: [&[u8]; 5] = [
            b"\x89PNG\r\n\x1a\n",
            b"\x30\x82\x01\x00",
            &[0x84],
            &[0x82, 0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0x81, 0x1c],
        ];
        for content in contents {
            let followed = [&[0x82][..], &string(content), &deep].concat();
            assert_eq!(verdict(&followed), "deep", "{content:?}");
            let alone = [&[0x82][..], &string(content), &[0]].concat();
            assert_eq!(verdict(&alone), "fine", "{content:?}");
        }
    }

    #[test]
    fn only_the_first_value_counts_and_a_string_ends_where_its_box_does() {
        assert_eq!(verdict(&[]), "fine");
        assert_eq!(verdict(&[&[0][..], &[0xc0; 100]].concat()), "fine");
        assert_eq!(verdict(&[&[0x1c][..], &[0xc0; 100]].concat()), "fine");
        for kind in [0x40, 0x60] {
            assert_eq!(verdict(&[kind + 2, 0, 0]), "fine");
            assert_eq!(verdict(&[kind + 3, 0, 0]), "malformed");
            let huge = [&[kind | 0x1b][..], &u64::MAX.to_be_bytes()].concat();
            assert_eq!(verdict(&huge), "malformed");
        }
    }

    #[test]
    fn a_box_is_found_wherever_it_stands() {
        let part = |content: &[u8]| {
            let length = u32::try_from(content.len() + 8).unwrap();
            [&length.to_be_bytes()[..], b"cbor", content].concat()
        };
        let deep = part(&nested(&[0xd8, 0x20], 100, &[]));
        let store = [&[0; 3][..], &part(&[0xa0]), b"x", &deep, &[0; 9]].concat();
        let contents: Vec<&[u8]> = boxes(&store, *b"cbor").collect();
        assert_eq!(contents, [&[0xa0][..], &deep[8..]]);
        assert!(matches!(
            check_store(&store),
            Err(CredentialsError::ManifestTooDeep)
        ));
        // Nested boxes are not checked repeatedly.
        let over = part(&[0x9f; 8].repeat(4));
        let mut nested_box = over;
        for _ in 0..2000 {
            nested_box = part(&[&[0x84, 0, 0, 0][..], &nested_box].concat());
        }
        drop(check_store(&nested_box));
    }
}
