//! A write by an operator: its author, its `Idempotency-Key`, and the answer for repeated requests.

use std::marker::PhantomData;
use std::sync::Arc;

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use serde_json::Value;

use crate::auth::{Admin, CurrentSecret, NewOrder};
use crate::body::JsonBody;
use crate::idempotency::{
    Creation, CreationOutcome, Fingerprint, IdempotentRequest, IntentAnswer, restore,
};
use mediagate_core::app::App;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::operator::{AnswerBuilder, OperatorAction};
use mediagate_core::intents::{ClientGuard, IntentAttempt, IntentCloseTime};
use mediagate_model::error::Error;
use mediagate_model::ids::RequestId;
use mediagate_model::intent::StoredAnswer;

/// A request of an operator that changes something. A former secret may not do that: it could lock
/// out the owner of the key, and its changes would outlive its grace period.
pub(crate) type OperatorWrite = NewOrder<CurrentSecret<Admin>>;

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
        Fingerprint::for_path(self.context.method.as_str(), self.context.uri.path())
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
        let change = OperatorChange {
            author: self.actor(),
            request_id: &self.context.request_id,
            show: Arc::new(show),
            types: PhantomData,
        };
        let idempotent_request =
            IdempotentRequest::new(app, &self.context, self.too_many, fingerprint)?;
        idempotent_request.answer(change, make).await
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
        let fingerprint = if self.context.headers.contains_key(crate::idempotency::KEY) {
            fingerprint
        } else {
            fingerprint.make_unique()
        };
        self.make(app, fingerprint, change, show).await
    }
}

/// A change by an operator, which `M` makes, and which `S` shows.
struct OperatorChange<'a, M, S, T> {
    author: ChangeAuthor,
    request_id: &'a RequestId,
    show: Arc<S>,
    types: PhantomData<fn(M) -> T>,
}

/// The response about an operator's change.
enum ChangeResponse<W> {
    /// That of the first request, which may contain a secret.
    First(W),
    /// That of a repetition, without secrets.
    Repeated(StoredAnswer),
}

impl<M, S, T, W> Creation for OperatorChange<'_, M, S, T>
where
    M: AsyncFnOnce(OperatorAction<'_, T>) -> Result<T, Error>,
    S: Fn(&T, bool) -> W + Send + Sync + 'static,
    T: Send + 'static,
    W: Serialize,
{
    type Order = M;
    type Output = ChangeResponse<W>;
    type Id = StoredAnswer;

    async fn make(
        &self,
        make: M,
        attempt: &IntentAttempt,
    ) -> Result<CreationOutcome<ChangeResponse<W>>, Error> {
        let show = self.show.clone();
        // The answer that is stored for repetitions contains no secret: `false` omits it.
        let build_stored: AnswerBuilder<T> =
            Arc::new(move |result| stored_answer(&show(result, false)));
        let action = OperatorAction::from_request(self.author.clone(), attempt, build_stored);
        let result = make(action).await?;
        let object = (self.show)(&result, true);
        Ok(CreationOutcome::Unanswered(ChangeResponse::First(object)))
    }

    async fn load(&self, answer: StoredAnswer) -> Result<ChangeResponse<W>, Error> {
        Ok(ChangeResponse::Repeated(answer))
    }

    async fn respond(
        self,
        response: ChangeResponse<W>,
        _: &Arc<ClientGuard>,
        _: bool,
    ) -> Result<IntentAnswer, Error> {
        let response = match response {
            ChangeResponse::First(object) => Json(object).into_response(),
            ChangeResponse::Repeated(answer) => restore(answer, self.request_id)?,
        };
        Ok(IntentAnswer::not_stored(response, IntentCloseTime::Now))
    }
}

fn stored_answer(object: &impl Serialize) -> Result<StoredAnswer, Error> {
    Ok(StoredAnswer {
        status: 200,
        headers: vec![("content-type".into(), "application/json".into())],
        body: serde_json::to_string(object).map_err(Error::internal)?,
    })
}
