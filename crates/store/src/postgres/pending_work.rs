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
    /// Sends the result of the last run, or with the error that ended it.
    fn reply(self: Box<Self>, done: Result<(), StoreError>);
}

struct WorkWithReply<W, T, E> {
    work: W,
    result: Option<Result<T, E>>,
    answer: oneshot::Sender<Result<T, E>>,
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
    let (answer, answered) = oneshot::channel();
    let asked = WorkWithReply {
        work,
        result: None,
        answer,
    };
    (Box::new(asked), answered)
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
        let ran = catch_unwind(AssertUnwindSafe(|| work(&mut Conn::Postgres(session))));
        self.result = ran.ok();
        self.result.as_ref().map(Result::is_ok).ok_or(())
    }

    fn reply(self: Box<Self>, done: Result<(), StoreError>) {
        let result = match (done, self.result) {
            // The work's own error is more informative.
            (Err(_), Some(Err(error))) => Err(error),
            (Err(error), _) => Err(error.into()),
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => return,
        };
        // Fails if the caller has left.
        drop(self.answer.send(result));
    }
}
