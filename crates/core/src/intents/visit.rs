//! The record of an intent, written down with what was made for it: in one transaction, and
//! not behind another request with the same intent.
//!
//! Two tries of one request may reach two processes while the first is being
//! accepted: its intent cannot be read yet, for as long as its COMMIT takes, and
//! that may hang. Whoever accepts something for an account waits for its turn in
//! the database until that is over (`Store::write_for`), and looks again under it
//! for intents that were not there when it was looked up.

use std::sync::Arc;

use super::client_state::ClientState;
use super::{AcceptanceGuard, ClientGuard, Intents, KNOWN, PeerSocket};
use mediagate_model::crash;
use mediagate_model::error::Error;
use mediagate_model::ids::IntentId;
use mediagate_model::intent::{Intent, IntentResult, StoredAnswer};
use mediagate_store::{self as store, Conn, StoreError};

/// A request's visit to its intent. It ends when this and its [`ClientGuard`] are
/// dropped.
pub struct IntentVisit {
    client: Arc<ClientGuard>,
    record: IntentRecord,
}

/// What an [`IntentVisit`] writes down when something was made for it.
#[derive(Clone)]
pub struct IntentRecord {
    intents: Intents,
    intent: Intent,
    /// Whether the intent is in the database already.
    reserved: bool,
    /// Of a request without a key, which the database keeps unique.
    unkeyed: Option<UnkeyedOrder>,
}

/// What the second look at a request without a key goes by.
#[derive(Clone)]
pub(super) struct UnkeyedOrder {
    /// The intents with its body that were there when it was looked up.
    known: Vec<IntentId>,
    kind: OrderKind,
    /// Where its client waits.
    socket: PeerSocket,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum OrderKind {
    /// It is an order of its own.
    First,
    /// It repeats one that was refused, and uses up that refusal.
    RetryOfRefused,
    /// It repeats one of which nothing is known.
    RetryOfUnknown,
}

impl UnkeyedOrder {
    pub(super) const fn first(known: Vec<IntentId>, socket: PeerSocket) -> Self {
        Self {
            known,
            kind: OrderKind::First,
            socket,
        }
    }

    pub(super) fn retry_of_refused(self) -> Self {
        let kind = OrderKind::RetryOfRefused;
        Self { kind, ..self }
    }

    pub(super) fn retry_of_unknown(self) -> Self {
        let kind = OrderKind::RetryOfUnknown;
        Self { kind, ..self }
    }
}

/// Why nothing was written.
enum WriteRefusal {
    /// These intents with the same body came first.
    Behind(Vec<Intent>),
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

impl IntentVisit {
    /// The first visit to an intent, which is written down before anything is made
    /// for it if it `is_reserved`. [`Error::Overtaken`] when another request was first
    /// with its key or body.
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
        let mut visit = Self { client, record };
        if is_reserved {
            visit.reserve().await?;
            visit.record.reserved = true;
        }
        Ok(visit)
    }

    /// A later visit to an intent.
    pub(super) fn later(intents: &Intents, client: Arc<ClientGuard>, intent: Intent) -> Self {
        let record = IntentRecord {
            intents: intents.clone(),
            intent,
            reserved: true,
            unkeyed: None,
        };
        Self { client, record }
    }

    /// Writes the intent down, even when its caller leaves.
    async fn reserve(&self) -> Result<(), Error> {
        let (record, accepting) = (self.record(), self.accepting());
        #[expect(clippy::disallowed_methods, reason = "it ends with its one write")]
        let written = tokio::spawn(async move {
            let written = record.write(|_| Ok(((), None))).await;
            if written.is_ok() {
                accepting.reserved();
                crash::point("intent-reserved");
            } else {
                accepting.done(&written);
            }
            written
        });
        store::await_commit(async { written.await.map_err(Error::internal)? }).await
    }

    /// Runs `work` and writes down that it made this, in one transaction; that
    /// goes on even when the caller leaves.
    pub async fn make(
        &self,
        made: IntentResult,
        work: impl FnOnce(&mut Conn<'_>) -> Result<(), Error> + Clone + Send + 'static,
    ) -> Result<(), Error> {
        let (record, accepting) = (self.record(), self.accepting());
        #[expect(clippy::disallowed_methods, reason = "it ends with its one write")]
        let written = tokio::spawn(async move {
            let written = record.make(made, None, work).await;
            accepting.done(&written);
            written
        });
        store::await_commit(async { written.await.map_err(Error::internal)? }).await
    }

    /// Runs `work` and writes down what it changed and what a repeated request is told, in one
    /// transaction; that goes on even when the caller leaves.
    pub async fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Conn<'_>) -> Result<(T, StoredAnswer), Error> + Clone + Send + 'static,
    ) -> Result<T, Error> {
        let (record, accepting) = (self.record(), self.accepting());
        #[expect(clippy::disallowed_methods, reason = "it ends with its one write")]
        let written = tokio::spawn(async move {
            let written = record.with(IntentResult::Change).write(move |conn| {
                let (made, told) = work(conn)?;
                Ok((made, Some(told)))
            });
            let written = written.await;
            accepting.done(&written);
            written
        });
        store::await_commit(async { written.await.map_err(Error::internal)? }).await
    }

    /// What is written down when something is made.
    pub fn record(&self) -> IntentRecord {
        self.record.clone()
    }

    /// Whether the answer is kept for the next request with the same key.
    pub const fn keeps_answer(&self) -> bool {
        self.record.intent.idempotency_key.is_some()
    }

    /// Nobody may conclude that nothing was made until the guard is dropped.
    pub fn accepting(&self) -> AcceptanceGuard {
        self.client.accepting()
    }

