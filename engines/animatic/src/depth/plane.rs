//! Planes: small maps of one number per pixel, and the filters on them.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "positions within a small map"
)]

/// One number per pixel, rows from the top left.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FloatPlane {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) values: Vec<f32>,
}

impl FloatPlane {
    /// A plane of `value(x, y)`.
    pub(super) fn new(
        width: usize,
        height: usize,
        mut value: impl FnMut(usize, usize) -> f32,
    ) -> Self {
        let mut values = Vec::with_capacity(width * height);
        for y in 0..height {
            for x in 0..width {
                values.push(value(x, y));
            }
        }
        Self {
            width,
            height,
            values,
        }
    }

    pub(super) fn map(&self, function: impl Fn(f32) -> f32) -> Self {
        Self {
            width: self.width,
            height: self.height,
            values: self.values.iter().map(|v| function(*v)).collect(),
        }
    }

    /// Joins two planes of one size, pixel by pixel.
    pub(super) fn zip(&self, other: &Self, function: impl Fn(f32, f32) -> f32) -> Self {
        let pairs = self.values.iter().zip(&other.values);
        Self {
            width: self.width,
            height: self.height,
            values: pairs.map(|(a, b)| function(*a, *b)).collect(),
        }
    }

    /// Stretched to 0..1 between its 2nd and 98th percentile.
    pub(super) fn normalised(&self) -> Self {
        let mut sorted = self.values.clone();
        sorted.sort_unstable_by(f32::total_cmp);
        let percentile = |share: f32| {
            let last = sorted.len().saturating_sub(1);
            sorted
                .get((last as f32 * share) as usize)
                .copied()
                .unwrap_or(0.0)
        };
        // Percentiles and not the extremes: a single odd pixel would squeeze all others together.
        let (low, high) = (percentile(0.02), percentile(0.98));
        let range = (high - low).max(1e-6);
        self.map(|v| ((v - low) / range).clamp(0.0, 1.0))
    }

    /// The mean over a square of `2 * radius + 1`, cut off at the edges.
    pub(super) fn blurred(&self, radius: usize) -> Self {
        self.means_along_rows(radius)
            .transposed()
            .means_along_rows(radius)
            .transposed()
    }

    /// The largest value within a square of `2 * radius + 1`.
    pub(super) fn dilated(&self, radius: usize) -> Self {
        let dilate_rows = |plane: &Self| {
            Self::new(plane.width, plane.height, |x, y| {
                let row = &plane.values[y * plane.width..(y + 1) * plane.width];
                let window = &row[x.saturating_sub(radius)..(x + radius + 1).min(plane.width)];
                window.iter().copied().fold(0.0, f32::max)
            })
        };
        dilate_rows(&dilate_rows(self).transposed()).transposed()
    }

    /// The value at a position, `u` and `v` from 0 to 1 across the plane, interpolated.
    #[inline]
    pub(super) fn sample_at(&self, u: f32, v: f32) -> f32 {
        let last = (self.width - 1, self.height - 1);
        let x = (u * self.width as f32 - 0.5).clamp(0.0, last.0 as f32);
        let y = (v * self.height as f32 - 0.5).clamp(0.0, last.1 as f32);
        let (left, top) = (x as usize, y as usize);
        let (right, below) = ((left + 1).min(last.0), (top + 1).min(last.1));
        let (fx, fy) = (x - left as f32, y - top as f32);
        let value = |x: usize, y: usize| self.values[y * self.width + x];
        let upper = value(left, top) + (value(right, top) - value(left, top)) * fx;
        let lower = value(left, below) + (value(right, below) - value(left, below)) * fx;
        upper + (lower - upper) * fy
    }

    fn means_along_rows(&self, radius: usize) -> Self {
        let mut values = Vec::with_capacity(self.values.len());
        for row in self.values.chunks_exact(self.width) {
            // A running sum in double precision: in single precision its errors would add up along
            // the row.
            let mut sum: f64 = row.iter().take(radius).map(|v| f64::from(*v)).sum();
            for x in 0..row.len() {
                if let Some(entering) = row.get(x + radius) {
                    sum += f64::from(*entering);
                }
                if x > radius {
                    sum -= f64::from(row[x - radius - 1]);
                }
                let count = (x + radius + 1).min(row.len()) - x.saturating_sub(radius);
                values.push((sum / count as f64) as f32);
            }
        }
        Self {
            width: self.width,
            height: self.height,
            values,
        }
    }

    fn transposed(&self) -> Self {
        Self::new(self.height, self.width, |x, y| {
            self.values[x * self.width + y]
        })
    }
}

/// The result of a guided filter: near each pixel it is `slope * guide + offset`, so it can be
/// evaluated at a finer size than it was computed at.
///
/// Kaiming He, Jian Sun: "Guided Image Filtering" (2010) and "Fast Guided Filter" (2015).
pub(super) struct GuidedFilter {
    pub(super) slope: FloatPlane,
    pub(super) offset: FloatPlane,
}

impl GuidedFilter {
    /// Fits `plane` to the edges of `guide`; `softness` is the variance that counts as flat.
    pub(super) fn new(
        plane: &FloatPlane,
        guide: &FloatPlane,
        radius: usize,
        softness: f32,
    ) -> Self {
        let (plane_mean, guide_mean) = (plane.blurred(radius), guide.blurred(radius));
        let cross = plane.zip(guide, |p, g| p * g).blurred(radius);
        let square = guide.map(|g| g * g).blurred(radius);
        let covariance = cross.zip(&plane_mean.zip(&guide_mean, |a, b| a * b), |a, b| a - b);
        let variance = square.zip(&guide_mean, |s, m| s - m * m);
        // The paper's linear model in each window: slope and offset that map the guide to the
        // plane. Rounding can make the variance of a flat window negative.
        let slope = covariance.zip(&variance, |c, v| c / (v.max(0.0) + softness));
        let offset = plane_mean.zip(&slope.zip(&guide_mean, |s, m| s * m), |m, s| m - s);
        Self {
            // Many windows contain a pixel, so the paper takes the mean of their slopes and
            // offsets.
            slope: slope.blurred(radius),
            offset: offset.blurred(radius),
        }
    }

    /// The result at the size at which it was computed.
    pub(super) fn plane(&self, guide: &FloatPlane) -> FloatPlane {
        let sloped = self.slope.zip(guide, |s, g| s * g);
        sloped.zip(&self.offset, |s, o| s + o)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blur_keeps_a_constant_and_spreads_a_spike() {
        let flat = FloatPlane::new(9, 5, |_, _| 0.25);
        assert!(
            flat.blurred(3)
                .values
                .iter()
                .all(|v| (v - 0.25).abs() < 1e-6)
        );
        let spike = FloatPlane::new(9, 9, |x, y| f32::from(u8::from(x == 4 && y == 4)));
        let blurred = spike.blurred(1);
        assert!((blurred.sample_at(0.5, 0.5) - 1.0 / 9.0).abs() < 1e-6);
        assert!((spike.dilated(1).values.iter().sum::<f32>() - 9.0).abs() < 1e-6);
    }

    #[test]
    fn a_guided_filter_follows_the_guides_edge() {
        let guide = FloatPlane::new(40, 20, |x, _| f32::from(u8::from(x >= 20)));
        // The map's own edge is three pixels off.
        let plane = FloatPlane::new(40, 20, |x, _| f32::from(u8::from(x >= 23)));
        let result = GuidedFilter::new(&plane, &guide, 6, 1e-4).plane(&guide);
        let step = result.values[21] - result.values[18];
        assert!(step > 0.5, "{step}");
    }
}
