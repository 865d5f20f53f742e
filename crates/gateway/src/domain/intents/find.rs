//! Finds out whether a request came before, and what became of it.

mod by_body;
mod by_key;

use std::sync::Arc;
use std::time::Duration;

use super::{Ahead, Begun, Found, KNOWN, Visit, Wanted, failure};
use crate::app::App;
use crate::attendance::{Presence, Standing};
use crate::clock::Timestamp;
use crate::crash;
use crate::domain::{music, personas};
use crate::error::{Error, ErrorCode};
use crate::ids::{AccountId, IntentId};
use crate::model::account::Caller;
use crate::model::intent::{Intent, IntentState, Made};
use crate::model::task::Task;
use crate::store::{self, Conn};

/// How long a connection that its caller has closed may seem open to whoever serves
/// it. One with a second request on it seems so until the first is answered.
const NOTICED: Duration = Duration::from_secs(2);
/// How many heartbeats prove that another process lives and would have told of a
/// caller that left: the one that is there, one that may be older than what was just
/// read of the intent, and one that is not.
const BEATS: usize = 3;
/// How often another process's callers are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Leads a request to what its first coming made, or begins it. `is_reserved`
/// says that the intent must be on disk before anything is done for it.
pub async fn begin(
    app: &App,
    caller: &Caller,
    wanted: &Wanted,
    is_reserved: bool,
) -> Result<Begun, Error> {
    let noticed = app.attendance.noticed(caller.key.id, &wanted.fingerprint);
    drop(tokio::time::timeout(NOTICED, noticed).await);
    store::soon(async {
        let settled = app.attendance.settled(caller.key.id, &wanted.fingerprint);
        settled.await;
        Ok::<_, Error>(())
    })
    .await?;
    match &wanted.idempotency_key {
        Some(key) => by_key::begin(app, caller, wanted, key, is_reserved).await,
        None => by_body::begin(app, caller, wanted, is_reserved).await,
    }
}

fn draft(app: &App, caller: &Caller, wanted: &Wanted) -> Intent {
    Intent {
        id: IntentId::new(),
        account: caller.account.id,
        key: caller.key.id,
        idempotency_key: wanted.idempotency_key.clone(),
        fingerprint: wanted.fingerprint.clone(),
        state: IntentState::Working,
        made: None,
        answer: None,
        holder: Some(app.attendance.name().to_owned()),
        visits: 1,
        joinable_until: None,
        sent_at: None,
        created_at: app.clock.now(),
    }
}

