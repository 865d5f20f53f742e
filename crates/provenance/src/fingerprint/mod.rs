//! Fingerprints: short descriptions of what is seen and heard, that stay near each other when a
//! file is encoded again.
//!
//! It owns how they are computed and compared; it must not know where they are kept. Both schemes
//! are published: [`video`] is a DCT hash of a frame each second, [`sound`] is that of Haitsma and
//! Kalker. A near match says that two files are alike, not who made which.

pub mod sound;
pub mod video;

/// How well one print lies on another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrintMatch {
    /// Part of the bits that differ, 0 to 1; unrelated ones are at about a half.
    pub distance: f32,
    /// Seconds in the first print at which the second begins; negative if it begins earlier.
    pub offset_seconds: f32,
    /// Seconds that were compared.
    pub overlap_seconds: f32,
}
