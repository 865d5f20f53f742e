//! Endpoints of accounts, and the secrets with which callbacks are signed.

use crate::columns::{
    FieldValue, FromColumn, TableRecord as _, ToColumn, insert, record, saturated,
};
use crate::conn::to_json;
use crate::tasks::PageQuery;
use crate::{Conn, Row, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, EndpointId};
use mediagate_model::webhook::{DisableReason, EventType, WebhookEndpoint};

record! {
    columns for WebhookEndpoint of "webhook_endpoints" {
        id: "id",
        account: "account_id",
        key: "key_id",
        url: "url",
        description: "description",
        events: "events",
        scheme: "scheme",
        secrets: "secrets",
        enabled: "enabled",
        disabled_why: "disabled_why",
        failures: saturated("failures"),
        failing_since: "failing_since",
        created_at: "created_at",
    }
}

/// A JSON list of names.
impl FromColumn for Vec<EventType> {
    fn from_column(
        row: &Row<'_>,
        index: usize,
        column: &'static str,
    ) -> Result<Option<Self>, StoreError> {
        let names: Option<Vec<String>> = row.json_or_null(index, column)?;
        // Names that this version does not know are ignored: it never sends such events.
        let parse = |name: &String| name.parse().ok();
        Ok(names.map(|names| names.iter().filter_map(parse).collect()))
    }
}

impl ToColumn for Vec<EventType> {
    fn to_column(&self) -> Result<FieldValue<'_>, StoreError> {
        let names: Vec<&str> = self.iter().map(|event| event.name()).collect();
        to_json(&names).map(|names| FieldValue::Text(names.into()))
    }
}

pub fn insert(conn: &mut Conn<'_>, new: &WebhookEndpoint) -> Result<(), StoreError> {
    insert!(conn, "webhook_endpoints" {
        "id": new.id,
        "account_id": new.account,
        "url": new.url,
        "description": new.description,
        "events": new.events,
        "scheme": new.scheme,
        "secrets": new.secrets,
        "enabled": true,
        "created_at": new.created_at,
        "key_id": new.key,
    })?;
    Ok(())
}

/// The number of an account's endpoints.
pub fn count(conn: &mut Conn<'_>, account: AccountId) -> Result<i64, StoreError> {
    let count = conn.one(
        "SELECT COUNT(*) FROM webhook_endpoints WHERE account_id = ?1",
        &[(&account.to_string()).into()],
        |row| row.int(0),
    )?;
    Ok(count.unwrap_or(0))
}

pub fn by_id(
    conn: &mut Conn<'_>,
    id: EndpointId,
    account: AccountId,
) -> Result<Option<WebhookEndpoint>, StoreError> {
    conn.one(
        concat!(
            "SELECT ",
            columns!(),
            " FROM webhook_endpoints WHERE id = ?1 AND account_id = ?2"
        ),
        &[(&id.to_string()).into(), (&account.to_string()).into()],
        WebhookEndpoint::from_row,
    )
}

/// A page of the account's endpoints.
pub fn page(
    conn: &mut Conn<'_>,
    account: AccountId,
    page: PageQuery<EndpointId>,
) -> Result<Vec<WebhookEndpoint>, StoreError> {
    let sql = if page.ascending {
        concat!(
            "SELECT ",
            columns!(),
            " FROM webhook_endpoints WHERE account_id = ?1 AND id > COALESCE(?2, '') ORDER BY id LIMIT ?3"
        )
    } else {
        concat!(
            "SELECT ",
            columns!(),
            " FROM webhook_endpoints WHERE account_id = ?1 AND id < COALESCE(?2, 'g') ORDER BY id DESC LIMIT ?3"
        )
    };
    let after = page.after.map(|id| id.to_string());
    conn.all(
        sql,
        &[
            (&account.to_string()).into(),
            after.as_ref().into(),
            i64::from(page.limit).into(),
        ],
        WebhookEndpoint::from_row,
    )
}

/// All endpoints of an account.
pub fn of_account(
    conn: &mut Conn<'_>,
    account: AccountId,
) -> Result<Vec<WebhookEndpoint>, StoreError> {
    conn.all(
        concat!(
            "SELECT ",
            columns!(),
            " FROM webhook_endpoints WHERE account_id = ?1 ORDER BY id"
        ),
        &[(&account.to_string()).into()],
        WebhookEndpoint::from_row,
    )
}

/// All endpoints, for the operator.
pub fn all(conn: &mut Conn<'_>) -> Result<Vec<WebhookEndpoint>, StoreError> {
    conn.all(
        concat!("SELECT ", columns!(), " FROM webhook_endpoints ORDER BY id"),
        &[],
        WebhookEndpoint::from_row,
    )
}

