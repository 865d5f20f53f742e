//! The two small nets that turn a bin's cues into four shares that sum to one.
//!
//! They are plain feed-forward nets with rectifiers and a softmax at the end. Each bin is computed
//! on its own. The weights are in `weights.bin`: for each net and layer the matrix (a row for each
//! output), then the biases, as little-endian 32-bit floats. `examples/train` made them;
//! `training/README.md` describes the training data and the command.

use fearless_simd::prelude::*;
use fearless_simd::{Level, dispatch, f32x16};

use crate::cues::{self, CueRow};
use crate::stem::STEMS;

/// The sizes of each net's layers, from the cues to the shares.
pub(crate) const FIRST_NET_SIZES: &[usize] = &[cues::COUNT, 48, 16, STEMS];
pub(crate) const SECOND_NET_SIZES: &[usize] = &[cues::SECOND_COUNT, 64, 24, STEMS];

/// How many numbers a net of these sizes has.
pub(crate) const fn parameter_count(sizes: &[usize]) -> usize {
    let (mut total, mut layer) = (0, 1);
    while layer < sizes.len() {
        total += (sizes[layer - 1] + 1) * sizes[layer];
        layer += 1;
    }
    total
}

const WEIGHTS: &[u8] = include_bytes!("weights.bin");
const _: () = assert!(
    WEIGHTS.len() == 4 * (parameter_count(FIRST_NET_SIZES) + parameter_count(SECOND_NET_SIZES))
);

/// The weights of both nets that the crate ships.
pub(crate) fn shipped_weights() -> [Vec<f32>; 2] {
    let mut numbers = WEIGHTS
        .as_chunks::<4>()
        .0
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes));
    let first = numbers
        .by_ref()
        .take(parameter_count(FIRST_NET_SIZES))
        .collect();
    [first, numbers.collect()]
}

/// Bins that are computed side by side.
const LANES: usize = 16;
/// Outputs of a layer that are computed side by side.
const GROUP: usize = 4;

type BinLanes = [f32; LANES];

/// A net, ready to run on the widest vectors that this computer has. Products and sums are rounded
/// one by one on all of them, so that the shares do not depend on the width.
pub(crate) struct ShareNet {
    layers: Vec<NetLayer>,
    level: Level,
}

struct NetLayer {
    inputs: usize,
    /// For each group of outputs and each input, the group's weights.
    weights: Vec<[f32; GROUP]>,
    biases: Vec<[f32; GROUP]>,
}

impl ShareNet {
    /// Takes the numbers as they are in the file. Sizes after the first must be multiples of four.
    pub(crate) fn new(sizes: &[usize], numbers: &[f32]) -> Self {
        let mut rest = numbers;
        let layers = sizes.windows(2).map(|pair| {
            let (inputs, outputs) = (pair[0], pair[1]);
            let (matrix, tail) = rest.split_at(inputs * outputs);
            let (biases, tail) = tail.split_at(outputs);
            rest = tail;
            let weight = |group: usize, input: usize| {
                std::array::from_fn(|i| matrix[(group * GROUP + i) * inputs + input])
            };
            NetLayer {
                inputs,
                weights: (0..outputs / GROUP)
                    .flat_map(|group| (0..inputs).map(move |input| (group, input)))
                    .map(|(group, input)| weight(group, input))
                    .collect(),
                biases: biases.as_chunks().0.to_vec(),
            }
        });
        Self {
            layers: layers.collect(),
            level: Level::new(),
        }
    }

    /// Raises all shares to a power, before they are made to sum to one: the last layer outputs
    /// their logarithms.
    pub(crate) fn sharper(mut self, power: f32) -> Self {
        if let Some(last) = self.layers.last_mut() {
            let numbers = last.weights.iter_mut().chain(&mut last.biases).flatten();
            numbers.for_each(|x| *x *= power);
        }
        self
    }

    /// The shares of every bin of a frame: `out` is stem by stem, and bin by bin within.
    pub(crate) fn bin_shares(&self, cues: &CueRow, out: &mut [f32]) {
        dispatch!(self.level, simd => self.bin_shares_with(simd, cues, out));
    }

