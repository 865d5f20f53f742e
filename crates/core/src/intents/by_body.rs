//! Repeated requests that are recognised by their body: those of clients whose answer was lost, and
//! those of SDKs that mark a request as a retry.

use std::time::Duration;

use super::client_state::{ClientState, LOOK};
use super::lookup::{ResultState, unconfirmed};
use super::visit::UnkeyedOrder;
use super::{IntentRequest, IntentVisit, Intents, KNOWN, Lookup, UNCONFIRMED};
use mediagate_model::error::Error;
use mediagate_model::ids::IntentId;
use mediagate_model::intent::Intent;
use mediagate_store as store;
use mediagate_telemetry::counters;

/// How long after an answer an SDK's retry is matched to the answered request: an SDK retries at
/// once, never minutes later.
const RETRIES: Duration = Duration::from_secs(10);

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
                found => return found,
            }
        }
    }

    async fn look_up(&self, request: &IntentRequest, is_reserved: bool) -> Result<Lookup, Error> {
        let intents = self.candidates(request).await?;
        let known = intents.iter().map(|intent| intent.id).collect();
        let mut seen = self.look_at(intents).await?;
        // ClientRegistry whose answers were lost come first, whether or not the request is a retry: the
        // number of results equals the number of orders.
        let lost = seen.extract_if(.., |(client, _)| matches!(client, ClientState::Gone));
        let lost: Vec<Intent> = lost.map(|(_, intent)| intent).collect();
        let mut joined = self.join_first(request, lost, |_| true).await?;
        let mut order = UnkeyedOrder::first(known, request.socket.clone());
        if joined.is_none() && request.is_retry {
            if self.any_refused(&request.body).await? {
                order = order.retry_of_refused();
            } else {
                joined = self.join_first_try(request, seen).await?;
                order = order.retry_of_unknown();
            }
        }
        if let Some(joined) = joined {
            let way = if request.is_retry { "retry" } else { "body" };
            counters::request_joined(way);
            return Ok(joined);
        }
        let (new, socket) = (self.draft(request), request.socket.clone());
        let (clients, body) = (&self.0.clients, new.body.clone());
        // Of two deliveries of one retry, the second joins the first. A retry of a refused order is told
        // from its copy by the count, and must not wait for orders alike, which may never end.
        let client = if order.is_retry_of_unknown() {
            let alone = clients.enter_alone(new.id, body, socket);
            alone.ok_or(Error::Overtaken)?
        } else {
            clients.enter(new.id, 1, body, socket, false)
        };
        let visit = IntentVisit::first(self, client, new, Some(order), is_reserved);
        visit.await.map(Lookup::New)
    }

    /// The intents that a request with this body may repeat.
    async fn candidates(&self, request: &IntentRequest) -> Result<Vec<Intent>, Error> {
        let (clients, body) = (&self.0.clients, &request.body);
        if request.is_retry {
            // Its first try may have come through only now: a connection that waits
            // for a server to start hands over what its client has given up.
            clients.all_written(body).await;
        }
        let gone = clients.gone_soon(body).await;
        let (body, now) = (body.clone(), self.0.clock.now());
        let (since, server) = (self.0.clock.cutoff(KNOWN), self.0.server.clone());
        let is_retry = request.is_retry;
        let read = self
            .0
            .store
            .read(move |conn| -> Result<Vec<Intent>, Error> {
                let mut found = if is_retry {
                    store::intents::all_with(conn, &body, since)?
                } else {
                    store::intents::open_elsewhere(conn, &body, since, &server, now)?
                };
                for id in gone {
                    if found.iter().all(|intent| intent.id != id) {
                        found.extend(store::intents::by_id(conn, id)?);
                    }
                }
                Ok(found)
            });
        read.await
    }

    /// Intents with the states of their clients, those with the fewest visits first.
    async fn look_at(&self, intents: Vec<Intent>) -> Result<Vec<(ClientState, Intent)>, Error> {
        let mut looked_at = Vec::new();
        for intent in intents {
            looked_at.push((self.client_of(&intent).await?, intent));
        }
        looked_at.sort_by_key(|(_, intent)| (intent.visits, intent.id));
        Ok(looked_at)
    }

    /// Joins the intent that an SDK's first try most likely began: one whose client still waits,
    /// otherwise one that was just answered or whose task is open.
    async fn join_first_try(
        &self,
        request: &IntentRequest,
        mut seen: Vec<(ClientState, Intent)>,
    ) -> Result<Option<Lookup>, Error> {
        let waiting = seen.extract_if(.., |(client, _)| matches!(client, ClientState::Waiting));
        let waiting: Vec<Intent> = waiting.map(|(_, intent)| intent).collect();
        let joined = self.join_first(request, waiting, |_| true).await?;
        if joined.is_some() {
            return Ok(joined);
        }
        for (client, intent) in seen {
            let ClientState::Answered(at) = client else {
                continue;
            };
            let is_fresh = self.0.clock.now().since(at) < RETRIES;
            let meant = |found: &ResultState| is_fresh || found.is_open;
            let joined = self.join(request, intent, meant).await?;
            if joined.is_some() {
                return Ok(joined);
            }
        }
        Ok(None)
    }

    /// Joins the first of these that can be joined and passes `is_meant`.
    async fn join_first(
        &self,
        request: &IntentRequest,
        intents: Vec<Intent>,
        is_meant: impl Fn(&ResultState) -> bool,
    ) -> Result<Option<Lookup>, Error> {
        for intent in intents {
            let joined = self.join(request, intent, &is_meant).await?;
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
        is_meant: impl Fn(&ResultState) -> bool,
    ) -> Result<Option<Lookup>, Error> {
        let Some(made) = &intent.result else {
            self.until_abandoned(&intent).await?;
            return Ok(None);
        };
        let found = self.joinable(&intent, made).await?;
        let Some(found) = found.filter(is_meant) else {
            return Ok(None);
        };
        let visit = self.take_over(request, intent).await?;
        Ok(Some(Lookup::Existing(visit, found.result)))
    }

    /// Waits until no process works on an intent for which nothing was made when it was read.
    /// [`Error::Overtaken`] if something is made meanwhile.
    async fn until_abandoned(&self, intent: &Intent) -> Result<(), Error> {
        loop {
            self.0.clients.settled(&intent.body).await;
            let is_here = matches!(self.client_of(intent).await?, ClientState::Waiting);
            let Some(now) = self.read_again(intent.id).await? else {
                return Ok(());
            };
            if now.result.is_some() || now.visits != intent.visits {
                return Err(Error::Overtaken);
            }
            if is_here {
                self.0.clients.change_within(LOOK).await;
                continue;
            }
            let age = self.0.clock.now().since(now.created_at);
            return match now.sent_at {
                Some(_) if age < UNCONFIRMED => Err(unconfirmed()),
                Some(_) => Ok(()),
                None => self.abandon(now.id, now.visits).await,
            };
        }
    }

    /// Takes over an intent before a new one is begun instead: its process may only have been
    /// suspended, and must not continue with it.
    async fn abandon(&self, id: IntentId, visits: u32) -> Result<(), Error> {
        let abandoned = self
            .0
            .store
            .write(move |conn| store::intents::abandon(conn, id, visits));
        if store::await_commit(abandoned).await? {
            Ok(())
        } else {
            Err(Error::Overtaken)
        }
    }
}
