//! A clip's properties that must be known before its first sample is separated.

use crate::audio::finite;
use crate::{Audio, SeparateError};

/// Rate, size and loudness of a clip.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClipShape {
    pub rate: u32,
    pub channels: usize,
    /// How many samples each channel has.
    pub frames: usize,
    /// The largest absolute sample.
    pub peak: f32,
    /// Mean of the mono mix, which is the mean of the channels.
    pub mean: f32,
    /// Standard deviation of the mono mix. Some models need it scaled to 1.
    pub deviation: f32,
}

impl ClipShape {
    /// Measures a clip in memory.
    #[must_use]
    pub fn measure(audio: &Audio) -> Self {
        let mut levels = LevelSums::default();
        levels.add(audio.channels());
        levels.shape(audio.rate(), audio.channels().len(), audio.frames())
    }

    /// Refuses rates and channel counts that no engine supports.
    pub(crate) fn check(&self) -> Result<(), SeparateError> {
        if !(1_000..=384_000).contains(&self.rate) {
            return Err(SeparateError::Rate(self.rate));
        }
        if !(1..=8).contains(&self.channels) {
            return Err(SeparateError::Channels(self.channels));
        }
        Ok(())
    }
}

/// Running sums over a clip. NaN and infinite values count as zero.
#[derive(Debug, Default)]
pub(crate) struct LevelSums {
    peak: f32,
    sum: f64,
    squares: f64,
}

impl LevelSums {
    /// Adds samples of every channel.
    #[expect(clippy::cast_precision_loss, reason = "a handful of channels")]
    pub(crate) fn add(&mut self, piece: &[Vec<f32>]) {
        let share = 1.0 / piece.len().max(1) as f64;
        for i in 0..piece.first().map_or(0, Vec::len) {
            let mut mono = 0.0;
            for channel in piece {
                let x = finite(channel[i]);
                self.peak = self.peak.max(x.abs());
                mono += f64::from(x) * share;
            }
            self.sum += mono;
            self.squares += mono * mono;
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "lengths are far below 2^52, and levels are single precision"
    )]
    pub(crate) fn shape(&self, rate: u32, channels: usize, frames: usize) -> ClipShape {
        let count = frames.max(1) as f64;
        let mean = self.sum / count;
        // Sums in double precision allow this short form. Rounding may still make the result
        // negative.
        let variance = (self.squares / count - mean * mean).max(0.0);
        ClipShape {
            rate,
            channels,
            frames,
            peak: self.peak,
            mean: mean as f32,
            deviation: variance.sqrt() as f32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_the_mono_mix() {
        let audio = Audio::new(8_000, vec![vec![1.0, 3.0], vec![f32::NAN, -1.0]]).unwrap();
        let shape = ClipShape::measure(&audio);
        assert_eq!((shape.peak, shape.mean, shape.deviation), (3.0, 0.75, 0.25));
    }
}
