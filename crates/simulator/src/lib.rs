//! Plays the hosted providers over real HTTP, so that everything above the
//! wire can be tested and measured without them.
//!
//! ```text
//! world    jobs and their lives, the journal of requests, faults on order
//! models   one file for each provider: its routes, words and shapes
//! server   one listener for all of them, each under its own path
//! media    what finished jobs deliver
//! ```
//!
//! Every provider is a *model*: a submission makes a [`Job`] that is queued,
//! runs, and ends as planned; what a provider shows of it is worked out when it
//! is asked. Nothing is canned. The simulator shares no code with the adapters:
//! both were written from the providers' documents, so that a slip in one is
//! not repeated in the other.

pub mod media;
pub mod models;
mod server;
mod world;

pub use server::{Handler, Reply, Request, Simulator, Site};
pub use world::{Applies, End, Fault, Job, Order, Phase, Plan, Received, Role, World};
