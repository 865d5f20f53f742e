//! Why there are no stems.

use crate::Stem;

/// Why there are no stems.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeparateError {
    /// [`Control::cancelled`](crate::Control::cancelled) said so.
    #[error("the separation was cancelled")]
    Cancelled,
    /// The rate is outside what music is sampled at.
    #[error("a sample rate of {0} Hz is not supported, only 1,000 to 384,000 Hz")]
    Rate(u32),
    /// More channels than any layout that can be folded down to stereo.
    #[error("{0} channels are not supported, at most 8 are")]
    Channels(usize),
    /// A stem was asked for that the engine or the model does not make.
    #[error("there is no {stem} here, only {offered}")]
    NotOffered {
        /// What was asked for.
        stem: Stem,
        /// What there is, separated by commas.
        offered: String,
    },
    /// A model of the operator failed on this clip, in the runtime's words.
    #[error("the model failed: {0}")]
    Model(String),
}

/// Refuses a stem that is not among the `offered`.
pub(crate) fn check_offered(wanted: &[Stem], offered: &[Stem]) -> Result<(), SeparateError> {
    match wanted.iter().find(|stem| !offered.contains(stem)) {
        None => Ok(()),
        Some(&stem) => Err(SeparateError::NotOffered {
            stem,
            offered: Stem::list(offered),
        }),
    }
}
