//! Finds out whether a request came before, and what became of it.

use std::sync::Arc;
use std::time::Duration;

use super::{Begun, Found, KNOWN, UNCONFIRMED, Visit, Wanted, failure};
use crate::app::App;
use crate::attendance::{Claimed, Presence, Standing};
use crate::clock::Timestamp;
use crate::crash;
use crate::domain::{music, personas};
use crate::error::{Error, ErrorCode};
use crate::ids::{AccountId, IntentId};
use crate::model::account::Caller;
use crate::model::intent::{Intent, IntentState, Made};
use crate::model::task::Task;
use crate::store;
use crate::store::intents::Body;
use crate::telemetry;

/// How long the retry mark of an SDK leads to its first try.
const RETRIES: Duration = Duration::from_hours(1);
/// A caller that was here for this long may have just left: a moment is given
/// to the connection to tell.
const SETTLED_IN: Duration = Duration::from_millis(50);
const MOMENT: Duration = Duration::from_millis(50);
/// How long a retry waits for its first try to be accepted or refused.
const UNDER_WAY: Duration = Duration::from_mins(1);
/// How often another process's callers are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Leads a request to what its first coming made, or begins it. `reserve` says
/// that the intent must be on disk before anything is done for it.
pub async fn begin(
    app: &App,
    caller: &Caller,
    wanted: &Wanted,
    reserve: bool,
) -> Result<Begun, Error> {
    app.attendance
        .settled(caller.key.id, &wanted.fingerprint)
        .await;
    match &wanted.idempotency_key {
        Some(key) => by_key(app, caller, wanted, key, reserve).await,
        None => by_body(app, caller, wanted, reserve).await,
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

/// Writes an intent down with its first visit, before anything is made for it;
/// `None` when its key leads to another one already.
///
/// The caller is entered in the transaction itself: an intent that others can
/// read while nobody is known to be there for it would be taken over.
async fn attend(app: &App, intent: &Intent) -> Result<Option<Arc<Presence>>, Error> {
    let (attendance, intent) = (app.attendance.clone(), intent.clone());
    let attended = app
        .store
        .write(move |conn| -> Result<Option<Arc<Presence>>, Error> {
            if !store::intents::insert(conn, &intent)? {
                return Ok(None);
            }
            let body = (intent.key, intent.fingerprint);
            Ok(Some(attendance.enter(intent.id, 1, body, true)))
        })
        .await?;
    if attended.is_some() {
        crash::point("intent-reserved");
    }
    Ok(attended)
}

/// What an `Idempotency-Key` leads to.
enum Keyed {
    /// Nothing so far: the intent is this request's.
    New(Arc<Presence>),
    /// What a request made or makes.
    Known(Box<Intent>),
    /// Another caller of this process, of which the database does not know yet.
    Claimed(Claimed),
}

/// Looks a key up and claims it if it leads nowhere; `None` when that has to be
/// done again.
async fn claim(app: &App, new: &Intent, key: &str, reserve: bool) -> Result<Option<Keyed>, Error> {
    let (account, name) = (new.account, key.to_owned());
    let known = app
        .store
        .read(move |conn| {
            store::intents::by_idempotency_key(conn, account, &name).map_err(Error::from)
        })
        .await?;
    match known {
        Some(old) if old.created_at <= app.clock.now().minus(KNOWN) => {
            free_key(app, old.id).await?;
        }
        Some(known) => return Ok(Some(Keyed::Known(Box::new(known)))),
        None => {}
    }
    if reserve {
        // Another request may have written one in the meantime.
        return Ok(attend(app, new).await?.map(Keyed::New));
    }
    let body = (new.key, new.fingerprint.clone());
    let claim = app
        .attendance
        .claim(new.id, body, (account, key.to_owned()));
    Ok(Some(claim.map_or_else(Keyed::Claimed, Keyed::New)))
}

async fn by_key(
    app: &App,
    caller: &Caller,
    wanted: &Wanted,
    key: &str,
    reserve: bool,
) -> Result<Begun, Error> {
    loop {
        let new = draft(app, caller, wanted);
        let intent = match claim(app, &new, key, reserve).await? {
            Some(Keyed::New(presence)) => {
                return Ok(Begun::New(Visit::new(presence, new, reserve)));
            }
            Some(Keyed::Known(intent)) => *intent,
            Some(Keyed::Claimed(other)) => {
                if other.fingerprint != wanted.fingerprint && other.is_here {
                    return Err(conflict());
                }
                app.attendance.change_within(LOOK).await;
                continue;
            }
            None => continue,
        };
        if intent.fingerprint != wanted.fingerprint {
            if is_abandoned(app, &intent).await? {
                if still_working(app, intent.id).await? {
                    free_key(app, intent.id).await?;
                }
                continue;
            }
            return Err(conflict());
        }
        if let Some(begun) = revisit(app, caller.account.id, intent).await? {
            return Ok(begun);
        }
    }
}

fn conflict() -> Error {
    let message = "The Idempotency-Key was used with another request within the last 24 hours.";
    Error::plain(ErrorCode::IdempotencyConflict, message)
}

/// The key leads to the intent no longer.
async fn free_key(app: &App, id: IntentId) -> Result<(), Error> {
    app.store
        .write(move |conn| store::intents::free_key(conn, id).map_err(Error::from))
        .await
}

/// Whether an intent made nothing and nobody works on it any more.
async fn is_abandoned(app: &App, intent: &Intent) -> Result<bool, Error> {
    if intent.state != IntentState::Working || intent.sent_at.is_some() {
        return Ok(false);
    }
    app.attendance
        .settled(intent.key, &intent.fingerprint)
        .await;
    Ok(matches!(seen(app, intent).await?, Seen::Lost))
}

/// Comes to an intent that is known by its key; `None` when it has to be looked
/// at again.
async fn revisit(app: &App, account: AccountId, intent: Intent) -> Result<Option<Begun>, Error> {
    if let Some(answer) = &intent.answer {
        let answer = serde_json::from_str(answer).map_err(Error::internal)?;
        telemetry::request_joined("key");
        return Ok(Some(Begun::Answered(answer)));
    }
    match &intent.made {
        Some(made) => {
            let found = load(app, account, made).await?;
            let Some(found) = found.filter(can_be_joined) else {
                free_key(app, intent.id).await?;
                return Ok(None);
            };
            let visit = come(app, intent).await?;
            if visit.is_some() {
                telemetry::request_joined("key");
            }
            Ok(visit.map(|visit| Begun::Known(visit, Box::new(found))))
        }
        None => match seen(app, &intent).await? {
            Seen::Here => {
                app.attendance.change_within(LOOK).await;
                Ok(None)
            }
            Seen::Lost | Seen::Closed if intent.sent_at.is_some() => {
                if still_working(app, intent.id).await? {
                    return Err(unconfirmed());
                }
                Ok(None)
            }
            Seen::Lost | Seen::Closed => Ok(come(app, intent).await?.map(Begun::New)),
        },
    }
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
/// As with [`attend`] the caller is entered in the transaction itself.
async fn come(app: &App, intent: Intent) -> Result<Option<Visit>, Error> {
    let attendance = app.attendance.clone();
    let seen = intent.clone();
    let came = app
        .store
        .write(move |conn| -> Result<Option<Arc<Presence>>, Error> {
            if !store::intents::visit(conn, &seen, attendance.name())? {
                return Ok(None);
            }
            let body = (seen.key, seen.fingerprint);
            Ok(Some(attendance.enter(seen.id, seen.visits + 1, body, true)))
        })
        .await?;
    Ok(came.map(|presence| Visit::new(presence, intent, true)))
}

async fn by_body(
    app: &App,
    caller: &Caller,
    wanted: &Wanted,
    reserve: bool,
) -> Result<Begun, Error> {
    let mut known = Vec::new();
    for intent in candidates(app, caller, wanted).await? {
        let seen = seen(app, &intent).await?;
        let age = app.clock.now().since(intent.created_at);
        let rank = match seen {
            Seen::Lost => 0,
            Seen::Here if wanted.is_retry && age <= RETRIES => 1,
            Seen::Closed if wanted.is_retry && age <= RETRIES => 2,
            Seen::Here | Seen::Closed => continue,
        };
        known.push((rank, intent));
    }
    known.sort_by_key(|(rank, intent)| (*rank, intent.visits, intent.id));
    for (_, intent) in known {
        if let Some(begun) = join(app, caller, intent).await? {
            let way = if wanted.is_retry { "retry" } else { "body" };
            telemetry::request_joined(way);
            return Ok(begun);
        }
    }
    let new = draft(app, caller, wanted);
    let presence = if reserve {
        let attended = attend(app, &new).await?;
        attended.ok_or_else(|| Error::internal("an intent's identifier was taken"))?
    } else {
        let body = (new.key, new.fingerprint.clone());
        app.attendance.enter(new.id, 1, body, false)
    };
    Ok(Begun::New(Visit::new(presence, new, reserve)))
}

/// Joins an intent that was found by its body, if that is still possible.
async fn join(app: &App, caller: &Caller, mut intent: Intent) -> Result<Option<Begun>, Error> {
    while intent.made.is_none() {
        if intent.sent_at.is_none() {
            return Ok(None);
        }
        let is_here = matches!(seen(app, &intent).await?, Seen::Here);
        if is_here {
            app.attendance.change_within(LOOK).await;
        }
        let Some(now) = look_again(app, intent.id).await? else {
            return Ok(None);
        };
        if !is_here && now.state == IntentState::Working {
            let age = app.clock.now().since(now.created_at);
            return if age < UNCONFIRMED {
                Err(unconfirmed())
            } else {
                Ok(None)
            };
        }
        intent = now;
    }
    let Some(made) = &intent.made else {
        return Ok(None);
    };
    let found = load(app, caller.account.id, made).await?;
    match found.filter(can_be_joined) {
        Some(found) => {
            let visit = come(app, intent).await?;
            Ok(visit.map(|visit| Begun::Known(visit, Box::new(found))))
        }
        None => Ok(None),
    }
}

/// The intents that a request with this body may mean.
async fn candidates(app: &App, caller: &Caller, wanted: &Wanted) -> Result<Vec<Intent>, Error> {
    let key = caller.key.id;
    if wanted.is_retry {
        // Its first try may have come through only now: a connection that waits
        // for a server to start hands over what its caller has given up.
        let written = app.attendance.written(key, &wanted.fingerprint);
        drop(tokio::time::timeout(UNDER_WAY, written).await);
    }
    let now = app.clock.now();
    let known = app.attendance.with_body(key, &wanted.fingerprint);
    let mut here = left_open(&known, now);
    let may_just_have_left = |(_, standing): &(IntentId, Standing)| matches!(standing, Standing::Here(time) if *time > SETTLED_IN);
    if here.is_empty() && known.iter().any(may_just_have_left) {
        app.attendance.change_within(MOMENT).await;
        let known = app.attendance.with_body(key, &wanted.fingerprint);
        here = left_open(&known, now);
        app.attendance.settled(key, &wanted.fingerprint).await;
    }
    let body = Body {
        key,
        fingerprint: wanted.fingerprint.clone(),
        since: now.minus(KNOWN),
    };
    let (holder, is_retry) = (app.attendance.name().to_owned(), wanted.is_retry);
    app.store
        .read(move |conn| -> Result<Vec<Intent>, Error> {
            let mut found = if is_retry {
                store::intents::all_with(conn, &body)?
            } else {
                store::intents::open_elsewhere(conn, &body, &holder, now)?
            };
            for id in here {
                if found.iter().all(|intent| intent.id != id) {
                    found.extend(store::intents::by_id(conn, id)?);
                }
            }
            Ok(found)
        })
        .await
}

/// Those whose callers left without an answer, or with one that is given again.
fn left_open(known: &[(IntentId, Standing)], now: Timestamp) -> Vec<IntentId> {
    let is_open = |until: &Option<Timestamp>| until.is_none_or(|until| until > now);
    let open = known.iter().filter_map(|(id, standing)| match standing {
        Standing::Left(until) if is_open(until) => Some(*id),
        Standing::Left(_) | Standing::Here(_) => None,
    });
    open.collect()
}

/// Whether the caller of an intent's latest request got its answer.
enum Seen {
    /// It waits for it.
    Here,
    /// It left without, or with one that is given again.
    Lost,
    /// It got it.
    Closed,
}

async fn seen(app: &App, intent: &Intent) -> Result<Seen, Error> {
    let mut intent = intent.clone();
    let mut held = None;
    loop {
        let now = app.clock.now();
        let open = |until: Option<Timestamp>| {
            if until.is_none_or(|until| until > now) {
                Seen::Lost
            } else {
                Seen::Closed
            }
        };
        match app.attendance.standing(intent.id) {
            Some(Standing::Here(_)) => return Ok(Seen::Here),
            Some(Standing::Left(until)) => return Ok(open(until)),
            None => {}
        }
        let other = intent.holder.clone();
        let Some(other) = other.filter(|name| name != app.attendance.name()) else {
            return Ok(open(intent.joinable_until));
        };
        // Another process's caller is here as long as that process lives, which
        // its next heartbeat proves.
        let id = intent.id;
        let (until, read) = app
            .store
            .read(move |conn| -> Result<_, Error> {
                Ok((
                    store::workers::held_until(conn, &other)?,
                    store::intents::by_id(conn, id)?,
                ))
            })
            .await?;
        match (until, held) {
            (None, _) => return Ok(open(intent.joinable_until)),
            (Some(until), _) if until <= now => return Ok(open(intent.joinable_until)),
            (Some(until), Some(first)) if until != first => return Ok(Seen::Here),
            (Some(until), _) => held = Some(until),
        }
        match read {
            Some(read) => intent = read,
            None => return Ok(Seen::Closed),
        }
        tokio::time::sleep(LOOK).await;
    }
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
            let tasks: Option<Vec<Task>> = tasks.into_iter().collect();
            tasks.map(Found::Tasks)
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
