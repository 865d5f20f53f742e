//! The spectral plane: one row of values for each frame, one column for each frequency bin.
//!
//! It offers the running means that the cues are made of; `median` adds the running medians.

use crate::parallel::{CancelCheck, WorkCancelled, fill_rows};

/// Rows of equal width in one piece of memory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SpectralPlane {
    width: usize,
    data: Vec<f32>,
}

impl SpectralPlane {
    pub(crate) fn zeros(rows: usize, width: usize) -> Self {
        Self {
            width,
            data: vec![0.0; rows * width],
        }
    }

    /// Fills each row by `fill(row index, row)`, on a few threads.
    pub(crate) fn build(
        rows: usize,
        width: usize,
        stop: CancelCheck<'_>,
        fill: impl Fn(usize, &mut [f32]) + Sync,
    ) -> Result<Self, WorkCancelled> {
        let mut data = vec![0.0; rows * width];
        fill_rows(&mut data, width, stop, fill)?;
        Ok(Self { width, data })
    }

    pub(crate) fn rows(&self) -> usize {
        self.data.len() / self.width.max(1)
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn values_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }

    pub(crate) fn row(&self, index: usize) -> &[f32] {
        &self.data[index * self.width..(index + 1) * self.width]
    }

    pub(crate) fn row_mut(&mut self, index: usize) -> &mut [f32] {
        &mut self.data[index * self.width..(index + 1) * self.width]
    }

    /// The row nearest to `index`, for neighbours that may lie outside.
    pub(crate) fn row_near(&self, index: isize) -> &[f32] {
        self.row(
            index
                .clamp(0, self.rows().cast_signed() - 1)
                .cast_unsigned(),
        )
    }

    /// The rows at most `reach` away from `index`, as far as there are any.
    pub(crate) fn near(&self, index: usize, reach: usize) -> std::ops::Range<usize> {
        index.saturating_sub(reach)..self.rows().min(index + reach + 1)
    }

    pub(crate) fn map(mut self, transform: impl Fn(f32) -> f32) -> Self {
        self.data.iter_mut().for_each(|x| *x = transform(*x));
        self
    }

    pub(crate) fn max(&self) -> f32 {
        self.data.iter().copied().fold(0.0, f32::max)
    }

    pub(crate) fn transposed(&self) -> Self {
        let (rows, width) = (self.rows(), self.width);
        let mut data = vec![0.0; self.data.len()];
        // In square tiles: a straight loop would touch a new cache line for every value.
        for top in (0..rows).step_by(TILE) {
            for left in (0..width).step_by(TILE) {
                for row in top..rows.min(top + TILE) {
                    for column in left..width.min(left + TILE) {
                        data[column * rows + row] = self.data[row * width + column];
                    }
                }
            }
        }
        Self { width: rows, data }
    }

    /// The mean of the `length` (odd) values around each value, along its row; edges are repeated.
    pub(crate) fn mean_over_frequency(
        &self,
        length: usize,
        stop: CancelCheck<'_>,
    ) -> Result<Self, WorkCancelled> {
        Self::build(self.rows(), self.width, stop, |index, out| {
            running_mean(self.row(index), length, out);
        })
    }

    pub(crate) fn mean_over_time(
        &self,
        length: usize,
        stop: CancelCheck<'_>,
    ) -> Result<Self, WorkCancelled> {
        Ok(self
            .transposed()
            .mean_over_frequency(length, stop)?
            .transposed())
    }
}

const TILE: usize = 32;

/// Running mean with repeated edges. The sum is kept in double precision, so that loud values that
/// leave the window cancel precisely enough before silence.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "short windows"
)]
pub(crate) fn running_mean(input: &[f32], length: usize, out: &mut [f32]) {
    let Some(last) = input.len().checked_sub(1) else {
        return;
    };
    let half = length / 2;
    let value_at = |i: usize| f64::from(input[i.saturating_sub(half).min(last)]);
    let mut sum: f64 = (0..length).map(value_at).sum();
    for (i, out) in out.iter_mut().enumerate() {
        *out = (sum / length as f64) as f32;
        sum += value_at(i + length) - value_at(i);
    }
}

#[cfg(test)]
#[expect(
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "made-up signals are short and exact"
)]
mod tests {
    use super::*;

    fn noise(count: usize) -> Vec<f32> {
        let mut state = 7u32;
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as f32
            })
            .collect()
    }

    #[test]
    fn means_repeat_their_edges() {
        let mut out = [0.0; 4];
        running_mean(&[3.0, 0.0, 0.0, 6.0], 3, &mut out);
        assert_eq!(out, [2.0, 1.0, 2.0, 4.0]);
        running_mean(&[-3.0, 0.0, 0.0, 6.0], 3, &mut out);
        assert_eq!(out, [-2.0, -1.0, 2.0, 4.0]);
    }

    #[test]
    fn transposing_twice_changes_nothing() {
        let plane = SpectralPlane {
            width: 37,
            data: noise(37 * 70),
        };
        assert_eq!(plane.transposed().transposed(), plane);
        assert_eq!(plane.transposed().row(3)[5], plane.row(5)[3]);
    }
}
