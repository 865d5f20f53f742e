//! Broken pictures of every kind: read or refused, never a panic, never more memory than allowed.
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails has failed its test"
)]

use std::io::Cursor;
use std::sync::LazyLock;

use animatic::picture::{decode, probe};
use animatic::{PictureError, PictureLimits};
use image::codecs::png::PngEncoder;
use image::codecs::tiff::TiffEncoder;
use image::{DynamicImage, ExtendedColorType, ImageEncoder, ImageFormat, RgbImage};
use proptest::prelude::*;

use crate::common::encoded;

const LIMITS: PictureLimits = PictureLimits {
    max_megapixels: 2,
    max_side: 4_000,
    max_memory_bytes: 32 << 20,
};

/// A small file of every kind, and some of the odder varieties.
static FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let pixel = |x: u32, y: u32| [x * 7 % 256, y * 11 % 256, (x + y) * 3 % 256];
    let rgb = RgbImage::from_fn(40, 28, |x, y| {
        image::Rgb(pixel(x, y).map(|v| u8::try_from(v).unwrap()))
    });
    let image = DynamicImage::ImageRgb8(rgb);
    let icc = moxcms::ColorProfile::new_display_p3().encode().unwrap();
    let mut files: Vec<Vec<u8>> = [
        ImageFormat::Jpeg,
        ImageFormat::Png,
        ImageFormat::WebP,
        ImageFormat::Gif,
        ImageFormat::Bmp,
        ImageFormat::Tiff,
    ]
    .map(|format| encoded(&image, format))
    .into();
    for format in [ImageFormat::Png, ImageFormat::WebP, ImageFormat::Bmp] {
        files.push(encoded(&DynamicImage::ImageRgba8(image.to_rgba8()), format));
    }
    for format in [ImageFormat::Png, ImageFormat::Tiff] {
        files.push(encoded(&DynamicImage::ImageRgb16(image.to_rgb16()), format));
        files.push(encoded(&DynamicImage::ImageLuma8(image.to_luma8()), format));
    }
    let pixels = image.as_bytes();
    let mut png = Vec::new();
    let mut encoder = PngEncoder::new(&mut png);
    encoder.set_icc_profile(icc.clone()).unwrap();
    encoder
        .write_image(pixels, 40, 28, ExtendedColorType::Rgb8)
        .unwrap();
    files.push(png);
    let mut tiff = Cursor::new(Vec::new());
    let mut encoder = TiffEncoder::new(&mut tiff);
    encoder.set_icc_profile(icc).unwrap();
    encoder
        .write_image(pixels, 40, 28, ExtendedColorType::Rgb8)
        .unwrap();
    files.push(tiff.into_inner());
    files.push(include_bytes!("../data/cmyk.jpg").to_vec());
    files
});

/// One change to a file.
#[derive(Debug, Clone)]
enum Change {
    Set(prop::sample::Index, u8),
    /// A number of 32 bits, as sizes and offsets are.
    Number(prop::sample::Index, u32),
    Cut(prop::sample::Index),
    Repeat(prop::sample::Index, prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let any_index = any::<prop::sample::Index>;
    let number = prop_oneof![any::<u32>(), 0..300_u32, Just(u32::MAX), Just(1 << 31)];
    prop_oneof![
        6 => (any_index(), any::<u8>()).prop_map(|(position, value)| Change::Set(position, value)),
        2 => (any_index(), number).prop_map(|(position, value)| Change::Number(position, value)),
        1 => any_index().prop_map(Change::Cut),
        1 => (any_index(), any_index()).prop_map(|(from, to)| Change::Repeat(from, to)),
    ]
}

fn apply(file: &mut Vec<u8>, change: &Change) {
    if file.len() < 8 {
        return;
    }
    match change {
        Change::Set(position, value) => {
            let position = position.index(file.len());
            file[position] = *value;
        }
        Change::Number(position, value) => {
            let position = position.index(file.len() - 4);
            file[position..position + 4].copy_from_slice(&value.to_be_bytes());
        }
        Change::Cut(position) => file.truncate(position.index(file.len())),
        Change::Repeat(from, to) => {
            let (from, to) = (from.index(file.len()), to.index(file.len()));
            let bytes = file[from.min(to)..from.max(to)].to_vec();
            file.splice(to..to, bytes);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn changed_files_are_read_or_refused(
        file_index in any::<prop::sample::Index>(),
        changes in prop::collection::vec(change(), 1..8),
    ) {
        let mut file = FILES[file_index.index(FILES.len())].clone();
        for change in &changes {
            apply(&mut file, change);
        }
        let info = probe(&file, &LIMITS);
        match decode(&file, &LIMITS) {
            Ok(picture) => {
                let info = info.unwrap();
                prop_assert_eq!(picture.size(), (info.width, info.height));
                prop_assert!(u64::from(picture.width()) * u64::from(picture.height()) <= 2_000_000);
                let framed = picture.fitted((480, 854));
                prop_assert!(framed.width() > 0);
            }
            Err(error) => {
                let message = error.to_string();
                prop_assert!(message.len() < 240 && !message.contains(".rs"), "{}", message);
            }
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(decode(&bytes, &LIMITS).is_err());
    }
}

#[test]
fn a_file_whose_pixels_exceed_the_memory_is_refused() {
    let tight = PictureLimits {
        max_memory_bytes: 1_000,
        ..LIMITS
    };
    for file in FILES.iter() {
        let refused = decode(file, &tight);
        assert!(
            matches!(refused, Err(PictureError::TooMuchMemory { .. })),
            "{refused:?}"
        );
    }
}
