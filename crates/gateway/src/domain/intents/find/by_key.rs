//! Requests with an `Idempotency-Key`.

use super::{
    Ahead, Begun, CallerIs, KNOWN, LOOK, Visit, Wanted, caller_of, can_be_joined, draft, load,
    open, still_working, take_over, unconfirmed,
};
use crate::app::App;
use crate::attendance::Claimed;
use crate::error::{Error, ErrorCode};
use crate::ids::IntentId;
use crate::model::account::Caller;
use crate::model::intent::{Intent, IntentState};
use crate::store;
use crate::telemetry;

/// What an `Idempotency-Key` leads to.
enum Keyed {
    /// Nothing so far: the intent is this request's.
    New(Visit),
    /// What a request made or makes.
    Known(Intent),
    /// Another caller of this process, of which the database does not know yet.
    Claimed(Claimed),
}

/// Looks a key up and claims it if it leads nowhere; `None` when that has to be
/// done again.
async fn claim(
    app: &App,
    caller: &Caller,
    wanted: &Wanted,
    key: &str,
    is_reserved: bool,
) -> Result<Option<Keyed>, Error> {
    let new = draft(app, caller, wanted);
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
        Some(known) => return Ok(Some(Keyed::Known(known))),
        None => {}
    }
    let body = (new.key, new.fingerprint.clone());
    let claim = app
        .attendance
        .claim(new.id, body, wanted.line.clone(), (account, key.to_owned()));
    let presence = match claim {
        Ok(presence) => presence,
        Err(other) => return Ok(Some(Keyed::Claimed(other))),
    };
    // Another process may have written one in the meantime.
    let ahead = Ahead::new(None, false, wanted.line.clone());
    let visit = open(app, presence, new, ahead, is_reserved).await?;
    Ok(visit.map(Keyed::New))
}

/// Leads a request to what its key led to before, or begins it.
pub(super) async fn begin(
    app: &App,
    caller: &Caller,
    wanted: &Wanted,
    key: &str,
    is_reserved: bool,
) -> Result<Begun, Error> {
    loop {
        let intent = match claim(app, caller, wanted, key, is_reserved).await? {
            Some(Keyed::New(visit)) => return Ok(Begun::New(visit)),
            Some(Keyed::Known(intent)) => intent,
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
        if let Some(begun) = revisit(app, caller, wanted, intent).await? {
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
    let freed = app
        .store
        .write(move |conn| store::intents::free_key(conn, id).map_err(Error::from));
    store::soon(freed).await
}

/// Whether an intent made nothing and nobody works on it any more.
async fn is_abandoned(app: &App, intent: &Intent) -> Result<bool, Error> {
    if intent.state != IntentState::Working || intent.sent_at.is_some() {
        return Ok(false);
    }
    app.attendance
        .settled(intent.key, &intent.fingerprint)
        .await;
    Ok(matches!(caller_of(app, intent).await?, CallerIs::Gone))
}

/// Comes to an intent that is known by its key; `None` when it has to be looked
/// at again.
async fn revisit(
    app: &App,
    caller: &Caller,
    wanted: &Wanted,
    intent: Intent,
) -> Result<Option<Begun>, Error> {
    if let Some(answer) = &intent.answer {
        let answer = serde_json::from_str(answer).map_err(Error::internal)?;
        telemetry::request_joined("key");
        return Ok(Some(Begun::Answered(answer)));
    }
    match &intent.made {
        Some(made) => {
            let found = load(app, caller.account.id, made).await?;
            let Some(found) = found.filter(can_be_joined) else {
                free_key(app, intent.id).await?;
                return Ok(None);
            };
            let visit = take_over(app, wanted, intent).await?;
            if visit.is_some() {
                telemetry::request_joined("key");
            }
            Ok(visit.map(|visit| Begun::Known(visit, Box::new(found))))
        }
        None => match caller_of(app, &intent).await? {
            CallerIs::Waiting => {
                app.attendance.change_within(LOOK).await;
                Ok(None)
            }
            CallerIs::Gone | CallerIs::Answered(_) if intent.sent_at.is_some() => {
                if still_working(app, intent.id).await? {
                    return Err(unconfirmed());
                }
                Ok(None)
            }
            CallerIs::Gone | CallerIs::Answered(_) => {
                Ok(take_over(app, wanted, intent).await?.map(Begun::New))
            }
        },
    }
}
