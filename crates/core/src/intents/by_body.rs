//! Requests that are known by their body: of clients whose answer did not
//! arrive, and of SDKs that say that they ask again.

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

/// How long after its answer the retry mark of an SDK leads to its first try: it
/// asks again at once, never minutes later.
const RETRIES: Duration = Duration::from_secs(10);

/// What came of joining an intent.
enum JoinResult {
    Joined(Box<Lookup>),
    /// Another request came to it first: all has to be looked at again.
    Overtaken,
    /// It leads nowhere.
    Nothing,
}

impl Intents {
    /// Leads a request to what one with the same body made, or begins it.
    pub(super) async fn begin_by_body(
        &self,
        request: &IntentRequest,
        is_reserved: bool,
    ) -> Result<Lookup, Error> {
        loop {
            let intents = self.candidates(request).await?;
            let known = intents.iter().map(|intent| intent.id).collect();
            let mut seen = self.look_at(intents).await?;
            // Clients whose answers were lost come first, whoever asks: as many results are
            // made as there are orders.
            let lost = seen.extract_if(.., |(client, _)| matches!(client, ClientState::Gone));
            let lost: Vec<Intent> = lost.map(|(_, intent)| intent).collect();
            let mut joined = self.join_first(request, lost, |_| true).await?;
            let mut order = UnkeyedOrder::first(known, request.socket.clone());
            if matches!(joined, JoinResult::Nothing) && request.is_retry {
                if self.any_refused(&request.body).await? {
                    order = order.retry_of_refused();
                } else {
                    joined = self.join_first_try(request, seen).await?;
                    order = order.retry_of_unknown();
                }
            }
            match joined {
                JoinResult::Joined(lookup) => {
                    let way = if request.is_retry { "retry" } else { "body" };
                    counters::request_joined(way);
                    return Ok(*lookup);
                }
                JoinResult::Overtaken => continue,
                JoinResult::Nothing => {}
            }
            let (new, socket) = (self.draft(request), request.socket.clone());
            let client = self.0.clients.begin(new.id, new.body.clone(), socket);
            match IntentVisit::first(self, client, new, Some(order), is_reserved).await {
                Err(Error::Overtaken) => {}
                visit => return visit.map(Lookup::New),
            }
        }
    }

    /// The intents that a request with this body may mean.
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

    /// Intents with what is known of their clients, those with the fewest visits first.
    async fn look_at(&self, intents: Vec<Intent>) -> Result<Vec<(ClientState, Intent)>, Error> {
        let mut looked_at = Vec::new();
        for intent in intents {
            looked_at.push((self.client_of(&intent).await?, intent));
        }
        looked_at.sort_by_key(|(_, intent)| (intent.visits, intent.id));
        Ok(looked_at)
    }

    /// Joins what an SDK's first try most likely made: one that still waits, then one
    /// whose answer has just ended or whose task is open.
    async fn join_first_try(
        &self,
        request: &IntentRequest,
        mut seen: Vec<(ClientState, Intent)>,
    ) -> Result<JoinResult, Error> {
        let waiting = seen.extract_if(.., |(client, _)| matches!(client, ClientState::Waiting));
        let waiting: Vec<Intent> = waiting.map(|(_, intent)| intent).collect();
        let joined = self.join_first(request, waiting, |_| true).await?;
        if !matches!(joined, JoinResult::Nothing) {
            return Ok(joined);
        }
        for (client, intent) in seen {
            let ClientState::Answered(at) = client else {
                continue;
            };
            let is_fresh = self.0.clock.now().since(at) < RETRIES;
            let meant = |found: &ResultState| is_fresh || found.is_open;
            match self.join_first(request, vec![intent], meant).await? {
                JoinResult::Nothing => {}
                joined => return Ok(joined),
            }
        }
        Ok(JoinResult::Nothing)
    }

    /// Joins the first of these that can be joined and is meant.
    async fn join_first(
        &self,
        request: &IntentRequest,
        intents: Vec<Intent>,
        is_meant: impl Fn(&ResultState) -> bool,
    ) -> Result<JoinResult, Error> {
        for intent in intents {
            match self.join(request, intent, &is_meant).await? {
                JoinResult::Nothing => {}
                joined => return Ok(joined),
            }
        }
        Ok(JoinResult::Nothing)
    }

    /// Joins an intent, if that is still possible.
    async fn join(
        &self,
        request: &IntentRequest,
        intent: Intent,
        is_meant: impl Fn(&ResultState) -> bool,
    ) -> Result<JoinResult, Error> {
        let Some(made) = &intent.made else {
            return self.until_made(&intent).await;
        };
        let found = self.joinable(&intent, made).await?;
        let Some(found) = found.filter(is_meant) else {
            return Ok(JoinResult::Nothing);
        };
        let visit = self.take_over(request, intent).await?;
        Ok(visit.map_or(JoinResult::Overtaken, |visit| {
            JoinResult::Joined(Box::new(Lookup::Existing(visit, found.result)))
        }))
    }

    /// What to do about an intent for which nothing was made when it was read: waits
    /// until something is, or until nobody works on it.
    async fn until_made(&self, intent: &Intent) -> Result<JoinResult, Error> {
        loop {
            self.0.clients.settled(&intent.body).await;
            let is_here = matches!(self.client_of(intent).await?, ClientState::Waiting);
            let Some(now) = self.read_again(intent.id).await? else {
                return Ok(JoinResult::Nothing);
            };
            if now.made.is_some() || now.visits != intent.visits {
                return Ok(JoinResult::Overtaken);
            }
            if is_here {
                self.0.clients.change_within(LOOK).await;
                continue;
            }
            let age = self.0.clock.now().since(now.created_at);
            return match now.sent_at {
                Some(_) if age < UNCONFIRMED => Err(unconfirmed()),
                Some(_) => Ok(JoinResult::Nothing),
                None => self.abandon(now.id, now.visits).await,
            };
        }
    }

    /// Takes an intent away before it is passed by: its process may only have stood
    /// still, and must not go on with it.
    async fn abandon(&self, id: IntentId, visits: u32) -> Result<JoinResult, Error> {
        let abandoned = self
            .0
            .store
            .write(move |conn| store::intents::abandon(conn, id, visits));
        Ok(if store::soon(abandoned).await? {
            JoinResult::Nothing
        } else {
            JoinResult::Overtaken
        })
    }
}