    /// Whether nothing was made, for certain.
    pub fn made_nothing(&self) -> bool {
        self.client.made_nothing()
    }

    /// Lives as long as the caller waits.
    pub fn client(&self) -> Arc<ClientGuard> {
        self.client.clone()
    }

    /// The intent.
    pub fn id(&self) -> IntentId {
        self.client.id()
    }
}

impl IntentRecord {
    /// Runs `work` and writes down, in the same transaction, that it made this, and the
    /// answer where that is known already and to be kept. [`Error::Overtaken`] when
    /// another request was first, [`Error::CallerLeft`] when nobody is there any more
    /// to be told.
    pub async fn make(
        mut self,
        made: IntentResult,
        answer: Option<&StoredAnswer>,
        work: impl FnOnce(&mut Conn<'_>) -> Result<(), Error> + Clone + Send + 'static,
    ) -> Result<(), Error> {
        let answer = answer.map(serde_json::to_string).transpose();
        self.intent.answer = answer.map_err(Error::internal)?;
        self.intent.result = Some(made);
        self.write(move |conn| work(conn).map(|()| ((), None)))
            .await
    }

    /// Writes the intent and what `work` makes, with the answer to keep if that is known; again as long as those that turn out to
    /// have been first are other callers.
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
                record.look(conn)?;
                let (made, answer) = work(conn)?;
                if let Some(answer) = answer {
                    let answer = serde_json::to_string(&answer).map_err(Error::internal)?;
                    record.intent.answer = Some(answer);
                }
                record.put(conn)?;
                Ok(made)
            };
            let written = self.intents.0.store.write_for(self.intent.account, write);
            let first = match written.await {
                Ok(made) => return Ok(made),
                Err(WriteRefusal::Error(error)) => return Err(error),
                Err(WriteRefusal::Behind(first)) => first,
            };
            if !self.are_others(&first).await {
                return Err(Error::Overtaken);
            }
            if let Some(unkeyed) = &mut self.unkeyed {
                unkeyed.known.extend(first.iter().map(|intent| intent.id));
            }
        }
    }

    /// The second look, in the transaction that accepts.
    fn look(&self, conn: &mut Conn<'_>) -> Result<(), WriteRefusal> {
        let Some(unkeyed) = self.unkeyed.as_ref().filter(|_| !self.reserved) else {
            return Ok(());
        };
        // A process that stood still finds that its client has gone, perhaps to another
        // one that answered it. A transaction that stands still is ended by the server,
        // or keeps others from writing: who is here now is here when it is committed.
        if unkeyed.socket.is_closed() {
            return Err(Error::CallerLeft.into());
        }
        let (body, now) = (&self.intent.body, self.intent.created_at);
        let since = now.minus(KNOWN);
        let mut first = match unkeyed.kind {
            OrderKind::First | OrderKind::RetryOfRefused => {
                let server = self.intent.holder.as_deref().unwrap_or_default();
                store::intents::open_elsewhere(conn, body, since, server, now)?
            }
            // Whatever was made since it looked may have been made for it.
            OrderKind::RetryOfUnknown => store::intents::all_with(conn, body, since)?,
        };
        first.retain(|intent| !unkeyed.known.contains(&intent.id));
        if !first.is_empty() {
            return Err(WriteRefusal::Behind(first));
        }
        match unkeyed.kind {
            OrderKind::First => {}
            // A connection that broke may hand one retry over twice: the other one was first.
            OrderKind::RetryOfRefused => {
                if !store::refused_orders::take(conn, body, now)? {
                    return Err(Error::Overtaken.into());
                }
            }
            OrderKind::RetryOfUnknown => store::refused_orders::make_up(conn, body, now)?,
        }
        Ok(())
    }

    /// Whether those that were first are other clients, who still wait or have
    /// their answers: then this can be accepted after all. Of a retry they are
    /// taken to be its first try.
    async fn are_others(&self, first: &[Intent]) -> bool {
        let kind = self.unkeyed.as_ref().map(|unkeyed| unkeyed.kind);
        if kind != Some(OrderKind::First) {
            return false;
        }
        for intent in first {
            let client = self.intents.client_of(intent).await;
            if !matches!(client, Ok(ClientState::Waiting | ClientState::Answered(_))) {
                return false;
            }
        }
        true
    }

    /// Writes the intent down with what was made, in the transaction that makes it.
    pub fn put(&self, conn: &mut Conn<'_>) -> Result<(), Error> {
        let intent = &self.intent;
        let is_first = match &intent.result {
            Some(made) if self.reserved => {
                store::intents::set_result(conn, intent.id, intent.visits, made)?
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

    /// The same, having made this.
    #[must_use]
    pub fn with(mut self, made: IntentResult) -> Self {
        self.intent.result = Some(made);
        self
    }

    /// Whether it is written down with what was made: the write came through, although
    /// nobody was told.
    pub fn is_there(&self, conn: &mut Conn<'_>) -> Result<bool, Error> {
        let there = store::intents::by_id(conn, self.intent.id)?;
        Ok(there.is_some_and(|there| there.result == self.intent.result))
    }

    /// Makes it durable that something that is no task is about to be sent to a
    /// provider; `false` takes that back, when provably nothing was.
    pub async fn sent(&self, is_sent: bool) -> Result<(), Error> {
        let (id, number) = (self.intent.id, self.intent.visits);
        let at = is_sent.then(|| self.intents.0.clock.now());
        let noted = self
            .intents
            .0
            .store
            .write(move |conn| store::intents::set_sent_at(conn, id, number, at));
        if store::await_commit(noted).await? {
            Ok(())
        } else {
            Err(Error::Overtaken)
        }
    }
}
