//! The sampler of layers: what a view sees of a plate, tile by tile, by bilinear interpolation.
//!
//! A plate comes with more pixels than the frame shows of it, so the four around a point are
//! enough: neither its position between them nor the rotation of the frame causes shimmer. Tiles
//! let a layer be skipped where it is empty or hidden. The position on the plate is computed at
//! both ends of a tile's row and walked in steps of 1/65536 pixel between them.

use crate::camera::ViewProjection;
use crate::layer::{BlockCover, LayerPlate};

/// A rectangle of the frame, in pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FrameTile {
    pub(crate) left: usize,
    pub(crate) top: usize,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// A frame being drawn: rows of RGBA, the A unused.
pub(crate) struct RgbaFrame<'a> {
    pub(crate) rgba: &'a mut [u8],
    pub(crate) width: usize,
}

/// A plate through a view, ready to be sampled for tiles of one frame.
pub(crate) struct PlateSampler<'a> {
    plate: &'a LayerPlate,
    lens: ViewProjection,
    /// Frame size in pixels.
    frame: (f64, f64),
}

impl<'a> PlateSampler<'a> {
    pub(crate) fn new(plate: &'a LayerPlate, lens: ViewProjection, frame: (usize, usize)) -> Self {
        Self {
            plate,
            lens,
            frame: (to_f64(frame.0), to_f64(frame.1)),
        }
    }

    /// How much of a tile the plate covers.
    pub(crate) fn cover(&self, tile: FrameTile) -> BlockCover {
        let (columns, rows) = self.reach(tile);
        self.plate.cover(columns, rows)
    }

    /// Draws the plate's part of a tile: over what is there, or instead of it if `replace`.
    pub(crate) fn draw(&self, tile: FrameTile, replace: bool, frame: &mut RgbaFrame<'_>) {
        let (columns, rows) = self.reach(tile);
        // Checked once for a tile, so that only tiles at the plate's edge pay for clamping.
        let is_inside = columns.0 >= 0
            && rows.0 >= 0
            && columns.1 + 1 < to_i32(self.plate.width())
            && rows.1 + 1 < to_i32(self.plate.height());
        for y in tile.top..tile.top + tile.height {
            let start = (y * frame.width + tile.left) * 4;
            let Some(row) = frame.rgba.get_mut(start..start + tile.width * 4) else {
                return;
            };
            let path = self.path(tile, y);
            let dither = &DITHER[y % 4];
            let span = (path.dx.unsigned_abs() as usize * tile.width) >> 16;
            let is_level = path.dy == 0 && is_inside && span + 3 < MAX_SPAN;
            match (is_level, is_inside, replace) {
                (true, _, true) => level_row(self.plate, path, row, dither, replace_pixel),
                (true, _, false) => level_row(self.plate, path, row, dither, blend_over),
                (_, true, true) => {
                    sample_row(self.plate, path, row, dither, quad_inside, replace_pixel);
                }
                (_, true, false) => {
                    sample_row(self.plate, path, row, dither, quad_inside, blend_over);
                }
                (_, false, true) => {
                    sample_row(self.plate, path, row, dither, quad_at_edge, replace_pixel);
                }
                (_, false, false) => {
                    sample_row(self.plate, path, row, dither, quad_at_edge, blend_over);
                }
            }
        }
    }

    /// The position on the plate of a frame pixel's centre, where whole numbers are pixel centres.
    fn plate_position(&self, x: usize, y: usize) -> (f64, f64) {
        let (width, height) = self.frame;
        let u = (to_f64(x) + 0.5) / width - 0.5;
        let v = (to_f64(y) + 0.5 - height / 2.0) / width;
        let (x, y) = self.plate.to_plate(self.lens.project(u, v));
        (x - 0.5, y - 0.5)
    }

    /// The columns and rows of the plate that a tile may touch.
    fn reach(&self, tile: FrameTile) -> ((i32, i32), (i32, i32)) {
        let (right, bottom) = (tile.left + tile.width, tile.top + tile.height);
        // A view maps a tile to a convex shape with four corners, so the corners bound it.
        let corners = [
            self.plate_position(tile.left, tile.top),
            self.plate_position(right, tile.top),
            self.plate_position(tile.left, bottom),
            self.plate_position(right, bottom),
        ];
        let range = |pick: fn(&(f64, f64)) -> f64| {
            let values = corners.iter().map(pick);
            let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| {
                (l.min(v), h.max(v))
            });
            // Interpolation reads the next pixel, and walking in fixed steps causes rounding
            // errors, so one more on each side.
            (cast(low.floor()) - 1, cast(high.ceil()) + 1)
        };
        (range(|c| c.0), range(|c| c.1))
    }

    fn path(&self, tile: FrameTile, y: usize) -> SamplePath {
        // Under a yaw the true steps along a row are not all equally long. Within a tile the error
        // is a fraction of a pixel, and neighbouring tiles agree where they meet.
        let (x0, y0) = self.plate_position(tile.left, y);
        let (x1, y1) = self.plate_position(tile.left + tile.width, y);
        let pixels = to_f64(tile.width);
        SamplePath {
            x: cast(x0 * FIXED_POINT_ONE),
            y: cast(y0 * FIXED_POINT_ONE),
            dx: cast((x1 - x0) / pixels * FIXED_POINT_ONE),
            dy: cast((y1 - y0) / pixels * FIXED_POINT_ONE),
        }
    }
}

