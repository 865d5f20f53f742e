//! Simulated hosted providers over real HTTP, so that the gateway can be tested and
//! measured without them.
//!
//! ```text
//! world     jobs and their states, the journal of requests
//! fault     faults to inject, at a provider and on the network
//! models    one file for each provider: its routes, status words and JSON
//! site      a simulated provider's view of a request, and everything between it and HTTP
//! server    one listener for all of them, each under its own path
//! control   the API for other processes: faults, plans, the journal over HTTP
//! media     the files that finished jobs deliver
//! receiver  a caller that receives webhooks
//! ```
//!
//! Each simulated provider has state: a submission makes a [`Job`] that is queued, runs, and ends
//! as planned; its state is computed when it is requested. No answers are prerecorded. The
//! simulator shares no code with the adapters: both were written from the providers' documents, so
//! that a mistake in one is not repeated in the other. It must not know the gateway. Begin with
//! `world`, then with one of `models`.

mod control;
mod fault;
pub mod media;
pub mod models;
mod receiver;
mod server;
mod site;
mod world;

pub use fault::{
    ConnectionCut, CutAction, Fault, FaultOrder, FaultProxy, LinkState, NetworkState,
    ProxyDirection, ProxyTraffic, RequestRole,
};
pub use receiver::{Reaction, ReceivedPost, WebhookReceiver};
pub use server::{ServerTls, Simulator};
pub use site::{RouteHandler, SimulatedReply, SimulatedRequest, SimulatedSite};
pub use world::{Job, JobPhase, JobPlan, PlannedEnd, ReceivedRequest, World};
