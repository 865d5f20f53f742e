//! Requests that make something: repetitions are recognised, and answers are stored and watched
//! until they have been delivered. `core/intents` has the rules.

mod creation;
mod fingerprint;
mod stored_answer;
mod watched_body;

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};

use crate::context::RequestContext;
use crate::error::ErrorResponse;
pub(super) use creation::{Creation, CreationOutcome};
pub(super) use fingerprint::Fingerprint;
use mediagate_core::app::App;
use mediagate_core::crash;
use mediagate_core::domain::ledger;
use mediagate_core::domain::task_acceptance::{self, TaskDraft};
use mediagate_core::intents::{
    self, ExistingResult, IntentAttempt, IntentCloseTime, IntentRequest, Lookup,
};
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::RequestId;
use mediagate_model::intent::RequestFingerprint;
use mediagate_model::music::Clip;
use mediagate_model::task::Task;
pub(super) use stored_answer::{REPLAYED, restore};
use stored_answer::{mark_replayed, replay, store_response};
use watched_body::watch;

pub(super) const KEY: &str = "idempotency-key";
/// In this header the answer to an order says what is left of the budgets of the caller and its end
/// user.
const REMAINING_BUDGET: &str = "x-budget-remaining-usd";
/// In this header the official SDKs count their retries.
const RETRY_COUNT: &str = "x-stainless-retry-count";

/// The `Idempotency-Key` of a request.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Error> {
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
    key.transpose()
}

/// Whether an SDK marks this request as a retry.
fn is_retry(headers: &HeaderMap) -> bool {
    let count = headers
        .get(RETRY_COUNT)
        .and_then(|value| value.to_str().ok());
    count.is_some_and(|count| count.parse::<u32>().is_ok_and(|count| count > 0))
}

/// A request whose repetitions are recognised.
pub(super) struct IdempotentRequest<'a> {
    app: &'a App,
    context: &'a RequestContext,
    request: IntentRequest,
    /// Whether the intent must be on disk before anything is done for it.
    reserve: bool,
    /// Set if the request is refused before anything is done for it.
    refusal: Option<Error>,
    /// Whether it is an order, whose answer shows what is left to spend.
    is_order: bool,
    /// The end user of an order.
    user: Option<String>,
}

/// An answer, and whether it is final for its intent.
pub(super) struct IntentAnswer {
    pub(super) response: Response,
    /// When the intent closes after the answer has been delivered. `None` if the answer leaves the
    /// intent open, or if a stream closes it.
    pub(super) close_time: Option<IntentCloseTime>,
    /// Whether the answer is stored, and repeated byte for byte for the next request with the same
    /// key. Other answers, such as streams, are generated again.
    pub(super) is_stored: bool,
    /// Set if the result failed in such a way that a retry makes something new.
    failure: Option<Arc<Error>>,
}

/// Notes the model of a draft: the order may leave the choice to the gateway.
pub(super) fn note_model(context: &RequestContext, draft: &TaskDraft) {
    if let Some(task) = draft.tasks.first() {
        context.facts.note_model(&task.model);
    }
}

/// Accepts a draft whose response can be built at once, with `build_response`. If the request has
/// an `Idempotency-Key`, the answer is stored in the transaction that accepts the draft.
pub(super) async fn accept(
    app: &App,
    context: &RequestContext,
    attempt: &IntentAttempt,
    draft: TaskDraft,
    build_response: impl AsyncFnOnce(&[Task], &[Clip]) -> Result<Response, Error>,
) -> Result<CreationOutcome<Vec<Task>>, Error> {
    note_model(context, &draft);
    let mut draft = draft.with_attempt(attempt);
    if attempt.keeps_answer() {
        let response = build_response(&draft.tasks, &draft.clips).await?;
        draft.answer = Some(store_response(response).await?);
    }
    let answer = draft.answer.clone();
    let tasks = task_acceptance::accept(app, &context.caller, attempt, draft).await?;
    Ok(answer.map_or(
        CreationOutcome::Unanswered(tasks),
        CreationOutcome::Answered,
    ))
}

