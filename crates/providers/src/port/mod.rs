//! The port: a provider's protocol as pure functions.
//!
//! The life of an order:
//!
//! ```text
//! start(order) ─► Call ─► submitted(order, asked, answer) ─► Next(call) … ─► Submitted{handle} │ Done
//! poll(handle) ─► Call ─► polled(handle, asked, answer)   ─► Next(call) … ─► Running │ Done
//! ```
//!
//! When the answer to a submission is lost, and where the provider can be asked:
//!
//! ```text
//! find(order, since) ─► Call ─► found(order, since, asked, answer) ─► Found{jobs, next page}
//! ```
//!
//! Calls before the one marked [`CallEffect::Submission`] (uploads) may be repeated
//! freely and are, after a crash, from the start. What must survive a crash
//! once the provider took the order is in the [`JobHandle`].

mod call;
pub mod find;
pub mod jobs;
pub mod model_names;
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
    RequestBody, TimeoutClass, merge,
};
pub use find::{FoundJob, LookupPage, MatchCertainty};
pub use model_names::ModelNames;
pub use refusal::RefusalRule;
pub use sign::{CallSigner, OutgoingCall};
pub use step::{AdapterStep, ClipFacts, JobHandle, JobOutput, OutputKind, OutputSource};

/// A provider's protocol. No function here does I/O, reads a clock or draws a
/// random number.
pub trait Adapter: fmt::Debug + Send + Sync {
    /// What a model may be asked for; `None` when the protocol does no work of
    /// this kind. A model that the adapter does not know by name gets what most
    /// of the provider's models offer; the operator can say otherwise.
    fn limits(&self, kind: MediaKind, model: &str) -> Option<ModelLimits>;

    /// Which names a caller may have sent as a model's, where a route hands on
    /// what its caller wrote.
    fn model_names(&self) -> ModelNames {
        ModelNames::ANY
    }

