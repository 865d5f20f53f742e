//! The port: a provider's protocol as pure functions.
//!
//! The life of an order:
//!
//! ```text
//! start(order) ─► Call ─► submitted(order, asked, answer) ─► Next(call) … ─► Submitted{handle} │ Done
//! poll(handle) ─► Call ─► polled(handle, asked, answer)   ─► Next(call) … ─► Running │ Done
//! ```
//!
//! Calls before the one marked [`Effect::Submission`] (uploads) may be repeated
//! freely and are, after a crash, from the start. What must survive a crash
//! once the provider took the order is in the [`Handle`].

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answer::Answer;
use crate::error::{Class, ProviderError};
use crate::limits::Limits;
use crate::order::{Kind, Order, StemTarget};
use crate::secret::Secret;

/// A provider's protocol. No function here does I/O, reads a clock or draws a
/// random number.
pub trait Adapter: fmt::Debug + Send + Sync {
    /// What a model may be asked for; `None` when the protocol does no work of
    /// this kind. A model that the adapter does not know by name gets what most
    /// of the provider's models offer; the operator can say otherwise.
    fn limits(&self, kind: Kind, model: &str) -> Option<Limits>;

    /// How the provider wants to be polled.
    fn pace(&self) -> Pace;

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
    fn authorized(
        &self,
        asked: &Asked,
        answer: &Answer,
    ) -> Result<(Vec<Header>, Duration), ProviderError> {
        let _ = (asked, answer);
        Err(ProviderError::unreadable("nothing was exchanged"))
    }

    /// The first call for an order.
    fn start(&self, order: &Order) -> Result<Call, ProviderError>;

    /// What the answer to a call means, up to and including the submission.
    /// Every status comes here.
    fn submitted(
        &self,
        order: &Order,
        asked: &Asked,
        answer: &Answer,
    ) -> Result<Step, ProviderError>;

    /// The call that asks how a job stands. Protocols that answer a submission
    /// with the result have none.
    fn poll(&self, handle: &Handle) -> Result<Call, ProviderError> {
        let _ = handle;
        Err(ProviderError::new(
            Class::Lost,
            "this provider keeps no jobs",
        ))
    }

    /// What the answer to a poll, or to a call that followed from it, means.
    /// Every status comes here: some providers tell of a failed job by one. An
    /// unknown status word is [`Step::Running`] with `unknown_word` set.
    fn polled(
        &self,
        handle: &Handle,
        asked: &Asked,
        answer: &Answer,
    ) -> Result<Step, ProviderError> {
        let _ = (handle, asked, answer);
        Err(ProviderError::new(
            Class::Lost,
            "this provider keeps no jobs",
        ))
    }

    /// One call for several jobs, for providers that answer for many at once;
    /// [`Pace::batch`] says how many.
    fn poll_many(&self, handles: &[&Handle]) -> Option<Call> {
        let _ = handles;
        None
    }

    /// What the answer to [`Adapter::poll_many`] means for each job, in their
    /// order.
    fn polled_many(
        &self,
        handles: &[&Handle],
        asked: &Asked,
        answer: &Answer,
    ) -> Vec<Result<Step, ProviderError>> {
        handles
            .iter()
            .map(|handle| self.polled(handle, asked, answer))
            .collect()
    }

    /// The call that calls a job off; `None` where the provider has no such thing.
    fn cancel(&self, handle: &Handle) -> Option<Call> {
        let _ = handle;
        None
    }

