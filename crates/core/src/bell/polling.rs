//! The fallback that works without any ring: one poll for all listeners of this process, four times
//! a second.
//!
//! It finds every change, even if the ring for it was lost. Its cost hardly depends on the number
//! of listeners: one statement for every 5,000 tasks.

use std::sync::Arc;
use std::time::Duration;

use crate::bell::ProgressReader;
use crate::bell::local_bell::LocalBell;

/// How often tasks are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// If the database has not answered a poll within this time, every waiter reads its own task and
/// gets the database's error.
const READ_TIMEOUT: Duration = Duration::from_millis(1500);
/// Pause after the database did not answer a poll.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// Polls until there are no more listeners.
pub(super) fn start(local: &Arc<LocalBell>, read_progress: &ProgressReader) {
    #[expect(clippy::disallowed_methods, reason = "it ends with the last listener")]
    tokio::spawn(watch(local.clone(), read_progress.clone()));
}

async fn watch(local: Arc<LocalBell>, read_progress: ProgressReader) {
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let Some(tasks) = local.listened_tasks_or_stop() else {
            return;
        };
        let polled = tokio::time::timeout(READ_TIMEOUT, read_progress(tasks.clone())).await;
        if let Ok(Ok(progress)) = polled {
            local.apply_progress(&tasks, &progress);
        } else {
            // Each waiter then reads its own task, and its caller gets the database's error instead
            // of silence.
            local.ring_all();
            tokio::time::sleep(FAILURE_PAUSE).await;
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
    type PollSizes = Arc<Mutex<Vec<usize>>>;

    fn recording_reader(
        newest_event: impl Fn(TaskId) -> Option<u32> + Send + Sync + 'static,
    ) -> (PollSizes, ProgressReader) {
        let polls = PollSizes::default();
        let recorded = polls.clone();
        let reader: ProgressReader = Arc::new(move |tasks: Vec<TaskId>| {
            recorded.lock().unwrap().push(tasks.len());
            let progress = tasks
                .iter()
                .filter_map(|task| Some((*task, newest_event(*task)?)));
            let progress = progress.collect();
            Box::pin(async move { Ok(progress) })
        });
        (polls, reader)
    }

    fn listen(local: &Arc<LocalBell>, reader: &ProgressReader) -> TaskListener {
        let (listener, is_first) = local.listen(TaskId::new());
        if is_first {
            start(local, reader);
        }
        listener
    }

    #[tokio::test(start_paused = true)]
    async fn one_poll_serves_all_listeners_and_ends_with_the_last() {
        let local = Arc::new(LocalBell::default());
        let (polls, reader) = recording_reader(|_| Some(1));
        let listeners: Vec<_> = (0..200).map(|_| listen(&local, &reader)).collect();
        tokio::time::sleep(Duration::from_millis(1100)).await;
        assert_eq!(*polls.lock().unwrap(), [200; 4]);
        drop(listeners);
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(polls.lock().unwrap().len(), 4);
        // Polling starts again.
        let mut listener = listen(&local, &reader);
        let start = Instant::now();
        listener.wait_for_change(0).await;
        assert_eq!(start.elapsed(), POLL_INTERVAL);
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_database_is_silent_each_waiter_reads_its_own_task() {
        let local = Arc::new(LocalBell::default());
        let silent: ProgressReader = Arc::new(|_| Box::pin(std::future::pending()));
        let mut listener = listen(&local, &silent);
        let start = Instant::now();
        listener.wait_for_change(9).await;
        assert_eq!(start.elapsed(), POLL_INTERVAL + READ_TIMEOUT);

        let local = Arc::new(LocalBell::default());
        let failing: ProgressReader = Arc::new(|_| Box::pin(async { Err(StoreError::Lost) }));
        let mut listener = listen(&local, &failing);
        let start = Instant::now();
        listener.wait_for_change(9).await;
        assert_eq!(start.elapsed(), POLL_INTERVAL);
    }
}
