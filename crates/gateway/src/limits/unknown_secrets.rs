//! Look-ups of secrets that this process has not met: all that wait are looked up together, one look
//! at a time, and after a look that found somebody's secret made up the next one waits a moment.
//!
//! So made-up keys cost the database a bounded number of statements, however many are sent and from
//! however many addresses. Nobody is refused for what others send: a real key that arrives among
//! them is found by the same look. What waits is bounded by the connections that the server accepts.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::store::{Store, StoreError, accounts};

/// Pause after a look with made-up secrets: 50 looks a second.
const PAUSE: Duration = Duration::from_millis(20);
/// Most secrets in one look.
const MOST: usize = 1000;

/// Secrets, by their hashes, whose existence is asked for.
#[derive(Default)]
pub struct UnknownSecrets {
    waiting: Mutex<Vec<Question>>,
    /// Held by whoever looks; the time before which it does not look again.
    turn: tokio::sync::Mutex<Option<Instant>>,
}

struct Question {
    sha256: String,
    /// `None`: the look failed.
    answer: oneshot::Sender<Option<bool>>,
}

impl UnknownSecrets {
    /// Whether a key or a session has this hash.
    pub async fn exists(&self, store: &Store, sha256: &str) -> Result<bool, StoreError> {
        let look = |hashes: Vec<String>| {
            let store = store.clone();
            async move {
                let found = store.read(move |conn| accounts::known_hashes(conn, &hashes));
                found.await
            }
        };
        let failed = || StoreError::Lost;
        self.ask(sha256, look, failed).await
    }

    /// `look` says which of the hashes exist; `failed` is the error of those who waited for a look of
    /// another that failed.
    async fn ask<E, F: Future<Output = Result<Vec<String>, E>>>(
        &self,
        sha256: &str,
        look: impl Fn(Vec<String>) -> F,
        failed: impl Fn() -> E,
    ) -> Result<bool, E> {
        loop {
            let (answer, mut answered) = oneshot::channel();
            let question = Question {
                sha256: sha256.to_owned(),
                answer,
            };
            self.with_waiting(|waiting| waiting.push(question));
            let mut turn = tokio::select! {
                biased;
                answer = &mut answered => match answer {
                    Ok(answer) => return answer.ok_or_else(failed),
                    // Whoever looked has hung up: asked again.
                    Err(_) => continue,
                },
                turn = self.turn.lock() => turn,
            };
            // Answered by the look before.
            if let Ok(answer) = answered.try_recv() {
                return answer.ok_or_else(failed);
            }
            if let Some(until) = *turn {
                tokio::time::sleep_until(until).await;
            }
            let asked = self.with_waiting(|waiting| {
                // The latest go first: they are few whose caller still waits, and one of them is this.
                let rest = waiting.len().saturating_sub(MOST);
                waiting.split_off(rest)
            });
            let hashes = asked.iter().map(|question| question.sha256.clone());
            let found = match look(hashes.collect()).await {
                Ok(found) => found.into_iter().collect::<HashSet<_>>(),
                Err(error) => {
                    for question in asked {
                        // Fails for callers that have left.
                        let _ = question.answer.send(None);
                    }
                    return Err(error);
                }
            };
            let all_exist = asked.iter().all(|it| found.contains(&it.sha256));
            *turn = (!all_exist).then(|| Instant::now() + PAUSE);
            for question in asked {
                let exists = found.contains(&question.sha256);
                let _ = question.answer.send(Some(exists));
            }
            if let Ok(Some(exists)) = answered.try_recv() {
                return Ok(exists);
            }
        }
    }

    fn with_waiting<T>(&self, change: impl FnOnce(&mut Vec<Question>) -> T) -> T {
        change(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn thousands_of_made_up_secrets_cost_a_few_looks_and_lock_nobody_out() {
        let secrets = Arc::new(UnknownSecrets::default());
        let looks = AtomicUsize::new(0);
        let look = |hashes: Vec<String>| {
            looks.fetch_add(1, Ordering::Relaxed);
            assert!(hashes.len() <= MOST);
            async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                Ok::<_, ()>(hashes.into_iter().filter(|it| it == "real").collect())
            }
        };
        let names: Vec<String> = (0..5000)
            .map(|at| match at {
                2500 => "real".to_owned(),
                _ => format!("made up {at}"),
            })
            .collect();
        let asked = names.iter().map(|name| secrets.ask(name, &look, || ()));
        let answers = join_all(asked).await;
        for (name, answer) in names.iter().zip(answers) {
            assert_eq!(answer, Ok(name == "real"), "{name}");
        }
        let looked = looks.load(Ordering::Relaxed);
        assert!(looked <= 7, "{looked} looks");
        assert!(secrets.with_waiting(|waiting| waiting.is_empty()));
        // One after the other they are slowed down, and a real one waits for a moment at most.
        let before = Instant::now();
        for name in ["a", "b", "c", "real"] {
            let exists = secrets.ask(name, &look, || ()).await;
            assert_eq!(exists, Ok(name == "real"));
        }
        assert!(before.elapsed() >= 3 * PAUSE && before.elapsed() < 5 * PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_hangs_up_while_it_looks_for_others_leaves_nobody_without_an_answer() {
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
        // A look that fails is everybody's failure, and the next one is another.
        let failing = |_: Vec<String>| async { Err(()) };
        assert_eq!(secrets.ask("c", failing, || ()).await, Err(()));
        assert_eq!(secrets.ask("c", quick, || ()).await, Ok(true));
    }
}
