//! What a caller asks of a video, in whatever dialect.

use serde_json::{Map, Value};

use crate::domain::pictures::PictureSource;
use crate::domain::video::Frame;
use crate::model::task::Message;

/// A picture, and the field that named it.
pub type AskedPicture = (PictureSource, String);

/// What a caller asks for. The names in `params` are those of its dialect's
/// fields, for errors.
#[derive(Debug, Clone)]
pub struct VideoOrder {
    /// The model's name; the default model when `None`.
    pub model: Option<String>,
    /// What the video shall show.
    pub prompt: String,
    /// Source pictures, the first frame first.
    pub pictures: Vec<AskedPicture>,
    /// The last frame.
    pub end_picture: Option<AskedPicture>,
    /// Pictures of what the video is about.
    pub references: Vec<AskedPicture>,
    /// Length in seconds.
    pub seconds: Option<f64>,
    /// Width and height in pixels.
    pub size: Option<(u32, u32)>,
    /// Fineness and shape in place of the size.
    pub frame: Frame,
    /// With sound or without.
    pub audio: Option<bool>,
    /// Decides everything that the prompt leaves to chance.
    pub seed: Option<u64>,
    /// What the video shall not show.
    pub negative_prompt: Option<String>,
    /// Fields for the provider itself.
    pub provider_options: Map<String, Value>,
    /// The conversation before the prompt.
    pub conversation: Vec<Message>,
    /// How many videos, 1–4.
    pub count: u32,
    /// The caller's own name for its end user.
    pub user: Option<String>,
    /// How this dialect names its fields.
    pub params: Params,
}

/// Field names of a dialect, for errors.
#[derive(Debug, Clone, Copy)]
pub struct Params {
    pub seconds: &'static str,
    pub size: &'static str,
    pub resolution: &'static str,
    pub aspect_ratio: &'static str,
    pub audio: &'static str,
    pub seed: &'static str,
    pub negative_prompt: &'static str,
    pub prompt: &'static str,
    pub picture: &'static str,
    pub end_picture: &'static str,
    pub references: &'static str,
}

impl VideoOrder {
    /// All its pictures.
    pub fn every_picture(&self) -> impl Iterator<Item = &AskedPicture> {
        let frames = self.pictures.iter().chain(&self.end_picture);
        frames.chain(&self.references)
    }

    /// The size that it asks for, of those on offer; `None` when it leaves that
    /// open, or asks for none of them.
    pub fn size_among(
        &self,
        sizes: &[(u32, u32)],
        picture: Option<(u32, u32)>,
    ) -> Option<(u32, u32)> {
        self.size
            .or_else(|| (!self.frame.is_open()).then(|| self.frame.among(sizes, picture))?)
    }
}
