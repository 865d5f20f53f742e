//! The tile's period, by autocorrelation: at multiples of the period, the picture resembles itself.
//! This module does not know the contents of the tile.

use super::fourier::PlaneSpectrum;
use super::pattern::{CELLS_ALONG_SHORT_SIDE, SIDE};
use super::video_detector::SHORT_SIDE;

/// Number of periods that are examined further.
const CANDIDATES: usize = 6;
/// Limits of the tile's size relative to an unchanged frame: the tile is smaller if something was
/// added around the frame, and larger if the frame was cropped.
const MIN_SCALE: f32 = 0.7;
const MAX_SCALE: f32 = 1.8;
/// Factor between neighbouring periods in the first search.
const STEP: f32 = 1.003;
/// Possible horizontal stretches of a film.
const STRETCH: [f32; 7] = [1.0, 0.99, 1.01, 0.98, 1.02, 0.97, 1.03];

/// Width and height of the tile in pixels.
pub(super) type TilePeriod = (f32, f32);

/// The likeliest periods, the best first.
pub(super) fn periods(plane: &[f32], width: usize, height: usize) -> Vec<TilePeriod> {
    let autocorrelation = PlaneAutocorrelation::from_plane(plane, width, height);
    #[expect(clippy::cast_precision_loss, reason = "small constants")]
    let nominal = (SHORT_SIDE * SIDE) as f32 / CELLS_ALONG_SHORT_SIDE as f32;
    let mut scored: Vec<(f32, TilePeriod)> = Vec::new();
    let mut period = nominal * MIN_SCALE;
    while period < nominal * MAX_SCALE {
        for stretch in STRETCH {
            let period = (period * stretch, period);
            scored.push((autocorrelation.score(period), period));
        }
        period *= STEP;
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut best: Vec<(f32, TilePeriod)> = Vec::new();
    for (_, period) in scored {
        let is_near = |other: &(f32, TilePeriod)| {
            (other.1.0 / period.0 - 1.0).abs() < 0.012 && (other.1.1 / period.1 - 1.0).abs() < 0.012
        };
        if best.len() < CANDIDATES && !best.iter().any(is_near) {
            best.push(autocorrelation.refine(period));
        }
    }
    best.into_iter().map(|(_, period)| period).collect()
}

struct PlaneAutocorrelation {
    width: usize,
    height: usize,
    /// Lags beyond these cannot be distinguished from negative ones, or are based on too few
    /// pixels.
    max_lag: (f32, f32),
    values: Vec<f32>,
}

impl PlaneAutocorrelation {
    fn from_plane(plane: &[f32], plane_width: usize, plane_height: usize) -> Self {
        // Twice the size, because a Fourier transform is circular: without the zeros, one edge of
        // the picture would be compared with the opposite one.
        let padded = |side: usize| (side * 2).next_power_of_two();
        let (width, height) = (padded(plane_width), padded(plane_height));
        let values = PlaneSpectrum::from_plane(plane, plane_width, width, height)
            .map(|value| value.norm_sqr().into())
            .into_plane();
        #[expect(clippy::cast_precision_loss, reason = "a small picture's sides")]
        let max_lag = (plane_width as f32 * 0.85, plane_height as f32 * 0.85);
        Self {
            width,
            height,
            max_lag,
            values,
        }
    }

    /// How much the plane resembles itself at this period's multiples, in standard deviations of
    /// pure noise.
    fn score(&self, (x, y): TilePeriod) -> f32 {
        let (mut sum, mut count) = (0.0, 0.0f32);
        for down in 0..=8u8 {
            for across in -8..=8i8 {
                let lag = (f32::from(across) * x, f32::from(down) * y);
                let is_counted_already = down == 0 && across <= 0;
                if !is_counted_already && lag.0.abs() <= self.max_lag.0 && lag.1 <= self.max_lag.1 {
                    sum += self.value_at(lag);
                    count += 1.0;
                }
            }
        }
        sum / count.max(1.0).sqrt()
    }

    fn value_at(&self, (x, y): (f32, f32)) -> f32 {
        let (left, top) = (x.floor(), y.floor());
        let (right_part, lower_part) = (x - left, y - top);
        #[expect(clippy::cast_possible_truncation, reason = "lags of a small picture")]
        let (left, top) = (left as isize, top as isize);
        let value = |dx: isize, dy: isize| {
            let (width, height) = (self.width.cast_signed(), self.height.cast_signed());
            let x = (left + dx).rem_euclid(width).cast_unsigned();
            let y = (top + dy).rem_euclid(height).cast_unsigned();
            self.values.get(y * self.width + x).copied().unwrap_or(0.0)
        };
        let upper = value(0, 0) * (1.0 - right_part) + value(1, 0) * right_part;
        let lower = value(0, 1) * (1.0 - right_part) + value(1, 1) * right_part;
        upper * (1.0 - lower_part) + lower * lower_part
    }

    /// Searches for the best period near this one, in decreasing steps.
    fn refine(&self, period: TilePeriod) -> (f32, TilePeriod) {
        let mut best = (self.score(period), period);
        let mut step = 0.002f32;
        while step > 0.000_1 {
            let centre = best.1;
            for (x, y) in [
                (1.0, 0.0),
                (-1.0, 0.0),
                (0.0, 1.0),
                (0.0, -1.0),
                (1.0, 1.0),
                (-1.0, -1.0),
            ] {
                let period = (centre.0 * (1.0 + x * step), centre.1 * (1.0 + y * step));
                let score = self.score(period);
                if score > best.0 {
                    best = (score, period);
                }
            }
            if best.1 == centre {
                step /= 2.0;
            }
        }
        best
    }
}
