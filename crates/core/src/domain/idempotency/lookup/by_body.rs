//! Requests that are known by their body: of callers whose answer did not
//! arrive, and of SDKs that say that they ask again.

use std::time::Duration;

use super::{
    Begun, Found, KNOWN, LOOK, Visit, Wanted, caller_of, can_be_joined, draft, load, look_again,
    take_over, unconfirmed,
};
use crate::app::{App, Ctx};
use crate::attendance::CallerIs;
use crate::domain::idempotency::record::Unkeyed;
use crate::domain::idempotency::{UNCONFIRMED, refused};
use mediagate_model::account::Caller;
use mediagate_model::error::Error;
use mediagate_model::ids::IntentId;
use mediagate_model::intent::Intent;
use mediagate_store as store;
use mediagate_telemetry::counters;

/// How long after its answer the retry mark of an SDK leads to its first try: it
/// asks again at once, never minutes later.
const RETRIES: Duration = Duration::from_secs(10);
/// A caller that was here for this long may have just left: a moment is given
/// to the connection to tell.
const SETTLED_IN: Duration = Duration::from_millis(50);
const MOMENT: Duration = Duration::from_millis(50);
/// How long a retry waits for its first try to be accepted or refused.
const UNDER_WAY: Duration = Duration::from_mins(1);

/// What came of joining an intent.
enum Joined {
    To(Box<Begun>),
    /// Another request came to it first: all has to be looked at again.
    Overtaken,
    /// It leads nowhere.
    No,
}

/// Leads a request to what one with the same body made, or begins it.
pub(super) async fn begin(
    app: &App,
    caller: &Caller,
    wanted: &Wanted,
    is_reserved: bool,
) -> Result<Begun, Error> {
    let attendance = &app.attendance;
    loop {
        // Before the wait: who comes during it is not in the database yet.
        let waited_for: Option<Vec<IntentId>> = wanted.is_retry().then(|| {
            let here = attendance.with_body(&wanted.body).into_iter();
            here.map(|(id, _)| id).collect()
        });
        let intents = candidates(app, wanted).await?;
        let known = intents.iter().map(|intent| intent.id).collect();
        let unknown_tries = intents.iter().filter(|intent| intent.of_unknown_try);
        let latest_unknown = unknown_tries.map(|intent| intent.created_at).max();
        let mut seen = look_at(app, intents).await?;
        // Callers whose answers were lost come first, whoever asks: as many tasks are
        // made as there are orders.
        let lost = seen.extract_if(.., |(seen, _)| matches!(seen, CallerIs::Gone));
        let lost: Vec<Intent> = lost.map(|(_, intent)| intent).collect();
        let mut joined = join_first(app, caller, wanted, lost, |_| true).await?;
        // Held until this one has begun.
        let (mut alone, mut refused_at) = (None, None);
        if matches!(joined, Joined::No) && wanted.is_retry() {
            let asking = attendance.asking(&wanted.body);
            refused_at = refused::take_after(app, wanted, latest_unknown).await?;
            if refused_at.is_some() {
                alone = Some(asking);
            } else {
                drop(asking);
                joined = join_first_try(app, caller, wanted, seen).await?;
            }
        }
        match joined {
            Joined::To(begun) => {
                let way = if wanted.is_retry() { "retry" } else { "body" };
                counters::request_joined(way);
                return Ok(*begun);
            }
            Joined::Overtaken => continue,
            Joined::No => {}
        }
        let (mut new, line) = (draft(app, caller, wanted), wanted.line.clone());
        new.of_unknown_try = wanted.is_retry() && refused_at.is_none();
        // Of two retries of one request the second joins the first.
        let alone_but_for = waited_for.as_deref().filter(|_| alone.is_none());
        let begun = attendance.begin(new.id, new.body.clone(), line.clone(), alone_but_for);
        drop(alone);
        let Some(presence) = begun else {
            attendance.nobody_asks(&wanted.body).await;
            continue;
        };
        let unkeyed = Unkeyed {
            known,
            is_retry: wanted.is_retry(),
            refused_at,
            line,
        };
        match Visit::first(app, presence, new, Some(unkeyed), is_reserved).await {
            Err(Error::Overtaken) => {}
            visit => return visit.map(Begun::New),
        }
    }
}

/// Intents with what is known of their callers, those with the fewest visits first.
async fn look_at(app: &App, intents: Vec<Intent>) -> Result<Vec<(CallerIs, Intent)>, Error> {
    let mut looked_at = Vec::new();
    for intent in intents {
        looked_at.push((caller_of(app, &intent).await?, intent));
    }
    looked_at.sort_by_key(|(_, intent)| (intent.visits, intent.id));
    Ok(looked_at)
}

