//! Running medians over many columns at once.
//!
//! Each column keeps its window sorted; a step takes the oldest value out and slides the newest in
//! by comparisons alone. Sixteen columns go side by side without a branch, so that the compiler
//! turns the loop into vector instructions. That is several times faster than a search in each
//! window.

use crate::parallel::{CancelCheck, WorkCancelled, fill_bands};
use crate::plane::SpectralPlane;

/// Columns that are filtered side by side.
const LANES: usize = 16;

type MedianLanes = [f32; LANES];

impl SpectralPlane {
    /// The median of the `length` (odd) values around each value, down its column. Rows beyond the
    /// edges are mirrored.
    pub(crate) fn median_over_time(
        &self,
        length: usize,
        stop: CancelCheck<'_>,
    ) -> Result<Self, WorkCancelled> {
        let mut out = Self::zeros(self.rows(), self.width());
        let width = self.width();
        fill_bands(out.values_mut(), width, |first, band| {
            let mut window = SortedWindow::new(length);
            for left in (0..width).step_by(LANES) {
                stop.check()?;
                let lanes = LANES.min(width - left);
                window.start(|i| self.lanes(first.cast_signed() + i, left));
                for (i, row) in band.chunks_exact_mut(width).enumerate() {
                    let middle = window.values[length / 2];
                    row[left..left + lanes].copy_from_slice(&middle[..lanes]);
                    let (t, half) = ((first + i).cast_signed(), (length / 2).cast_signed());
                    let (old, new) = (self.lanes(t - half, left), self.lanes(t + half + 1, left));
                    window.replace(&old, &new);
                }
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// The median of the `length` (odd) values around each value, along its row. Columns beyond the
    /// edges are mirrored.
    pub(crate) fn median_over_frequency(
        &self,
        length: usize,
        stop: CancelCheck<'_>,
    ) -> Result<Self, WorkCancelled> {
        Ok(self
            .transposed()
            .median_over_time(length, stop)?
            .transposed())
    }

    /// The values of the row `t` from the column `left` on. Rows beyond the edges are mirrored;
    /// columns beyond the last are zero.
    fn lanes(&self, t: isize, left: usize) -> MedianLanes {
        let count = self.rows().cast_signed();
        let mut t = t;
        while t < 0 || t >= count {
            t = if t < 0 { -1 - t } else { 2 * count - 1 - t };
        }
        let row = &self.row(t.cast_unsigned())[left..];
        let mut lanes = [0.0; LANES];
        match row.first_chunk::<LANES>() {
            Some(chunk) => lanes = *chunk,
            None => lanes[..row.len()].copy_from_slice(row),
        }
        lanes
    }
}

/// The values of each lane in the window, smallest first.
struct SortedWindow {
    values: Vec<MedianLanes>,
}

impl SortedWindow {
    fn new(length: usize) -> Self {
        Self {
            values: vec![[0.0; LANES]; length],
        }
    }

    /// Fills the window around position 0 with `value_at(-half..=half)`.
    fn start(&mut self, value_at: impl Fn(isize) -> MedianLanes) {
        let half = (self.values.len() / 2).cast_signed();
        // Infinities represent empty slots, which the first values replace one by one.
        self.values.fill([f32::INFINITY; LANES]);
        for i in -half..=half {
            self.replace(&[f32::INFINITY; LANES], &value_at(i));
        }
    }

    /// Removes one `old` value from each lane, which must contain it, and inserts `new`.
    fn replace(&mut self, old: &MedianLanes, new: &MedianLanes) {
        // One pass removes and inserts: `kept` walks through the window without `old`, and
        // `carried` is the new value until its position is found.
        let mut carried = *new;
        let last = self.values.len() - 1;
        for i in 0..last {
            let above = self.values[i + 1];
            let current = &mut self.values[i];
            for lane in 0..LANES {
                let kept = if current[lane] >= old[lane] {
                    above[lane]
                } else {
                    current[lane]
                };
                let x = carried[lane];
                current[lane] = if kept < x { kept } else { x };
                carried[lane] = if kept < x { x } else { kept };
            }
        }
        self.values[last] = carried;
    }
}

#[cfg(test)]
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "made-up signals are short and exact"
)]
mod tests {
    use super::*;

    fn noise(rows: usize, width: usize) -> SpectralPlane {
        let mut state = 7u32;
        let mut plane = SpectralPlane::zeros(rows, width);
        for x in plane.values_mut() {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *x = (state >> 26) as f32;
        }
        plane
    }

    #[test]
    fn medians_are_those_of_sorting() {
        for count in [1, 2, 5, 40, 200] {
            for length in [1, 3, 9, 17] {
                let plane = noise(count, 19);
                let fast = plane
                    .median_over_time(length, CancelCheck(&|| false))
                    .unwrap();
                let along = plane
                    .transposed()
                    .median_over_frequency(length, CancelCheck(&|| false));
                assert_eq!(along.unwrap().transposed(), fast);
                for i in 0..count {
                    let mut window: Vec<f32> = (0..length)
                        .map(|k| {
                            let mut index = i as isize + k as isize - length as isize / 2;
                            let n = count as isize;
                            while index < 0 || index >= n {
                                index = if index < 0 {
                                    -1 - index
                                } else {
                                    2 * n - 1 - index
                                };
                            }
                            plane.row(index as usize)[18]
                        })
                        .collect();
                    window.sort_by(f32::total_cmp);
                    assert_eq!(fast.row(i)[18], window[length / 2], "{count} {length} {i}");
                }
            }
        }
    }
}
