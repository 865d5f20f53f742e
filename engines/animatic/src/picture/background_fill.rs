//! The background of a transparent picture.

/// The colour under a transparent picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BackgroundFill {
    /// Plain grey: light under dark pixels and dark under light ones, so that a logo never
    /// disappears.
    #[default]
    Contrast,
    /// Red, green, blue.
    Colour([u8; 3]),
}

/// Lays RGBA pixels over the background and returns RGB.
pub(super) fn lay_over(rgba: &[u8], ground: BackgroundFill) -> Vec<u8> {
    let colour = match ground {
        BackgroundFill::Colour(colour) => colour,
        BackgroundFill::Contrast => [contrast(rgba); 3],
    };
    let mut rgb = Vec::with_capacity(rgba.len() / 4 * 3);
    for pixel in rgba.chunks_exact(4) {
        let alpha = u32::from(pixel[3]);
        for (channel, background) in pixel.iter().zip(colour) {
            let mixed =
                (u32::from(*channel) * alpha + u32::from(background) * (255 - alpha) + 127) / 255;
            rgb.push(u8::try_from(mixed).unwrap_or(u8::MAX));
        }
    }
    rgb
}

fn contrast(rgba: &[u8]) -> u8 {
    let (mut weighted, mut weight) = (0_u64, 0_u64);
    for pixel in rgba.chunks_exact(4) {
        let [r, g, b, a] = [pixel[0], pixel[1], pixel[2], pixel[3]].map(u64::from);
        // BT.709's luma weights in units of 1/256. Invisible pixels may have any colour, so alpha
        // weights them.
        weighted += (r * 54 + g * 183 + b * 19) / 256 * a;
        weight += a;
    }
    let mostly_light = weight > 0 && weighted / weight > 150;
    if mostly_light { 40 } else { 232 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_shows_as_far_as_the_picture_lets_it() {
        let pixels = [200, 100, 0, 255, 200, 100, 0, 0, 200, 100, 0, 128];
        let rgb = lay_over(&pixels, BackgroundFill::Colour([0, 0, 100]));
        assert_eq!(rgb, [200, 100, 0, 0, 0, 100, 100, 50, 50]);
    }
}
