//! The video embedder: marks frames, stronger where there is texture, within [`MIN_PSNR`]. This
//! module knows nothing of how the mark is read.

use super::code::encode;
use super::pattern::{CELLS_ALONG_SHORT_SIDE, SIDE, VideoTileLayout};
use super::{MIN_PSNR, MarkKey, WatermarkError, check_plane, check_size};

/// Side of the squares that each have one strength.
const BLOCK: usize = 16;
/// The value of 1 in the pattern.
const UNIT: f32 = 64.0;
/// Strengths are in 1/16 of a level of luma.
const STEPS: f32 = 16.0;
/// Strength without texture, in levels.
const FLAT_STRENGTH: f32 = 1.8;
/// Added for each level of mean difference between neighbours.
const SLOPE: f32 = 0.35;
const MAX_STRENGTH: f32 = 4.0;
/// Differences that are added up for one square: 32 in each of two pairs of rows.
const DIFFERENCES_PER_SQUARE: f32 = 64.0;
/// Fraction of a cell over which it blends into the next one.
const BLEND_WIDTH: f32 = 0.6;

/// Marks the frames of one film.
pub struct VideoEmbedder {
    width: usize,
    height: usize,
    pattern: Vec<i8>,
    /// The mean square of the pattern, with `UNIT` as 1.
    power: f32,
    /// The strength in each square.
    strengths: Vec<i16>,
    /// The strength at each pixel of a row.
    spread: Vec<i16>,
    differences: Vec<u8>,
}

impl VideoEmbedder {
    /// Prepares the pattern for frames of this size. `media_id` has 40 bits.
    pub fn new(
        key: &MarkKey,
        media_id: u64,
        width: usize,
        height: usize,
    ) -> Result<Self, WatermarkError> {
        check_size(width, height)?;
        let tile = VideoTileLayout::for_key(key).tile(&encode(key, media_id)?);
        #[expect(clippy::cast_precision_loss, reason = "a side has at most 8192")]
        let cells = CELLS_ALONG_SHORT_SIDE as f32 / width.min(height) as f32;
        let columns = blends(width, cells);
        let rows = blends(height, cells);
        let mut pattern = Vec::with_capacity(width * height);
        for row in &rows {
            for column in &columns {
                let cell_value =
                    |y: usize, x: usize| tile.get(y * SIDE + x).copied().unwrap_or(0.0);
                let upper = cell_value(row.cell, column.cell) * (1.0 - column.next_share)
                    + cell_value(row.cell, column.next) * column.next_share;
                let lower = cell_value(row.next, column.cell) * (1.0 - column.next_share)
                    + cell_value(row.next, column.next) * column.next_share;
                let value = upper * (1.0 - row.next_share) + lower * row.next_share;
                #[expect(clippy::cast_possible_truncation, reason = "between -64 and 64")]
                pattern.push((value * UNIT).round() as i8);
            }
        }
        let sum: f64 = pattern.iter().map(|value| f64::from(*value).powi(2)).sum();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            reason = "a mean of squares of 64 at most"
        )]
        let power = (sum / pattern.len() as f64) as f32 / (UNIT * UNIT);
        Ok(Self {
            width,
            height,
            pattern,
            power,
            strengths: vec![0; width.div_ceil(BLOCK) * height.div_ceil(BLOCK)],
            spread: vec![0; width],
            differences: vec![0; width],
        })
    }

    /// Adds the mark to a plane of 8-bit luma, `stride` bytes a row.
    pub fn mark(&mut self, luma: &mut [u8], stride: usize) -> Result<(), WatermarkError> {
        check_plane(self.width, self.height, stride, luma.len())?;
        let blocks = self.width.div_ceil(BLOCK);
        let bands = luma
            .chunks(stride * BLOCK)
            .zip(self.strengths.chunks_mut(blocks));
        for (band, strengths) in bands {
            textures(band, self.width, stride, &mut self.differences, strengths);
        }
        self.set_strengths();
        let bands = luma
            .chunks_mut(stride * BLOCK)
            .zip(self.strengths.chunks(blocks));
        let patterns = self.pattern.chunks(self.width * BLOCK);
        for ((band, strengths), pattern) in bands.zip(patterns) {
            for (spread, strength) in self.spread.chunks_mut(BLOCK).zip(strengths) {
                spread.fill(*strength);
            }
            for (row, pattern) in band.chunks_mut(stride).zip(pattern.chunks(self.width)) {
                add(row, pattern, &self.spread);
            }
        }
        Ok(())
    }

    /// Computes the strengths from the textures, and weakens all of them if [`MIN_PSNR`] requires
    /// it.
    fn set_strengths(&mut self) {
        let ideal_strength = |texture: i16| {
            (FLAT_STRENGTH + SLOPE * f32::from(texture) / DIFFERENCES_PER_SQUARE).min(MAX_STRENGTH)
        };
        let squares: f32 = self
            .strengths
            .iter()
            .map(|texture| ideal_strength(*texture).powi(2))
            .sum();
        #[expect(clippy::cast_precision_loss, reason = "a million squares at most")]
        let power = squares / self.strengths.len() as f32 * self.power;
        // Rounding adds up to a twelfth of a level squared. Five per cent are in reserve, because
        // the mean over the squares ignores which part of the pattern each has.
        let max_power = 255.0f32.powi(2) / 10.0f32.powf(MIN_PSNR / 10.0) * 0.95 - 1.0 / 12.0;
        let scale = (max_power / power.max(f32::EPSILON)).sqrt().min(1.0) * STEPS;
        for strength in &mut self.strengths {
            #[expect(clippy::cast_possible_truncation, reason = "at most 64")]
            {
                *strength = (ideal_strength(*strength) * scale) as i16;
            }
        }
    }
}

