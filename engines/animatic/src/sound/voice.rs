//! The voice trait, and the stereo sample that voices produce.

/// Samples per second of everything in this module.
pub(crate) const RATE: u32 = 48_000;

/// [`RATE`] for the formulas of filters.
pub(super) const RATE_HZ: f32 = 48_000.0;

/// A left and a right sample.
pub(super) type StereoSample = [f32; 2];

/// A voice that can continue indefinitely.
pub(super) trait AmbienceVoice {
    /// The next sample, about −20 dB on average: `loudness` sets the final level.
    fn next(&mut self) -> StereoSample;
}
