//! Tasks for hosted providers: from waiting for a slot, through one submission, to files in the
//! store.
//!
//! ```text
//! dispatch      claims waiting tasks, as many as there are slots for, and new ones when accepted
//! submit_slots  how many tasks of a model are submitted at once
//! capacity      how many jobs a route and a credential may have
//! hosted_task   a task while it is worked on, and the types that the steps share
//! recover       continues where an earlier run stopped
//! submit        routes in order, one submission, never a second
//! intent        the submission's records, written before and after its request
//! resolve       submissions with an unknown outcome
//! follow        polls until the job ends
//! job_end       how a job can end without a result, and what its caller is told
//! stray         jobs that continue although their task was cancelled
//! unfetched     what such a job made
//! order         a task as the provider's order
//! results       results: downloaded, checked, stored
//! failed_clips  clips that a provider failed to make, with its reasons
//! result_error  why results cannot be stored
//! route_trial   suspended routes, tried without an order
//! signed_urls   expiry of signed URLs
//! ```
//!
//! Each step is recorded on disk before a crash can interrupt it: a submission's row before its
//! request is sent, the job's handle before it is polled.

mod capacity;
mod dispatch;
mod failed_clips;
mod follow;
mod hosted_task;
mod intent;
mod job_end;
mod order;
mod recover;
mod resolve;
mod result_error;
mod results;
mod route_trial;
mod signed_urls;
mod stray;
mod submit;
mod submit_slots;
mod unfetched;

pub(super) use dispatch::dispatch;
pub(super) use resolve::recheck_unclear;
pub(super) use route_trial::try_suspended_routes;
pub(super) use stray::release_left_over;

use tokio::sync::OwnedSemaphorePermit;

use hosted_task::{HostedTask, RunEnding};

impl HostedTask<'_> {
    async fn run(&self, slot: Option<OwnedSemaphorePermit>) -> RunEnding {
        // Boxed, because submitting needs a large future and most of a job's time comes after it.
        let accepted = Box::pin(self.ensure_accepted()).await;
        // The slot is only needed for submitting. While this job runs, another task may be
        // submitted.
        drop(slot);
        self.context.app.bell.ring_for_upstream();
        match accepted {
            Ok(job) => self.follow(job).await,
            Err(ending) => ending,
        }
    }
}