/// The first visit of an intent, which is written down if it is to be reserved;
/// `None` when its key or body leads to another one already.
async fn open(
    app: &App,
    presence: Arc<Presence>,
    intent: Intent,
    ahead: Ahead,
    is_reserved: bool,
) -> Result<Option<Visit>, Error> {
    let mut visit = Visit::new(presence, intent, false, ahead);
    if is_reserved {
        match reserve(app, &visit).await {
            Ok(()) => visit.reserved = true,
            Err(_) if visit.is_too_late() => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(visit))
}

/// Writes an intent down before anything is made for it, even when its caller
/// leaves.
async fn reserve(app: &App, visit: &Visit) -> Result<(), Error> {
    let (app, record, accepting) = (app.clone(), visit.record(), visit.accepting());
    #[expect(clippy::disallowed_methods, reason = "it ends with its one write")]
    let written = tokio::spawn(async move {
        let (account, ahead) = (record.intent.account, record.ahead());
        let insert = move |conn: &mut Conn<'_>| record.insert(conn, &record.intent);
        let written = ahead.write(&app, account, insert).await;
        match &written {
            Ok(()) => {
                accepting.reserved();
                crash::point("intent-reserved");
            }
            Err(_) if ahead.is_too_late() => accepting.undone(),
            Err(_) => accepting.done(&written),
        }
        written
    });
    store::soon(async { written.await.map_err(Error::internal)? }).await
}

/// An intent as it is now.
async fn look_again(app: &App, id: IntentId) -> Result<Option<Intent>, Error> {
    app.store
        .read(move |conn| store::intents::by_id(conn, id).map_err(Error::from))
        .await
}

/// Whether nothing is made for an intent yet: that may have changed while its
/// caller was looked for.
async fn still_working(app: &App, id: IntentId) -> Result<bool, Error> {
    let intent = look_again(app, id).await?;
    Ok(intent.is_some_and(|intent| intent.state == IntentState::Working))
}

fn unconfirmed() -> Error {
    let message = "Whether the provider took the first request cannot be found out, so it was not sent again. Nothing was charged.";
    Error::plain(ErrorCode::SubmissionUnconfirmed, message)
}

/// Becomes the next visit of an intent; `None` when another request was first.
///
/// The caller is entered in the transaction itself: an intent that others can
/// read while nobody is known to be there for it would be taken over.
async fn take_over(app: &App, wanted: &Wanted, intent: Intent) -> Result<Option<Visit>, Error> {
    let (attendance, line) = (app.attendance.clone(), wanted.line.clone());
    let seen = intent.clone();
    let came = app
        .store
        .write(move |conn| -> Result<Option<Arc<Presence>>, Error> {
            if !store::intents::visit(conn, &seen, attendance.name())? {
                return Ok(None);
            }
            let body = (seen.key, seen.fingerprint);
            Ok(Some(attendance.enter(seen.id, seen.visits + 1, body, line)))
        });
    let came = store::soon(came).await?;
    let ahead = Ahead::new(None, false, wanted.line.clone());
    Ok(came.map(|presence| Visit::new(presence, intent, true, ahead)))
}

/// Where the caller of an intent's latest request is.
pub(super) enum CallerIs {
    /// It waits for its answer.
    Waiting,
    /// It left without, or with an answer that is given again.
    Gone,
    /// It has had its answer since this instant.
    Answered(Timestamp),
}

pub(super) async fn caller_of(app: &App, intent: &Intent) -> Result<CallerIs, Error> {
    let mut intent = intent.clone();
    let mut beats = Vec::new();
    loop {
        let now = app.clock.now();
        let open = |until: Option<Timestamp>| match until {
            Some(until) if until <= now => CallerIs::Answered(until),
            _ => CallerIs::Gone,
        };
        match app.attendance.standing(intent.id) {
            Some(Standing::Here(_)) => return Ok(CallerIs::Waiting),
            Some(Standing::Left(until)) => return Ok(open(until)),
            None => {}
        }
        let other = intent.holder.clone();
        let Some(other) = other.filter(|name| name != app.attendance.name()) else {
            return Ok(open(intent.joinable_until));
        };
        // Another process's caller is here as long as that process lives, which
        // its heartbeats prove.
        let id = intent.id;
        let (judged, until, read) = app
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
            return Ok(open(intent.joinable_until));
        };
        if !beats.contains(&until) {
            beats.push(until);
        }
        if beats.len() == BEATS {
            return Ok(CallerIs::Waiting);
        }
        match read {
            Some(read) => intent = read,
            None => return Ok(CallerIs::Answered(intent.created_at)),
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn no_longer_kept() -> Error {
    let message = "What this request made the first time is no longer kept, and was not made again. Nothing was charged now.";
    Error::plain(ErrorCode::TaskNotFound, message)
}

async fn load(app: &App, account: AccountId, made: &Made) -> Result<Option<Found>, Error> {
    Ok(match made {
        Made::Tasks(ids) => {
            let ids = ids.clone();
            let tasks = app
                .store
                .read(move |conn| -> Result<_, Error> {
                    let tasks = ids.iter().map(|id| store::tasks::by_id(conn, *id, account));
                    Ok(tasks.collect::<Result<Vec<_>, _>>()?)
                })
                .await?;
            // Making them again would have them paid for again.
            let tasks: Option<Vec<Task>> = tasks.into_iter().collect();
            Some(Found::Tasks(tasks.ok_or_else(no_longer_kept)?))
        }
        Made::Clip(id) => {
            let clips = music::clips(app, account, vec![*id]).await?;
            clips.into_iter().next().map(Box::new).map(Found::Clip)
        }
        Made::Persona(id) => match personas::get(app, account, *id).await {
            Ok((persona, clips)) => Some(Found::Persona(Box::new(persona), clips)),
            Err(error) if error.code() == ErrorCode::PersonaNotFound => None,
            Err(error) => return Err(error),
        },
    })
}

/// A retry of what failed in a way that a retry can mend makes something new;
/// otherwise it could never succeed.
fn can_be_joined(found: &Found) -> bool {
    match found {
        Found::Tasks(tasks) => failure(tasks).is_none_or(|failure| !failure.code.retryable()),
        Found::Clip(_) | Found::Persona(..) => true,
    }
}
