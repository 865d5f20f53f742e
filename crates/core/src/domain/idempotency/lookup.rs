//! The look-up of a request: whether it came before, and what became of it.

mod by_body;
mod by_key;

use std::time::Duration;

use super::client_tracking::{LOOK, caller_of};
use super::{IntentOutcome, IntentRequest, IntentVisit, KNOWN, Lookup, failure};
use crate::app::{App, Ctx};
use crate::domain::{music, personas, webhooks};
use mediagate_model::account::Caller;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, IntentId, TaskId};
use mediagate_model::intent::{Intent, IntentResult};
use mediagate_model::task::Task;
use mediagate_store::record_expiry::PastTask;
use mediagate_store::{self as store, Conn};

/// How long a connection that its caller has closed may seem open to whoever serves
/// it. One with a second request on it seems so until the first is answered.
const NOTICED: Duration = Duration::from_secs(2);

/// Leads a request to what its first coming made, or begins it. `is_reserved`
/// says that the intent must be on disk before anything is done for it.
pub async fn begin(
    app: &App,
    caller: &Caller,
    wanted: &IntentRequest,
    is_reserved: bool,
) -> Result<Lookup, Error> {
    let noticed = app.attendance.noticed(&wanted.body);
    drop(tokio::time::timeout(NOTICED, noticed).await);
    store::soon(async {
        app.attendance.settled(&wanted.body).await;
        Ok::<_, Error>(())
    })
    .await?;
    match &wanted.idempotency_key {
        Some(key) => by_key::begin(app, caller, wanted, key, is_reserved).await,
        None => by_body::begin(app, caller, wanted, is_reserved).await,
    }
}

fn draft(app: &App, caller: &Caller, wanted: &IntentRequest) -> Intent {
    Intent {
        id: IntentId::new(),
        account: caller.account.id,
        body: wanted.body.clone(),
        idempotency_key: wanted.idempotency_key.clone(),
        made: None,
        answer: None,
        holder: Some(app.attendance.name().to_owned()),
        visits: 1,
        joinable_until: None,
        sent_at: None,
        of_unknown_try: false,
        created_at: app.clock.noted(),
    }
}

/// An intent as it is now.
async fn look_again(app: &Ctx, id: IntentId) -> Result<Option<Intent>, Error> {
    let found = app.store.read(move |conn| store::intents::by_id(conn, id));
    Ok(found.await?)
}

/// Whether nothing is made for an intent yet: that may have changed while its
/// caller was looked for.
async fn still_working(app: &Ctx, id: IntentId) -> Result<bool, Error> {
    let intent = look_again(app, id).await?;
    Ok(intent.is_some_and(|intent| intent.made.is_none()))
}

fn unconfirmed() -> Error {
    let message = "It is unknown whether the provider accepted the first request, so it was not sent again. Nothing was charged.";
    Error::plain(ErrorCode::SubmissionUnconfirmed, message)
}

/// Becomes the next visit of an intent; `None` when another request was first.
///
/// The caller is entered in the transaction itself: an intent that others can
/// read while nobody is known to be there for it would be taken over.
async fn take_over(
    app: &App,
    wanted: &IntentRequest,
    intent: Intent,
) -> Result<Option<IntentVisit>, Error> {
    let (attendance, line) = (app.attendance.clone(), wanted.line.clone());
    let came = app.store.write(move |conn| -> Result<_, Error> {
        if !store::intents::visit(conn, &intent, attendance.name())? {
            return Ok(None);
        }
        let visits = intent.visits + 1;
        let presence = attendance.enter(intent.id, visits, intent.body.clone(), line);
        Ok(Some(IntentVisit::later(
            presence,
            Intent { visits, ..intent },
        )))
    });
    store::soon(came).await
}

fn no_longer_kept() -> Error {
    let message = "The result of the first request is no longer stored. It was not made again, and nothing was charged now.";
    Error::plain(ErrorCode::TaskNotFound, message)
}

async fn load(
    app: &Ctx,
    account: AccountId,
    intent: &Intent,
    made: &IntentResult,
) -> Result<Option<IntentOutcome>, Error> {
    Ok(match made {
        IntentResult::Tasks(ids) => {
            let ids = ids.clone();
            let read = app.store.read(move |conn| tasks(conn, account, &ids));
            Some(read.await?)
        }
        IntentResult::Clip(id) => {
            let clips = music::clips(app, account, vec![*id]).await?;
            clips
                .into_iter()
                .next()
                .map(Box::new)
                .map(IntentOutcome::Clip)
        }
        IntentResult::Persona(id) => match personas::get(app, account, *id).await {
            Ok((persona, clips)) => Some(IntentOutcome::Persona(Box::new(persona), clips)),
            Err(error) if error.code() == ErrorCode::PersonaNotFound => None,
            Err(error) => return Err(error),
        },
        IntentResult::Endpoint(id) => match webhooks::get(app, account, *id).await {
            Ok(endpoint) => Some(IntentOutcome::Endpoint(Box::new(endpoint))),
            Err(error) if error.code() == ErrorCode::WebhookNotFound => None,
            Err(error) => return Err(error),
        },
        IntentResult::Change => {
            let told = intent.answer.as_deref().map(serde_json::from_str);
            told.transpose()
                .map_err(Error::internal)?
                .map(IntentOutcome::Change)
        }
    })
}

/// The tasks, or, where one's record is gone, what they cost: who does not know that they were made would pay for them
/// once more.
fn tasks(conn: &mut Conn<'_>, account: AccountId, ids: &[TaskId]) -> Result<IntentOutcome, Error> {
    let mut tasks: Vec<Task> = Vec::new();
    let mut past: Vec<PastTask> = Vec::new();
    for id in ids {
        if let Some(task) = store::tasks::by_id(conn, *id, account)? {
            past.push(PastTask {
                id: *id,
                state: task.state,
                failure: task.failure.as_ref().map(|failure| failure.code),
                cost: task.cost,
            });
            tasks.push(task);
        } else {
            past.push(store::record_expiry::past_task(conn, *id)?.ok_or_else(no_longer_kept)?);
        }
    }
    let is_whole = tasks.len() == ids.len();
    Ok(if is_whole {
        IntentOutcome::Tasks(tasks)
    } else {
        IntentOutcome::PastTasks(past)
    })
}

/// A retry of what failed in a way that a retry can mend makes something new;
/// otherwise it could never succeed.
fn can_be_joined(found: &IntentOutcome) -> bool {
    match found {
        IntentOutcome::Tasks(tasks) => {
            failure(tasks).is_none_or(|failure| !failure.code.retryable())
        }
        IntentOutcome::PastTasks(tasks) => tasks
            .iter()
            .any(|task| !task.failure.is_some_and(ErrorCode::retryable)),
        IntentOutcome::Clip(_)
        | IntentOutcome::Persona(..)
        | IntentOutcome::Endpoint(_)
        | IntentOutcome::Change(_) => true,
    }
}
