//! The port: a provider's protocol as pure functions.
//!
//! The life of an order:
//!
//! ```text
//! start(order) ─► Call ─► read_submission(order, context, answer) ─► Next(call) … ─► Submitted{handle} │ Done
//! poll(handle) ─► Call ─► read_poll(handle, context, answer)      ─► Next(call) … ─► Running │ Done
//! ```
//!
//! If the answer to a submission is lost and the provider supports a look-up:
//!
//! ```text
//! find(order, since) ─► Call ─► read_lookup(order, since, context, answer) ─► LookupPage{jobs, next}
//! ```
//!
//! Calls before the one marked [`CallEffect::Submission`] (uploads) may be repeated freely, and
//! after a crash they are, from the start. Data that must survive a crash after the provider
//! accepted the order is in the [`JobHandle`].

mod call;
pub mod find;
pub mod jobs;
pub mod prompt_settings;
pub mod refusal;
mod sign;
mod step;

use std::fmt;
use std::time::{Duration, SystemTime};

use http::StatusCode;

use crate::cost::ProviderCost;
use crate::error::{ErrorClass, ProviderError};
use crate::limits::ModelLimits;
use crate::order::{MediaKind, Order};
use crate::port::jobs::JobApi;
use crate::response::ProviderResponse;
use crate::secret::Secret;

pub use call::{
    Call, CallContext, CallEffect, CallTarget, FormPart, MAX_ANSWER_BYTES, MAX_RESULT_BYTES,
    MAX_STATUS_BYTES, RequestBody, TimeoutClass, merge,
};
pub use find::{FoundJob, LookupPage, MatchCertainty};
pub use orders::job::{ClipFacts, JobHandle, OutputKind};
pub use orders::{ModelNames, model_names};
pub use refusal::RefusalRule;
pub use sign::{CallSigner, OutgoingCall};
pub use step::{AdapterStep, JobOutput, JobSettlement, OutputSource};

/// A provider's protocol. No function here does I/O, reads a clock or draws a
/// random number.
pub trait Adapter: fmt::Debug + Send + Sync {
    /// The limits of a model; `None` if the protocol does no work of this kind. An unknown model
    /// gets the limits that most of the provider's models have; the operator can override them.
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits>;

    /// Which model names of callers may be sent, if a route passes on the caller's name.
    fn model_names(&self) -> ModelNames {
        ModelNames::ANY
    }

