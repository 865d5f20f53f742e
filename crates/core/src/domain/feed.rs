//! Events of the whole gateway, for operators who follow it.
//!
//! The feed is derived from the records in the database, whichever process wrote them; nothing is
//! written for the feed itself. Each process polls twice a second for all of its followers, and not
//! at all if it has none.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;

use crate::app::{App, Ctx};
use crate::domain::accounts;
use crate::domain::route_states::{self, PeerRouteStates};
use crate::event_feed::{FeedEntry, MOST_FOLLOWERS};
use mediagate_model::catalog::Model;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::feed::{FeedEvent, RouteStatus};
use mediagate_model::ids::AccountId;
use mediagate_store as store;

/// How often the database is polled for new events.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How far each poll reaches back before the previous one: commits arrive late, and clocks differ.
const OVERLAP: Duration = Duration::from_secs(3);
/// Rows of each kind that a poll reads.
const MOST_ROWS: u32 = 500;
/// Maximum number of handles in the cache.
const MOST_HANDLES: usize = 1000;
/// How far back an interrupted stream can be resumed.
const REPLAY_WINDOW: Duration = Duration::from_mins(5);
/// Maximum number of events that are replayed; of more, the latest.
const MAX_REPLAYED: usize = 5000;

/// A follower of the feed, until dropped.
pub struct FeedFollower {
    app: App,
    receiver: broadcast::Receiver<Arc<FeedEntry>>,
    /// The events it missed while disconnected, the oldest first.
    missed: VecDeque<Arc<FeedEntry>>,
    /// How many events before those are not replayed.
    dropped: u64,
}

impl Drop for FeedFollower {
    fn drop(&mut self) {
        self.app.process.feed.leave();
    }
}

/// What a follower receives.
pub enum FeedItem {
    Event(Arc<FeedEntry>),
    /// The follower was too slow, or away for too long, and missed this many events.
    Missed(u64),
}

/// Follows events from now on, or from `since` on if that is not long ago; events of the last
/// seconds before it may be repeated.
pub async fn follow(app: &App, since: Option<Timestamp>) -> Result<FeedFollower, Error> {
    // Subscribed before the past is read, so that no event is lost between the two. Some events
    // come twice.
    let Some((receiver, is_first)) = app.process.feed.join() else {
        let message = format!("At most {MOST_FOLLOWERS} event streams can be open at a time.");
        return Err(Error::retry_later(ErrorCode::Overloaded, message, 5));
    };
    if is_first {
        #[expect(clippy::disallowed_methods, reason = "it ends with the last follower")]
        tokio::spawn(watch(app.clone()));
    }
    let mut follower = FeedFollower {
        app: app.clone(),
        receiver,
        missed: VecDeque::new(),
        dropped: 0,
    };
    if let Some(since) = since {
        let now = app.clock.now();
        let mut cursor =
            FeedCursor::starting_at(since.minus(OVERLAP).max(now.minus(REPLAY_WINDOW)));
        follower.replay(&mut cursor).await?;
    }
    Ok(follower)
}

impl FeedFollower {
    /// Reads the events since the cursor's position, page by page, and keeps the latest.
    async fn replay(&mut self, cursor: &mut FeedCursor) -> Result<(), Error> {
        loop {
            self.missed.extend(cursor.poll_records(&self.app).await?);
            // The pages of one kind are in order, but each poll reads a page of every kind.
            let missed = self.missed.make_contiguous();
            missed.sort_by_key(|entry| entry.event.at());
            let excess = self.missed.len().saturating_sub(MAX_REPLAYED);
            self.missed.drain(..excess);
            self.dropped += excess as u64;
            if !cursor.has_more {
                return Ok(());
            }
        }
    }

