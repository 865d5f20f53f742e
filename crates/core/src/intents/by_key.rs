//! Requests with an `Idempotency-Key`.

use super::client_state::{CLIENT_POLL_INTERVAL, ClientState};
use super::lookup::unconfirmed_error;
use super::{INTENT_TTL, IntentAttempt, IntentRequest, Intents, Lookup};
use mediagate_model::account::Scope;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, IntentId, TaskId};
use mediagate_model::intent::{Intent, IntentResult};
use mediagate_model::task::Task;
use mediagate_store as store;
use mediagate_telemetry::counters;

impl Intents {
    /// Finds the result of the key's earlier request, or begins a new intent.
    pub(super) async fn begin_by_key(
        &self,
        request: &IntentRequest,
        key: &str,
        is_reserved: bool,
    ) -> Result<Lookup, Error> {
        loop {
            match self.look_up_key(request, key, is_reserved).await {
                // Another request came first: start the look-up again.
                Ok(None) | Err(Error::Overtaken) => {}
                Ok(Some(lookup)) => return Ok(lookup),
                Err(error) => return Err(error),
            }
        }
    }

    /// `None` if the look-up has to be started again.
    async fn look_up_key(
        &self,
        request: &IntentRequest,
        key: &str,
        is_reserved: bool,
    ) -> Result<Option<Lookup>, Error> {
        let Some(intent) = self.by_key(request.caller.account.id, key).await? else {
            // Of simultaneous requests with the same new key, the database accepts one; the others
            // join it. This request waits for no other with its body: requests with different keys
            // are unrelated.
            let (new, socket) = (self.draft(request), request.socket.clone());
            let body = new.body.clone();
            let client = self.0.clients.enter(new.id, 1, body, socket, false);
            let identical_task = self.identical_task(request).await?;
            let attempt = IntentAttempt::first(self, client, new, None, is_reserved).await?;
            let attempt = attempt.with_identical_task(identical_task);
            return Ok(Some(Lookup::New(attempt)));
        };
        if intent.body.fingerprint == request.body.fingerprint {
            return self.handle_repetition(request, intent).await;
        }
        if !self.is_abandoned(&intent).await? {
            return Err(conflict());
        }
        if self.made_nothing_yet(intent.id).await? {
            self.free_key(intent.id).await?;
        }
        Ok(None)
    }

    /// The task of an earlier order with the same body, under another key or none.
    async fn identical_task(&self, request: &IntentRequest) -> Result<Option<TaskId>, Error> {
        let (body, since) = (request.body.clone(), self.0.clock.cutoff(INTENT_TTL));
        let read = self
            .0
            .store
            .read(move |conn| store::intents::latest_task(conn, &body, since));
        Ok(read.await?)
    }

    /// The key's intent, unless it is expired.
    async fn by_key(&self, account: AccountId, key: &str) -> Result<Option<Intent>, Error> {
        let key = key.to_owned();
        let stored = self
            .0
            .store
            .read(move |conn| store::intents::by_idempotency_key(conn, account, &key));
        match stored.await? {
            Some(old) if old.created_at <= self.0.clock.cutoff(INTENT_TTL) => {
                self.free_key(old.id).await?;
                Ok(None)
            }
            stored => Ok(stored),
        }
    }

    /// Detaches an intent from its key.
    async fn free_key(&self, id: IntentId) -> Result<(), Error> {
        let write = self
            .0
            .store
            .write(move |conn| store::intents::free_key(conn, id));
        Ok(store::await_within_limit(write).await?)
    }

    /// Whether an intent made nothing and no process works on it any more.
    async fn is_abandoned(&self, intent: &Intent) -> Result<bool, Error> {
        if intent.result.is_some() || intent.sent_at.is_some() {
            return Ok(false);
        }
        self.0.clients.wait_until_settled(&intent.body).await;
        Ok(matches!(self.client_of(intent).await?, ClientState::Gone))
    }

    /// Handles a repeated request with a key; `None` if the look-up has to be started again.
    async fn handle_repetition(
        &self,
        request: &IntentRequest,
        intent: Intent,
    ) -> Result<Option<Lookup>, Error> {
        if let Some(answer) = &intent.answer
            && request.takes_stored_answer
        {
            if self.needs_new_tasks(&intent).await? {
                self.free_key(intent.id).await?;
                return Ok(None);
            }
            self.check_may_see(request, &intent).await?;
            let answer = serde_json::from_str(answer).map_err(Error::internal)?;
            counters::request_joined("key");
            return Ok(Some(Lookup::Answered(answer)));
        }
        if let Some(result) = &intent.result {
            let Some(state) = self.joinable(&intent, result).await? else {
                self.free_key(intent.id).await?;
                return Ok(None);
            };
            self.check_may_see(request, &intent).await?;
            let attempt = self.take_over(request, intent).await?;
            counters::request_joined("key");
            return Ok(Some(Lookup::Existing(attempt, state.result)));
        }
        // The order of a client that disconnected may still be in progress.
        self.0.clients.wait_until_settled(&intent.body).await;
        match self.client_of(&intent).await? {
            ClientState::Waiting => {
                self.0.clients.wait_for_change(CLIENT_POLL_INTERVAL).await;
                Ok(None)
            }
            ClientState::Gone | ClientState::Answered(_) if intent.sent_at.is_some() => {
                if self.made_nothing_yet(intent.id).await? {
                    return Err(unconfirmed_error(intent.id));
                }
                Ok(None)
            }
            ClientState::Gone | ClientState::Answered(_) => {
                Ok(Some(Lookup::New(self.take_over(request, intent).await?)))
            }
        }
    }

    /// Refuses a key that may not see what another key of its account made: the answer would show
    /// it.
    async fn check_may_see(&self, request: &IntentRequest, intent: &Intent) -> Result<(), Error> {
        let key = &request.caller.key;
        if key.may(Scope::TasksRead) && key.models.is_none() {
            return Ok(());
        }
        let ids = match &intent.result {
            Some(IntentResult::Tasks(ids)) => ids.clone(),
            Some(IntentResult::Clip(_) | IntentResult::Persona(_)) => Vec::new(),
            // Neither has media.
            Some(IntentResult::Endpoint(_) | IntentResult::Change) | None => return Ok(()),
        };
        let account = intent.account;
        let read = self.0.store.read(move |conn| -> Result<Vec<Task>, Error> {
            let mut tasks = Vec::new();
            for id in ids {
                tasks.extend(store::tasks::by_id(conn, id, account)?);
            }
            Ok(tasks)
        });
        let tasks = read.await?;
        let is_own = if tasks.is_empty() {
            intent.body.key == key.id
        } else {
            tasks.iter().all(|task| task.key == key.id)
        };
        if is_own {
            return Ok(());
        }
        if !key.may(Scope::TasksRead) {
            return Err(may_not_read());
        }
        match tasks.iter().find(|task| !key.may_use(&task.model)) {
            Some(task) => {
                let message = format!("The API key may not use {:?}.", task.model);
                Err(Error::at_field(
                    ErrorCode::ModelNotAllowed,
                    "model",
                    message,
                ))
            }
            None => Ok(()),
        }
    }
}

/// The error for a key that may not read what another key made.
fn may_not_read() -> Error {
    let message = format!(
        "Another API key of the account made the first request with this Idempotency-Key, and this one lacks the scope {:?}.",
        Scope::TasksRead.name()
    );
    Error::plain(ErrorCode::InsufficientScope, message)
}

fn conflict() -> Error {
    let message = "The Idempotency-Key was used with another request within the last 24 hours.";
    Error::plain(ErrorCode::IdempotencyConflict, message)
}
