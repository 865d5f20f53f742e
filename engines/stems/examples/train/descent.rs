//! Trains a small feed-forward net by Adam (Kingma & Ba 2015), with gradients derived by hand.
//!
//! The loss of a clip and stem is the energy of the error over the energy of the stem, which is
//! what the signal-to-distortion ratio measures. Each loss is weighted by the inverse of its
//! current value, so that training improves the mean of the decibels.

use stems::training::{BinSample, parameter_count};

use crate::clips::Random;

/// Bins in one step.
const BATCH: usize = 8_192;
/// Bins in one run of the inner loops.
const LANES: usize = PIECE * PIECES;
/// Lanes that fit the registers, and how many such pieces a row has.
const PIECE: usize = 16;
const PIECES: usize = 8;
/// Rows that are computed side by side; every layer size but the number of cues is a multiple of
/// it.
const GROUP: usize = 4;
const STEMS: usize = 4;
/// Steps between two evaluations of each clip.
const EVALUATION_STEPS: usize = 300;

type Row = [[f32; PIECE]; PIECES];

/// Learns a net of these sizes and returns its numbers as the crate stores them.
pub(crate) fn train(sizes: &[usize], draws: &[BinSample], steps: usize) -> Vec<f32> {
    let mut random = Random(20_260);
    let mut weights = start(sizes, &mut random);
    let (mut first, mut second) = (vec![0.0f32; weights.len()], vec![0.0f32; weights.len()]);
    let mut importance = vec![[1.0f32; STEMS]; draws.len()];
    for step in 0..steps {
        if step % EVALUATION_STEPS == 0 {
            let ratios = evaluate(sizes, &weights, draws);
            report(step, &ratios);
            importance = inverse(&ratios);
        }
        let picks: Vec<(usize, usize)> = (0..BATCH)
            .map(|_| {
                let draw = random.next() as usize % draws.len();
                (draw, random.next() as usize % draws[draw].weights.len())
            })
            .collect();
        // Always in two halves, so that sums and thus the weights are the same on every machine.
        let (lower, upper) = picks.split_at(BATCH / 2);
        let gradient = |picks: &[(usize, usize)]| {
            let mut worker = Worker::new(sizes);
            for picks in picks.chunks_exact(LANES) {
                worker.learn(&weights, draws, picks, &importance);
            }
            worker.gradient
        };
        let (mut total, other) = std::thread::scope(|scope| {
            let other = scope.spawn(|| gradient(upper));
            (gradient(lower), other.join().unwrap())
        });
        total
            .iter_mut()
            .zip(other)
            .for_each(|(x, y)| *x = (*x + y) / BATCH as f32);
        let progress = step as f32 / steps as f32;
        let warm_up = ((step + 1) as f32 / 200.0).min(1.0);
        // A warm-up, because Adam's estimates are poor at first, then half a cosine down to
        // nothing.
        let rate = 3e-3 * warm_up * (0.5 + 0.5 * (std::f32::consts::PI * progress).cos()) + 1e-6;
        // Both means start at zero; the paper's correction takes that out.
        let unbias = |beta: f32| 1.0 - beta.powi(step as i32 + 1);
        for (i, g) in total.into_iter().enumerate() {
            first[i] += 0.1 * (g - first[i]);
            second[i] += 0.001 * (g * g - second[i]);
            let mean = first[i] / unbias(0.9);
            weights[i] -= rate * mean / ((second[i] / unbias(0.999)).sqrt() + 1e-8);
        }
    }
    report(steps, &evaluate(sizes, &weights, draws));
    weights
}

/// He's initialisation: as much variance out of a layer as goes in.
fn start(sizes: &[usize], random: &mut Random) -> Vec<f32> {
    let mut weights = Vec::with_capacity(parameter_count(sizes));
    for pair in sizes.windows(2) {
        let scale = (2.0 / pair[0] as f64).sqrt();
        for _ in 0..pair[0] * pair[1] {
            let sum: f64 = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
            weights.push((scale * sum) as f32);
        }
        weights.extend(std::iter::repeat_n(0.0, pair[1]));
    }
    weights
}

/// The ratio of error to stem for each clip and stem, from a part of its bins.
fn evaluate(sizes: &[usize], weights: &[f32], draws: &[BinSample]) -> Vec<[f64; STEMS]> {
    let half = draws.len().div_ceil(2);
    let ratios = |draws: &[BinSample]| {
        let mut worker = Worker::new(sizes);
        draws
            .iter()
            .map(|draw| worker.ratios(weights, draw))
            .collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let second = scope.spawn(|| ratios(&draws[half..]));
        let mut ratios_of_all = ratios(&draws[..half]);
        ratios_of_all.extend(second.join().unwrap());
        ratios_of_all
    })
}