/// Changes the fields that the owner may change. Enabling an endpoint resets its count of failures.
pub fn update(conn: &mut Conn<'_>, endpoint: &WebhookEndpoint) -> Result<(), StoreError> {
    let (events, key) = (endpoint.events.to_column()?, endpoint.key.to_column()?);
    conn.execute(
        "UPDATE webhook_endpoints SET url = ?2, description = ?3, events = ?4, enabled = ?5, disabled_why = ?6, key_id = ?7,
                failures = CASE WHEN CAST(?5 AS BIGINT) = 1 AND enabled = 0 THEN 0 ELSE failures END,
                failing_since = CASE WHEN CAST(?5 AS BIGINT) = 1 AND enabled = 0 THEN NULL ELSE failing_since END
         WHERE id = ?1",
        &[
            (&endpoint.id.to_string()).into(),
            (&endpoint.url).into(),
            (&endpoint.description).into(),
            (&events).into(),
            endpoint.enabled.into(),
            endpoint.disabled_why.map(DisableReason::name).into(),
            (&key).into(),
        ],
    )?;
    Ok(())
}

pub fn set_secrets(conn: &mut Conn<'_>, id: EndpointId, secrets: &str) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE webhook_endpoints SET secrets = ?2 WHERE id = ?1",
        &[(&id.to_string()).into(), secrets.into()],
    )?;
    Ok(())
}

pub fn delete(conn: &mut Conn<'_>, id: EndpointId) -> Result<(), StoreError> {
    conn.execute(
        "DELETE FROM webhook_endpoints WHERE id = ?1",
        &[(&id.to_string()).into()],
    )?;
    Ok(())
}

/// Records a successful attempt: earlier failures no longer count.
pub fn note_success(conn: &mut Conn<'_>, id: EndpointId) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE webhook_endpoints SET failures = 0, failing_since = NULL WHERE id = ?1 AND failures > 0",
        &[(&id.to_string()).into()],
    )?;
    Ok(())
}

/// Records a failed attempt. Returns the updated endpoint, unless it has been deleted.
pub fn note_failure(
    conn: &mut Conn<'_>,
    id: EndpointId,
    at: Timestamp,
) -> Result<Option<WebhookEndpoint>, StoreError> {
    conn.one(
        concat!(
            "UPDATE webhook_endpoints SET failures = failures + 1, failing_since = COALESCE(failing_since, ?2)
             WHERE id = ?1 RETURNING ",
            columns!()
        ),
        &[(&id.to_string()).into(), at.micros().into()],
        WebhookEndpoint::from_row,
    )
}

/// Disables an endpoint. Returns false if it was disabled before.
pub fn disable(
    conn: &mut Conn<'_>,
    id: EndpointId,
    reason: DisableReason,
) -> Result<bool, StoreError> {
    let changed = conn.execute(
        "UPDATE webhook_endpoints SET enabled = 0, disabled_why = ?2 WHERE id = ?1 AND enabled = 1",
        &[(&id.to_string()).into(), reason.name().into()],
    )?;
    Ok(changed == 1)
}

/// The keys that an account's callbacks are signed with, encrypted.
pub fn account_secrets(
    conn: &mut Conn<'_>,
    account: AccountId,
) -> Result<Option<String>, StoreError> {
    conn.one(
        "SELECT secrets FROM webhook_secrets WHERE account_id = ?1",
        &[(&account.to_string()).into()],
        |row| row.text(0),
    )
}

/// Sets these keys for an account that has none. Returns the account's keys.
pub fn first_account_secrets(
    conn: &mut Conn<'_>,
    account: AccountId,
    fresh: &str,
) -> Result<Option<String>, StoreError> {
    // Inserted and read back, so that processes that do this at the same time use the same keys.
    conn.execute(
        "INSERT INTO webhook_secrets (account_id, secrets) VALUES (?1, ?2) ON CONFLICT (account_id) DO NOTHING",
        &[(&account.to_string()).into(), fresh.into()],
    )?;
    account_secrets(conn, account)
}

pub fn set_account_secrets(
    conn: &mut Conn<'_>,
    account: AccountId,
    secrets: &str,
) -> Result<(), StoreError> {
    conn.execute(
        "INSERT INTO webhook_secrets (account_id, secrets) VALUES (?1, ?2)
         ON CONFLICT (account_id) DO UPDATE SET secrets = excluded.secrets",
        &[(&account.to_string()).into(), secrets.into()],
    )?;
    Ok(())
}