    /// The next event; an error when the process stops.
    pub async fn next(&mut self) -> Result<FeedItem, Error> {
        if self.dropped > 0 {
            return Ok(FeedItem::Missed(std::mem::take(&mut self.dropped)));
        }
        if let Some(entry) = self.missed.pop_front() {
            return Ok(FeedItem::Event(entry));
        }
        tokio::select! {
            received = self.receiver.recv() => match received {
                Ok(entry) => Ok(FeedItem::Event(entry)),
                Err(broadcast::error::RecvError::Lagged(count)) => Ok(FeedItem::Missed(count)),
                Err(broadcast::error::RecvError::Closed) => Err(Error::shutting_down()),
            },
            () = self.app.process.closing.cancelled() => Err(Error::shutting_down()),
        }
    }
}

/// Polls until there are no more followers.
async fn watch(app: App) {
    let mut cursor = FeedCursor::starting_at(app.clock.now());
    // Reads the initial states of the routes. Only later changes are events.
    if let Ok(peers) = route_states::peer_states(&app).await {
        cursor.poll_routes(&app, &peers);
    }
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        if !app.process.feed.has_followers_or_stop() {
            return;
        }
        match cursor.poll_all(&app).await {
            Ok(entries) => {
                for entry in entries {
                    app.process.feed.publish(entry);
                }
            }
            // The followers stay subscribed: the database may be back at the next poll.
            Err(error) => {
                tracing::warn!(inside = ?error.internal_cause(), "cannot read the latest events");
            }
        }
    }
}

/// The position of the polls.
struct FeedCursor {
    /// The time from which each kind of record is read next: accepted, sent, ended, changed, budgets.
    since: [Timestamp; 5],
    /// Whether the last poll read a full page, so that there may be more to read at once.
    has_more: bool,
    /// Records that were already read, with the times of their events.
    published: HashMap<(u8, String), Timestamp>,
    /// Events that were read and not yet published: a poll may fail in between.
    new: Vec<FeedEvent>,
    routes: HashMap<(String, String), RouteStatus>,
    handles: HashMap<AccountId, String>,
}

impl FeedCursor {
    fn starting_at(since: Timestamp) -> Self {
        Self {
            since: [since; 5],
            has_more: false,
            published: HashMap::new(),
            new: Vec::new(),
            routes: HashMap::new(),
            handles: HashMap::new(),
        }
    }

    /// All new events.
    async fn poll_all(&mut self, app: &App) -> Result<Vec<Arc<FeedEntry>>, Error> {
        let peers = route_states::peer_states(app).await?;
        let mut entries = self.poll_records(app).await?;
        entries.extend(self.poll_routes(app, &peers));
        Ok(entries)
    }

    /// New records since the last poll, the oldest first, with the handles of accounts.
    async fn poll_records(&mut self, app: &Ctx) -> Result<Vec<Arc<FeedEntry>>, Error> {
        self.read_records(app).await?;
        self.look_up_handles(app).await?;
        // Nothing can fail from here on, so every event that is taken out is published.
        self.new.sort_by_key(FeedEvent::at);
        let handles = &self.handles;
        let entries = self.new.drain(..).map(|event| {
            let handle = event.account().and_then(|id| handles.get(&id).cloned());
            Arc::new(FeedEntry { event, handle })
        });
        Ok(entries.collect())
    }

