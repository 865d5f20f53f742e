//! The visible label of a film: "AI" in a corner, for viewers.
//!
//! The label follows the basic icon that the European Commission published with its Code of
//! Practice: a disk with the letters in it. The Code suggests the upper right corner.

use animatic::{FramePlanes, Picture};

/// What a screen reader says in place of the label.
pub const TEXT: &str = "Label in the upper right corner: AI. This video was made with AI.";

/// The icon's side in the units of its outlines.
const SIDE: f32 = 200.0;
/// The outlines of the letters; the overlap of two outlines is cut out.
const OUTLINES: [&[(f32, f32)]; 4] = [
    // The A, with its feet.
    &[
        (70.0, 61.0),
        (91.0, 61.0),
        (119.0, 138.5),
        (98.0, 138.5),
        (63.0, 138.5),
        (42.0, 138.5),
    ],
    // The hole in it.
    &[(80.5, 79.0), (91.0, 109.0), (70.0, 109.0)],
    // The gap between its feet.
    &[(67.5, 124.5), (93.5, 124.5), (98.0, 138.5), (63.0, 138.5)],
    // The I.
    &[(128.5, 61.0), (148.5, 61.0), (148.5, 138.5), (128.5, 138.5)],
];
/// Samples per pixel in each direction.
const SAMPLES: u8 = 4;
const DARK: u8 = 16;
const LIGHT: u8 = 235;
const GREY: u8 = 128;

/// The icon at the size for a frame.
pub(super) struct AiLabel {
    /// Pixels from the left and from above.
    left: usize,
    top: usize,
    side: usize,
    /// For each pixel of the icon: how many samples lie in the disk, and how many in the letters.
    cover: Vec<(u8, u8)>,
}

impl AiLabel {
    /// `None` if there is no room for it.
    pub(super) fn new(width: usize, height: usize) -> Option<Self> {
        // Even, so that chroma, at half the size, ends where luma does.
        let side = (width.min(height) / 9) & !1;
        let margin = (side / 4) & !1;
        let left = width.checked_sub(side + margin)? & !1;
        let cover = (0..side * side).map(|index| pixel_coverage(index % side, index / side, side));
        (side >= 8).then(|| Self {
            left,
            top: margin,
            side,
            cover: cover.collect(),
        })
    }

    /// Draws it into a frame of the size it was made for.
    pub(super) fn draw(&self, planes: &mut FramePlanes<'_>) {
        let width = planes.width;
        let lines = planes.luma.chunks_mut(width).skip(self.top);
        for (line, cover) in lines.zip(self.cover.chunks(self.side)) {
            for (luma, cover) in line.iter_mut().skip(self.left).zip(cover) {
                *luma = mix(*luma, DARK, LIGHT, *cover);
            }
        }
        for plane in [&mut *planes.blue, &mut *planes.red] {
            let lines = plane.chunks_mut(width / 2).skip(self.top / 2);
            for (line, cover) in lines.zip(self.cover.chunks(self.side).step_by(2)) {
                let pixels = line.iter_mut().skip(self.left / 2);
                for (chroma, cover) in pixels.zip(cover.iter().step_by(2)) {
                    *chroma = mix(*chroma, GREY, GREY, *cover);
                }
            }
        }
    }

    /// Draws it into a picture; one that has no room for it stays as it is.
    pub(super) fn draw_on(picture: &Picture) -> Picture {
        let (width, height) = picture.size();
        let Some(label) = Self::new(width as usize, height as usize) else {
            return picture.clone();
        };
        let mut rgb = picture.rgb().to_vec();
        let lines = rgb.chunks_mut(width as usize * 3).skip(label.top);
        for (line, cover) in lines.zip(label.cover.chunks(label.side)) {
            for (pixel, cover) in line.chunks_mut(3).skip(label.left).zip(cover) {
                for value in pixel {
                    *value = mix(*value, 0, u8::MAX, *cover);
                }
            }
        }
        Picture::from_rgb(width, height, rgb).unwrap_or_else(|| picture.clone())
    }
}