/// A straight path over the plate, in 1/65536 pixel.
#[derive(Clone, Copy)]
struct SamplePath {
    x: i32,
    y: i32,
    dx: i32,
    dy: i32,
}

/// Two rows of two neighbouring pixels.
type PixelQuad = ([u8; 8], [u8; 8]);

#[inline]
fn sample_row(
    plate: &LayerPlate,
    path: SamplePath,
    row: &mut [u8],
    dither: &[f32; 4],
    quad_at: impl Fn(&LayerPlate, i32, i32) -> PixelQuad,
    put: impl Fn(&mut [u8; 4], [f32; 4], f32),
) {
    let SamplePath {
        mut x,
        mut y,
        dx,
        dy,
    } = path;
    let (pixels, _) = row.as_chunks_mut::<4>();
    for (i, pixel) in pixels.iter_mut().enumerate() {
        let (upper, lower) = quad_at(plate, x >> 16, y >> 16);
        let (across, down) = (fraction_of(x), fraction_of(y));
        let mut colour = [0.0_f32; 4];
        for c in 0..4 {
            let (a, b) = (f32::from(upper[c]), f32::from(upper[c + 4]));
            let (p, q) = (f32::from(lower[c]), f32::from(lower[c + 4]));
            let (above, below) = (a + (b - a) * across, p + (q - p) * across);
            colour[c] = above + (below - above) * down;
        }
        put(pixel, colour, dither[i % 4]);
        x = x.wrapping_add(dx);
        y = y.wrapping_add(dy);
    }
}

/// Like [`sample_row`], for a path along the plate's rows: two rows are mixed once, so that each
/// pixel only mixes two neighbours of the result.
#[inline]
fn level_row(
    plate: &LayerPlate,
    path: SamplePath,
    row: &mut [u8],
    dither: &[f32; 4],
    put: impl Fn(&mut [u8; 4], [f32; 4], f32),
) {
    let (pixels, _) = row.as_chunks_mut::<4>();
    let last = path
        .x
        .wrapping_add(path.dx.wrapping_mul(cast(to_f64(pixels.len()))));
    let (first, last) = (
        (path.x >> 16).min(last >> 16),
        (path.x >> 16).max(last >> 16),
    );
    let (start, count) = (index(first), index(last - first) + 2);
    let mut mixed = [[0.0_f32; 4]; MAX_SPAN];
    let stride = plate.width() as usize * 4;
    let offset = index(path.y >> 16) * stride + start * 4;
    let upper = plate
        .rgba()
        .get(offset..offset + count * 4)
        .unwrap_or_default();
    let lower = plate
        .rgba()
        .get(offset + stride..offset + stride + count * 4);
    let down = fraction_of(path.y);
    let rows = upper
        .as_chunks::<4>()
        .0
        .iter()
        .zip(lower.unwrap_or_default().as_chunks::<4>().0);
    for (mix, (above, below)) in mixed.iter_mut().zip(rows) {
        for c in 0..4 {
            let (a, b) = (f32::from(above[c]), f32::from(below[c]));
            mix[c] = a + (b - a) * down;
        }
    }
    let mut x = path.x.wrapping_sub(first << 16);
    for (i, pixel) in pixels.iter_mut().enumerate() {
        let column = index(x >> 16).min(MAX_SPAN - 2);
        let (left, right, across) = (mixed[column], mixed[column + 1], fraction_of(x));
        let mut colour = [0.0_f32; 4];
        for c in 0..4 {
            colour[c] = left[c] + (right[c] - left[c]) * across;
        }
        put(pixel, colour, dither[i % 4]);
        x = x.wrapping_add(path.dx);
    }
}

#[inline]
fn index(position: i32) -> usize {
    usize::try_from(position).unwrap_or(0)
}

#[inline]
fn replace_pixel(pixel: &mut [u8; 4], colour: [f32; 4], noise: f32) {
    for (byte, value) in pixel.iter_mut().zip(colour) {
        *byte = round_to_u8(value + noise);
    }
}

#[inline]
fn blend_over(pixel: &mut [u8; 4], colour: [f32; 4], noise: f32) {
    let transparency = 1.0 - colour[3] * (1.0 / 255.0);
    for (byte, value) in pixel.iter_mut().zip(colour) {
        // Light is colour without opacity, so the sum may exceed white.
        *byte = round_to_u8((f32::from(*byte) * transparency + value).min(255.0) + noise);
    }
}

