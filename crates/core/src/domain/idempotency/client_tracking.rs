//! The state of an intent's client, by this process's own list and by the leases of
//! others; and what the database is told of those who left.

use std::time::Duration;

use super::refusals;
use crate::app::App;
use crate::connections::ClientState;
use mediagate_model::error::Error;
use mediagate_model::intent::Intent;
use mediagate_store as store;

/// How many heartbeats prove that another process lives and would have told of a
/// caller that left: the one that is there, one that may be older than what was just
/// read of the intent, and one that is not.
const BEATS: usize = 3;
/// How often another process's callers are looked at.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// Where the caller of an intent's latest request is.
pub(super) async fn caller_of(app: &App, intent: &Intent) -> Result<ClientState, Error> {
    let mut intent = intent.clone();
    let mut beats = Vec::new();
    loop {
        if let Some(caller) = app.attendance.caller_of(intent.id) {
            return Ok(caller);
        }
        let now = app.clock.now();
        let left = ClientState::after(intent.joinable_until, now);
        let other = intent.holder.clone();
        let Some(other) = other.filter(|name| name != app.attendance.name()) else {
            return Ok(left);
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
            return Ok(left);
        };
        if !beats.contains(&until) {
            beats.push(until);
        }
        if beats.len() == BEATS {
            return Ok(ClientState::Waiting);
        }
        match read {
            Some(read) => intent = read,
            None => return Ok(ClientState::Answered(intent.created_at)),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Tells the database of callers that left or were refused, as that happens; runs
/// as long as the process serves.
pub async fn note_leavers(app: &App) -> Result<(), Error> {
    refusals::note(app).await?;
    let leavers = app.attendance.leavers();
    if leavers.is_empty() {
        return Ok(());
    }
    let gone = leavers.clone();
    let noted = app.store.write(move |conn| -> Result<Vec<bool>, Error> {
        let noted = gone.iter().map(|gone| {
            let (id, number, until) = (gone.id, gone.number, gone.joinable_until);
            store::intents::leave(conn, id, number, gone.reserved, until)
        });
        Ok(noted.collect::<Result<_, _>>()?)
    });
    for (gone, is_there) in leavers.iter().zip(noted.await?) {
        app.attendance.noted(gone.id, gone.number, is_there);
    }
    Ok(())
}
