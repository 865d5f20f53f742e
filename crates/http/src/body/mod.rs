//! Request bodies: limited in size, time and memory, and checked while they arrive. `json_scanner`
//! bounds the memory that parsed JSON takes, `form` reads multipart forms.
//!
//! Only the values read from a body are kept.

pub(super) mod form;
mod json_scanner;

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, OptionalFromRequest, Request};
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, stream};
use http_body_util::BodyExt as _;
use serde_json::Value;

use self::json_scanner::JsonScanner;
use crate::context::RequestFacts;
use crate::error::ErrorResponse;
use crate::fields::BODY_LIMIT;
use mediagate_core::app::App;
use mediagate_core::limits::{QuotaExhausted, QuotaShare};
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::AccountId;

/// How long a body of JSON may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_mins(1);
/// How long the rest of a refused body is read: most clients read the response only after sending.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// Bodies of at least this size are parsed off the async threads.
const LARGE_BODY_BYTES: usize = 65_536;

/// A JSON body that has arrived.
pub struct JsonBody {
    bytes: Bytes,
    share: QuotaShare,
    facts: RequestFacts,
}

impl FromRequest<App> for JsonBody {
    type Rejection = ErrorResponse;

    async fn from_request(request: Request, app: &App) -> Result<Self, ErrorResponse> {
        if let Err(error) = check_json(request.headers()) {
            drain(request.into_body()).await;
            return Err(error.into());
        }
        let mut memory = memory_share(&request, app)?;
        let facts = request.extensions().get().cloned().unwrap_or_default();
        let mut body = request.into_body();
        let received = tokio::time::timeout(BODY_TIMEOUT, receive(&mut body, &mut memory)).await;
        match received.unwrap_or_else(|_| Err(timeout_error())) {
            Ok(bytes) => Ok(Self {
                bytes,
                share: memory,
                facts,
            }),
            Err(error) => {
                // The memory is released before the rest is read, which can take seconds. The rest
                // is read because hyper closes a connection with data still on its way: the client
                // would see a reset instead of the answer.
                drop(memory);
                drain(body).await;
                Err(error.into())
            }
        }
    }
}

/// A body that may be left out. Only its bytes show whether there is one: with HTTP/2 it needs no
/// length, and with HTTP/1.1 a chunked body may be empty.
impl OptionalFromRequest<App> for JsonBody {
    type Rejection = ErrorResponse;

    async fn from_request(request: Request, app: &App) -> Result<Option<Self>, ErrorResponse> {
        let (parts, mut body) = request.into_parts();
        let first = tokio::time::timeout(BODY_TIMEOUT, first_chunk(&mut body));
        let Some(first) = first.await.map_err(|_| timeout_error())?? else {
            return Ok(None);
        };
        // Put back in front, because the reader below takes a body from its start.
        let first = stream::once(async { Ok(first) });
        let body = Body::from_stream(first.chain(body.into_data_stream()));
        let whole = <Self as FromRequest<App>>::from_request(Request::from_parts(parts, body), app);
        whole.await.map(Some)
    }
}

/// The first bytes of a body; `None` if it has none.
async fn first_chunk(body: &mut Body) -> Result<Option<Bytes>, Error> {
    while let Some(frame) = body.frame().await {
        let chunk = frame.map_err(body_error)?.into_data();
        if let Ok(chunk) = chunk
            && !chunk.is_empty()
        {
            return Ok(Some(chunk));
        }
    }
    Ok(None)
}

fn body_error(_: axum::Error) -> Error {
    let message = "The request body ended unexpectedly.";
    Error::plain(ErrorCode::InvalidValue, message)
}

fn timeout_error() -> Error {
    let message = format!(
        "The request body did not arrive within {} seconds.",
        BODY_TIMEOUT.as_secs()
    );
    Error::plain(ErrorCode::InvalidValue, message)
}

impl JsonBody {
    /// Parses the body and reads it with `read`; the parsed body is then dropped. Keep the returned
    /// share of memory as long as the result.
    pub async fn read<T: Send + 'static>(
        self,
        app: &App,
        read: impl FnOnce(&Value) -> Result<T, Error> + Send + 'static,
    ) -> Result<(T, QuotaShare), Error> {
        let Self {
            bytes,
            share: memory,
            facts,
        } = self;
        let read = move |body: &Value| {
            // Noted here, so that the record of a refused order names its model, too. Orders of music
            // name it in `mv`; an empty text names none.
            let mut names = ["model", "mv"]
                .into_iter()
                .filter_map(|name| body[name].as_str());
            if let Some(model) = names.find(|model| !model.is_empty()) {
                facts.note_model(model);
            }
            read(body)
        };
        if bytes.len() < LARGE_BODY_BYTES {
            return Ok((read(&parse(&bytes)?)?, memory));
        }
        // A parsed body takes many times the memory of its text, so only as many large ones are
        // parsed at once as there are cores.
        let permit = app.limits.parsing.clone().acquire_owned().await;
        let permit = permit.map_err(Error::internal)?;
        let work = move || {
            let value = parse(&bytes)?;
            // Freed before `read` copies from the value, to keep the peak low.
            drop(bytes);
            let read = read(&value)?;
            // The permit lasts as long as the parsed value, which is what it limits.
            drop((value, permit));
            // What was read can contain a picture as large as the body, so the share stays taken.
            Ok((read, memory))
        };
        app.compute(work).await?
    }
}