fn report(step: usize, ratios: &[[f64; STEMS]]) {
    let decibels: [f64; STEMS] = std::array::from_fn(|stem| {
        let sum: f64 = ratios.iter().map(|r| -10.0 * r[stem].log10()).sum();
        sum / ratios.len() as f64
    });
    let mean = decibels.iter().sum::<f64>() / 4.0;
    eprintln!("step {step}: {decibels:.2?} dB, mean {mean:.2}");
}

fn inverse(ratios: &[[f64; STEMS]]) -> Vec<[f32; STEMS]> {
    ratios
        .iter()
        // The slope of a ratio's logarithm is its inverse. The constant keeps clips that are solved
        // from weighing too much.
        .map(|r| r.map(|ratio| (0.25 / (ratio + 0.02)) as f32))
        .collect()
}

struct Worker<'a> {
    sizes: &'a [usize],
    /// The values of each layer, the cues first; row by row.
    values: Vec<Vec<Row>>,
    /// The derivatives of the loss by the values of each layer.
    slopes: Vec<Vec<Row>>,
    gradient: Vec<f32>,
}

impl<'a> Worker<'a> {
    fn new(sizes: &'a [usize]) -> Self {
        let rows: Vec<Vec<Row>> = sizes
            .iter()
            .map(|n| vec![[[0.0; PIECE]; PIECES]; *n])
            .collect();
        Self {
            sizes,
            values: rows.clone(),
            slopes: rows,
            gradient: vec![0.0; parameter_count(sizes)],
        }
    }

    fn load(&mut self, draws: &[BinSample], picks: impl Iterator<Item = (usize, usize)>) {
        let cues = self.sizes[0];
        for (lane, (draw, bin)) in picks.enumerate() {
            let source = &draws[draw].cues[bin * cues..(bin + 1) * cues];
            for (row, cue) in self.values[0].iter_mut().zip(source) {
                row[lane / PIECE][lane % PIECE] = f32::from(*cue) / 32_767.0;
            }
        }
    }

    fn forward(&mut self, weights: &[f32]) {
        let mut start = 0;
        for layer in 1..self.sizes.len() {
            let (inputs, outputs) = (self.sizes[layer - 1], self.sizes[layer]);
            let (matrix, biases) = weights[start..].split_at(inputs * outputs);
            let matrix = pack_weights(outputs, inputs, |o, i| matrix[o * inputs + i]);
            let biases = &biases[..outputs];
            start += (inputs + 1) * outputs;
            let (before, after) = self.values.split_at_mut(layer);
            let last = layer + 1 == self.sizes.len();
            forward_layer(&before[layer - 1], &mut after[0], &matrix, biases, !last);
        }
        softmax(self.values.last_mut().unwrap());
    }

    fn learn(
        &mut self,
        weights: &[f32],
        draws: &[BinSample],
        picks: &[(usize, usize)],
        importance: &[[f32; STEMS]],
    ) {
        self.load(draws, picks.iter().copied());
        self.forward(weights);
        let (shares, slopes) = (self.values.last().unwrap(), self.slopes.last_mut().unwrap());
        for (lane, &(d, bin)) in picks.iter().enumerate() {
            let draw = &draws[d];
            let scale = draw.weights[bin] * draw.weights.len() as f32;
            let pull: [f32; STEMS] = std::array::from_fn(|s| {
                let relative = importance[d][s] * scale / (draw.energies[s] as f32 + 1e-9);
                2.0 * relative * (lane_value(shares, s, lane) - draw.targets[bin][s])
            });
            // `pull` is the loss's derivative by each share. The softmax turns it into the share
            // times the amount by which its pull exceeds the mean pull.
            let mean: f32 = (0..STEMS)
                .map(|s| pull[s] * lane_value(shares, s, lane))
                .sum();
            for s in 0..STEMS {
                slopes[s][lane / PIECE][lane % PIECE] =
                    lane_value(shares, s, lane) * (pull[s] - mean);
            }
        }
        self.backward(weights);
    }

    fn backward(&mut self, weights: &[f32]) {
        let mut end = weights.len();
        for layer in (1..self.sizes.len()).rev() {
            let (inputs, outputs) = (self.sizes[layer - 1], self.sizes[layer]);
            let start = end - (inputs + 1) * outputs;
            let (below, above) = self.slopes.split_at_mut(layer);
            let (values, gradient) = (&self.values[layer - 1], &mut self.gradient[start..end]);
            slopes_of_weights(&above[0], values, gradient);
            // The slopes over the cues themselves are not needed.
            if layer > 1 {
                let matrix = pack_weights(inputs, outputs, |i, o| weights[start + o * inputs + i]);
                backward_layer(&above[0], values, &mut below[layer - 1], &matrix);
            }
            end = start;
        }
    }

