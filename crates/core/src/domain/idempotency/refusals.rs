//! Refused requests, and their retries.
//!
//! Of two orders alike one may be refused while the other is made. Its SDK tries
//! again, and says so; that retry must not be led to what the other order made. So
//! it is remembered how many tries with a body were refused, here and then in the
//! database, and each is good for one retry.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::IntentRequest;
use crate::app::{App, Ctx};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_model::intent::RequestFingerprint;
use mediagate_store as store;

/// How long after it may come back a retry is expected.
const RETURNS: Duration = Duration::from_mins(1);

/// Nothing was made for this request, for certain: its retry is an intent of its
/// own, unless the request was itself the retry of one that may have made something.
/// One with an `Idempotency-Key` is known by that.
pub async fn came_to_nothing(app: &App, wanted: &IntentRequest, error: &Error) {
    let may_return = error.code().retryable() && wanted.idempotency_key.is_none();
    if !may_return {
        return;
    }
    let is_new = !wanted.is_retry()
        || wanted.is_new.load(Ordering::Acquire)
        // Without the database only what is remembered here counts.
        || take(app, wanted).await.is_ok_and(|refused| refused.is_some());
    if is_new {
        remember(app, wanted, error);
    }
}

/// What was made for this request failed, in a way that a retry can mend: by
/// making something new.
pub fn failed(app: &App, wanted: &IntentRequest, error: &Error) {
    if wanted.idempotency_key.is_none() {
        remember(app, wanted, error);
    }
}

fn remember(app: &App, wanted: &IntentRequest, error: &Error) {
    // Who left was not told: its retry may have been served already, by another process
    // while this one stood still, and the next one must not be taken for it.
    if wanted.line.is_closed() {
        return;
    }
    let wait = Duration::from_secs(error.retry_after().unwrap_or(0).into());
    let until = app.clock.now().plus(wait + RETURNS);
    app.attendance
        .refused(wanted.body.clone(), wanted.tries, until);
}

/// Takes the try that this request repeats, if that came to nothing: when it was
/// refused.
async fn take(app: &App, wanted: &IntentRequest) -> Result<Option<Timestamp>, Error> {
    let (body, tries) = (&wanted.body, wanted.tries);
    let refused_at = match app.attendance.take_refused(body, tries).await {
        None => take_from_database(app, body, tries).await?,
        here => here,
    };
    wanted.is_new.store(refused_at.is_some(), Ordering::Release);
    Ok(refused_at)
}

/// The same, of tries that were refused after this: what was begun for the retry of a
/// try of which nobody knew may have been begun for those before.
pub(super) async fn take_after(
    app: &App,
    wanted: &IntentRequest,
    after: Option<Timestamp>,
) -> Result<Option<Timestamp>, Error> {
    loop {
        let taken = take(app, wanted).await?;
        if taken.is_none_or(|refused_at| Some(refused_at) > after) {
            return Ok(taken);
        }
    }
}

async fn take_from_database(
    app: &Ctx,
    body: &RequestFingerprint,
    tries: u32,
) -> Result<Option<Timestamp>, Error> {
    let now = app.clock.now();
    loop {
        let wanted = body.clone();
        let known = app
            .store
            .read(move |conn| store::refusals::find(conn, &wanted, tries, now));
        let Some((found, refused_at)) = known.await? else {
            return Ok(None);
        };
        let wanted = body.clone();
        let taken = app
            .store
            .write(move |conn| store::refusals::take(conn, &wanted, found));
        // Another retry may have been ahead.
        if taken.await? {
            return Ok(Some(refused_at));
        }
    }
}

/// Tells the database what is remembered here.
pub(super) async fn note(app: &App) -> Result<(), Error> {
    let mut refusals = app.attendance.untold();
    if refusals.is_empty() {
        return Ok(());
    }
    // Two processes that write the same rows do it in the same order.
    refusals.sort_by(|one, two| (&one.body, one.tries).cmp(&(&two.body, two.tries)));
    let (rows, now) = (refusals.clone(), app.clock.now());
    let written = app
        .store
        .write(move |conn| -> Result<(), Error> {
            for row in &rows {
                store::refusals::add(conn, row, now)?;
            }
            Ok(())
        })
        .await;
    // Told twice they would free two retries; one that is forgotten joins another try.
    let may_be_there = written.as_ref().err().is_none_or(Error::leaves_open);
    app.attendance.told(refusals, may_be_there);
    written
}

/// Forgets those whose retries are not expected any more.
pub(super) async fn forget_old(app: &Ctx) -> Result<(), Error> {
    let now = app.clock.now();
    app.store
        .write(move |conn| {
            store::refusals::forget(conn, now)?;
            Ok(())
        })
        .await
}
