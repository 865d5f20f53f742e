//! The send fence: holds back an order whose sender can no longer prove that it is the one to
//! send it.
//!
//! A process may stand still between the moment at which it was told to send an
//! order and the moment at which the order leaves, and another one take the task
//! over meanwhile. So whoever orders says until when it may leave, by the
//! monotonic clock, and that is looked at when the connection asks for the first
//! piece of the request's body: HTTP/1.1 writes head and body out together, so
//! not a byte has left by then.

use std::error::Error as StdError;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::error::{ErrorClass, ProviderError};

/// Until when an order may leave. The one who proves it may move that on while
/// the order waits for its connection.
#[derive(Debug, Clone)]
pub struct SendDeadline(Option<watch::Receiver<Instant>>);

impl SendDeadline {
    /// As long as the instant behind `until` has not come.
    pub const fn from_watch(until: watch::Receiver<Instant>) -> Self {
        Self(Some(until))
    }

    /// At any time: nobody else could send it.
    pub const fn any_time() -> Self {
        Self(None)
    }

    /// Whether the order may not leave any more.
    pub fn is_over(&self) -> bool {
        let until = self.0.as_ref();
        until.is_some_and(|until| Instant::now() >= *until.borrow())
    }
}

/// The request was held back.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the sender no longer holds the right to send this")]
pub(super) struct DeadlinePassed;

const TOO_LATE: &str = "too_late";

impl From<DeadlinePassed> for ProviderError {
    fn from(late: DeadlinePassed) -> Self {
        Self::new(ErrorClass::Unavailable, late.to_string()).with_code(TOO_LATE)
    }
}

/// Whether an error says that the request was held back.
pub(super) fn is_too_late(error: &ProviderError) -> bool {
    error.code.as_deref() == Some(TOO_LATE)
}

/// Whether that is why a request failed.
pub(super) fn is_deadline_passed(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<DeadlinePassed>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// A body that gives nothing away once it is too late.
pub(super) struct FencedBody {
    body: reqwest::Body,
    /// Until the first piece has left.
    fence: Option<SendDeadline>,
}

impl FencedBody {
    pub(super) fn new(body: reqwest::Body, fence: &SendDeadline) -> Self {
        Self {
            body,
            fence: Some(fence.clone()),
        }
    }
}

impl Body for FencedBody {
    type Data = Bytes;
    type Error = Box<dyn StdError + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.fence.as_ref().is_some_and(SendDeadline::is_over) {
            return Poll::Ready(Some(Err(DeadlinePassed.into())));
        }
        let frame = Pin::new(&mut self.body).poll_frame(context);
        // Once a piece has left, cutting off the rest would not unsend it, but make the outcome
        // unknown.
        if frame.is_ready() {
            self.fence = None;
        }
        frame.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // Without it the request would be sent in chunks, with no Content-Length.
        self.body.size_hint()
    }
}
