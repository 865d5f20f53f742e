//! Frames described without pixels, and the model's size for them.

/// A frame without pixels: `1080p`, `16:9`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameShape {
    /// The shorter side of the usual wide frame, as in `720p`.
    pub resolution: Option<u32>,
    /// Width to height.
    pub aspect_ratio: Option<(u32, u32)>,
}

impl FrameShape {
    /// Whether nothing is specified.
    pub const fn is_unspecified(self) -> bool {
        self.resolution.is_none() && self.aspect_ratio.is_none()
    }

    /// The best match among the sizes on offer, of which the first is the default. The picture's
    /// orientation decides if the frame does not specify one.
    pub fn best_match(
        self,
        sizes: &[(u32, u32)],
        picture: Option<(u32, u32)>,
    ) -> Option<(u32, u32)> {
        let default = *sizes.first()?;
        let has_shape = |size: &(u32, u32)| {
            self.aspect_ratio
                .is_none_or(|ratio| is_of_shape(*size, ratio))
        };
        let mut fitting: Vec<_> = sizes.iter().copied().filter(has_shape).collect();
        match self.resolution {
            // Some providers call a square of 960 pixels 720p, by its area.
            Some(tier) if fitting.iter().any(|size| has_short_side(*size, tier)) => {
                fitting.retain(|size| has_short_side(*size, tier));
            }
            Some(tier) => fitting.retain(|size| has_area(*size, tier)),
            None => {
                // A caller who names only a shape gets a film of about the usual size.
                let default_area = area(default);
                let nearest = fitting
                    .iter()
                    .map(|size| area(*size).abs_diff(default_area))
                    .min();
                fitting.retain(|size| Some(area(*size).abs_diff(default_area)) == nearest);
            }
        }
        let orientation = |(width, height): (u32, u32)| width.cmp(&height);
        let preferred = orientation(picture.unwrap_or(default));
        let same_orientation = fitting.iter().find(|size| orientation(**size) == preferred);
        same_orientation.or(fitting.first()).copied()
    }
}

/// Providers round: 1792×1024 counts as 16:9.
fn is_of_shape((width, height): (u32, u32), (wide, high): (u32, u32)) -> bool {
    let actual = u64::from(width) * u64::from(high);
    let expected = u64::from(height) * u64::from(wide);
    actual.abs_diff(expected) * 100 <= expected * 3
}

fn has_short_side((width, height): (u32, u32), tier: u32) -> bool {
    width.min(height).abs_diff(tier) * 50 <= tier
}

fn has_area(size: (u32, u32), tier: u32) -> bool {
    // The area of the tier's wide frame, which a square of the same tier has too: 960x960 is as
    // much as 1280x720.
    let expected = u64::from(tier) * u64::from(tier) * 16 / 9;
    area(size).abs_diff(expected) * 100 <= expected * 8
}

fn area((width, height): (u32, u32)) -> u64 {
    u64::from(width) * u64::from(height)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_selects_one_of_the_sizes() {
        let sizes = [
            (1280, 720),
            (720, 1280),
            (960, 960),
            (1920, 1080),
            (1080, 1920),
            (1440, 1440),
            (1470, 630),
        ];
        let upright = Some((600, 800));
        for (resolution, aspect_ratio, picture, expected) in [
            (Some(1080), None, None, Some((1920, 1080))),
            (Some(1080), None, upright, Some((1080, 1920))),
            (None, Some((9, 16)), None, Some((720, 1280))),
            (None, Some((9, 16)), Some((800, 600)), Some((720, 1280))),
            (Some(1080), Some((9, 16)), None, Some((1080, 1920))),
            (Some(720), Some((1, 1)), None, Some((960, 960))),
            (Some(1080), Some((1, 1)), None, Some((1440, 1440))),
            (None, Some((21, 9)), None, Some((1470, 630))),
            (Some(480), None, None, None),
            (None, Some((4, 3)), None, None),
        ] {
            let frame = FrameShape {
                resolution,
                aspect_ratio,
            };
            assert_eq!(frame.best_match(&sizes, picture), expected, "{frame:?}");
        }
    }
}
