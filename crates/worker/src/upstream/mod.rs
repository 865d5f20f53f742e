//! Tasks for hosted providers: from waiting for room, over one submission, to
//! files in the store.
//!
//! ```text
//! dispatch  takes waiting tasks, as many as there is room for, and new ones as they are accepted
//! places    how many tasks of a model are submitted at once
//! room      how many jobs a route and a credential take
//! job       a task while it is worked on; what the steps hand to each other
//! recover   goes on where an earlier run left off
//! submit    routes in order, one submission, never a second
//! intent    what is written before and after it
//! resolve   what became of one whose answer nobody saw
//! follow    polls until the job ends
//! stray     jobs that go on although their task was cancelled
//! order     a task as the provider's order
//! results   what was made: fetched, checked, stored
//! ```
//!
//! What a crash may interrupt is on disk before it happens: a submission's row
//! before its request leaves, the job's handle before it is polled.

mod capacity;
mod dispatch;
mod follow;
mod hosted_task;
mod intent;
mod order;
mod recover;
mod resolve;
mod results;
mod signed_urls;
mod stray;
mod submit;
mod submit_slots;

pub(super) use dispatch::dispatch;
pub(super) use resolve::recheck_unclear;
pub(super) use stray::release_left_over;

use tokio::sync::OwnedSemaphorePermit;

use hosted_task::{HostedTask, RunEnding};

impl HostedTask<'_> {
    async fn run(&self, place: Option<OwnedSemaphorePermit>) -> RunEnding {
        // Boxed, because submitting needs a large future and most of a job's life comes after it.
        let taken = Box::pin(self.ensure_accepted()).await;
        // A slot is for submitting. While this job runs, another task may be submitted.
        drop(place);
        self.crew.app.bell.ring_for_upstream();
        match taken {
            Ok(taken) => self.follow(taken).await,
            Err(ended) => ended,
        }
    }
}
