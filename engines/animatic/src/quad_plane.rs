//! Planes stored four rows to a pixel, so that they are resampled four rows at a time.
//!
//! The resampling library needs hardly more time for a pixel of four values than for a pixel of
//! one. So for the pass along the rows, which is the expensive one, four adjacent rows of a plane
//! are stored as one row of such pixels. For the pass across the rows they are separated again.
//!
//! This module does not know what a plane shows.

use crate::error::RenderError;
use resize::{CropRect, FilterType, Resizer};

/// A plane of one value per pixel, prepared for repeated resampling.
pub(crate) struct QuadPlane {
    bytes: Vec<u8>,
    width: u32,
    height: u32,
    /// The output of the pass along the rows, in fours and then (`rows`) separated; kept to save
    /// the allocation.
    fours: Vec<u8>,
    rows: Vec<u8>,
}

impl QuadPlane {
    /// `plane` has `width * height` values, row by row, and at least one.
    pub(crate) fn new(plane: &[u8], (width, height): (u32, u32)) -> Self {
        let stride = width as usize;
        let row = |y: u32| {
            let start = y.min(height.saturating_sub(1)) as usize * stride;
            &plane[start..start + stride]
        };
        let mut bytes = Vec::with_capacity(stride * height.next_multiple_of(4) as usize);
        for y in (0..height).step_by(4) {
            let rows = [row(y), row(y + 1), row(y + 2), row(y + 3)];
            bytes.extend((0..stride).flat_map(|x| rows.map(|row| row[x])));
        }
        Self {
            bytes,
            width,
            height,
            fours: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Resizes a part of the plane into all of `to`, by a Catmull-Rom filter.
    pub(crate) fn resample(
        &mut self,
        resizer: &mut Resizer,
        (to, (width, height)): (&mut [u8], (u32, u32)),
        part: CropRect,
    ) -> Result<(), RenderError> {
        let (first, last) = self.reach(part, height);
        self.resample_along_rows(resizer, (first, last), width, part)?;
        let rows = last - first;
        self.rows.resize(rows as usize * width as usize, 0);
        deinterleave_rows(&self.fours, &mut self.rows, width as usize);
        let remaining = CropRect {
            left: 0.0,
            width: f64::from(width),
            top: part.top - f64::from(first),
            ..part
        };
        resize::plane(
            resizer,
            (&self.rows, (width, rows)),
            (to, (width, height)),
            FilterType::CatmullRom,
            remaining,
        )?;
        Ok(())
    }

    /// Like [`Self::resample`], for a part that has all of the plane's rows and keeps their number.
    pub(crate) fn resample_rows(
        &mut self,
        resizer: &mut Resizer,
        (to, width): (&mut [u8], u32),
        part: CropRect,
    ) -> Result<(), RenderError> {
        self.resample_along_rows(resizer, (0, self.height), width, part)?;
        deinterleave_rows(&self.fours, to, width as usize);
        Ok(())
    }

    /// Resizes the rows from `first`, where a band of four must begin, to `last`, into `fours`.
    fn resample_along_rows(
        &mut self,
        resizer: &mut Resizer,
        (first, last): (u32, u32),
        width: u32,
        part: CropRect,
    ) -> Result<(), RenderError> {
        let bands = last.div_ceil(4) - first / 4;
        let stride = self.width as usize * 4;
        let start = (first / 4) as usize * stride;
        let source = &self.bytes[start..start + bands as usize * stride];
        self.fours.resize(width as usize * bands as usize * 4, 0);
        let bands_part = CropRect {
            top: 0.0,
            height: f64::from(bands),
            ..part
        };
        resize::rgba(
            resizer,
            (source, (self.width, bands)),
            (&mut self.fours, (width, bands)),
            FilterType::CatmullRom,
            Some(bands_part),
        )?;
        Ok(())
    }

    /// The rows that the filter reads, beginning at a whole band.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the plane"
    )]
    fn reach(&self, part: CropRect, height: u32) -> (u32, u32) {
        // A Catmull-Rom kernel reaches two pixels of the coarser side; one more is for rounding.
        let kernel_reach = 2.0 * (part.height / f64::from(height)).max(1.0) + 1.0;
        let limit = f64::from(self.height);
        let first = (part.top - kernel_reach).floor().clamp(0.0, limit - 1.0) as u32 / 4 * 4;
        let last = (part.top + part.height + kernel_reach).ceil();
        (first, last.clamp(f64::from(first) + 1.0, limit) as u32)
    }
}

/// Separates bands of four interleaved rows into single rows, as many as fit.
fn deinterleave_rows(fours: &[u8], rows: &mut [u8], width: usize) {
    let bands = fours.chunks_exact(width * 4);
    for (band, rows) in bands.zip(rows.chunks_mut(width * 4)) {
        for (row, shift) in rows.chunks_exact_mut(width).zip([0, 8, 16, 24]) {
            for (byte, four) in row.iter_mut().zip(band.as_chunks().0) {
                #[expect(clippy::cast_possible_truncation, reason = "the last eight bits")]
                let value = (u32::from_le_bytes(*four) >> shift) as u8;
                *byte = value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_that_of_the_library() {
        for (width, height) in [(64_u32, 48_u32), (61, 47), (5, 3)] {
            // No value is so bright or dark that the filter's overshoot is clipped between the
            // passes: the clipped values depend on which pass comes first.
            let value = |i: u32| 64 + (i % width * 37 + i / width * 91) % 127;
            let plane: Vec<u8> = (0..width * height)
                .map(|i| u8::try_from(value(i)).unwrap())
                .collect();
            let (w, h) = (f64::from(width), f64::from(height));
            for (left, top, share) in [(0.0, 0.0, 1.0), (0.3, 0.6, 0.5), (0.45, 0.25, 0.55)] {
                let part = CropRect {
                    left: left * w,
                    top: top * h * 0.8,
                    width: w * share,
                    height: h * share * 0.9,
                };
                let size = (40, 30);
                let (mut actual, mut expected) = (vec![0; 1_200], vec![0; 1_200]);
                let mut resizer = Resizer::new();
                let filter = FilterType::CatmullRom;
                let whole = (plane.as_slice(), (width, height));
                resize::plane(&mut resizer, whole, (&mut expected, size), filter, part).unwrap();
                let mut quads = QuadPlane::new(&plane, (width, height));
                quads
                    .resample(&mut resizer, (&mut actual, size), part)
                    .unwrap();
                let difference = actual.iter().zip(&expected).map(|(a, b)| a.abs_diff(*b));
                let difference = difference.max().unwrap();
                assert!(
                    difference <= 1,
                    "{width}x{height} {left} {top}: {difference}"
                );
            }
        }
    }
}
