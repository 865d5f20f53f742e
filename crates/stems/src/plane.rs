//! A picture of a sound: one row of values for each frame, one column for each frequency bin.
//!
//! It offers the running means and medians that the cues are made of, along a row; whoever wants
//! them along time turns the plane around first, filters, and turns it back.

use crate::parallel::{Stop, Stopped, fill_rows};

/// Rows of equal width in one piece of memory.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plane {
    width: usize,
    data: Vec<f32>,
}

impl Plane {
    /// Fills each row by `fill(row index, row)`, on a few threads.
    pub(crate) fn build(
        rows: usize,
        width: usize,
        stop: Stop<'_>,
        fill: impl Fn(usize, &mut [f32]) + Sync,
    ) -> Result<Self, Stopped> {
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

    pub(crate) fn row(&self, at: usize) -> &[f32] {
        &self.data[at * self.width..(at + 1) * self.width]
    }

    /// The row nearest to `at`, for neighbours that may lie outside.
    pub(crate) fn row_near(&self, at: isize) -> &[f32] {
        self.row(at.clamp(0, self.rows().cast_signed() - 1).cast_unsigned())
    }

    pub(crate) fn map(mut self, change: impl Fn(f32) -> f32) -> Self {
        self.data.iter_mut().for_each(|x| *x = change(*x));
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

    /// The mean of `length` (odd) values around each along its row; edges are repeated.
    pub(crate) fn mean_along(&self, length: usize, stop: Stop<'_>) -> Result<Self, Stopped> {
        Self::build(self.rows(), self.width, stop, |at, out| {
            mean(self.row(at), length, out);
        })
    }

    pub(crate) fn mean_over_time(&self, length: usize, stop: Stop<'_>) -> Result<Self, Stopped> {
        Ok(self.transposed().mean_along(length, stop)?.transposed())
    }

    /// The median of `length` (odd) values around each along its row; edges are mirrored.
    pub(crate) fn median_along(&self, length: usize, stop: Stop<'_>) -> Result<Self, Stopped> {
        Self::build(self.rows(), self.width, stop, |at, out| {
            median(self.row(at), length, out);
        })
    }

    pub(crate) fn median_over_time(&self, length: usize, stop: Stop<'_>) -> Result<Self, Stopped> {
        Ok(self.transposed().median_along(length, stop)?.transposed())
    }
}

const TILE: usize = 32;

/// Running mean with repeated edges. The sum is kept in double precision, because what is added
/// when loud must cancel exactly enough when it leaves and silence follows.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "short windows"
)]
pub(crate) fn mean(input: &[f32], length: usize, out: &mut [f32]) {
    let Some(last) = input.len().checked_sub(1) else {
        return;
    };
    let half = length / 2;
    let at = |i: usize| f64::from(input[i.saturating_sub(half).min(last)]);
    let mut sum: f64 = (0..length).map(at).sum();
    for (i, out) in out.iter_mut().enumerate() {
        *out = (sum / length as f64) as f32;
        sum += at(i + length) - at(i);
    }
}

/// Running median with mirrored edges: a sorted window in which each step replaces one value.
pub(crate) fn median(input: &[f32], length: usize, out: &mut [f32]) {
    let count = input.len();
    if count == 0 {
        return;
    }
    let half = (length / 2).cast_signed();
    let at = |i: isize| {
        let i = i.rem_euclid(2 * count.cast_signed()).cast_unsigned();
        input[if i < count { i } else { 2 * count - 1 - i }]
    };
    let mut window: Vec<f32> = (-half..=half).map(at).collect();
    window.sort_unstable_by(f32::total_cmp);
    let middle = window.len() / 2;
    for (i, out) in (0isize..).zip(out) {
        *out = window[middle];
        replace(&mut window, at(i - half), at(i + half + 1));
    }
}

/// Takes `old` out of the sorted window and puts `new` in, moving only what lies between.
fn replace(window: &mut [f32], old: f32, new: f32) {
    let from = window.partition_point(|x| x.total_cmp(&old).is_lt());
    let to = window.partition_point(|x| x.total_cmp(&new).is_lt());
    if to > from {
        window.copy_within(from + 1..to, from);
        window[to - 1] = new;
    } else {
        window.copy_within(to..from, to + 1);
        window[to] = new;
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
    fn medians_are_those_of_sorting() {
        for count in [1, 2, 5, 40] {
            for length in [1, 3, 9, 17] {
                let input = noise(count);
                let mut fast = vec![0.0; count];
                median(&input, length, &mut fast);
                for (i, &fast) in fast.iter().enumerate() {
                    let mut window: Vec<f32> = (0..length)
                        .map(|k| {
                            let mut at = i as isize + k as isize - length as isize / 2;
                            let n = count as isize;
                            while at < 0 || at >= n {
                                at = if at < 0 { -1 - at } else { 2 * n - 1 - at };
                            }
                            input[at as usize]
                        })
                        .collect();
                    window.sort_by(f32::total_cmp);
                    assert_eq!(fast, window[length / 2], "{count} {length} {i}");
                }
            }
        }
    }

    #[test]
    fn means_repeat_their_edges() {
        let mut out = [0.0; 4];
        mean(&[3.0, 0.0, 0.0, 6.0], 3, &mut out);
        assert_eq!(out, [2.0, 1.0, 2.0, 4.0]);
        mean(&[-3.0, 0.0, 0.0, 6.0], 3, &mut out);
        assert_eq!(out, [-2.0, -1.0, 2.0, 4.0]);
    }

    #[test]
    fn turning_twice_changes_nothing() {
        let plane = Plane {
            width: 37,
            data: noise(37 * 70),
        };
        assert_eq!(plane.transposed().transposed(), plane);
        assert_eq!(plane.transposed().row(3)[5], plane.row(5)[3]);
    }
}
