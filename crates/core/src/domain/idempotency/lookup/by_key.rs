//! Requests with an `Idempotency-Key`.

use super::{
    IntentRequest, IntentVisit, KNOWN, LOOK, Lookup, caller_of, can_be_joined, draft, load,
    still_working, take_over, unconfirmed,
};
use crate::app::{App, Ctx};
use crate::connections::ClientState;
use mediagate_model::account::Caller;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, IntentId};
use mediagate_model::intent::Intent;
use mediagate_store as store;
use mediagate_telemetry::counters;

/// Leads a request to what its key led to before, or begins it.
pub(super) async fn begin(
    app: &App,
    caller: &Caller,
    wanted: &IntentRequest,
    key: &str,
    is_reserved: bool,
) -> Result<Lookup, Error> {
    loop {
        let Some(intent) = by_key(app, caller.account.id, key).await? else {
            if let Some(visit) = claim(app, caller, wanted, key, is_reserved).await? {
                return Ok(Lookup::New(visit));
            }
            continue;
        };
        if intent.body.fingerprint == wanted.body.fingerprint {
            if let Some(begun) = revisit(app, caller, wanted, intent).await? {
                return Ok(begun);
            }
            continue;
        }
        if !is_abandoned(app, &intent).await? {
            return Err(conflict());
        }
        if still_working(app, intent.id).await? {
            free_key(app, intent.id).await?;
        }
    }
}

/// What the key leads to, unless that is forgotten.
async fn by_key(app: &Ctx, account: AccountId, key: &str) -> Result<Option<Intent>, Error> {
    let key = key.to_owned();
    let known = app
        .store
        .read(move |conn| store::intents::by_idempotency_key(conn, account, &key));
    match known.await? {
        Some(old) if old.created_at <= app.clock.cutoff(KNOWN) => {
            free_key(app, old.id).await?;
            Ok(None)
        }
        known => Ok(known),
    }
}

/// Claims a key that leads nowhere, as far as the database knows; `None` when another
/// caller was first and all has to be looked at again.
async fn claim(
    app: &App,
    caller: &Caller,
    wanted: &IntentRequest,
    key: &str,
    is_reserved: bool,
) -> Result<Option<IntentVisit>, Error> {
    let new = draft(app, caller, wanted);
    let key = (new.account, key.to_owned());
    let claimed = app
        .attendance
        .claim(new.id, new.body.clone(), wanted.line.clone(), key);
    match claimed {
        // Another process may have written one in the meantime.
        Ok(presence) => match IntentVisit::first(app, presence, new, None, is_reserved).await {
            Err(Error::Overtaken) => Ok(None),
            visit => visit.map(Some),
        },
        Err(other) if other.fingerprint != wanted.body.fingerprint && other.is_here => {
            Err(conflict())
        }
        Err(_) => {
            app.attendance.change_within(LOOK).await;
            Ok(None)
        }
    }
}

fn conflict() -> Error {
    let message = "The Idempotency-Key was used with another request within the last 24 hours.";
    Error::plain(ErrorCode::IdempotencyConflict, message)
}

/// The key leads to the intent no longer.
async fn free_key(app: &Ctx, id: IntentId) -> Result<(), Error> {
    let freed = app
        .store
        .write(move |conn| store::intents::free_key(conn, id));
    Ok(store::soon(freed).await?)
}

/// Whether an intent made nothing and nobody works on it any more.
async fn is_abandoned(app: &App, intent: &Intent) -> Result<bool, Error> {
    if intent.made.is_some() || intent.sent_at.is_some() {
        return Ok(false);
    }
    app.attendance.settled(&intent.body).await;
    Ok(matches!(caller_of(app, intent).await?, ClientState::Gone))
}

/// Comes to an intent that is known by its key; `None` when it has to be looked
/// at again.
async fn revisit(
    app: &App,
    caller: &Caller,
    wanted: &IntentRequest,
    intent: Intent,
) -> Result<Option<Lookup>, Error> {
    if let Some(answer) = &intent.answer {
        let answer = serde_json::from_str(answer).map_err(Error::internal)?;
        counters::request_joined("key");
        return Ok(Some(Lookup::Answered(answer)));
    }
    if let Some(made) = &intent.made {
        let found = load(app, caller.account.id, &intent, made).await?;
        let Some(found) = found.filter(can_be_joined) else {
            free_key(app, intent.id).await?;
            return Ok(None);
        };
        let visit = take_over(app, wanted, intent).await?;
        if visit.is_some() {
            counters::request_joined("key");
        }
        return Ok(visit.map(|visit| Lookup::Known(visit, Box::new(found))));
    }
    // What a caller that left asked for may be under way.
    app.attendance.settled(&intent.body).await;
    match caller_of(app, &intent).await? {
        ClientState::Waiting => {
            app.attendance.change_within(LOOK).await;
            Ok(None)
        }
        ClientState::Gone | ClientState::Answered(_) if intent.sent_at.is_some() => {
            if still_working(app, intent.id).await? {
                return Err(unconfirmed());
            }
            Ok(None)
        }
        ClientState::Gone | ClientState::Answered(_) => {
            Ok(take_over(app, wanted, intent).await?.map(Lookup::New))
        }
    }
}
