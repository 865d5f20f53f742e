//! Repeated requests that are recognised by their body: those of clients whose answer was lost, and
//! those of SDKs that mark a request as a retry.

use std::time::Duration;

use super::attempt::UnkeyedOrder;
use super::client_state::{CLIENT_POLL_INTERVAL, ClientState};
use super::lookup::{ResultState, unconfirmed_error};
use super::{INTENT_TTL, IntentAttempt, IntentRequest, Intents, Lookup, UNCONFIRMED_ANSWER_TTL};
use mediagate_model::error::Error;
use mediagate_model::ids::{IntentId, TaskId};
use mediagate_model::intent::Intent;
use mediagate_store as store;
use mediagate_telemetry::counters;

/// How long after an answer an SDK's retry is matched to the answered request: an SDK retries at
/// once, never minutes later.
const RETRY_WINDOW: Duration = Duration::from_secs(10);

impl Intents {
    /// Finds the result of an earlier request with the same body, or begins a new intent.
    pub(super) async fn begin_by_body(
        &self,
        request: &IntentRequest,
        is_reserved: bool,
    ) -> Result<Lookup, Error> {
        loop {
            match self.look_up(request, is_reserved).await {
                // Another request came first: start the look-up again.
                Err(Error::Overtaken) => {}
                lookup => return lookup,
            }
        }
    }

    async fn look_up(&self, request: &IntentRequest, is_reserved: bool) -> Result<Lookup, Error> {
        let (intents, identical_task) = self.candidates(request).await?;
        let known_ids = intents.iter().map(|intent| intent.id).collect();
        let mut candidates = self.with_clients(intents).await?;
        // Intents whose answers were lost come first, whether or not the request is a retry, so
        // that there are as many results as orders.
        let lost = candidates.extract_if(.., |(client, _)| matches!(client, ClientState::Gone));
        let lost: Vec<Intent> = lost.map(|(_, intent)| intent).collect();
        let mut joined = self.join_first(request, lost, |_| true).await?;
        let mut order = UnkeyedOrder::first(known_ids, request.socket.clone());
        if joined.is_none() && request.is_retry {
            if self.any_refused(&request.body).await? {
                order = order.retry_of_refused();
            } else {
                joined = self.join_first_try(request, candidates).await?;
                order = order.retry_of_unknown();
            }
        }
        if let Some(joined) = joined {
            let matched_by = if request.is_retry { "retry" } else { "body" };
            counters::request_joined(matched_by);
            return Ok(joined);
        }
        let (new, socket) = (self.draft(request), request.socket.clone());
        let (clients, body) = (&self.0.clients, new.body.clone());
        // If one retry is delivered twice, the second delivery must join the first. So a retry of
        // an unknown order enters only if no equal request is under way. A retry of a refused order
        // is distinguished from its copy by the count of refusals, and must not wait for equal
        // orders, which may never end.
        let client = if order.is_retry_of_unknown() {
            let client = clients.enter_alone(new.id, body, socket);
            client.ok_or(Error::Overtaken)?
        } else {
            clients.enter(new.id, 1, body, socket, false)
        };
        let attempt = IntentAttempt::first(self, client, new, Some(order), is_reserved);
        let attempt = attempt.await?.with_identical_task(identical_task);
        Ok(Lookup::New(attempt))
    }

    /// The intents that a request with this body may repeat, and the task of the latest one.
    async fn candidates(
        &self,
        request: &IntentRequest,
    ) -> Result<(Vec<Intent>, Option<TaskId>), Error> {
        let (clients, body) = (&self.0.clients, &request.body);
        if request.is_retry {
            // Its first try may arrive only now: a connection that waited for a server to start
            // delivers a request that its client has already given up.
            clients.wait_until_written(body).await;
        }
        let disconnected = clients.disconnected_intents(body).await;
        let (body, now) = (body.clone(), self.0.clock.now());
        let (since, server) = (self.0.clock.cutoff(INTENT_TTL), self.0.server.clone());
        let is_retry = request.is_retry;
        let read = self.0.store.read(move |conn| -> Result<_, Error> {
            let mut intents = if is_retry {
                store::intents::all_with(conn, &body, since)?
            } else {
                store::intents::open_elsewhere(conn, &body, since, &server, now)?
            };
            for id in disconnected {
                if intents.iter().all(|intent| intent.id != id) {
                    intents.extend(store::intents::by_id(conn, id)?);
                }
            }
            let identical_task = store::intents::latest_task(conn, &body, since)?;
            Ok((intents, identical_task))
        });
        read.await
    }

