//! The record of an intent, written in one transaction with what was made for it, and only if no
//! other request with the same intent came first.
//!
//! The second try of a request may reach another process while the first is being accepted. The
//! first try's intent cannot be read before its COMMIT is done, and the COMMIT may hang. So writes
//! for an account are serialised in the database (`Store::write_for`), and inside that write the
//! request looks again for intents that did not exist at its look-up.

use std::sync::Arc;

use super::client_state::ClientState;
use super::{AcceptanceGuard, ClientGuard, INTENT_TTL, Intents, PeerSocket};
use crate::crash;
use mediagate_model::error::Error;
use mediagate_model::ids::{IntentId, TaskId};
use mediagate_model::intent::{Intent, IntentResult, StoredAnswer};
use mediagate_store::{self as store, Conn, StoreError};

/// One request for an intent: the first one, or a repetition. It ends when this and its
/// [`ClientGuard`] are dropped.
pub struct IntentAttempt {
    client: Arc<ClientGuard>,
    record: IntentRecord,
    /// The task of an earlier, identical order that this request does not repeat.
    identical_task: Option<TaskId>,
}

/// The record that an [`IntentAttempt`] writes when something was made for it.
#[derive(Clone)]
pub struct IntentRecord {
    intents: Intents,
    intent: Intent,
    /// Whether the intent is in the database already.
    reserved: bool,
    /// Present for a request without a key; keys are kept unique by the database.
    unkeyed: Option<UnkeyedOrder>,
}

/// The data for the second look-up of a request without a key.
#[derive(Clone)]
pub(super) struct UnkeyedOrder {
    /// The intents with its body that existed at its look-up.
    known_ids: Vec<IntentId>,
    kind: OrderKind,
    /// The connection on which its client waits.
    socket: PeerSocket,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OrderKind {
    /// It is a new order.
    First,
    /// It repeats a refused order, and uses up that refusal.
    RetryOfRefused,
    /// It repeats an unknown order.
    RetryOfUnmatched,
}

impl UnkeyedOrder {
    pub(super) const fn first(known_ids: Vec<IntentId>, socket: PeerSocket) -> Self {
        Self {
            known_ids,
            kind: OrderKind::First,
            socket,
        }
    }

    pub(super) fn retry_of_refused(self) -> Self {
        let kind = OrderKind::RetryOfRefused;
        Self { kind, ..self }
    }

    pub(super) fn retry_of_unknown(self) -> Self {
        let kind = OrderKind::RetryOfUnmatched;
        Self { kind, ..self }
    }

    pub(super) fn is_retry_of_unknown(&self) -> bool {
        self.kind == OrderKind::RetryOfUnmatched
    }
}

/// Why nothing was written.
enum WriteRefusal {
    /// These intents with the same body came first.
    EarlierIntents(Vec<Intent>),
    Error(Error),
}

impl From<Error> for WriteRefusal {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<StoreError> for WriteRefusal {
    fn from(error: StoreError) -> Self {
        Self::Error(error.into())
    }
}

impl IntentAttempt {
    /// The first attempt at an intent. If it `is_reserved`, the intent is written before anything
    /// is made for it. [`Error::Overtaken`] if another request was first with its key or body.
    pub(super) async fn first(
        intents: &Intents,
        client: Arc<ClientGuard>,
        intent: Intent,
        unkeyed: Option<UnkeyedOrder>,
        is_reserved: bool,
    ) -> Result<Self, Error> {
        let record = IntentRecord {
            intents: intents.clone(),
            intent,
            reserved: false,
            unkeyed,
        };
        let mut attempt = Self {
            client,
            record,
            identical_task: None,
        };
        if is_reserved {
            attempt.reserve().await?;
            attempt.record.reserved = true;
        }
        Ok(attempt)
    }

    /// A later attempt at an intent.
    pub(super) fn later(intents: &Intents, client: Arc<ClientGuard>, intent: Intent) -> Self {
        let record = IntentRecord {
            intents: intents.clone(),
            intent,
            reserved: true,
            unkeyed: None,
        };
        Self {
            client,
            record,
            identical_task: None,
        }
    }

    /// The same attempt, with the task of an earlier, identical order.
    pub(super) fn with_identical_task(self, identical_task: Option<TaskId>) -> Self {
        Self {
            identical_task,
            ..self
        }
    }

    /// The task of an earlier, identical order of the same API key, within 24 hours.
    pub const fn identical_task(&self) -> Option<TaskId> {
        self.identical_task
    }

