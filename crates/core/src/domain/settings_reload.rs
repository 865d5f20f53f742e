//! Reloading of the settings while the service runs.

use serde_json::json;

use crate::app::App;
use crate::domain::audit::ChangeAuthor;
use crate::domain::settings_changes::SettingsSnapshot;
use crate::domain::settings_drift;
use mediagate_config::Settings;
use mediagate_config::effective::ReloadOutcome;
use mediagate_model::error::Error;

/// Reloads models, prices and providers; if anything is invalid, nothing changes. Either way it is
/// noted in the audit log.
pub async fn reload(app: &App, settings: &Settings) -> Result<(), Error> {
    let path = settings.config.as_deref();
    let file = path.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let before = SettingsSnapshot::take(app);
    let (app_handle, settings) = (app.clone(), settings.clone());
    // Off the async threads: it reads files, and may load models for seconds.
    let result = app
        .compute(move || {
            let now = app_handle.clock.now();
            app_handle.models.reload(&settings, &app_handle.config, now)
        })
        .await?;
    let error = result.as_ref().err().map(|error| {
        let text = error.to_string();
        match (path, &file) {
            // The text is shown over HTTP, where the file's folder must not be revealed.
            (Some(path), Some(file)) => text.replace(&path.display().to_string(), file),
            _ => text,
        }
    });
    // Compared at once, so that an operator who reloads the processes in turn sees when they agree.
    // The reload itself is done and cannot fail because of this.
    if let Err(error) = settings_drift::compare(app).await {
        tracing::warn!(inside = ?error.internal_cause(), "cannot compare the settings with other processes");
    }
    match &result {
        Ok(()) => tracing::info!("models, prices and providers reloaded"),
        Err(error) => {
            tracing::error!(%error, "changed settings rejected; the old settings stay in effect");
        }
    }
    let now = app.clock.now();
    app.models.settings.note_reload(ReloadOutcome {
        at: now,
        error: error.clone(),
    });
    let (before, after) = match &error {
        None => {
            let (before, after) = before.changes(&SettingsSnapshot::take(app));
            (Some(before), after)
        }
        Some(error) => (None, json!({"refused": error})),
    };
    let name = file.unwrap_or_else(|| "flags".to_owned());
    let author = ChangeAuthor::configuration(&name);
    app.store
        .write(move |conn| author.note(conn, "config.reload", &name, (before, Some(after)), now))
        .await
}