    /// Which settings the provider would read from the text of a prompt for this model;
    /// [`prompt_settings::setting_in`] finds them.
    fn prompt_settings(&self, model: &str) -> &'static [&'static str] {
        // Decided by the model's name at any provider, because resellers pass the prompt on to the
        // same model.
        if model.to_ascii_lowercase().contains("seedance") {
            prompt_settings::SEEDANCE
        } else {
            &[]
        }
    }

    /// A fault of a route to this model, with a correction, as far as it can be detected without
    /// calling the provider.
    fn fault_of_model(&self, kind: MediaKind, model: &str) -> Option<String> {
        let _ = (kind, model);
        None
    }

    /// A fault in the format of a credential.
    fn fault_of_secret(&self, secret: &Secret) -> Option<&'static str> {
        let _ = secret;
        None
    }

    /// Whether the provider's format can express a size exactly, so that the result has no other
    /// size.
    fn can_express_size(&self, model: &str, size: (u32, u32)) -> bool {
        let _ = (model, size);
        true
    }

    /// How the provider wants to be polled.
    fn pace(&self) -> PollPace;

    /// The provider's base URL, if the options determine it and the operator sets none; otherwise
    /// [`crate::Protocol::base_url`] applies.
    fn base_url(&self) -> Option<&str> {
        None
    }

    /// The authentication of a call to the provider itself.
    fn authorize(&self, secret: &Secret, now: SystemTime) -> Result<Authorization, ProviderError> {
        let _ = now;
        Ok(Authorization::bearer(secret))
    }

    /// Reads the headers and their lifetime from the answer to an [`Authorization::Exchange`].
    fn read_exchange(
        &self,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<(Vec<AuthHeader>, Duration), ProviderError> {
        let _ = (context, answer);
        Err(ProviderError::unreadable(
            "this provider exchanges no credential",
        ))
    }

    /// Settings besides the options that say where a job is and how its answers are read.
    fn job_settings(&self) -> Option<&serde_json::Value> {
        None
    }

    /// The description of the provider's jobs; the default implementations of the functions about
    /// submissions and jobs use it.
    fn job(&self) -> Option<&JobApi> {
        None
    }

    /// The first call for an order.
    fn start(&self, order: &Order) -> Result<Call, ProviderError>;

    /// Reads the answer to a call, up to and including the submission. It gets answers of every
    /// status.
    fn read_submission(
        &self,
        order: &Order,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let _ = (order, context);
        match self.job() {
            Some(job) => job.read_submission(answer),
            None => Err(no_jobs()),
        }
    }

    /// The table of answers that prove that a submission was not accepted; other answers prove
    /// nothing.
    fn refusals(&self) -> Vec<RefusalRule<'_>>;

    /// The job that the answer to a submission names. An order with a job was accepted, whatever
    /// the status and the rest of the answer.
    fn named_job(
        &self,
        order: &Order,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Option<JobHandle> {
        // An id in the body means the same with every status, so the reader of submissions is used
        // as if the status were 200.
        let mut as_success = answer.clone();
        as_success.status = StatusCode::OK;
        match self.read_submission(order, context, &as_success) {
            Ok(AdapterStep::Submitted { handle, .. }) => Some(handle),
            _ => None,
        }
    }

    /// The call that polls a job. Protocols that answer a submission with the result have none.
    fn poll(&self, handle: &JobHandle) -> Result<Call, ProviderError> {
        let job = self.job().ok_or_else(no_jobs)?;
        Ok(job.poll(handle))
    }

    /// Reads the answer to a poll, or to a call that followed it. It gets answers of every status:
    /// some providers report a failed job by one. An unknown status word is
    /// [`AdapterStep::Running`] with `unknown_status` set.
    fn read_poll(
        &self,
        handle: &JobHandle,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let _ = context;
        let job = self.job().ok_or_else(no_jobs)?;
        job.read_poll(handle, answer)
    }

    /// The cost of a job, from the answer that reports its end, successful or not. Estimates do not
    /// count.
    fn cost(&self, answer: &ProviderResponse) -> Option<ProviderCost> {
        let _ = answer;
        None
    }

    /// One call for several jobs, for providers that support it; [`PollPace::batch`] is the
    /// maximum.
    fn poll_many(&self, handles: &[&JobHandle]) -> Option<Call> {
        let _ = handles;
        None
    }

    /// Reads the answer to [`Adapter::poll_many`] for each job, in order.
    fn read_poll_many(
        &self,
        handles: &[&JobHandle],
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Vec<Result<AdapterStep, ProviderError>> {
        handles
            .iter()
            .map(|handle| self.read_poll(handle, context, answer))
            .collect()
    }

    /// The call that cancels a job; `None` if the provider does not support that.
    fn cancel(&self, handle: &JobHandle) -> Option<Call> {
        self.job()?.cancel(handle)
    }

    /// Whether the answer to a cancellation proves that the job is cancelled.
    fn confirms_cancellation(&self, handle: &JobHandle, answer: &ProviderResponse) -> bool {
        let _ = handle;
        answer.status.is_success()
    }

    /// Another call that cancels a job, after this answer to [`Adapter::cancel`].
    fn cancel_otherwise(&self, handle: &JobHandle, answer: &ProviderResponse) -> Option<Call> {
        let _ = (handle, answer);
        None
    }

    /// The call that asks what became of the money of a cancelled job; `None` if the provider's
    /// records do not say that.
    fn settlement(&self, handle: &JobHandle) -> Option<Call> {
        let _ = handle;
        None
    }

    /// Reads the answer to [`Adapter::settlement`].
    fn read_settlement(
        &self,
        handle: &JobHandle,
        answer: &ProviderResponse,
    ) -> Result<JobSettlement, ProviderError> {
        let _ = (handle, answer);
        Err(ProviderError::unreadable("no settlement was asked for"))
    }

    /// A call that orders nothing and that a working provider answers, such as a list; `None` if
    /// the protocol has none. A route that was suspended is tried by it.
    fn trial(&self) -> Option<Call> {
        None
    }

    /// The progress of a job, from the latest part of a streamed answer.
    fn progress_of_part(&self, latest_part: &[u8]) -> Option<u8> {
        let _ = latest_part;
        None
    }

    /// Whether orders carry the messages before the prompt ([`VideoOptions::conversation`]).
    ///
    /// [`VideoOptions::conversation`]: crate::order::VideoOptions::conversation
    fn reads_conversation(&self) -> bool {
        false
    }

    /// Whether the provider deduplicates submissions with the same [`Order::idempotency_key`], so
    /// that an unclear one may be repeated.
    fn deduplicates(&self) -> bool {
        false
    }

    /// The call that searches for the job of a submission that was sent at `since` and whose answer
    /// was lost: by the order's key, or the first page of a list. `None` if the provider does not
    /// support that, or if nothing in it would identify this order's job.
    fn find(&self, order: &Order, since: SystemTime) -> Option<Call> {
        let _ = (order, since);
        None
    }

    /// Reads the answer to a look-up: the jobs in it that are or may be the order's, and the next
    /// page. It gets answers of every status. Likely jobs that are older than `since` (with
    /// [`find::SKEW`]) are left out.
    fn read_lookup(
        &self,
        order: &Order,
        since: SystemTime,
        context: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<LookupPage, ProviderError> {
        let _ = (order, since, context, answer);
        Err(ProviderError::unreadable("no look-up was started"))
    }

    /// Hosts besides the provider's own that may receive the credential and may be in private
    /// networks, such as `https://rest.fal.ai`; `*.` matches any subdomain. Without a scheme it is
    /// https, or with a `:port` the scheme of the base URL. URLs at other public hosts are used too,
    /// without the credential.
    fn hosts(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The error for polling with a protocol without jobs.
fn no_jobs() -> ProviderError {
    ProviderError::new(ErrorClass::Lost, "this provider has no jobs")
}

/// How a provider wants to be polled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PollPace {
    /// The shortest interval for one job.
    pub floor: Duration,
    /// The longest interval between polls.
    pub ceiling: Duration,
    /// The usual duration of a job of this provider, until some were measured.
    pub usual: Duration,
    /// Jobs polled in one call; 1 if each is polled separately.
    pub batch: usize,
    /// Least time between two batch calls of one credential.
    pub gap: Duration,
    /// Maximum number of polls per second, as the provider documents it.
    pub calls_per_second: Option<u32>,
}

impl PollPace {
    /// One job at a time, within these bounds.
    pub const fn new(floor: Duration, ceiling: Duration) -> Self {
        Self {
            floor,
            ceiling,
            usual: Duration::from_mins(1),
            batch: 1,
            gap: Duration::ZERO,
            calls_per_second: None,
        }
    }

    /// The share of a call that polls one job.
    #[must_use]
    pub fn share(&self) -> f64 {
        1.0 / f64::from(u32::try_from(self.batch).unwrap_or(u32::MAX).max(1))
    }
}

/// A header's name and value.
pub type AuthHeader = (&'static str, String);

/// The authentication of a call.
pub enum Authorization {
    /// Send these headers.
    Headers(Vec<AuthHeader>),
    /// Sign each call before it is sent.
    Sign(Box<dyn CallSigner>),
    /// Send this call first (without authorization) and give its answer to
    /// [`Adapter::read_exchange`]; the result is cached for its lifetime.
    Exchange(Box<Call>),
}

impl Authorization {
    /// `Authorization: Bearer …`.
    pub fn bearer(secret: &Secret) -> Self {
        Self::Headers(vec![(
            "authorization",
            format!("Bearer {}", secret.expose()),
        )])
    }

    /// A header with the plain key.
    pub fn header(name: &'static str, secret: &Secret) -> Self {
        Self::Headers(vec![(name, secret.expose().to_owned())])
    }
}
