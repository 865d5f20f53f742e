//! Tile folding: folds the picture into one tile, finds where the tile begins, and reads its cells.
//! This module knows nothing of frames.

use dsp::Complex32;

use super::VideoMark;
use super::fourier::PlaneSpectrum;
use super::pattern::{CELLS, SIDE, VideoTileLayout};
use super::period::TilePeriod;

/// Samples per cell along a side of the folded tile.
const SAMPLES_PER_CELL: usize = 3;
const FOLDED_SIDE: usize = SIDE * SAMPLES_PER_CELL;
/// Number and size of the steps by which the period is varied around the one that was found.
const PERIOD_TRIES: i8 = 2;
const PERIOD_STEP: f32 = 0.000_5;
/// A position must stand out this far, in standard deviations.
const MIN_SCORE: f32 = 5.0;
/// The least [`similarity`] of a mark. Without one, the cells are independent of the key's signs,
/// so that Hoeffding's inequality bounds the chance of one tile at one position by
/// `exp(-CELLS * MIN_SIMILARITY² / 2)`, 4 in 10^27. There are 2^40 tiles of a key, 72² positions
/// and at most 150 periods that are folded: 3 in 10^9 for a film.
const MIN_SIMILARITY: f32 = 0.46;

/// Reads the tile at about this period.
pub(super) fn read(
    plane: &[f32],
    width: usize,
    period: TilePeriod,
    layout: &VideoTileLayout,
) -> Option<VideoMark> {
    let pilot = pilot(layout);
    let mut best: Option<(f32, usize, Vec<f32>, TilePeriod)> = None;
    // The period was found by its repetition alone. A small error in it smears the fold, so
    // neighbouring periods are tried too, and the pilot decides.
    for across in -PERIOD_TRIES..=PERIOD_TRIES {
        for down in -PERIOD_TRIES..=PERIOD_TRIES {
            let period = (
                period.0 * (1.0 + f32::from(across) * PERIOD_STEP),
                period.1 * (1.0 + f32::from(down) * PERIOD_STEP),
            );
            let folded = fold(plane, width, period);
            let (score, start) = position(&folded, &pilot);
            if best.as_ref().is_none_or(|best| score > best.0) {
                best = Some((score, start, folded, period));
            }
        }
    }
    let (score, start, folded, tile) = best?;
    if score < MIN_SCORE {
        return None;
    }
    let cells = cells(&folded, start);
    let decoded = layout.decode(&cells)?;
    if similarity(&cells, &layout.tile(&decoded.coded)) < MIN_SIMILARITY {
        return None;
    }
    Some(VideoMark {
        key_id: decoded.key_id,
        media_id: decoded.media_id,
        score,
        corrected: decoded.corrected,
        tile,
    })
}

/// The cosine of the angle between the cells read and a tile.
fn similarity(cells: &[f32; CELLS], tile: &[f32; CELLS]) -> f32 {
    let sum: f32 = cells.iter().zip(tile).map(|(cell, sign)| cell * sign).sum();
    let squares: f32 = cells.iter().map(|cell| cell * cell).sum();
    #[expect(clippy::cast_precision_loss, reason = "576")]
    let norm = (squares * CELLS as f32).sqrt();
    sum / norm.max(f32::MIN_POSITIVE)
}

/// The mean of all tiles.
fn fold(plane: &[f32], width: usize, period: TilePeriod) -> Vec<f32> {
    #[expect(
        clippy::cast_precision_loss,
        reason = "72, and a small picture's sides"
    )]
    let sample_index = |pixel: usize, period: f32| {
        let position = (pixel as f32 + 0.5) / period;
        let position = position.fract() * FOLDED_SIDE as f32;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and 72"
        )]
        {
            (position as usize).min(FOLDED_SIDE - 1)
        }
    };
    let columns: Vec<usize> = (0..width).map(|x| sample_index(x, period.0)).collect();
    let mut sums = vec![(0.0f32, 0.0f32); FOLDED_SIDE * FOLDED_SIDE];
    for (y, row) in plane.chunks_exact(width).enumerate() {
        let line = sample_index(y, period.1) * FOLDED_SIDE;
        let Some(sums) = sums.get_mut(line..line + FOLDED_SIDE) else {
            continue;
        };
        for (value, column) in row.iter().zip(&columns) {
            if let Some((sum, count)) = sums.get_mut(*column) {
                *sum += value;
                *count += 1.0;
            }
        }
    }
    sums.iter()
        .map(|(sum, count)| sum / count.max(1.0))
        .collect()
}

/// The pilot at the folded tile's size.
fn pilot(layout: &VideoTileLayout) -> PlaneSpectrum {
    let cells = layout.pilot();
    let mut plane = Vec::with_capacity(FOLDED_SIDE * FOLDED_SIDE);
    for y in 0..FOLDED_SIDE {
        for x in 0..FOLDED_SIDE {
            plane.push(
                cells
                    .get(y / SAMPLES_PER_CELL * SIDE + x / SAMPLES_PER_CELL)
                    .copied()
                    .unwrap_or(0.0),
            );
        }
    }
    PlaneSpectrum::from_plane(&plane, FOLDED_SIDE, FOLDED_SIDE, FOLDED_SIDE)
}

/// The position at which the pilot fits best, and how far it stands out. The folded tile's spectrum
/// is partly flattened, because repeating parts of the picture itself have few frequencies.
fn position(folded: &[f32], pilot: &PlaneSpectrum) -> (f32, usize) {
    let matched = PlaneSpectrum::from_plane(folded, FOLDED_SIDE, FOLDED_SIDE, FOLDED_SIDE)
        .zip_with(pilot, |value, pilot| {
            let norm = value.norm().sqrt();
            if norm > 0.0 {
                value / norm * pilot.conj()
            } else {
                Complex32::default()
            }
        })
        .into_plane();
    let (index, peak) = matched
        .iter()
        .enumerate()
        .max_by(|a, b| a.1.total_cmp(b.1))
        .map_or((0, 0.0), |(index, peak)| (index, *peak));
    #[expect(clippy::cast_precision_loss, reason = "5184")]
    let deviation =
        (matched.iter().map(|value| value * value).sum::<f32>() / matched.len() as f32).sqrt();
    (peak / deviation.max(f32::MIN_POSITIVE), index)
}

/// The value of each cell, of a tile that begins at sample `start`.
fn cells(folded: &[f32], start: usize) -> [f32; CELLS] {
    let (left, top) = (start % FOLDED_SIDE, start / FOLDED_SIDE);
    std::array::from_fn(|cell| {
        let (x, y) = (
            cell % SIDE * SAMPLES_PER_CELL + left,
            cell / SIDE * SAMPLES_PER_CELL + top,
        );
        let mut sum = 0.0;
        for down in 0..SAMPLES_PER_CELL {
            for across in 0..SAMPLES_PER_CELL {
                let sample = (y + down) % FOLDED_SIDE * FOLDED_SIDE + (x + across) % FOLDED_SIDE;
                sum += folded.get(sample).copied().unwrap_or(0.0);
            }
        }
        sum
    })
}
