//! Sets the clock of a starting process: to the time that all machines share, and to the latest
//! time that any process has recorded.

use std::time::{Duration, Instant};

use crate::app::Ctx;
use mediagate_model::error::Error;
use mediagate_store as store;

/// If the database answers within this time, its answer is accurate enough to set the clock.
pub const MAX_SYNC_LATENCY: Duration = Duration::from_millis(500);

/// Sets the process's clock by the database, before the age of anything is checked.
pub async fn begin(app: &Ctx) -> Result<(), Error> {
    // The answer's delay is measured by the monotonic clock, because the system clock is the one
    // being corrected.
    let (local, asked_at) = (app.clock.now(), Instant::now());
    let (shared, steady) = app
        .store
        .read(move |conn| -> Result<_, store::StoreError> {
            Ok((
                store::workers::now(conn, local)?,
                store::meta::steady(conn)?,
            ))
        })
        .await?;
    // After a slow answer the difference may be mostly its own delay. The next heartbeat tries
    // again.
    if asked_at.elapsed() < MAX_SYNC_LATENCY {
        app.clock.sync_to_database(local, shared);
    }
    // Ages are measured from the latest time recorded before the restart, so that a wrong clock at
    // startup does not make everything expire at once.
    if let Some(steady) = steady {
        app.clock.continue_from(steady);
    }
    Ok(())
}
