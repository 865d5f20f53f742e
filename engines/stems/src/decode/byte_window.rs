//! A window that moves forward over a file, for readers that look ahead.

use std::io::{self, Read};

/// Bytes read at a time.
const STEP: usize = 64 * 1024;

/// The bytes from a position on, as many as were asked for.
pub(super) struct ByteWindow<R> {
    source: R,
    bytes: Vec<u8>,
    start: usize,
    is_at_end: bool,
}

impl<R: Read> ByteWindow<R> {
    pub(super) fn new(source: R) -> Self {
        Self {
            source,
            bytes: Vec::new(),
            start: 0,
            is_at_end: false,
        }
    }

    /// The next bytes: at least `count`, or all that are left.
    pub(super) fn ahead(&mut self, count: usize) -> io::Result<&[u8]> {
        while !self.is_at_end && self.bytes.len() - self.start < count {
            if self.start > STEP {
                self.bytes.drain(..self.start);
                self.start = 0;
            }
            let length = self.bytes.len();
            self.bytes.resize(length + STEP, 0);
            let read = match self.source.read(&mut self.bytes[length..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    self.bytes.truncate(length);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
                read => read?,
            };
            self.bytes.truncate(length + read);
            self.is_at_end = read == 0;
        }
        Ok(&self.bytes[self.start..])
    }

    /// Moves forward over `count` bytes, read or not, without keeping them; returns how many there
    /// were.
    pub(super) fn pass(&mut self, count: usize) -> io::Result<usize> {
        let mut rest = count;
        while rest > 0 {
            let piece = self.ahead(rest.min(STEP))?.len().min(rest);
            if piece == 0 {
                break;
            }
            self.skip(piece);
            rest -= piece;
        }
        Ok(count - rest)
    }

    /// Moves forward within what [`Self::ahead`] has returned.
    pub(super) fn skip(&mut self, count: usize) {
        self.start = (self.start + count).min(self.bytes.len());
    }
}
