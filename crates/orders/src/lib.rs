//! Orders to hosted models: the words that the gateway's own data and the protocols of providers
//! share.
//!
//! ```text
//! order        what is to be made              limits  what a model offers
//! job          what an accepted order becomes  cost    what a provider says that it costs
//! error        errors, by their consequence for an order
//! video_faults what a model does not offer of an order
//! model_names  names of models that can be sent to a provider
//! secret       credentials                     bounds  memory that responses may take
//! ```
//!
//! This crate opens no connection, reads no clock and knows no protocol, task or account. Begin
//! with [`Order`].

pub mod bounds;
pub mod cost;
pub mod error;
mod frame_shape;
pub mod job;
pub mod limits;
pub mod model_names;
pub mod order;
pub mod secret;
mod video_faults;

pub use cost::{CostUnit, ProviderCost, RefusalCharge, RefusalTerms};
pub use error::{ErrorBasis, ErrorClass, ErrorDescription, ProviderError};
pub use frame_shape::FrameShape;
pub use job::{ClipFacts, DurationSample, JobHandle, OutputKind};
pub use limits::{
    Durations, FileHandover, ModelLimits, MusicLimits, PicturePurpose, SongLimits,
    SourcePictureLimits, StemLimits, VideoLimits,
};
pub use model_names::ModelNames;
pub use order::{MediaKind, Order, StemGroup, StemTarget, WorkSpec};
pub use secret::Secret;
pub use video_faults::{VideoDemand, VideoFault};
