//! What a request asks for, and what it finds.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::Visit;
use crate::attendance::Line;
use mediagate_model::error::Error;
use mediagate_model::intent::{Body, StoredAnswer};
use mediagate_model::music::{Clip, Persona};
use mediagate_model::task::Task;
use mediagate_model::webhook::Endpoint;
use mediagate_store::records::PastTask;

/// What a request wants, as far as it takes to know it again.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub body: Body,
    /// The `Idempotency-Key`.
    pub idempotency_key: Option<String>,
    /// How often the caller's SDK says that it asked before.
    pub tries: u32,
    /// Whether the try before is known to have made nothing.
    pub is_new: Arc<AtomicBool>,
    /// Where the caller waits.
    pub line: Line,
}

impl Wanted {
    /// Whether the caller's SDK says that it asked before.
    pub const fn is_retry(&self) -> bool {
        self.tries > 0
    }
}

/// What a request finds.
pub enum Begun {
    /// Nothing: it is the first with its intent.
    New(Visit),
    /// What an earlier one made or is making; the answer is told anew.
    Known(Visit, Box<Found>),
    /// The answer to an earlier one.
    Answered(StoredAnswer),
}

/// What an intent made, as it is now.
pub enum Found {
    Tasks(Vec<Task>),
    /// Tasks of which at least one record is gone.
    PastTasks(Vec<PastTask>),
    Clip(Box<Clip>),
    Persona(Box<Persona>, Vec<Clip>),
    Endpoint(Box<Endpoint>),
    /// The answer to an operator's change.
    Change(StoredAnswer),
}

impl Found {
    /// The tasks; an intent of an endpoint that makes tasks made nothing else.
    pub fn into_tasks(self) -> Result<Vec<Task>, Error> {
        match self {
            Self::Tasks(tasks) if !tasks.is_empty() => Ok(tasks),
            _ => Err(Error::internal("an order without a task")),
        }
    }
}