impl<'a> IdempotentRequest<'a> {
    /// A request with this body; `too_many` is the error of a key that has no requests left.
    pub(super) fn new(
        app: &'a App,
        context: &'a RequestContext,
        too_many: Option<Error>,
        body: Fingerprint,
    ) -> Result<Self, Error> {
        let body = RequestFingerprint {
            key: context.caller.key.id,
            fingerprint: body.finish(),
        };
        Ok(Self {
            app,
            context,
            request: IntentRequest {
                caller: context.caller.clone(),
                body,
                idempotency_key: idempotency_key(&context.headers)?,
                is_retry: is_retry(&context.headers),
                takes_stored_answer: true,
                socket: context.socket.clone(),
            },
            reserve: false,
            refusal: too_many,
            is_order: false,
            user: None,
        })
    }

    /// A request that may cost something, for an end user if one is named: the answer shows what is
    /// left to spend afterwards.
    pub(super) fn for_order(self, user: Option<String>) -> Self {
        Self {
            is_order: true,
            user,
            ..self
        }
    }

    /// A request that may be answered by a stream, which no stored answer is.
    pub(super) fn with_stream(mut self, is_stream: bool) -> Self {
        self.request.takes_stored_answer = !is_stream;
        self
    }

    /// Stores the intent before anything is done for it.
    pub(super) fn with_reservation(self) -> Self {
        Self {
            reserve: true,
            ..self
        }
    }

    /// Answers the request, which makes something unless an earlier request did.
    pub(super) async fn answer<C: Creation>(
        mut self,
        creation: C,
        order: C::Order,
    ) -> Result<Response, Error> {
        const PAYMENT_REQUIRED: u16 = 402;
        let (app, caller, is_order) = (self.app, self.request.caller.clone(), self.is_order);
        let user = self.user.take();
        let result = self.make_or_repeat(creation, order).await;
        if !is_order {
            return result;
        }
        let mut response = match result {
            // What is left may be enough for a smaller order.
            Err(error) if error.status() == PAYMENT_REQUIRED => {
                ErrorResponse::from(error).into_response()
            }
            result => result?,
        };
        let remaining = ledger::remaining_budget(app, &caller, user).await;
        let value = remaining.and_then(|amount| HeaderValue::try_from(amount.to_string()).ok());
        if let Some(value) = value {
            response.headers_mut().insert(REMAINING_BUDGET, value);
        }
        Ok(response)
    }

    async fn make_or_repeat<C: Creation>(
        mut self,
        creation: C,
        order: C::Order,
    ) -> Result<Response, Error> {
        if let Some(refusal) = self.refusal.take() {
            return Err(self.note_nothing_made(refusal));
        }
        let lookup = match self.begin().await {
            Ok(Lookup::New(attempt)) => match creation.make(order, &attempt).await {
                Ok(CreationOutcome::Unanswered(output)) => {
                    let client = attempt.client();
                    let result = creation.respond(output, &client, false).await;
                    return self.finish(&attempt, result, false).await;
                }
                Ok(CreationOutcome::Answered(stored)) => {
                    crash::point("answer-kept");
                    let client = attempt.client();
                    client.complete(IntentCloseTime::Now);
                    return Ok(watch(restore(stored, &self.context.request_id)?, client));
                }
                Ok(CreationOutcome::NothingCreated(response)) => return Ok(response),
                Err(Error::Overtaken) => {
                    drop(attempt);
                    self.begin().await?
                }
                // If nothing was made, nothing is stored.
                Err(error) if attempt.made_nothing() => {
                    return Err(self.note_nothing_made(error));
                }
                Err(error) => return Err(error),
            },
            Ok(lookup) => lookup,
            Err(error) => return Err(self.note_nothing_made(error)),
        };
        match lookup {
            Lookup::Existing(attempt, existing) => {
                self.answer_again(&attempt, existing, creation).await
            }
            Lookup::Answered(stored) => replay(stored, &self.context.request_id),
            // The request that came first has failed.
            Lookup::New(_) => Err(Error::Overtaken),
        }
    }

    /// Answers with the result of an earlier request.
    async fn answer_again<C: Creation>(
        &self,
        attempt: &IntentAttempt,
        existing: ExistingResult,
        creation: C,
    ) -> Result<Response, Error> {
        let result = match existing {
            ExistingResult::PastTasks(tasks) => Err(intents::removed_error(&tasks)),
            existing => {
                let output = creation.load(existing.try_into()?).await?;
                creation.respond(output, &attempt.client(), true).await
            }
        };
        self.finish(attempt, result, true).await
    }

