//! A request's intent, and the result of looking it up.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::IntentVisit;
use crate::connections::PeerSocket;
use mediagate_model::error::Error;
use mediagate_model::intent::{RequestFingerprint, StoredAnswer};
use mediagate_model::music::{Clip, Persona};
use mediagate_model::task::Task;
use mediagate_model::webhook::WebhookEndpoint;
use mediagate_store::record_expiry::PastTask;

/// What a request wants, as far as it takes to know it again.
#[derive(Debug, Clone)]
pub struct IntentRequest {
    pub body: RequestFingerprint,
    /// The `Idempotency-Key`.
    pub idempotency_key: Option<String>,
    /// How often the caller's SDK says that it asked before.
    pub tries: u32,
    /// Whether the try before is known to have made nothing.
    pub is_new: Arc<AtomicBool>,
    /// Where the caller waits.
    pub line: PeerSocket,
}

impl IntentRequest {
    /// Whether the caller's SDK says that it asked before.
    pub const fn is_retry(&self) -> bool {
        self.tries > 0
    }
}

/// What a request finds.
pub enum Lookup {
    /// Nothing: it is the first with its intent.
    New(IntentVisit),
    /// What an earlier one made or is making; the answer is told anew.
    Known(IntentVisit, Box<IntentOutcome>),
    /// The answer to an earlier one.
    Answered(StoredAnswer),
}

/// What an intent made, as it is now.
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
    /// The tasks; an intent of an endpoint that makes tasks made nothing else.
    pub fn into_tasks(self) -> Result<Vec<Task>, Error> {
        match self {
            Self::Tasks(tasks) if !tasks.is_empty() => Ok(tasks),
            _ => Err(Error::internal("an order without a task")),
        }
    }
}
