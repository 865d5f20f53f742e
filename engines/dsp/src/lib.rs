//! Fourier transforms and sample rate conversion, for the engines.
//!
//! This crate owns: the choice of the libraries and of the conversion's filter. It must not know:
//! songs, films, files.
//!
//! It is a separate crate because the libraries are generic over the sample type, and large: each
//! crate that called them would compile them again, and once more for its unit tests. Here they are
//! compiled once, for `f32`; no function of this crate is generic.
//!
//! Begin at [`fft`] and [`resample()`].

pub mod fft;
mod rate_converter;
mod resample;

pub use rate_converter::RateConverter;
pub use resample::resample;
pub use rustfft::num_complex::Complex32;
