//! What the tests share: pictures to film and how to film them, picture files and their limits.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Cursor;

use animatic::{
    Direction, Picture, PictureLimits, RenderControl, RenderOptions, RenderRequest,
    RequestedOptions, Video,
};
use image::{DynamicImage, ImageFormat};

/// A picture with detail of every size everywhere.
pub(crate) fn detailed(width: u32, height: u32) -> Picture {
    let mut rgb = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let (fx, fy) = (f64::from(x), f64::from(y));
            let coarse = ((fx / 37.0).sin() + (fy / 29.0).cos()) * 40.0;
            let fine = ((fx / 5.0 + fy / 9.0).sin()) * 22.0;
            let block = if (x / 40 + y / 40) % 2 == 0 {
                18.0
            } else {
                -18.0
            };
            for tint in [1.0, 0.85, 0.7] {
                rgb.push(byte(128.0 + (coarse + fine + block) * tint));
            }
        }
    }
    Picture::from_rgb(width, height, rgb).unwrap()
}

pub(crate) fn byte(value: f64) -> u8 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped"
    )]
    let byte = value.round().clamp(0.0, 255.0) as u8;
    byte
}

pub(crate) fn options(size: (u32, u32), seconds: f64, fps: u32, seed: u64) -> RenderOptions {
    let requested = RequestedOptions {
        size: Some(size),
        seconds: Some(seconds),
        fps: Some(fps),
        seed: Some(seed),
        picture: None,
    };
    RenderOptions::resolve(&requested, &Direction::parse("")).unwrap()
}

pub(crate) fn film(picture: Option<&Picture>, prompt: &str, options: RenderOptions) -> Video {
    let request = RenderRequest {
        picture,
        prompt,
        options,
    };
    animatic::make(&request, &mut RenderControl::unattended()).unwrap()
}

/// The luma of a picture, in BT.709's limited range.
pub(crate) fn luma_of(picture: &Picture) -> Vec<u8> {
    picture
        .rgb()
        .chunks_exact(3)
        .map(|p| {
            let [r, g, b] = [p[0], p[1], p[2]].map(f64::from);
            byte(16.0 + (0.2126 * r + 0.7152 * g + 0.0722 * b) * 219.0 / 255.0)
        })
        .collect()
}

/// Limits that a gateway might have.
pub(crate) const LIMITS: PictureLimits = PictureLimits {
    max_megapixels: 50,
    max_side: 30_000,
    max_memory_bytes: 512 << 20,
};

/// The picture as a file.
pub(crate) fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    image.write_to(&mut out, format).unwrap();
    out.into_inner()
}
