//! A video order, independent of the API that it came through.

use crate::domain::order_terms::OrderTerms;
use crate::domain::pictures::PictureSource;
use crate::domain::webhooks::callbacks::CallbackUrl;
use mediagate_model::task::VideoOptions;
use orders::{FrameShape, VideoDemand};

/// A picture, and the field that named it.
pub type RequestedPicture = (PictureSource, String);

/// A video order. `params` has the API's field names, for errors.
#[derive(Debug, Clone)]
pub struct VideoOrder {
    /// The default model if `None`.
    pub model: Option<String>,
    /// What the video must show.
    pub prompt: String,
    /// Source pictures, the first frame first.
    pub pictures: Vec<RequestedPicture>,
    /// Whether the request calls the first source picture a frame, so that no model may take it as a
    /// reference.
    pub has_first_frame: bool,
    /// The last frame.
    pub end_picture: Option<RequestedPicture>,
    /// Reference pictures.
    pub references: Vec<RequestedPicture>,
    pub seconds: Option<f64>,
    pub size: Option<(u32, u32)>,
    /// Resolution and shape instead of a size.
    pub frame: FrameShape,
    /// The other options.
    pub options: VideoOptions,
    /// Number of videos, 1–4.
    pub count: u32,
    /// Whether it is a request that a chat interface sends on its own, for a title, tags or the
    /// like.
    pub is_housekeeping: bool,
    /// URL that is called when the task ends.
    pub callback: Option<CallbackUrl>,
    pub terms: OrderTerms,
    /// The API's field names.
    pub params: ParamNames,
}

/// Field names of an API, for errors.
#[derive(Debug, Clone, Copy)]
pub struct ParamNames {
    pub seconds: &'static str,
    pub size: &'static str,
    pub resolution: &'static str,
    pub aspect_ratio: &'static str,
    pub audio: &'static str,
    pub label: &'static str,
    pub seed: &'static str,
    pub negative_prompt: &'static str,
    pub prompt: &'static str,
    pub picture: &'static str,
    pub end_picture: &'static str,
    pub references: &'static str,
    pub provider_options: &'static str,
    /// The number of videos.
    pub count: &'static str,
}

impl VideoOrder {
    pub fn every_picture(&self) -> impl Iterator<Item = &RequestedPicture> {
        let frames = self.pictures.iter().chain(&self.end_picture);
        frames.chain(&self.references)
    }

    /// What it demands of a model.
    pub fn demand(&self) -> VideoDemand<'_> {
        VideoDemand {
            prompt: &self.prompt,
            options: &self.options,
            seconds: self.seconds,
            size: self.size,
            shape: self.frame,
            frames: self.pictures.len(),
            has_last_frame: self.end_picture.is_some(),
            references: self.references.len(),
        }
    }

    /// The requested size, or the offered size that fits the requested frame best. `None` if the
    /// order specifies neither, or no size fits the frame.
    pub fn best_size(
        &self,
        sizes: &[(u32, u32)],
        picture: Option<(u32, u32)>,
    ) -> Option<(u32, u32)> {
        self.size.or_else(|| {
            (!self.frame.is_unspecified()).then(|| self.frame.best_match(sizes, picture))?
        })
    }
}
