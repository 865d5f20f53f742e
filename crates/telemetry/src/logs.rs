//! The log, on standard error: text on a terminal, JSON lines otherwise. Every line about a request
//! or a task has its ids.

use std::io::{BufWriter, IsTerminal as _, Stderr, Write};
use std::sync::OnceLock;
use std::time::Duration;

use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use mediagate_config::{Config, ConfigError, LogFormat};

/// Maximum number of lines waiting to be written. Further lines are dropped and counted, so that
/// the program never waits for a blocked terminal or pipe.
const LOG_LINES: usize = 20_000;

/// How long lines are collected before they are written together. Waking the writing thread costs a
/// request more than its line does.
const BATCH_DELAY: Duration = Duration::from_millis(5);

static LOST_LINES: OnceLock<ErrorCounter> = OnceLock::new();

/// Writes log lines on a separate thread. When dropped, it writes the remaining lines and stops.
#[must_use]
pub struct LogGuard(#[expect(dead_code, reason = "its drop writes the rest")] WorkerGuard);

/// Checks the filter of the settings.
pub fn check(config: &Config) -> Result<(), ConfigError> {
    filter(config).map(drop)
}

fn filter(config: &Config) -> Result<EnvFilter, ConfigError> {
    parse_filter(&config.log).map_err(|message| ConfigError::Value {
        key: "log".into(),
        message,
    })
}

fn parse_filter(text: &str) -> Result<EnvFilter, String> {
    // A word alone may be a module, so a misspelled level would be accepted and log nothing.
    let is_lone_word = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let mut parts = text.split(',').map(str::trim);
    if parts.any(|part| is_lone_word(part) && part.parse::<LevelFilter>().is_err()) {
        let message = "must be error, warn, info, debug, trace or off, or modules with their levels: \
                       \"info,hyper=debug\"";
        return Err(message.into());
    }
    EnvFilter::try_new(text).map_err(|error| error.to_string())
}

/// Starts logging according to the settings.
pub fn start(config: &Config) -> Result<LogGuard, ConfigError> {
    let filter = filter(config)?;
    let terminal = std::io::stderr().is_terminal();
    let (writer, guard) = NonBlockingBuilder::default()
        .buffered_lines_limit(LOG_LINES)
        .thread_name("log")
        .finish(BatchedWriter(BufWriter::new(std::io::stderr())));
    LOST_LINES.get_or_init(|| writer.error_counter());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_target(false);
    // A second start, as in tests, has no effect.
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
    Ok(LogGuard(guard))
}

/// The number of lines that were dropped because they could not be written in time.
pub(crate) fn lost_lines() -> u64 {
    LOST_LINES.get().map_or(0, ErrorCounter::dropped_lines) as u64
}

/// Writes lines in batches. The thread that owns it flushes after the last waiting line and then
/// sleeps. Lines that arrive during the sleep wait for the next batch, without waking the thread.
struct BatchedWriter(BufWriter<Stderr>);

impl Write for BatchedWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()?;
        std::thread::sleep(BATCH_DELAY);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_word_is_a_level() {
        for text in [
            "info",
            "WARN",
            "off",
            "mediagate=debug",
            "info,hyper=debug",
            "mediagate_http::chat=trace,error",
            "",
        ] {
            assert!(parse_filter(text).is_ok(), "{text}");
        }
        for text in [
            "verbose",
            "infos",
            "mediagate=debug,verbose",
            "mediagate=loud",
        ] {
            assert!(parse_filter(text).is_err(), "{text}");
        }
    }
}