/// Joins what an SDK's first try most likely made: one that still waits, then one
/// whose answer has just ended or whose task is open.
async fn join_first_try(
    app: &App,
    caller: &Caller,
    wanted: &Wanted,
    mut seen: Vec<(CallerIs, Intent)>,
) -> Result<Joined, Error> {
    let here = seen.extract_if(.., |(seen, _)| matches!(seen, CallerIs::Waiting));
    let here: Vec<Intent> = here.map(|(_, intent)| intent).collect();
    let joined = join_first(app, caller, wanted, here, |_| true).await?;
    if !matches!(joined, Joined::No) {
        return Ok(joined);
    }
    for (seen, intent) in seen {
        let CallerIs::Answered(at) = seen else {
            continue;
        };
        let is_fresh = app.clock.now().since(at) < RETRIES;
        let joined = join_first(app, caller, wanted, vec![intent], |found| {
            is_fresh || is_open(found)
        });
        match joined.await? {
            Joined::No => {}
            joined => return Ok(joined),
        }
    }
    Ok(Joined::No)
}

/// Joins the first of these that can be joined and is meant.
async fn join_first(
    app: &App,
    caller: &Caller,
    wanted: &Wanted,
    intents: Vec<Intent>,
    is_meant: impl Fn(&Found) -> bool,
) -> Result<Joined, Error> {
    for intent in intents {
        match join(app, caller, wanted, intent, &is_meant).await? {
            Joined::No => {}
            joined => return Ok(joined),
        }
    }
    Ok(Joined::No)
}

fn is_open(found: &Found) -> bool {
    match found {
        Found::Tasks(tasks) => tasks.iter().any(|task| !task.state.is_terminal()),
        Found::PastTasks(_)
        | Found::Clip(_)
        | Found::Persona(..)
        | Found::Endpoint(_)
        | Found::Change(_) => false,
    }
}

/// Joins an intent, if that is still possible.
async fn join(
    app: &App,
    caller: &Caller,
    wanted: &Wanted,
    intent: Intent,
    is_meant: impl Fn(&Found) -> bool,
) -> Result<Joined, Error> {
    let Some(made) = &intent.made else {
        return until_made(app, &intent).await;
    };
    let found = load(app, caller.account.id, &intent, made).await?;
    let Some(found) = found.filter(|found| can_be_joined(found) && is_meant(found)) else {
        return Ok(Joined::No);
    };
    let visit = take_over(app, wanted, intent).await?;
    Ok(visit.map_or(Joined::Overtaken, |visit| {
        Joined::To(Box::new(Begun::Known(visit, Box::new(found))))
    }))
}

/// What to do about an intent for which nothing was made when it was read: waits
/// until something is, or until nobody works on it.
async fn until_made(app: &App, intent: &Intent) -> Result<Joined, Error> {
    loop {
        app.attendance.settled(&intent.body).await;
        let is_here = matches!(caller_of(app, intent).await?, CallerIs::Waiting);
        let Some(now) = look_again(app, intent.id).await? else {
            return Ok(Joined::No);
        };
        if now.made.is_some() || now.visits != intent.visits {
            return Ok(Joined::Overtaken);
        }
        if is_here {
            app.attendance.change_within(LOOK).await;
            continue;
        }
        let age = app.clock.now().since(now.created_at);
        return match now.sent_at {
            Some(_) if age < UNCONFIRMED => Err(unconfirmed()),
            Some(_) => Ok(Joined::No),
            None => abandon(app, now).await,
        };
    }
}

/// Takes an intent away before it is passed by: its process may only have stood
/// still, and must not go on with it.
async fn abandon(app: &Ctx, intent: Intent) -> Result<Joined, Error> {
    let abandoned = app
        .store
        .write(move |conn| store::intents::abandon(conn, intent.id, intent.visits));
    Ok(if store::soon(abandoned).await? {
        Joined::No
    } else {
        Joined::Overtaken
    })
}

/// The intents that a request with this body may mean.
async fn candidates(app: &App, wanted: &Wanted) -> Result<Vec<Intent>, Error> {
    let (attendance, body) = (&app.attendance, &wanted.body);
    if wanted.is_retry() {
        // Its first try may have come through only now: a connection that waits
        // for a server to start hands over what its caller has given up.
        drop(tokio::time::timeout(UNDER_WAY, attendance.written(body)).await);
    }
    let mut gone = gone(app, wanted);
    if gone.is_empty() && attendance.is_waiting_for(body, SETTLED_IN) {
        drop(tokio::time::timeout(MOMENT, attendance.somebody_leaves(body)).await);
        gone = self::gone(app, wanted);
        attendance.settled(body).await;
    }
    let (body, now, since) = (body.clone(), app.clock.now(), app.clock.cutoff(KNOWN));
    let (holder, is_retry) = (attendance.name().to_owned(), wanted.is_retry());
    let read = app.store.read(move |conn| -> Result<Vec<Intent>, Error> {
        let mut found = if is_retry {
            store::intents::all_with(conn, &body, since)?
        } else {
            store::intents::open_elsewhere(conn, &body, since, &holder, now)?
        };
        for id in gone {
            if found.iter().all(|intent| intent.id != id) {
                found.extend(store::intents::by_id(conn, id)?);
            }
        }
        Ok(found)
    });
    read.await
}

/// Those whose callers left this process without an answer, or with one that is given
/// again.
fn gone(app: &App, wanted: &Wanted) -> Vec<IntentId> {
    let mut known = app.attendance.with_body(&wanted.body);
    known.retain(|(_, caller)| *caller == CallerIs::Gone);
    known.into_iter().map(|(id, _)| id).collect()
}
