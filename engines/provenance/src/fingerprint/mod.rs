//! Fingerprints: short descriptions of pictures and sound that remain similar when a file is
//! encoded again.
//!
//! This module owns how they are computed and compared; it must not know where they are stored.
//! Both schemes are published: [`video`] is a DCT hash of a frame each second, [`sound`] is that of
//! Haitsma and Kalker. A near match says that two files are alike, not which was made from which.

pub mod sound;
pub mod video;

/// How well two fingerprints match.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PrintMatch {
    /// Fraction of the bits that differ, 0 to 1; for unrelated files it is about a half.
    pub distance: f32,
    /// Seconds in the first print at which the second begins; negative if it begins earlier.
    pub offset_seconds: f32,
    /// Seconds that were compared.
    pub overlap_seconds: f32,
}
