//! The live event feed of this process, and its followers. The events are collected by
//! `domain/feed.rs`.

use std::sync::{Arc, Mutex, MutexGuard};

use locks::lock;
use tokio::sync::broadcast;

use mediagate_model::bounds;
use mediagate_model::feed::FeedEvent;

/// Number of events that are buffered for a slow follower; it misses older ones, and learns how
/// many.
const BUFFER: usize = bounds::EVENT_BUFFER.total.count();
/// Maximum number of simultaneous followers.
pub const MOST_FOLLOWERS: usize = bounds::EVENT_FOLLOWERS.total.count();

/// An event, and the handle of its account.
#[derive(Debug, Clone)]
pub struct FeedEntry {
    pub event: FeedEvent,
    pub handle: Option<String>,
}

/// The followers of the event feed.
pub struct EventFeed {
    sender: broadcast::Sender<Arc<FeedEntry>>,
    state: Mutex<FeedState>,
}

#[derive(Default)]
struct FeedState {
    followers: usize,
    is_polled: bool,
}

impl Default for EventFeed {
    fn default() -> Self {
        Self {
            sender: broadcast::Sender::new(BUFFER),
            state: Mutex::default(),
        }
    }
}

impl EventFeed {
    fn state(&self) -> MutexGuard<'_, FeedState> {
        lock(&self.state)
    }

    /// Adds a follower, and returns whether the caller must start the polling; `None` if there are
    /// too many followers.
    pub fn join(&self) -> Option<(broadcast::Receiver<Arc<FeedEntry>>, bool)> {
        // Under the same lock as `has_followers_or_stop`, so that exactly one async task polls for
        // events.
        let mut state = self.state();
        if state.followers >= MOST_FOLLOWERS {
            return None;
        }
        state.followers += 1;
        let is_first = !std::mem::replace(&mut state.is_polled, true);
        Some((self.sender.subscribe(), is_first))
    }

    pub fn leave(&self) {
        self.state().followers -= 1;
    }

    /// Whether there are followers. If not, the caller must stop polling, and the next follower
    /// starts it again.
    pub fn has_followers_or_stop(&self) -> bool {
        let mut state = self.state();
        state.is_polled = state.followers > 0;
        state.is_polled
    }

    pub fn publish(&self, entry: Arc<FeedEntry>) {
        // Fails if the last follower has just left.
        let _ = self.sender.send(entry);
    }
}
