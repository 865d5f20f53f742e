//! Requests that make something: known when they come again, their answers kept
//! and watched until they have arrived. `domain/idempotency` has the rules.

mod fingerprint;
mod stored_answer;
mod watched_body;

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};

use crate::auth::{RequestArrival, RequestContext};
pub(super) use fingerprint::Fingerprint;
use mediagate_core::app::App;
use mediagate_core::connections::{ClientGuard, IntentCloseTime, PeerSocket};
use mediagate_core::domain::idempotency::{
    self, IntentOutcome, IntentRequest, IntentVisit, Lookup,
};
use mediagate_core::domain::task_acceptance::{self, TaskDraft};
use mediagate_model::crash;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::RequestId;
use mediagate_model::intent::{RequestFingerprint, StoredAnswer};
use mediagate_model::music::Clip;
use mediagate_model::task::Task;
pub(super) use stored_answer::{REPLAYED, restore};
use stored_answer::{mark_replayed, replay, stored};
use watched_body::watch;

pub(super) const KEY: &str = "idempotency-key";
/// The official SDKs count their tries in it.
const RETRY_COUNT: &str = "x-stainless-retry-count";

/// What a request wants, by its headers and its body's fingerprint.
fn wanted(
    headers: &HeaderMap,
    body: RequestFingerprint,
    line: PeerSocket,
) -> Result<IntentRequest, Error> {
    let malformed = || {
        let message = "The Idempotency-Key header must be 1 to 255 visible ASCII characters.";
        Error::plain(ErrorCode::InvalidValue, message)
    };
    let mut keys = headers.get_all(KEY).iter();
    let key = keys.next().map(|value| {
        let text = value.to_str().ok().filter(|text| {
            (1..=255).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
        });
        text.map(ToOwned::to_owned).ok_or_else(malformed)
    });
    if keys.next().is_some() {
        return Err(malformed());
    }
    let retries = headers
        .get(RETRY_COUNT)
        .and_then(|value| value.to_str().ok()?.parse::<u32>().ok());
    Ok(IntentRequest {
        body,
        idempotency_key: key.transpose()?,
        tries: retries.unwrap_or(0),
        is_new: Arc::default(),
        line,
    })
}

/// A caller and what it wants.
pub(super) struct IdempotentRequest<'a> {
    app: &'a App,
    context: &'a RequestContext,
    wanted: IntentRequest,
    /// Whether the intent must be on disk before anything is done for it.
    reserve: bool,
    /// Why nothing is done for it at all.
    refused: Option<Error>,
}

/// An answer, and whether it is the last word on its intent.
pub(super) struct IntentAnswer {
    pub(super) response: Response,
    /// When it closes its intent, once it has arrived; `None` when it does not,
    /// or when its body says so itself.
    pub(super) close: Option<IntentCloseTime>,
    /// Whether it is given again, byte for byte, to the next request with the
    /// same key; a stream is told anew.
    pub(super) is_kept: bool,
    /// What was made failed, and a retry makes something new.
    failed: Option<Arc<Error>>,
}

/// What was made for a request, and how far.
pub(super) enum CreationOutcome {
    /// Its answer is still to come.
    Untold(IntentOutcome),
    /// This is its answer, and kept together with it.
    Told(StoredAnswer),
    /// Nothing was made, and this says so: the request, sent again, is a new one.
    Nothing(Response),
}

/// Accepts a draft of which the answer can be told at once, by `tell`. With a
/// key the answer is kept in the transaction that accepts it.
pub(super) async fn accept(
    app: &App,
    context: &RequestContext,
    visit: &IntentVisit,
    draft: TaskDraft,
    tell: impl AsyncFnOnce(&[Task], &[Clip]) -> Result<Response, Error>,
) -> Result<CreationOutcome, Error> {
    let mut draft = draft.reached_at(&context.links);
    if visit.keeps_answer() {
        let response = tell(&draft.tasks, &draft.clips).await?;
        draft.answer = Some(stored(response).await?);
    }
    let answer = draft.answer.clone();
    let tasks = task_acceptance::accept(app, &context.caller, visit, draft).await?;
    Ok(answer.map_or(
        CreationOutcome::Untold(IntentOutcome::Tasks(tasks)),
        CreationOutcome::Told,
    ))
}

impl<'a> IdempotentRequest<'a> {
    /// A request with this body.
    pub(super) fn new(
        app: &'a App,
        context: &'a RequestContext,
        arrival: RequestArrival,
        body: Fingerprint,
    ) -> Result<Self, Error> {
        let body = RequestFingerprint {
            key: context.caller.key.id,
            fingerprint: body.finish(),
        };
        Ok(Self {
            app,
            context,
            wanted: wanted(&arrival.headers, body, arrival.line)?,
            reserve: false,
            refused: arrival.too_many,
        })
    }

    /// The intent must be on disk before anything is done for it.
    pub(super) fn reserved(self) -> Self {
        Self {
            reserve: true,
            ..self
        }
    }