fn mix(under: u8, dark: u8, light: u8, (disk, letters): (u8, u8)) -> u8 {
    let samples = i32::from(SAMPLES * SAMPLES);
    let blend = |from: u8, to: u8, part: u8| {
        let step = (i32::from(to) - i32::from(from)) * i32::from(part) / samples;
        u8::try_from(i32::from(from) + step).unwrap_or(to)
    };
    blend(blend(under, dark, disk), light, letters)
}

/// How many samples of a pixel lie in the disk, and how many in the letters.
#[expect(clippy::cast_precision_loss, reason = "coordinates of pixels")]
fn pixel_coverage(x: usize, y: usize, side: usize) -> (u8, u8) {
    let unit = SIDE / side as f32;
    let (mut disk, mut letters) = (0, 0);
    for sample in 0..SAMPLES * SAMPLES {
        let offset = |index: u8| (f32::from(index) + 0.5) / f32::from(SAMPLES);
        let x = (x as f32 + offset(sample % SAMPLES)) * unit;
        let y = (y as f32 + offset(sample / SAMPLES)) * unit;
        let (dx, dy) = (x - SIDE / 2.0, y - SIDE / 2.0);
        disk += u8::from(dx * dx + dy * dy < SIDE * SIDE / 4.0);
        let inside = OUTLINES.iter().filter(|outline| contains(outline, x, y));
        letters += u8::from(inside.count() % 2 == 1);
    }
    (disk, letters)
}

/// Whether a point lies in an outline: a ray from the point crosses it an odd number of times.
fn contains(outline: &[(f32, f32)], x: f32, y: f32) -> bool {
    let next = outline.iter().cycle().skip(1);
    let crossed = outline.iter().zip(next).filter(|((ax, ay), (bx, by))| {
        (*ay > y) != (*by > y) && x < (bx - ax) * (y - ay) / (by - ay) + ax
    });
    crossed.count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_is_in_the_corner_and_changes_nothing_else() {
        for (width, height) in [(1280, 720), (720, 1280), (320, 240), (16, 16)] {
            let mut luma = vec![100; width * height];
            let (mut blue, mut red) = (vec![90; width * height / 4], vec![90; width * height / 4]);
            let Some(label) = AiLabel::new(width, height) else {
                assert_eq!(width, 16, "there is no room for it");
                continue;
            };
            label.draw(&mut FramePlanes {
                width,
                height,
                luma: &mut luma,
                blue: &mut blue,
                red: &mut red,
            });
            let changed = |x: usize, y: usize| luma[y * width + x] != 100;
            let count = luma.iter().filter(|luma| **luma != 100).count();
            assert!(count > 0 && count < width * height / 50, "{count}");
            assert!((height / 2..height).all(|y| (0..width).all(|x| !changed(x, y))));
            assert!((0..height).all(|y| (0..width / 2).all(|x| !changed(x, y))));
            assert!(luma.contains(&LIGHT) && luma.contains(&DARK));
            assert!(blue.contains(&GREY) && blue == red);
        }
    }

    #[test]
    fn the_letters_are_light_in_a_dark_disk() {
        let grey = Picture::from_rgb(900, 900, vec![100; 900 * 900 * 3]).unwrap();
        let label = AiLabel::new(900, 900).unwrap();
        let drawn = AiLabel::draw_on(&grey);
        let value_at = |x: f32, y: f32| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "small"
            )]
            let pixel = |coordinate: f32| (coordinate / 2.0) as usize;
            drawn.rgb()[((label.top + pixel(y)) * 900 + label.left + pixel(x)) * 3]
        };
        // The I; a foot, the hole and the gap of the A; the disk next to it; what is outside.
        let points = [
            (138.0, 100.0),
            (50.0, 134.0),
            (80.0, 100.0),
            (80.0, 133.0),
            (20.0, 100.0),
            (3.0, 3.0),
        ];
        let values = points.map(|(x, y)| value_at(x, y));
        assert_eq!(values, [255, 255, 0, 0, 0, 100]);
    }
}