    /// What the answer to a cancellation means: whether the job is called off.
    fn cancelled(&self, handle: &Handle, answer: &Answer) -> bool {
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

    /// Hosts beside the provider's own that may be sent the credential and
    /// may be in private networks, such as `rest.fal.ai`; `*.` stands for any
    /// subdomain, `:port` for another port than the scheme's usual one. Other
    /// hosts are followed too, when they are public, without the credential.
    fn hosts(&self) -> Vec<String> {
        Vec::new()
    }
}

/// How a provider wants to be polled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
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

impl Pace {
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
pub type Header = (&'static str, String);

/// What proves who calls.
pub enum Authorization {
    /// Send these headers.
    Headers(Vec<Header>),
    /// Send this call first (without authorization) and give its answer to
    /// [`Adapter::authorized`]; what it brings is kept for its lifetime.
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

/// What sending a call does at the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing that costs: it may be sent again.
    Free,
    /// The provider may take the order: sent once.
    Submission,
}

/// How long a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patience {
    /// An answer at once: 30 s.
    Short,
    /// The work is done while the connection is open: 15 min.
    Work,
}

/// Where a call goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A path under the provider's base address, with a slash in front.
    Path(String),
    /// A path from the root of the provider's host.
    Root(String),
    /// An address that the settings or an answer named. The credential goes
    /// along only to the provider's own hosts.
    Address(String),
}

/// A described HTTP request.
#[derive(Debug, Clone)]
pub struct Call {
    /// Which step this is; comes back in [`Asked`].
    pub stage: Cow<'static, str>,
    /// What the next step needs beside the order; comes back in [`Asked`].
    pub memo: Value,
    /// The method.
    pub method: Method,
    /// Where to.
    pub to: Target,
    /// Query members.
    pub query: Vec<(String, String)>,
    /// Headers beside the credential and the content type.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Body,
    /// What it does at the provider.
    pub effect: Effect,
    /// Whether the credential goes along.
    pub with_credential: bool,
    /// How long it may take.
    pub patience: Patience,
    /// Most bytes of the answer. For a [`Source::Call`] the operator's limit
    /// for results holds instead.
    pub limit_bytes: u64,
    /// How long to wait before it is sent, for hops that ask again until
    /// something is ready.
    pub delay: Option<Duration>,
}

/// Most bytes of an answer that only tells something.
pub const TELLING: u64 = 8_000_000;

/// Most bytes of a result.
pub const RESULT: u64 = 1_000_000_000;

impl Call {
    /// A call with the credential, to a path under the base address, that may
    /// be repeated.
    pub fn new(
        stage: impl Into<Cow<'static, str>>,
        method: Method,
        path: impl Into<String>,
    ) -> Self {
        Self {
            stage: stage.into(),
            memo: Value::Null,
            method,
            to: Target::Path(path.into()),
            query: Vec::new(),
            headers: Vec::new(),
            body: Body::Empty,
            effect: Effect::Free,
            with_credential: true,
            patience: Patience::Short,
            limit_bytes: TELLING,
            delay: None,
        }
    }

    /// `GET` of a path.
    pub fn get(stage: impl Into<Cow<'static, str>>, path: impl Into<String>) -> Self {
        Self::new(stage, Method::GET, path)
    }

    /// `POST` of JSON to a path.
    pub fn post(stage: impl Into<Cow<'static, str>>, path: impl Into<String>, body: Value) -> Self {
        Self::new(stage, Method::POST, path).with_body(Body::Json(body))
    }

    /// Goes elsewhere than to a path under the base address.
    #[must_use]
    pub fn to(mut self, target: Target) -> Self {
        self.to = target;
        self
    }

    /// Marks the call by which the provider takes the order.
    #[must_use]
    pub const fn submits(mut self) -> Self {
        self.effect = Effect::Submission;
        self
    }

    /// Sends this body.
    #[must_use]
    pub fn with_body(mut self, body: Body) -> Self {
        self.body = body;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Adds a query member.
    #[must_use]
    pub fn with_query(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.query.push((name.into(), value.into()));
        self
    }

    /// Remembers something for the step that reads the answer.
    #[must_use]
    pub fn with_memo(mut self, memo: Value) -> Self {
        self.memo = memo;
        self
    }

    /// Sends no credential.
    #[must_use]
    pub const fn without_credential(mut self) -> Self {
        self.with_credential = false;
        self
    }

    /// Waits for work that is done while the connection is open, and takes an
    /// answer of up to `limit_bytes`.
    #[must_use]
    pub const fn works(mut self, limit_bytes: u64) -> Self {
        self.patience = Patience::Work;
        self.limit_bytes = limit_bytes;
        self
    }

    /// Is sent only after this while.
    #[must_use]
    pub const fn after(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// What the adapter is told of this call beside its answer.
    pub fn asked(&self) -> Asked {
        Asked {
            stage: self.stage.clone(),
            memo: self.memo.clone(),
        }
    }
}

/// The call that an answer belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// [`Call::stage`].
    pub stage: Cow<'static, str>,
    /// [`Call::memo`].
    pub memo: Value,
}

/// A request's body.
#[derive(Debug, Clone)]
pub enum Body {
    /// None.
    Empty,
    /// JSON.
    Json(Value),
    /// `application/x-www-form-urlencoded`.
    Form(Vec<(String, String)>),
    /// `multipart/form-data`.
    Multipart(Vec<Part>),
    /// Bytes of a media type.
    Bytes {
        /// The content.
        bytes: Bytes,
        /// Its media type.
        mime: Cow<'static, str>,
    },
}

/// A part of a multipart body.
#[derive(Debug, Clone)]
pub enum Part {
    /// A field.
    Text {
        /// Its name.
        name: String,
        /// Its value.
        value: String,
    },
    /// A file.
    File {
        /// The field's name.
        name: String,
        /// The file's name.
        file_name: String,
        /// Its media type.
        mime: Cow<'static, str>,
        /// Its content.
        bytes: Bytes,
    },
}

impl Part {
    /// A field.
    pub fn text(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self::Text {
            name: name.into(),
            value: value.into(),
        }
    }

