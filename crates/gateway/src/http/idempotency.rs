//! Requests that make something: known when they come again, their answers kept
//! and watched until they have arrived. `domain/intents` has the rules.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::app::App;
use crate::attendance::{Close, Line, Presence};
use crate::crash;
use crate::domain::assets;
use crate::domain::intents::{self, Begun, Found, Visit, Wanted};
use crate::domain::shares::Share;
use crate::domain::submit::{self, Draft};
use crate::error::{Error, ErrorCode};
use crate::http::auth::Arrival;
use crate::http::body::JsonBody;
use crate::http::orders::Order;
use crate::ids::RequestId;
use crate::model::account::Caller;
use crate::model::intent::StoredAnswer;
use crate::model::music::Clip;
use crate::model::task::Task;

const KEY: &str = "idempotency-key";
/// Says that an answer is not the first one to its request.
pub(super) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// The official SDKs count their tries in it.
const RETRY_COUNT: &str = "x-stainless-retry-count";
/// What is kept of an answer's headers.
const KEPT: [&str; 6] = [
    "content-type",
    "x-task-id",
    "x-cost-usd",
    "x-should-retry",
    "openai-poll-after-ms",
    "retry-after",
];

/// A body's fingerprint as it is put together.
pub(super) struct Fingerprint(Sha256);

impl Fingerprint {
    /// Of such an order. Its endpoint's brand makes no difference.
    pub(super) fn of<O: Order>() -> Self {
        let mut hash = Sha256::new();
        hash.update(b"POST ");
        hash.update(O::ENDPOINT.path.as_bytes());
        Self(hash)
    }

    /// With this JSON in it; the order of members makes no difference.
    pub(super) fn json(mut self, value: &Value) -> Self {
        self.add(value);
        self
    }

    /// An order in JSON, and its fingerprint; the share of memory is for whoever
    /// keeps what was read.
    pub(super) async fn read<O: Order>(
        app: &App,
        body: JsonBody,
    ) -> Result<(O, Self, Share), Error> {
        let both = |body: &Value| Ok((O::read(body)?, Self::of::<O>().json(body)));
        let ((order, fingerprint), held) = body.read(app, both).await?;
        Ok((order, fingerprint, held))
    }

    /// With this file in it, by its digest.
    pub(super) fn file(mut self, digest: &[u8]) -> Self {
        self.0.update(b"f");
        self.0.update(digest);
        self
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::Object(members) => {
                let mut names: Vec<&String> = members.keys().collect();
                names.sort_unstable();
                self.0.update(b"{");
                self.0.update((names.len() as u64).to_le_bytes());
                for name in names {
                    self.text(name);
                    self.add(&members[name]);
                }
            }
            Value::Array(items) => {
                self.0.update(b"[");
                self.0.update((items.len() as u64).to_le_bytes());
                for item in items {
                    self.add(item);
                }
            }
            Value::String(text) => {
                self.0.update(b"s");
                self.text(text);
            }
            Value::Number(number) => {
                self.0.update(b"n");
                self.text(&number.to_string());
            }
            Value::Bool(true) => self.0.update(b"t"),
            Value::Bool(false) => self.0.update(b"u"),
            Value::Null => self.0.update(b"0"),
        }
    }

    fn text(&mut self, text: &str) {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text.as_bytes());
    }

    fn finish(self) -> String {
        assets::hex(&self.0.finalize())
    }
}

/// What a request wants, by its headers and its body's fingerprint.
fn wanted(headers: &HeaderMap, body: Fingerprint, line: Line) -> Result<Wanted, Error> {
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
    Ok(Wanted {
        fingerprint: body.finish(),
        idempotency_key: key.transpose()?,
        tries: retries.unwrap_or(0),
        is_new: Arc::default(),
        line,
    })
}

/// A caller and what it wants.
pub(super) struct Asked<'a> {
    app: &'a App,
    caller: &'a Caller,
    request_id: &'a RequestId,
    wanted: Wanted,
    /// Whether the intent must be on disk before anything is done for it.
    reserve: bool,
    /// Why nothing is done for it at all.
    refused: Option<Error>,
}

/// An answer, and whether it is the last word on its intent.
pub(super) struct Answer {
    pub(super) response: Response,
    /// When it closes its intent, once it has arrived; `None` when it does not,
    /// or when its body says so itself.
    pub(super) close: Option<Close>,
    /// Whether it is given again, byte for byte, to the next request with the
    /// same key; a stream is told anew.
    pub(super) is_kept: bool,
    /// What was made failed, and a retry makes something new.
    failed: Option<Arc<Error>>,
}