    /// Intents with the states of their clients, those with the fewest attempts first.
    async fn with_clients(
        &self,
        intents: Vec<Intent>,
    ) -> Result<Vec<(ClientState, Intent)>, Error> {
        let mut with_clients = Vec::new();
        for intent in intents {
            with_clients.push((self.client_of(&intent).await?, intent));
        }
        with_clients.sort_by_key(|(_, intent)| (intent.attempts, intent.id));
        Ok(with_clients)
    }

    /// Joins the intent that an SDK's first try most likely began: one whose client still waits,
    /// otherwise one that was just answered or whose task is open.
    async fn join_first_try(
        &self,
        request: &IntentRequest,
        mut candidates: Vec<(ClientState, Intent)>,
    ) -> Result<Option<Lookup>, Error> {
        let waiting =
            candidates.extract_if(.., |(client, _)| matches!(client, ClientState::Waiting));
        let waiting: Vec<Intent> = waiting.map(|(_, intent)| intent).collect();
        let joined = self.join_first(request, waiting, |_| true).await?;
        if joined.is_some() {
            return Ok(joined);
        }
        for (client, intent) in candidates {
            let ClientState::Answered(at) = client else {
                continue;
            };
            let is_fresh = self.0.clock.now().since(at) < RETRY_WINDOW;
            let is_match = |state: &ResultState| is_fresh || state.is_open;
            let joined = self.join(request, intent, is_match).await?;
            if joined.is_some() {
                return Ok(joined);
            }
        }
        Ok(None)
    }

    /// Joins the first of these that can be joined and passes `is_match`.
    async fn join_first(
        &self,
        request: &IntentRequest,
        intents: Vec<Intent>,
        is_match: impl Fn(&ResultState) -> bool,
    ) -> Result<Option<Lookup>, Error> {
        for intent in intents {
            let joined = self.join(request, intent, &is_match).await?;
            if joined.is_some() {
                return Ok(joined);
            }
        }
        Ok(None)
    }

    /// Joins an intent, if that is still possible.
    async fn join(
        &self,
        request: &IntentRequest,
        intent: Intent,
        is_match: impl Fn(&ResultState) -> bool,
    ) -> Result<Option<Lookup>, Error> {
        let Some(result) = &intent.result else {
            self.wait_until_abandoned(&intent).await?;
            return Ok(None);
        };
        let state = self.joinable(&intent, result).await?;
        let Some(state) = state.filter(is_match) else {
            return Ok(None);
        };
        let attempt = self.take_over(request, intent).await?;
        Ok(Some(Lookup::Existing(attempt, state.result)))
    }

    /// Waits until no process works on an intent for which nothing was made when it was read.
    /// [`Error::Overtaken`] if something is made meanwhile.
    async fn wait_until_abandoned(&self, intent: &Intent) -> Result<(), Error> {
        loop {
            self.0.clients.wait_until_settled(&intent.body).await;
            let has_client = matches!(self.client_of(intent).await?, ClientState::Waiting);
            let Some(current) = self.read_again(intent.id).await? else {
                return Ok(());
            };
            if current.result.is_some() || current.attempts != intent.attempts {
                return Err(Error::Overtaken);
            }
            if has_client {
                self.0.clients.wait_for_change(CLIENT_POLL_INTERVAL).await;
                continue;
            }
            let age = self.0.clock.now().since(current.created_at);
            return match current.sent_at {
                Some(_) if age < UNCONFIRMED_ANSWER_TTL => Err(unconfirmed_error(current.id)),
                Some(_) => Ok(()),
                None => self.abandon(current.id, current.attempts).await,
            };
        }
    }

    /// Forgets an intent before a new one is begun instead: its process may only have been
    /// suspended, and must not continue with it.
    async fn abandon(&self, id: IntentId, attempt: u32) -> Result<(), Error> {
        let write = self
            .0
            .store
            .write(move |conn| store::intents::abandon(conn, id, attempt));
        if store::await_within_limit(write).await? {
            Ok(())
        } else {
            Err(Error::Overtaken)
        }
    }
}
