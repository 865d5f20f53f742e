//! The table behind the [`ClientRegistry`](super::ClientRegistry): an entry for each intent whose
//! client is connected, or has disconnected without that being in the database yet.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;

use super::PeerSocket;
use super::client_state::ClientState;
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::IntentId;
use mediagate_model::intent::RequestFingerprint;

#[derive(Default)]
pub(super) struct ClientTable {
    pub(super) entries: HashMap<IntentId, ClientEntry>,
    by_body: HashMap<RequestFingerprint, Vec<IntentId>>,
}

/// The client of the latest attempt at an intent.
#[derive(Debug, Clone)]
pub(super) struct ClientEntry {
    pub(super) number: u32,
    pub(super) body: RequestFingerprint,
    pub(super) since: Instant,
    /// Whether the intent was in the database before anything was made for it.
    pub(super) reserved: bool,
    pub(super) creation: CreationState,
    pub(super) disconnect: Option<DisconnectRecord>,
    socket: PeerSocket,
    /// Whether its answer was handed to the connection completely.
    pub(super) is_answered: Arc<AtomicBool>,
}

/// Whether something was made for an intent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CreationState {
    /// Certainly nothing was made.
    Nothing,
    /// It is being written: a missing row proves nothing.
    UnderWay,
    /// Something may have been made.
    Perhaps,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct DisconnectRecord {
    pub(super) at: Instant,
    pub(super) joinable_until: Option<Timestamp>,
}

impl ClientTable {
    pub(super) fn with_body(
        &self,
        body: &RequestFingerprint,
    ) -> impl Iterator<Item = (IntentId, &ClientEntry)> {
        let ids = self.by_body.get(body).into_iter().flatten();
        ids.filter_map(|id| Some((*id, self.entries.get(id)?)))
    }

    pub(super) fn add(&mut self, id: IntentId, entry: ClientEntry) -> Arc<AtomicBool> {
        let is_answered = entry.is_answered.clone();
        let body = entry.body.clone();
        if self.entries.insert(id, entry).is_none() {
            self.by_body.entry(body).or_default().push(id);
        }
        is_answered
    }

    /// Removes an entry that has ended without leaving anything in the database.
    pub(super) fn forget_unwritten(&mut self, id: IntentId, number: u32) {
        let is_over = |entry: &ClientEntry| {
            entry.creation == CreationState::Nothing
                && !entry.reserved
                && entry.disconnect.is_some()
        };
        if self.entries.get(&id).is_some_and(is_over) {
            self.remove(id, number);
        }
    }

    pub(super) fn remove(&mut self, id: IntentId, number: u32) {
        if self
            .entries
            .get(&id)
            .is_none_or(|entry| entry.number != number)
        {
            return;
        }
        let Some(entry) = self.entries.remove(&id) else {
            return;
        };
        if let Some(ids) = self.by_body.get_mut(&entry.body) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_body.remove(&entry.body);
            }
        }
    }
}

impl ClientEntry {
    pub(super) fn new(
        number: u32,
        body: RequestFingerprint,
        socket: PeerSocket,
        reserved: bool,
    ) -> Self {
        Self {
            number,
            body,
            since: Instant::now(),
            reserved,
            creation: CreationState::Nothing,
            disconnect: None,
            socket,
            is_answered: Arc::default(),
        }
    }

    /// Whether the intent's row may not be in the database yet, or not with its result.
    pub(super) fn is_under_way(&self) -> bool {
        self.creation == CreationState::UnderWay
            || (self.creation == CreationState::Nothing && !self.reserved)
    }

    /// Whether its client has disconnected, or its connection is closed without an answer.
    pub(super) fn is_disconnected(&self) -> bool {
        self.disconnect.is_some() || self.has_unnoticed_disconnect()
    }

    /// Whether its client has disconnected without an answer and this has not been noticed yet.
    pub(super) fn has_unnoticed_disconnect(&self) -> bool {
        // The flag is read last: a client may disconnect as soon as it has its answer.
        self.disconnect.is_none()
            && self.socket.is_closed()
            && !self.is_answered.load(Ordering::Acquire)
    }

    pub(super) fn client(&self, now: Timestamp) -> ClientState {
        match self.disconnect {
            // On an overloaded machine the handler may notice the disconnect so late that a
            // repetition would already have become a new order.
            None if self.has_unnoticed_disconnect() => ClientState::Gone,
            None => ClientState::Waiting,
            Some(disconnect) => ClientState::after(disconnect.joinable_until, now),
        }
    }
}
