//! One intent, one task: a repeated request gets the first one's result.
//!
//! A request is known to be repeated by its `Idempotency-Key`, by the retry mark of
//! the official SDKs, or by its body when the earlier answer never arrived:
//!
//! | the intent | its caller waits | is gone without the answer | has the answer |
//! |---|---|---|---|
//! | is being accepted | key, mark: wait; body: new | wait, then look again | – |
//! | is reserved, nothing sent | key, mark: wait; body: new | key: take it over; mark, body: forget it, new | – |
//! | was sent to a provider | key, mark: wait; body: new | `submission_unconfirmed` | – |
//! | made something | key, mark: join; body: new | join | key: the same answer; mark: join for 10 s or while the task is open; body: new |
//! | failed, can be retried | new | new | new |
//!
//! `docs/decisions/0005-one-intent-one-task.md` has the reasons, `docs/money.md` tells
//! operators the rules. [`begin`] looks a request up (`lookup`), by its key or its body;
//! where a caller is, `client_tracking` finds out; what was made is written down with its intent
//! in one transaction (`record`). Where more than the database changes, as at a
//! provider, the intent is reserved before anything is done for it. Nothing here knows
//! HTTP, or what is made.

mod client_tracking;
mod lookup;
mod record;
mod refusals;
mod request;

use std::time::Duration;

use crate::app::Ctx;
use crate::connections::IntentCloseTime;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::IntentId;
use mediagate_model::intent::{Intent, StoredAnswer};
use mediagate_model::task::{Task, TaskFailure, TaskState};
use mediagate_store::record_expiry::PastTask;
use mediagate_store::{self as store, Conn};

pub use client_tracking::note_leavers;
pub use lookup::begin;
pub use record::{IntentRecord, IntentVisit};
pub use refusals::{came_to_nothing, failed};
pub use request::{IntentOutcome, IntentRequest, Lookup};

/// How long intents are known.
pub const KNOWN: Duration = Duration::from_hours(24);
/// How long the answer `submission_unconfirmed` is given again.
const UNCONFIRMED: Duration = Duration::from_mins(10);

/// Why tasks that were ordered together made nothing at all; `None` while one
/// is open or when one succeeded.
pub fn failure(tasks: &[Task]) -> Option<&TaskFailure> {
    let open_or_made =
        |task: &Task| !task.state.is_terminal() || task.state == TaskState::Succeeded;
    if tasks.iter().any(open_or_made) {
        return None;
    }
    tasks.iter().find_map(|task| task.failure.as_ref())
}

/// What is said of an order that was made while its answer was lost, and whose record has been removed since. Said once,
/// it closes the intent: the next request is a new order.
pub fn removed(tasks: &[PastTask]) -> Error {
    let each = tasks.iter().map(|task| {
        let (id, state, cost) = (task.id, task.state, task.cost);
        format!("task {id}, which {} and cost {cost} USD", in_past(state))
    });
    let each = each.collect::<Vec<_>>().join("; ");
    let message = format!(
        "This request was already executed, but its response was lost: {each}. The record has been removed since then (`record_ttl`). Nothing was made or charged now. If you send the request again, it counts as a new one."
    );
    let error = Error::plain(ErrorCode::TaskNotFound, message);
    match tasks.first() {
        Some(task) => error.of_task(task.id),
        None => error,
    }
}

const fn in_past(state: TaskState) -> &'static str {
    match state {
        TaskState::Queued => "was queued",
        TaskState::Running => "was running",
        TaskState::Succeeded => "succeeded",
        TaskState::Failed => "failed",
        TaskState::Cancelled => "was cancelled",
    }
}

/// When an answer about these tasks, written to the end, closes their intent.
pub fn close(tasks: &[Task]) -> IntentCloseTime {
    let unconfirmed = tasks.iter().find(|task| {
        let failure = task.failure.as_ref();
        failure.is_some_and(|failure| failure.code == ErrorCode::SubmissionUnconfirmed)
    });
    match unconfirmed.and_then(|task| task.finished_at) {
        Some(at) => IntentCloseTime::At(at.plus(UNCONFIRMED)),
        None => IntentCloseTime::Now,
    }
}

/// A task ended as unconfirmed. The request that ordered it may have had its answer
/// long before, as the Videos API gives it at once: it leads there again.
pub fn unconfirmed_ended(conn: &mut Conn<'_>, task: &Task, now: Timestamp) -> Result<(), Error> {
    /// How long a request may take until its task is accepted.
    const ACCEPTING: Duration = Duration::from_mins(2);
    Ok(store::intents::lead_again(
        conn,
        task,
        ACCEPTING,
        now.plus(UNCONFIRMED),
    )?)
}

/// Keeps an answer for the next request with the same key; returns the one that
/// was kept first.
pub async fn keep_answer(
    app: &Ctx,
    id: IntentId,
    answer: StoredAnswer,
) -> Result<StoredAnswer, Error> {
    let text = serde_json::to_string(&answer).map_err(Error::internal)?;
    let kept = app
        .store
        .write(move |conn| -> Result<Option<Intent>, Error> {
            store::intents::answer(conn, id, &text)?;
            Ok(store::intents::by_id(conn, id)?)
        });
    match store::soon(kept).await?.and_then(|intent| intent.answer) {
        Some(first) => serde_json::from_str(&first).map_err(Error::internal),
        None => Ok(answer),
    }
}

/// Forgets intents whose time is over.
pub async fn forget_old(app: &Ctx) -> Result<(), Error> {
    const MOST: u32 = 1000;
    refusals::forget_old(app).await?;
    loop {
        let before = app.clock.cutoff(KNOWN);
        let forgotten = app
            .store
            .write(move |conn| store::record_expiry::forget_past_tasks(conn, before, MOST));
        if forgotten.await? < u64::from(MOST) {
            break;
        }
    }
    loop {
        let before = app.clock.cutoff(KNOWN);
        let forgotten = app
            .store
            .write(move |conn| store::intents::forget_before(conn, before, MOST));
        if forgotten.await? < u64::from(MOST) {
            return Ok(());
        }
    }
}
