//! HTTP transport of the simulated providers: reads requests, writes the journal, applies faults,
//! sends replies.

#![expect(
    clippy::disallowed_methods,
    reason = "a task that sends a body ends with the body's receiver"
)]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Multipart};
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde_json::{Map, Value, json};

use super::message::{ReplyBody, Route, SimulatedReply, SimulatedRequest};
use crate::fault::Fault;
use crate::world::ReceivedRequest;

/// Maximum size of a request, in bytes.
pub(crate) const MAX_REQUEST_BYTES: usize = 300_000_000;

/// Marks an answer that is never sent: the connection is closed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DropConnection;

/// Attached to each request: once set, its connection ends with a reset.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionReset(Arc<AtomicBool>);

impl ConnectionReset {
    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Answers a request by its route.
pub(crate) async fn serve(
    route: Route,
    params: HashMap<String, String>,
    request: axum::extract::Request,
) -> Response {
    let reset = request.extensions().get::<ConnectionReset>().cloned();
    let reset = reset.unwrap_or_default();
    let Some(mut request) = read(&route, params, request).await else {
        return unreadable();
    };
    // The body was read first: an incomplete request must not use up a fault.
    let fault = route.world.fault(route.provider, route.role);
    request.unknown_status = fault == Some(Fault::UnknownWord);
    request.expired = fault == Some(Fault::Expired);
    // Recorded before the fault acts: the journal contains every request that arrived, even if
    // nothing was done about it.
    record(&route, &request);
    match fault {
        // Faults differ in whether the handler runs. If it does, the job exists and is paid for,
        // whatever the answer.
        Some(Fault::DropBefore) => drop_connection(),
        Some(Fault::Status {
            status,
            retry_after,
            bare,
        }) => {
            let mut reply = if bare {
                SimulatedReply::empty(status)
            } else {
                SimulatedReply::json(status, &(route.error)(status))
            };
            if let Some(seconds) = retry_after {
                reply = reply.with_header("retry-after", &seconds.to_string());
            }
            send_whole(reply).await
        }
        Some(Fault::Says {
            status,
            retry_after,
            body,
        }) => {
            // A proxy in front of a provider answers with HTML pages. With the wrong media type
            // this would be a different fault.
            let mime = if body.starts_with('<') {
                "text/html"
            } else {
                "application/json"
            };
            let mut reply = SimulatedReply::file(mime, body).with_status(status);
            if let Some(seconds) = retry_after {
                reply = reply.with_header("retry-after", &seconds.to_string());
            }
            send_whole(reply).await
        }
        Some(Fault::UnderStatus(status)) => {
            send_whole(answer(&route, &request).with_status(status)).await
        }
        // As behind a proxy that lost the provider's answer: the job exists, although the status
        // denies it.
        Some(Fault::StatusAfter(status)) => {
            answer(&route, &request);
            send_whole(SimulatedReply::empty(status)).await
        }
        Some(Fault::DropAfter) => {
            answer(&route, &request);
            drop_connection()
        }
        Some(Fault::Lying) => {
            answer(&route, &request);
            // Status and media type are right, so only the bytes reveal the lie.
            let page = "<html><body>Not what you asked for</body></html>";
            send_whole(SimulatedReply::file("video/mp4", page)).await
        }
        Some(Fault::Another(film)) => {
            answer(&route, &request);
            send_whole(SimulatedReply::file("video/mp4", film)).await
        }
        Some(Fault::Duplicate) => {
            let reply = route.last_submission(&request.base);
            send_whole(reply.unwrap_or_else(|| answer(&route, &request))).await
        }
        Some(Fault::Latency(pause)) => {
            let reply = answer(&route, &request);
            // The handler has run already: the order counts from its arrival, and only the answer
            // is late.
            tokio::time::sleep(pause).await;
            send_whole(reply).await
        }
        Some(Fault::Slow(pause)) => send_slowly(answer(&route, &request), pause).await,
        Some(Fault::Truncated) => send_half(answer(&route, &request), BodyEnding::Closed).await,
        Some(Fault::DropInBody) => {
            send_half(answer(&route, &request), BodyEnding::Reset(reset)).await
        }
        Some(Fault::UnknownWord | Fault::Expired) | None => {
            send_whole(answer(&route, &request)).await
        }
    }
}

/// Answers and journals a request without a route.
pub(crate) async fn refuse(
    route: &Route,
    request: axum::extract::Request,
    reply: SimulatedReply,
) -> Response {
    match read(route, HashMap::new(), request).await {
        Some(request) => {
            record(route, &request);
            send_whole(reply).await
        }
        None => unreadable(),
    }
}

fn answer(route: &Route, request: &SimulatedRequest) -> SimulatedReply {
    let reply = (route.handler)(request);
    route.keep_submission(&request.base, &reply);
    reply
}

fn record(route: &Route, request: &SimulatedRequest) {
    route.world.record(|| ReceivedRequest {
        provider: route.provider,
        role: route.role,
        method: request.method.clone(),
        path: request.path.clone(),
        headers: request.headers.clone(),
        body: request.body.clone(),
    });
}

// --- Requests -----------------------------------------------------------------

async fn read(
    route: &Route,
    params: HashMap<String, String>,
    request: axum::extract::Request,
) -> Option<SimulatedRequest> {
    let (method, uri, headers) = (
        request.method().clone(),
        request.uri().clone(),
        request.headers().clone(),
    );
    let host = match headers.get(header::HOST) {
        Some(host) => host.to_str().ok()?,
        // HTTP/2 has no Host field. The authority is in the URI instead.
        None => uri.authority().map_or("", |host| host.as_str()),
    };
    // URLs in answers have the host that the caller used, so that they also work through a proxy or
    // under another name.
    let base = format!("{}://{host}/{}", route.scheme, route.provider);
    let mime = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned();
    let (body, bytes) = if mime.starts_with("multipart/form-data") {
        let form = Multipart::from_request(request, &()).await.ok()?;
        (multipart(form).await?, Bytes::new())
    } else {
        let bytes = axum::body::to_bytes(request.into_body(), MAX_REQUEST_BYTES)
            .await
            .ok()?;
        (parse(&mime, &bytes), bytes)
    };
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    Some(SimulatedRequest {
        method,
        path: path.to_owned(),
        query: decode(uri.query().unwrap_or_default()),
        headers,
        body,
        bytes,
        base: base.into(),
        world: route.world.clone(),
        unknown_status: false,
        expired: false,
        params,
    })
}

fn parse(mime: &str, bytes: &Bytes) -> Value {
    if bytes.is_empty() {
        return Value::Null;
    }
    if mime.starts_with("application/x-www-form-urlencoded") {
        let form = decode(&String::from_utf8_lossy(bytes));
        return json!(form);
    }
    // Films and recordings are represented only by their length. Their bytes would fill the
    // journal.
    serde_json::from_slice(bytes).unwrap_or_else(|_| json!({"bytes": bytes.len()}))
}

async fn multipart(mut form: Multipart) -> Option<Value> {
    let mut fields = Map::new();
    while let Some(field) = form.next_field().await.ok()? {
        let name = field.name()?.to_owned();
        let file_name = field.file_name().map(str::to_owned);
        let mime = field.content_type().unwrap_or_default().to_owned();
        let bytes = field.bytes().await.ok()?;
        let value = match file_name {
            Some(file_name) => json!({"file_name": file_name, "mime": mime, "bytes": bytes.len()}),
            None => json!(String::from_utf8_lossy(&bytes)),
        };
        match fields.get_mut(&name) {
            None => _ = fields.insert(name, value),
            Some(Value::Array(values)) => values.push(value),
            Some(first) => *first = json!([first.take(), value]),
        }
    }
    Some(Value::Object(fields))
}

/// `a=1&b=2`, percent-decoded.
fn decode(query: &str) -> HashMap<String, String> {
    if query.is_empty() {
        return HashMap::new();
    }
    let uri = format!("/?{query}").parse::<http::Uri>();
    let parsed = uri
        .ok()
        .and_then(|uri| axum::extract::Query::<HashMap<String, String>>::try_from_uri(&uri).ok());
    parsed.map(|query| query.0).unwrap_or_default()
}

// --- Replies ------------------------------------------------------------------

type BodyPieces = Vec<(Duration, Bytes)>;

/// Sends the reply as its provider returned it.
async fn send_whole(mut reply: SimulatedReply) -> Response {
    match std::mem::replace(&mut reply.body, ReplyBody::Pieces(Vec::new())) {
        ReplyBody::Whole(bytes) => send(reply, Body::from(bytes)).await,
        ReplyBody::Pieces(pieces) => send(reply, stream(pieces, BodyEnding::Whole)).await,
    }
}

async fn send_slowly(reply: SimulatedReply, pause: Duration) -> Response {
    let (reply, pieces) = split_body(reply);
    let pieces = pieces
        .into_iter()
        .map(|(delay, piece)| (delay + pause, piece))
        .collect();
    send(reply, stream(pieces, BodyEnding::Whole)).await
}

/// Sends half of the reply.
async fn send_half(reply: SimulatedReply, ending: BodyEnding) -> Response {
    let (reply, mut pieces) = split_body(reply);
    pieces.truncate(pieces.len() / 2);
    send(reply, stream(pieces, ending)).await
}

/// A body of pieces, with an announced length if the provider's reply has one.
fn split_body(mut reply: SimulatedReply) -> (SimulatedReply, BodyPieces) {
    let pieces = match std::mem::replace(&mut reply.body, ReplyBody::Pieces(Vec::new())) {
        ReplyBody::Pieces(pieces) => pieces,
        ReplyBody::Whole(bytes) => {
            // hyper cannot know how long a stream will be, and would send it in chunks. Files
            // announce their length, and a body that is cut has to fall short of it.
            let length = HeaderValue::from(bytes.len());
            reply.headers.insert(header::CONTENT_LENGTH, length);
            let size = bytes.len().div_ceil(8).max(1);
            (0..bytes.len())
                .step_by(size)
                .map(|start| bytes.slice(start..bytes.len().min(start + size)))
                .map(|piece| (Duration::ZERO, piece))
                .collect()
        }
    };
    (reply, pieces)
}

async fn send(reply: SimulatedReply, body: Body) -> Response {
    if !reply.after.is_zero() {
        tokio::time::sleep(reply.after).await;
    }
    let mut answer = Response::new(body);
    *answer.status_mut() = reply.status;
    *answer.headers_mut() = reply.headers;
    answer
}

/// Time for sent data to leave the process before the connection ends.
const FLUSH_DELAY: Duration = Duration::from_millis(20);

/// How a body ends.
enum BodyEnding {
    /// The body is sent completely.
    Whole,
    /// The connection is closed before the body is complete.
    Closed,
    /// The connection is reset before the body is complete.
    Reset(ConnectionReset),
}

fn stream(pieces: BodyPieces, ending: BodyEnding) -> Body {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        for (pause, piece) in pieces {
            tokio::time::sleep(pause).await;
            if sender.send(Ok(piece)).await.is_err() {
                return;
            }
        }
        if matches!(ending, BodyEnding::Whole) {
            return;
        }
        // hyper may hold the last piece in its buffer. If the connection ended now, a random part
        // of the body would arrive.
        tokio::time::sleep(FLUSH_DELAY).await;
        if let BodyEnding::Reset(reset) = ending {
            // Set before the error is sent: hyper drops the connection as soon as it sees the
            // error.
            reset.set();
        }
        let end = std::io::Error::other("cut off on order");
        let _ = sender.send(Err(end)).await;
    });
    Body::from_stream(ChannelStream(receiver))
}

/// The receiving end of a channel as a stream.
struct ChannelStream(tokio::sync::mpsc::Receiver<Result<Bytes, std::io::Error>>);

impl futures_core::Stream for ChannelStream {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

fn drop_connection() -> Response {
    let mut answer = Response::new(Body::empty());
    answer.extensions_mut().insert(DropConnection);
    answer
}

fn unreadable() -> Response {
    let mut answer = Response::new(Body::from("the request cannot be read"));
    *answer.status_mut() = StatusCode::BAD_REQUEST;
    answer
}
