//! A limited source: a file that is read in small pieces. This module knows no formats.

use std::io::{Read, Seek, SeekFrom};

use super::{MAX_PARTS, MAX_READ_BYTES, MarksError};

pub(super) struct LimitedSource<R> {
    file: R,
    size: u64,
    bytes_left: u64,
    parts_left: u32,
}

impl<R: Read + Seek> LimitedSource<R> {
    pub(super) fn new(mut file: R) -> Result<Self, MarksError> {
        let size = file.seek(SeekFrom::End(0))?;
        Ok(Self {
            file,
            size,
            bytes_left: MAX_READ_BYTES,
            parts_left: MAX_PARTS,
        })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Counts a box, chunk or frame.
    pub(super) fn count_part(&mut self) -> Result<(), MarksError> {
        self.parts_left = self
            .parts_left
            .checked_sub(1)
            .ok_or(MarksError::TooManyParts)?;
        Ok(())
    }

    /// Exactly `N` bytes.
    pub(super) fn array<const N: usize>(&mut self, offset: u64) -> Result<[u8; N], MarksError> {
        let bytes = self.read_up_to(offset, N as u64)?;
        <[u8; N]>::try_from(bytes).map_err(|_| MarksError::Damaged {
            offset,
            problem: "the file ends early",
        })
    }

    /// At most `length` bytes: fewer where the file ends.
    pub(super) fn read_up_to(&mut self, offset: u64, length: u64) -> Result<Vec<u8>, MarksError> {
        let length = length.min(self.size.saturating_sub(offset));
        self.bytes_left = self
            .bytes_left
            .checked_sub(length)
            .ok_or(MarksError::TooLong)?;
        if length == 0 {
            return Ok(Vec::new());
        }
        self.file.seek(SeekFrom::Start(offset))?;
        // Allocated only after both limits, so that it is never more than the file has.
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        (&mut self.file).take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The end of a part of `length` bytes; an error if it is past `limit`.
    pub(super) fn end(&self, offset: u64, length: u64, limit: u64) -> Result<u64, MarksError> {
        offset
            .checked_add(length)
            .filter(|end| *end <= limit.min(self.size))
            .ok_or(MarksError::Damaged {
                offset,
                problem: "a length reaches past the end",
            })
    }
}

pub(super) fn be32(bytes: [u8; 4]) -> u64 {
    u64::from(u32::from_be_bytes(bytes))
}

/// The bytes before the first NUL, and those after it.
pub(super) fn until_nul(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let position = bytes.iter().position(|byte| *byte == 0)?;
    let (before, rest) = bytes.split_at_checked(position)?;
    Some((before, rest.get(1..)?))
}
