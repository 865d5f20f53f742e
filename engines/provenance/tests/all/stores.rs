//! Files with a manifest store that a test made.

#![cfg(feature = "c2pa")]
#![expect(clippy::unwrap_used, reason = "a test may fail loudly")]

pub(crate) const PNG: &[u8] = include_bytes!("../data/picture.png");
const WAV: &[u8] = include_bytes!("../data/sound.wav");

/// A box.
pub(crate) fn part(kind: &[u8], body: &[u8]) -> Vec<u8> {
    let size = u32::try_from(body.len() + 8).unwrap();
    [&size.to_be_bytes()[..], kind, body].concat()
}

/// The picture with this as its manifest store.
pub(crate) fn png(store: &[u8]) -> Vec<u8> {
    let body = [b"caBX", store].concat();
    let crc = body.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 }
        })
    });
    let length = u32::try_from(store.len()).unwrap().to_be_bytes();
    let chunk = [&length[..], &body, &(!crc).to_be_bytes()].concat();
    // Behind the signature and IHDR.
    [&PNG[..33], &chunk, &PNG[33..]].concat()
}

/// The recording with this as its manifest store.
pub(crate) fn wav(store: &[u8]) -> Vec<u8> {
    let length = u32::try_from(store.len()).unwrap().to_le_bytes();
    let padding = vec![0; store.len() % 2];
    let mut file = [WAV, b"C2PA", &length, store, &padding].concat();
    let whole = u32::try_from(file.len() - 8).unwrap();
    file[4..8].copy_from_slice(&whole.to_le_bytes());
    file
}
