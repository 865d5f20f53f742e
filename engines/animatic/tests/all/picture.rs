//! Untrusted pictures: every kind is read correctly, every broken one refused without a panic.
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails has failed its test"
)]

use animatic::picture::{PictureFormat, decode, probe};
use animatic::{PictureError, PictureLimits};
use image::{DynamicImage, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage};

use crate::common::{LIMITS, encoded};

/// A small picture with a different colour in each corner.
fn corners(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        match (x * 2 < width, y * 2 < height) {
            (true, true) => Rgb([220, 30, 30]),
            (false, true) => Rgb([30, 200, 30]),
            (true, false) => Rgb([30, 30, 210]),
            (false, false) => Rgb([230, 220, 40]),
        }
    })
}

fn fixtures() -> Vec<(PictureFormat, Vec<u8>)> {
    let image = DynamicImage::ImageRgb8(corners(48, 32));
    [
        (PictureFormat::Jpeg, ImageFormat::Jpeg),
        (PictureFormat::Png, ImageFormat::Png),
        (PictureFormat::WebP, ImageFormat::WebP),
        (PictureFormat::Gif, ImageFormat::Gif),
        (PictureFormat::Bmp, ImageFormat::Bmp),
        (PictureFormat::Tiff, ImageFormat::Tiff),
    ]
    .map(|(format, image_format)| (format, encoded(&image, image_format)))
    .into()
}

fn pixel(picture: &animatic::Picture, x: u32, y: u32) -> [i32; 3] {
    let start = (y * picture.width() + x) as usize * 3;
    [0, 1, 2].map(|c| i32::from(picture.rgb()[start + c]))
}

fn is_near(a: [i32; 3], b: [i32; 3], tolerance: i32) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() <= tolerance)
}

#[test]
fn every_kind_is_detected_from_its_bytes_and_decoded() {
    for (format, bytes) in fixtures() {
        let info = probe(&bytes, &LIMITS).unwrap();
        assert_eq!((info.format, info.width, info.height), (format, 48, 32));
        let picture = decode(&bytes, &LIMITS).unwrap();
        assert_eq!(picture.size(), (48, 32), "{format:?}");
        for ((x, y), colour) in [
            ((4, 4), [220, 30, 30]),
            ((44, 4), [30, 200, 30]),
            ((4, 28), [30, 30, 210]),
            ((44, 28), [230, 220, 40]),
        ] {
            let actual = pixel(&picture, x, y);
            assert!(
                is_near(actual, colour, 12),
                "{format:?} {actual:?} {colour:?}"
            );
        }
    }
}

#[test]
fn files_that_are_no_pictures_are_refused() {
    assert_eq!(decode(&[], &LIMITS).unwrap_err(), PictureError::Empty);
    assert_eq!(
        decode(b"hello world", &LIMITS).unwrap_err(),
        PictureError::UnknownFormat
    );
    let icon = [0, 0, 1, 0, 1, 0, 16, 16, 0, 0, 1, 0, 32, 0];
    assert!(matches!(
        decode(&icon, &LIMITS),
        Err(PictureError::Foreign { .. })
    ));
}

#[test]
fn deep_grey_and_transparent_pictures_become_plain_rgb() {
    let deep = DynamicImage::ImageRgb8(corners(16, 16)).to_rgb16();
    let png = encoded(&DynamicImage::ImageRgb16(deep), ImageFormat::Png);
    assert!(is_near(
        pixel(&decode(&png, &LIMITS).unwrap(), 2, 2),
        [220, 30, 30],
        1
    ));

    let grey = DynamicImage::ImageRgb8(corners(16, 16)).to_luma8();
    for format in [ImageFormat::Png, ImageFormat::Jpeg] {
        let bytes = encoded(&DynamicImage::ImageLuma8(grey.clone()), format);
        let [r, g, b] = pixel(&decode(&bytes, &LIMITS).unwrap(), 2, 2);
        assert!((r - g).abs() < 3 && (g - b).abs() < 3);
    }

    // A white shape on transparency gets a dark background, a black one a light background.
    for (shape, dark_ground) in [(255, true), (0, false)] {
        let image = RgbaImage::from_fn(16, 16, |x, _| {
            if x < 8 {
                Rgba([shape, shape, shape, 255])
            } else {
                Rgba([0, 0, 0, 0])
            }
        });
        let png = encoded(&DynamicImage::ImageRgba8(image), ImageFormat::Png);
        let picture = decode(&png, &LIMITS).unwrap();
        assert_eq!(pixel(&picture, 2, 2), [i32::from(shape); 3]);
        let ground = pixel(&picture, 12, 2);
        assert_eq!(ground[0] < 128, dark_ground);
        assert!(ground[0] == ground[1] && ground[1] == ground[2]);
    }
}

