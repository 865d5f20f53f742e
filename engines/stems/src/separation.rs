//! The separation engine trait: pieces of a recording in, pieces of stems out.

use crate::{SeparateError, SeparationControl};

/// Receives the index of a wanted stem and a piece of it; `false` ends the separation.
pub type StemSink<'a> = dyn FnMut(usize, &[Vec<f32>]) -> bool + 'a;

/// Separates a recording a piece at a time, by one model or another.
pub trait SeparationEngine {
    /// Takes the next samples of every channel, and writes what is finished. Samples and channels
    /// beyond those announced are ignored.
    fn push(
        &mut self,
        samples: &[Vec<f32>],
        control: &mut SeparationControl<'_>,
        write: &mut StemSink<'_>,
    ) -> Result<(), SeparateError>;

    /// Ends the recording, and writes the rest.
    fn finish(
        &mut self,
        control: &mut SeparationControl<'_>,
        write: &mut StemSink<'_>,
    ) -> Result<(), SeparateError>;
}