/// The two cells between which a row or column lies, and the blend of them.
struct CellBlend {
    cell: usize,
    next: usize,
    next_share: f32,
}

fn blends(pixels: usize, cells: f32) -> Vec<CellBlend> {
    (0..pixels)
        .map(|pixel| {
            #[expect(clippy::cast_precision_loss, reason = "a side has at most 8192")]
            let position = (pixel as f32 + 0.5) * cells;
            let fraction = position.fract();
            // Flat in the middle of a cell, and half of each at its edge.
            let next_share = ((fraction - (1.0 - BLEND_WIDTH)) / BLEND_WIDTH).clamp(0.0, 1.0);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "not negative, and at most 8192"
            )]
            let cell = position as usize % SIDE;
            CellBlend {
                cell,
                next: (cell + 1) % SIDE,
                next_share,
            }
        })
        .collect()
}

/// Computes the sum of differences between neighbours for each square of a band, in two pairs of
/// its rows.
///
/// This and [`add`] run over whole rows, without inner loops over squares, so that the compiler
/// vectorises them.
fn textures(band: &[u8], width: usize, stride: usize, differences: &mut [u8], sums: &mut [i16]) {
    sums.fill(0);
    // Two pairs of rows represent the sixteen rows of a square; all of them would cost several
    // times as much.
    for pair in [3, 11] {
        let mut rows = band.chunks(stride).skip(pair);
        let (Some(upper), Some(lower)) = (rows.next(), rows.next()) else {
            break;
        };
        let (Some(upper), Some(lower)) = (upper.get(..width), lower.get(..width)) else {
            break;
        };
        let next = upper.get(1..).unwrap_or_default();
        for (((difference, value), next), lower) in
            differences.iter_mut().zip(upper).zip(next).zip(lower)
        {
            *difference = value.abs_diff(*next).saturating_add(value.abs_diff(*lower));
        }
        for (sum, differences) in sums.iter_mut().zip(differences.chunks(BLOCK)) {
            let total: u16 = differences
                .iter()
                .map(|difference| u16::from(*difference))
                .sum();
            *sum = sum.saturating_add_unsigned(total);
        }
    }
}

fn add(row: &mut [u8], pattern: &[i8], strengths: &[i16]) {
    // The pattern is as wide as the frame; the row may be wider.
    for ((luma, pattern), strength) in row.iter_mut().zip(pattern).zip(strengths) {
        *luma = add_saturating(*luma, change(*pattern, *strength));
    }
}

/// The change in levels: a product of 64 times 64 at most, rounded by adding half a level.
#[inline]
fn change(pattern: i8, strength: i16) -> i8 {
    ((i16::from(pattern) * strength + 512) >> 10).to_le_bytes()[0].cast_signed()
}

/// Adds with saturation: as signed bytes, for which processors have an instruction.
#[inline]
fn add_saturating(luma: u8, change: i8) -> u8 {
    let shifted = (luma ^ 0x80).cast_signed();
    shifted.saturating_add(change).cast_unsigned() ^ 0x80
}
