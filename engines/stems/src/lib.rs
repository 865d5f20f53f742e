//! Music source separation: bytes of a sound file in, vocals, drums, bass and the rest out.
//!
//! The crate owns everything between a file's bytes and a stem's samples: [`decode()`] (WAV,
//! AIFF, CAF, FLAC, MP3, AAC, M4A, Ogg, `WebM`), [`separate()`] (the signal processing and the nets) and [`encode`]
//! (24-bit FLAC, float WAV). It must not know about HTTP, a database, or an async runtime: it is
//! plain functions over memory, safe to call from any thread, and safe on untrusted bytes. Begin
//! with [`separate()`].
//!
//! # What it promises
//!
//! * Stems have exactly the rate, channel count and length of the input.
//! * `vocals + drums + bass + other` is the mix, and so is `vocals + instrumental`, to within
//!   1e-5 of full scale. Whatever is not vocals, drums or bass *is* `other`, by subtraction.
//! * The same samples in give the same samples out, whatever the number of threads.
//! * Nothing panics: damaged files and unusual signals give errors or correct results.
//!
//! # What it cannot do
//!
//! The engine is classical signal processing and two small nets, trained from scratch on songs that
//! a program composed and rendered (see `training/README.md`). It contains no recordings and
//! no pretrained weights. Stems bleed into each other audibly, and a mono mix loses the strongest
//! cue, its stereo image. It does not distinguish guitar, keys, strings, brass, synths or backing
//! vocals, because no cue used here does; they all stay in `other`. The two nets of [`spleeter`],
//! which heard real music, help it where their weights are installed. With the feature `onnx`, better
//! models that the operator supplies run in its place.
//!
//! # How it works
//!
//! ```text
//! mix -> blocks of 24 s -> 44.1 kHz stereo -> STFT -> cues -> net -> shares
//!                         -> cues of the shares -> net -> shares -> Wiener -> inverse STFT -> sums
//!                                        STFT -> two U-Nets -> voice ─┘ (if they are installed)
//! ```
//!
//! The cues describe each time-frequency bin by 31 numbers, and in the second pass by 65, most from
//! the published literature on separation; each module names the papers it rests on. The module
//! `nets` turns a bin's numbers into four shares that sum to one.
//!
//! ```
//! use stems::{Audio, SeparationControl, Stem};
//!
//! let mix = Audio::new(44_100, vec![vec![0.1; 4_410]; 2])?;
//! let wanted = [Stem::Vocals, Stem::Instrumental];
//! let stems = stems::separate(&mix, &wanted, SeparationControl::default())?;
//! assert_eq!(stems[0].1.frames(), mix.frames());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod audio;
mod control;
pub mod decode;
pub mod encode;
mod error;
#[cfg(feature = "onnx")]
pub mod onnx;
mod separate;
mod separation;
mod shape;
pub mod spleeter;
mod stem;
pub mod training;

mod blocks;
mod engine;

mod cues;
mod median;
mod nets;
mod parallel;
mod plane;
mod shares;
mod stft;
mod two_pass;
mod voice_blend;
mod wiener;

pub use audio::{Audio, AudioError};
pub use blocks::BlockSeparator;
pub use control::SeparationControl;
pub use decode::{AudioFormat, DecodeError, DecodeLimits, DecodedAudio, decode};
pub use encode::EncodeError;
pub use error::SeparateError;
pub use separate::{mix_without, separate, separate_with_nets};
pub use separation::{SeparationEngine, StemSink};
pub use shape::ClipShape;
pub use stem::Stem;
