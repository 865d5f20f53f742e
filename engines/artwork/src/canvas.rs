//! A square canvas measured in hundredths of its side, and the shapes the pictures are built from.
//!
//! This module knows nothing of sound, accounts or personas. A shape that cannot be built (a number
//! that is not finite, an empty outline) is left out of the picture rather than being an error:
//! every seed must give a picture.

use image::ImageEncoder as _;
use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use tiny_skia::{
    FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, Shader, Stroke, Transform,
};

use super::ArtworkError;
use super::colour::{OklchColour, Palette, lab_to_rgb};

/// The picture being drawn; coordinates run from (0, 0) top left to (100, 100) bottom right.
pub(crate) struct Canvas {
    pixmap: Pixmap,
    side: u32,
    scale: Transform,
}

impl Canvas {
    /// An empty canvas of this many pixels a side.
    pub(crate) fn new(side: u32) -> Result<Self, ArtworkError> {
        if !SIDES.contains(&side) {
            return Err(ArtworkError::Side(side));
        }
        let pixmap = Pixmap::new(side, side).ok_or(ArtworkError::Side(side))?;
        let unit = f32::from(u16::try_from(side).unwrap_or(u16::MAX)) / 100.0;
        Ok(Self {
            pixmap,
            side,
            scale: Transform::from_scale(unit, unit),
        })
    }

    /// Covers the canvas with a soft gradient between colours placed at points.
    pub(crate) fn wash(&mut self, points: &[(f32, f32, OklchColour)]) {
        // Mixing in Oklab costs a cube and a power per point, so it is done on a coarse grid and
        // stretched: the gradient has no detail that the grid could miss.
        let grid: Vec<[f32; 3]> = (0..GRID * GRID)
            .map(|index| mix_colours(points, cell(index % GRID), cell(index / GRID)))
            .collect();
        let steps = f32::from(u16::try_from(self.side.max(2) - 1).unwrap_or(u16::MAX));
        let side = usize::try_from(self.side).unwrap_or(1).max(1);
        let ramp: Vec<(usize, f32)> = (0..self.side)
            .map(|pixel| grid_position(pixel, steps))
            .collect();
        for (row, line) in ramp
            .iter()
            .zip(self.pixmap.data_mut().chunks_exact_mut(side * 4))
        {
            for (column, pixel) in ramp.iter().zip(line.chunks_exact_mut(4)) {
                let rgb = bilinear(&grid, *column, *row);
                pixel.copy_from_slice(&[byte(rgb[0]), byte(rgb[1]), byte(rgb[2]), 255]);
            }
        }
    }

    /// A wash of a palette's dark half with its `vivid` colour glowing from one corner.
    pub(crate) fn wash_palette(&mut self, palette: &Palette, glow: (f32, f32)) {
        let opposite = (100.0 - glow.0, 100.0 - glow.1);
        self.wash(&[
            (glow.0, glow.1, palette.vivid),
            (opposite.0, opposite.1, palette.deep),
            (glow.0, opposite.1, palette.mid),
            (opposite.0, glow.1, palette.mid.lighter(-0.08)),
        ]);
    }

    /// Fills a shape with one colour.
    pub(crate) fn fill(&mut self, shape: Option<Path>, colour: OklchColour, alpha: f32) {
        if let Some(path) = shape {
            let paint = paint(colour, alpha);
            self.pixmap
                .fill_path(&path, &paint, FillRule::Winding, self.scale, None);
        }
    }

    /// Draws a shape's outline with round ends.
    pub(crate) fn line(
        &mut self,
        shape: Option<Path>,
        width: f32,
        colour: OklchColour,
        alpha: f32,
    ) {
        if let Some(path) = shape {
            let stroke = Stroke {
                width,
                line_cap: LineCap::Round,
                line_join: LineJoin::Round,
                ..Stroke::default()
            };
            self.pixmap
                .stroke_path(&path, &paint(colour, alpha), &stroke, self.scale, None);
        }
    }

    /// Sets each pixel from its position: `x` and `y` from 0 to 1, from the top left.
    pub(crate) fn shade(&mut self, mut colour: impl FnMut(f32, f32) -> [u8; 3]) {
        let side = usize::try_from(self.side).unwrap_or(1).max(1);
        let steps = f32::from(u16::try_from(self.side.max(2) - 1).unwrap_or(u16::MAX));
        let positions: Vec<f32> = (0..self.side)
            .map(|pixel| f32::from(u16::try_from(pixel).unwrap_or(u16::MAX)) / steps)
            .collect();
        for (y, line) in positions
            .iter()
            .zip(self.pixmap.data_mut().chunks_exact_mut(side * 4))
        {
            for (x, pixel) in positions.iter().zip(line.chunks_exact_mut(4)) {
                let [r, g, b] = colour(*x, *y);
                pixel.copy_from_slice(&[r, g, b, 255]);
            }
        }
    }

