//! The watermark of sound: an imperceptible mark of 64 bits in sound, which survives lossy coding,
//! resampling, changes of loudness and cuts.
//!
//! It is spread spectrum in the logarithmic magnitudes of a short-time spectrum, after D. Kirovski
//! and H. S. Malvar, "Spread-Spectrum Watermarking of Audio Signals", IEEE Trans. Signal Processing
//! 51 (2003): time and frequency are divided into cells, each of which is made a little louder or
//! softer by a secret sign, and the detector correlates the magnitudes minus those of their
//! surroundings. Different here: the cells repeat as a tile, as in the mark of films, so that a
//! long recording is folded into one tile and its position is found by a pilot; the bits have the
//! same code as those of films.
//!
//! Marking a recording applies a filter that changes with time but does not depend on the
//! recording. So if all parts of a mix have the same mark, they add up to the mix with that mark.
//!
//! This module owns the tile, the filter and the detector. It must not know: files, codecs,
//! accounts.

mod detect;
mod embed;
mod layout;
#[cfg(test)]
mod tests;

pub use detect::{MAX_SECONDS, SoundDetector};
pub use embed::SoundEmbedder;

/// How much louder or softer a cell becomes, as a part of its amplitude: 0.51 and 0.54 dB.
const DEPTH: f32 = 0.06;
/// Lowest frequency of the cells, and the width of each, in hertz.
const LOWEST: f32 = 300.0;
const BAND: f32 = 160.0;
/// Number of cells over frequency, up to 7980 Hz.
const BANDS: usize = 48;
/// Number of steps of the tile over time.
const STEPS: usize = 55;
/// A step lasts 16/125 s, so that a tile lasts 7.04 s.
const STEP: (u64, u64) = (16, 125);
const CELLS: usize = BANDS * STEPS;
/// Sample rates that can be marked.
const RATES: std::ops::RangeInclusive<u32> = 16_000..=192_000;

/// A mark that was read from sound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SoundMark {
    pub key_id: u32,
    /// 40 bits.
    pub media_id: u64,
    /// How far the tile's position stood out, in standard deviations.
    pub score: f32,
    /// Fraction of the coded bits that had to be corrected.
    pub corrected: f32,
}

/// Samples of a spectrum's window: 43 to 46 ms at the usual rates.
fn window_length(rate: u32) -> usize {
    match rate {
        ..24_000 => 1024,
        24_000..64_000 => 2048,
        64_000..128_000 => 4096,
        _ => 8192,
    }
}

/// The cell over frequency of each bin of a spectrum, up to half the rate.
fn bands(length: usize, rate: u32) -> Vec<Option<usize>> {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bins of 8192, bands of 48"
    )]
    (0..=length / 2)
        .map(|bin| {
            let hertz = bin as f32 * rate as f32 / length as f32;
            let band = ((hertz - LOWEST) / BAND).floor();
            (band >= 0.0 && band < BANDS as f32).then_some(band as usize)
        })
        .collect()
}