    /// Answers the request: `make` makes what it wants unless that was done
    /// before, and `answer` tells of it. `answer` is handed the caller's
    /// presence, and whether others asked before.
    pub(super) async fn answer(
        mut self,
        make: impl AsyncFnOnce(&IntentVisit) -> Result<CreationOutcome, Error>,
        answer: impl AsyncFnOnce(IntentOutcome, &Arc<ClientGuard>, bool) -> Result<IntentAnswer, Error>,
    ) -> Result<Response, Error> {
        if let Some(refused) = self.refused.take() {
            return Err(self.came_to_nothing(refused).await);
        }
        let begun = match self.begin().await {
            Ok(Lookup::New(visit)) => match make(&visit).await {
                Ok(CreationOutcome::Untold(found)) => {
                    return self.tell(visit, found, false, answer).await;
                }
                Ok(CreationOutcome::Told(stored)) => {
                    crash::point("answer-kept");
                    let presence = visit.presence();
                    presence.complete(IntentCloseTime::Now);
                    return Ok(watch(restore(stored)?, presence));
                }
                Ok(CreationOutcome::Nothing(response)) => return Ok(response),
                Err(Error::Overtaken) => {
                    drop(visit);
                    self.begin().await?
                }
                // Of what made nothing, nothing is kept.
                Err(error) if visit.made_nothing() => {
                    return Err(self.came_to_nothing(error).await);
                }
                Err(error) => return Err(error),
            },
            Ok(begun) => begun,
            Err(error) => return Err(self.came_to_nothing(error).await),
        };
        match begun {
            Lookup::Known(visit, found) => self.tell(visit, *found, true, answer).await,
            Lookup::Answered(stored) => replay(stored),
            // What was ahead has failed by now.
            Lookup::New(_) => Err(Error::Overtaken),
        }
    }

    /// Tells of what an intent made; `is_known` says that others asked before.
    async fn tell(
        &self,
        visit: IntentVisit,
        found: IntentOutcome,
        is_known: bool,
        answer: impl AsyncFnOnce(IntentOutcome, &Arc<ClientGuard>, bool) -> Result<IntentAnswer, Error>,
    ) -> Result<Response, Error> {
        let presence = visit.presence();
        let answered = match found {
            IntentOutcome::PastTasks(tasks) => Err(idempotency::removed(&tasks)),
            found => answer(found, &presence, is_known).await,
        };
        let mut answer = answered.unwrap_or_else(|error| {
            IntentAnswer::failed(error, &self.context.request_id, IntentCloseTime::Now)
        });
        if let Some(failed) = &answer.failed {
            idempotency::failed(self.app, &self.wanted, failed);
        }
        // The bytes of the first answer are for those who come by its key.
        if answer.is_kept && self.wanted.idempotency_key.is_some() {
            answer.response = self.keep(&visit, answer.response).await?;
        }
        if is_known {
            mark_replayed(&mut answer.response);
        }
        if let Some(close) = answer.close {
            presence.complete(close);
        }
        Ok(watch(answer.response, presence))
    }

    /// Nothing was made: a retry of this is an intent of its own.
    async fn came_to_nothing(&self, error: Error) -> Error {
        idempotency::came_to_nothing(self.app, &self.wanted, &error).await;
        error
    }

    async fn begin(&self) -> Result<Lookup, Error> {
        idempotency::begin(self.app, &self.context.caller, &self.wanted, self.reserve).await
    }

    /// Keeps an answer for the next request with the same key, or gives the one
    /// that was kept before.
    async fn keep(&self, visit: &IntentVisit, response: Response) -> Result<Response, Error> {
        let answer = stored(response).await?;
        let first = idempotency::keep_answer(self.app, visit.id(), answer).await?;
        crash::point("answer-kept");
        restore(first)
    }
}

impl IntentAnswer {
    /// An answer about something that exists.
    pub(super) fn of(response: impl IntoResponse, close: IntentCloseTime) -> Self {
        Self {
            response: response.into_response(),
            close: Some(close),
            is_kept: true,
            failed: None,
        }
    }

    /// The same, but told anew to who comes by its key.
    pub(super) fn told_anew(response: impl IntoResponse, close: IntentCloseTime) -> Self {
        Self {
            is_kept: false,
            ..Self::of(response, close)
        }
    }

    /// A stream, which closes its intent itself.
    pub(super) fn stream(response: impl IntoResponse) -> Self {
        Self {
            response: response.into_response(),
            close: None,
            is_kept: false,
            failed: None,
        }
    }

    /// An error about something that was made, which closes its intent at
    /// `close`. One that a retry can mend is not kept; one after which the task
    /// goes on leaves its intent open.
    pub(super) fn failed(error: Error, request_id: &RequestId, close: IntentCloseTime) -> Self {
        let code = error.code();
        let goes_on = matches!(
            code,
            ErrorCode::StillRunning
                | ErrorCode::ShuttingDown
                | ErrorCode::InternalError
                | ErrorCode::Overloaded
        );
        let error = Arc::new(error);
        Self {
            close: (!goes_on).then_some(close),
            is_kept: !code.retryable(),
            response: crate::error::write(crate::error::answer(&error), request_id),
            failed: (code.retryable() && !goes_on).then_some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;
    use mediagate_model::ids::KeyId;

    #[test]
    fn keys_are_visible_ascii() {
        let wanted = |key: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(KEY, HeaderValue::from_bytes(key).unwrap());
            let body = RequestFingerprint {
                key: KeyId::new(),
                fingerprint: "00".repeat(32),
            };
            let wanted = wanted(&headers, body, PeerSocket::default());
            wanted.map(|wanted| wanted.idempotency_key)
        };
        assert_eq!(wanted(b"a-1_/!~").unwrap().as_deref(), Some("a-1_/!~"));
        assert!(wanted(&[b'k'; 255]).is_ok());
        for bad in [&b""[..], b"a b", b"\xc3\xa9", &[b'k'; 256]] {
            assert_eq!(wanted(bad).unwrap_err().code(), ErrorCode::InvalidValue);
        }
    }
}
