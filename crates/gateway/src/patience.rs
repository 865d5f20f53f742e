//! Reading and writing what is to be read and written, although a disk is full or a
//! store away for a moment.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;

/// How long it is tried to store what was made: somebody paid for it, or an
/// engine worked on it for long.
const STORING: Duration = Duration::from_hours(1);
/// How long it is tried to load what something is made of.
const LOADING: Duration = Duration::from_secs(10);
/// The first pause, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(5));

/// Stores something, as often as it takes; only an error from inside is repeated.
pub async fn store<T, F>(work: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    repeat(STORING, work).await
}

/// Loads something, a few times if need be.
pub async fn load<T, F>(work: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    repeat(LOADING, work).await
}

async fn repeat<T, F>(limit: Duration, mut work: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let until = Instant::now() + limit;
    let mut pause = PAUSES.0;
    loop {
        match work().await {
            // What was judged is judged the same again.
            Err(error) if error.inside().is_some() && Instant::now() + pause < until => {
                tracing::warn!(inside = ?error.inside(), "what is needed cannot be read or written; it is tried again");
            }
            done => return done,
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}
