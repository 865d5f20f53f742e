//! Requests as a simulated provider sees them, and its replies.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use locks::lock;
use serde_json::{Value, json};

use crate::fault::RequestRole;
use crate::media;
use crate::world::{Job, World};

/// Answers a request; it never waits.
pub type RouteHandler = fn(&SimulatedRequest) -> SimulatedReply;

/// A route with its state.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) provider: &'static str,
    pub(crate) scheme: &'static str,
    pub(crate) world: Arc<World>,
    pub(crate) role: RequestRole,
    pub(crate) handler: RouteHandler,
    pub(crate) error: fn(u16) -> Value,
    pub(super) last_submission: LastSubmission,
}

/// The base URL of the last submission, and its answer.
pub(super) type LastSubmission = Arc<Mutex<Option<(Arc<str>, SimulatedReply)>>>;

impl Route {
    /// The answer to the last submission, if it was sent to the same base URL: an answer may
    /// contain URLs of a job, which must have the same host.
    pub(crate) fn last_submission(&self, base: &str) -> Option<SimulatedReply> {
        let last = lock(&self.last_submission);
        let (last_base, reply) = last.as_ref()?;
        (**last_base == *base).then(|| reply.clone())
    }

    pub(crate) fn keep_submission(&self, base: &Arc<str>, reply: &SimulatedReply) {
        // A refusal made no job that another submission could share.
        if self.role == RequestRole::Submit && reply.status.is_success() {
            let mut last = self.last_submission.lock();
            let last = last.as_deref_mut().map_err(|_| ());
            if let Ok(last) = last {
                *last = Some((base.clone(), reply.clone()));
            }
        }
    }
}

/// A complete, parsed request.
pub struct SimulatedRequest {
    /// The method.
    pub method: Method,
    /// The path below the provider's base, and the query.
    pub path: String,
    /// The query, decoded.
    pub query: HashMap<String, String>,
    /// The headers.
    pub headers: HeaderMap,
    /// The parsed body, as in [`crate::ReceivedRequest::body`].
    pub body: Value,
    /// The raw body; empty for multipart.
    pub bytes: Bytes,
    /// The provider's base URL with the host that the caller used, such as
    /// `http://127.0.0.1:4000/fal`.
    pub base: Arc<str>,
    /// Jobs, journal and faults.
    pub world: Arc<World>,
    /// The answer must contain an undocumented status word.
    pub unknown_status: bool,
    /// The result's URL has expired.
    pub expired: bool,
    pub(crate) params: HashMap<String, String>,
}

impl SimulatedRequest {
    /// A part of the path; empty if there is none of this name.
    pub fn param(&self, name: &str) -> &str {
        self.params.get(name).map_or("", String::as_str)
    }

    /// A header's text; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// The bearer key.
    pub fn bearer(&self) -> Option<&str> {
        self.header("authorization")
            .strip_prefix("Bearer ")
            .filter(|key| !key.is_empty())
    }

    /// The video of the job `{id}` in the path, at a URL that is signed by this query parameter and
    /// expires.
    pub fn signed_video(&self, parameter: &str) -> SimulatedReply {
        // A storage service checks the signature and its age. It does not know the state of the
        // job.
        let job = self.world.job(self.param("id"));
        let is_signed = self.query.contains_key(parameter);
        let Some(job) = job.filter(|_| is_signed && !self.expired) else {
            return SimulatedReply::json(403, &json!("Request has expired"));
        };
        let seconds = job.input["duration"].as_u64().unwrap_or(5);
        let seconds = u32::try_from(seconds).unwrap_or(5);
        SimulatedReply::file("video/mp4", media::video(seconds))
    }

    /// A number of the query; `default` if there is none.
    pub fn number(&self, name: &str, default: usize) -> usize {
        let text = self.query.get(name);
        text.and_then(|text| text.parse().ok()).unwrap_or(default)
    }

