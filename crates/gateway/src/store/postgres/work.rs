//! A piece of work on its way to a connection, and its answer on the way back.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::oneshot;

use crate::store::postgres::session::Session;
use crate::store::{Conn, StoreError};

/// Statements that somebody waits for.
pub(super) trait Work: Send {
    /// Runs them, the second time too; says whether they want to be kept, or that
    /// they panicked: a bug in one piece of work must not end the thread.
    fn run(&mut self, session: &mut Session) -> Result<bool, ()>;
    /// Answers with what the last run came to, or with what became of it all.
    fn tell(self: Box<Self>, done: Result<(), StoreError>);
}

struct Asked<W, T, E> {
    work: W,
    result: Option<Result<T, E>>,
    answer: oneshot::Sender<Result<T, E>>,
}

/// Work, and where its answer comes. Of work that panicked none does.
pub(super) fn asked<W, T, E>(work: W) -> (Box<dyn Work>, oneshot::Receiver<Result<T, E>>)
where
    W: FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send + 'static,
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    let (answer, answered) = oneshot::channel();
    let asked = Asked {
        work,
        result: None,
        answer,
    };
    (Box::new(asked), answered)
}

impl<W, T, E> Work for Asked<W, T, E>
where
    W: FnOnce(&mut Conn<'_>) -> Result<T, E> + Clone + Send,
    T: Send,
    E: From<StoreError> + Send,
{
    fn run(&mut self, session: &mut Session) -> Result<bool, ()> {
        // What an earlier run came to must not outlive the begin of this one.
        self.result = None;
        let work = self.work.clone();
        let ran = catch_unwind(AssertUnwindSafe(|| work(&mut Conn::Postgres(session))));
        self.result = ran.ok();
        self.result.as_ref().map(Result::is_ok).ok_or(())
    }

    fn tell(self: Box<Self>, done: Result<(), StoreError>) {
        let result = match (done, self.result) {
            // What it came to itself says more.
            (Err(_), Some(Err(error))) => Err(error),
            (Err(error), _) => Err(error.into()),
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => return,
        };
        // A caller that hung up has nobody to tell.
        drop(self.answer.send(result));
    }
}
