//! The watermark of films: an imperceptible mark of 64 bits in a film's luma, which survives
//! re-encoding, scaling, cropping and changes of brightness.
//!
//! It follows the scheme of Kalker, Depovere, Haitsma and Maes, "A Video Watermarking System for
//! Broadcast Monitoring", Proc. SPIE 3657 (1999), known as JAWS: a spread-spectrum pattern that
//! repeats as a tile over the frame and stays the same over time. Frames are added up, the tile's
//! period is found in the autocorrelation, the tiles are folded into one, and its position is found
//! by phase-only correlation. Different here: cells are wide enough for H.264, and the bits are in
//! separate cells with a convolutional code instead of in shifts of patterns.
//!
//! This module owns the pattern, the code and the detector. It must not know: how frames are made
//! or encoded, files, accounts. The mark is not cryptographically secure: anyone who has many films
//! marked with one secret can estimate its pattern, and then remove or forge it.

mod code;
mod embed;
mod fold;
mod fourier;
mod pattern;
mod period;
pub mod sound;
mod video_detector;

pub use embed::VideoEmbedder;
pub use video_detector::VideoDetector;

/// Shortest side of a frame that can carry the mark.
pub const MIN_SIDE: usize = 160;
/// Longest side of a frame.
pub const MAX_SIDE: usize = 8192;
/// Largest ratio of the longest side to the shortest.
const MAX_ASPECT: usize = 4;
/// The mark's peak signal-to-noise ratio in every frame is at least this, in dB.
pub const MIN_PSNR: f32 = 42.0;

/// The key of a deployment: the secret determines the pattern, the id is part of the mark.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MarkKey {
    id: u32,
    secret: u64,
}

impl std::fmt::Debug for MarkKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MarkKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl MarkKey {
    /// `id` has at most 24 bits.
    pub fn new(id: u32, secret: u64) -> Result<Self, WatermarkError> {
        if id >> 24 != 0 {
            return Err(WatermarkError::KeyId(id));
        }
        Ok(Self { id, secret })
    }

    pub fn id(&self) -> u32 {
        self.id
    }
}

/// A mark that was read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VideoMark {
    /// The id of the key with which the mark was read. Marks with another id are not returned.
    pub key_id: u32,
    /// 40 bits.
    pub media_id: u64,
    /// How far the tile's position stood out, in standard deviations.
    pub score: f32,
    /// Fraction of the coded bits that had to be corrected.
    pub corrected: f32,
    /// Columns and rows of the frame that one tile covers.
    pub tile: (f32, f32),
}

/// Why a frame, or sound, cannot be marked or searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WatermarkError {
    #[error("the key's id {0} has more than 24 bits")]
    KeyId(u32),
    #[error("the media id {0} has more than 40 bits")]
    MediaId(u64),
    #[error("sound of {0} samples a second cannot hold a mark")]
    Rate(u32),
    /// Not between [`MIN_SIDE`] and [`MAX_SIDE`], or with a larger aspect ratio than four to one.
    #[error("frames of {width}x{height} cannot hold a mark")]
    Size { width: usize, height: usize },
    /// The plane is shorter than its rows, or the stride is shorter than a row.
    #[error("a plane of {width}x{height} needs {needed} bytes and has {bytes}")]
    Plane {
        width: usize,
        height: usize,
        needed: usize,
        bytes: usize,
    },
    /// The frame has another size than the first.
    #[error("the frame has another size than the first")]
    SizeChanged,
}

fn check_size(width: usize, height: usize) -> Result<(), WatermarkError> {
    let (short, long) = (width.min(height), width.max(height));
    if short < MIN_SIDE || long > MAX_SIDE || long > short * MAX_ASPECT {
        return Err(WatermarkError::Size { width, height });
    }
    Ok(())
}

/// Checks that a plane of this many bytes holds all rows, which begin `stride` bytes apart.
fn check_plane(
    width: usize,
    height: usize,
    stride: usize,
    bytes: usize,
) -> Result<(), WatermarkError> {
    let needed = stride
        .checked_mul(height.saturating_sub(1))
        .and_then(|rows| rows.checked_add(width))
        .unwrap_or(usize::MAX);
    if stride < width || bytes < needed {
        return Err(WatermarkError::Plane {
            width,
            height,
            needed,
            bytes,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
