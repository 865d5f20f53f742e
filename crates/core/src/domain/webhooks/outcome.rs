//! The outcome of a delivery attempt: its effect on the delivery and on the endpoint.

use std::time::Duration;

use crate::domain::webhooks::events;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::Error;
use mediagate_model::webhook::{
    DeliveryAttempt, DeliveryState, DisableReason, DueDelivery, WebhookEndpoint, pause_after,
};
use mediagate_store::Conn;
use mediagate_store::webhooks::{deliveries, endpoints};

/// An endpoint is disabled once all attempts have failed for this long, and at least this many.
const DISABLE_AFTER: Duration = Duration::from_hours(5 * 24);
const MIN_FAILURES: u32 = 10;
/// The status of a receiver that wants no more events.
const GONE: u16 = 410;

/// An attempt of a delivery.
#[derive(Debug, Clone)]
pub struct AttemptOutcome {
    pub due: DueDelivery,
    pub attempt: DeliveryAttempt,
    /// How long the receiver asked to wait.
    pub retry_after: Option<Duration>,
    /// A random number from 0 to 1, for the next pause.
    pub chance: f64,
}

/// Records an attempt. Does nothing for a delivery that `owner` no longer holds.
pub fn write(conn: &mut Conn<'_>, owner: &str, outcome: &AttemptOutcome) -> Result<(), Error> {
    let (due, attempt) = (&outcome.due, &outcome.attempt);
    let (state, due_at) = next(outcome);
    // This process lost its lease, and another one sends the delivery now. The outcome of that
    // process counts.
    if !deliveries::record_attempt(conn, due.id, owner, attempt, state, due_at)? {
        return Ok(());
    }
    let Some(id) = due.endpoint else {
        return Ok(());
    };
    if attempt.error.is_none() {
        return Ok(endpoints::note_success(conn, id)?);
    }
    let Some(mut endpoint) = endpoints::note_failure(conn, id, attempt.at)? else {
        return Ok(());
    };
    if let Some(reason) = reason_to_disable(&endpoint, attempt)
        && endpoints::disable(conn, id, reason)?
    {
        tracing::warn!(endpoint_id = %id, account_id = %due.account, reason = reason.name(), "webhook endpoint disabled");
        metrics::counter!("mediagate_webhooks_disabled_total", "reason" => reason.name())
            .increment(1);
        (endpoint.enabled, endpoint.disabled_why) = (false, Some(reason));
        events::endpoint_disabled(conn, &endpoint, attempt.at)?;
    }
    // The endpoint may also have been disabled while this delivery was in flight. The delivery can
    // be held only now that it is pending again.
    if !endpoint.enabled {
        deliveries::hold(conn, id, attempt.at)?;
    }
    Ok(())
}

/// The delivery's state after the attempt, and when it is due if it stays pending.
fn next(outcome: &AttemptOutcome) -> (DeliveryState, Timestamp) {
    let (due, attempt) = (&outcome.due, &outcome.attempt);
    if attempt.error.is_none() {
        return (DeliveryState::Delivered, attempt.at);
    }
    match (attempt.status, due.endpoint) {
        // 410 disables the endpoint. This delivery becomes pending again, so that it is held with
        // the others and can be recovered with them.
        (Some(GONE), Some(_)) => return (DeliveryState::Waiting, attempt.at),
        (Some(GONE), None) => return (DeliveryState::Failed, attempt.at),
        _ => {}
    }
    // A delivery that was resent by hand gets the full schedule once more.
    let tries = attempt.number.saturating_sub(due.earlier_attempts);
    match pause_after(tries, outcome.retry_after, outcome.chance) {
        Some(pause) => (DeliveryState::Waiting, attempt.at.plus(pause)),
        None => (DeliveryState::Failed, attempt.at),
    }
}

fn reason_to_disable(
    endpoint: &WebhookEndpoint,
    attempt: &DeliveryAttempt,
) -> Option<DisableReason> {
    if attempt.status == Some(GONE) {
        return Some(DisableReason::Gone);
    }
    let since = endpoint.failing_since?;
    // Both conditions: a quiet endpoint may have failed once in five days, and a busy one fails ten
    // times in a minute.
    let is_failing = endpoint.failures >= MIN_FAILURES && attempt.at.since(since) >= DISABLE_AFTER;
    is_failing.then_some(DisableReason::Failing)
}
