//! What is asked for, and how the work on it is followed and stopped.

use crate::options::Options;
use crate::picture::Picture;

/// What to make a video of.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The picture to move over; without one a scene is drawn from the prompt.
    pub picture: Option<&'a Picture>,
    /// The direction, and without a picture the scene, in words.
    pub prompt: &'a str,
    /// Size, length, rate and seed; see [`Options::resolve`].
    pub options: Options,
}

/// How the caller follows and stops the work.
pub struct Control<'a> {
    /// Called after each frame with the share of the work that is done, 0 to 1, never falling.
    pub progress: &'a mut dyn FnMut(f32),
    /// Asked before each frame; `true` ends the work with [`MakeError::Cancelled`](crate::MakeError::Cancelled).
    pub cancelled: &'a dyn Fn() -> bool,
}

impl Control<'static> {
    /// A control that hears nothing and never cancels.
    pub fn unattended() -> Self {
        Self {
            // Boxes of closures that hold nothing do not allocate; leaking them costs nothing.
            progress: Box::leak(Box::new(|_| {})),
            cancelled: &|| false,
        }
    }
}
