//! The delivery log: lists of deliveries and attempts, and the removal of old ones.

use crate::columns::{TableRecord as _, record, saturated};
use crate::conn::to_json;
use crate::statement::{dialect_sql, sql};
use crate::tasks::PageQuery;
use crate::{Conn, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, DeliveryId, EndpointId, TaskId};
use mediagate_model::webhook::{Delivery, DeliveryAttempt, DeliveryState};

record! {
    columns for Delivery of "webhook_deliveries" {
        id: "d.id",
        account: "d.account_id",
        event: "d.event_id",
        kind: "e.type",
        event_at: "e.created_at",
        endpoint: "d.endpoint_id",
        url: Option::unwrap_or_default("COALESCE(d.url, p.url)"),
        task: "d.task_id",
        state: "d.state",
        attempts: saturated("d.attempts"),
        due_at: "d.due_at",
        created_at: "d.created_at",
    }
}

record! {
    attempt_columns for DeliveryAttempt of "webhook_attempts" {
        number: saturated("number"),
        at: "at",
        took_ms: or_zero("took_ms"),
        status: status("status"),
        error: "error",
        response: "response",
    }
}

fn or_zero(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}

fn status(stored: Option<i64>) -> Option<u16> {
    stored.and_then(|status| u16::try_from(status).ok())
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM webhook_deliveries d JOIN webhook_events e ON e.id = d.event_id
             LEFT JOIN webhook_endpoints p ON p.id = d.endpoint_id ",
            $rest
        )
    };
}

pub fn by_id(
    conn: &mut Conn<'_>,
    id: DeliveryId,
    account: AccountId,
) -> Result<Option<Delivery>, StoreError> {
    sql!(
        select!("WHERE d.id = :id AND d.account_id = :account"),
        id,
        account
    )
    .one(conn, Delivery::from_row)
}

/// The account that a delivery belongs to.
pub fn account_of(conn: &mut Conn<'_>, id: DeliveryId) -> Result<Option<AccountId>, StoreError> {
    sql!(
        "SELECT account_id FROM webhook_deliveries WHERE id = :id",
        id
    )
    .value(conn)
}

/// A page of an endpoint's deliveries, the newest first.
pub fn of_endpoint(
    conn: &mut Conn<'_>,
    endpoint: EndpointId,
    state: Option<DeliveryState>,
    page: PageQuery<DeliveryId>,
) -> Result<Vec<Delivery>, StoreError> {
    let PageQuery { after, limit, .. } = page;
    macro_rules! read {
        ($rest:literal $(, $state:ident)?) => {
            sql!(select!($rest), endpoint, after, limit $(, $state)?).all(conn, Delivery::from_row)
        };
    }
    match (state, page.ascending) {
        (None, false) => read!(
            "WHERE d.endpoint_id = :endpoint AND d.id < COALESCE(:after, 'g') ORDER BY d.id DESC LIMIT :limit"
        ),
        (None, true) => read!(
            "WHERE d.endpoint_id = :endpoint AND d.id > COALESCE(:after, '') ORDER BY d.id LIMIT :limit"
        ),
        (Some(state), false) => read!(
            "WHERE d.endpoint_id = :endpoint AND d.id < COALESCE(:after, 'g') AND d.state = :state
             ORDER BY d.id DESC LIMIT :limit",
            state
        ),
        (Some(state), true) => read!(
            "WHERE d.endpoint_id = :endpoint AND d.id > COALESCE(:after, '') AND d.state = :state
             ORDER BY d.id LIMIT :limit",
            state
        ),
    }
}

/// The deliveries of a task's event, including callbacks.
pub fn of_task(
    conn: &mut Conn<'_>,
    task: TaskId,
    account: AccountId,
) -> Result<Vec<Delivery>, StoreError> {
    sql!(
        select!("WHERE d.task_id = :task AND d.account_id = :account ORDER BY d.id"),
        task,
        account
    )
    .all(conn, Delivery::from_row)
}

/// The latest 50 attempts of a delivery, in order.
pub fn attempts(conn: &mut Conn<'_>, id: DeliveryId) -> Result<Vec<DeliveryAttempt>, StoreError> {
    let mut latest = sql!(
        concat!(
            "SELECT ",
            attempt_columns!(),
            " FROM webhook_attempts WHERE delivery_id = :id ORDER BY number DESC LIMIT 50"
        ),
        id
    )
    .all(conn, DeliveryAttempt::from_row)?;
    latest.reverse();
    Ok(latest)
}

/// Deletes up to `limit` deliveries that were delivered before `delivered_before`, up to `limit`
/// that failed and up to `limit` that were held before `failed_before`, with their attempts and the
/// events that have no other delivery. Returns how many.
pub fn forget(
    conn: &mut Conn<'_>,
    delivered_before: Timestamp,
    failed_before: Timestamp,
    limit: u32,
) -> Result<u64, StoreError> {
    let (mut delivery_ids, mut event_ids) = (Vec::new(), Vec::new());
    for (state, before) in [
        ("delivered", delivered_before),
        ("failed", failed_before),
        ("held", failed_before),
    ] {
        let rows = sql!(
            "SELECT id, event_id FROM webhook_deliveries WHERE state = :state AND ended_at IS NOT NULL
             AND ended_at < :before
             ORDER BY ended_at LIMIT :limit",
            state,
            before,
            limit
        )
        .all(conn, |row| Ok((row.field::<String>("id")?, row.field::<String>("event_id")?)))?;
        for (delivery, event) in rows {
            delivery_ids.push(delivery);
            event_ids.push(event);
        }
    }
    if delivery_ids.is_empty() {
        return Ok(0);
    }
    let (ids, event_ids) = (to_json(&delivery_ids)?, to_json(&event_ids)?);
    dialect_sql!(
        conn,
        "DELETE FROM webhook_attempts WHERE delivery_id IN (SELECT value FROM json_each(:ids))",
        "DELETE FROM webhook_attempts
         WHERE delivery_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(:ids AS TEXT) AS json))))",
        ids = &ids
    )
    .execute(conn)?;
    let deleted = dialect_sql!(
        conn,
        "DELETE FROM webhook_deliveries WHERE id IN (SELECT value FROM json_each(:ids))",
        "DELETE FROM webhook_deliveries
         WHERE id = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(:ids AS TEXT) AS json))))",
        ids = &ids
    )
    .execute(conn)?;
    dialect_sql!(
        conn,
        "DELETE FROM webhook_events WHERE id IN (SELECT value FROM json_each(:event_ids))
         AND NOT EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.event_id = webhook_events.id)",
        "DELETE FROM webhook_events
         WHERE id = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(:event_ids AS TEXT) AS json))))
         AND NOT EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.event_id = webhook_events.id)",
        event_ids = &event_ids
    )
    .execute(conn)?;
    Ok(deleted)
}
