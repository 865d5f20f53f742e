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

/// How often to look.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How far each poll reaches back before the previous one: commits arrive late, and clocks differ.
const OVERLAP: Duration = Duration::from_secs(3);
/// Rows of each kind that a poll reads.
const MOST_ROWS: u32 = 500;
/// Most handles that are cached.
const MOST_HANDLES: usize = 1000;
/// How far back an interrupted stream can be resumed.
const REPLAY_WINDOW: Duration = Duration::from_mins(5);

/// A follower of the feed, until dropped.
pub struct FeedFollower {
    app: App,
    receiver: broadcast::Receiver<Arc<FeedEntry>>,
    /// The events it missed while disconnected, the oldest first.
    missed: VecDeque<Arc<FeedEntry>>,
}

impl Drop for FeedFollower {
    fn drop(&mut self) {
        self.app.process.feed.leave();
    }
}

/// What a follower receives.
pub enum FeedItem {
    Event(Arc<FeedEntry>),
    /// The follower was too slow and missed this many events.
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
    };
    if let Some(since) = since {
        let now = app.clock.now();
        let mut look = FeedCursor::starting_at(since.minus(OVERLAP).max(now.minus(REPLAY_WINDOW)));
        follower.missed = look.poll_records(app).await?.into();
    }
    Ok(follower)
}

impl FeedFollower {
    /// The next event; an error when the process stops.
    pub async fn next(&mut self) -> Result<FeedItem, Error> {
        if let Some(told) = self.missed.pop_front() {
            return Ok(FeedItem::Event(told));
        }
        tokio::select! {
            heard = self.receiver.recv() => match heard {
                Ok(told) => Ok(FeedItem::Event(told)),
                Err(broadcast::error::RecvError::Lagged(count)) => Ok(FeedItem::Missed(count)),
                Err(broadcast::error::RecvError::Closed) => Err(Error::shutting_down()),
            },
            () = self.app.process.closing.cancelled() => Err(Error::shutting_down()),
        }
    }
}

/// Polls until there are no more followers.
async fn watch(app: App) {
    let mut look = FeedCursor::starting_at(app.clock.now());
    // Reads the initial states of the routes. Only later changes are events.
    if let Ok(others) = route_states::peer_states(&app).await {
        look.poll_routes(&app, &others);
    }
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        if !app.process.feed.is_followed_or_end() {
            return;
        }
        match look.poll_all(&app).await {
            Ok(found) => {
                for told in found {
                    app.process.feed.publish(told);
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
    /// The time from which each kind of record is read next: accepted, sent, ended, changed.
    since: [Timestamp; 4],
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
            since: [since; 4],
            published: HashMap::new(),
            new: Vec::new(),
            routes: HashMap::new(),
            handles: HashMap::new(),
        }
    }

    /// All new events.
    async fn poll_all(&mut self, app: &App) -> Result<Vec<Arc<FeedEntry>>, Error> {
        let others = route_states::peer_states(app).await?;
        let mut found = self.poll_records(app).await?;
        found.extend(self.poll_routes(app, &others));
        Ok(found)
    }

    /// New records since the last poll, the oldest first, with the handles of accounts.
    async fn poll_records(&mut self, app: &Ctx) -> Result<Vec<Arc<FeedEntry>>, Error> {
        self.read_records(app).await?;
        self.look_up_handles(app).await?;
        // Nothing can fail from here on, so every event that is taken out is published.
        self.new.sort_by_key(FeedEvent::at);
        let handles = &self.handles;
        let told = self.new.drain(..).map(|what| {
            let handle = what.account().and_then(|id| handles.get(&id).cloned());
            Arc::new(FeedEntry {
                event: what,
                handle,
            })
        });
        Ok(told.collect())
    }

    /// Reads the new records since the last poll.
    async fn read_records(&mut self, app: &Ctx) -> Result<(), Error> {
        let since = self.since;
        let read = app.store.long_read(move |conn| -> Result<_, Error> {
            let accepted = store::feed::accepted_tasks(conn, since[0], MOST_ROWS)?;
            let sent = store::feed::sent_submissions(conn, since[1], MOST_ROWS)?;
            let ended = store::feed::ended_tasks(conn, since[2], MOST_ROWS)?;
            let changed = store::feed::audit_entries(conn, since[3], MOST_ROWS)?;
            let kinds: [Vec<FeedEvent>; 4] = [
                accepted.into_iter().map(FeedEvent::Accepted).collect(),
                sent.into_iter().map(FeedEvent::Sent).collect(),
                ended.into_iter().map(FeedEvent::Ended).collect(),
                changed
                    .into_iter()
                    .map(|entry| FeedEvent::AuditLogged(Box::new(entry)))
                    .collect(),
            ];
            Ok(kinds)
        });
        let kinds = store::await_commit(read).await?;
        for (kind, found) in (0u8..).zip(kinds) {
            let place = &mut self.since[usize::from(kind)];
            if let Some(last) = found.last() {
                // A full page is continued where it ended. Otherwise the next poll reaches back a
                // little, because commits arrive late and the clocks of processes differ.
                let is_full = u32::try_from(found.len()).is_ok_and(|count| count >= MOST_ROWS);
                let next = if is_full {
                    last.at()
                } else {
                    last.at().minus(OVERLAP)
                };
                *place = next.max(*place);
            }
            for what in found {
                let (id, at) = (id(&what), what.at());
                // Polls overlap, so rows are read again. Each is published once.
                if self.published.insert((kind, id), at).is_none() {
                    self.new.push(what);
                }
            }
            // No later poll reads further back, so older ids need not be remembered.
            let oldest = self.since[usize::from(kind)].minus(OVERLAP);
            self.published
                .retain(|(of, _), at| *of != kind || *at >= oldest);
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
            let found = accounts::handles(app, unknown.into_iter()).await?;
            self.handles.extend(found);
        }
        Ok(())
    }

    /// The routes whose state has changed since the last poll.
    fn poll_routes(&mut self, app: &App, others: &PeerRouteStates) -> Vec<Arc<FeedEntry>> {
        let now = app.clock.now();
        let catalog = app.models.catalog.load_full();
        let routes = catalog.models().iter().flat_map(Model::routes);
        let mut changed = Vec::new();
        for route in routes {
            let together = route_states::combined_state(app, route, others);
            let note = app.models.upstream.note(route, |note| note.clone());
            let state = RouteStatus {
                provider: route.provider.clone(),
                model: route.model.clone(),
                is_available: together.is_up
                    && note.paused_at.is_none()
                    && note.refused_at.is_none(),
                breaker: together.worst.state,
                paused_at: note.paused_at,
                refused_at: note.refused_at,
                error: note.error,
            };
            let key = (state.provider.clone(), state.model.clone());
            // A route that is seen for the first time has not changed.
            let before = self.routes.insert(key, state.clone());
            if before.is_some_and(|before| before != state) {
                let what = FeedEvent::Route(Box::new(state), now);
                changed.push(Arc::new(FeedEntry {
                    event: what,
                    handle: None,
                }));
            }
        }
        changed
    }
}

fn id(what: &FeedEvent) -> String {
    match what {
        FeedEvent::Accepted(one) => one.task.to_string(),
        FeedEvent::Sent(one) => one.id.to_string(),
        FeedEvent::Ended(one) => one.task.to_string(),
        FeedEvent::Route(state, _) => format!("{}/{}", state.provider, state.model),
        FeedEvent::AuditLogged(entry) => entry.id.to_string(),
    }
}