    /// Which settings the provider reads out of the text of a prompt for this model; `prompt` finds them.
    fn prompt_settings(&self, model: &str) -> &'static [&'static str] {
        // By the model's name at any provider: resellers pass the prompt on to the same model.
        if model.to_ascii_lowercase().contains("seedance") {
            prompt_settings::SEEDANCE
        } else {
            &[]
        }
    }

    /// What is wrong with a route to this model, and what to write instead, as
    /// far as that shows without asking the provider.
    fn fault_of_model(&self, kind: MediaKind, model: &str) -> Option<String> {
        let _ = (kind, model);
        None
    }

    /// What is wrong with a credential, as far as its form tells.
    fn fault_of_secret(&self, secret: &Secret) -> Option<&'static str> {
        let _ = secret;
        None
    }

    /// Whether a size can be said to the provider as it is, so that another one
    /// is not what comes.
    fn can_express_size(&self, model: &str, size: (u32, u32)) -> bool {
        let _ = (model, size);
        true
    }

    /// How the provider wants to be polled.
    fn pace(&self) -> PollPace;

    /// Where the provider is, when the options decide it and the operator does
    /// not say; else [`crate::Protocol::base_url`] holds.
    fn base_url(&self) -> Option<&str> {
        None
    }

    /// What proves who calls, for a call to the provider itself.
    fn authorize(&self, secret: &Secret, now: SystemTime) -> Result<Authorization, ProviderError> {
        let _ = now;
        Ok(Authorization::bearer(secret))
    }

    /// The headers and their lifetime that the answer to an
    /// [`Authorization::Exchange`] brings.
    fn read_exchange(
        &self,
        asked: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<(Vec<AuthHeader>, Duration), ProviderError> {
        let _ = (asked, answer);
        Err(ProviderError::unreadable(
            "this provider exchanges no credential",
        ))
    }

    /// The shape of the provider's jobs; the functions about submissions and
    /// jobs go by it where an adapter has none of its own.
    fn job(&self) -> Option<&JobApi> {
        None
    }

    /// The first call for an order.
    fn start(&self, order: &Order) -> Result<Call, ProviderError>;

    /// What the answer to a call means, up to and including the submission.
    /// Every status comes here.
    fn read_submission(
        &self,
        order: &Order,
        asked: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let _ = (order, asked);
        match self.job() {
            Some(job) => job.read_submission(answer),
            None => Err(no_jobs()),
        }
    }

    /// What proves that a submission was not taken; whatever is in no row of it
    /// proves nothing.
    fn refusals(&self) -> Vec<RefusalRule<'_>>;

    /// The job that the answer to a submission names, whatever else it says: an
    /// order that has a job was taken, even if the status says otherwise.
    fn named_job(
        &self,
        order: &Order,
        asked: &CallContext,
        answer: &ProviderResponse,
    ) -> Option<JobHandle> {
        // An id in the body means the same under every status, so the reader of submissions is
        // asked what it would find under a 200.
        let mut good = answer.clone();
        good.status = StatusCode::OK;
        match self.read_submission(order, asked, &good) {
            Ok(AdapterStep::Submitted { handle, .. }) => Some(handle),
            _ => None,
        }
    }

    /// The call that asks how a job stands. Protocols that answer a submission
    /// with the result have none.
    fn poll(&self, handle: &JobHandle) -> Result<Call, ProviderError> {
        let job = self.job().ok_or_else(no_jobs)?;
        Ok(job.poll(handle))
    }

    /// What the answer to a poll, or to a call that followed from it, means.
    /// Every status comes here: some providers tell of a failed job by one. An
    /// unknown status word is [`AdapterStep::Running`] with `unknown_word` set.
    fn read_poll(
        &self,
        handle: &JobHandle,
        asked: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<AdapterStep, ProviderError> {
        let _ = asked;
        let job = self.job().ok_or_else(no_jobs)?;
        job.read_poll(handle, answer)
    }

    /// What the provider says that a job cost, in the answer that told its end,
    /// good or bad. An estimate is none.
    fn cost(&self, answer: &ProviderResponse) -> Option<ProviderCost> {
        let _ = answer;
        None
    }

    /// One call for several jobs, for providers that answer for many at once;
    /// [`PollPace::batch`] says how many.
    fn poll_many(&self, handles: &[&JobHandle]) -> Option<Call> {
        let _ = handles;
        None
    }

    /// What the answer to [`Adapter::poll_many`] means for each job, in their
    /// order.
    fn read_poll_many(
        &self,
        handles: &[&JobHandle],
        asked: &CallContext,
        answer: &ProviderResponse,
    ) -> Vec<Result<AdapterStep, ProviderError>> {
        handles
            .iter()
            .map(|handle| self.read_poll(handle, asked, answer))
            .collect()
    }

    /// The call that calls a job off; `None` where the provider has no such thing.
    fn cancel(&self, handle: &JobHandle) -> Option<Call> {
        self.job()?.cancel(handle)
    }

    /// What the answer to a cancellation means: whether the job is called off.
    fn confirms_cancellation(&self, handle: &JobHandle, answer: &ProviderResponse) -> bool {
        let _ = handle;
        answer.status.is_success()
    }

    /// How far a job is, read from the part of a streamed answer that has come.
    fn progress_of_part(&self, body_so_far: &[u8]) -> Option<u8> {
        let _ = body_so_far;
        None
    }

    /// Whether the provider itself makes one job of two submissions with the
    /// same [`Order::key`], so that an unclear one may be repeated.
    fn deduplicates(&self) -> bool {
        false
    }

    /// The call that looks for the job of a submission which left at `since`
    /// and whose answer was lost: by the order's key, or the first page of a
    /// list. `None` where the provider has no such thing, or where nothing in
    /// it would tell this order's job from others.
    fn find(&self, order: &Order, since: SystemTime) -> Option<Call> {
        let _ = (order, since);
        None
    }

    /// What the answer to a look-up means: the jobs in it that are the order's,
    /// or may be, and the next page. Every status comes here. Likely jobs that
    /// are older than `since` (with [`find::SKEW`]) are left out.
    fn read_lookup(
        &self,
        order: &Order,
        since: SystemTime,
        asked: &CallContext,
        answer: &ProviderResponse,
    ) -> Result<LookupPage, ProviderError> {
        let _ = (order, since, asked, answer);
        Err(ProviderError::unreadable("no look-up was started"))
    }

    /// Hosts beside the provider's own that may be sent the credential and
    /// may be in private networks, such as `rest.fal.ai`; `*.` stands for any
    /// subdomain, `:port` for another port than the scheme's usual one. Other
    /// hosts are followed too, when they are public, without the credential.
    fn hosts(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The error of asking for a job where there are none.
fn no_jobs() -> ProviderError {
    ProviderError::new(ErrorClass::Lost, "this provider has no jobs")
}

/// How a provider wants to be polled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PollPace {
    /// Never more often for one job.
    pub floor: Duration,
    /// Never more rarely.
    pub ceiling: Duration,
    /// Time that a job of this provider usually takes, until some were seen.
    pub usual: Duration,
    /// Jobs asked for in one call; 1 where each is asked for alone.
    pub batch: usize,
    /// Least time between two batch calls of one credential.
    pub gap: Duration,
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
        }
    }

    /// The same for so many jobs at once: the bounds rise so far that no more
    /// than `most` calls a second come of them.
    #[must_use]
    pub fn for_many(self, jobs: u32, most: u32) -> Self {
        let batch = u32::try_from(self.batch).unwrap_or(u32::MAX).max(1);
        let least = Duration::from_secs(1) * jobs.div_ceil(batch) / most.max(1);
        Self {
            floor: self.floor.max(least),
            ceiling: self.ceiling.max(least),
            ..self
        }
    }
}

/// A header's name and value.
pub type AuthHeader = (&'static str, String);

/// What proves who calls.
pub enum Authorization {
    /// Send these headers.
    Headers(Vec<AuthHeader>),
    /// Sign each call as it leaves.
    Sign(Box<dyn CallSigner>),
    /// Send this call first (without authorization) and give its answer to
    /// [`Adapter::read_exchange`]; what it brings is kept for its lifetime.
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

    /// A header that holds the key as it is.
    pub fn header(name: &'static str, secret: &Secret) -> Self {
        Self::Headers(vec![(name, secret.expose().to_owned())])
    }
}
