//! The log, on standard error: text on a terminal, JSON lines otherwise. Every line about a request
//! or a task has its ids. No line contains a caller's key, wherever its text comes from.

use std::borrow::Cow;
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

/// How callers' keys begin.
const KEY_PREFIX: &[u8] = b"sk-mg-";

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
        // One call writes one line.
        self.0.write_all(&without_keys(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()?;
        std::thread::sleep(BATCH_DELAY);
        Ok(())
    }
}

/// The line with `sk-mg-…` instead of callers' keys.
pub fn without_keys(line: &[u8]) -> Cow<'_, [u8]> {
    let mut masked = Vec::new();
    let mut rest = line;
    while let Some(start) = rest
        .windows(KEY_PREFIX.len())
        .position(|window| window == KEY_PREFIX)
    {
        let (before, key) = rest.split_at(start + KEY_PREFIX.len());
        let is_over = |byte: &u8| !byte.is_ascii_alphanumeric() && *byte != b'_' && *byte != b'-';
        let end = key.iter().position(is_over).unwrap_or(key.len());
        masked.extend_from_slice(before);
        if end > 0 {
            masked.extend_from_slice("…".as_bytes());
        }
        rest = &key[end..];
    }
    if masked.is_empty() {
        return Cow::Borrowed(line);
    }
    masked.extend_from_slice(rest);
    Cow::Owned(masked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_masked_wherever_they_stand() {
        for (line, masked) in [
            ("nothing", "nothing"),
            ("/v1/sk-mg-0Az9/x", "/v1/sk-mg-…/x"),
            (
                r#"{"a":"sk-mg-0Az9","b":"sk-mg-1"}"#,
                r#"{"a":"sk-mg-…","b":"sk-mg-…"}"#,
            ),
            ("sk-mg-sk-mg-0Az9 end\n", "sk-mg-… end\n"),
            ("sk-mg-… sk-mg-", "sk-mg-… sk-mg-"),
        ] {
            let found = without_keys(line.as_bytes());
            assert_eq!(std::str::from_utf8(&found).unwrap(), masked);
        }
    }

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
