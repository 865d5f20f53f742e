//! Errors of a separation.

use crate::Stem;

/// Why there are no stems.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeparateError {
    /// [`SeparationControl::cancelled`](crate::SeparationControl::cancelled) returned true.
    #[error("the separation was cancelled")]
    Cancelled,
    /// Not a rate that music is sampled at.
    #[error("a sample rate of {0} Hz is not supported, only 1,000 to 384,000 Hz")]
    Rate(u32),
    /// More channels than any layout that can be mixed down to stereo.
    #[error("{0} channels are not supported, at most 8 are")]
    Channels(usize),
    /// The engine or the model does not make this stem.
    #[error("there is no {stem} here, only {offered}")]
    NotOffered {
        /// The requested stem.
        stem: Stem,
        /// The available stems, separated by commas.
        offered: String,
    },
    /// An operator's model failed on this clip; the message is the runtime's.
    #[error("the model failed: {0}")]
    Model(String),
}

/// Refuses stems that are not `offered`.
pub(crate) fn check_offered(requested: &[Stem], offered: &[Stem]) -> Result<(), SeparateError> {
    match requested.iter().find(|stem| !offered.contains(stem)) {
        None => Ok(()),
        Some(&stem) => Err(SeparateError::NotOffered {
            stem,
            offered: Stem::list(offered),
        }),
    }
}