    /// A file under a field's name.
    pub fn file(name: impl Into<String>, file: &crate::order::File) -> Self {
        Self::File {
            name: name.into(),
            file_name: file.name.clone(),
            mime: file.mime.into(),
            bytes: file.bytes.clone(),
        }
    }
}

/// What names a job at its provider; kept with the task, so that a restart
/// goes on where the process ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Handle(pub Value);

impl Handle {
    /// Text under a member of the handle; empty when there is none.
    pub fn text(&self, member: &str) -> &str {
        self.0
            .get(member)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

/// What comes next.
#[derive(Debug, Clone)]
pub enum Step {
    /// Another call, after its [`Call::delay`]. The same call again (stage,
    /// target and memo) without a delay is sent after [`Pace::floor`].
    Next(Box<Call>),
    /// The provider took the order.
    Submitted {
        /// Names the job from now on.
        handle: Handle,
        /// When the provider wants to be asked first.
        poll_after: Option<Duration>,
    },
    /// The job is not done. As what a free call before or after the submission
    /// leads to: the same call again after a while.
    Running {
        /// How far it is, 0–100, where the provider says.
        progress: Option<u8>,
        /// When the provider wants to be asked next.
        poll_after: Option<Duration>,
        /// A status word that this adapter does not know.
        unknown_word: Option<String>,
    },
    /// The job is done.
    Done {
        /// What it made, at least one thing.
        outputs: Vec<Output>,
    },
}

impl Step {
    /// Another call.
    pub fn next(call: Call) -> Self {
        Self::Next(Box::new(call))
    }

    /// The provider took the order.
    pub const fn submitted(handle: Value) -> Self {
        Self::Submitted {
            handle: Handle(handle),
            poll_after: None,
        }
    }

    /// Not done.
    pub const fn running(progress: Option<u8>) -> Self {
        Self::Running {
            progress,
            poll_after: None,
            unknown_word: None,
        }
    }

    /// Not done as far as anyone can tell: the provider says a word that no
    /// document has.
    pub fn unknown(word: impl Into<String>) -> Self {
        Self::Running {
            progress: None,
            poll_after: None,
            unknown_word: Some(word.into()),
        }
    }

    /// Done, with what was made; nothing made is a failure.
    pub fn done(outputs: Vec<Output>) -> Result<Self, ProviderError> {
        if outputs.is_empty() {
            let message = "the provider says that it is done, and delivers nothing";
            return Err(ProviderError::new(Class::Failed, message));
        }
        Ok(Self::Done { outputs })
    }
}

/// Something that was made.
#[derive(Debug, Clone)]
pub struct Output {
    /// What it is.
    pub what: What,
    /// Where it is to be had.
    pub source: Source,
}

impl Output {
    /// The video at an address.
    pub fn video_at(url: impl Into<String>) -> Self {
        Self {
            what: What::Video,
            source: Source::Address(url.into()),
        }
    }

    /// A stem at an address.
    pub fn stem_at(target: StemTarget, url: impl Into<String>) -> Self {
        Self {
            what: What::Stem(target),
            source: Source::Address(url.into()),
        }
    }
}

/// What was made.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// The video.
    Video,
    /// A part of the recording.
    Stem(StemTarget),
    /// A clip of the music dialect: the provider's own record of it.
    Clip(Box<ClipFacts>),
    /// A persona: the provider's id and its own record.
    Persona {
        /// Its id at the provider.
        id: String,
        /// The record as it came.
        record: Value,
    },
}

/// A clip of the music dialect as its provider tells of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClipFacts {
    /// Its id at the provider.
    pub id: String,
    /// The provider's task that made it.
    pub task_id: Option<String>,
    /// Name for people.
    pub title: String,
    /// The part that it holds, when it is a stem.
    pub stem: Option<StemTarget>,
    /// Style, as `metadata.tags`.
    pub tags: String,
    /// Lyrics or prompt, as `metadata.prompt`.
    pub prompt: String,
    /// Address of the provider's own video; empty when there is none.
    pub video_url: String,
    /// The provider's name for the model that made it.
    pub model_name: String,
}

/// Where a result is to be had.
#[derive(Debug, Clone)]
pub enum Source {
    /// At an address that needs no credential. When it has expired, polling
    /// again gives a fresh one.
    Address(String),
    /// By this call.
    Call(Box<Call>),
    /// Here.
    Bytes(Bytes),
    /// Nowhere: there are facts only.
    Nothing,
}
