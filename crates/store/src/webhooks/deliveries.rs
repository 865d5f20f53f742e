//! Events and their deliveries. A delivery changes by compare-and-set: the process that attempts it
//! holds it under its lease, as it holds tasks (`store/workers.rs`).

use crate::columns::insert;
use crate::statement::sql;
use crate::{Conn, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{DeliveryId, EndpointId};
use mediagate_model::webhook::{DeliveryAttempt, DeliveryState, DeliveryTarget, WebhookEvent};

pub use super::claims::{
    DeliveryCandidate, LanesWithRoom, SendCapacity, candidates, claim, free_others,
};

/// Inserts an event. Returns false if it reports the end of a task and that was reported before.
pub fn insert_event(conn: &mut Conn<'_>, event: &WebhookEvent) -> Result<bool, StoreError> {
    // The column is unique. Other events about a task have it only in their deliveries.
    let ended_task = event.task.filter(|_| event.kind.is_task_end());
    let inserted = insert!(conn, "webhook_events" {
        "id": event.id,
        "account_id": event.account,
        "task_id": ended_task,
        "type": event.kind,
        "body": event.body,
        "created_at": event.created_at,
    } "ON CONFLICT (task_id) DO NOTHING")?;
    Ok(inserted == 1)
}

/// A delivery to insert, due at once unless it is held.
pub struct NewDelivery<'a> {
    pub id: DeliveryId,
    pub event: &'a WebhookEvent,
    pub to: &'a DeliveryTarget,
    /// The lane: deliveries in it share a limit of requests in flight.
    pub lane: &'a str,
    /// Sent instead of the event's body.
    pub body: Option<&'a str>,
    pub state: DeliveryState,
}

pub fn insert(conn: &mut Conn<'_>, new: &NewDelivery<'_>) -> Result<(), StoreError> {
    let event = new.event;
    let (endpoint, url) = match new.to {
        DeliveryTarget::Endpoint(id) => (Some(id), None),
        DeliveryTarget::Callback(url) => (None, Some(url)),
    };
    let is_over = new.state != DeliveryState::Waiting;
    insert!(conn, "webhook_deliveries" {
        "id": new.id,
        "account_id": event.account,
        "event_id": event.id,
        "endpoint_id": endpoint,
        "url": url,
        "body": new.body,
        "task_id": event.task,
        "lane": new.lane,
        "state": new.state,
        "due_at": event.created_at,
        "created_at": event.created_at,
        "ended_at": is_over.then_some(event.created_at),
    } "ON CONFLICT (event_id, lane) DO NOTHING")?;
    Ok(())
}

/// Records an attempt and its effect on the delivery, which `owner` must hold. Returns whether
/// `owner` held it.
pub fn record_attempt(
    conn: &mut Conn<'_>,
    id: DeliveryId,
    owner: &str,
    attempt: &DeliveryAttempt,
    state: DeliveryState,
    due_at: Timestamp,
) -> Result<bool, StoreError> {
    let has_ended = matches!(state, DeliveryState::Delivered | DeliveryState::Failed);
    let changed = sql!(
        "UPDATE webhook_deliveries SET state = :state, attempts = :number, due_at = :due_at, ended_at = :then,
         lease_owner = NULL
         WHERE id = :id AND lease_owner = :owner AND state = 'waiting'",
        id,
        owner,
        state,
        number = attempt.number,
        due_at,
        then = has_ended.then(|| attempt.at.micros())
    )
    .execute(conn)?;
    // The delivery was given up, or another process holds it and records its own attempt.
    if changed == 0 {
        return Ok(false);
    }
    insert!(conn, "webhook_attempts" {
        "delivery_id": id,
        "number": attempt.number,
        "at": attempt.at,
        "took_ms": attempt.took_ms,
        "status": attempt.status.map(i64::from),
        "error": attempt.error,
        "response": attempt.response,
    } "ON CONFLICT (delivery_id, number) DO NOTHING")?;
    Ok(true)
}

