//! Page views: the text that each page shows.
//!
//! A view holds finished text instead of types for money, time or models. So a page can be drawn,
//! tested and changed on its own.

use orders::MediaKind;

/// What every page needs to know about the installation.
#[derive(Debug, Clone)]
pub struct SiteContext {
    /// The URL by which callers reach the gateway, without a trailing slash:
    /// `http://127.0.0.1:8080`.
    pub base_url: String,
    /// The path segment of the music endpoints: `musicgen`.
    pub brand: String,
    /// Version shown in the footer.
    pub version: String,
}

/// The front page.
#[derive(Debug, Clone)]
pub struct HomePage {
    pub site: SiteContext,
    /// Video model in the examples.
    pub video_model: String,
    /// Music model in the examples.
    pub music_model: String,
    /// Number of models available now.
    pub available_models: usize,
}

/// The price list.
#[derive(Debug, Clone)]
pub struct PricingPage {
    pub site: SiteContext,
    /// In display order within each kind.
    pub models: Vec<ModelRow>,
    /// When the models were read, RFC 3339.
    pub generated_at: String,
}

/// The page that checks a file.
#[derive(Debug, Clone)]
pub struct ProvenancePage {
    pub site: SiteContext,
    /// Whether files can be checked without a key.
    pub is_public: bool,
    /// Maximum file size.
    pub max_megabytes: u64,
}

/// One model on the list. Empty lists and absent values are not shown.
#[derive(Debug, Clone)]
pub struct ModelRow {
    /// The name to use in `model` or `mv`.
    pub id: String,
    /// One sentence.
    pub summary: String,
    /// The group in which the model is listed.
    pub kind: MediaKind,
    /// Kinds of input: `text`, `image`, `audio`.
    pub takes: Vec<String>,
    /// Outputs: `video`, `audio`.
    pub makes: Vec<String>,
    /// Possible lengths: `1–20 s`.
    pub durations: Option<String>,
    /// Supported sizes, such as `1280x720`.
    pub sizes: Vec<String>,
    /// Stem groups that the model can separate.
    pub stems: Vec<String>,
    /// `free` or `0.10 USD per second`.
    pub price: String,
    /// The next price, if known: `0.12 USD per second from 2026-12-01`.
    pub next_price: Option<String>,
    /// Whether its provider charges for refused orders: `yes`, `no` or `unknown`, and the source.
    pub refusals: String,
    /// Whether the model is currently available.
    pub available: bool,
    /// Median time in the last 24 hours: `12 s`.
    pub median: Option<String>,
    /// Notes, for example on the model's quality.
    pub notes: Vec<String>,
    /// Alternative names.
    pub aliases: Vec<String>,
    /// Its providers, if the operator shows them.
    pub providers: Vec<String>,
}

/// The console.
#[derive(Debug, Clone)]
pub struct ConsolePage {
    pub site: SiteContext,
    /// The view's path below `/console/`: `tasks/0197…`.
    pub view_path: String,
    /// The video model that is shown first.
    pub video_model: String,
    /// The music model that is shown first.
    pub music_model: String,
    /// The largest picture that a caller can upload, in bytes.
    pub picture_bytes: u64,
    /// The largest song that a caller can upload, in bytes.
    pub song_bytes: u64,
}