    /// Inlined all the way down, because only then may the compiler use the vector instructions of
    /// `S`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "`dispatch!` requires it")]
    fn bin_shares_with<S: Simd>(&self, simd: S, cues: &CueRow, out: &mut [f32]) {
        let bins = cues.bins();
        let mut current: Vec<BinLanes> = Vec::new();
        let mut next: Vec<BinLanes> = Vec::new();
        for left in (0..bins).step_by(LANES) {
            let count = LANES.min(bins - left);
            current.resize(cues.count(), [0.0; LANES]);
            for (cue, lanes) in current.iter_mut().enumerate() {
                lanes[..count].copy_from_slice(&cues.cue(cue)[left..left + count]);
            }
            for (i, layer) in self.layers.iter().enumerate() {
                next.resize(layer.biases.len() * GROUP, [0.0; LANES]);
                let rectify = i + 1 < self.layers.len();
                layer.run(simd, &current, &mut next, rectify);
                std::mem::swap(&mut current, &mut next);
            }
            softmax(&mut current);
            for (stem, lanes) in current.iter().enumerate() {
                out[stem * bins + left..][..count].copy_from_slice(&lanes[..count]);
            }
        }
    }
}

impl NetLayer {
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of `bin_shares_with`")]
    fn run<S: Simd>(&self, simd: S, inputs: &[BinLanes], outputs: &mut [BinLanes], rectify: bool) {
        let floor = f32x16::splat(simd, if rectify { 0.0 } else { f32::NEG_INFINITY });
        let groups = self.weights.chunks_exact(self.inputs).zip(&self.biases);
        for ((weights, biases), outputs) in groups.zip(outputs.as_chunks_mut::<GROUP>().0) {
            let mut sums = [floor; GROUP];
            for output in 0..GROUP {
                sums[output] = f32x16::splat(simd, biases[output]);
            }
            for (x, weights) in inputs.iter().zip(weights) {
                let x = f32x16::from_slice(simd, x);
                for output in 0..GROUP {
                    sums[output] += x * weights[output];
                }
            }
            for output in 0..GROUP {
                sums[output].max(floor).store_slice(&mut outputs[output]);
            }
        }
    }
}

fn softmax(stems: &mut [BinLanes]) {
    for lane in 0..LANES {
        // The largest is subtracted, so that no exponential overflows. The shares stay the same.
        let largest = stems
            .iter()
            .map(|s| s[lane])
            .fold(f32::NEG_INFINITY, f32::max);
        let mut total = 0.0;
        for stem in stems.iter_mut() {
            stem[lane] = (stem[lane] - largest).exp();
            total += stem[lane];
        }
        for stem in stems.iter_mut() {
            stem[lane] /= total;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computes_what_the_formula_says() {
        // Two inputs, a hidden layer of four with one output in use, four shares.
        let mut numbers = vec![0.0; parameter_count(&[2, 4, 4])];
        (numbers[0], numbers[1], numbers[8]) = (2.0, -1.0, 0.5);
        numbers[12] = 1.0; // share 0 from hidden 0
        let net = ShareNet::new(&[2, 4, 4], &numbers);
        let mut row = CueRow::new(2);
        row.cue_mut(0)[20] = 1.0;
        row.cue_mut(1)[21] = 3.0;
        let mut out = vec![0.0; STEMS * row.bins()];
        net.bin_shares(&row, &mut out);
        let share = |hidden: f32| hidden.exp() / (hidden.exp() + 3.0);
        let mut sharper = vec![0.0; out.len()];
        net.sharper(2.0).bin_shares(&row, &mut sharper);
        let squares: f32 = (0..STEMS).map(|s| out[s * row.bins() + 20].powi(2)).sum();
        assert!((sharper[20] - out[20].powi(2) / squares).abs() < 1e-6);
        for (bin, hidden) in [(20, 2.5), (21, 0.0), (22, 0.5), (2_048, 0.5)] {
            assert!((out[bin] - share(hidden)).abs() < 1e-6, "{bin}");
            let sum: f32 = (0..STEMS).map(|s| out[s * row.bins() + bin]).sum();
            assert!((sum - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn the_shipped_weights_are_numbers() {
        let [first, second] = shipped_weights();
        assert_eq!(
            (first.len(), second.len()),
            (
                parameter_count(FIRST_NET_SIZES),
                parameter_count(SECOND_NET_SIZES)
            )
        );
        assert!(first.iter().chain(&second).all(|w| w.abs() < 100.0));
    }
}
