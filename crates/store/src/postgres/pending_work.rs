//! Pending work: a closure on its way to a connection, and its reply on the way back.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use crate::pg_session::PgSession;
use crate::{Conn, StoreError};

/// Statements for which a caller waits.
pub(super) trait PendingWork: Send {
    /// Runs them, possibly for the second time. Returns whether to keep the changes; `Err` if the
    /// work panicked, which must not end the thread.
    fn run(&mut self, session: &mut PgSession) -> Result<bool, ()>;
    /// Sends the result of the last run, or the error with which the run or its commit ended.
    fn reply(self: Box<Self>, outcome: Result<(), StoreError>);
}

struct WorkWithReply<W, T, E> {
    work: W,
    result: Option<Result<T, E>>,
    sender: oneshot::Sender<Result<T, E>>,
}

/// Wraps `work`, with a receiver for its answer. If the work panics, no answer comes.
pub(super) fn with_reply<W, T, E>(
    work: W,
) -> (Box<dyn PendingWork>, oneshot::Receiver<Result<T, E>>)
where
    W: FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let (sender, receiver) = oneshot::channel();
    let pending = WorkWithReply {
        work,
        result: None,
        sender,
    };
    (Box::new(pending), receiver)
}

impl<W, T, E> PendingWork for WorkWithReply<W, T, E>
where
    W: FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send,
    T: Send,
    E: From<StoreError> + Send,
{
    fn run(&mut self, session: &mut PgSession) -> Result<bool, ()> {
        // An earlier run's result must not survive the start of this one.
        self.result = None;
        let work = self.work.clone();
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&mut Conn::Postgres(session))));
        self.result = outcome.ok();
        self.result.as_ref().map(Result::is_ok).ok_or(())
    }

    fn reply(self: Box<Self>, outcome: Result<(), StoreError>) {
        let result = match (outcome, self.result) {
            // The work's own error is more informative.
            (Err(_), Some(Err(error))) => Err(error),
            (Err(error), _) => Err(error.into()),
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => return,
        };
        // Fails if the caller no longer waits.
        drop(self.sender.send(result));
    }
}
