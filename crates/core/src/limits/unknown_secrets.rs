//! Look-ups of secrets that this process has not seen before: all waiting ones are looked up
//! together, one batch at a time. If a batch contained guessed secrets, the next one waits a
//! moment.
//!
//! So guessed keys cost the database a limited number of statements, however many are sent and from
//! however many addresses. No client is refused because of other clients' guesses: a real key among
//! them is found by the same batch. The number of waiting look-ups is limited by the connections
//! that the server accepts.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use locks::lock;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::Instant;

use mediagate_store::{Store, StoreError, accounts};

/// Pause after a batch with guessed secrets: at most 50 batches per second.
const GUESS_PAUSE: Duration = Duration::from_millis(20);
/// Maximum number of secrets in one batch.
const MAX_BATCH: usize = 1000;

/// Secrets, by their hashes, that are to be looked up.
#[derive(Default)]
pub struct UnknownSecrets {
    waiting: Mutex<Vec<SecretQuery>>,
    /// Locked by the request that looks up a batch; contains the time before which there is no next
    /// batch.
    next_batch: tokio::sync::Mutex<Option<Instant>>,
}

struct SecretQuery {
    sha256: String,
    /// `None` if the look-up failed.
    answer: oneshot::Sender<Option<bool>>,
}

impl UnknownSecrets {
    /// Whether a key or a session has this hash.
    pub async fn exists(&self, store: &Store, sha256: &str) -> Result<bool, StoreError> {
        let look_up = |hashes: Vec<String>| {
            let store = store.clone();
            async move {
                let read = store.read(move |conn| accounts::known_hashes(conn, &hashes));
                read.await
            }
        };
        let on_failure = || StoreError::Lost;
        self.ask(sha256, look_up, on_failure).await
    }

    /// `look_up` returns which of the hashes exist; `on_failure` returns the error for requests
    /// whose batch was looked up by another request and failed.
    async fn ask<E, F: Future<Output = Result<Vec<String>, E>>>(
        &self,
        sha256: &str,
        look_up: impl Fn(Vec<String>) -> F,
        on_failure: impl Fn() -> E,
    ) -> Result<bool, E> {
        loop {
            let (sender, mut receiver) = oneshot::channel();
            let query = SecretQuery {
                sha256: sha256.to_owned(),
                answer: sender,
            };
            self.with_waiting(|waiting| waiting.push(query));
            let mut next_batch = tokio::select! {
                // The answer first: a request that has its answer must not look up the next batch.
                biased;
                answer = &mut receiver => match answer {
                    Ok(answer) => return answer.ok_or_else(on_failure),
                    // The request that looked up this batch was dropped before it could answer.
                    Err(_) => continue,
                },
                next_batch = self.next_batch.lock() => next_batch,
            };
            // A batch takes the longest-waiting secrets, so this request may need several.
            loop {
                match receiver.try_recv() {
                    Ok(answer) => return answer.ok_or_else(on_failure),
                    Err(TryRecvError::Closed) => break,
                    Err(TryRecvError::Empty) => {}
                }
                if let Some(until) = *next_batch {
                    tokio::time::sleep_until(until).await;
                }
                *next_batch = self.look_once(&look_up).await?;
            }
        }
    }

    /// Looks up the secrets that have waited longest, and answers their requests. Returns the time
    /// before which there is no next batch.
    async fn look_once<E, F: Future<Output = Result<Vec<String>, E>>>(
        &self,
        look_up: impl Fn(Vec<String>) -> F,
    ) -> Result<Option<Instant>, E> {
        let batch: Vec<SecretQuery> = self.with_waiting(|waiting| {
            // Those whose callers have left need no look-up.
            waiting.retain(|query| !query.answer.is_closed());
            let count = waiting.len().min(MAX_BATCH);
            waiting.drain(..count).collect()
        });
        let hashes = batch.iter().map(|query| query.sha256.clone());
        let existing = look_up(hashes.collect()).await;
        let existing = existing.map(|existing| existing.into_iter().collect::<HashSet<_>>());
        let exists = |query: &SecretQuery| {
            let existing = existing.as_ref();
            existing.is_ok_and(|existing| existing.contains(&query.sha256))
        };
        let all_exist = batch.iter().all(exists);
        for query in batch {
            let answer = existing.as_ref().ok();
            let answer = answer.map(|existing| existing.contains(&query.sha256));
            // Fails for callers that have left.
            let _ = query.answer.send(answer);
        }
        // Only guessed secrets cause a pause. Real keys alone are never slowed down.
        existing.map(|_| (!all_exist).then(|| Instant::now() + GUESS_PAUSE))
    }

    fn with_waiting<T>(&self, change: impl FnOnce(&mut Vec<SecretQuery>) -> T) -> T {
        change(&mut lock(&self.waiting))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn thousands_of_guessed_secrets_cost_few_lookups_and_lock_nobody_out() {
        let secrets = Arc::new(UnknownSecrets::default());
        let lookups = AtomicUsize::new(0);
        let look_up = |hashes: Vec<String>| {
            lookups.fetch_add(1, Ordering::Relaxed);
            assert!(hashes.len() <= MAX_BATCH);
            async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                Ok::<_, ()>(hashes.into_iter().filter(|hash| hash == "real").collect())
            }
        };
        let names: Vec<String> = (0..5000)
            .map(|index| match index {
                2500 => "real".to_owned(),
                _ => format!("made up {index}"),
            })
            .collect();
        let queries = names.iter().map(|name| secrets.ask(name, &look_up, || ()));
        let answers = join_all(queries).await;
        for (name, answer) in names.iter().zip(answers) {
            assert_eq!(answer, Ok(name == "real"), "{name}");
        }
        let count = lookups.load(Ordering::Relaxed);
        assert!(count <= 7, "{count} look-ups");
        assert!(secrets.with_waiting(|waiting| waiting.is_empty()));
        // Sent one after the other, guesses are slowed down, and a real key waits for a moment at
        // most.
        let before = Instant::now();
        for name in ["a", "b", "c", "real"] {
            let exists = secrets.ask(name, &look_up, || ()).await;
            assert_eq!(exists, Ok(name == "real"));
        }
        assert!(before.elapsed() >= 3 * GUESS_PAUSE && before.elapsed() < 5 * GUESS_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_disconnects_during_a_batch_leaves_nobody_without_an_answer() {
        let secrets = UnknownSecrets::default();
        let slow = |_: Vec<String>| async {
            tokio::time::sleep(Duration::from_hours(1)).await;
            Ok::<_, ()>(Vec::new())
        };
        let quick = |hashes: Vec<String>| async { Ok::<_, ()>(hashes) };
        let first = tokio::time::timeout(Duration::from_secs(1), secrets.ask("a", slow, || ()));
        let second = secrets.ask("b", quick, || ());
        let (first, second) = tokio::join!(first, second);
        assert!(first.is_err());
        assert_eq!(second, Ok(true));
        // If a batch fails, all its requests get the error, and the next batch starts fresh.
        let failing = |_: Vec<String>| async { Err(()) };
        assert_eq!(secrets.ask("c", failing, || ()).await, Err(()));
        assert_eq!(secrets.ask("c", quick, || ()).await, Ok(true));
    }
}
