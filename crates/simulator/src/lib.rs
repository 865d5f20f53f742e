//! Simulated hosted providers over real HTTP, so that everything above the
//! wire can be tested and measured without them.
//!
//! ```text
//! world    jobs and their lives, the journal of requests
//! fault    what goes wrong on order, at a provider and on the network
//! models   one file for each provider: its routes, words and shapes
//! site     what a model sees of a request, and all that is between HTTP and it
//! server   one listener for all of them, each under its own path
//! control  the same for other processes: orders, plans, the journal over HTTP
//! media    what finished jobs deliver
//! receiver a caller who is told by webhooks what happened
//! ```
//!
//! Every provider is a *model*: a submission makes a [`Job`] that is queued,
//! runs, and ends as planned; what a provider shows of it is worked out when it
//! is asked. Nothing is canned. The simulator shares no code with the adapters:
//! both were written from the providers' documents, so that a slip in one is
//! not repeated in the other.

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