    /// The answer to send, stored if it is final; `is_repeated` if an earlier request made what it
    /// is about.
    async fn finish(
        &self,
        attempt: &IntentAttempt,
        result: Result<IntentAnswer, Error>,
        is_repeated: bool,
    ) -> Result<Response, Error> {
        let client = attempt.client();
        let mut answer = result.unwrap_or_else(|error| {
            IntentAnswer::error_answer(error, &self.context.request_id, IntentCloseTime::Now)
        });
        if let Some(failure) = &answer.failure {
            self.app.intents.note_failed(&self.request, failure);
        }
        // Only repetitions with the same key get the exact bytes of the first answer.
        if answer.is_stored && self.request.idempotency_key.is_some() {
            answer.response = self.store_answer(attempt, answer.response).await?;
        }
        if is_repeated {
            mark_replayed(&mut answer.response);
        }
        if let Some(close_time) = answer.close_time {
            client.complete(close_time);
        }
        Ok(watch(answer.response, client))
    }

    /// Notes that nothing was made: a retry of this request makes something new.
    fn note_nothing_made(&self, error: Error) -> Error {
        self.app.intents.note_refused(&self.request, &error);
        error
    }

    async fn begin(&self) -> Result<Lookup, Error> {
        self.app.intents.begin(&self.request, self.reserve).await
    }

    /// Stores an answer for the next request with the same key, or returns the one that was stored
    /// before.
    async fn store_answer(
        &self,
        attempt: &IntentAttempt,
        response: Response,
    ) -> Result<Response, Error> {
        let answer = store_response(response).await?;
        let stored = self.app.intents.keep_answer(attempt.id(), answer).await?;
        crash::point("answer-kept");
        restore(stored, &self.context.request_id)
    }
}

impl IntentAnswer {
    /// An answer about something that exists.
    pub(super) fn of(response: impl IntoResponse, close_time: IntentCloseTime) -> Self {
        Self {
            response: response.into_response(),
            close_time: Some(close_time),
            is_stored: true,
            failure: None,
        }
    }

    /// Like [`Self::of`], but generated again for repetitions with the same key.
    pub(super) fn not_stored(response: impl IntoResponse, close_time: IntentCloseTime) -> Self {
        Self {
            is_stored: false,
            ..Self::of(response, close_time)
        }
    }

    /// A stream, which closes its intent itself.
    pub(super) fn stream(response: impl IntoResponse) -> Self {
        Self {
            response: response.into_response(),
            close_time: None,
            is_stored: false,
            failure: None,
        }
    }

    /// An error about something that was made, which closes its intent at `close_time`. An error
    /// that a retry can fix is not stored. An error after which the task may continue, or which is
    /// about the caller and not about the task, leaves the intent open.
    pub(super) fn error_answer(
        error: Error,
        request_id: &RequestId,
        close_time: IntentCloseTime,
    ) -> Self {
        let code = error.code();
        let is_about_caller = matches!(error.status(), 401 | 403);
        let leaves_open = is_about_caller
            || matches!(
                code,
                ErrorCode::StillRunning
                    | ErrorCode::ShuttingDown
                    | ErrorCode::InternalError
                    | ErrorCode::Overloaded
            );
        let error = Arc::new(error);
        Self {
            close_time: (!leaves_open).then_some(close_time),
            is_stored: !code.retryable() && !is_about_caller,
            response: crate::error::write(crate::error::answer(&error), request_id),
            failure: (code.retryable() && !leaves_open).then_some(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn keys_are_visible_ascii() {
        let key = |key: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(KEY, HeaderValue::from_bytes(key).unwrap());
            idempotency_key(&headers)
        };
        assert_eq!(key(b"a-1_/!~").unwrap().as_deref(), Some("a-1_/!~"));
        assert!(key(&[b'k'; 255]).is_ok());
        for bad in [&b""[..], b"a b", b"\xc3\xa9", &[b'k'; 256]] {
            assert_eq!(key(bad).unwrap_err().code(), ErrorCode::InvalidValue);
        }
    }

    #[test]
    fn a_retry_is_counted_from_one() {
        let retry = |count: &'static str| {
            is_retry(&HeaderMap::from_iter([(
                axum::http::HeaderName::from_static(RETRY_COUNT),
                HeaderValue::from_static(count),
            )]))
        };
        assert!(retry("1") && retry("12"));
        assert!(!retry("0") && !retry("") && !retry("-1") && !retry("one"));
        assert!(!is_retry(&HeaderMap::new()));
    }
}
