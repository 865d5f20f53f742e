//! A request that makes something, with the data needed to recognise a repetition, and the results
//! of its look-up.

use std::sync::Arc;

use super::{IntentAttempt, PeerSocket};
use mediagate_model::account::Caller;
use mediagate_model::error::Error;
use mediagate_model::ids::{ClipId, EndpointId, PersonaId, TaskId};
use mediagate_model::intent::{IntentResult, RequestFingerprint, StoredAnswer};
use mediagate_store::record_expiry::PastTask;

/// A request that makes something.
#[derive(Debug, Clone)]
pub struct IntentRequest {
    pub caller: Arc<Caller>,
    pub body: RequestFingerprint,
    pub idempotency_key: Option<String>,
    /// Whether the stored answer to an earlier request with the same key can be its answer; else a
    /// new answer is written.
    pub takes_stored_answer: bool,
    /// Whether the client's SDK marks it as a retry.
    pub is_retry: bool,
    /// The connection on which the client waits.
    pub socket: PeerSocket,
}

/// The result of a request's look-up.
pub enum Lookup {
    /// The request is the first of its intent.
    New(IntentAttempt),
    /// An earlier request made something; a new answer is written about it.
    Existing(IntentAttempt, ExistingResult),
    /// The stored answer to an earlier request.
    Answered(StoredAnswer),
}

/// What an earlier request made.
#[derive(Debug, Clone)]
pub enum ExistingResult {
    /// All of it still exists.
    Kept(IntentResult),
    /// Tasks of which at least one record is gone.
    PastTasks(Vec<PastTask>),
    /// A change by an operator, and the answer to it.
    Change(StoredAnswer),
}

/// What the record of an intent keeps of its result, by the kind of the request. A request never
/// gets the intent of one to another endpoint, so a result of another kind is an internal error.
macro_rules! results {
    ($($pattern:pat => $value:ident: $type:ty;)*) => {
        $(impl TryFrom<ExistingResult> for $type {
            type Error = Error;

            fn try_from(existing: ExistingResult) -> Result<Self, Error> {
                match existing {
                    $pattern => Ok($value),
                    _ => Err(Error::internal("an intent with a result of another kind")),
                }
            }
        })*
    };
}

results! {
    ExistingResult::Kept(IntentResult::Tasks(ids)) => ids: Vec<TaskId>;
    ExistingResult::Kept(IntentResult::Clip(id)) => id: ClipId;
    ExistingResult::Kept(IntentResult::Persona(id)) => id: PersonaId;
    ExistingResult::Kept(IntentResult::Endpoint(id)) => id: EndpointId;
    ExistingResult::Change(answer) => answer: StoredAnswer;
}
