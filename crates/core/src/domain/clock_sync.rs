//! The clock of a process that starts: the time that all machines share, and how far time had come
//! when a process last wrote that down.

use std::time::{Duration, Instant};

use crate::app::Ctx;
use mediagate_model::error::Error;
use mediagate_store as store;

/// An answer of the database that came within this tells what time it has.
pub const MAX_SYNC_LATENCY: Duration = Duration::from_millis(500);

/// Sets the process's clock by the database, before anything is judged by its age.
pub async fn begin(app: &Ctx) -> Result<(), Error> {
    // The answer's delay is measured by the monotonic clock, as the other one is what gets
    // corrected.
    let (own, asked) = (app.clock.now(), Instant::now());
    let (shared, steady) = app
        .store
        .read(move |conn| -> Result<_, store::StoreError> {
            Ok((store::workers::now(conn, own)?, store::meta::steady(conn)?))
        })
        .await?;
    // After a slow answer the difference may be mostly its own delay. The next heartbeat asks
    // again.
    if asked.elapsed() < MAX_SYNC_LATENCY {
        app.clock.sync_to_database(own, shared);
    }
    // Ages are judged from where time had come before the restart, so a clock that is wrong at the
    // start makes nothing old at once.
    if let Some(steady) = steady {
        app.clock.continue_from(steady);
    }
    Ok(())
}