    /// Reads the new records since the last poll.
    async fn read_records(&mut self, app: &Ctx) -> Result<(), Error> {
        let since = self.since;
        let read = app.store.long_read(move |conn| -> Result<_, Error> {
            let accepted = store::feed::accepted_tasks(conn, since[0], MOST_ROWS)?;
            let sent = store::feed::sent_submissions(conn, since[1], MOST_ROWS)?;
            let ended = store::feed::ended_tasks(conn, since[2], MOST_ROWS)?;
            let changed = store::feed::audit_entries(conn, since[3], MOST_ROWS)?;
            let budgets = store::budget_alerts::since(conn, since[4], MOST_ROWS)?;
            let kinds: [Vec<FeedEvent>; 5] = [
                accepted.into_iter().map(FeedEvent::Accepted).collect(),
                sent.into_iter().map(FeedEvent::Sent).collect(),
                ended.into_iter().map(FeedEvent::Ended).collect(),
                changed
                    .into_iter()
                    .map(|entry| FeedEvent::AuditLogged(Box::new(entry)))
                    .collect(),
                budgets
                    .into_iter()
                    .map(|alert| FeedEvent::BudgetUsed(Box::new(alert)))
                    .collect(),
            ];
            Ok(kinds)
        });
        let kinds = store::await_within_limit(read).await?;
        self.has_more = false;
        for (kind, events) in (0u8..).zip(kinds) {
            let since = &mut self.since[usize::from(kind)];
            if let Some(last) = events.last() {
                // A full page is continued where it ended. Otherwise the next poll reaches back a
                // little, because commits arrive late and the clocks of processes differ.
                let is_full = u32::try_from(events.len()).is_ok_and(|count| count >= MOST_ROWS);
                let next = if is_full {
                    last.at()
                } else {
                    last.at().minus(OVERLAP)
                };
                // A page of one moment is not continued: the next would be the same.
                self.has_more |= is_full && next > *since;
                *since = next.max(*since);
            }
            for event in events {
                let (id, at) = (id(&event), event.at());
                // Polls overlap, so rows are read again. Each is published once.
                if self.published.insert((kind, id), at).is_none() {
                    self.new.push(event);
                }
            }
            // No later poll reads further back, so older ids need not be remembered.
            let oldest = self.since[usize::from(kind)].minus(OVERLAP);
            self.published
                .retain(|(other_kind, _), at| *other_kind != kind || *at >= oldest);
        }
        Ok(())
    }

    /// Looks up the handles of the new events' accounts.
    async fn look_up_handles(&mut self, app: &Ctx) -> Result<(), Error> {
        let unknown: HashSet<AccountId> = self
            .new
            .iter()
            .filter_map(FeedEvent::account)
            .filter(|id| !self.handles.contains_key(id))
            .collect();
        if !unknown.is_empty() {
            if self.handles.len() > MOST_HANDLES {
                self.handles.clear();
            }
            let handles = accounts::handles(app, unknown.into_iter()).await?;
            self.handles.extend(handles);
        }
        Ok(())
    }

    /// The routes whose state has changed since the last poll.
    fn poll_routes(&mut self, app: &App, peers: &PeerRouteStates) -> Vec<Arc<FeedEntry>> {
        let now = app.clock.now();
        let catalog = app.models.catalog.load_full();
        let routes = catalog.models().iter().flat_map(Model::routes);
        let mut changed = Vec::new();
        for route in routes {
            let combined = route_states::combined_state(app, route, peers);
            let stored = app
                .models
                .upstream
                .with_stored_state(route, |stored| stored.clone());
            let state = RouteStatus {
                provider: route.provider.clone(),
                model: route.model.clone(),
                is_available: combined.is_up
                    && stored.paused_at.is_none()
                    && stored.refused_at.is_none(),
                breaker: combined.worst.state,
                paused_at: stored.paused_at,
                refused_at: stored.refused_at,
                error: stored.error,
            };
            let key = (state.provider.clone(), state.model.clone());
            // A route that is seen for the first time has not changed.
            let before = self.routes.insert(key, state.clone());
            if before.is_some_and(|before| before != state) {
                let event = FeedEvent::Route(Box::new(state), now);
                changed.push(Arc::new(FeedEntry {
                    event,
                    handle: None,
                }));
            }
        }
        changed
    }
}

fn id(event: &FeedEvent) -> String {
    match event {
        FeedEvent::Accepted(row) => row.task.to_string(),
        FeedEvent::Sent(row) => row.id.to_string(),
        FeedEvent::Ended(row) => row.task.to_string(),
        FeedEvent::Route(state, _) => format!("{}/{}", state.provider, state.model),
        FeedEvent::AuditLogged(entry) => entry.id.to_string(),
        FeedEvent::BudgetUsed(alert) => alert.id.to_string(),
    }
}
