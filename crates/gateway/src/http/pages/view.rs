//! What the pages show, as plain words: whoever serves a page fills these in.
//!
//! No money, time or model types here: a view holds text that is ready to be read, so that a page can be drawn,
//! tested and changed without the rest of the gateway.

/// What every page needs to know about the installation.
#[derive(Debug, Clone)]
pub struct Site {
    /// The address callers use, without a slash at its end: `http://127.0.0.1:8080`.
    pub base_url: String,
    /// The path segment of the music endpoints: `musicgen`.
    pub brand: String,
    /// The gateway's version, for the foot of the page.
    pub version: String,
}

/// The front page.
#[derive(Debug, Clone)]
pub struct HomePage {
    /// The installation.
    pub site: Site,
    /// The video model that the examples name.
    pub video_model: String,
    /// The music model that the examples name.
    pub music_model: String,
    /// How many models are available now, for the first line.
    pub available_models: usize,
}

/// The list of models.
#[derive(Debug, Clone)]
pub struct PricingPage {
    /// The installation.
    pub site: Site,
    /// In the order in which they are shown within their kind.
    pub models: Vec<ModelRow>,
    /// When this was true, RFC 3339.
    pub generated_at: String,
}

/// What a model is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelKind {
    /// Makes videos.
    Video,
    /// Takes songs apart, or makes them.
    Music,
}

/// One model on the list. Empty lists and absent values leave their line out.
#[derive(Debug, Clone)]
pub struct ModelRow {
    /// What a caller writes in `model` (or `mv`).
    pub id: String,
    /// One sentence on what it is.
    pub summary: String,
    /// Which group it is listed in.
    pub kind: ModelKind,
    /// What goes in: `text`, `image`, `audio`.
    pub takes: Vec<String>,
    /// What comes out: `video`, `audio`.
    pub makes: Vec<String>,
    /// Lengths it can make: `1–20 s`.
    pub durations: Option<String>,
    /// Sizes it can make: `1280x720`.
    pub sizes: Vec<String>,
    /// Stem groups it can tell apart.
    pub stems: Vec<String>,
    /// `free` or `0.10 USD per second`.
    pub price: String,
    /// The price that is known to follow: `0.12 USD per second from 2026-12-01`.
    pub next_price: Option<String>,
    /// Whether at least one route to it works now.
    pub available: bool,
    /// Median time of the last 24 hours: `12 s`.
    pub median: Option<String>,
    /// What a caller should know first: that it is local, what its quality is.
    pub notes: Vec<String>,
    /// Other names it answers to.
    pub aliases: Vec<String>,
    /// Who runs it, where the operator shows that.
    pub providers: Vec<String>,
}

/// The console.
#[derive(Debug, Clone)]
pub struct ConsolePage {
    /// The installation.
    pub site: Site,
    /// The video model that the playground starts with.
    pub video_model: String,
    /// The music model that the playground starts with.
    pub music_model: String,
}
