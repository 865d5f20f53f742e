//! Displacement of requests: when all connections are busy, the owner of most of them gives one up.
//!
//! The server decides which one (`server/connection_table`). Its request learns of it here, and
//! ends with a proper response before the connection is closed.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt as _, stream};
use locks::lock;
use tokio_util::sync::CancellationToken;

use crate::error::{self, ErrorResponse};
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, RequestId};

/// How long a handler may take to end by itself. The server then closes the connection a little
/// later.
const GRACE: Duration = Duration::from_secs(1);

/// Whom a connection's requests belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum RequestOwner {
    Account(AccountId),
    /// A caller without a key, or whose key has not been looked up yet.
    Address(IpAddr),
}

/// The connection of a request, as a request extension. Without our own server, as in tests of the
/// router, nobody displaces it.
#[derive(Debug, Clone, Default)]
pub(super) struct RequestConnection {
    /// The owner of the latest request: HTTP/2 carries several.
    owner: Arc<Mutex<Option<RequestOwner>>>,
    /// Cancelled when the connection must be given up.
    displaced: CancellationToken,
}

impl RequestConnection {
    pub(super) fn owner(&self) -> Option<RequestOwner> {
        *lock(&self.owner)
    }

    pub(super) fn set_owner(&self, owner: RequestOwner) {
        *lock(&self.owner) = Some(owner);
    }

    /// Demands that the connection ends soon.
    pub(super) fn displace(&self) {
        self.displaced.cancel();
    }

    /// Returns when the connection must be given up.
    pub(super) async fn displaced(&self) {
        self.displaced.cancelled().await;
    }

    /// The handler's response or, if it does not end in time once the connection must be given up,
    /// an error. A request that makes or changes something gets none, and is cut off with its
    /// connection: its outcome is not known here, and the error would say that nothing was made.
    pub(super) async fn answer(
        &self,
        is_read: bool,
        handler: impl Future<Output = Response>,
    ) -> Response {
        let mut handler = std::pin::pin!(handler);
        tokio::select! {
            biased;
            response = &mut handler => return response,
            () = self.displaced(), if is_read => {}
        }
        let late = || ErrorResponse::from(displaced()).into_response();
        let response = tokio::time::timeout(GRACE, handler).await;
        response.unwrap_or_else(|_| late())
    }

    /// The response. If it is a stream of events, it ends with an error when the connection must be
    /// given up.
    pub(super) fn end_stream(&self, response: Response, request_id: &RequestId) -> Response {
        let media_type = response.headers().get(CONTENT_TYPE);
        if media_type.is_none_or(|media_type| media_type != "text/event-stream") {
            return response;
        }
        let (parts, body) = response.into_parts();
        let displaced = self.displaced.clone();
        let is_displaced = displaced.clone();
        let request_id = request_id.clone();
        let end = stream::once(async move {
            let is_displaced = is_displaced.is_cancelled();
            is_displaced.then(|| Ok(last_event(&request_id)))
        });
        let body = body.into_data_stream();
        let body = body.take_until(displaced.cancelled_owned());
        let body = body.chain(end.filter_map(std::future::ready));
        Response::from_parts(parts, Body::from_stream(body))
    }
}

fn displaced() -> Error {
    let message =
        "Too many connections are open, and most of them are yours. Try again in a moment.";
    Error::retry_later(ErrorCode::Overloaded, message, 2)
}

/// The last event of a displaced stream. It has the form that clients of the chat API read; others
/// find the same object under the event's name.
fn last_event(request_id: &RequestId) -> Bytes {
    let error = displaced();
    error::log(&error);
    let body = serde_json::to_string(&error::body(&error, request_id)).unwrap_or_default();
    Bytes::from(format!("event: error\ndata: {body}\n\n"))
}
