//! Errors of making a video and of drawing its frames.

use crate::options::OptionsError;

/// Why there is no video.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MakeError {
    /// [`RenderControl::cancelled`](crate::RenderControl::cancelled) returned true.
    #[error("cancelled")]
    Cancelled,
    /// An option is out of range.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The frames could not be drawn: a bug.
    #[error("the frames could not be drawn: {0}")]
    Render(String),
    /// The video could not be encoded: a bug.
    #[error("the video could not be encoded: {0}")]
    Encode(String),
    /// The output of [`crate::write_y4m`] failed.
    #[error("the frames could not be written: {0}")]
    Write(String),
}

/// An internal error in drawing; not the caller's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RenderError(String);

impl RenderError {
    pub(crate) fn new(reason: impl std::fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

impl From<resize::ResizeError> for RenderError {
    fn from(error: resize::ResizeError) -> Self {
        Self::new(error)
    }
}

impl From<RenderError> for MakeError {
    fn from(error: RenderError) -> Self {
        Self::Render(error.to_string())
    }
}

impl From<h264::EncoderError> for MakeError {
    fn from(error: h264::EncoderError) -> Self {
        Self::Encode(error.to_string())
    }
}