/// Postpones a lane's waiting deliveries until the given time.
pub fn pause(conn: &mut Conn<'_>, lane: &str, until: Timestamp) -> Result<(), StoreError> {
    sql!(
        "UPDATE webhook_deliveries SET due_at = :until
         WHERE lane = :lane AND state = 'waiting' AND lease_owner IS NULL AND due_at < :until",
        lane,
        until
    )
    .execute(conn)?;
    Ok(())
}

/// Makes waiting deliveries due now if, by their timestamps, their wait began after `after`, a time
/// well after `now`: the clock was set back since then. Returns how many.
pub fn pull_forward(
    conn: &mut Conn<'_>,
    after: Timestamp,
    now: Timestamp,
) -> Result<u64, StoreError> {
    sql!(
        "UPDATE webhook_deliveries SET due_at = :now
         WHERE state = 'waiting' AND lease_owner IS NULL AND due_at > :after
         AND (created_at > :after OR EXISTS (SELECT 1 FROM webhook_attempts
                                         WHERE delivery_id = webhook_deliveries.id AND at > :after))",
        after,
        now
    )
    .execute(conn)
}

/// Holds the waiting deliveries of an endpoint that was disabled, but not one that is being
/// attempted.
pub fn hold(conn: &mut Conn<'_>, endpoint: EndpointId, now: Timestamp) -> Result<(), StoreError> {
    sql!(
        "UPDATE webhook_deliveries SET state = 'held', ended_at = :now
         WHERE endpoint_id = :endpoint AND state = 'waiting' AND lease_owner IS NULL",
        endpoint,
        now
    )
    .execute(conn)?;
    Ok(())
}

/// Gives up the waiting and held deliveries of an endpoint that is deleted, and records its URL in
/// all its deliveries.
pub fn fail_all_of_endpoint(
    conn: &mut Conn<'_>,
    endpoint: EndpointId,
    url: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    let id = endpoint.to_string();
    sql!(
        "UPDATE webhook_deliveries SET state = 'failed', lease_owner = NULL, ended_at = :now
         WHERE endpoint_id = :id AND state IN ('waiting', 'held')",
        id = &id,
        now
    )
    .execute(conn)?;
    sql!(
        "UPDATE webhook_deliveries SET url = :url WHERE endpoint_id = :id",
        id = &id,
        url
    )
    .execute(conn)?;
    Ok(())
}

/// Makes a delivery due now, with its full number of attempts again. Returns false if it is being
/// attempted at the moment.
pub fn redeliver(conn: &mut Conn<'_>, id: DeliveryId, now: Timestamp) -> Result<bool, StoreError> {
    let changed = sql!(
        "UPDATE webhook_deliveries SET state = 'waiting', tried_before = attempts, due_at = :now, ended_at = NULL
         WHERE id = :id AND lease_owner IS NULL",
        id,
        now
    )
    .execute(conn)?;
    Ok(changed == 1)
}

/// Makes an endpoint's failed and held deliveries of events since a given time due now. Returns how
/// many.
pub fn recover(
    conn: &mut Conn<'_>,
    endpoint: EndpointId,
    since: Timestamp,
    now: Timestamp,
) -> Result<u64, StoreError> {
    sql!(
        "UPDATE webhook_deliveries SET state = 'waiting', tried_before = attempts, due_at = :now, ended_at = NULL
         WHERE endpoint_id = :endpoint AND state IN ('failed', 'held') AND lease_owner IS NULL
         AND created_at >= :since",
        endpoint,
        since,
        now
    )
    .execute(conn)
}

/// The number of due deliveries.
pub fn count_due(conn: &mut Conn<'_>, now: Timestamp) -> Result<i64, StoreError> {
    let count = sql!(
        "SELECT COUNT(*) FROM webhook_deliveries WHERE state = 'waiting' AND lease_owner IS NULL AND due_at <= :now",
        now
    )
    .value::<i64>(conn)?;
    Ok(count.unwrap_or(0))
}
