//! What happens in the whole gateway, for operators who follow it.
//!
//! The records in the database say what happened, whichever process did it; nothing is written for
//! the feed. One look a process serves all who follow, twice a second, and none is made when nobody
//! does.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;

use crate::app::{App, Ctx};
use crate::domain::accounts;
use crate::domain::stances::{self, Others};
use crate::feed::{MOST_FOLLOWERS, Told};
use mediagate_model::catalog::Model;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::feed::{Happening, RouteState};
use mediagate_model::ids::AccountId;
use mediagate_store as store;

/// How often to look.
const EVERY: Duration = Duration::from_millis(500);
/// How far back a look begins before the one before it: commits arrive late, and clocks differ.
const OVERLAP: Duration = Duration::from_secs(3);
/// Rows of each kind that a look reads.
const MOST_ROWS: u32 = 500;
/// Handles that are kept.
const MOST_HANDLES: usize = 1000;
/// How far back a stream that was interrupted is taken up.
const MEMORY: Duration = Duration::from_mins(5);

/// One who follows, as long as this lives.
pub struct Follower {
    app: App,
    receiver: broadcast::Receiver<Arc<Told>>,
    /// What it missed while it was away, the oldest first.
    missed: VecDeque<Arc<Told>>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.app.process.feed.leave();
    }
}

/// What a follower hears.
pub enum Heard {
    Event(Arc<Told>),
    /// It was too slow, and missed this many.
    Missed(u64),
}

/// Follows what happens from now on, or from `since` on if that is not long ago; the last seconds
/// before it may be told again.
pub async fn follow(app: &App, since: Option<Timestamp>) -> Result<Follower, Error> {
    let Some((receiver, is_first)) = app.process.feed.join() else {
        let message = format!("At most {MOST_FOLLOWERS} streams of events may be open.");
        return Err(Error::later(ErrorCode::Overloaded, message, 5));
    };
    if is_first {
        #[expect(clippy::disallowed_methods, reason = "it ends with the last follower")]
        tokio::spawn(watch(app.clone()));
    }
    let mut follower = Follower {
        app: app.clone(),
        receiver,
        missed: VecDeque::new(),
    };
    if let Some(since) = since {
        let now = app.clock.now();
        let mut look = Look::from(since.minus(OVERLAP).max(now.minus(MEMORY)));
        follower.missed = look.at_records(app).await?.into();
    }
    Ok(follower)
}

impl Follower {
    /// The next event; an error when the process stops.
    pub async fn next(&mut self) -> Result<Heard, Error> {
        if let Some(told) = self.missed.pop_front() {
            return Ok(Heard::Event(told));
        }
        tokio::select! {
            heard = self.receiver.recv() => match heard {
                Ok(told) => Ok(Heard::Event(told)),
                Err(broadcast::error::RecvError::Lagged(count)) => Ok(Heard::Missed(count)),
                Err(broadcast::error::RecvError::Closed) => Err(Error::shutting_down()),
            },
            () = self.app.process.closing.cancelled() => Err(Error::shutting_down()),
        }
    }
}

/// Looks until nobody follows any more.
async fn watch(app: App) {
    let mut look = Look::from(app.clock.now());
    if let Ok(others) = stances::of_others(&app).await {
        look.at_routes(&app, &others);
    }
    loop {
        tokio::time::sleep(EVERY).await;
        if !app.process.feed.is_followed_or_end() {
            return;
        }
        match look.at_all(&app).await {
            Ok(found) => {
                for told in found {
                    app.process.feed.tell(told);
                }
            }
            Err(error) => {
                tracing::warn!(inside = ?error.inside(), "what happened cannot be read");
            }
        }
    }
}

/// What was looked at.
struct Look {
    /// From when on each kind of record is read next: accepted, sent, ended, changed.
    since: [Timestamp; 4],
    /// What was told already, and when it happened.
    told: HashMap<(u8, String), Timestamp>,
    routes: HashMap<(String, String), RouteState>,
    handles: HashMap<AccountId, String>,
}

