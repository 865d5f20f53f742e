//! `mediagate migrate`: migrates the database and exits.

use serde_json::json;

use crate::cli::{CliError, say, show};
use mediagate_config::{Config, DatabaseTarget, Settings};
use mediagate_model::database::{DatabaseOptions, MigrationMode};
use mediagate_store::{Store, migrations};

pub(super) fn run(settings: &Settings, json: bool) -> Result<(), CliError> {
    let config = Config::load_for_command(settings)?;
    // Always `Auto`: with `migrate = "never"` in the settings, this command is what migrates.
    let result = match &config.database {
        DatabaseTarget::Sqlite => {
            std::fs::create_dir_all(&config.data).map_err(CliError::failed)?;
            Store::sqlite(&config.sqlite_path(), MigrationMode::Auto)
        }
        DatabaseTarget::Postgres(url) => {
            let options = DatabaseOptions {
                migrate: MigrationMode::Auto,
                ..DatabaseOptions::default()
            };
            Store::postgres(url.expose(), options)
        }
    };
    result.map_err(CliError::failed)?;
    let newest = migrations::newest();
    if json {
        return show::json(&json!({ "schema": newest }));
    }
    say(&format!(
        "The database schema is up to date: migration {newest}."
    ))
}
