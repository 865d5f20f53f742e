//! Convolutions that halve a map and transposed ones that double it, as products of matrices.
//!
//! Both work on a few rows at a time, so that what they gather stays in the cache.

use super::weights::{KERNEL, KernelWeights};

/// A map of features: channel by channel, each row by row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FeatureMap {
    pub(super) channels: usize,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) values: Vec<f32>,
}

impl FeatureMap {
    pub(super) fn zeros(channels: usize, rows: usize, columns: usize) -> Self {
        Self {
            channels,
            rows,
            columns,
            values: vec![0.0; channels * rows * columns],
        }
    }

    /// The size of a channel.
    pub(super) const fn plane(&self) -> usize {
        self.rows * self.columns
    }

    pub(super) fn row(&self, channel: usize, row: usize) -> &[f32] {
        &self.values[(channel * self.rows + row) * self.columns..][..self.columns]
    }

    /// The channels of both maps, which have the same size.
    pub(super) fn joined(mut self, other: &Self) -> Self {
        self.values.extend_from_slice(&other.values);
        self.channels += other.channels;
        self
    }
}

/// Sums to add up at once, so that what one product needs fits in the cache of a core.
const CACHED: usize = 1 << 18;

/// Columns below which the kernel's own way into the cache costs more than the product.
const MIN_PRODUCT: usize = 512;

/// A convolution that halves rows and columns: a kernel of 5 x 5 in steps of two, with one zero
/// before the map and two after it.
pub(super) fn halve(map: &FeatureMap, weights: &KernelWeights) -> FeatureMap {
    let outputs = weights.bias.len();
    let mut result = FeatureMap::zeros(outputs, map.rows / 2, map.columns / 2);
    let (plane, columns) = (result.plane(), result.columns);
    for (channel, bias) in weights.bias.iter().enumerate() {
        result.values[channel * plane..][..plane].fill(*bias);
    }
    let depth = KERNEL * KERNEL * map.channels;
    let split = SplitColumns::new(map);
    let band = rows_at_once(depth, columns, result.rows);
    let mut gathered = vec![0.0; depth * band * columns];
    for first in (0..result.rows).step_by(band) {
        let rows = band.min(result.rows - first);
        let width = rows * columns;
        let gathered = &mut gathered[..depth * width];
        let mut gathered_rows = gathered.chunks_exact_mut(columns);
        for ky in 0..KERNEL {
            for kx in 0..KERNEL {
                for channel in 0..map.channels {
                    for row in first..first + rows {
                        if let Some(gathered_row) = gathered_rows.next() {
                            let source = (2 * row + ky).checked_sub(1);
                            match source.filter(|source| *source < map.rows) {
                                Some(source) => {
                                    gathered_row.copy_from_slice(split.taps(channel, source, kx));
                                }
                                None => gathered_row.fill(0.0),
                            }
                        }
                    }
                }
            }
        }
        add_product(
            MatrixView::transposed(&weights.kernel, outputs, depth),
            MatrixView::new(gathered, depth, width, width),
            &mut result.values[first * columns..],
            plane,
        );
    }
    result
}

/// A map whose even and odd columns lie apart, with a zero before and after each row, so that every
/// second column is one piece.
struct SplitColumns {
    even: FeatureMap,
    odd: FeatureMap,
    half: usize,
}

impl SplitColumns {
    fn new(map: &FeatureMap) -> Self {
        let half = map.columns / 2;
        let side = |offset: usize| {
            let mut side = FeatureMap::zeros(map.channels, map.rows, half + 2);
            let rows = side.values.chunks_exact_mut(half + 2);
            for (row, source) in rows.zip(map.values.chunks_exact(map.columns)) {
                for (value, pair) in row[1..].iter_mut().zip(source.as_chunks::<2>().0) {
                    *value = pair[offset];
                }
            }
            side
        };
        Self {
            even: side(0),
            odd: side(1),
            half,
        }
    }

    /// The values at a row's columns `2 j + kx - 1`.
    fn taps(&self, channel: usize, row: usize, kx: usize) -> &[f32] {
        // 2 j + kx - 1 is even for odd kx.
        let (side, start) = if kx % 2 == 1 {
            (&self.even, 1 + kx / 2)
        } else {
            (&self.odd, kx / 2)
        };
        &side.row(channel, row)[start..][..self.half]
    }
}

