//! Fast Fourier transforms of `f32`. None is scaled: a transform followed by its inverse multiplies
//! the signal by its length.

use std::sync::Arc;

use realfft::RealFftPlanner;
use rustfft::FftPlanner;

pub use realfft::{ComplexToReal, RealToComplex};
pub use rustfft::Fft;

/// The transform of `length` complex values.
pub fn forward(length: usize) -> Arc<dyn Fft<f32>> {
    FftPlanner::new().plan_fft_forward(length)
}

/// The inverse of [`forward`].
pub fn inverse(length: usize) -> Arc<dyn Fft<f32>> {
    FftPlanner::new().plan_fft_inverse(length)
}

/// The transform of `length` real values to `length / 2 + 1` complex ones.
pub fn real_forward(length: usize) -> Arc<dyn RealToComplex<f32>> {
    RealFftPlanner::new().plan_fft_forward(length)
}

/// The inverse of [`real_forward`], to `length` real values.
pub fn real_inverse(length: usize) -> Arc<dyn ComplexToReal<f32>> {
    RealFftPlanner::new().plan_fft_inverse(length)
}
