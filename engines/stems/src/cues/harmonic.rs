//! Harmonic share of a bin: a line in time (a tone) against a line in frequency (a hit).
//!
//! D. `FitzGerald`, "Harmonic/percussive separation using median filtering", 2010, at three window
//! lengths. Singing wavers, so it is a tone to a short window and not to a long one. That sets it
//! apart from steady instruments (`FitzGerald` & Gainza 2010; Driedger et al. 2014).

use crate::parallel::{CancelCheck, WorkCancelled, run_both};
use crate::plane::{SpectralPlane, running_mean};
use crate::stft::{MAIN, Stft, StftGrid};

const SHORT: StftGrid = StftGrid {
    size: 1_024,
    hop: 256,
};
const LONG: StftGrid = StftGrid {
    size: 16_384,
    hop: 2_048,
};

pub(super) struct HarmonicShares {
    pub(super) mid: SpectralPlane,
    pub(super) short: SpectralPlane,
    pub(super) long: SpectralPlane,
}

impl HarmonicShares {
    pub(super) fn measure(
        sound: &[Vec<f32>; 2],
        amplitude: &SpectralPlane,
        stop: CancelCheck<'_>,
    ) -> Result<Self, WorkCancelled> {
        let frames = amplitude.rows();
        let (mid, (short, long)) = run_both(
            || share(amplitude, 17, 31, stop),
            || {
                let short = share(&Stft::new(SHORT).magnitude(sound, stop)?, 35, 13, stop)?;
                let short = from_short(&short, frames, stop)?;
                let long = share(&Stft::new(LONG).magnitude(sound, stop)?, 11, 61, stop)?;
                Ok((short, from_long(&long, frames, stop)?))
            },
        )?;
        Ok(Self { mid, short, long })
    }
}

/// The harmonic share of the power, 0..1. `time` is in frames, `pitch` in bins.
pub(super) fn share(
    amplitude: &SpectralPlane,
    time: usize,
    pitch: usize,
    stop: CancelCheck<'_>,
) -> Result<SpectralPlane, WorkCancelled> {
    let harmonic = amplitude.median_over_time(time, stop)?;
    let percussive = amplitude.median_over_frequency(pitch, stop)?;
    SpectralPlane::build(amplitude.rows(), amplitude.width(), stop, |t, row| {
        for ((out, h), q) in row.iter_mut().zip(harmonic.row(t)).zip(percussive.row(t)) {
            // The paper's soft mask, with 2 as its exponent.
            *out = h * h / (h * h + q * q + EPS);
        }
    })
}

const EPS: f32 = 1e-10;

/// Onto the main grid: the nearest bin, and the mean of the five frames around.
fn from_short(
    short: &SpectralPlane,
    frames: usize,
    stop: CancelCheck<'_>,
) -> Result<SpectralPlane, WorkCancelled> {
    const STEP: usize = MAIN.hop / SHORT.hop;
    const RATIO: usize = MAIN.size / SHORT.size;
    SpectralPlane::build(frames, MAIN.bins(), stop, |t, row| {
        let middle = (t * STEP).cast_signed();
        for k in middle - 2..=middle + 2 {
            let source = short.row_near(k);
            for (k, out) in row.iter_mut().enumerate() {
                *out += source[(k + RATIO / 2) / RATIO] * 0.2;
            }
        }
    })
}

/// Onto the main grid: the mean of the five bins around, and the line between two frames.
#[expect(clippy::cast_precision_loss, reason = "a small ratio")]
fn from_long(
    long: &SpectralPlane,
    frames: usize,
    stop: CancelCheck<'_>,
) -> Result<SpectralPlane, WorkCancelled> {
    const RATIO: usize = LONG.size / MAIN.size;
    const STEP: usize = LONG.hop / MAIN.hop;
    let smooth = SpectralPlane::build(long.rows(), MAIN.bins(), stop, |t, row| {
        let mut wide = vec![0.0; long.width()];
        running_mean(long.row(t), 5, &mut wide);
        row.iter_mut()
            .enumerate()
            .for_each(|(k, out)| *out = wide[k * RATIO]);
    })?;
    SpectralPlane::build(frames, MAIN.bins(), stop, |t, row| {
        let before = (t / STEP).cast_signed();
        let part = (t % STEP) as f32 / STEP as f32;
        let (before, after) = (smooth.row_near(before), smooth.row_near(before + 1));
        for ((out, a), b) in row.iter_mut().zip(before).zip(after) {
            *out = a + part * (b - a);
        }
    })
}
