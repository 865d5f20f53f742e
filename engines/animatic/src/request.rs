//! The request, and how to follow and cancel it.

use h264::FramePlanes;

use crate::options::RenderOptions;
use crate::picture::Picture;

/// What to make a video from.
#[derive(Debug, Clone, Copy)]
pub struct RenderRequest<'a> {
    /// Without one, a scene is drawn from the prompt.
    pub picture: Option<&'a Picture>,
    /// The direction and, without a picture, the scene.
    pub prompt: &'a str,
    /// Size, length, rate and seed; see [`RenderOptions::resolve`].
    pub options: RenderOptions,
}

/// How the caller follows and cancels the work.
pub struct RenderControl<'a> {
    /// Called after each frame with the finished part, 0 to 1, never decreasing.
    pub progress: &'a mut dyn FnMut(f32),
    /// Called before each frame; `true` ends the work with
    /// [`MakeError::Cancelled`](crate::MakeError::Cancelled).
    pub cancelled: &'a dyn Fn() -> bool,
}

/// Changes frames before they are encoded. Called with each frame and its number, in order, on the
/// calling thread; from 0 again if the film turns out too large and is encoded again. The same
/// frame must always be changed in the same way, because a frame that repeats the previous one is
/// encoded as a repetition.
pub type FrameRetouch<'a> = dyn FnMut(u32, &mut FramePlanes<'_>) + 'a;

impl RenderControl<'static> {
    /// Reports nothing and never cancels.
    pub fn unattended() -> Self {
        Self {
            // Boxes of zero-sized closures do not allocate, so leaking them costs nothing.
            progress: Box::leak(Box::new(|_| {})),
            cancelled: &|| false,
        }
    }
}
