//! The delivery log: lists of deliveries and attempts, and the removal of old ones.

use crate::columns::{TableRecord as _, record, saturated};
use crate::conn::to_json;
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
    conn.one(
        select!("WHERE d.id = ?1 AND d.account_id = ?2"),
        &[(&id.to_string()).into(), (&account.to_string()).into()],
        Delivery::from_row,
    )
}

/// The account that a delivery belongs to.
pub fn account_of(conn: &mut Conn<'_>, id: DeliveryId) -> Result<Option<AccountId>, StoreError> {
    conn.one(
        "SELECT account_id FROM webhook_deliveries WHERE id = ?1",
        &[(&id.to_string()).into()],
        |row| row.parse(0, "webhook_deliveries.account_id"),
    )
}

/// A page of an endpoint's deliveries, the newest first.
pub fn of_endpoint(
    conn: &mut Conn<'_>,
    endpoint: EndpointId,
    state: Option<DeliveryState>,
    page: PageQuery<DeliveryId>,
) -> Result<Vec<Delivery>, StoreError> {
    let (endpoint, after) = (endpoint.to_string(), page.after.map(|id| id.to_string()));
    let limit = i64::from(page.limit);
    let mut values = vec![(&endpoint).into(), after.as_ref().into(), limit.into()];
    let sql = match (state, page.ascending) {
        (None, false) => {
            select!(
                "WHERE d.endpoint_id = ?1 AND d.id < COALESCE(?2, 'g') ORDER BY d.id DESC LIMIT ?3"
            )
        }
        (None, true) => {
            select!("WHERE d.endpoint_id = ?1 AND d.id > COALESCE(?2, '') ORDER BY d.id LIMIT ?3")
        }
        (Some(_), false) => {
            select!(
                "WHERE d.endpoint_id = ?1 AND d.id < COALESCE(?2, 'g') AND d.state = ?4 ORDER BY d.id DESC LIMIT ?3"
            )
        }
        (Some(_), true) => {
            select!(
                "WHERE d.endpoint_id = ?1 AND d.id > COALESCE(?2, '') AND d.state = ?4 ORDER BY d.id LIMIT ?3"
            )
        }
    };
    if let Some(state) = state {
        values.push(state.name().into());
    }
    conn.all(sql, &values, Delivery::from_row)
}

/// The deliveries of a task's event, including callbacks.
pub fn of_task(
    conn: &mut Conn<'_>,
    task: TaskId,
    account: AccountId,
) -> Result<Vec<Delivery>, StoreError> {
    conn.all(
        select!("WHERE d.task_id = ?1 AND d.account_id = ?2 ORDER BY d.id"),
        &[(&task.to_string()).into(), (&account.to_string()).into()],
        Delivery::from_row,
    )
}

/// The latest 50 attempts of a delivery, in order.
pub fn attempts(conn: &mut Conn<'_>, id: DeliveryId) -> Result<Vec<DeliveryAttempt>, StoreError> {
    let mut latest = conn.all(
        concat!(
            "SELECT ",
            attempt_columns!(),
            " FROM webhook_attempts WHERE delivery_id = ?1 ORDER BY number DESC LIMIT 50"
        ),
        &[(&id.to_string()).into()],
        DeliveryAttempt::from_row,
    )?;
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
        let rows = conn.all(
            "SELECT id, event_id FROM webhook_deliveries WHERE state = ?1 AND ended_at IS NOT NULL AND ended_at < ?2
             ORDER BY ended_at LIMIT ?3",
            &[state.into(), before.micros().into(), i64::from(limit).into()],
            |row| Ok((row.text(0)?, row.text(1)?)),
        )?;
        for (delivery, event) in rows {
            delivery_ids.push(delivery);
            event_ids.push(event);
        }
    }
    if delivery_ids.is_empty() {
        return Ok(0);
    }
    let (ids, event_ids) = (to_json(&delivery_ids)?, to_json(&event_ids)?);
    let delete_attempts = conn.dialect(
        "DELETE FROM webhook_attempts WHERE delivery_id IN (SELECT value FROM json_each(?1))",
        "DELETE FROM webhook_attempts
         WHERE delivery_id = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(?1 AS TEXT) AS json))))",
    );
    conn.execute(delete_attempts, &[(&ids).into()])?;
    let delete_deliveries = conn.dialect(
        "DELETE FROM webhook_deliveries WHERE id IN (SELECT value FROM json_each(?1))",
        "DELETE FROM webhook_deliveries
         WHERE id = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(?1 AS TEXT) AS json))))",
    );
    let deleted = conn.execute(delete_deliveries, &[(&ids).into()])?;
    let delete_events = conn.dialect(
        "DELETE FROM webhook_events WHERE id IN (SELECT value FROM json_each(?1))
         AND NOT EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.event_id = webhook_events.id)",
        "DELETE FROM webhook_events
         WHERE id = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(?1 AS TEXT) AS json))))
         AND NOT EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.event_id = webhook_events.id)",
    );
    conn.execute(delete_events, &[(&event_ids).into()])?;
    Ok(deleted)
}
