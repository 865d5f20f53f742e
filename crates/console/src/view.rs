//! Page views: the text that each page shows.
//!
//! No money, time or model types: a view holds ready text, so that a page can be drawn, tested and
//! changed on its own.

use providers::MediaKind;

/// What every page needs to know about the installation.
#[derive(Debug, Clone)]
pub struct SiteContext {
    /// Callers' URL, without a trailing slash: `http://127.0.0.1:8080`.
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
    /// When this was read, RFC 3339.
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
    /// For `model` or `mv`.
    pub id: String,
    /// One sentence.
    pub summary: String,
    /// Which group it is listed in.
    pub kind: MediaKind,
    /// Kinds of input: `text`, `image`, `audio`.
    pub takes: Vec<String>,
    /// Outputs: `video`, `audio`.
    pub makes: Vec<String>,
    /// Possible lengths: `1–20 s`.
    pub durations: Option<String>,
    /// Supported sizes, such as `1280x720`.
    pub sizes: Vec<String>,
    /// Stem groups it can separate.
    pub stems: Vec<String>,
    /// `free` or `0.10 USD per second`.
    pub price: String,
    /// The next price, if known: `0.12 USD per second from 2026-12-01`.
    pub next_price: Option<String>,
    /// Whether at least one of its routes is up.
    pub available: bool,
    /// Median time in the last 24 hours: `12 s`.
    pub median: Option<String>,
    /// Caveats: that it is local, its quality.
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
    /// Its path below `/console`: `tasks/0197…`.
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
