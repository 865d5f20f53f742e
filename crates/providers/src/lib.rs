//! The protocols of hosted video and music models, and the one driver that runs them.
//!
//! ```text
//! port       Adapter: a protocol as pure functions
//! adapters   one file for each protocol
//! driver     all the I/O for all protocols
//! response   responses of providers         timestamps  times in providers' formats
//! frame_size sizes, ratios and their names
//! hosts      which origins belong to a provider and receive its credential
//! catalogue  the models that providers sell, as data: `models/*.toml`
//! ```
//!
//! An [`Adapter`] turns an [`Order`] into a described [`Call`], and a [`ProviderResponse`] into the
//! next [`AdapterStep`]. It never opens a connection, reads a clock or draws a random number, so it
//! is tested without a network. The [`driver`] sends calls: it owns time-outs, size caps, retries,
//! pacing, the outbound guard and redaction.
//!
//! Orders, limits, costs and errors are the types of the crate `orders`; connections are those of
//! `outbound`, and calls have the spans of `spans`.
//!
//! This crate knows nothing of tasks, accounts, prices or storage; its caller decides whether
//! something is ordered again, and who pays. Begin with [`Adapter`], then with one of `adapters`.

pub mod adapters;
pub mod catalogue;
pub mod driver;
pub mod frame_size;
mod hosts;
pub mod port;
pub mod response;
pub mod settings;
pub mod timestamps;

pub use orders::{cost, error, limits, order, secret};

pub use adapters::{PROTOCOLS, Protocol, SHIPPED_RECIPES, concerns_jobs, protocol};
pub use cost::{CostUnit, ProviderCost};
pub use error::{ErrorBasis, ErrorClass, ProviderError};
pub use limits::{
    Durations, FileHandover, ModelLimits, MusicLimits, PicturePurpose, SongLimits,
    SourcePictureLimits, StemLimits, VideoLimits,
};
pub use order::{MediaKind, Order, StemGroup, StemTarget, WorkSpec};
pub use port::{
    Adapter, AdapterStep, Authorization, Call, CallEffect, CallTarget, FormPart, FoundJob,
    JobHandle, JobOutput, JobSettlement, LookupPage, MatchCertainty, ModelNames, OutputKind,
    OutputSource, PollPace, RefusalRule, RequestBody, merge,
};
pub use response::ProviderResponse;
pub use secret::Secret;
pub use settings::{ProviderSettings, SettingsError};