    /// Writes the intent, even if its caller disconnects.
    async fn reserve(&self) -> Result<(), Error> {
        let (record, accepting) = (self.record(), self.begin_acceptance());
        #[expect(clippy::disallowed_methods, reason = "it ends with its one write")]
        let write = tokio::spawn(async move {
            let result = record.write(|_| Ok(((), None))).await;
            if result.is_ok() {
                accepting.record_reservation();
                crash::point("intent-reserved");
            } else {
                accepting.record_result(&result);
            }
            result
        });
        store::await_within_limit(async { write.await.map_err(Error::internal)? }).await
    }

    /// Runs `work` and records that it made `result`, in one transaction; continues even if the
    /// caller disconnects.
    pub async fn make(
        &self,
        result: IntentResult,
        work: impl FnOnce(&mut Conn<'_>) -> Result<(), Error> + Clone + Send + 'static,
    ) -> Result<(), Error> {
        let (record, accepting) = (self.record(), self.begin_acceptance());
        #[expect(clippy::disallowed_methods, reason = "it ends with its one write")]
        let write = tokio::spawn(async move {
            let written = record.make(result, None, work).await;
            accepting.record_result(&written);
            written
        });
        store::await_within_limit(async { write.await.map_err(Error::internal)? }).await
    }

    /// Runs `work` and records its change and the answer for repeated requests, in one transaction;
    /// continues even if the caller disconnects.
    pub async fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<(T, StoredAnswer), Error> + Clone + Send + 'static,
    ) -> Result<T, Error> {
        let (record, accepting) = (self.record(), self.begin_acceptance());
        #[expect(clippy::disallowed_methods, reason = "it ends with its one write")]
        let write = tokio::spawn(async move {
            let written = record.with_result(IntentResult::Change).write(move |conn| {
                let (value, answer) = work(conn)?;
                Ok((value, Some(answer)))
            });
            let written = written.await;
            accepting.record_result(&written);
            written
        });
        store::await_within_limit(async { write.await.map_err(Error::internal)? }).await
    }

    /// The record to write when something is made.
    pub fn record(&self) -> IntentRecord {
        self.record.clone()
    }

    /// The request's `Idempotency-Key`.
    pub fn idempotency_key(&self) -> Option<&str> {
        self.record.intent.idempotency_key.as_deref()
    }

    /// Whether the answer is kept for the next request with the same key.
    pub const fn keeps_answer(&self) -> bool {
        self.record.intent.idempotency_key.is_some()
    }

    /// Until the guard is dropped, other requests must not conclude that nothing was made.
    pub fn begin_acceptance(&self) -> AcceptanceGuard {
        self.client.begin_acceptance()
    }

    /// Whether it is certain that nothing was made.
    pub fn made_nothing(&self) -> bool {
        self.client.made_nothing()
    }

    /// Held as long as the caller waits.
    pub fn client(&self) -> Arc<ClientGuard> {
        self.client.clone()
    }

    /// The intent.
    pub fn id(&self) -> IntentId {
        self.client.id()
    }
}

impl IntentRecord {
    /// Runs `work` and records, in the same transaction, that it made `result`, and the answer if
    /// that is already known and to be kept. [`Error::Overtaken`] if another request was first,
    /// [`Error::CallerLeft`] if the client has disconnected.
    pub async fn make(
        mut self,
        result: IntentResult,
        answer: Option<&StoredAnswer>,
        work: impl FnOnce(&mut Conn<'_>) -> Result<(), Error> + Clone + Send + 'static,
    ) -> Result<(), Error> {
        let answer = answer.map(serde_json::to_string).transpose();
        self.intent.answer = answer.map_err(Error::internal)?;
        self.intent.result = Some(result);
        self.write(move |conn| work(conn).map(|()| ((), None)))
            .await
    }

    /// Writes the intent and what `work` makes, with the answer to keep if that is known. Repeated
    /// as long as the intents that came first belong to other callers.
    async fn write<T: Send + 'static>(
        mut self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<(T, Option<StoredAnswer>), Error>
        + Clone
        + Send
        + 'static,
    ) -> Result<T, Error> {
        crash::point("about-to-accept");
        loop {
            let (mut record, work) = (self.clone(), work.clone());
            let write = move |conn: &mut Conn<'_>| -> Result<T, WriteRefusal> {
                record.check_again(conn)?;
                let (value, answer) = work(conn)?;
                if let Some(answer) = answer {
                    let answer = serde_json::to_string(&answer).map_err(Error::internal)?;
                    record.intent.answer = Some(answer);
                }
                record.insert(conn)?;
                Ok(value)
            };
            let write = self.intents.0.store.write_for(self.intent.account, write);
            let earlier = match write.await {
                Ok(value) => return Ok(value),
                Err(WriteRefusal::Error(error)) => return Err(error),
                Err(WriteRefusal::EarlierIntents(earlier)) => earlier,
            };
            if !self.belong_to_others(&earlier).await {
                return Err(Error::Overtaken);
            }
            if let Some(unkeyed) = &mut self.unkeyed {
                unkeyed
                    .known_ids
                    .extend(earlier.iter().map(|intent| intent.id));
            }
        }
    }

