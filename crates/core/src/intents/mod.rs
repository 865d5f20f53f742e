//! One intent, one task: a repeated request gets the result of the first attempt.
//!
//! An *intent* is what a client wants to have made, however often it sends the request; each
//! request for it is an *attempt*. The intent's row is written in the transaction that makes
//! something for it. The rule is one sentence: **as many results as orders**.
//!
//! A request with an `Idempotency-Key` gets the result of the key's first request.
//!
//! A request that an SDK marks as a retry is a repeated order. It gets the first of these that
//! exists, among the orders with the same body:
//!
//! 1. the result of an order whose answer was lost;
//! 2. a new result, if an order was refused and has made nothing yet;
//! 3. the result of the latest order that is open or was answered within the last 10 s;
//! 4. a new result.
//!
//! Any other request is a new order and gets a new result, unless the answer to an order with the
//! same body was lost: then it gets the result of that order.
//!
//! `docs/decisions/0005-one-intent-one-task.md` has the table of cases and the reasons. An answer
//! is *lost* if its client disconnected before it was complete. The table in `clients` has the
//! clients of this process. A client of another process counts as connected as long as the process
//! that the intent's row names as its holder renews its lease (`client_state`). Refused orders are
//! only counted (`refusals`). When in doubt, a request counts as a retry and makes nothing new.
//!
//! Begin with [`Intents::begin`] (`by_key`, `by_body`); [`IntentAttempt`] writes what a request
//! makes. This module knows the database, but not HTTP, nor how results are made.

mod attempt;
mod by_body;
mod by_key;
mod client_guard;
mod client_state;
mod client_table;
mod clients;
mod lookup;
mod peer_socket;
mod refusals;
mod request;

use std::sync::Arc;
use std::time::Duration;

use mediagate_model::clock::{Clock, Timestamp};
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::IntentId;
use mediagate_model::intent::{Intent, StoredAnswer};
use mediagate_model::task::{Task, TaskFailure, TaskState};
use mediagate_store::record_expiry::PastTask;
use mediagate_store::{self as store, Conn, Store};

pub use attempt::{IntentAttempt, IntentRecord};
pub use client_guard::{AcceptanceGuard, ClientGuard, IntentCloseTime};
use clients::ClientRegistry;
pub use peer_socket::PeerSocket;
use refusals::RefusalBuffer;
pub use request::{ExistingResult, IntentRequest, Lookup};

/// How long intents are kept.
pub const INTENT_TTL: Duration = Duration::from_hours(24);
/// How long the answer `submission_unconfirmed` is repeated.
const UNCONFIRMED_ANSWER_TTL: Duration = Duration::from_mins(10);

/// The intents of a deployment, as one process serves them. Cheap to clone.
#[derive(Clone)]
pub struct Intents(Arc<IntentsState>);

struct IntentsState {
    store: Store,
    clock: Clock,
    /// The name of this process among the servers.
    server: String,
    clients: Arc<ClientRegistry>,
    refusals: RefusalBuffer,
}

impl Intents {
    /// The intents in this database, served by the process `server`.
    pub fn new(store: Store, clock: Clock, server: String) -> Self {
        Self(Arc::new(IntentsState {
            store,
            clients: ClientRegistry::new(clock.clone()),
            clock,
            server,
            refusals: RefusalBuffer::default(),
        }))
    }

    /// Keeps an answer for the next request with the same key; returns the one that was stored
    /// first.
    pub async fn keep_answer(
        &self,
        id: IntentId,
        answer: StoredAnswer,
    ) -> Result<StoredAnswer, Error> {
        let text = serde_json::to_string(&answer).map_err(Error::internal)?;
        let write = self
            .0
            .store
            .write(move |conn| -> Result<Option<Intent>, Error> {
                store::intents::answer(conn, id, &text)?;
                Ok(store::intents::by_id(conn, id)?)
            });
        match store::await_within_limit(write)
            .await?
            .and_then(|intent| intent.answer)
        {
            Some(first) => serde_json::from_str(&first).map_err(Error::internal),
            None => Ok(answer),
        }
    }

    /// Sleeps until a client has disconnected or an order was refused.
    pub async fn wait_for_client_events(&self) {
        self.0.clients.wait_for_event().await;
    }

