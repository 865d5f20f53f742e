//! URLs of callbacks that earlier versions wrote without encrypting them.

use crate::columns::{TableRecord as _, record};
use crate::statement::sql;
use crate::{Conn, StoreError};
use mediagate_model::ids::{AccountId, DeliveryId, EventId, TaskId};

/// A task with such a URL.
#[derive(Debug)]
pub struct PlainTask {
    pub id: TaskId,
    pub account: AccountId,
    pub url: String,
}

/// A callback's delivery with such a URL, and the bodies that contain it.
#[derive(Debug)]
pub struct PlainDelivery {
    pub id: DeliveryId,
    pub account: AccountId,
    pub url: String,
    pub body: Option<String>,
    pub event: EventId,
    pub event_body: String,
}

record! {
    task_columns for PlainTask of "tasks" {
        id: "id",
        account: "account_id",
        url: "callback",
    }
}

record! {
    delivery_columns for PlainDelivery of "webhook_deliveries" {
        id: "d.id",
        account: "d.account_id",
        url: "d.url",
        body: "d.body",
        event: "d.event_id",
        event_body: "e.body",
    }
}

/// Up to `limit` tasks with such a URL.
pub fn tasks(conn: &mut Conn<'_>, limit: u32) -> Result<Vec<PlainTask>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            task_columns!(),
            " FROM tasks WHERE callback LIKE '%:%' ORDER BY id LIMIT :limit"
        ),
        limit
    )
    .all(conn, PlainTask::from_row)
}

/// Replaces a task's URL by the encrypted one.
pub fn set_of_task(conn: &mut Conn<'_>, id: TaskId, url: &str) -> Result<(), StoreError> {
    sql!("UPDATE tasks SET callback = :url WHERE id = :id", id, url).execute(conn)?;
    Ok(())
}

/// Up to `limit` callbacks' deliveries with such a URL.
pub fn deliveries(conn: &mut Conn<'_>, limit: u32) -> Result<Vec<PlainDelivery>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            delivery_columns!(),
            " FROM webhook_deliveries d JOIN webhook_events e ON e.id = d.event_id
             WHERE d.endpoint_id IS NULL AND d.url LIKE '%:%' ORDER BY d.id LIMIT :limit"
        ),
        limit
    )
    .all(conn, PlainDelivery::from_row)
}

/// Replaces a delivery's URL and body by the encrypted ones.
pub fn set_of_delivery(
    conn: &mut Conn<'_>,
    id: DeliveryId,
    url: &str,
    body: Option<&str>,
) -> Result<(), StoreError> {
    sql!(
        "UPDATE webhook_deliveries SET url = :url, body = :body WHERE id = :id",
        id,
        url,
        body
    )
    .execute(conn)?;
    Ok(())
}

/// Replaces an event's body by the encrypted one.
pub fn set_event_body(conn: &mut Conn<'_>, id: EventId, body: &str) -> Result<(), StoreError> {
    sql!(
        "UPDATE webhook_events SET body = :body WHERE id = :id",
        id,
        body
    )
    .execute(conn)?;
    Ok(())
}
