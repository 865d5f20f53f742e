//! The visible label of a film: "AI" in a corner, for people.

use animatic::Planes;

/// What a screen reader says in its place.
pub const TEXT: &str = "Label in the lower right corner: AI. This video was made with AI.";

/// The letters, a bit for each point, the first on the left.
const LETTERS: [u16; 7] = [
    0b00_1110_0011_1110,
    0b01_0001_0000_1000,
    0b01_0001_0000_1000,
    0b01_1111_0000_1000,
    0b01_0001_0000_1000,
    0b01_0001_0000_1000,
    0b01_0001_0011_1110,
];
const COLUMNS: usize = 14;
/// Rows of the box: the letters and two above and below.
const ROWS: usize = LETTERS.len() + 4;
const DARK: u8 = 24;
const LIGHT: u8 = 230;
const GREY: u8 = 128;

/// Draws it into a frame.
pub(super) fn draw(planes: &mut Planes<'_>) {
    let (width, height) = (planes.width, planes.height);
    // Even, so that chroma, at half the size, ends where luma does.
    let point = (width.min(height) / 160).max(1) * 2;
    let (wide, high) = (COLUMNS * point, ROWS * point);
    let margin = point * 2;
    let (Some(left), Some(top)) = (
        width.checked_sub(wide + margin),
        height.checked_sub(high + margin),
    ) else {
        return;
    };
    let (left, top) = (left & !1, top & !1);
    for (row, line) in planes
        .luma
        .chunks_mut(width)
        .skip(top)
        .take(high)
        .enumerate()
    {
        let letters = (row / point)
            .checked_sub(2)
            .and_then(|row| LETTERS.get(row));
        let pixels = line.iter_mut().skip(left).take(wide).enumerate();
        for (column, luma) in pixels {
            let bit = COLUMNS - 1 - column / point;
            let is_lit = letters.is_some_and(|bits| bits >> bit & 1 == 1);
            *luma = if is_lit { LIGHT } else { DARK };
        }
    }
    for plane in [&mut *planes.blue, &mut *planes.red] {
        for line in plane.chunks_mut(width / 2).skip(top / 2).take(high / 2) {
            for chroma in line.iter_mut().skip(left / 2).take(wide / 2) {
                *chroma = GREY;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_in_the_corner_and_leaves_the_rest_alone() {
        for (width, height) in [(1280, 720), (720, 1280), (320, 240), (16, 16)] {
            let mut luma = vec![100; width * height];
            let (mut blue, mut red) = (vec![90; width * height / 4], vec![90; width * height / 4]);
            draw(&mut Planes {
                width,
                height,
                luma: &mut luma,
                blue: &mut blue,
                red: &mut red,
            });
            let changed = |x: usize, y: usize| luma[y * width + x] != 100;
            let count = luma.iter().filter(|luma| **luma != 100).count();
            if width == 16 {
                assert_eq!(count, 0, "there is no room for it");
                continue;
            }
            assert!(count > 0 && count < width * height / 20, "{count}");
            assert!((0..height / 2).all(|y| (0..width).all(|x| !changed(x, y))));
            assert!(luma.contains(&LIGHT) && luma.contains(&DARK));
            assert_eq!(
                blue.into_iter().filter(|blue| *blue == GREY).count() * 4,
                count
            );
        }
    }
}
