//! A file with another beginning: a generated header, followed by the rest of the file.

use std::io::{self, Read, Seek, SeekFrom};

use symphonia::core::io::MediaSource;

/// A generated header, followed by the rest of a file.
pub(super) struct SplicedMedia<'a> {
    head: Vec<u8>,
    rest: Box<dyn MediaSource + 'a>,
    /// Offset of the rest in the file.
    start: u64,
    position: u64,
    /// Whether the rest stands where reading goes on.
    is_placed: bool,
}

impl<'a> SplicedMedia<'a> {
    pub(super) fn new(head: Vec<u8>, rest: Box<dyn MediaSource + 'a>, start: u64) -> Self {
        Self {
            head,
            rest,
            start,
            position: 0,
            is_placed: false,
        }
    }
}

impl Read for SplicedMedia<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let offset = usize::try_from(self.position).unwrap_or(usize::MAX);
        let read = match self.head.get(offset..) {
            Some(mut head) if !head.is_empty() => head.read(buffer)?,
            _ => {
                if !self.is_placed {
                    let rest_offset = self.position - self.head.len() as u64;
                    self.rest.seek(SeekFrom::Start(self.start + rest_offset))?;
                    self.is_placed = true;
                }
                self.rest.read(buffer)?
            }
        };
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for SplicedMedia<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let head = self.head.len() as u64;
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => {
                let end = self.rest.seek(SeekFrom::End(0))?;
                (end.saturating_sub(self.start) + head).checked_add_signed(by)
            }
        };
        self.position = target.ok_or(io::ErrorKind::InvalidInput)?;
        // The rest is moved even if the position is in the head, so that reading on from there
        // finds its start.
        let rest_offset = self.position.saturating_sub(head);
        self.rest.seek(SeekFrom::Start(self.start + rest_offset))?;
        self.is_placed = true;
        Ok(self.position)
    }
}

impl MediaSource for SplicedMedia<'_> {
    fn is_seekable(&self) -> bool {
        self.rest.is_seekable()
    }

    fn byte_len(&self) -> Option<u64> {
        let rest_length = self.rest.byte_len()?.saturating_sub(self.start);
        Some(rest_length + self.head.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn a_stripped_file_is_read_from_any_position() {
        let rest = Box::new(Cursor::new(b"skipped-then-this".to_vec()));
        let mut stripped = SplicedMedia::new(b"head-".to_vec(), rest, 13);
        let mut text = String::new();
        stripped.seek(SeekFrom::Start(0)).unwrap();
        stripped.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), stripped.byte_len()), ("head-this", Some(9)));
        for (position, expected) in [(3, "d-this"), (5, "this"), (7, "is")] {
            stripped.seek(SeekFrom::Start(position)).unwrap();
            text.clear();
            stripped.read_to_string(&mut text).unwrap();
            assert_eq!(text, expected);
        }
        assert_eq!(stripped.seek(SeekFrom::End(-2)).unwrap(), 7);
    }
}
