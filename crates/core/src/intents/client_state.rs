//! The state of an intent's client, by this process's own table and by the leases of others.

use std::time::Duration;

use super::Intents;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_model::intent::Intent;
use mediagate_store as store;

/// How many heartbeats prove that another process lives and would have told of a
/// client that left: the one that is there, one that may be older than what was just
/// read of the intent, and one that is not.
const BEATS: usize = 3;
/// How often another process's clients are looked at.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// Where the client of an intent's latest request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientState {
    /// It waits for its answer.
    Waiting,
    /// It left without, or with an answer that is given again.
    Gone,
    /// It has had its answer since this instant.
    Answered(Timestamp),
}

impl ClientState {
    /// Of a client that left an intent which can be joined until then.
    pub(super) fn after(joinable_until: Option<Timestamp>, now: Timestamp) -> Self {
        match joinable_until {
            Some(until) if until <= now => Self::Answered(until),
            _ => Self::Gone,
        }
    }
}

impl Intents {
    /// Where the client of an intent's latest request is.
    pub(super) async fn client_of(&self, intent: &Intent) -> Result<ClientState, Error> {
        let mut intent = intent.clone();
        let mut beats = Vec::new();
        loop {
            if let Some(client) = self.0.clients.state_of(intent.id) {
                return Ok(client);
            }
            let now = self.0.clock.now();
            let left = ClientState::after(intent.joinable_until, now);
            let other = intent.holder.clone();
            let Some(other) = other.filter(|name| *name != self.0.server) else {
                return Ok(left);
            };
            // Another process's client is here as long as that process lives, which
            // its heartbeats prove.
            let id = intent.id;
            let (judged, until, read) = self
                .0
                .store
                .read(move |conn| -> Result<_, Error> {
                    Ok((
                        store::workers::now(conn, now)?,
                        store::workers::held_until(conn, &other)?,
                        store::intents::by_id(conn, id)?,
                    ))
                })
                .await?;
            let Some(until) = until.filter(|until| *until > judged) else {
                return Ok(left);
            };
            if !beats.contains(&until) {
                beats.push(until);
            }
            if beats.len() == BEATS {
                return Ok(ClientState::Waiting);
            }
            match read {
                Some(read) => intent = read,
                None => return Ok(ClientState::Answered(intent.created_at)),
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
