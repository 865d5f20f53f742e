//! The warping sampler: rolled and angled views, by bicubic interpolation.
//!
//! Each frame pixel is carried back onto the plate and the sixteen plate pixels around the spot
//! are weighed by the Catmull-Rom kernel. It does not prefilter: the plate comes at a size at
//! which neighbouring frame pixels are about one plate pixel apart.

use crate::camera::View;

/// The picture at its working size: RGBA, the A unused; beyond its edge the
/// sampler repeats the outermost pixels.
pub(crate) struct Plate {
    width: u32,
    height: u32,
    rgba: Vec<u8>,
}

impl Plate {
    /// `rgb` must hold `width * height` pixels.
    pub(crate) fn from_rgb(width: u32, height: u32, rgb: &[u8]) -> Self {
        let mut rgba = Vec::with_capacity(rgb.len() / 3 * 4);
        for p in rgb.chunks_exact(3) {
            rgba.extend_from_slice(&[p[0], p[1], p[2], u8::MAX]);
        }
        Self {
            width,
            height,
            rgba,
        }
    }

    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    pub(crate) fn height(&self) -> u32 {
        self.height
    }

    pub(crate) fn rgba(&self) -> &[u8] {
        &self.rgba
    }
}

/// Draws a view into `rgba`, rows of `width` pixels.
pub(crate) fn draw(plate: &Plate, view: &View, width: u32, rgba: &mut [u8]) {
    let kernel = kernel_table();
    let lens = view.lens();
    let row_bytes = width as usize * 4;
    let height = rgba.len() / row_bytes;
    let frame_width = f64::from(width);
    #[expect(clippy::cast_precision_loss, reason = "a frame's height")]
    let middle = height as f64 / 2.0;
    let mut v = 0.5 - middle;
    for row in rgba.chunks_exact_mut(row_bytes) {
        let mut u = 0.5 - frame_width / 2.0;
        for pixel in row.chunks_exact_mut(4) {
            let (x, y) = lens.project(u / frame_width, v / frame_width);
            // Pixel centres lie at halves.
            pixel.copy_from_slice(&sample(plate, x - 0.5, y - 0.5, &kernel));
            u += 1.0;
        }
        v += 1.0;
    }
}

/// Steps between two pixels for which weights are kept; finer than eight bits can show.
const PHASES: usize = 256;

type Kernel = [[f32; 4]; PHASES + 1];

fn kernel_table() -> Box<Kernel> {
    let mut table = Box::new([[0.0; 4]; PHASES + 1]);
    for (i, weights) in table.iter_mut().enumerate() {
        #[expect(clippy::cast_precision_loss, reason = "at most 256")]
        let t = i as f32 / PHASES as f32;
        let (t2, t3) = (t * t, t * t * t);
        *weights = [
            0.5 * (-t + 2.0 * t2 - t3),
            0.5 * (2.0 - 5.0 * t2 + 3.0 * t3),
            0.5 * (t + 4.0 * t2 - 3.0 * t3),
            0.5 * (-t2 + t3),
        ];
    }
    table
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "plate coordinates: sides are far below 2^31, and each cast follows a clamp or floor"
)]
#[inline]
fn sample(plate: &Plate, x: f64, y: f64, kernel: &Kernel) -> [u8; 4] {
    let (left, across) = tap(x, plate.width, kernel);
    let (top, down) = tap(y, plate.height, kernel);
    let (width, height) = (plate.width as i32, plate.height as i32);
    // Sixteen channels of four pixels at a time: rows are summed first, then the four pixels of
    // the sum, which is the order that compiles to vector instructions.
    let mut sums = [0.0_f32; 16];
    let inside = left >= 0 && top >= 0 && left + 4 <= width && top + 4 <= height;
    for (j, weight) in (0_i32..).zip(down) {
        let row = if inside {
            let at = ((top + j) as usize * width as usize + left as usize) * 4;
            plate.rgba[at..].first_chunk().copied().unwrap_or_default()
        } else {
            edge_row(plate, left, top + j)
        };
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += f32::from(value) * weight;
        }
    }
    let mut pixel = [0.5_f32; 4];
    for (four, weight) in sums.chunks_exact(4).zip(across) {
        for (channel, sum) in pixel.iter_mut().zip(four) {
            *channel += sum * weight;
        }
    }
    pixel.map(|channel| channel as u8)
}

/// Four plate pixels of a row, of which some lie beyond the plate.
#[expect(
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "clamped to the plate"
)]
#[cold]
fn edge_row(plate: &Plate, left: i32, row: i32) -> [u8; 16] {
    let (width, height) = (plate.width as i32, plate.height as i32);
    let start = row.clamp(0, height - 1) as usize * width as usize;
    let mut taps = [0_u8; 16];
    for (i, tap) in (0_i32..).zip(taps.chunks_exact_mut(4)) {
        let at = (start + (left + i).clamp(0, width - 1) as usize) * 4;
        tap.copy_from_slice(&plate.rgba[at..at + 4]);
    }
    taps
}

/// The first of the four plate pixels around a position, and their weights.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "clamped to the plate and a little beyond"
)]
#[inline]
fn tap(position: f64, side: u32, kernel: &Kernel) -> (i32, &[f32; 4]) {
    // Shifted to be positive, because truncation is one instruction and floor is a call.
    const SHIFT: i32 = 8;
    let position = position.clamp(-4.0, f64::from(side) + 4.0) + f64::from(SHIFT);
    let whole = position as i32;
    let phase = ((position - f64::from(whole)) * PHASES as f64) as u32 as usize;
    (whole - SHIFT - 1, &kernel[phase.min(PHASES)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_keeps_brightness() {
        for weights in kernel_table().iter() {
            assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        }
    }

    #[test]
    fn a_head_on_view_of_the_plates_own_size_is_the_plate() {
        let rgb: Vec<u8> = (0..12 * 8 * 3)
            .map(|i| u8::try_from(i * 37 % 256).unwrap())
            .collect();
        let plate = Plate::from_rgb(12, 8, &rgb);
        let view = View {
            centre: (6.0, 4.0),
            width: 12.0,
            roll: 0.0,
            yaw: 0.0,
        };
        let mut frame = vec![0; 12 * 8 * 4];
        draw(&plate, &view, 12, &mut frame);
        assert_eq!(frame, plate.rgba());
    }

    #[test]
    fn a_view_beyond_the_plate_repeats_its_edge() {
        let plate = Plate::from_rgb(2, 2, &[9; 12]);
        let view = View {
            centre: (-50.0, 90.0),
            width: 300.0,
            roll: 1.0,
            yaw: 0.4,
        };
        let mut frame = vec![0; 16 * 16 * 4];
        draw(&plate, &view, 16, &mut frame);
        assert!(frame.chunks_exact(4).all(|p| p[..3] == [9, 9, 9]));
    }
}
