//! Reads finished files back: their boxes and their decoded frames.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use animatic::Video;
use openh264::decoder::Decoder;
use openh264::formats::YUVSource;

/// A box of an MP4 file: its kind and its content.
pub(crate) fn boxes(bytes: &[u8]) -> Vec<(String, &[u8])> {
    let mut parsed = Vec::new();
    let mut rest = bytes;
    while rest.len() >= 8 {
        let size = u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize;
        assert!((8..=rest.len()).contains(&size), "a box of {size} bytes");
        let kind = String::from_utf8_lossy(&rest[4..8]).into_owned();
        parsed.push((kind, &rest[8..size]));
        rest = &rest[size..];
    }
    assert!(rest.is_empty(), "bytes after the last box");
    parsed
}

/// The content of the box at a path of kinds.
pub(crate) fn inside<'a>(bytes: &'a [u8], path: &[&str]) -> &'a [u8] {
    path.iter().fold(bytes, |bytes, kind| {
        let children = boxes(bytes);
        children
            .iter()
            .find(|(k, _)| k == kind)
            .expect("the file has every box on the path")
            .1
    })
}

pub(crate) fn number(bytes: &[u8], offset: usize) -> u32 {
    u32::from_be_bytes(bytes[offset..offset + 4].try_into().unwrap())
}

/// The luma planes of every frame, decoded, without their borders.
pub(crate) fn decoded(video: &Video) -> Vec<Vec<u8>> {
    let stbl = ["moov", "trak", "mdia", "minf", "stbl"];
    let table = inside(&video.mp4, &stbl);
    let config = &inside(table, &["stsd"])[8..];
    let config = inside(&inside(config, &["avc1"])[78..], &["avcC"]);
    let mut stream = Vec::new();
    let sps = usize::from(u16::from_be_bytes([config[6], config[7]]));
    let pps_at = 8 + sps + 1;
    let pps = usize::from(u16::from_be_bytes([config[pps_at], config[pps_at + 1]]));
    for unit in [&config[8..8 + sps], &config[pps_at + 2..pps_at + 2 + pps]] {
        stream.extend_from_slice(&[0, 0, 0, 1]);
        stream.extend_from_slice(unit);
    }
    let sizes = inside(table, &["stsz"]);
    let mut media = inside(&video.mp4, &["mdat"]);
    let mut decoder = Decoder::new().unwrap();
    let mut frames = Vec::new();
    for i in 0..number(sizes, 8) as usize {
        let (mut sample, rest) = media.split_at(number(sizes, 12 + i * 4) as usize);
        media = rest;
        while sample.len() > 4 {
            let length = number(sample, 0) as usize;
            stream.extend_from_slice(&[0, 0, 0, 1]);
            stream.extend_from_slice(&sample[4..4 + length]);
            sample = &sample[4 + length..];
        }
        if let Some(frame) = decoder.decode(&stream).unwrap() {
            frames.push(luma(&frame));
        }
        stream.clear();
    }
    for frame in decoder.flush_remaining().unwrap() {
        frames.push(luma(&frame));
    }
    frames
}

fn luma(frame: &impl YUVSource) -> Vec<u8> {
    let (width, height) = frame.dimensions();
    frame
        .y()
        .chunks(frame.strides().0)
        .take(height)
        .flat_map(|row| &row[..width])
        .copied()
        .collect()
}

/// Structural similarity of two planes, by 8x8 windows.
pub(crate) fn ssim(first: &[u8], second: &[u8], width: usize) -> f64 {
    let height = first.len() / width;
    let (mut sum, mut windows) = (0.0, 0.0);
    for top in (0..height - 7).step_by(4) {
        for left in (0..width - 7).step_by(4) {
            // Means of both, of their squares, and of their product.
            let mut means = [0.0; 5];
            for y in top..top + 8 {
                for x in left..left + 8 {
                    let (p, q) = (
                        f64::from(first[y * width + x]),
                        f64::from(second[y * width + x]),
                    );
                    for (mean, value) in means.iter_mut().zip([p, q, p * p, q * q, p * q]) {
                        *mean += value / 64.0;
                    }
                }
            }
            let [p, q, pp, qq, pq] = means;
            let (bias, floor) = (6.5025, 58.5225);
            let similarity = (2.0 * p * q + bias) * (2.0 * (pq - p * q) + floor);
            sum += similarity / ((p * p + q * q + bias) * (pp - p * p + qq - q * q + floor));
            windows += 1.0;
        }
    }
    sum / windows
}
