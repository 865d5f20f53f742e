//! The second look of a request that is known by its body.
//!
//! Two tries of one request may reach two processes while the first is being
//! accepted: its intent cannot be read yet, for as long as its COMMIT takes, and
//! that may hang. Whoever accepts something for an account waits for its turn in
//! the database until that is over (`Store::write_for`), and looks again under it
//! for intents that were not there when it was looked up.

use std::sync::{Arc, Mutex, PoisonError};

use super::KNOWN;
use super::find::{CallerIs, caller_of};
use crate::app::App;
use crate::attendance::Line;
use crate::crash;
use crate::error::Error;
use crate::ids::{AccountId, IntentId};
use crate::model::intent::Intent;
use crate::store::intents::Body;
use crate::store::{self, Conn};

/// Who was ahead of a request, as far as that is known. Cheap to clone.
#[derive(Clone)]
pub struct Ahead(Arc<Inner>);

struct Inner {
    /// Where the caller waits.
    line: Line,
    /// Whether the caller's SDK says that it asked before.
    is_retry: bool,
    found: Mutex<Found>,
}

struct Found {
    /// The intents that were there when the request was looked up; `None` when it
    /// is known by a key, which the database keeps unique.
    known: Option<Vec<IntentId>>,
    /// Those that were not, and are not judged yet.
    new: Vec<Intent>,
    is_too_late: bool,
}

impl Ahead {
    pub(super) fn new(known: Option<Vec<IntentId>>, is_retry: bool, line: Line) -> Self {
        let found = Found {
            known,
            new: Vec::new(),
            is_too_late: false,
        };
        Self(Arc::new(Inner {
            line,
            is_retry,
            found: Mutex::new(found),
        }))
    }

    pub(super) fn is_too_late(&self) -> bool {
        self.found().is_too_late
    }

    /// Another process was first with the same key.
    pub(super) fn with_the_key(&self) {
        self.found().is_too_late = true;
    }

    /// Looks, in the transaction that accepts; false when others came first.
    pub(super) fn look(&self, conn: &mut Conn<'_>, intent: &Intent) -> Result<bool, Error> {
        let mut found = self.found();
        let Some(known) = &found.known else {
            return Ok(true);
        };
        // A process that stood still finds that its caller has gone, perhaps to
        // another one that answered it. The database ends a transaction that stands
        // still, so whoever is here now is here when it is committed.
        if self.0.line.is_closed() {
            return Err(Error::CallerLeft);
        }
        let body = Body {
            key: intent.key,
            fingerprint: intent.fingerprint.clone(),
            since: intent.created_at.minus(KNOWN),
        };
        let holder = intent.holder.as_deref().unwrap_or_default();
        let mut new = store::intents::open_elsewhere(conn, &body, holder, intent.created_at)?;
        new.retain(|intent| !known.contains(&intent.id));
        found.new = new;
        Ok(found.new.is_empty())
    }

    /// Runs the write that accepts something for an account; again as long as those
    /// that turn out to have been first are other callers.
    pub async fn write(
        &self,
        app: &App,
        account: AccountId,
        work: impl FnOnce(&mut Conn<'_>) -> Result<(), Error> + Clone + Send + 'static,
    ) -> Result<(), Error> {
        crash::point("about-to-accept");
        loop {
            let written = app.store.write_for(account, work.clone()).await;
            if !self.are_others(app).await {
                return written;
            }
        }
    }

    /// Whether those that were first are other callers, who still wait or have
    /// their answers: then it can be accepted after all. Of a retry they are
    /// taken to be its first try.
    async fn are_others(&self, app: &App) -> bool {
        let new = std::mem::take(&mut self.found().new);
        if new.is_empty() {
            return false;
        }
        let mut others = !self.0.is_retry;
        for intent in &new {
            others = others
                && matches!(
                    caller_of(app, intent).await,
                    Ok(CallerIs::Waiting | CallerIs::Answered(_))
                );
        }
        let mut found = self.found();
        found.is_too_late = !others;
        let ids = new.iter().map(|intent| intent.id);
        found.known.get_or_insert_default().extend(ids);
        others
    }

    fn found(&self) -> std::sync::MutexGuard<'_, Found> {
        self.0.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