/// Rows of `columns` values that are worked on at once, out of `rows`.
fn rows_at_once(depth: usize, columns: usize, rows: usize) -> usize {
    let width = (CACHED / depth.max(1)).max(MIN_PRODUCT);
    (width / columns.max(1)).clamp(1, rows.max(1))
}

/// A transposed convolution that doubles rows and columns: what a kernel of 5 x 5 in steps of two
/// adds up, without its first row and column and its last two.
pub(super) fn double(map: &FeatureMap, weights: &KernelWeights) -> FeatureMap {
    let outputs = weights.bias.len();
    let depth = KERNEL * KERNEL * outputs;
    // Even and odd rows and columns are added up apart: then every sum is over whole rows.
    let phase = || FeatureMap::zeros(outputs, map.rows, map.columns);
    let mut phases = [[phase(), phase()], [phase(), phase()]];
    let band = rows_at_once(depth, map.columns, map.rows);
    let mut products = vec![0.0; depth * band * map.columns];
    for first in (0..map.rows).step_by(band) {
        let rows = band.min(map.rows - first);
        let width = rows * map.columns;
        let products = &mut products[..depth * width];
        products.fill(0.0);
        add_product(
            MatrixView::new(&weights.kernel, depth, map.channels, map.channels),
            MatrixView::new(
                &map.values[first * map.columns..],
                map.channels,
                width,
                map.plane(),
            ),
            products,
            width,
        );
        let mut product_rows = products.chunks_exact(map.columns);
        for ky in 0..KERNEL {
            for kx in 0..KERNEL {
                // The output's column is 2 j + kx - 1, so odd taps meet even columns.
                let target = &mut phases[(ky + 1) % 2][(kx + 1) % 2];
                for channel in 0..outputs {
                    for row in first..first + rows {
                        let product = product_rows.next().unwrap_or_default();
                        // The output's row is 2 i + ky - 1, of which this is half.
                        if let Some(row) = shifted(row, ky).filter(|row| *row < map.rows) {
                            let start = (channel * map.rows + row) * map.columns;
                            add_shifted(&mut target.values[start..][..map.columns], product, kx);
                        }
                    }
                }
            }
        }
    }
    interleave(&phases, &weights.bias)
}

/// Half of `2 index + tap - 1`, rounded down; `None` before the beginning.
const fn shifted(index: usize, tap: usize) -> Option<usize> {
    (index + tap.div_ceil(2)).checked_sub(1)
}

/// Adds a row that the tap moves by -1, 0 or 1.
fn add_shifted(target: &mut [f32], product: &[f32], tap: usize) {
    let (target, product) = match tap.div_ceil(2) {
        0 => (&mut target[..], &product[1..]),
        1 => (&mut target[..], product),
        _ => (&mut target[1..], product),
    };
    for (sum, value) in target.iter_mut().zip(product) {
        *sum += value;
    }
}

/// One map of the four phases, with each channel's bias added.
fn interleave(phases: &[[FeatureMap; 2]; 2], bias: &[f32]) -> FeatureMap {
    let [[even, _], _] = phases;
    let mut result = FeatureMap::zeros(even.channels, 2 * even.rows, 2 * even.columns);
    let (rows, columns) = (result.rows, result.columns);
    for (index, row) in result.values.chunks_exact_mut(columns).enumerate() {
        let (channel, index) = (index / rows, index % rows);
        let [even, odd] = &phases[index % 2];
        let (even, odd) = (even.row(channel, index / 2), odd.row(channel, index / 2));
        let pairs = row.as_chunks_mut::<2>().0.iter_mut();
        for ((pair, even), odd) in pairs.zip(even).zip(odd) {
            *pair = [even + bias[channel], odd + bias[channel]];
        }
    }
    result
}

/// A matrix in a slice.
#[derive(Clone, Copy)]
struct MatrixView<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> MatrixView<'a> {
    /// Row by row, `stride` values apart.
    const fn new(values: &'a [f32], rows: usize, columns: usize, stride: usize) -> Self {
        Self {
            values,
            rows,
            columns,
            row_stride: stride,
            column_stride: 1,
        }
    }

    /// Column by column, without gaps.
    const fn transposed(values: &'a [f32], rows: usize, columns: usize) -> Self {
        Self {
            values,
            rows,
            columns,
            row_stride: 1,
            column_stride: rows,
        }
    }

    const fn fits(&self) -> bool {
        let last_row = self.rows.saturating_sub(1) * self.row_stride;
        let last_column = self.columns.saturating_sub(1) * self.column_stride;
        last_row + last_column < self.values.len()
    }
}