    /// An instant in Unix seconds.
    pub fn unix_seconds(&self, instant: Instant) -> u64 {
        self.since_epoch(instant).as_secs()
    }

    /// An instant as `2026-11-21T12:00:00.123Z`.
    pub fn timestamp(&self, instant: Instant) -> String {
        let time = self.since_epoch(instant);
        let (days, seconds_of_day) = (time.as_secs() / 86_400, time.as_secs() % 86_400);
        // Counting years off one by one is fast enough: there are fewer than a hundred.
        let (mut year, mut day) = (1970, days);
        let is_leap = |year: u64| {
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
        };
        while day >= 365 + u64::from(is_leap(year)) {
            day -= 365 + u64::from(is_leap(year));
            year += 1;
        }
        let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut month = 1;
        for (length, number) in lengths.into_iter().zip(1..) {
            let length = length + u64::from(number == 2 && is_leap(year));
            if day < length {
                break;
            }
            day -= length;
            month += 1;
        }
        let (hour, minute, second) = (
            seconds_of_day / 3600,
            seconds_of_day / 60 % 60,
            seconds_of_day % 60,
        );
        let milliseconds = time.subsec_millis();
        format!(
            "{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z",
            day + 1
        )
    }

    #[expect(
        clippy::disallowed_methods,
        clippy::unused_self,
        reason = "providers use the real time; no test moves their clock"
    )]
    fn since_epoch(&self, instant: Instant) -> Duration {
        let wall_time = SystemTime::now() - instant.elapsed();
        wall_time.duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// The jobs of a page, the newest first, and whether there are more: the jobs of a provider
    /// that `matches` accepts, `limit` of them from `offset`.
    pub fn page(
        &self,
        provider: &str,
        matches: impl Fn(&Job) -> bool,
        offset: usize,
        limit: usize,
    ) -> (Vec<Job>, bool) {
        let mut jobs = self.world.jobs(provider);
        jobs.retain(matches);
        let has_more = jobs.len() > offset.saturating_add(limit);
        // `jobs` has the oldest first. Providers' lists begin with the newest.
        let page = jobs.into_iter().rev().skip(offset).take(limit);
        (page.collect(), has_more)
    }
}

/// The reply of a simulated provider.
#[derive(Debug, Clone)]
pub struct SimulatedReply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: ReplyBody,
    pub(crate) after: Duration,
}

#[derive(Debug, Clone)]
pub(crate) enum ReplyBody {
    Whole(Bytes),
    /// Pieces, each after a pause.
    Pieces(Vec<(Duration, Bytes)>),
}

impl SimulatedReply {
    /// An answer without a body.
    pub fn empty(status: u16) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            headers: HeaderMap::new(),
            body: ReplyBody::Whole(Bytes::new()),
            after: Duration::ZERO,
        }
    }

    /// JSON.
    pub fn json(status: u16, body: &Value) -> Self {
        let mut reply = Self::empty(status);
        reply.body = ReplyBody::Whole(body.to_string().into());
        reply.with_header("content-type", "application/json")
    }

    /// A file.
    pub fn file(mime: &'static str, bytes: impl Into<Bytes>) -> Self {
        let mut reply = Self::empty(200);
        reply.body = ReplyBody::Whole(bytes.into());
        reply.with_header("content-type", mime)
    }

    /// Server-sent events, or any pieces, each after a pause.
    pub fn pieces(mime: &'static str, pieces: Vec<(Duration, String)>) -> Self {
        let mut reply = Self::empty(200);
        let pieces = pieces.into_iter().map(|(pause, text)| (pause, text.into()));
        reply.body = ReplyBody::Pieces(pieces.collect());
        reply.with_header("content-type", mime)
    }

    /// Replaces the status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Self::empty(status).status;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    /// Delays the reply, while the connection stays open.
    #[must_use]
    pub fn with_delay(mut self, pause: Duration) -> Self {
        self.after = pause;
        self
    }
}
