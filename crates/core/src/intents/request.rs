//! A request that makes something, as far as it takes to know it again, and what its look-up finds.

use super::{IntentVisit, PeerSocket};
use mediagate_model::ids::AccountId;
use mediagate_model::intent::{IntentResult, RequestFingerprint, StoredAnswer};
use mediagate_store::record_expiry::PastTask;

/// A request that makes something.
#[derive(Debug, Clone)]
pub struct IntentRequest {
    pub account: AccountId,
    pub body: RequestFingerprint,
    pub idempotency_key: Option<String>,
    /// Whether the client's SDK says that it sent this before.
    pub is_retry: bool,
    /// Where the client waits.
    pub socket: PeerSocket,
}

/// What the look-up of a request finds.
pub enum Lookup {
    /// Nothing: it is the first with its intent.
    New(IntentVisit),
    /// What an earlier one made; the answer is written anew.
    Existing(IntentVisit, ExistingResult),
    /// The answer to an earlier one.
    Answered(StoredAnswer),
}

/// What an earlier request made.
#[derive(Debug, Clone)]
pub enum ExistingResult {
    /// It is all there.
    Kept(IntentResult),
    /// Tasks of which at least one record is gone.
    PastTasks(Vec<PastTask>),
    /// A change by an operator, and the answer to it.
    Change(StoredAnswer),
}
