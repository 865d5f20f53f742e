//! A write by an operator: its author, its `Idempotency-Key`, and the answer for repeated requests.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde_json::Value;

use crate::auth::{RequestArrival, RequestContext, authenticate_order};
use crate::body::JsonBody;
use crate::error::ErrorResponse;
use crate::idempotency::{CreationOutcome, Fingerprint, IdempotentRequest, IntentAnswer, restore};
use mediagate_core::app::App;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::intent_outcome::IntentOutcome;
use mediagate_core::domain::keys;
use mediagate_core::domain::operator::{AnswerBuilder, OperatorAction};
use mediagate_core::intents::IntentAttempt;
use mediagate_core::intents::{ClientGuard, IntentCloseTime};
use mediagate_model::account::Scope;
use mediagate_model::error::Error;
use mediagate_model::intent::StoredAnswer;

/// A request of an operator that changes something. A former secret may not do that: it could lock
/// out the owner of the key, and its changes would outlive its grace period.
pub(crate) struct OperatorWrite {
    context: RequestContext,
    arrival: RequestArrival,
    method: Method,
    path: String,
}

impl FromRequestParts<App> for OperatorWrite {
    type Rejection = ErrorResponse;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ErrorResponse> {
        let (context, arrival) = authenticate_order(parts, app, Scope::Admin).await?;
        keys::refuse_former_secret(&context.caller)?;
        Ok(Self {
            context,
            arrival,
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
        })
    }
}

/// The input of a request, and its fingerprint.
pub(crate) type FingerprintedInput<T> = (T, Fingerprint);

impl OperatorWrite {
    pub(crate) fn actor(&self) -> ChangeAuthor {
        self.context.actor()
    }

    /// Reads a body.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        app: &App,
        body: JsonBody,
        read: impl FnOnce(&Value) -> Result<T, Error> + Send + 'static,
    ) -> Result<FingerprintedInput<T>, Error> {
        let fingerprint = self.fingerprint();
        let parse = |value: &Value| Ok((read(value)?, fingerprint.with_json(value)));
        let (input, _) = body.read(app, parse).await?;
        Ok(input)
    }

    /// Reads a body that may be left out. A missing body counts as an empty object.
    pub(crate) async fn read_any<T: Send + 'static>(
        &self,
        app: &App,
        body: Option<JsonBody>,
        read: impl FnOnce(&Value) -> Result<T, Error> + Send + 'static,
    ) -> Result<FingerprintedInput<T>, Error> {
        if let Some(body) = body {
            self.read(app, body, read).await
        } else {
            let empty = Value::Object(serde_json::Map::new());
            Ok((read(&empty)?, self.fingerprint().with_json(&empty)))
        }
    }

    /// The fingerprint of a request without a body.
    pub(crate) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::for_path(self.method.as_str(), &self.path)
    }

    /// Creates something. Even without an `Idempotency-Key`, a request that is repeated because its
    /// answer was lost gets that answer, without secrets. `show` describes the result; its flag is
    /// true for the first request, whose answer may contain secrets.
    pub(crate) async fn make<T: Send + 'static, W: Serialize>(
        self,
        app: &App,
        fingerprint: Fingerprint,
        make: impl AsyncFnOnce(OperatorAction<'_, T>) -> Result<T, Error>,
        show: impl Fn(&T, bool) -> W + Send + Sync + 'static,
    ) -> Result<Response, Error> {
        let show = Arc::new(show);
        let show_stored = show.clone();
        // The answer that is stored for repetitions contains no secret: `false` omits it.
        let build_stored: AnswerBuilder<T> =
            Arc::new(move |result| stored_answer(&show_stored(result, false)));
        let author = self.actor();
        let idempotent_request =
            IdempotentRequest::new(app, &self.context, self.arrival, fingerprint)?;
        // The first response may have the secret. It is passed on separately from the stored
        // answer.
        let first: Mutex<Option<W>> = Mutex::new(None);
        let make = async |attempt: &IntentAttempt| {
            let result = make(OperatorAction::from_request(
                author,
                attempt,
                build_stored.clone(),
            ))
            .await?;
            let object = show(&result, true);
            *first.lock().unwrap_or_else(PoisonError::into_inner) = Some(object);
            Ok(CreationOutcome::Unanswered(IntentOutcome::Change(
                build_stored(&result)?,
            )))
        };
        let answer = async |outcome: IntentOutcome, _: &Arc<ClientGuard>, _: bool| {
            let object = first.lock().unwrap_or_else(PoisonError::into_inner).take();
            let response = match (object, outcome) {
                (Some(object), _) => Json(object).into_response(),
                (None, IntentOutcome::Change(answer)) => restore(answer, &self.context.request_id)?,
                (None, _) => {
                    return Err(Error::internal("the outcome is not an operator's change"));
                }
            };
            Ok(IntentAnswer::not_stored(response, IntentCloseTime::Now))
        };
        idempotent_request.answer(make, answer).await
    }

    /// Changes something that exists. Only an `Idempotency-Key` identifies a repetition, because
    /// the same change may be wanted again after a different one.
    pub(crate) async fn change<T: Send + 'static, W: Serialize>(
        self,
        app: &App,
        fingerprint: Fingerprint,
        change: impl AsyncFnOnce(OperatorAction<'_, T>) -> Result<T, Error>,
        show: impl Fn(&T, bool) -> W + Send + Sync + 'static,
    ) -> Result<Response, Error> {
        let fingerprint = if self.arrival.headers.contains_key(crate::idempotency::KEY) {
            fingerprint
        } else {
            fingerprint.make_unique()
        };
        self.make(app, fingerprint, change, show).await
    }
}

fn stored_answer(object: &impl Serialize) -> Result<StoredAnswer, Error> {
    Ok(StoredAnswer {
        status: 200,
        headers: vec![("content-type".into(), "application/json".into())],
        body: serde_json::to_string(object).map_err(Error::internal)?,
    })
}
