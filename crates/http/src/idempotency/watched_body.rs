//! Watched bodies: note when an answer is written completely, which counts as delivered unless the
//! client had closed the connection before.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use http_body::{Frame, SizeHint};

use mediagate_core::intents::ClientGuard;

/// Wraps the answer, so that its end is noted in the caller's guard.
pub(super) fn watch(response: Response, client_guard: Arc<ClientGuard>) -> Response {
    response.map(|body| {
        Body::new(WatchedBody {
            body,
            client_guard,
            is_lost: false,
        })
    })
}

struct WatchedBody {
    body: Body,
    client_guard: Arc<ClientGuard>,
    /// Whether the client had left when the latest frame was handed over.
    is_lost: bool,
}

impl HttpBody for WatchedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let is_over = match &frame {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(_))) => {
                // Not asked later: a client may leave as soon as it has the last frame.
                self.is_lost = self.client_guard.is_disconnected();
                self.body.is_end_stream()
            }
            Poll::Ready(Some(Err(_))) | Poll::Pending => false,
        };
        if is_over && !self.is_lost {
            self.client_guard.mark_written();
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
