//! Changes that an operator makes, by request or by command: each is written in one transaction
//! with its entry in the audit log and, for a request, with the stored answer for repetitions.

use std::sync::Arc;

use crate::app::App;
use crate::domain::audit::ChangeAuthor;
use crate::intents::IntentAttempt;
use mediagate_model::error::Error;
use mediagate_model::intent::StoredAnswer;
use mediagate_store::Conn;

/// Builds the answer for requests that repeat the one that made `T`.
pub type AnswerBuilder<T> = Arc<dyn Fn(&T) -> Result<StoredAnswer, Error> + Send + Sync>;

/// A change that produces a `T`, before it is carried out.
pub struct OperatorAction<'a, T> {
    author: ChangeAuthor,
    attempt: Option<(&'a IntentAttempt, AnswerBuilder<T>)>,
}

impl<T> From<ChangeAuthor> for OperatorAction<'_, T> {
    fn from(author: ChangeAuthor) -> Self {
        Self {
            author,
            attempt: None,
        }
    }
}

impl<'a, T: Send + 'static> OperatorAction<'a, T> {
    /// An action that a request asks for.
    pub fn from_request(
        author: ChangeAuthor,
        attempt: &'a IntentAttempt,
        build_answer: AnswerBuilder<T>,
    ) -> Self {
        Self {
            author,
            attempt: Some((attempt, build_answer)),
        }
    }

    pub const fn author(&self) -> &ChangeAuthor {
        &self.author
    }

    /// Runs `work`, which changes something and notes it in the audit log.
    pub async fn write(
        self,
        app: &App,
        work: impl FnOnce(&mut Conn<'_>, &ChangeAuthor) -> Result<T, Error> + Clone + Send + 'static,
    ) -> Result<T, Error> {
        let author = self.author;
        let written = match self.attempt {
            // A command has no request that could be repeated, so no answer is kept.
            None => app.store.write(move |conn| work(conn, &author)).await,
            Some((attempt, build_answer)) => {
                let change = attempt.change(move |conn| {
                    let result = work(conn, &author)?;
                    // Written with the change: a repeated request finds both or neither.
                    let answer = build_answer(&result)?;
                    Ok((result, answer))
                });
                change.await
            }
        };
        // After the commit, even if its outcome is unknown: the change may be one of a key.
        app.caches.note_key_change();
        written
    }
}
