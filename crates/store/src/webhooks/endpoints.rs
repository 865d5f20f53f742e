//! Endpoints of accounts, and the secrets with which callbacks are signed.

use crate::columns::{TableRecord as _, ToColumn, insert, json_value, record, saturated};
use crate::conn::FromColumn;
use crate::statement::sql;
use crate::tasks::PageQuery;
use crate::{Conn, Row, SqlValue, StoreError};
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
    fn to_column(&self) -> SqlValue<'_> {
        let names: Vec<&str> = self.iter().map(|event| event.name()).collect();
        json_value(&names)
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
    let count = sql!(
        "SELECT COUNT(*) FROM webhook_endpoints WHERE account_id = :account",
        account
    )
    .value::<i64>(conn)?;
    Ok(count.unwrap_or(0))
}

pub fn by_id(
    conn: &mut Conn<'_>,
    id: EndpointId,
    account: AccountId,
) -> Result<Option<WebhookEndpoint>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            columns!(),
            " FROM webhook_endpoints WHERE id = :id AND account_id = :account"
        ),
        id,
        account
    )
    .one(conn, WebhookEndpoint::from_row)
}

/// A page of the account's endpoints.
pub fn page(
    conn: &mut Conn<'_>,
    account: AccountId,
    page: PageQuery<EndpointId>,
) -> Result<Vec<WebhookEndpoint>, StoreError> {
    let PageQuery { after, limit, .. } = page;
    macro_rules! endpoints {
        ($position:literal) => {
            sql!(
                concat!(
                    "SELECT ",
                    columns!(),
                    " FROM webhook_endpoints WHERE account_id = :account AND ",
                    $position,
                    " LIMIT :limit"
                ),
                account,
                after,
                limit
            )
        };
    }
    let statement = if page.ascending {
        endpoints!("id > COALESCE(:after, '') ORDER BY id")
    } else {
        endpoints!("id < COALESCE(:after, 'g') ORDER BY id DESC")
    };
    statement.all(conn, WebhookEndpoint::from_row)
}

/// All endpoints of an account.
pub fn of_account(
    conn: &mut Conn<'_>,
    account: AccountId,
) -> Result<Vec<WebhookEndpoint>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            columns!(),
            " FROM webhook_endpoints WHERE account_id = :account ORDER BY id"
        ),
        account
    )
    .all(conn, WebhookEndpoint::from_row)
}

/// All endpoints, for the operator.
pub fn all(conn: &mut Conn<'_>) -> Result<Vec<WebhookEndpoint>, StoreError> {
    sql!(concat!(
        "SELECT ",
        columns!(),
        " FROM webhook_endpoints ORDER BY id"
    ))
    .all(conn, WebhookEndpoint::from_row)
}

/// Changes the fields that the owner may change. Enabling an endpoint resets its count of failures.
pub fn update(conn: &mut Conn<'_>, endpoint: &WebhookEndpoint) -> Result<(), StoreError> {
    sql!(
        "UPDATE webhook_endpoints SET url = :url, description = :description, events = :events, enabled = :enabled,
         disabled_why = :disabled_why, key_id = :key,
                failures = CASE WHEN CAST(:enabled AS BIGINT) = 1 AND enabled = 0 THEN 0 ELSE failures END,
                failing_since = CASE WHEN CAST(:enabled AS BIGINT) = 1 AND enabled = 0 THEN NULL ELSE failing_since END
         WHERE id = :id",
        id = endpoint.id,
        url = &endpoint.url,
        description = &endpoint.description,
        events = &endpoint.events,
        enabled = endpoint.enabled,
        disabled_why = endpoint.disabled_why,
        key = endpoint.key
    )
    .execute(conn)?;
    Ok(())
}

pub fn set_secrets(conn: &mut Conn<'_>, id: EndpointId, secrets: &str) -> Result<(), StoreError> {
    sql!(
        "UPDATE webhook_endpoints SET secrets = :secrets WHERE id = :id",
        id,
        secrets
    )
    .execute(conn)?;
    Ok(())
}

pub fn delete(conn: &mut Conn<'_>, id: EndpointId) -> Result<(), StoreError> {
    sql!("DELETE FROM webhook_endpoints WHERE id = :id", id).execute(conn)?;
    Ok(())
}

/// Records a successful attempt: earlier failures no longer count.
pub fn note_success(conn: &mut Conn<'_>, id: EndpointId) -> Result<(), StoreError> {
    sql!(
        "UPDATE webhook_endpoints SET failures = 0, failing_since = NULL WHERE id = :id AND failures > 0",
        id
    )
    .execute(conn)?;
    Ok(())
}

/// Records a failed attempt. Returns the updated endpoint, unless it has been deleted.
pub fn note_failure(
    conn: &mut Conn<'_>,
    id: EndpointId,
    at: Timestamp,
) -> Result<Option<WebhookEndpoint>, StoreError> {
    sql!(
        concat!(
            "UPDATE webhook_endpoints SET failures = failures + 1, failing_since = COALESCE(failing_since, :at)
             WHERE id = :id RETURNING ",
            columns!()
        ),
        id,
        at
    )
    .one(conn, WebhookEndpoint::from_row)
}

/// Disables an endpoint. Returns false if it was disabled before.
pub fn disable(
    conn: &mut Conn<'_>,
    id: EndpointId,
    reason: DisableReason,
) -> Result<bool, StoreError> {
    let changed = sql!(
        "UPDATE webhook_endpoints SET enabled = 0, disabled_why = :reason WHERE id = :id AND enabled = 1",
        id,
        reason
    )
    .execute(conn)?;
    Ok(changed == 1)
}

/// The keys that an account's callbacks are signed with, encrypted.
pub fn account_secrets(
    conn: &mut Conn<'_>,
    account: AccountId,
) -> Result<Option<String>, StoreError> {
    sql!(
        "SELECT secrets FROM webhook_secrets WHERE account_id = :account",
        account
    )
    .value::<String>(conn)
}

/// Sets these keys for an account that has none. Returns the account's keys.
pub fn first_account_secrets(
    conn: &mut Conn<'_>,
    account: AccountId,
    fresh: &str,
) -> Result<Option<String>, StoreError> {
    // Inserted and read back, so that processes that do this at the same time use the same keys.
    sql!(
        "INSERT INTO webhook_secrets (account_id, secrets) VALUES (:account, :fresh)
         ON CONFLICT (account_id) DO NOTHING",
        account,
        fresh
    )
    .execute(conn)?;
    account_secrets(conn, account)
}

pub fn set_account_secrets(
    conn: &mut Conn<'_>,
    account: AccountId,
    secrets: &str,
) -> Result<(), StoreError> {
    sql!(
        "INSERT INTO webhook_secrets (account_id, secrets) VALUES (:account, :secrets)
         ON CONFLICT (account_id) DO UPDATE SET secrets = excluded.secrets",
        account,
        secrets
    )
    .execute(conn)?;
    Ok(())
}
