//! Repetition cues: accompaniment returns at similar moments, singing varies.
//!
//! Z. Rafii & B. Pardo, "Music/voice separation using the similarity matrix" (REPET-SIM), 2012:
//! each frame is compared with the median of the frames most similar to it.

use crate::parallel::{CancelCheck, WorkCancelled};
use crate::plane::SpectralPlane;
use crate::stft::MAIN;

pub(super) struct RepetitionCues {
    /// The repeating part of the magnitude, 0..1.
    pub(super) all: SpectralPlane,
    /// The repeating part of the percussive sound only.
    pub(super) percussive: SpectralPlane,
}

impl RepetitionCues {
    pub(super) fn measure(
        amplitude: &SpectralPlane,
        harmonic: &SpectralPlane,
        stop: CancelCheck<'_>,
    ) -> Result<Self, WorkCancelled> {
        let all = repeating(amplitude, 15, 43, 0.0, stop)?;
        let hits = SpectralPlane::build(amplitude.rows(), amplitude.width(), stop, |t, row| {
            for ((out, a), h) in row.iter_mut().zip(amplitude.row(t)).zip(harmonic.row(t)) {
                *out = a * (1.0 - h).max(0.0).sqrt();
            }
        })?;
        Ok(Self {
            all,
            percussive: repeating(&hits, 9, 21, 0.0, stop)?,
        })
    }
}

/// The median of the `count` most similar frames divided by the frame itself: at most 1, and less
/// where the frame is not much above `floor`. Frames nearer than half of `gap` are excluded,
/// because every sound resembles itself a moment before.
pub(super) fn repeating(
    amplitude: &SpectralPlane,
    count: usize,
    gap: usize,
    floor: f32,
    stop: CancelCheck<'_>,
) -> Result<SpectralPlane, WorkCancelled> {
    let features = features(amplitude, stop)?;
    SpectralPlane::build(amplitude.rows(), amplitude.width(), stop, |t, row| {
        let mut similar_frames: Vec<Vec<f32>> = most_similar(&features, t, count, gap)
            .into_iter()
            .map(|frame| amplitude.row(frame).to_vec())
            .collect();
        let Some(median) = median_of(&mut similar_frames) else {
            // In a clip that is too short to repeat, the cue is neutral.
            row.fill(0.5);
            return;
        };
        for ((out, m), a) in row.iter_mut().zip(median).zip(amplitude.row(t)) {
            // The paper takes the lesser of median and mixture: the repeating part cannot be louder
            // than the whole.
            *out = if *a > 0.0 {
                (m / (a + floor)).min(a / (a + floor))
            } else {
                0.5
            };
        }
    })
}

/// The shape of each frame's spectrum in [`BANDS`] numbers of unit length.
#[expect(clippy::cast_precision_loss, reason = "widths of bands")]
fn features(
    amplitude: &SpectralPlane,
    stop: CancelCheck<'_>,
) -> Result<SpectralPlane, WorkCancelled> {
    let edges = band_edges();
    SpectralPlane::build(amplitude.rows(), BANDS, stop, |t, row| {
        let source = amplitude.row(t);
        for (out, edge) in row.iter_mut().zip(edges.windows(2)) {
            let band = &source[edge[0]..edge[1].max(edge[0] + 1)];
            *out = band.iter().map(|a| a.sqrt()).sum::<f32>() / (band.len() as f32).sqrt();
        }
        // With unit length the dot product is the cosine similarity of the paper's matrix.
        let length = row.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-12);
        for x in row {
            *x /= length;
        }
    })
}

const BANDS: usize = 96;

/// Bins 8 to 1200, so 86 Hz to 13 kHz, in equal steps of pitch.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "bins of a transform"
)]
fn band_edges() -> Vec<usize> {
    (0..=BANDS)
        .map(|i| (8.0 * 150f32.powf(i as f32 / BANDS as f32)).round() as usize)
        .map(|bin| bin.min(MAIN.bins() - 2))
        .collect()
}

/// The frames most like `t`: best first, none near `t` and no two next to each other.
fn most_similar(features: &SpectralPlane, t: usize, count: usize, gap: usize) -> Vec<usize> {
    let features_of_t = features.row(t);
    let mut similarities: Vec<f32> = (0..features.rows())
        .map(|other| {
            if t.abs_diff(other) <= gap / 2 {
                return f32::NEG_INFINITY;
            }
            dot(features_of_t, features.row(other))
        })
        .collect();
    let mut picks = Vec::with_capacity(count);
    while picks.len() < count {
        let best = similarities
            .iter()
            .copied()
            .fold(f32::NEG_INFINITY, f32::max);
        if best == f32::NEG_INFINITY {
            break;
        }
        let Some(pick) = similarities.iter().position(|&x| x >= best) else {
            break;
        };
        // Frames next to a pick resemble it anyway and would displace other moments.
        picks.push(pick);
        let end = similarities.len().min(pick + MIN_PICK_DISTANCE + 1);
        similarities[pick.saturating_sub(MIN_PICK_DISTANCE)..end].fill(f32::NEG_INFINITY);
    }
    picks
}

/// Picks lie more than this many frames from each other.
const MIN_PICK_DISTANCE: usize = 3;

/// Eight sums side by side, which the compiler turns into vector instructions; one running sum
/// would have to be added in order.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 8];
    for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum()
}

/// The median of rows, value by value. An odd-even transposition sort: it compares whole rows, so
/// that the inner loop has no branch and is vectorised.
fn median_of(rows: &mut [Vec<f32>]) -> Option<&[f32]> {
    let count = rows.len();
    for pass in 0..count {
        for i in (pass % 2..count.saturating_sub(1)).step_by(2) {
            let (low, high) = rows.split_at_mut(i + 1);
            for (a, b) in low[i].iter_mut().zip(high[0].iter_mut()) {
                (*a, *b) = (a.min(*b), a.max(*b));
            }
        }
    }
    rows.get(count / 2).map(Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_rows_is_per_column() {
        let mut rows = vec![vec![5.0, 1.0], vec![1.0, 2.0], vec![3.0, 9.0]];
        assert_eq!(median_of(&mut rows), Some([3.0, 2.0].as_slice()));
        assert_eq!(median_of(&mut []), None);
    }

    #[test]
    fn a_loop_repeats_and_a_surprise_does_not() {
        let loud = |t: usize, k: usize| if k / 40 == t % 10 { 1.0 } else { 0.01 };
        let plane = SpectralPlane::build(300, MAIN.bins(), CancelCheck(&|| false), |t, row| {
            row.iter_mut()
                .enumerate()
                .for_each(|(k, x)| *x = loud(t, k));
            if t == 150 {
                row[1_000] = 5.0;
            }
        });
        let repeat = repeating(&plane.unwrap(), 15, 43, 0.0, CancelCheck(&|| false)).unwrap();
        assert!(repeat.row(100)[20] > 0.99 && repeat.row(150)[1_000] < 0.1);
    }
}
