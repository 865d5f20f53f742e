//! The send fence: holds back an order whose sender may no longer have the right to send it.
//!
//! A process may be suspended between the decision to send an order and the moment at which it is
//! sent, and another process may take over the task meanwhile. So the sender sets a deadline by the
//! monotonic clock, which is checked when the connection asks for the first piece of the request's
//! body: HTTP/1.1 writes head and body together, so nothing has been sent by then.

use std::error::Error as StdError;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::error::{ErrorClass, ProviderError};

/// The time until which an order may be sent. The owner of the lease may extend it while the order
/// waits for its connection.
#[derive(Debug, Clone)]
pub struct SendDeadline(Option<watch::Receiver<Instant>>);

impl SendDeadline {
    /// A deadline that is the current value of `until`.
    pub const fn from_watch(until: watch::Receiver<Instant>) -> Self {
        Self(Some(until))
    }

    /// No deadline, because no other process could send the order.
    pub const fn any_time() -> Self {
        Self(None)
    }

    /// Whether the deadline has passed.
    pub fn is_over(&self) -> bool {
        let until = self.0.as_ref();
        until.is_some_and(|until| Instant::now() >= *until.borrow())
    }
}

/// The request was not sent because its deadline had passed.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the sender no longer holds the right to send this")]
pub(super) struct DeadlinePassed;

const TOO_LATE: &str = "too_late";

impl From<DeadlinePassed> for ProviderError {
    fn from(late: DeadlinePassed) -> Self {
        Self::new(ErrorClass::Unavailable, late.to_string()).with_code(TOO_LATE)
    }
}

/// Whether an error means that the request was not sent because of its deadline.
pub(super) fn is_too_late(error: &ProviderError) -> bool {
    error.code.as_deref() == Some(TOO_LATE)
}

/// Whether a request failed because of its deadline.
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

/// A body that yields no data once the deadline has passed.
pub(super) struct FencedBody {
    body: reqwest::Body,
    /// Present until the first piece is sent.
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
        // Once a piece is sent, cutting off the rest would not undo it, but make the outcome
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