/// What was made for a request, and how far.
pub(super) enum Fresh {
    /// Its answer is still to come.
    Untold(Found),
    /// This is its answer, and kept together with it.
    Told(StoredAnswer),
}

/// What a request led to.
enum Outcome {
    /// This exists; the flag says whether others asked before.
    Untold(Visit, Found, bool),
    /// It was made now, and this is the answer.
    Told(Response, Arc<Presence>),
    /// It was answered before.
    Answered(StoredAnswer),
}

/// Accepts a draft of which the answer can be told at once, by `tell`. With a
/// key the answer is kept in the transaction that accepts it.
pub(super) async fn accept(
    app: &App,
    caller: &Caller,
    visit: &Visit,
    mut draft: Draft,
    tell: impl AsyncFnOnce(&[Task], &[Clip]) -> Result<Response, Error>,
) -> Result<Fresh, Error> {
    if visit.keeps_answer() {
        let response = tell(&draft.tasks, &draft.clips).await?;
        draft.answer = Some(stored(response).await?);
    }
    let answer = draft.answer.clone();
    let tasks = submit::accept(app, caller, visit, draft).await?;
    Ok(answer.map_or(Fresh::Untold(Found::Tasks(tasks)), Fresh::Told))
}

impl<'a> Asked<'a> {
    /// A request with these headers and this body.
    pub(super) fn new(
        app: &'a App,
        caller: &'a Caller,
        request_id: &'a RequestId,
        headers: &HeaderMap,
        body: Fingerprint,
        arrival: Arrival,
    ) -> Result<Self, Error> {
        Ok(Self {
            app,
            caller,
            request_id,
            wanted: wanted(headers, body, arrival.line)?,
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
        make: impl AsyncFnOnce(&Visit) -> Result<Fresh, Error>,
        answer: impl AsyncFnOnce(Found, &Arc<Presence>, bool) -> Result<Answer, Error>,
    ) -> Result<Response, Error> {
        if let Some(refused) = self.refused.take() {
            return Err(self.came_to_nothing(refused).await);
        }
        let (visit, found, is_known) = match self.find_or_make(make).await? {
            Outcome::Told(response, presence) => return Ok(watch(response, presence)),
            Outcome::Answered(stored) => return replay(stored),
            Outcome::Untold(visit, found, is_known) => (visit, found, is_known),
        };
        let presence = visit.presence();
        let answered = answer(found, &presence, is_known).await;
        let mut answer =
            answered.unwrap_or_else(|error| Answer::failed(error, self.request_id, Close::Now));
        if let Some(failed) = &answer.failed {
            intents::failed(self.app, self.caller, &self.wanted, failed);
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

    /// Finds what an earlier request made, or makes it.
    async fn find_or_make(
        &self,
        make: impl AsyncFnOnce(&Visit) -> Result<Fresh, Error>,
    ) -> Result<Outcome, Error> {
        let visit = match self.begin().await {
            Ok(Begun::New(visit)) => visit,
            Ok(Begun::Known(visit, found)) => return Ok(Outcome::Untold(visit, *found, true)),
            Ok(Begun::Answered(stored)) => return Ok(Outcome::Answered(stored)),
            Err(error) => return Err(self.came_to_nothing(error).await),
        };
        // Of what made nothing, nothing is kept.
        match make(&visit).await {
            Ok(Fresh::Untold(found)) => Ok(Outcome::Untold(visit, found, false)),
            Ok(Fresh::Told(stored)) => {
                crash::point("answer-kept");
                let presence = visit.presence();
                presence.complete(Close::Now);
                Ok(Outcome::Told(restore(stored)?, presence))
            }
            Err(_) if visit.is_too_late() => {
                drop(visit);
                match self.begin().await? {
                    Begun::Known(visit, found) => Ok(Outcome::Untold(visit, *found, true)),
                    Begun::Answered(stored) => Ok(Outcome::Answered(stored)),
                    // What was ahead has failed by now.
                    Begun::New(_) => Err(intents::overtaken()),
                }
            }
            Err(error) if visit.made_nothing() => Err(self.came_to_nothing(error).await),
            Err(error) => Err(error),
        }
    }

    /// Nothing was made: a retry of this is an intent of its own.
    async fn came_to_nothing(&self, error: Error) -> Error {
        intents::came_to_nothing(self.app, self.caller, &self.wanted, &error).await;
        error
    }

    async fn begin(&self) -> Result<Begun, Error> {
        intents::begin(self.app, self.caller, &self.wanted, self.reserve).await
    }

    /// Keeps an answer for the next request with the same key, or gives the one
    /// that was kept before.
    async fn keep(&self, visit: &Visit, response: Response) -> Result<Response, Error> {
        let answer = stored(response).await?;
        let first = intents::keep_answer(self.app, visit.id(), answer).await?;
        crash::point("answer-kept");
        restore(first)
    }
}

impl Answer {
    /// An answer about something that exists.
    pub(super) fn of(response: impl IntoResponse, close: Close) -> Self {
        Self {
            response: response.into_response(),
            close: Some(close),
            is_kept: true,
            failed: None,
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
    pub(super) fn failed(error: Error, request_id: &RequestId, close: Close) -> Self {
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
            response: super::error::write(super::error::answer(&error), request_id),
            failed: (code.retryable() && !goes_on).then_some(error),
        }
    }
}

async fn stored(response: Response) -> Result<StoredAnswer, Error> {
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.map_err(Error::internal)?.to_bytes();
    let headers = parts.headers.iter().filter_map(|(name, value)| {
        let kept = KEPT.contains(&name.as_str());
        let value = value.to_str().ok().filter(|_| kept)?;
        Some((name.as_str().to_owned(), value.to_owned()))
    });
    Ok(StoredAnswer {
        status: parts.status.as_u16(),
        headers: headers.collect(),
        body: String::from_utf8(bytes.to_vec()).map_err(Error::internal)?,
    })
}

fn replay(stored: StoredAnswer) -> Result<Response, Error> {
    let mut response = restore(stored)?;
    mark_replayed(&mut response);
    Ok(response)
}

fn mark_replayed(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
}

fn restore(stored: StoredAnswer) -> Result<Response, Error> {
    let mut response = Response::new(Body::from(stored.body));
    *response.status_mut() = StatusCode::from_u16(stored.status).map_err(Error::internal)?;
    for (name, value) in stored.headers {
        let name = HeaderName::try_from(name).map_err(Error::internal)?;
        let value = HeaderValue::try_from(value).map_err(Error::internal)?;
        response.headers_mut().insert(name, value);
    }
    if response.status().as_u16() >= 400 {
        super::error::mark_written(&mut response);
    }
    Ok(response)
}

/// The answer, its body watched until it is written to the end.
fn watch(response: Response, presence: Arc<Presence>) -> Response {
    response.map(|body| Body::new(Watched { body, presence }))
}

struct Watched {
    body: Body,
    presence: Arc<Presence>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let is_over = match &frame {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(_))) => self.body.is_end_stream(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => false,
        };
        if is_over {
            self.presence.written();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::domain::video::VideoOrder;
    use crate::http::orders::chat::ChatOrder;

    fn fingerprint_of(value: &Value) -> Fingerprint {
        Fingerprint::of::<VideoOrder>().json(value)
    }

    fn fingerprint(value: &Value) -> String {
        fingerprint_of(value).finish()
    }

    #[test]
    fn the_order_of_members_makes_no_difference_and_everything_else_does() {
        let one: Value = serde_json::from_str(r#"{"a":1,"b":{"c":[1,2],"d":null}}"#).unwrap();
        let two: Value = serde_json::from_str(r#" {"b":{"d":null,"c":[1,2]}, "a":1} "#).unwrap();
        assert_eq!(fingerprint(&one), fingerprint(&two));
        for other in [
            json!({"a": 1, "b": {"c": [2, 1], "d": null}}),
            json!({"a": "1", "b": {"c": [1, 2], "d": null}}),
            json!({"a": 1, "b": {"c": [1, 2]}}),
            json!({"ab": 1}),
            json!([]),
        ] {
            assert_ne!(fingerprint(&one), fingerprint(&other), "{other}");
        }
        let elsewhere = Fingerprint::of::<ChatOrder>().json(&one).finish();
        assert_ne!(fingerprint(&one), elsewhere);
    }

    #[test]
    fn keys_are_visible_ascii() {
        let wanted = |key: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(KEY, HeaderValue::from_bytes(key).unwrap());
            let wanted = wanted(&headers, fingerprint_of(&json!({})), Line::default());
            wanted.map(|wanted| wanted.idempotency_key)
        };
        assert_eq!(wanted(b"a-1_/!~").unwrap().as_deref(), Some("a-1_/!~"));
        assert!(wanted(&[b'k'; 255]).is_ok());
        for bad in [&b""[..], b"a b", b"\xc3\xa9", &[b'k'; 256]] {
            assert_eq!(wanted(bad).unwrap_err().code(), ErrorCode::InvalidValue);
        }
    }

    proptest! {
        #[test]
        fn different_texts_have_different_fingerprints(one in ".{0,20}", two in ".{0,20}") {
            let (a, b) = (json!({ "prompt": one }), json!({ "prompt": two }));
            prop_assert_eq!(one == two, fingerprint(&a) == fingerprint(&b));
        }
    }
}
