//! The protocols of hosted video and music models, and the one driver that
//! speaks them.
//!
//! ```text
//! order    what is wanted, typed          answer   what came back
//! cost     what a provider says that a job cost
//! port     Adapter: the pure functions    error    what went wrong, in classes
//! adapters one file for each protocol     shape    sizes, ratios, names
//! driver   all the I/O for all of them      when     times as providers write them
//! outbound the way to addresses that others named
//! trace    what is done, as spans
//! catalogue  what providers sell, as data: `models/*.toml`
//! ```
//!
//! An [`Adapter`] turns an [`Order`] into a described [`Call`], and an
//! [`Answer`] into the next [`Step`]. It never opens a connection, reads a
//! clock or draws a random number, so it is tested without a network. The
//! [`driver`] sends calls: it owns time-outs, size caps, retries, pacing, the
//! outbound guard and redaction.
//!
//! This crate knows nothing of tasks, accounts, prices or storage; who wants
//! something made again, and who pays, is decided by its user.

pub mod adapters;
pub mod response;
pub mod catalogue;
pub mod cost;
pub mod driver;
pub mod error;
pub mod limits;
pub mod order;
pub mod outbound;
pub mod port;
pub mod secret;
pub mod settings;
pub mod frame_size;
pub mod trace;
pub mod timestamps;

pub use adapters::{PROTOCOLS, Protocol, SHIPPED, protocol};
pub use response::ProviderResponse;
pub use cost::{ProviderCost, CostUnit};
pub use error::{ErrorBasis, ErrorClass, ProviderError};
pub use limits::{
    Durations, FileHandover, ModelLimits, MusicLimits, SourcePictureLimits, PicturePurpose, SongLimits, StemLimits,
    VideoLimits,
};
pub use order::{MediaKind, Order, StemGroup, StemTarget, WorkSpec};
pub use port::{
    Adapter, Authorization, RequestBody, Call, CallEffect, LookupPage, FoundJob, JobHandle, MatchCertainty, ModelNames,
    JobOutput, PollPace, FormPart, RefusalRule, OutputSource, AdapterStep, CallTarget, OutputKind, merge,
};
pub use secret::Secret;
pub use settings::{ProviderSettings, SettingsError};
