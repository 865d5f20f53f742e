//! Artwork of records: covers of clips, avatars of personas and accounts.
//!
//! Pure functions from words and samples to PNG bytes: the same inputs give the same bytes, so a
//! picture can be drawn again at any time. The crate must not know records, files or the network.
//!
//! Begin with [`avatar()`] and [`waveform_cover`]; the private module `canvas` draws for all of
//! them.

mod avatar;
mod canvas;
mod colour;
mod spectrogram;
mod waveform;

pub use avatar::avatar;
pub use spectrogram::{SpectrogramSketch, spectrogram_cover};
pub use waveform::{WaveformSketch, waveform_cover};

/// Why a picture could not be drawn.
#[derive(Debug, thiserror::Error)]
pub enum ArtworkError {
    /// The side asked for is outside 16–2048 pixels.
    #[error("a picture of {0} pixels a side cannot be drawn (16 to 2048)")]
    Side(u32),
    /// The PNG encoder refused.
    #[error("the picture could not be encoded")]
    Encode(#[from] image::ImageError),
}

#[cfg(test)]
mod tests;
