//! Refused orders, buffered until they are written to the database.
//!
//! Of two equal orders, one may be refused while the other makes something. The SDK of the first
//! one then retries with its retry mark; that retry must not get what the other one made. So the
//! database counts how many orders with a body were refused, and each allows one retry to make
//! something. This buffer lets a flood of refusals share one write; before the count is read, the
//! buffer is written.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::{IntentRequest, Intents};
use locks::lock;
use mediagate_model::error::Error;
use mediagate_model::intent::{RefusedOrders, RequestFingerprint};
use mediagate_store as store;

/// How long a retry is expected after its earliest allowed time.
const RETRY_WINDOW: Duration = Duration::from_mins(1);
/// How many bodies are buffered; beyond that it is a flood, in which retries cannot be matched.
const MAX_BODIES: usize = 10_000;

/// Refusals that are not in the database yet.
#[derive(Default)]
pub(super) struct RefusalBuffer {
    bodies: Mutex<HashMap<RequestFingerprint, RefusedOrders>>,
    /// Locked while they are written, because meanwhile neither the buffer nor the database has all
    /// of them.
    writing: tokio::sync::Mutex<()>,
}

impl RefusalBuffer {
    fn bodies(&self) -> MutexGuard<'_, HashMap<RequestFingerprint, RefusedOrders>> {
        lock(&self.bodies)
    }

    fn add(&self, refused: RefusedOrders) {
        let mut bodies = self.bodies();
        if let Some(buffered) = bodies.get_mut(&refused.body) {
            buffered.count += refused.count;
            buffered.since = buffered.since.min(refused.since);
            buffered.until = buffered.until.max(refused.until);
        } else if bodies.len() < MAX_BODIES {
            bodies.insert(refused.body.clone(), refused);
        }
    }
}

impl Intents {
    /// Notes that certainly nothing was made for this request. A new order is counted as refused; a
    /// retry is not, because its order was counted before or may have made something.
    pub fn note_refused(&self, request: &IntentRequest, error: &Error) {
        if error.code().retryable() {
            self.expect_retry(request, error, u32::from(!request.is_retry));
        }
    }

    /// Notes that the result of this request failed in a way that a retry can fix by making
    /// something new.
    pub fn note_failed(&self, request: &IntentRequest, error: &Error) {
        self.expect_retry(request, error, 1);
    }

    fn expect_retry(&self, request: &IntentRequest, error: &Error, count: u32) {
        // A request with an `Idempotency-Key` is recognised by it. A client that disconnected did
        // not get the refusal: another process may already have served its retry while this one was
        // suspended, and the next retry must not be taken for it.
        if request.idempotency_key.is_some() || request.socket.is_closed() {
            return;
        }
        let wait = Duration::from_secs(error.retry_after().unwrap_or(0).into());
        let since = self.0.clock.now();
        self.0.refusals.add(RefusedOrders {
            body: request.body.clone(),
            count,
            since,
            until: since.plus(wait + RETRY_WINDOW),
        });
        self.0.clients.wake_writer();
    }

    /// Writes the buffered refusals to the database.
    pub(super) async fn write_refusals(&self) -> Result<(), Error> {
        let buffer = &self.0.refusals;
        let _writing = buffer.writing.lock().await;
        let now = self.0.clock.now();
        let refused = std::mem::take(&mut *buffer.bodies()).into_values();
        let mut refused: Vec<_> = refused.filter(|refused| refused.until > now).collect();
        if refused.is_empty() {
            return Ok(());
        }
        // Sorted, so that two processes write the same rows in the same order.
        refused.sort_by(|a, b| a.body.cmp(&b.body));
        let rows = refused.clone();
        let write = self.0.store.write(move |conn| -> Result<(), Error> {
            for row in &rows {
                store::refused_orders::add(conn, row, now)?;
            }
            Ok(())
        });
        let result = write.await;
        // Refusals that were counted twice would allow two retries to make something; a lost one
        // only makes a retry join another order.
        if result.as_ref().is_err_and(|error| !error.outcome_unknown()) {
            for refused in refused {
                buffer.add(refused);
            }
        }
        result
    }

    /// Whether a refused order with this body has made nothing yet.
    pub(super) async fn any_refused(&self, body: &RequestFingerprint) -> Result<bool, Error> {
        self.write_refusals().await?;
        let (body, now) = (body.clone(), self.0.clock.now());
        let read = self
            .0
            .store
            .read(move |conn| store::refused_orders::any(conn, &body, now));
        Ok(read.await?)
    }
}