    /// The picture as PNG bytes. It is opaque: every picture starts with a wash or a shade.
    pub(crate) fn into_png(self) -> Result<Vec<u8>, ArtworkError> {
        let rgb: Vec<u8> = self
            .pixmap
            .pixels()
            .iter()
            .flat_map(|pixel| [pixel.red(), pixel.green(), pixel.blue()])
            .collect();
        encode_rgb(&rgb, self.side, self.side)
    }
}

/// PNG bytes of 8-bit RGB rows.
pub(crate) fn encode_rgb(rgb: &[u8], width: u32, height: u32) -> Result<Vec<u8>, ArtworkError> {
    let mut bytes = Vec::new();
    PngEncoder::new_with_quality(&mut bytes, CompressionType::Default, FilterType::Adaptive)
        .write_image(rgb, width, height, image::ExtendedColorType::Rgb8)?;
    Ok(bytes)
}

/// A circle.
pub(crate) fn circle(x: f32, y: f32, radius: f32) -> Option<Path> {
    PathBuilder::from_circle(x, y, radius)
}

/// A bar between two points with round ends.
pub(crate) fn segment(from: (f32, f32), to: (f32, f32)) -> Option<Path> {
    let mut path = PathBuilder::new();
    path.move_to(from.0, from.1);
    path.line_to(to.0, to.1);
    path.finish()
}

/// A fraction 0–1 as a byte.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the clamp keeps it inside a byte"
)]
pub(crate) fn byte(unit: f32) -> u8 {
    (unit.clamp(0.0, 1.0) * 255.0 + 0.5) as u8
}

fn paint(colour: OklchColour, alpha: f32) -> Paint<'static> {
    Paint {
        shader: Shader::SolidColor(colour.ink(alpha)),
        anti_alias: true,
        ..Paint::default()
    }
}

/// Where a grid line lies on the canvas.
fn cell(index: usize) -> f32 {
    f32::from(u16::try_from(index).unwrap_or(0)) * 100.0 / f32::from(LAST_CELL)
}

/// The grid cell that a pixel falls in and how far into it.
fn grid_position(pixel: u32, steps: f32) -> (usize, f32) {
    let position =
        f32::from(u16::try_from(pixel).unwrap_or(u16::MAX)) / steps * f32::from(LAST_CELL);
    // `byte` multiplies by 255 again: it serves as a cast that cannot leave its range.
    let cell = u16::from(byte(position.floor() / 255.0)).min(LAST_CELL - 1);
    (usize::from(cell), position - f32::from(cell))
}

/// The colour at a point: every given colour, weighed by nearness.
fn mix_colours(points: &[(f32, f32, OklchColour)], x: f32, y: f32) -> [f32; 3] {
    let mut sum = [0.0_f32; 3];
    let mut weights = 0.0;
    for (px, py, colour) in points {
        let distance = ((px - x).powi(2) + (py - y).powi(2)) / 10_000.0;
        let weight = (-2.6 * distance).exp();
        for (total, part) in sum.iter_mut().zip(colour.lab()) {
            *total += part * weight;
        }
        weights += weight;
    }
    lab_to_rgb(sum.map(|total| total / weights.max(f32::EPSILON)))
}

fn bilinear(
    grid: &[[f32; 3]],
    (column, across): (usize, f32),
    (row, down): (usize, f32),
) -> [f32; 3] {
    let colour = |c: usize, r: usize| grid.get(r * GRID + c).copied().unwrap_or([0.0; 3]);
    let (tl, tr) = (colour(column, row), colour(column + 1, row));
    let (bl, br) = (colour(column, row + 1), colour(column + 1, row + 1));
    std::array::from_fn(|i| {
        let top = tl[i] + (tr[i] - tl[i]) * across;
        let bottom = bl[i] + (br[i] - bl[i]) * across;
        top + (bottom - top) * down
    })
}

/// Allowed sides: below, nothing would be visible; above, a picture could exhaust memory.
const SIDES: std::ops::RangeInclusive<u32> = 16..=2048;
/// Lines of the gradient's grid, each way.
const GRID: usize = 33;
/// The number of the grid's last line.
const LAST_CELL: u16 = 32;
