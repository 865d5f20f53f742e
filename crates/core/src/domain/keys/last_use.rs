//! Records when keys were last used.

use crate::app::App;
use mediagate_model::error::Error;
use mediagate_store::accounts;

/// Writes those last uses of keys that are due to be written.
pub async fn note_uses(app: &App) -> Result<(), Error> {
    loop {
        let due = app.caches.key_usage.due();
        if due.is_empty() {
            return Ok(());
        }
        let rows = due.clone();
        app.store
            .write(move |conn| -> Result<(), Error> {
                for (key, at) in rows {
                    accounts::note_use(conn, key, at)?;
                }
                Ok(())
            })
            .await?;
        app.caches.key_usage.mark_written(&due);
    }
}
