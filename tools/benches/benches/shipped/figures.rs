//! Figures of many measurements.

/// How figures are spread, in seconds.
pub(crate) struct DelaySpread {
    pub mean: f64,
    sorted: Vec<f64>,
}

impl DelaySpread {
    pub(crate) fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        Self {
            mean: figures.iter().sum::<f64>() / figures.len() as f64,
            sorted: figures,
        }
    }

    /// The figure at this percentile.
    pub(crate) fn at(&self, percent: usize) -> f64 {
        let index = (self.sorted.len() * percent / 100).min(self.sorted.len() - 1);
        self.sorted[index]
    }
}