/// The nearest whole number of a value from -0.5 to 255.5. Adding 1.5 * 2^23 leaves a float no
/// bits for a fraction, and the number in its last bits; a plain cast would test for NaN.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the last eight bits are the number"
)]
pub(crate) fn round_to_u8(value: f32) -> u8 {
    (value + 12_582_912.0).to_bits() as u8
}

#[inline]
#[expect(
    clippy::cast_sign_loss,
    reason = "the caller has checked that the position is inside"
)]
fn quad_inside(plate: &LayerPlate, x: i32, y: i32) -> PixelQuad {
    let stride = plate.width() as usize * 4;
    let start = y as usize * stride + x as usize * 4;
    let pair = |start: usize| {
        let bytes = plate.rgba().get(start..start + 8);
        bytes
            .and_then(|b| b.first_chunk())
            .copied()
            .unwrap_or_default()
    };
    (pair(start), pair(start + stride))
}

/// Like [`quad_inside`], where some of the four pixels lie beyond the plate's edge.
fn quad_at_edge(plate: &LayerPlate, x: i32, y: i32) -> PixelQuad {
    let (width, height) = (to_i32(plate.width()), to_i32(plate.height()));
    let pixel = |x: i32, y: i32| {
        let (x, y) = (x.clamp(0, width - 1), y.clamp(0, height - 1));
        let at = usize::try_from(y * width + x).unwrap_or(0) * 4;
        let bytes: [u8; 4] = plate.rgba()[at..]
            .first_chunk()
            .copied()
            .unwrap_or_default();
        bytes
    };
    let pair = |y: i32| {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&pixel(x, y));
        bytes[4..].copy_from_slice(&pixel(x + 1, y));
        bytes
    };
    (pair(y), pair(y + 1))
}

#[inline]
#[expect(clippy::cast_precision_loss, reason = "sixteen bits")]
fn fraction_of(position: i32) -> f32 {
    (position & 0xFFFF) as f32 * (1.0 / 65536.0)
}

#[expect(clippy::cast_precision_loss, reason = "a frame's pixels")]
fn to_f64(n: usize) -> f64 {
    n as f64
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "saturates, and plates are smaller"
)]
fn cast(value: f64) -> i32 {
    value as i32
}

fn to_i32(side: u32) -> i32 {
    i32::try_from(side).unwrap_or(i32::MAX)
}

/// Plate pixels that a level row of a tile may span. A tile of 64 pixels spans about half as many.
const MAX_SPAN: usize = 256;

const FIXED_POINT_ONE: f64 = 65536.0;

/// Ordered dither of less than half a step: a colour between two eight-bit steps is drawn as a mix
/// of both, so a slow gradient does not break into bands.
const DITHER: [[f32; 4]; 4] = [
    [-0.46, 0.03, -0.34, 0.16],
    [0.28, -0.22, 0.41, -0.09],
    [-0.28, 0.22, -0.41, 0.09],
    [0.46, -0.03, 0.34, -0.16],
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::camera::view::LayerView;

    fn draw(plate: &LayerPlate, view: &LayerView, width: usize, height: usize) -> Vec<u8> {
        let mut rgba = vec![0; width * height * 4];
        let mut frame = RgbaFrame {
            rgba: &mut rgba,
            width,
        };
        let tile = FrameTile {
            left: 0,
            top: 0,
            width,
            height,
        };
        PlateSampler::new(plate, view.lens(), (width, height)).draw(tile, true, &mut frame);
        rgba
    }

    #[test]
    fn a_head_on_view_of_the_plates_own_size_is_the_plate() {
        let rgb: Vec<u8> = (0..12 * 8 * 3)
            .map(|i| u8::try_from(i * 37 % 256).unwrap())
            .collect();
        let plate = LayerPlate::solid(12, 8, &rgb, (12, 8));
        let view = LayerView {
            centre: (6.0, 4.0),
            width: 12.0,
            roll: 0.0,
            yaw: 0.0,
        };
        assert_eq!(draw(&plate, &view, 12, 8), plate.rgba());
    }

    #[test]
    fn a_view_beyond_the_plate_repeats_its_edge() {
        let plate = LayerPlate::solid(2, 2, &[9; 12], (2, 2));
        let view = LayerView {
            centre: (-50.0, 90.0),
            width: 300.0,
            roll: 1.0,
            yaw: 0.4,
        };
        let frame = draw(&plate, &view, 16, 16);
        assert!(frame.chunks_exact(4).all(|p| p[..3] == [9, 9, 9]));
    }

    #[test]
    fn rounding_is_to_the_nearest() {
        for (value, byte) in [(-0.4, 0), (0.0, 0), (0.6, 1), (127.4, 127), (255.4, 255)] {
            assert_eq!(round_to_u8(value), byte, "{value}");
        }
    }
}