    /// Writes the disconnects and refusals in memory to the database; the process calls this soon
    /// after each of these events, as long as it serves.
    pub async fn flush_client_events(&self) -> Result<(), Error> {
        self.write_refusals().await?;
        let disconnects = self.0.clients.disconnects();
        if disconnects.is_empty() {
            return Ok(());
        }
        let rows = disconnects.clone();
        let write = self.0.store.write(move |conn| -> Result<Vec<bool>, Error> {
            let exist = rows.iter().map(|row| {
                let (id, number, until) = (row.id, row.number, row.joinable_until);
                store::intents::leave(conn, id, number, row.reserved, until)
            });
            Ok(exist.collect::<Result<_, _>>()?)
        });
        for (disconnect, exists) in disconnects.iter().zip(write.await?) {
            let (id, number) = (disconnect.id, disconnect.number);
            self.0.clients.mark_written(id, number, exists);
        }
        Ok(())
    }

    /// Deletes intents and counts whose retention time is over.
    pub async fn forget_old(&self) -> Result<(), Error> {
        const BATCH: u32 = 1000;
        let (store, clock) = (&self.0.store, &self.0.clock);
        let now = clock.now();
        store
            .write(move |conn| store::refused_orders::forget(conn, now))
            .await?;
        loop {
            let before = clock.cutoff(INTENT_TTL);
            let deletion = store
                .write(move |conn| store::record_expiry::forget_past_tasks(conn, before, BATCH));
            if deletion.await? < u64::from(BATCH) {
                break;
            }
        }
        loop {
            let before = clock.cutoff(INTENT_TTL);
            let deletion =
                store.write(move |conn| store::intents::forget_before(conn, before, BATCH));
            if deletion.await? < u64::from(BATCH) {
                return Ok(());
            }
        }
    }
}

/// The reason why tasks that were ordered together all made nothing; `None` while one is open or if
/// one succeeded.
pub fn failure(tasks: &[Task]) -> Option<&TaskFailure> {
    let is_open_or_succeeded =
        |task: &Task| !task.state.is_terminal() || task.state == TaskState::Succeeded;
    if tasks.iter().any(is_open_or_succeeded) {
        return None;
    }
    tasks.iter().find_map(|task| task.failure.as_ref())
}

/// The error for an order that succeeded although its answer was lost, and whose record has been
/// removed since. After this answer the intent is closed: the next request is a new order.
pub fn removed_error(tasks: &[PastTask]) -> Error {
    let descriptions = tasks.iter().map(|task| {
        let (id, state, cost) = (task.id, task.state, task.cost);
        format!("task {id}, which {} and cost {cost} USD", past_tense(state))
    });
    let descriptions = descriptions.collect::<Vec<_>>().join("; ");
    let message = format!(
        "This request was already executed, but its response was lost: {descriptions}. The record has been removed since then (`record_ttl`). Nothing was made or charged now. If you send the request again, it counts as a new one."
    );
    let error = Error::plain(ErrorCode::TaskNotFound, message);
    match tasks.first() {
        Some(task) => error.with_task(task.id),
        None => error,
    }
}

const fn past_tense(state: TaskState) -> &'static str {
    match state {
        TaskState::Queued => "was queued",
        TaskState::Running => "was running",
        TaskState::Succeeded => "succeeded",
        TaskState::Failed => "failed",
        TaskState::Cancelled => "was cancelled",
    }
}

/// When a completely written answer about these tasks closes their intent.
pub fn close_time(tasks: &[Task]) -> IntentCloseTime {
    let unconfirmed = tasks.iter().find(|task| {
        let failure = task.failure.as_ref();
        failure.is_some_and(|failure| failure.code == ErrorCode::SubmissionUnconfirmed)
    });
    match unconfirmed.and_then(|task| task.finished_at) {
        Some(at) => IntentCloseTime::At(at.plus(UNCONFIRMED_ANSWER_TTL)),
        None => IntentCloseTime::Now,
    }
}

/// Reopens the intent of a task that ended as unconfirmed. Its request may have been answered long
/// before, because the Videos API answers at once; a repetition gets the task again.
pub fn unconfirmed_ended(conn: &mut Conn<'_>, task: &Task, now: Timestamp) -> Result<(), Error> {
    /// How long a request may take until its task is accepted.
    const MAX_ACCEPTANCE: Duration = Duration::from_mins(2);
    Ok(store::intents::extend_joinable(
        conn,
        task,
        MAX_ACCEPTANCE,
        now.plus(UNCONFIRMED_ANSWER_TTL),
    )?)
}
