//! The state of an intent's client, from this process's own table and from the leases of others.

use std::time::Duration;

use super::Intents;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_model::intent::Intent;
use mediagate_store as store;

/// How many different heartbeats prove that another process is alive and would have recorded a
/// disconnected client: the first one found, one that may be older than the intent's row as just
/// read, and one that is certainly newer.
const REQUIRED_HEARTBEATS: usize = 3;
/// How often the clients of other processes are looked up.
pub(super) const CLIENT_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The state of the client of an intent's latest request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientState {
    /// It waits for its answer.
    Waiting,
    /// It disconnected without an answer, or with one that is repeated on request.
    Gone,
    /// It got its answer at this time.
    Answered(Timestamp),
}

impl ClientState {
    /// The state of a client that disconnected from an intent which can be joined until
    /// `joinable_until`.
    pub(super) fn after(joinable_until: Option<Timestamp>, now: Timestamp) -> Self {
        match joinable_until {
            Some(until) if until <= now => Self::Answered(until),
            _ => Self::Gone,
        }
    }
}

impl Intents {
    /// The state of the client of an intent's latest request.
    pub(super) async fn client_of(&self, intent: &Intent) -> Result<ClientState, Error> {
        let mut intent = intent.clone();
        let mut heartbeats = Vec::new();
        loop {
            if let Some(client) = self.0.clients.state_of(intent.id) {
                return Ok(client);
            }
            let now = self.0.clock.now();
            let disconnected = ClientState::after(intent.joinable_until, now);
            let holder = intent.holder.clone();
            let Some(holder) = holder.filter(|name| *name != self.0.server) else {
                return Ok(disconnected);
            };
            // A client of another process counts as waiting as long as that process is alive, which
            // its heartbeats prove.
            let id = intent.id;
            let (database_now, lease_end, row) = self
                .0
                .store
                .read(move |conn| -> Result<_, Error> {
                    Ok((
                        store::workers::now(conn, now)?,
                        store::workers::held_until(conn, &holder)?,
                        store::intents::by_id(conn, id)?,
                    ))
                })
                .await?;
            let Some(lease_end) = lease_end.filter(|lease_end| *lease_end > database_now) else {
                return Ok(disconnected);
            };
            if !heartbeats.contains(&lease_end) {
                heartbeats.push(lease_end);
            }
            if heartbeats.len() == REQUIRED_HEARTBEATS {
                return Ok(ClientState::Waiting);
            }
            match row {
                Some(row) => intent = row,
                None => return Ok(ClientState::Answered(intent.created_at)),
            }
            tokio::time::sleep(CLIENT_POLL_INTERVAL).await;
        }
    }
}
