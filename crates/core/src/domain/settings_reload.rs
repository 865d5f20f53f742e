//! Reading the settings anew while the service runs.

use serde_json::{Value, json};

use crate::app::App;
use crate::domain::audit::ChangeAuthor;
use crate::domain::settings_drift;
use mediagate_config::Settings;
use mediagate_config::effective::ReloadOutcome;
use mediagate_model::error::Error;

/// Reads models, prices and providers anew; what is wrong changes nothing. Either way it is noted in
/// the audit log.
pub async fn reload(app: &App, settings: &Settings) -> Result<(), Error> {
    let path = settings.config.as_deref();
    let file = path.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let before = told(app);
    let (parts, settings) = (app.clone(), settings.clone());
    let done = app
        .compute(move || {
            let now = parts.clock.now();
            parts.models.reload(&settings, &parts.config, now)
        })
        .await?;
    let error = done.as_ref().err().map(|error| {
        let text = error.to_string();
        match (path, &file) {
            // Where the file is concerns nobody who asks over HTTP.
            (Some(path), Some(file)) => text.replace(&path.display().to_string(), file),
            _ => text,
        }
    });
    if let Err(error) = settings_drift::compare(app).await {
        tracing::warn!(inside = ?error.inside(), "the settings are not compared with others'");
    }
    match &done {
        Ok(()) => tracing::info!("models, prices and providers were read anew"),
        Err(error) => {
            tracing::error!(%error, "the changed settings are refused; the old ones stay");
        }
    }
    let now = app.clock.now();
    app.models.settings.reloaded(ReloadOutcome {
        at: now,
        error: error.clone(),
    });
    let after = match &error {
        None => told(app),
        Some(error) => json!({"refused": error}),
    };
    let name = file.unwrap_or_else(|| "flags".to_owned());
    let by = ChangeAuthor::configuration(&name);
    app.store
        .write(move |conn| {
            let changed = (Some(before), Some(after));
            by.note(conn, "config.reload", &name, changed, now)
        })
        .await
}

fn told(app: &App) -> Value {
    let [providers, models] = app.models.settings.names();
    json!({"providers": providers, "models": models})
}