/// The caller's share of the memory for bodies, still empty.
pub(super) fn memory_share(request: &Request, app: &App) -> Result<QuotaShare, Error> {
    let account = request.extensions().get::<AccountId>().copied();
    // Only the key check knows the account, so handlers extract the caller before a body.
    let account = account.ok_or_else(|| Error::internal("a body was read before the key check"))?;
    Ok(app.limits.bodies.open(account))
}

/// The error for a body for which there is no memory.
pub(super) fn no_memory(exhausted: QuotaExhausted) -> Error {
    let message = match exhausted {
        QuotaExhausted::Account => {
            "The account has too many large requests at once. Try again in a moment."
        }
        QuotaExhausted::All => "Too many large requests at once. Try again in a moment.",
    };
    Error::retry_later(ErrorCode::Overloaded, message, 2)
}

async fn receive(body: &mut Body, memory: &mut QuotaShare) -> Result<Bytes, Error> {
    let mut bytes = BytesMut::new();
    let mut scanner = JsonScanner::default();
    while let Some(frame) = body.frame().await {
        // Trailers, which nothing here reads.
        let Ok(chunk) = frame.map_err(body_error)?.into_data() else {
            continue;
        };
        if bytes.len() + chunk.len() > BODY_LIMIT {
            return Err(too_large("The body", BODY_LIMIT));
        }
        // Checked before it is kept, so that refused data takes no memory. The share grows by the
        // bytes that arrive, not by `Content-Length`, so a slowly sent body uses no more memory
        // than it has sent.
        scanner.scan(&chunk)?;
        memory.grow(chunk.len() as u64).map_err(no_memory)?;
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}

/// Reads the rest of a body and discards it.
async fn drain(mut body: Body) {
    let rest = async {
        let mut remaining = BODY_LIMIT;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            // A client that never stops sending is cut off.
            match remaining.checked_sub(length) {
                Some(new_remaining) => remaining = new_remaining,
                None => return,
            }
        }
    };
    drop(tokio::time::timeout(DRAIN_TIMEOUT, rest).await);
}

fn parse(bytes: &[u8]) -> Result<Value, Error> {
    // RFC 8259, section 8.1, allows to ignore a byte order mark, which PowerShell and editors send.
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    serde_json::from_slice(bytes).map_err(|error| {
        let message = format!("The body is not valid JSON: {error}.");
        Error::plain(ErrorCode::InvalidJson, message)
    })
}

/// Parses JSON that a form contains as text, within the limits of a JSON body.
pub(super) fn parse_text(text: &str) -> Result<Value, Error> {
    JsonScanner::default().scan(text.as_bytes())?;
    serde_json::from_str(text).map_err(|error| {
        let message = format!("The text is not valid JSON: {error}.");
        Error::plain(ErrorCode::InvalidJson, message)
    })
}

/// The error for input longer than its limit.
pub(super) fn too_large(subject: &str, limit: usize) -> Error {
    Error::plain(
        ErrorCode::BodyTooLarge,
        format!("{subject} is larger than {} MB.", limit / 1_000_000),
    )
}

/// Refuses a body that is not plain JSON.
fn check_json(headers: &HeaderMap) -> Result<(), Error> {
    check_encoding(headers)?;
    if is_json(headers) {
        return Ok(());
    }
    let message = "The body must be JSON, sent with the header \"Content-Type: application/json\".";
    Err(Error::plain(ErrorCode::UnsupportedMediaType, message))
}

/// Refuses a body that is compressed: the limits here count the bytes that arrive, so nothing
/// decodes one.
fn check_encoding(headers: &HeaderMap) -> Result<(), Error> {
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let value = String::from_utf8_lossy(value.as_bytes());
        let mut encodings = value.split(',').map(str::trim);
        let is_plain =
            |encoding: &str| encoding.is_empty() || encoding.eq_ignore_ascii_case("identity");
        if let Some(encoding) = encodings.find(|encoding| !is_plain(encoding)) {
            // The caller's text can be as long as a request head.
            let excerpt: String = encoding.chars().take(40).collect();
            let message = format!(
                "The body has the encoding {excerpt:?}. Send it without the header Content-Encoding, uncompressed."
            );
            return Err(Error::plain(ErrorCode::UnsupportedMediaType, message));
        }
    }
    Ok(())
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = media_type(headers);
    // RFC 6839: a format whose name ends with `+json` is JSON.
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// Whether the body is a multipart form.
pub(super) fn is_multipart(headers: &HeaderMap) -> bool {
    media_type(headers) == "multipart/form-data"
}

/// The `Content-Type` without its parameters, in lower case.
fn media_type(headers: &HeaderMap) -> String {
    let text = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    text.split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}