#[test]
fn four_colour_jpegs_look_as_they_should() {
    // A red, a green and a blue field as CMYK, made by Pillow.
    let picture = decode(include_bytes!("../data/cmyk.jpg"), &LIMITS).unwrap();
    assert_eq!(picture.size(), (48, 16));
    for (x, colour) in [(8, [200, 20, 20]), (24, [20, 180, 20]), (40, [20, 20, 200])] {
        let actual = pixel(&picture, x, 8);
        assert!(is_near(actual, colour, 24), "{actual:?} {colour:?}");
    }
}

/// An EXIF block that holds an orientation and nothing else.
fn exif(orientation: u8) -> Vec<u8> {
    let mut exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
    exif.extend_from_slice(&[orientation, 0, 0, 0, 0, 0, 0]);
    exif
}

#[test]
fn exif_orientation_is_applied() {
    let jpeg = encoded(&DynamicImage::ImageRgb8(corners(48, 32)), ImageFormat::Jpeg);
    let (red, green, blue, yellow) = ([220, 30, 30], [30, 200, 30], [30, 30, 210], [230, 220, 40]);
    // Top left and top right of the upright picture, by orientation.
    let expected = [
        (1, red, green),
        (2, green, red),
        (3, yellow, blue),
        (4, blue, yellow),
        (5, red, blue),
        (6, blue, red),
        (7, yellow, green),
        (8, green, yellow),
    ];
    for (orientation, left, right) in expected {
        let block = exif(orientation);
        let length = u16::try_from(block.len() + 2).unwrap();
        let mut turned = jpeg[..2].to_vec();
        turned.extend_from_slice(&[0xff, 0xe1]);
        turned.extend_from_slice(&length.to_be_bytes());
        turned.extend_from_slice(&block);
        turned.extend_from_slice(&jpeg[2..]);

        let size = if orientation < 5 { (48, 32) } else { (32, 48) };
        let info = probe(&turned, &LIMITS).unwrap();
        assert_eq!((info.width, info.height), size, "{orientation}");
        let picture = decode(&turned, &LIMITS).unwrap();
        assert_eq!(picture.size(), size, "{orientation}");
        assert!(is_near(pixel(&picture, 4, 4), left, 12), "{orientation}");
        assert!(
            is_near(pixel(&picture, size.0 - 5, 4), right, 12),
            "{orientation}"
        );
    }
}

/// A PNG that says it is `width` by `height` and holds next to nothing.
fn boastful_png(width: u32, height: u32) -> Vec<u8> {
    let mut png = encoded(&DynamicImage::ImageRgb8(corners(4, 4)), ImageFormat::Png);
    png[16..20].copy_from_slice(&width.to_be_bytes());
    png[20..24].copy_from_slice(&height.to_be_bytes());
    let sum = crc(&png[12..29]);
    png[29..33].copy_from_slice(&sum.to_be_bytes());
    png
}

fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |s, _| {
            if s & 1 == 1 {
                (s >> 1) ^ 0xEDB8_8320
            } else {
                s >> 1
            }
        })
    })
}

#[test]
fn a_huge_claim_is_refused_by_its_header() {
    let huge = boastful_png(60_000, 60_000);
    let refused = PictureError::TooLarge {
        megapixels: 3_600,
        limit: 50,
    };
    assert_eq!(probe(&huge, &LIMITS).unwrap_err(), refused);
    assert_eq!(decode(&huge, &LIMITS).unwrap_err(), refused);
    let strip = boastful_png(40_000, 10);
    assert_eq!(
        decode(&strip, &LIMITS).unwrap_err(),
        PictureError::TooLong {
            side: 40_000,
            limit: 30_000
        }
    );
    let tight = PictureLimits {
        max_memory_bytes: 1 << 20,
        ..LIMITS
    };
    assert!(matches!(
        decode(&boastful_png(3_000, 3_000), &tight),
        Err(PictureError::TooMuchMemory { limit_mb: 1 })
    ));
}

#[test]
fn every_kind_refuses_a_picture_beyond_the_limit() {
    let tiny = PictureLimits {
        max_side: 40,
        ..LIMITS
    };
    for (format, bytes) in fixtures() {
        let refused = Err(PictureError::TooLong {
            side: 48,
            limit: 40,
        });
        assert_eq!(decode(&bytes, &tiny).map(drop), refused, "{format:?}");
    }
}

/// A small generator, so that a failure can be repeated by its number.
struct TestRandom(u64);

impl TestRandom {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit).unwrap()).unwrap()
    }
}

