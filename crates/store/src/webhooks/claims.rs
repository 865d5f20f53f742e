//! Claims of due deliveries, with everything that an attempt needs.

use std::collections::HashMap;

use crate::columns::{TableRecord as _, record, saturated};
use crate::conn::to_json;
use crate::keys::key_by_id;
use crate::statement::{dialect_sql, sql};
use crate::{Conn, StoreError};
use mediagate_model::account::ApiKey;
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, DeliveryId, KeyId};
use mediagate_model::webhook::{DeliveryClearance, DueDelivery, SignatureScheme};

/// A delivery that could be claimed.
#[derive(Debug)]
pub struct DeliveryCandidate {
    pub id: DeliveryId,
    pub account: AccountId,
    pub lane: String,
}

/// Which lanes have room for more deliveries, and which accounts have none.
#[derive(Clone)]
pub struct SendCapacity {
    pub lanes: LanesWithRoom,
    pub full_accounts: Vec<AccountId>,
}

#[derive(Clone)]
pub enum LanesWithRoom {
    AllBut(Vec<String>),
    Only(Vec<String>),
}

record! {
    candidate_columns for DeliveryCandidate of "webhook_deliveries" {
        id: "id",
        account: "account_id",
        lane: "lane",
    }
}

/// The statement that selects due deliveries whose lanes are, or are not, in the list.
macro_rules! due {
    ($is_in:literal; sqlite) => {
        concat!(
            "SELECT ", candidate_columns!(), " FROM webhook_deliveries
             WHERE state = 'waiting' AND lease_owner IS NULL AND due_at <= :now AND lane ",
            $is_in,
            " (SELECT value FROM json_each(:lanes)) AND account_id NOT IN (SELECT value FROM json_each(:full_accounts))
             ORDER BY due_at, id LIMIT :limit"
        )
    };
    ($is_in:literal; postgres) => {
        concat!(
            "SELECT ", candidate_columns!(), " FROM webhook_deliveries
             WHERE state = 'waiting' AND lease_owner IS NULL AND due_at <= :now AND lane ",
            $is_in,
            " (ARRAY(SELECT json_array_elements_text(CAST(CAST(:lanes AS TEXT) AS json))))
             AND account_id <> ALL (ARRAY(SELECT json_array_elements_text(CAST(CAST(:full_accounts AS TEXT) AS json))))
             ORDER BY due_at, id LIMIT :limit"
        )
    };
}

/// Up to `limit` deliveries that are due and within their limits, the longest due first.
pub fn candidates(
    conn: &mut Conn<'_>,
    capacity: &SendCapacity,
    limit: u32,
    now: Timestamp,
) -> Result<Vec<DeliveryCandidate>, StoreError> {
    let full_accounts = capacity.full_accounts.iter().map(ToString::to_string);
    let full_accounts = to_json(&full_accounts.collect::<Vec<_>>())?;
    macro_rules! candidates {
        ($lanes:expr, $sqlite:literal, $postgres:literal) => {
            dialect_sql!(
                conn,
                due!($sqlite; sqlite),
                due!($postgres; postgres),
                now,
                lanes = to_json($lanes)?,
                full_accounts,
                limit,
            )
        };
    }
    let statement = match &capacity.lanes {
        LanesWithRoom::AllBut(full) => candidates!(full, "NOT IN", "<> ALL"),
        LanesWithRoom::Only(free) => candidates!(free, "IN", "= ANY"),
    };
    statement.all(conn, DeliveryCandidate::from_row)
}

/// Frees deliveries that are claimed by `owner` but not among `deliveries`: the answer to their
/// claim was lost.
pub fn free_others(
    conn: &mut Conn<'_>,
    owner: &str,
    deliveries: &[DeliveryId],
) -> Result<u64, StoreError> {
    let ids = to_json(
        &deliveries
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
    )?;
    dialect_sql!(
        conn,
        "UPDATE webhook_deliveries SET lease_owner = NULL
         WHERE lease_owner = :owner AND id NOT IN (SELECT value FROM json_each(:ids))",
        "UPDATE webhook_deliveries SET lease_owner = NULL WHERE lease_owner = :owner
         AND id <> ALL (ARRAY(SELECT json_array_elements_text(CAST(CAST(:ids AS TEXT) AS json))))",
        owner,
        ids = &ids
    )
    .execute(conn)
}

