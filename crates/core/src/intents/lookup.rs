//! The look-up of a request: whether it is a repetition, and of what.

use super::{ExistingResult, IntentAttempt, IntentRequest, Intents, Lookup, failure};
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, IntentId, TaskId};
use mediagate_model::intent::{Intent, IntentResult};
use mediagate_model::task::Task;
use mediagate_store::record_expiry::PastTask;
use mediagate_store::{self as store, Conn};

/// The state of an intent's result.
pub(super) struct ResultState {
    pub(super) result: ExistingResult,
    /// False if the result failed in a way that a retry can fix: the retry then makes something
    /// new, otherwise it could never succeed.
    can_be_joined: bool,
    /// Whether a task is still open.
    pub(super) is_open: bool,
}

impl Intents {
    /// Finds what the first attempt of a request made, or begins a new intent. With `is_reserved`
    /// the intent must be on disk before anything is done for it.
    pub async fn begin(&self, request: &IntentRequest, is_reserved: bool) -> Result<Lookup, Error> {
        self.0
            .clients
            .wait_until_disconnects_noticed(&request.body)
            .await;
        store::await_within_limit(async {
            self.0.clients.wait_until_settled(&request.body).await;
            Ok::<_, Error>(())
        })
        .await?;
        match &request.idempotency_key {
            Some(key) => self.begin_by_key(request, key, is_reserved).await,
            None => self.begin_by_body(request, is_reserved).await,
        }
    }

    pub(super) fn draft(&self, request: &IntentRequest) -> Intent {
        Intent {
            id: IntentId::new(),
            account: request.caller.account.id,
            body: request.body.clone(),
            idempotency_key: request.idempotency_key.clone(),
            result: None,
            answer: None,
            holder: Some(self.0.server.clone()),
            attempts: 1,
            joinable_until: None,
            sent_at: None,
            created_at: self.0.clock.record_time(),
        }
    }

    /// An intent as it is now.
    pub(super) async fn read_again(&self, id: IntentId) -> Result<Option<Intent>, Error> {
        let read = self
            .0
            .store
            .read(move |conn| store::intents::by_id(conn, id));
        Ok(read.await?)
    }

    /// Whether still nothing has been made for an intent: that may have changed while its client
    /// was looked up.
    pub(super) async fn made_nothing_yet(&self, id: IntentId) -> Result<bool, Error> {
        let intent = self.read_again(id).await?;
        Ok(intent.is_some_and(|intent| intent.result.is_none()))
    }

    /// Begins the next attempt at an intent; [`Error::Overtaken`] if another request was first.
    ///
    /// The client is entered in the transaction itself: other requests would take over an intent
    /// that they can read but that has no known client.
    pub(super) async fn take_over(
        &self,
        request: &IntentRequest,
        intent: Intent,
    ) -> Result<IntentAttempt, Error> {
        let (intents, socket) = (self.clone(), request.socket.clone());
        let write = self.0.store.write(move |conn| -> Result<_, Error> {
            if !store::intents::begin_attempt(conn, &intent, &intents.0.server)? {
                return Err(Error::Overtaken);
            }
            let (clients, attempts) = (&intents.0.clients, intent.attempts + 1);
            let client = clients.enter(intent.id, attempts, intent.body.clone(), socket, true);
            let intent = Intent { attempts, ..intent };
            Ok(IntentAttempt::later(&intents, client, intent))
        });
        store::await_within_limit(write).await
    }

