//! Colour management: converts pictures with an embedded ICC profile to sRGB.
//!
//! A profile is ignored if it is damaged, or if its channels are not the decoded picture's (a CMYK
//! profile, when the decoder has made RGB). The picture itself may be fine, so it is taken for
//! sRGB, as without a profile.

use std::panic::{AssertUnwindSafe, catch_unwind};

use moxcms::{ColorProfile, DataColorSpace, Layout, TransformOptions};

/// Bytes per pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PixelLayout {
    Rgb = 3,
    Rgba = 4,
}

/// Converts pixels in place from the space of an ICC profile to sRGB.
pub(super) fn to_srgb(pixels: &mut [u8], kind: PixelLayout, icc: &[u8]) {
    // A profile is as untrusted as its picture.
    let _ = catch_unwind(AssertUnwindSafe(|| convert(pixels, kind, icc)));
}

fn convert(pixels: &mut [u8], kind: PixelLayout, icc: &[u8]) -> Result<(), moxcms::CmsError> {
    let profile = ColorProfile::new_from_slice(icc)?;
    match profile.color_space {
        DataColorSpace::Rgb => convert_rgb(pixels, kind, &profile),
        DataColorSpace::Gray => convert_grey(pixels, kind, &profile),
        _ => Ok(()),
    }
}

fn convert_rgb(
    pixels: &mut [u8],
    kind: PixelLayout,
    profile: &ColorProfile,
) -> Result<(), moxcms::CmsError> {
    let layout = match kind {
        PixelLayout::Rgb => Layout::Rgb,
        PixelLayout::Rgba => Layout::Rgba,
    };
    let transform = profile.create_transform_8bit(
        layout,
        &ColorProfile::new_srgb(),
        layout,
        TransformOptions::default(),
    )?;
    // In pieces, so that there is no second picture in memory.
    let mut buffer = [0; 1024 * 12];
    for chunk in pixels.chunks_mut(buffer.len()) {
        let output = &mut buffer[..chunk.len()];
        transform.transform(chunk, output)?;
        chunk.copy_from_slice(output);
    }
    Ok(())
}

/// Converts greys with a table: there are only 256, and all three channels are equal.
fn convert_grey(
    pixels: &mut [u8],
    kind: PixelLayout,
    profile: &ColorProfile,
) -> Result<(), moxcms::CmsError> {
    let transform = profile.create_transform_8bit(
        Layout::Gray,
        &ColorProfile::new_srgb(),
        Layout::Rgb,
        TransformOptions::default(),
    )?;
    let greys: Vec<u8> = (0..=u8::MAX).collect();
    let mut table = [0; 256 * 3];
    transform.transform(&greys, &mut table)?;
    for pixel in pixels.chunks_exact_mut(kind as usize) {
        if pixel[0] == pixel[1] && pixel[1] == pixel[2] {
            let start = usize::from(pixel[0]) * 3;
            pixel[..3].copy_from_slice(&table[start..start + 3]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_srgb_pixel(rgb: [u8; 3], profile: &ColorProfile) -> [u8; 3] {
        let mut pixels = rgb.to_vec();
        to_srgb(&mut pixels, PixelLayout::Rgb, &profile.encode().unwrap());
        [pixels[0], pixels[1], pixels[2]]
    }

    #[test]
    fn a_wide_gamut_picture_gets_its_colours_and_an_srgb_one_keeps_them() {
        // Display P3's (200, 80, 60) is a redder red in sRGB; greys are the same in both.
        let [r, g, b] = to_srgb_pixel([200, 80, 60], &ColorProfile::new_display_p3());
        assert!(r > 206 && g < 80 && b < 60, "{r} {g} {b}");
        for grey in [0, 90, 255] {
            let rgb = to_srgb_pixel([grey; 3], &ColorProfile::new_display_p3());
            assert!(rgb.iter().all(|v| v.abs_diff(grey) <= 1), "{grey}: {rgb:?}");
        }
        let unchanged = to_srgb_pixel([200, 80, 60], &ColorProfile::new_srgb());
        assert!(
            unchanged
                .iter()
                .zip([200_u8, 80, 60])
                .all(|(a, b)| a.abs_diff(b) <= 1)
        );
    }

    #[test]
    fn transparency_is_left_alone_and_long_pictures_are_converted_to_the_end() {
        let icc = ColorProfile::new_display_p3().encode().unwrap();
        let mut pixels = [200, 80, 60, 77].repeat(50_000);
        to_srgb(&mut pixels, PixelLayout::Rgba, &icc);
        assert_eq!(pixels[..4], pixels[pixels.len() - 4..]);
        assert_eq!(pixels[3], 77);
        assert_ne!(pixels[0], 200);
    }

    #[test]
    fn a_grey_profile_bends_greys() {
        let linear = ColorProfile::new_gray_with_gamma(1.0);
        let [r, g, b] = to_srgb_pixel([64, 64, 64], &linear);
        assert!(r > 120 && r == g && g == b, "{r} {g} {b}");
    }

    #[test]
    fn a_broken_profile_is_passed_over() {
        let icc = ColorProfile::new_display_p3().encode().unwrap();
        for cut in (0..icc.len()).step_by(7) {
            let mut pixels = vec![200, 80, 60];
            to_srgb(&mut pixels, PixelLayout::Rgb, &icc[..cut]);
            assert_eq!(pixels.len(), 3);
        }
        let mut pixels = vec![200, 80, 60];
        to_srgb(&mut pixels, PixelLayout::Rgb, b"not a profile");
        assert_eq!(pixels, [200, 80, 60]);
    }
}
