//! The open tasks of a key that ends: those that were not sent end with it.
//!
//! A revocation counts them in its own transaction and cancels them after it, one by one: a
//! transaction over many tasks could wait for another one that waits for it. From its commit on
//! nothing more is sent (`worker/upstream/intent.rs`), and what a crash leaves undone is done by
//! [`cancel_left_over`].

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::time::Instant;

use crate::app::{App, Ctx};
use crate::domain::tasks;
use mediagate_model::account::{OpenTaskSums, TasksAtEnd};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_model::ids::{AccountId, KeyId, TaskId};
use mediagate_model::money::MicroDollars;
use mediagate_store::{self as store, accounts};

/// Tasks that are cancelled concurrently. They share commits.
const CONCURRENT: usize = 16;
/// Tasks that are read at once.
const BATCH: u32 = 500;
/// Keys that are read at once: more than ever end within a day with tasks that continue.
const MAX_KEYS: u32 = 1000;
/// For how long after its end a key is looked at. Tasks that become due later are cancelled when
/// they are about to be sent.
const WATCHED: Duration = Duration::from_hours(24);

/// For how long a revocation waits until providers have cancelled their jobs.
pub(super) const PROVIDER_WAIT: Duration = Duration::from_secs(5);
/// Pause between two looks at these jobs.
const PROVIDER_PAUSE: Duration = Duration::from_millis(100);

/// What became of the open tasks of a key that was revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyTasks {
    /// The number of tasks that were cancelled.
    pub cancelled: u32,
    /// The number of tasks that continue, and of cancelled ones whose jobs their providers have not
    /// cancelled, so that they may still be charged.
    pub continuing: u32,
    /// What these have reserved.
    pub held: MicroDollars,
}

impl KeyTasks {
    /// Adds those of another key.
    pub(super) fn add(&mut self, other: Self) {
        self.cancelled = self.cancelled.saturating_add(other.cancelled);
        self.continuing = self.continuing.saturating_add(other.continuing);
        self.held = self.held.plus(other.held);
    }

    /// What becomes of these open tasks.
    pub(super) fn of_sums(sums: OpenTaskSums, at_end: TasksAtEnd) -> Self {
        let all = sums.unsent.saturating_add(sums.sent);
        match at_end {
            TasksAtEnd::Keep => Self {
                cancelled: 0,
                continuing: all,
                held: sums.unsent_held.plus(sums.sent_held),
            },
            TasksAtEnd::CancelUnsent => Self {
                cancelled: sums.unsent,
                continuing: sums.sent,
                held: sums.sent_held,
            },
            TasksAtEnd::Cancel => Self {
                cancelled: all,
                continuing: 0,
                held: MicroDollars::ZERO,
            },
        }
    }
}

/// A key that expires at or before this has expired. While the clock is not trusted none has: a
/// wrong clock cancels nothing.
pub fn expiry_cutoff(app: &Ctx) -> Timestamp {
    app.clock.cutoff(Duration::ZERO)
}

/// Cancels the tasks that end with a key. Returns what became of its tasks, after waiting until
/// `deadline` at most for providers to cancel their jobs.
pub(super) async fn cancel(
    app: &App,
    (account, key): (AccountId, KeyId),
    at_end: TasksAtEnd,
    deadline: Instant,
) -> Result<KeyTasks, Error> {
    let mut cancelled: u32 = 0;
    // Tasks of earlier calls count as continuing too, but not as cancelled by this one.
    let earlier = cancelled_and_held(app, (account, key)).await?;
    let is_new = |id: TaskId| !earlier.iter().any(|(other, _)| *other == id);
    let only_unsent = at_end == TasksAtEnd::CancelUnsent;
    // One round at least, unless they are kept.
    let mut is_done = at_end == TasksAtEnd::Keep;
    while !is_done {
        let read = app
            .store
            .read(move |conn| store::tasks::open_of_key(conn, (account, key), only_unsent, BATCH));
        let open = read.await?;
        let results = stream::iter(open)
            .map(|task| tasks::cancel_with_key(app, task, None))
            .buffer_unordered(CONCURRENT);
        let results: Vec<Result<bool, Error>> = results.collect().await;
        let mut count = 0;
        for was_cancelled in results {
            count += u32::from(was_cancelled?);
        }
        cancelled = cancelled.saturating_add(count);
        // None are left, or a provider got the others meanwhile.
        is_done = count == 0;
    }
    let mut held = cancelled_and_held(app, (account, key)).await?;
    while held.iter().any(|(id, _)| is_new(*id)) && Instant::now() < deadline {
        tokio::time::sleep(PROVIDER_PAUSE).await;
        held = cancelled_and_held(app, (account, key)).await?;
    }
    let read = app
        .store
        .read(move |conn| store::tasks::open_sums_of_key(conn, account, key));
    let mut tasks = KeyTasks::of_sums(read.await?, TasksAtEnd::Keep);
    tasks.cancelled = cancelled;
    for (id, reserved) in held {
        tasks.cancelled = tasks.cancelled.saturating_sub(u32::from(is_new(id)));
        tasks.add(KeyTasks {
            cancelled: 0,
            continuing: 1,
            held: reserved,
        });
    }
    Ok(tasks)
}

/// The cancelled tasks of a key whose jobs may still be completed and charged, with their amounts.
async fn cancelled_and_held(
    app: &Ctx,
    (account, key): (AccountId, KeyId),
) -> Result<Vec<(TaskId, MicroDollars)>, Error> {
    let read = app
        .store
        .read(move |conn| store::tasks::cancelled_and_held_of_key(conn, account, key));
    Ok(read.await?)
}

/// Cancels the unsent tasks of keys that have expired, and what a revocation left behind.
pub async fn cancel_left_over(app: &App) -> Result<(), Error> {
    for (account, key) in ended_with_tasks(app).await? {
        let expired = expiry_cutoff(app);
        let read = app
            .store
            .read(move |conn| accounts::key_end(conn, key, expired));
        let Some(end) = read.await? else { continue };
        // Nobody waits for the numbers.
        let tasks = cancel(app, (account, key), end.tasks, Instant::now()).await?;
        if tasks.cancelled > 0 {
            tracing::info!(key_id = %key, tasks = tasks.cancelled, "tasks of an ended key cancelled");
        }
    }
    Ok(())
}

/// Whether [`cancel_left_over`] may have something to do.
pub async fn has_left_over(app: &Ctx) -> bool {
    // After an error the work itself fails and is logged.
    ended_with_tasks(app)
        .await
        .map_or(true, |keys| !keys.is_empty())
}

async fn ended_with_tasks(app: &Ctx) -> Result<Vec<(AccountId, KeyId)>, Error> {
    let expired = expiry_cutoff(app);
    let since = app.clock.now().minus(WATCHED);
    let read = app
        .store
        .read(move |conn| accounts::ended_with_tasks(conn, since, expired, MAX_KEYS));
    Ok(read.await?)
}