    /// Whether an intent's tasks failed in a way that a retry can fix. The stored answer does not
    /// show that: an order is answered before its tasks end.
    pub(super) async fn needs_new_tasks(&self, intent: &Intent) -> Result<bool, Error> {
        let Some(IntentResult::Tasks(ids)) = intent.result.clone() else {
            return Ok(false);
        };
        let account = intent.account;
        let read = self.0.store.read(move |conn| tasks(conn, account, ids));
        match read.await {
            Ok(state) => Ok(!state.can_be_joined),
            // The record is gone, but the stored answer can still be repeated.
            Err(error) if error.code() == ErrorCode::TaskNotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The current state of an intent's result, if a request may still get it.
    pub(super) async fn joinable(
        &self,
        intent: &Intent,
        result: &IntentResult,
    ) -> Result<Option<ResultState>, Error> {
        let (account, answer, result) = (intent.account, intent.answer.clone(), result.clone());
        let read = self
            .0
            .store
            .read(move |conn| state_of(conn, account, answer.as_deref(), result));
        Ok(read.await?.filter(|state| state.can_be_joined))
    }
}

pub(super) fn unconfirmed_error(intent: IntentId) -> Error {
    // The process that sent the first request may have died before it could log this.
    tracing::error!(intent_id = %intent, "a repeated request was sent before, with an unknown outcome");
    let message = "It is unknown whether the provider accepted the first request, so it was not sent again. Nothing was charged.";
    Error::plain(ErrorCode::SubmissionUnconfirmed, message)
}

fn result_removed_error() -> Error {
    let message = "The result of the first request is no longer stored. It was not made again, and nothing was charged now.";
    Error::plain(ErrorCode::TaskNotFound, message)
}

/// `None` if the result no longer exists.
fn state_of(
    conn: &mut Conn<'_>,
    account: AccountId,
    answer: Option<&str>,
    result: IntentResult,
) -> Result<Option<ResultState>, Error> {
    let exists = match &result {
        IntentResult::Tasks(ids) => return tasks(conn, account, ids.clone()).map(Some),
        IntentResult::Clip(id) => store::clips::by_id(conn, *id, account)?.is_some(),
        IntentResult::Persona(id) => store::personas::by_id(conn, *id, account)?.is_some(),
        IntentResult::Endpoint(id) => {
            store::webhooks::endpoints::by_id(conn, *id, account)?.is_some()
        }
        IntentResult::Change => {
            let Some(answer) = answer else {
                return Ok(None);
            };
            let answer = serde_json::from_str(answer).map_err(Error::internal)?;
            return Ok(Some(ResultState::ended(ExistingResult::Change(answer))));
        }
    };
    Ok(exists.then(|| ResultState::ended(ExistingResult::Kept(result))))
}

impl ResultState {
    const fn ended(result: ExistingResult) -> Self {
        Self {
            result,
            can_be_joined: true,
            is_open: false,
        }
    }
}

/// The tasks or, if the record of one is gone, what they cost: a client that does not know that
/// they were made would pay for them again.
fn tasks(conn: &mut Conn<'_>, account: AccountId, ids: Vec<TaskId>) -> Result<ResultState, Error> {
    let mut tasks: Vec<Task> = Vec::new();
    let mut past: Vec<PastTask> = Vec::new();
    for id in &ids {
        if let Some(task) = store::tasks::by_id(conn, *id, account)? {
            past.push(PastTask {
                id: *id,
                state: task.state,
                failure: task.failure.as_ref().map(|failure| failure.code),
                cost: task.charged_or_reserved(),
            });
            tasks.push(task);
        } else {
            let past_task = store::record_expiry::past_task(conn, *id)?;
            past.push(past_task.ok_or_else(result_removed_error)?);
        }
    }
    if tasks.len() < ids.len() {
        let is_retryable = |task: &PastTask| task.failure.is_some_and(ErrorCode::retryable);
        return Ok(ResultState {
            can_be_joined: !past.iter().all(is_retryable),
            is_open: false,
            result: ExistingResult::PastTasks(past),
        });
    }
    Ok(ResultState {
        can_be_joined: failure(&tasks).is_none_or(|failure| !failure.code.retryable()),
        is_open: tasks.iter().any(|task| !task.state.is_terminal()),
        result: ExistingResult::Kept(IntentResult::Tasks(ids)),
    })
}
