//! Streamed zip archives of uncompressed files: only the name and length of a file are needed
//! before it is sent, and only a piece of it is in memory.
//!
//! As in APPNOTE 6.3.10: checksums follow their files (4.3.9), names are UTF-8 (bit 11). Archives
//! of 4 GiB or more, which need other records, are not supported.

use bytes::Bytes;
use crc32fast::Hasher;
use futures_util::{Stream, StreamExt as _};

use mediagate_core::app::App;
use mediagate_core::domain::downloads::ArchiveMember;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;

/// General-purpose flags: UTF-8 names, and checksums after the files.
const FLAGS: u16 = 0x0808;
/// The version needed to read the archive.
const VERSION: u16 = 20;
/// Lengths of a local header, a descriptor, a directory entry, and the end record, without names.
const RECORD_LENGTHS: [u64; 4] = [30, 16, 46, 22];

/// The archive's length; `None` if it would be too long.
pub(super) fn length(members: &[ArchiveMember]) -> Option<u64> {
    let [local, descriptor, entry, end] = RECORD_LENGTHS;
    let files = members.iter().map(|member| {
        let name = member.name.len() as u64;
        local + descriptor + entry + 2 * name + member.asset.size_bytes
    });
    let length = files.sum::<u64>() + end;
    // The largest values are reserved: they announce a Zip64 record (APPNOTE 4.4.1.4).
    (length < u64::from(u32::MAX) && members.len() < usize::from(u16::MAX)).then_some(length)
}

/// The archive's bytes.
pub(super) fn stream(
    app: App,
    members: Vec<ArchiveMember>,
) -> impl Stream<Item = Result<Bytes, Error>> + Send {
    async_stream::try_stream! {
        let mut directory = Vec::new();
        let mut offset: u64 = 0;
        for member in &members {
            let asset = &member.asset;
            // Zero for now: bit 3 of the flags says that checksum and sizes follow the file
            // (4.4.4).
            let header = head(&member.name, 0x0403_4b50, asset.created_at, [0, 0]);
            let header_offset = narrow(offset)?;
            offset += header.len() as u64;
            yield Bytes::from(header);
            let chunks = app.blobs.stream(asset.id, asset.media, 0..asset.size_bytes).await?;
            let mut chunks = chunks.ok_or_else(|| Error::internal("a stem's file is missing"))?;
            let mut crc = Hasher::new();
            let mut size: u64 = 0;
            while let Some(chunk) = chunks.next().await {
                let chunk = chunk?;
                crc.update(&chunk);
                size += chunk.len() as u64;
                yield chunk;
            }
            // The announced Content-Length was computed from these sizes. The head has been sent,
            // so the archive can only be cut off, and the caller sees that it is too short.
            if size != asset.size_bytes {
                Err(Error::internal("the length of a stem's file differs from its record"))?;
            }
            let (crc, size) = (crc.finalize(), narrow(size)?);
            let descriptor = [0x0807_4b50, crc, size, size].map(u32::to_le_bytes).concat();
            offset += u64::from(size) + descriptor.len() as u64;
            yield Bytes::from(descriptor);
            directory.extend(entry(member, header_offset, crc, size));
        }
        let end = end(members.len(), narrow(directory.len() as u64)?, narrow(offset)?);
        directory.extend(end);
        yield Bytes::from(directory);
    }
}

fn narrow(value: u64) -> Result<u32, Error> {
    u32::try_from(value).map_err(Error::internal)
}

/// A local header; with another signature, the part of a directory entry that has the same format.
fn head(name: &str, signature: u32, modified_at: Timestamp, [crc, size]: [u32; 2]) -> Vec<u8> {
    let mut bytes = signature.to_le_bytes().to_vec();
    if signature != 0x0403_4b50 {
        // Version made by: 3 in the upper byte is Unix (4.4.2).
        bytes.extend((0x0300 | VERSION).to_le_bytes());
    }
    let (time, date) = dos(modified_at);
    // Method 0: stored.
    for number in [VERSION, FLAGS, 0, time, date] {
        bytes.extend(number.to_le_bytes());
    }
    for number in [crc, size, size] {
        bytes.extend(number.to_le_bytes());
    }
    let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
    bytes.extend(length.to_le_bytes());
    // No extra field.
    bytes.extend([0, 0]);
    if signature == 0x0403_4b50 {
        bytes.extend(name.as_bytes());
    }
    bytes
}

/// An entry of the directory.
fn entry(member: &ArchiveMember, header_offset: u32, crc: u32, size: u32) -> Vec<u8> {
    let mut bytes = head(
        &member.name,
        0x0201_4b50,
        member.asset.created_at,
        [crc, size],
    );
    // No comment, the first disk, binary.
    bytes.extend([0; 6]);
    // Readable by all, writable by the owner.
    bytes.extend((0o100_644_u32 << 16).to_le_bytes());
    bytes.extend(header_offset.to_le_bytes());
    bytes.extend(member.name.as_bytes());
    bytes
}

fn end(count: usize, size: u32, directory_offset: u32) -> Vec<u8> {
    let count = u16::try_from(count).unwrap_or(u16::MAX);
    let mut bytes = 0x0605_4b50_u32.to_le_bytes().to_vec();
    for number in [0, 0, count, count] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(size.to_le_bytes());
    bytes.extend(directory_offset.to_le_bytes());
    bytes.extend([0, 0]);
    bytes
}

/// Time and date in the format of MS-DOS, in UTC. MS-DOS dates begin with 1980.
fn dos(at: Timestamp) -> (u16, u16) {
    let text = at.rfc3339();
    let number = |range: std::ops::Range<usize>| -> u16 {
        text.get(range)
            .and_then(|digits| digits.parse().ok())
            .unwrap_or(0)
    };
    // MS-DOS counts seconds in steps of two.
    let time = (number(11..13) << 11) | (number(14..16) << 5) | (number(17..19) / 2);
    let years = number(0..4).clamp(1980, 2107) - 1980;
    let date = (years << 9) | (number(5..7) << 5) | number(8..10);
    (time, date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_ms_dos() {
        let at = Timestamp::parse("2026-11-23T22:49:07Z").unwrap();
        let (time, date) = dos(at);
        assert_eq!((time >> 11, (time >> 5) & 63, (time & 31) * 2), (22, 49, 6));
        assert_eq!((date >> 9, (date >> 5) & 15, date & 31), (46, 11, 23));
    }
}
