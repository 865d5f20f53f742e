//! The guard of a client in the [`ClientRegistry`]: the client counts as connected until its guard
//! is dropped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use locks::lock;
use tokio::time::Instant;

use super::PeerSocket;
use super::client_table::{CreationState, DisconnectRecord};
use super::clients::ClientRegistry;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_model::ids::IntentId;

/// A waiting client. It is dropped when the client has its answer or has disconnected.
pub struct ClientGuard {
    clients: Arc<ClientRegistry>,
    id: IntentId,
    number: u32,
    close_time: Mutex<Option<IntentCloseTime>>,
    socket: PeerSocket,
    is_answered: Arc<AtomicBool>,
}

/// When a completely written answer closes its intent to requests with the same body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntentCloseTime {
    /// The intent closes at once.
    Now,
    /// At this instant.
    At(Timestamp),
}

impl ClientGuard {
    pub(super) fn new(
        clients: Arc<ClientRegistry>,
        id: IntentId,
        number: u32,
        socket: PeerSocket,
        is_answered: Arc<AtomicBool>,
    ) -> Arc<Self> {
        Arc::new(Self {
            clients,
            id,
            number,
            close_time: Mutex::new(None),
            socket,
            is_answered,
        })
    }

    /// The intent.
    pub const fn id(&self) -> IntentId {
        self.id
    }

    /// The number of the attempt.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Marks the answer that is being written as final for the intent.
    pub fn complete(&self, close: IntentCloseTime) {
        let mut close_time = lock(&self.close_time);
        *close_time = Some(close);
    }

    /// Whether the client has closed its connection: what is written now does not reach it.
    pub fn is_disconnected(&self) -> bool {
        self.socket.is_closed()
    }

    /// Notes that the end of the body was handed to the connection.
    pub fn mark_written(&self) {
        self.is_answered.store(true, Ordering::Release);
    }

    /// Whether it is certain that nothing was made for this client.
    pub fn made_nothing(&self) -> bool {
        let table = self.clients.table();
        let entry = table.entries.get(&self.id);
        entry.is_some_and(|entry| {
            entry.number == self.number && entry.creation == CreationState::Nothing
        })
    }

    /// Announces a write to the database. Until the guard is dropped, a missing row must not be
    /// taken as proof that nothing was made.
    pub fn begin_acceptance(self: &Arc<Self>) -> AcceptanceGuard {
        if let Some(entry) = self.clients.table().entries.get_mut(&self.id) {
            entry.creation = CreationState::UnderWay;
        }
        AcceptanceGuard {
            clients: self.clients.clone(),
            id: self.id,
            number: self.number,
            is_reserved: false,
            final_state: CreationState::Perhaps,
        }
    }
}

impl Drop for ClientGuard {
    fn drop(&mut self) {
        let close_time = *lock(&self.close_time);
        let close_time = close_time.filter(|_| self.is_answered.load(Ordering::Acquire));
        let joinable_until = close_time.map(|close_time| match close_time {
            IntentCloseTime::Now => self.clients.now(),
            IntentCloseTime::At(at) => at,
        });
        let mut table = self.clients.table();
        if let Some(entry) = table
            .entries
            .get_mut(&self.id)
            .filter(|entry| entry.number == self.number)
        {
            entry.disconnect = Some(DisconnectRecord {
                at: Instant::now(),
                joinable_until,
            });
        }
        table.forget_unwritten(self.id, self.number);
        drop(table);
        self.clients.notify_change();
        self.clients.wake_writer();
    }
}

/// See [`ClientGuard::begin_acceptance`].
pub struct AcceptanceGuard {
    clients: Arc<ClientRegistry>,
    id: IntentId,
    number: u32,
    /// Whether the intent itself was written.
    is_reserved: bool,
    /// The state to set when the write is over.
    final_state: CreationState,
}

impl AcceptanceGuard {
    /// Notes the result of the write. Only errors with an unknown outcome leave open whether
    /// something was written.
    pub fn record_result<T>(self, result: &Result<T, Error>) {
        let is_refused = matches!(result, Err(error) if !error.outcome_unknown());
        if is_refused {
            self.record_nothing_made();
        }
    }

    /// Notes that the intent is in the database and nothing was made for it yet.
    pub fn record_reservation(mut self) {
        (self.is_reserved, self.final_state) = (true, CreationState::Nothing);
    }

    /// Notes that nothing was written.
    pub fn record_nothing_made(mut self) {
        self.final_state = CreationState::Nothing;
    }
}

impl Drop for AcceptanceGuard {
    fn drop(&mut self) {
        let mut table = self.clients.table();
        if let Some(entry) = table.entries.get_mut(&self.id) {
            entry.creation = self.final_state;
            entry.reserved |= self.is_reserved;
        }
        table.forget_unwritten(self.id, self.number);
        drop(table);
        self.clients.notify_change();
        self.clients.wake_writer();
    }
}