/// Adds the product of two matrices to the rows in `sum`, which are `stride` values apart.
#[expect(unsafe_code, reason = "the product of matrixmultiply takes pointers")]
fn add_product(left: MatrixView<'_>, right: MatrixView<'_>, sum: &mut [f32], stride: usize) {
    let (rows, depth, columns) = (left.rows, left.columns, right.columns);
    assert!(left.fits() && right.fits() && right.rows == depth);
    assert!(columns <= stride && rows.saturating_sub(1) * stride + columns <= sum.len());
    // SAFETY: the assertions above show that every element of the three matrices lies in its slice,
    // and no two elements of `sum` are the same.
    unsafe {
        matrixmultiply::sgemm(
            rows,
            depth,
            columns,
            1.0,
            left.values.as_ptr(),
            left.row_stride.cast_signed(),
            left.column_stride.cast_signed(),
            right.values.as_ptr(),
            right.row_stride.cast_signed(),
            right.column_stride.cast_signed(),
            1.0,
            sum.as_mut_ptr(),
            stride.cast_signed(),
            1,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut number = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from((state >> 24) as u8) / 128.0 - 1.0
        };
        (0..count).map(|_| number()).collect()
    }

    fn map(channels: usize, rows: usize, columns: usize) -> FeatureMap {
        FeatureMap {
            values: numbers(channels * rows * columns, 5),
            ..FeatureMap::zeros(channels, rows, columns)
        }
    }

    fn weights(inputs: usize, outputs: usize) -> KernelWeights {
        KernelWeights {
            kernel: numbers(25 * inputs * outputs, 9),
            bias: numbers(outputs, 2),
        }
    }

    fn assert_near(found: &FeatureMap, expected: &FeatureMap) {
        assert_eq!(
            (found.rows, found.columns),
            (expected.rows, expected.columns)
        );
        for (found, expected) in found.values.iter().zip(&expected.values) {
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }

    /// Whether `2 * small + tap - 1` is `large`.
    fn meets(small: usize, tap: usize, large: usize) -> bool {
        2 * small + tap == large + 1
    }

    #[test]
    fn both_layers_do_what_their_definitions_say() {
        // The largest has several bands of rows.
        for (inputs, outputs, rows, columns) in [(1, 1, 2, 2), (3, 2, 6, 4), (2, 3, 8, 2_048)] {
            let (small, large) = (
                map(inputs, rows, columns),
                map(inputs, 2 * rows, 2 * columns),
            );
            let layer = weights(inputs, outputs);
            let mut halved = FeatureMap::zeros(outputs, rows, columns);
            let mut doubled = FeatureMap::zeros(outputs, 2 * rows, 2 * columns);
            for output in 0..outputs {
                halved.values[output * rows * columns..][..rows * columns].fill(layer.bias[output]);
                doubled.values[output * 4 * rows * columns..][..4 * rows * columns]
                    .fill(layer.bias[output]);
            }
            let pairs = |size: usize| {
                let all = (0..size).flat_map(|small| (0..5).map(move |tap| (small, tap)));
                all.filter_map(move |(small, tap)| {
                    let large = (0..2 * size).find(|large| meets(small, tap, *large))?;
                    Some((small, tap, large))
                })
            };
            for (y, ky, large_y) in pairs(rows) {
                for (x, kx, large_x) in pairs(columns) {
                    for output in 0..outputs {
                        for input in 0..inputs {
                            let tap = ky * 5 + kx;
                            let down = layer.kernel[(tap * inputs + input) * outputs + output];
                            halved.values[(output * rows + y) * columns + x] +=
                                down * large.row(input, large_y)[large_x];
                            let up = layer.kernel[(tap * outputs + output) * inputs + input];
                            doubled.values
                                [(output * 2 * rows + large_y) * 2 * columns + large_x] +=
                                up * small.row(input, y)[x];
                        }
                    }
                }
            }
            assert_near(&halve(&large, &layer), &halved);
            assert_near(&double(&small, &layer), &doubled);
        }
    }
}
