//! Who follows what happens in the gateway, in this process. What happens is found out elsewhere
//! (`domain/feed.rs`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

use mediagate_model::feed::Happening;

/// Events that wait for a follower that is slow; it misses older ones, and is told so.
const BUFFER: usize = 1024;
/// Most who follow at once.
pub const MOST_FOLLOWERS: usize = 50;

/// Something that happened, and the handle of its account.
#[derive(Debug, Clone)]
pub struct Told {
    pub what: Happening,
    pub handle: Option<String>,
}

/// All who follow.
pub struct Feed {
    sender: broadcast::Sender<Arc<Told>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    followers: usize,
    is_watched: bool,
}

impl Default for Feed {
    fn default() -> Self {
        Self {
            sender: broadcast::Sender::new(BUFFER),
            state: Mutex::default(),
        }
    }
}

impl Feed {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more follower, and whether somebody should begin to look; `None` if there are too many.
    pub fn join(&self) -> Option<(broadcast::Receiver<Arc<Told>>, bool)> {
        let mut state = self.state();
        if state.followers >= MOST_FOLLOWERS {
            return None;
        }
        state.followers += 1;
        let is_first = !std::mem::replace(&mut state.is_watched, true);
        Some((self.sender.subscribe(), is_first))
    }

    pub fn leave(&self) {
        self.state().followers -= 1;
    }

    /// Whether anybody follows. When nobody does the caller looks no more, and the next one who joins
    /// has to start it again.
    pub fn is_followed_or_end(&self) -> bool {
        let mut state = self.state();
        state.is_watched = state.followers > 0;
        state.is_watched
    }

    pub fn tell(&self, told: Arc<Told>) {
        // Whoever followed may have left.
        let _ = self.sender.send(told);
    }
}
