//! The fallback that works without any ring: one poll for all listeners of this process, four times
//! a second.
//!
//! It finds what changed without a ring, whatever was lost. Its cost hardly depends on the number
//! of listeners: one statement for every 5,000 tasks.

use std::sync::Arc;
use std::time::Duration;

use crate::bell::ProgressReader;
use crate::bell::local_bell::LocalBell;

/// How often to look.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// When the database has not answered by then, every waiter reads its own task and gets the
/// database's error.
const READ_TIMEOUT: Duration = Duration::from_millis(1500);
/// Pause after the database did not answer a poll.
const PAUSE: Duration = Duration::from_secs(1);

/// Polls until there are no more listeners.
pub(super) fn start(local: &Arc<LocalBell>, look: &ProgressReader) {
    #[expect(clippy::disallowed_methods, reason = "it ends with the last listener")]
    tokio::spawn(watch(local.clone(), look.clone()));
}

async fn watch(local: Arc<LocalBell>, look: ProgressReader) {
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let Some(tasks) = local.watched_or_end() else {
            return;
        };
        let looked = tokio::time::timeout(READ_TIMEOUT, look(tasks.clone())).await;
        if let Ok(Ok(found)) = looked {
            local.apply_progress(&tasks, &found);
        } else {
            // Each waiter then reads its own task, and its caller gets the database's error instead
            // of silence.
            local.ring_all();
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::time::Instant;

    use super::*;
    use crate::bell::TaskListener;
    use mediagate_model::ids::TaskId;
    use mediagate_store::StoreError;

    /// For each poll, the number of tasks it asked for.
    type Looks = Arc<Mutex<Vec<usize>>>;

    fn looks(
        find: impl Fn(TaskId) -> Option<u32> + Send + Sync + 'static,
    ) -> (Looks, ProgressReader) {
        let looks = Looks::default();
        let seen = looks.clone();
        let look: ProgressReader = Arc::new(move |tasks: Vec<TaskId>| {
            seen.lock().unwrap().push(tasks.len());
            let found = tasks.iter().filter_map(|task| Some((*task, find(*task)?)));
            let found = found.collect();
            Box::pin(async move { Ok(found) })
        });
        (looks, look)
    }

    fn listen(local: &Arc<LocalBell>, look: &ProgressReader) -> TaskListener {
        let (listener, is_first) = local.listen(TaskId::new());
        if is_first {
            start(local, look);
        }
        listener
    }

    #[tokio::test(start_paused = true)]
    async fn one_look_serves_all_listeners_and_ends_with_the_last() {
        let local = Arc::new(LocalBell::default());
        let (looks, look) = looks(|_| Some(1));
        let listeners: Vec<_> = (0..200).map(|_| listen(&local, &look)).collect();
        tokio::time::sleep(Duration::from_millis(1100)).await;
        assert_eq!(*looks.lock().unwrap(), [200; 4]);
        drop(listeners);
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(looks.lock().unwrap().len(), 4);
        // Polling starts again.
        let mut again = listen(&local, &look);
        let start = Instant::now();
        again.changed(0).await;
        assert_eq!(start.elapsed(), POLL_INTERVAL);
    }

    #[tokio::test(start_paused = true)]
    async fn when_the_database_is_silent_everybody_looks_by_himself() {
        let local = Arc::new(LocalBell::default());
        let silent: ProgressReader = Arc::new(|_| Box::pin(std::future::pending()));
        let mut listener = listen(&local, &silent);
        let start = Instant::now();
        listener.changed(9).await;
        assert_eq!(start.elapsed(), POLL_INTERVAL + READ_TIMEOUT);

        let local = Arc::new(LocalBell::default());
        let away: ProgressReader = Arc::new(|_| Box::pin(async { Err(StoreError::Lost) }));
        let mut listener = listen(&local, &away);
        let start = Instant::now();
        listener.changed(9).await;
        assert_eq!(start.elapsed(), POLL_INTERVAL);
    }
}
