//! `[video]` and `[music]`: the videos and songs that a recipe offers.

use serde::Deserialize;
use toml::Spanned;

use crate::limits::Durations;

/// `[video]`: the limits of all models.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VideoSection {
    pub(super) sizes: Vec<FrameSize>,
    pub(super) seconds: Spanned<Durations>,
    pub(super) default_seconds: Option<u32>,
    #[serde(default)]
    pub(super) pictures: PicturesSection,
    #[serde(default)]
    pub(super) negative_prompt: bool,
    #[serde(default)]
    pub(super) seed: bool,
    /// If orders can choose between sound and none: the default.
    pub(super) audio: Option<bool>,
    /// Greater seeds are folded into the range.
    #[serde(default = "default_max_seed")]
    pub(super) max_seed: u64,
    #[serde(default = "default_max_prompt")]
    pub(super) max_prompt: usize,
    /// The models with different settings.
    #[serde(default)]
    pub(super) model: Vec<VideoModel>,
}

/// The largest signed 32-bit number, which is the limit of most providers.
const fn default_max_seed() -> u64 {
    2_147_483_647
}

const fn default_max_prompt() -> usize {
    2_000
}

/// `[[video.model]]`: what differs for models of this name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VideoModel {
    /// A name, or a pattern with `*` at either end.
    pub(super) name: String,
    pub(super) sizes: Option<Vec<FrameSize>>,
    pub(super) seconds: Option<Spanned<Durations>>,
    pub(super) default_seconds: Option<u32>,
    pub(super) pictures: Option<PicturesSection>,
    pub(super) negative_prompt: Option<bool>,
    pub(super) seed: Option<bool>,
    pub(super) audio: Option<bool>,
    pub(super) max_prompt: Option<usize>,
}

/// `1280x720`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct FrameSize(pub(super) (u32, u32));

impl TryFrom<String> for FrameSize {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parts = text.split_once('x');
        let size =
            parts.and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
        size.filter(|(width, height)| *width > 0 && *height > 0)
            .map(Self)
            .ok_or_else(|| format!("{text:?} is not a size; write it like \"1280x720\""))
    }
}

/// `pictures = { … }`.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a line that an operator writes"
)]
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PicturesSection {
    pub(super) max: usize,
    pub(super) needed: bool,
    /// The pictures are references and not the first and last frame.
    pub(super) references: bool,
    /// How many references it takes instead of frames.
    pub(super) or_references: usize,
    /// The provider fetches them itself.
    pub(super) address_only: bool,
    /// A video from frames has their shape, so an order with frames has no ratio.
    pub(super) decide_shape: bool,
}

/// `[music]`: the limits of songs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MusicSection {
    /// Tasks of the music API.
    #[serde(default = "default_tasks")]
    pub(super) tasks: Vec<String>,
    /// How many clips an order makes.
    #[serde(default = "default_clips")]
    pub(super) clips: usize,
    /// Possible lengths.
    pub(super) seconds: Option<Spanned<Durations>>,
}

fn default_tasks() -> Vec<String> {
    vec!["generate".into()]
}

const fn default_clips() -> usize {
    1
}
