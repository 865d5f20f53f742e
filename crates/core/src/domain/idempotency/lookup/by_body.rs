//! Requests that are known by their body: of callers whose answer did not
//! arrive, and of SDKs that say that they ask again.

use std::time::Duration;

use super::{
    IntentOutcome, IntentRequest, IntentVisit, KNOWN, LOOK, Lookup, caller_of, can_be_joined,
    draft, load, look_again, take_over, unconfirmed,
};
use crate::app::{App, Ctx};
use crate::connections::ClientState;
use crate::domain::idempotency::record::UnkeyedIntent;
use crate::domain::idempotency::{UNCONFIRMED, refusals};
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
enum JoinResult {
    To(Box<Lookup>),
    /// Another request came to it first: all has to be looked at again.
    Overtaken,
    /// It leads nowhere.
    No,
}

/// Leads a request to what one with the same body made, or begins it.
pub(super) async fn begin(
    app: &App,
    caller: &Caller,
    wanted: &IntentRequest,
    is_reserved: bool,
) -> Result<Lookup, Error> {
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
        let lost = seen.extract_if(.., |(seen, _)| matches!(seen, ClientState::Gone));
        let lost: Vec<Intent> = lost.map(|(_, intent)| intent).collect();
        let mut joined = join_first(app, caller, wanted, lost, |_| true).await?;
        // Held until this one has begun.
        let (mut alone, mut refused_at) = (None, None);
        if matches!(joined, JoinResult::No) && wanted.is_retry() {
            let asking = attendance.asking(&wanted.body);
            refused_at = refusals::take_after(app, wanted, latest_unknown).await?;
            if refused_at.is_some() {
                alone = Some(asking);
            } else {
                drop(asking);
                joined = join_first_try(app, caller, wanted, seen).await?;
            }
        }
        match joined {
            JoinResult::To(begun) => {
                let way = if wanted.is_retry() { "retry" } else { "body" };
                counters::request_joined(way);
                return Ok(*begun);
            }
            JoinResult::Overtaken => continue,
            JoinResult::No => {}
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
        let unkeyed = UnkeyedIntent {
            known,
            is_retry: wanted.is_retry(),
            refused_at,
            line,
        };
        match IntentVisit::first(app, presence, new, Some(unkeyed), is_reserved).await {
            Err(Error::Overtaken) => {}
            visit => return visit.map(Lookup::New),
        }
    }
}

/// Intents with what is known of their callers, those with the fewest visits first.
async fn look_at(app: &App, intents: Vec<Intent>) -> Result<Vec<(ClientState, Intent)>, Error> {
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
    wanted: &IntentRequest,
    mut seen: Vec<(ClientState, Intent)>,
) -> Result<JoinResult, Error> {
    let here = seen.extract_if(.., |(seen, _)| matches!(seen, ClientState::Waiting));
    let here: Vec<Intent> = here.map(|(_, intent)| intent).collect();
    let joined = join_first(app, caller, wanted, here, |_| true).await?;
    if !matches!(joined, JoinResult::No) {
        return Ok(joined);
    }
    for (seen, intent) in seen {
        let ClientState::Answered(at) = seen else {
            continue;
        };
        let is_fresh = app.clock.now().since(at) < RETRIES;
        let joined = join_first(app, caller, wanted, vec![intent], |found| {
            is_fresh || is_open(found)
        });
        match joined.await? {
            JoinResult::No => {}
            joined => return Ok(joined),
        }
    }
    Ok(JoinResult::No)
}

/// Joins the first of these that can be joined and is meant.
async fn join_first(
    app: &App,
    caller: &Caller,
    wanted: &IntentRequest,
    intents: Vec<Intent>,
    is_meant: impl Fn(&IntentOutcome) -> bool,
) -> Result<JoinResult, Error> {
    for intent in intents {
        match join(app, caller, wanted, intent, &is_meant).await? {
            JoinResult::No => {}
            joined => return Ok(joined),
        }
    }
    Ok(JoinResult::No)
}

fn is_open(found: &IntentOutcome) -> bool {
    match found {
        IntentOutcome::Tasks(tasks) => tasks.iter().any(|task| !task.state.is_terminal()),
        IntentOutcome::PastTasks(_)
        | IntentOutcome::Clip(_)
        | IntentOutcome::Persona(..)
        | IntentOutcome::Endpoint(_)
        | IntentOutcome::Change(_) => false,
    }
}

/// Joins an intent, if that is still possible.
async fn join(
    app: &App,
    caller: &Caller,
    wanted: &IntentRequest,
    intent: Intent,
    is_meant: impl Fn(&IntentOutcome) -> bool,
) -> Result<JoinResult, Error> {
    let Some(made) = &intent.made else {
        return until_made(app, &intent).await;
    };
    let found = load(app, caller.account.id, &intent, made).await?;
    let Some(found) = found.filter(|found| can_be_joined(found) && is_meant(found)) else {
        return Ok(JoinResult::No);
    };
    let visit = take_over(app, wanted, intent).await?;
    Ok(visit.map_or(JoinResult::Overtaken, |visit| {
        JoinResult::To(Box::new(Lookup::Known(visit, Box::new(found))))
    }))
}

/// What to do about an intent for which nothing was made when it was read: waits
/// until something is, or until nobody works on it.
async fn until_made(app: &App, intent: &Intent) -> Result<JoinResult, Error> {
    loop {
        app.attendance.settled(&intent.body).await;
        let is_here = matches!(caller_of(app, intent).await?, ClientState::Waiting);
        let Some(now) = look_again(app, intent.id).await? else {
            return Ok(JoinResult::No);
        };
        if now.made.is_some() || now.visits != intent.visits {
            return Ok(JoinResult::Overtaken);
        }
        if is_here {
            app.attendance.change_within(LOOK).await;
            continue;
        }
        let age = app.clock.now().since(now.created_at);
        return match now.sent_at {
            Some(_) if age < UNCONFIRMED => Err(unconfirmed()),
            Some(_) => Ok(JoinResult::No),
            None => abandon(app, now).await,
        };
    }
}

/// Takes an intent away before it is passed by: its process may only have stood
/// still, and must not go on with it.
async fn abandon(app: &Ctx, intent: Intent) -> Result<JoinResult, Error> {
    let abandoned = app
        .store
        .write(move |conn| store::intents::abandon(conn, intent.id, intent.visits));
    Ok(if store::soon(abandoned).await? {
        JoinResult::No
    } else {
        JoinResult::Overtaken
    })
}

/// The intents that a request with this body may mean.
async fn candidates(app: &App, wanted: &IntentRequest) -> Result<Vec<Intent>, Error> {
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
fn gone(app: &App, wanted: &IntentRequest) -> Vec<IntentId> {
    let mut known = app.attendance.with_body(&wanted.body);
    known.retain(|(_, caller)| *caller == ClientState::Gone);
    known.into_iter().map(|(id, _)| id).collect()
}
