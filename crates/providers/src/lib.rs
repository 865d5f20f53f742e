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
pub mod answer;
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
pub mod shape;
pub mod trace;
pub mod when;

pub use adapters::{PROTOCOLS, Protocol, SHIPPED, protocol};
pub use answer::Answer;
pub use cost::{Cost, Unit};
pub use error::{Basis, Class, ProviderError};
pub use limits::{
    Durations, Handover, Limits, MusicLimits, Pictures, Purpose, SongLimits, StemLimits,
    VideoLimits,
};
pub use order::{Kind, Order, StemGroup, StemTarget, Work};
pub use port::{
    Adapter, Authorization, Body, Call, Effect, Found, FoundJob, Handle, Identity, ModelNames,
    Output, Pace, Part, Refusal, Source, Step, Target, What, merge,
};
pub use secret::Secret;
pub use settings::{Settings, SettingsError};