record! {
    due_columns for DueDelivery of "webhook_deliveries" {
        id: "d.id",
        account: "d.account_id",
        endpoint: "d.endpoint_id",
        event: "d.event_id",
        // Empty if the endpoint was deleted meanwhile. Then nothing is sent.
        url: Option::unwrap_or_default("COALESCE(d.url, p.url)"),
        body: "COALESCE(d.body, e.body)",
        scheme: scheme("p.scheme"),
        secrets: "CASE WHEN d.endpoint_id IS NULL THEN s.secrets ELSE p.secrets END",
        lane: "d.lane",
        attempts: saturated("d.attempts"),
        earlier_attempts: saturated("d.tried_before"),
        due_at: "d.due_at",
        trace: "t.trace",
    }
}

fn scheme(of_endpoint: Option<SignatureScheme>) -> SignatureScheme {
    of_endpoint.unwrap_or(SignatureScheme::Hmac)
}

/// A claimed delivery, and the facts that determine whether it is sent.
struct DeliveryClaim {
    due: DueDelivery,
    /// The key of its endpoint.
    key: Option<KeyId>,
    /// The task that the delivery is about.
    task: Option<String>,
}

record! {
    claim_columns for DeliveryClaim of "webhook_deliveries" {
        due: ..due_columns!(),
        key: "p.key_id",
        task: "d.task_id",
    }
}

macro_rules! claims {
    ($which:literal) => {
        concat!(
            "SELECT ",
            claim_columns!(),
            " FROM webhook_deliveries d JOIN webhook_events e ON e.id = d.event_id
             LEFT JOIN webhook_endpoints p ON p.id = d.endpoint_id
             LEFT JOIN webhook_secrets s ON s.account_id = d.account_id
             LEFT JOIN tasks t ON t.id = d.task_id
             WHERE d.id ",
            $which
        )
    };
}

/// Claims those of these deliveries that no other process has claimed. Returns them with everything
/// that an attempt needs. If the endpoint's key may not see what the delivery reports, the delivery
/// is held instead.
pub fn claim(
    conn: &mut Conn<'_>,
    owner: &str,
    deliveries: &[DeliveryId],
    now: Timestamp,
) -> Result<Vec<DueDelivery>, StoreError> {
    let ids = to_json(
        &deliveries
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
    )?;
    // In `SQLite` RETURNING can only read the table that is changed, so the rest is read
    // afterwards.
    let claimed_ids = dialect_sql!(
        conn,
        "UPDATE webhook_deliveries SET lease_owner = :owner
         WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'waiting' AND lease_owner IS NULL RETURNING id",
        "UPDATE webhook_deliveries SET lease_owner = :owner
         WHERE id IN (SELECT id FROM webhook_deliveries
                      WHERE id = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(:ids AS TEXT) AS json))))
                      AND state = 'waiting' AND lease_owner IS NULL FOR UPDATE SKIP LOCKED) RETURNING id",
        owner,
        ids = &ids
    )
    .values::<String>(conn)?;
    let claimed_ids = to_json(&claimed_ids)?;
    let claims = dialect_sql!(
        conn,
        claims!("IN (SELECT value FROM json_each(:claimed_ids))"),
        claims!("= ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(:claimed_ids AS TEXT) AS json))))"),
        claimed_ids = &claimed_ids
    )
    .all(conn, DeliveryClaim::from_row)?;
    let mut claimed = hold_withheld(conn, claims, now)?;
    // The statement returns them in any order.
    claimed.sort_by_key(|due| (due.due_at, due.id));
    Ok(claimed)
}

/// Keeps the deliveries that may be sent, judging by the key of their endpoint and whether they are
/// about a task; holds the others.
fn hold_withheld(
    conn: &mut Conn<'_>,
    claims: Vec<DeliveryClaim>,
    now: Timestamp,
) -> Result<Vec<DueDelivery>, StoreError> {
    let mut keys: HashMap<KeyId, Option<ApiKey>> = HashMap::new();
    let mut cleared = Vec::with_capacity(claims.len());
    for DeliveryClaim { due, key, task } in claims {
        if let Some(id) = key
            && !keys.contains_key(&id)
        {
            keys.insert(id, key_by_id(conn, id)?);
        }
        let key = key.and_then(|id| keys.get(&id)?.as_ref());
        // The key may have been revoked or restricted since the event was written.
        match DeliveryClearance::for_key(key, task.is_some(), now) {
            DeliveryClearance::Granted => cleared.push(due),
            DeliveryClearance::Withheld => {
                sql!(
                    "UPDATE webhook_deliveries SET state = 'held', lease_owner = NULL, ended_at = :now WHERE id = :id",
                    id = due.id,
                    now
                )
                .execute(conn)?;
            }
        }
    }
    Ok(cleared)
}
