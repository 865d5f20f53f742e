//! Temporal cues of bins and frames: attacks, decays, peaks, brightness.
//!
//! The measures are those of onset detection (Bello et al., "A tutorial on onset detection in music
//! signals", 2005), squashed by `tanh` so that no single one can dominate.

use super::row::{CueRow, at};
use crate::parallel::{CancelCheck, WorkCancelled};
use crate::plane::{SpectralPlane, running_mean};
use crate::stft::MAIN;

pub(super) struct ChangeCues {
    /// Logarithm of the magnitude.
    pub(super) log: SpectralPlane,
    /// `log`, smoothed over five bins.
    smooth: SpectralPlane,
    /// `log`, smoothed over a second.
    slow: SpectralPlane,
    frames: Vec<FrameChange>,
}

/// The changes of a whole frame.
#[derive(Clone, Copy, Default)]
struct FrameChange {
    loudness: f32,
    level: f32,
    onset: f32,
    tilt: f32,
}

/// How many frames before and after are compared to find a change: 70 ms.
const REACH: isize = 3;

impl ChangeCues {
    pub(super) fn measure(
        amplitude: &SpectralPlane,
        stop: CancelCheck<'_>,
    ) -> Result<Self, WorkCancelled> {
        // The constant lies below the noise of 16-bit sound. It keeps silence finite.
        let log = amplitude.clone().map(|a| (a + 1e-4).ln());
        let smooth = log.mean_over_frequency(5, stop)?;
        let slow = log.mean_over_time(43, stop)?;
        let frames = frames(amplitude, &smooth);
        Ok(Self {
            log,
            smooth,
            slow,
            frames,
        })
    }

    pub(super) fn fill(&self, t: usize, row: &mut CueRow) {
        let centre = t.cast_signed();
        let (now, before, after) = (
            self.smooth.row(t),
            self.smooth.row_near(centre - REACH),
            self.smooth.row_near(centre + REACH),
        );
        let mut wide = vec![0.0; MAIN.bins()];
        running_mean(self.log.row(t), 31, &mut wide);
        let frame = self.frames[t];
        for k in 0..MAIN.bins() {
            let log = self.log.row(t)[k];
            row.cue_mut(at::RISE)[k] = ((now[k] - before[k]) * 0.5).tanh();
            row.cue_mut(at::FALL)[k] = ((now[k] - after[k]) * 0.5).tanh();
            row.cue_mut(at::PEAK_F)[k] = ((log - wide[k]) * 0.5).tanh();
            row.cue_mut(at::PEAK_T)[k] = ((log - self.slow.row(t)[k]) * 0.5).tanh();
            row.cue_mut(at::LEVEL)[k] = ((log - frame.loudness) / 3.0).tanh();
        }
        row.cue_mut(at::FRAME_LEVEL).fill(frame.level);
        row.cue_mut(at::FRAME_ONSET).fill(frame.onset);
        row.cue_mut(at::FRAME_TILT).fill(frame.tilt);
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of bins and frames")]
fn frames(amplitude: &SpectralPlane, smooth: &SpectralPlane) -> Vec<FrameChange> {
    let count = amplitude.rows();
    let energy = |row: &[f32]| row.iter().map(|a| a * a).sum::<f32>();
    let loudness: Vec<f32> = (0..count)
        .map(|t| 0.5 * (energy(amplitude.row(t)) / MAIN.bins() as f32 + 1e-8).ln())
        .collect();
    let onset: Vec<f32> = (0..count).map(|t| onset(amplitude, smooth, t)).collect();
    let tilt: Vec<f32> = (0..count)
        .map(|t| {
            let row = amplitude.row(t);
            // From 9.7 kHz up, against 0.2 to 3.2 kHz.
            (energy(&row[900..]) + 1e-8).ln() - (energy(&row[20..300]) + 1e-8).ln()
        })
        .collect();
    // Medians, because a few very loud or bright frames would shift a mean.
    let (median_level, median_tilt) = (median_value(&loudness), median_value(&tilt));
    let mean_onset = onset.iter().sum::<f32>() / count.max(1) as f32 + 1e-9;
    (0..count)
        .map(|t| FrameChange {
            loudness: loudness[t],
            level: ((loudness[t] - median_level) * 0.5).tanh(),
            onset: (2.0 * (onset[t] / mean_onset - 1.0)).tanh(),
            tilt: ((tilt[t] - median_tilt) * 0.25).tanh(),
        })
        .collect()
}

/// The mean rise of the frame's bins, weighted by their loudness.
fn onset(amplitude: &SpectralPlane, smooth: &SpectralPlane, t: usize) -> f32 {
    let before = smooth.row_near(t.cast_signed() - REACH);
    let (mut sum, mut weight) = (0.0, 1e-9);
    for ((a, now), before) in amplitude.row(t).iter().zip(smooth.row(t)).zip(before) {
        sum += a.sqrt() * (now - before).max(0.0);
        weight += a.sqrt();
    }
    sum / weight
}

fn median_value(values: &[f32]) -> f32 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f32::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}
