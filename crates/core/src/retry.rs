//! Retries of storing and loading while a disk is full or a store is unavailable.

use std::time::Duration;

use tokio::time::Instant;

use mediagate_model::error::Error;

/// How long to retry storing results: they were paid for, or an engine worked on them for long.
const STORE_LIMIT: Duration = Duration::from_hours(1);
/// How long to retry loading sources.
const LOAD_LIMIT: Duration = Duration::from_secs(10);
/// The first and the longest pause.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Retries `work` until it succeeds or an hour has passed; only internal errors are retried.
pub async fn store<T, F>(work: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    retry_until(STORE_LIMIT, work).await
}

/// Retries `work` for a few seconds, or longer if the media store is unavailable.
pub async fn load<T, F>(work: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    retry_until(LOAD_LIMIT, work).await
}

async fn retry_until<T, F>(limit: Duration, mut work: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let start = Instant::now();
    let mut pause = PAUSES.0;
    loop {
        let result = work().await;
        // An unavailable media store comes back with all its files. Waiting loses nothing, and
        // failing would lose the task.
        let limit = match &result {
            Err(Error::MediaUnavailable { .. }) => STORE_LIMIT,
            _ => limit,
        };
        // Counted from the first try, whatever the errors in between were.
        let deadline = start + limit;
        match result {
            // An error with an internal cause comes from the disk, the database or the media store,
            // and may be temporary. Any other error is about the request and would occur again.
            Err(error) if error.internal_cause().is_some() && Instant::now() + pause < deadline => {
                tracing::warn!(inside = ?error.internal_cause(), "storage operation failed; trying again");
            }
            result => return result,
        }
        tokio::time::sleep(pause).await;
        // Doubled up to a limit: a brief failure costs little time, and an outage gets few tries,
        // but its end is noticed soon.
        pause = (pause * 2).min(PAUSES.1);
    }
}