    /// The second look-up, in the transaction that accepts.
    fn check_again(&self, conn: &mut Conn<'_>) -> Result<(), WriteRefusal> {
        let Some(unkeyed) = self.unkeyed.as_ref().filter(|_| !self.reserved) else {
            return Ok(());
        };
        // A process that was suspended notices here that its client has disconnected. The client
        // may have been answered by another process. A suspended transaction is ended by the
        // database server, or blocks other writers, so a client that is connected now counts as
        // connected at the commit.
        if unkeyed.socket.is_closed() {
            return Err(Error::CallerLeft.into());
        }
        let (body, now) = (&self.intent.body, self.intent.created_at);
        let since = now.minus(INTENT_TTL);
        let mut earlier = match unkeyed.kind {
            OrderKind::First | OrderKind::RetryOfRefused => {
                let server = self.intent.holder.as_deref().unwrap_or_default();
                store::intents::open_elsewhere(conn, body, since, server, now)?
            }
            // Anything made since this retry's look-up may have been made for its first try.
            OrderKind::RetryOfUnmatched => store::intents::all_with(conn, body, since)?,
        };
        earlier.retain(|intent| !unkeyed.known_ids.contains(&intent.id));
        if !earlier.is_empty() {
            return Err(WriteRefusal::EarlierIntents(earlier));
        }
        match unkeyed.kind {
            OrderKind::First => {}
            // A broken connection may deliver one retry twice: then the other delivery was first.
            OrderKind::RetryOfRefused => {
                if !store::refused_orders::take(conn, body, now)? {
                    return Err(Error::Overtaken.into());
                }
            }
            // A refusal that was recorded since the retry's look-up is that of its first try. If it
            // stayed, another delivery of this retry would use it up, and make the order a second
            // time.
            OrderKind::RetryOfUnmatched => {
                if !store::refused_orders::take(conn, body, now)? {
                    store::refused_orders::note_unmatched_retry(conn, body, now)?;
                }
            }
        }
        Ok(())
    }

    /// Whether the intents that came first belong to other clients, which still wait or have their
    /// answers: then this order can be accepted after all. For a retry they are assumed to be its
    /// first try.
    async fn belong_to_others(&self, earlier: &[Intent]) -> bool {
        let kind = self.unkeyed.as_ref().map(|unkeyed| unkeyed.kind);
        if kind != Some(OrderKind::First) {
            return false;
        }
        for intent in earlier {
            let client = self.intents.client_of(intent).await;
            if !matches!(client, Ok(ClientState::Waiting | ClientState::Answered(_))) {
                return false;
            }
        }
        true
    }

    /// Writes the intent with what was made, in the transaction that makes it.
    pub fn insert(&self, conn: &mut Conn<'_>) -> Result<(), Error> {
        let intent = &self.intent;
        let is_first = match &intent.result {
            Some(result) if self.reserved => {
                store::intents::set_result(conn, intent.id, intent.attempts, result)?
            }
            _ => store::intents::insert(conn, intent)?,
        };
        if !is_first {
            return Err(Error::Overtaken);
        }
        if self.reserved
            && let Some(answer) = &intent.answer
        {
            store::intents::answer(conn, intent.id, answer)?;
        }
        Ok(())
    }

    /// The same record with this result.
    #[must_use]
    pub fn with_result(mut self, result: IntentResult) -> Self {
        self.intent.result = Some(result);
        self
    }

    /// Whether the intent is in the database with this result: then the write succeeded, although
    /// its outcome was not reported.
    pub fn exists(&self, conn: &mut Conn<'_>) -> Result<bool, Error> {
        let stored = store::intents::by_id(conn, self.intent.id)?;
        Ok(stored.is_some_and(|stored| stored.result == self.intent.result))
    }

    /// Durably records that something other than a task is about to be sent to a provider; `false`
    /// removes that mark if provably nothing was sent.
    pub async fn mark_sent(&self, is_sent: bool) -> Result<(), Error> {
        let (id, number) = (self.intent.id, self.intent.attempts);
        let at = is_sent.then(|| self.intents.0.clock.now());
        let write = self
            .intents
            .0
            .store
            .write(move |conn| store::intents::set_sent_at(conn, id, number, at));
        if store::await_within_limit(write).await? {
            Ok(())
        } else {
            Err(Error::Overtaken)
        }
    }
}
