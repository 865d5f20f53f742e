//! Small files that are expensive to decode: they are refused by their headers, or their cost is
//! reported.
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails has failed its test"
)]

use animatic::picture::{PictureInfo, decode, probe};
use animatic::{PictureError, PictureLimits};
use image::{DynamicImage, ImageFormat, RgbImage};

use crate::common::{LIMITS, encoded};

/// 48 million pixels.
const LARGE: (u16, u16) = (8000, 6000);

fn segment(marker: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len() + 2).unwrap().to_be_bytes();
    [&[0xff, marker][..], &length, body].concat()
}

fn scan(first: u8, last: u8) -> Vec<u8> {
    segment(0xda, &[1, 1, 0, first, last, 0])
}

/// A grey progressive JPEG with `scans` scans, all without data, and `extra` before the last.
fn jpeg((width, height): (u16, u16), scans: usize, extra: &[u8]) -> Vec<u8> {
    let ([h0, h1], [w0, w1]) = (height.to_be_bytes(), width.to_be_bytes());
    let code = |class: u8| [&[class, 1][..], &[0; 15], &[0]].concat();
    [
        &[0xff, 0xd8][..],
        &segment(0xdb, &[&[0][..], &[1; 64]].concat()),
        &segment(0xc2, &[8, h0, h1, w0, w1, 1, 1, 0x11, 0]),
        &segment(0xc4, &[code(0), code(0x10)].concat()),
        &scan(0, 0),
        &scan(1, 63).repeat(scans - 2),
        extra,
        &scan(1, 63),
        &[0xff, 0xd9],
    ]
    .concat()
}

fn probed(bytes: &[u8]) -> Result<PictureInfo, PictureError> {
    let info = probe(bytes, &LIMITS);
    if let Err(refused) = &info {
        assert_eq!(decode(bytes, &LIMITS).as_ref().err(), Some(refused));
    }
    info
}

fn passes(bytes: &[u8]) -> u32 {
    probed(bytes).unwrap().work / 48
}

#[test]
fn scans_of_a_jpeg_are_limited_by_its_size_and_priced() {
    for scans in [6, 10, 16] {
        assert_eq!(
            passes(&jpeg(LARGE, scans, &[])),
            u32::try_from(scans).unwrap()
        );
    }
    let refused = |scans, megapixels, limit| {
        Err(PictureError::TooManyScans {
            scans,
            megapixels,
            limit,
        })
    };
    let many = jpeg(LARGE, 98, &[]);
    assert!(many.len() < 2_000);
    assert_eq!(probed(&many), refused(98, 48, 16));
    assert_eq!(
        probed(&many).unwrap_err().to_string(),
        "the image has 98 scans of 48 megapixels; the limit is 16 at that size"
    );
    assert_eq!(probed(&jpeg((5000, 4000), 41, &[])), refused(41, 20, 40));
    assert_eq!(probed(&jpeg((5000, 4000), 40, &[])).unwrap().work, 800);
    assert_eq!(probed(&jpeg((64, 64), 101, &[])), refused(101, 1, 100));
    assert_eq!(probed(&jpeg((64, 64), 100, &[])).unwrap().work, 1);
}

#[test]
fn bytes_that_only_look_like_a_scan_are_not_counted() {
    let fake_scans = scan(1, 63).repeat(200);
    for kind in [0xe1, 0xe2, 0xef, 0xfe] {
        assert_eq!(
            passes(&jpeg(LARGE, 3, &segment(kind, &fake_scans))),
            3,
            "{kind:#x}"
        );
    }
    // Coded data with a byte that looks like a marker and with a restart; and a second picture
    // after the first.
    assert_eq!(
        passes(&jpeg(LARGE, 3, &[1, 0xff, 0, 0xda, 0xff, 0xd0, 7])),
        3
    );
    let two = [jpeg(LARGE, 3, &[]), fake_scans.clone()].concat();
    assert_eq!(passes(&two), 3);
    // Fill bytes before markers, a segment whose length is nonsense, and one that ends too early.
    let filled: Vec<u8> = fake_scans
        .chunks(10)
        .flat_map(|scan| [&[0xff][..], scan].concat())
        .collect();
    for hidden in [filled, [&[0xff, 0xfe, 0, 0][..], &fake_scans].concat()] {
        assert!(matches!(
            probed(&jpeg(LARGE, 3, &hidden)),
            Err(PictureError::TooManyScans { scans: 203, .. })
        ));
    }
    assert_eq!(passes(&jpeg(LARGE, 3, &[0xff, 0xfe, 0xff, 0xff])), 2);
}