    fn ratios(&mut self, weights: &[f32], draw: &BinSample) -> [f64; STEMS] {
        let draws = std::slice::from_ref(draw);
        let bins: Vec<usize> = (0..draw.weights.len()).step_by(7).collect();
        let mut error = [0.0f64; STEMS];
        let mut used = 0.0;
        for bins in bins.chunks_exact(LANES) {
            self.load(draws, bins.iter().map(|bin| (0, *bin)));
            self.forward(weights);
            let shares = self.values.last().unwrap();
            for (lane, &bin) in bins.iter().enumerate() {
                used += 1.0;
                for s in 0..STEMS {
                    let difference = f64::from(lane_value(shares, s, lane) - draw.targets[bin][s]);
                    error[s] += f64::from(draw.weights[bin]) * difference * difference;
                }
            }
        }
        let scale = draw.weights.len() as f64 / used;
        std::array::from_fn(|s| (error[s] * scale + draw.residual[s]) / (draw.energies[s] + 1e-9))
    }
}

fn lane_value(rows: &[Row], row: usize, lane: usize) -> f32 {
    rows[row][lane / PIECE][lane % PIECE]
}

/// The weights of `GROUP` outputs side by side, for each input.
fn pack_weights(
    outputs: usize,
    inputs: usize,
    weight: impl Fn(usize, usize) -> f32,
) -> Vec<[f32; GROUP]> {
    let groups = (0..outputs / GROUP).flat_map(|group| (0..inputs).map(move |i| (group, i)));
    groups
        .map(|(group, i)| std::array::from_fn(|g| weight(group * GROUP + g, i)))
        .collect()
}

/// The weighted sums of rows, for one piece of their lanes.
fn sums(weights: &[[f32; GROUP]], rows: &[Row], piece: usize) -> [[f32; PIECE]; GROUP] {
    let mut sums = [[0.0f32; PIECE]; GROUP];
    for (row, weights) in rows.iter().zip(weights) {
        let x = &row[piece];
        for g in 0..GROUP {
            for lane in 0..PIECE {
                sums[g][lane] += weights[g] * x[lane];
            }
        }
    }
    sums
}

/// One layer, from its inputs to its outputs.
fn forward_layer(
    from: &[Row],
    to: &mut [Row],
    weights: &[[f32; GROUP]],
    biases: &[f32],
    rectify: bool,
) {
    let groups = weights
        .chunks_exact(from.len())
        .zip(biases.as_chunks::<GROUP>().0);
    for ((weights, biases), to) in groups.zip(to.as_chunks_mut::<GROUP>().0) {
        for piece in 0..PIECES {
            let sums = sums(weights, from, piece);
            for g in 0..GROUP {
                for lane in 0..PIECE {
                    let x = sums[g][lane] + biases[g];
                    to[g][piece][lane] = if rectify && x < 0.0 { 0.0 } else { x };
                }
            }
        }
    }
}

/// The slopes over a layer's inputs, from those over its outputs.
fn backward_layer(above: &[Row], values: &[Row], below: &mut [Row], weights: &[[f32; GROUP]]) {
    let groups = weights
        .chunks_exact(above.len())
        .zip(values.as_chunks::<GROUP>().0);
    for ((weights, values), below) in groups.zip(below.as_chunks_mut::<GROUP>().0) {
        for piece in 0..PIECES {
            let sums = sums(weights, above, piece);
            for g in 0..GROUP {
                for lane in 0..PIECE {
                    let is_active = values[g][piece][lane] > 0.0;
                    below[g][piece][lane] = if is_active { sums[g][lane] } else { 0.0 };
                }
            }
        }
    }
}

/// Adds the slopes over a layer's weights and biases.
fn slopes_of_weights(above: &[Row], values: &[Row], gradient: &mut [f32]) {
    let (matrix, biases) = gradient.split_at_mut(above.len() * values.len());
    for (slope, (row, bias)) in above
        .iter()
        .zip(matrix.chunks_exact_mut(values.len()).zip(biases))
    {
        for (x, out) in values.iter().zip(row) {
            *out += dot(slope, x);
        }
        *bias += slope.iter().flatten().sum::<f32>();
    }
}

fn dot(a: &Row, b: &Row) -> f32 {
    let mut sums = [0.0f32; PIECE];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..PIECE {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let (low, high) = sums.split_at(PIECE / 2);
    low.iter().zip(high).map(|(x, y)| x + y).sum()
}

fn softmax(rows: &mut [Row]) {
    for lane in 0..LANES {
        let (piece, lane) = (lane / PIECE, lane % PIECE);
        let largest = rows
            .iter()
            .map(|r| r[piece][lane])
            .fold(f32::NEG_INFINITY, f32::max);
        let total: f32 = rows.iter().map(|r| (r[piece][lane] - largest).exp()).sum();
        for row in rows.iter_mut() {
            row[piece][lane] = (row[piece][lane] - largest).exp() / total;
        }
    }
}
