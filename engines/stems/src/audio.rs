//! Sound in memory: one vector of samples per channel, full scale at plus and minus one.
//!
//! Rates and channels are never converted here.

/// Planar audio. All channels have the same length, which [`Audio::new`] checks.
#[derive(Debug, Clone, PartialEq)]
pub struct Audio {
    rate: u32,
    channels: Vec<Vec<f32>>,
}

/// Why samples are not valid [`Audio`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AudioError {
    /// The rate is zero.
    #[error("the sample rate is 0 Hz")]
    NoRate,
    /// At least one channel is required, even if it is empty.
    #[error("there is no channel")]
    NoChannel,
    /// Channels have different lengths.
    #[error("the channels have different lengths")]
    Ragged,
}

impl Audio {
    /// `rate` is in Hz; at least one channel, all of the same length.
    pub fn new(rate: u32, channels: Vec<Vec<f32>>) -> Result<Self, AudioError> {
        let Some(first) = channels.first() else {
            return Err(AudioError::NoChannel);
        };
        if rate == 0 {
            return Err(AudioError::NoRate);
        }
        if channels.iter().any(|c| c.len() != first.len()) {
            return Err(AudioError::Ragged);
        }
        Ok(Self { rate, channels })
    }

    /// Like [`Self::new`], for callers in the crate whose channels are equal by construction.
    pub(crate) fn from_equal(rate: u32, channels: Vec<Vec<f32>>) -> Self {
        debug_assert!(rate > 0 && channels.windows(2).all(|w| w[0].len() == w[1].len()));
        Self { rate, channels }
    }

    pub fn rate(&self) -> u32 {
        self.rate
    }

    pub fn channels(&self) -> &[Vec<f32>] {
        &self.channels
    }

    /// Returns the channels, to keep or change them.
    pub fn into_channels(self) -> Vec<Vec<f32>> {
        self.channels
    }

    pub fn frames(&self) -> usize {
        self.channels.first().map_or(0, Vec::len)
    }

    /// Duration in seconds.
    #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
    pub fn seconds(&self) -> f64 {
        self.frames() as f64 / f64::from(self.rate)
    }

    /// The largest absolute sample of all channels; NaN and infinite values count as zero.
    pub fn peak(&self) -> f32 {
        self.samples().fold(0.0, |peak, x| peak.max(x.abs()))
    }

    /// The root mean square over all channels; 0 without samples.
    #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^52")]
    pub fn rms(&self) -> f64 {
        let count = (self.frames() * self.channels.len()).max(1) as f64;
        let energy: f64 = self.samples().map(|x| f64::from(x).powi(2)).sum();
        (energy / count).sqrt()
    }

    fn samples(&self) -> impl Iterator<Item = f32> + '_ {
        self.channels
            .iter()
            .flatten()
            .copied()
            .filter(|x| x.is_finite())
    }
}

/// NaN and infinite values become silence.
pub(crate) fn finite(x: f32) -> f32 {
    if x.is_finite() { x } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_invalid_audio() {
        assert_eq!(Audio::new(0, vec![vec![]]), Err(AudioError::NoRate));
        assert_eq!(Audio::new(8_000, vec![]), Err(AudioError::NoChannel));
        assert_eq!(
            Audio::new(8_000, vec![vec![], vec![0.0]]),
            Err(AudioError::Ragged)
        );
    }

    #[test]
    fn measures() {
        let audio = Audio::new(4, vec![vec![1.0, -1.0], vec![0.0, f32::NAN]]).unwrap();
        assert_eq!(
            (audio.frames(), audio.seconds(), audio.peak()),
            (2, 0.5, 1.0)
        );
        assert!((audio.rms() - 0.5f64.sqrt()).abs() < 1e-9);
    }
}