#[test]
fn broken_pictures_are_refused_or_read_but_never_panic() {
    let small = PictureLimits {
        max_megapixels: 2,
        max_memory_bytes: 32 << 20,
        ..LIMITS
    };
    let mut files = fixtures();
    files.push((
        PictureFormat::Jpeg,
        include_bytes!("../data/cmyk.jpg").to_vec(),
    ));
    for (number, (format, bytes)) in (1_u64..).zip(files) {
        for cut in (0..bytes.len()).step_by(bytes.len() / 60 + 1) {
            let _ = probe(&bytes[..cut], &small);
            if let Err(error) = decode(&bytes[..cut], &small) {
                let message = error.to_string();
                let leaks = message.contains(".rs") || message.contains(" /");
                assert!(!leaks && message.len() < 240, "{format:?} {message}");
            }
        }
        let mut random = TestRandom(0x9e37_79b9 * number);
        for round in 0..150 {
            let mut broken = bytes.clone();
            for _ in 0..=(round % 8) {
                let position = random.below(broken.len());
                broken[position] ^= u8::try_from(1 + random.below(255)).unwrap();
            }
            let _ = probe(&broken, &small);
            let _ = decode(&broken, &small);
        }
    }
}

#[test]
fn other_files_are_named_with_what_to_send_instead() {
    let brand = |brand: &[u8; 4]| {
        let mut file = b"\0\0\0\x18ftyp".to_vec();
        file.extend(brand);
        file.extend(b"\0\0\0\0mif1");
        file.extend(brand);
        file
    };
    for (bytes, name) in [
        (brand(b"heic"), "an HEIC photo"),
        (brand(b"avif"), "an AVIF picture"),
        (brand(b"mif1"), "an HEIF picture"),
        (brand(b"isom")[..16].to_vec(), "a film"),
        (
            b"\xef\xbb\xbf<?xml version='1.0'?><svg/>".to_vec(),
            "an SVG drawing",
        ),
        (b"<!DOCTYPE html><html>".to_vec(), "a web page"),
        (b"%PDF-1.7".to_vec(), "a PDF document"),
        (b"8BPS\0\x01".to_vec(), "a Photoshop file"),
        (b"\0\0\0\x0cjP  \r\n\x87\n".to_vec(), "a JPEG 2000 picture"),
        (b"II*\0\x10\0\0\0CR\x02\0".to_vec(), "a camera's raw photo"),
        (b"\x1a\x45\xdf\xa3".to_vec(), "a film"),
    ] {
        let message = probe(&bytes, &LIMITS).unwrap_err().to_string();
        assert!(message.starts_with(&format!("this is {name}")), "{message}");
        assert!(
            message.ends_with("send JPEG, PNG, WebP, GIF, BMP or TIFF"),
            "{message}"
        );
    }
}

#[test]
fn jpegs_that_would_be_read_wrongly_are_named() {
    for (file, name) in [
        (
            &include_bytes!("../data/arithmetic-coded.jpg")[..],
            "an arithmetic-coded JPEG",
        ),
        (
            &include_bytes!("../data/coarse-brightness.jpg")[..],
            "a JPEG whose brightness is coarser than its colours",
        ),
        (
            &include_bytes!("../data/separate-scans.jpg")[..],
            "a JPEG that has its colours in separate scans",
        ),
    ] {
        let message = decode(file, &LIMITS).unwrap_err().to_string();
        assert_eq!(
            message,
            format!("this is {name}: send a baseline or progressive one")
        );
    }
    // Without vertical subsampling, separate scans are read correctly.
    let picture = decode(include_bytes!("../data/separate-scans-422.jpg"), &LIMITS).unwrap();
    for ((x, y), colour) in [
        ((8, 8), [255, 0, 0]),
        ((64, 8), [0, 255, 0]),
        ((8, 64), [0, 0, 255]),
        ((64, 64), [255, 255, 0]),
    ] {
        assert!(is_near(pixel(&picture, x, y), colour, 6), "{x}, {y}");
    }
}

#[test]
fn a_png_with_linear_samples_is_not_dark() {
    let grey = DynamicImage::ImageRgb8(RgbImage::from_pixel(4, 4, Rgb([55, 55, 55])));
    let mut file = encoded(&grey, ImageFormat::Png);
    let at = file
        .windows(4)
        .position(|window| window == b"IDAT")
        .unwrap()
        - 4;
    // A length, gAMA, 1.0 and a checksum.
    let chunk = b"\0\0\0\x04gAMA\0\x01\x86\xa0\x31\xe8\x96\x5f";
    file.splice(at..at, chunk.iter().copied());
    let picture = decode(&file, &LIMITS).unwrap();
    assert!(is_near(pixel(&picture, 1, 1), [128, 128, 128], 1));
}