impl Look {
    fn from(since: Timestamp) -> Self {
        Self {
            since: [since; 4],
            told: HashMap::new(),
            routes: HashMap::new(),
            handles: HashMap::new(),
        }
    }

    /// What is new of everything.
    async fn at_all(&mut self, app: &App) -> Result<Vec<Arc<Told>>, Error> {
        let mut found = self.at_records(app).await?;
        let others = stances::of_others(app).await?;
        found.extend(self.at_routes(app, &others));
        Ok(found)
    }

    /// What is new since the last look, the oldest first.
    async fn at_records(&mut self, app: &Ctx) -> Result<Vec<Arc<Told>>, Error> {
        let since = self.since;
        let read = app.store.examine(move |conn| -> Result<_, Error> {
            let accepted = store::feed::accepted(conn, since[0], MOST_ROWS)?;
            let sent = store::feed::sent(conn, since[1], MOST_ROWS)?;
            let ended = store::feed::ended(conn, since[2], MOST_ROWS)?;
            let changed = store::feed::changed(conn, since[3], MOST_ROWS)?;
            let kinds: [Vec<Happening>; 4] = [
                accepted.into_iter().map(Happening::Accepted).collect(),
                sent.into_iter().map(Happening::Sent).collect(),
                ended.into_iter().map(Happening::Ended).collect(),
                changed
                    .into_iter()
                    .map(|entry| Happening::Changed(Box::new(entry)))
                    .collect(),
            ];
            Ok(kinds)
        });
        let kinds = store::soon(read).await?;
        let mut new = Vec::new();
        for (kind, found) in (0u8..).zip(kinds) {
            let place = &mut self.since[usize::from(kind)];
            if let Some(last) = found.last() {
                // With a full page there is more at this time; else what comes late is read again.
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
                if self.told.insert((kind, id), at).is_none() {
                    new.push(what);
                }
            }
            let oldest = self.since[usize::from(kind)].minus(OVERLAP);
            self.told.retain(|(of, _), at| *of != kind || *at >= oldest);
        }
        new.sort_by_key(Happening::at);
        self.named(app, new).await
    }

    /// With the handles of their accounts.
    async fn named(&mut self, app: &Ctx, new: Vec<Happening>) -> Result<Vec<Arc<Told>>, Error> {
        let unknown: HashSet<AccountId> = new
            .iter()
            .filter_map(Happening::account)
            .filter(|id| !self.handles.contains_key(id))
            .collect();
        if !unknown.is_empty() {
            if self.handles.len() > MOST_HANDLES {
                self.handles.clear();
            }
            let found = accounts::handles(app, unknown.into_iter()).await?;
            self.handles.extend(found);
        }
        let told = new.into_iter().map(|what| {
            let handle = what.account().and_then(|id| self.handles.get(&id).cloned());
            Arc::new(Told { what, handle })
        });
        Ok(told.collect())
    }

    /// The routes that stand differently since the last look.
    fn at_routes(&mut self, app: &App, others: &Others) -> Vec<Arc<Told>> {
        let now = app.clock.now();
        let catalog = app.models.catalog.load_full();
        let routes = catalog.models().iter().flat_map(Model::routes);
        let mut changed = Vec::new();
        for route in routes {
            let together = stances::together(app, route, others);
            let note = app.models.upstream.note(route, |note| note.clone());
            let state = RouteState {
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
            let before = self.routes.insert(key, state.clone());
            if before.is_some_and(|before| before != state) {
                let what = Happening::Route(Box::new(state), now);
                changed.push(Arc::new(Told { what, handle: None }));
            }
        }
        changed
    }
}

fn id(what: &Happening) -> String {
    match what {
        Happening::Accepted(one) => one.task.to_string(),
        Happening::Sent(one) => one.id.to_string(),
        Happening::Ended(one) => one.task.to_string(),
        Happening::Route(state, _) => format!("{}/{}", state.provider, state.model),
        Happening::Changed(entry) => entry.id.to_string(),
    }
}
