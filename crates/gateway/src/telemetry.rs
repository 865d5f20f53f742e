//! The log: for people on a terminal, one JSON object a line otherwise, on
//! standard error. Every line of a request or a task carries its ids.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::config::{Config, ConfigError, LogFormat};

/// Starts the log as the settings say.
pub fn start(config: &Config) -> Result<(), ConfigError> {
    let filter = EnvFilter::try_new(&config.log).map_err(|error| ConfigError::Value {
        key: "log".into(),
        message: error.to_string(),
    })?;
    let terminal = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    // A second start, as in tests, leaves the first in place.
    let _ = match config.log_format {
        LogFormat::Text => builder.with_ansi(terminal).try_init(),
        LogFormat::Auto if terminal => builder.with_ansi(true).try_init(),
        LogFormat::Auto | LogFormat::Json => builder
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .try_init(),
    };
    Ok(())
}
