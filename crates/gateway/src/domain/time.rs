//! The time of a process that starts: the clock that all machines share, and how far time had come
//! when a process last wrote that down.

use crate::app::App;
use crate::error::Error;
use crate::store;

/// Sets the process's clock by the database, before anything is judged by its age.
pub async fn begin(app: &App) -> Result<(), Error> {
    let own = app.clock.now();
    let (shared, steady) = app
        .store
        .read(move |conn| -> Result<_, store::StoreError> {
            Ok((store::workers::now(conn, own)?, store::meta::steady(conn)?))
        })
        .await?;
    app.clock.share(own, shared);
    if let Some(steady) = steady {
        app.clock.continue_from(steady);
    }
    Ok(())
}