#[test]
fn every_other_picture_takes_a_pass() {
    let image = DynamicImage::ImageRgb8(RgbImage::new(1500, 1000));
    for format in [
        ImageFormat::Png,
        ImageFormat::Jpeg,
        ImageFormat::WebP,
        ImageFormat::Gif,
        ImageFormat::Bmp,
        ImageFormat::Tiff,
    ] {
        let file = encoded(&image, format);
        assert_eq!(probed(&file).unwrap().work, 2, "{format:?}");
    }
}

/// A picture of one pixel with a frame of this size and no data.
fn gif((width, height): (u16, u16)) -> Vec<u8> {
    let frame = [[0; 2], [0; 2], width.to_le_bytes(), height.to_le_bytes()].concat();
    [
        &b"GIF89a\x01\0\x01\0\x80\0\0"[..],
        &[0; 6],
        b"\x21\xf9\x04\0\0\0\0\0",
        b"\x21\xfe\x02hi\0",
        b"\x2c",
        &frame,
        b"\0\x02\x02\x44\x01\0\x3b",
    ]
    .concat()
}

#[test]
fn a_frame_that_is_larger_than_its_gif_counts() {
    assert_eq!(probed(&gif((1, 1))).unwrap().work, 1);
    let info = probed(&gif((2000, 1000))).unwrap();
    assert_eq!((info.width, info.height, info.work), (1, 1, 3));
    assert!(info.decoding_bytes > 8_000_000);
    assert_eq!(
        probed(&gif((12_000, 10_000))),
        Err(PictureError::TooLarge {
            megapixels: 120,
            limit: 50
        })
    );
    let tight = PictureLimits {
        max_memory_bytes: 4 << 20,
        ..LIMITS
    };
    let refused = probe(&gif((2000, 1000)), &tight);
    assert_eq!(refused, Err(PictureError::TooMuchMemory { limit_mb: 4 }));
}

#[test]
fn a_frame_that_is_larger_than_its_webp_is_refused() {
    let chunk = |kind: &[u8], body: &[u8]| {
        let length = u32::try_from(body.len()).unwrap().to_le_bytes();
        [kind, &length, body, &vec![0; body.len() % 2]].concat()
    };
    let frame = |width: u16, height: u16| {
        let size = [width.to_le_bytes(), height.to_le_bytes()].concat();
        [&[0x10, 0, 0, 0x9d, 0x01, 0x2a][..], &size, &[0; 40]].concat()
    };
    let webp = |flags: u8, chunks: &[u8]| {
        let head = chunk(b"VP8X", &[flags, 0, 0, 0, 15, 0, 0, 15, 0, 0]);
        chunk(b"RIFF", &[b"WEBP", &head[..], chunks].concat())
    };
    let large = chunk(b"VP8 ", &frame(16_383, 16_383));
    let moving = [
        chunk(b"ANIM", &[0; 6]),
        chunk(
            b"ANMF",
            &[&[0; 6][..], &[15, 0, 0, 15, 0, 0], &[0; 4], &large].concat(),
        ),
    ]
    .concat();
    for (file, name) in [(webp(0, &large), "still"), (webp(2, &moving), "moving")] {
        let reason = "a frame is larger than the picture".to_owned();
        assert_eq!(
            probed(&file),
            Err(PictureError::Damaged { reason }),
            "{name}"
        );
    }
    let fits = probed(&webp(0, &chunk(b"VP8 ", &frame(16, 16))));
    assert_eq!(fits.unwrap().work, 1);
}

#[test]
fn a_progressive_jpeg_in_a_tiff_is_refused() {
    let tiff = |compression: u32, strip: &[u8]| {
        let entries: [(u16, u32); 8] = [
            (256, 8000),
            (257, 6000),
            (258, 8),
            (259, compression),
            (262, 1),
            (273, 8 + 2 + 8 * 12 + 4),
            (278, 6000),
            (279, u32::try_from(strip.len()).unwrap()),
        ];
        let mut out = b"II\x2a\0\x08\0\0\0\x08\0".to_vec();
        for (tag, value) in entries {
            out.extend(tag.to_le_bytes());
            out.extend([4, 0, 1, 0, 0, 0]);
            out.extend(value.to_le_bytes());
        }
        [&out, &[0; 4][..], strip].concat()
    };
    let strip = jpeg(LARGE, 98, &[]);
    assert_eq!(
        probed(&tiff(7, &strip)),
        Err(PictureError::Unsupported {
            variant: "progressive JPEG in TIFF".to_owned()
        })
    );
    // An uncompressed TIFF may have such bytes as pixels.
    assert_eq!(probe(&tiff(1, &strip), &LIMITS).unwrap().work, 48);
}
