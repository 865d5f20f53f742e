//! Two pretrained nets that hear the voice and the accompaniment: the U-Nets of Deezer's Spleeter.
//!
//! R. Hennequin, A. Khlif, F. Voituret & M. Moussallam, "Spleeter: a fast and efficient music source
//! separation tool with pre-trained models", 2020. The weights are not part of the program: an
//! operator installs them. [`checkpoint`] reads the published file, [`NetWeights`] is our own much
//! smaller form of it, and [`VoiceNets`] estimates how much of each bin is voice.

pub mod checkpoint;
mod convolution;
mod half;
mod unet;
mod voice_nets;
mod weights;

pub use voice_nets::VoiceNets;
pub use weights::{NetWeights, WeightsError};
