//! The outcome of an intent, loaded for the answer to a repeated request.

use crate::app::Ctx;
use crate::domain::{music, personas, webhooks};
use crate::intents::ExistingResult;
use mediagate_model::error::Error;
use mediagate_model::ids::AccountId;
use mediagate_model::intent::{IntentResult, StoredAnswer};
use mediagate_model::music::{Clip, Persona};
use mediagate_model::task::Task;
use mediagate_model::webhook::WebhookEndpoint;
use mediagate_store as store;
use mediagate_store::record_expiry::PastTask;

/// The current state of what an intent made.
pub enum IntentOutcome {
    Tasks(Vec<Task>),
    /// Tasks of which at least one record is gone.
    PastTasks(Vec<PastTask>),
    Clip(Box<Clip>),
    Persona(Box<Persona>, Vec<Clip>),
    Endpoint(Box<WebhookEndpoint>),
    /// The answer to an operator's change.
    Change(StoredAnswer),
}

impl IntentOutcome {
    /// The tasks. An order of tasks makes nothing else, so any other outcome is an internal error.
    pub fn into_tasks(self) -> Result<Vec<Task>, Error> {
        match self {
            Self::Tasks(tasks) if !tasks.is_empty() => Ok(tasks),
            _ => Err(Error::internal("an order without a task")),
        }
    }

    /// The outcome of an earlier request of this account.
    pub async fn load(
        app: &Ctx,
        account: AccountId,
        existing: ExistingResult,
    ) -> Result<Self, Error> {
        let result = match existing {
            ExistingResult::Kept(result) => result,
            ExistingResult::PastTasks(tasks) => return Ok(Self::PastTasks(tasks)),
            ExistingResult::Change(answer) => return Ok(Self::Change(answer)),
        };
        Ok(match result {
            IntentResult::Tasks(ids) => {
                let read = app.store.read(move |conn| -> Result<Vec<Task>, Error> {
                    let mut tasks = Vec::new();
                    for id in ids {
                        tasks.extend(store::tasks::by_id(conn, id, account)?);
                    }
                    Ok(tasks)
                });
                Self::Tasks(read.await?)
            }
            IntentResult::Clip(id) => Self::Clip(Box::new(music::clip(app, account, id).await?)),
            IntentResult::Persona(id) => {
                let (persona, clips) = personas::get(app, account, id).await?;
                Self::Persona(Box::new(persona), clips)
            }
            IntentResult::Endpoint(id) => {
                Self::Endpoint(Box::new(webhooks::get(app, account, id).await?))
            }
            IntentResult::Change => return Err(Error::internal("a change without an answer")),
        })
    }
}
