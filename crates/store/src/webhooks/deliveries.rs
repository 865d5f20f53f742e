//! Events and their deliveries. A delivery changes by compare-and-set: who tries it holds it under
//! its process's lease, as tasks are held (`store/workers.rs`).

use std::collections::HashMap;

use crate::conn::to_json;
use crate::keys::key_by_id;
use crate::{Conn, Row, StoreError};
use mediagate_model::account::ApiKey;
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, DeliveryId, EndpointId, KeyId};
use mediagate_model::webhook::{
    Attempt, AttemptError, Clearance, DeliveryState, Due, Event, Receiver, Scheme,
};

/// Writes an event down. Returns false if its task has one already.
pub fn insert_event(conn: &mut Conn<'_>, event: &Event) -> Result<bool, StoreError> {
    let task = event.task.map(|task| task.to_string());
    let inserted = conn.execute(
        "INSERT INTO webhook_events (id, account_id, task_id, type, body, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (task_id) DO NOTHING",
        &[
            (&event.id.to_string()).into(),
            (&event.account.to_string()).into(),
            task.as_ref().into(),
            event.kind.name().into(),
            (&event.body).into(),
            event.created_at.micros().into(),
        ],
    )?;
    Ok(inserted == 1)
}

/// A delivery to write down, due at once unless it is held.
pub struct NewDelivery<'a> {
    pub id: DeliveryId,
    pub event: &'a Event,
    pub to: &'a Receiver,
    /// What shares its limit of requests in flight.
    pub lane: &'a str,
    /// Instead of the event's.
    pub body: Option<&'a str>,
    pub state: DeliveryState,
}

pub fn insert(conn: &mut Conn<'_>, new: &NewDelivery<'_>) -> Result<(), StoreError> {
    let event = new.event;
    let (endpoint, url) = match new.to {
        Receiver::Endpoint(id) => (Some(id.to_string()), None),
        Receiver::Callback(url) => (None, Some(url)),
    };
    let task = event.task.map(|task| task.to_string());
    conn.execute(
        "INSERT INTO webhook_deliveries (id, account_id, event_id, endpoint_id, url, body, task_id, lane, state, due_at,
                                         created_at, ended_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10, ?11) ON CONFLICT (event_id, lane) DO NOTHING",
        &[
            (&new.id.to_string()).into(),
            (&event.account.to_string()).into(),
            (&event.id.to_string()).into(),
            endpoint.as_ref().into(),
            url.into(),
            new.body.into(),
            task.as_ref().into(),
            new.lane.into(),
            new.state.name().into(),
            event.created_at.micros().into(),
            (new.state != DeliveryState::Waiting)
                .then(|| event.created_at.micros())
                .into(),
        ],
    )?;
    Ok(())
}

/// A delivery that could be claimed.
#[derive(Debug)]
pub struct Candidate {
    pub id: DeliveryId,
    pub account: AccountId,
    pub lane: String,
}

/// Where more can be sent.
#[derive(Clone)]
pub struct Room {
    pub lanes: LanesWithRoom,
    pub full_accounts: Vec<AccountId>,
}

#[derive(Clone)]
pub enum LanesWithRoom {
    AllBut(Vec<String>),
    Only(Vec<String>),
}

/// The statement for lanes that are, or are not, in the list.
macro_rules! due {
    ($is_in:literal; sqlite) => {
        concat!(
            "SELECT id, account_id, lane FROM webhook_deliveries
             WHERE state = 'waiting' AND lease_owner IS NULL AND due_at <= ?1 AND lane ",
            $is_in,
            " (SELECT value FROM json_each(?2)) AND account_id NOT IN (SELECT value FROM json_each(?3))
             ORDER BY due_at, id LIMIT ?4"
        )
    };
    ($is_in:literal; postgres) => {
        concat!(
            "SELECT id, account_id, lane FROM webhook_deliveries
             WHERE state = 'waiting' AND lease_owner IS NULL AND due_at <= ?1 AND lane ",
            $is_in,
            " (ARRAY(SELECT json_array_elements_text(CAST(CAST(?2 AS TEXT) AS json))))
             AND account_id <> ALL (ARRAY(SELECT json_array_elements_text(CAST(CAST(?3 AS TEXT) AS json))))
             ORDER BY due_at, id LIMIT ?4"
        )
    };
}

/// Up to `most` deliveries that are due and have room, the longest due first.
pub fn candidates(
    conn: &mut Conn<'_>,
    room: &Room,
    most: u32,
    now: Timestamp,
) -> Result<Vec<Candidate>, StoreError> {
    let (sql, lanes) = match &room.lanes {
        LanesWithRoom::AllBut(full) => (
            conn.dialect(due!("NOT IN"; sqlite), due!("<> ALL"; postgres)),
            full,
        ),
        LanesWithRoom::Only(free) => (
            conn.dialect(due!("IN"; sqlite), due!("= ANY"; postgres)),
            free,
        ),
    };
    let full = room.full_accounts.iter().map(ToString::to_string);
    let (lanes, full) = (to_json(lanes)?, to_json(&full.collect::<Vec<_>>())?);
    let values = [
        now.micros().into(),
        (&lanes).into(),
        (&full).into(),
        i64::from(most).into(),
    ];
    conn.all(sql, &values, candidate)
}

fn candidate(row: &Row<'_>) -> Result<Candidate, StoreError> {
    Ok(Candidate {
        id: row.parse(0, "webhook_deliveries.id")?,
        account: row.parse(1, "webhook_deliveries.account_id")?,
        lane: row.text(2)?,
    })
}

/// Frees what is claimed by `owner` but is none of these: the answer to its claim was lost.
pub fn free_others(
    conn: &mut Conn<'_>,
    owner: &str,
    these: &[DeliveryId],
) -> Result<u64, StoreError> {
    let ids = to_json(&these.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let sql = conn.dialect(
        "UPDATE webhook_deliveries SET lease_owner = NULL
         WHERE lease_owner = ?1 AND id NOT IN (SELECT value FROM json_each(?2))",
        "UPDATE webhook_deliveries SET lease_owner = NULL WHERE lease_owner = ?1
         AND id <> ALL (ARRAY(SELECT json_array_elements_text(CAST(CAST(?2 AS TEXT) AS json))))",
    );
    conn.execute(sql, &[owner.into(), (&ids).into()])
}

/// Claims those of these deliveries that nobody else has claimed, with all that it takes to try them.
/// One whose endpoint's key may not see what it tells of, or not any more, is held instead.
pub fn claim(
    conn: &mut Conn<'_>,
    owner: &str,
    these: &[DeliveryId],
    now: Timestamp,
) -> Result<Vec<Due>, StoreError> {
    let ids = to_json(&these.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let take = conn.dialect(
        "UPDATE webhook_deliveries SET lease_owner = ?1
         WHERE id IN (SELECT value FROM json_each(?2)) AND state = 'waiting' AND lease_owner IS NULL RETURNING id",
        "UPDATE webhook_deliveries SET lease_owner = ?1
         WHERE id IN (SELECT id FROM webhook_deliveries
                      WHERE id = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(?2 AS TEXT) AS json))))
                      AND state = 'waiting' AND lease_owner IS NULL FOR UPDATE SKIP LOCKED) RETURNING id",
    );
    let taken = conn.all(take, &[owner.into(), (&ids).into()], |row| row.text(0))?;
    let taken = to_json(&taken)?;
    let read = conn.dialect(
        "SELECT d.id, d.account_id, d.endpoint_id, d.event_id, COALESCE(d.url, p.url), COALESCE(d.body, e.body),
                p.scheme, CASE WHEN d.endpoint_id IS NULL THEN s.secrets ELSE p.secrets END, d.lane, d.attempts,
                d.tried_before, d.due_at, t.trace, p.key_id, d.task_id
         FROM webhook_deliveries d JOIN webhook_events e ON e.id = d.event_id
         LEFT JOIN webhook_endpoints p ON p.id = d.endpoint_id
         LEFT JOIN webhook_secrets s ON s.account_id = d.account_id
         LEFT JOIN tasks t ON t.id = d.task_id
         WHERE d.id IN (SELECT value FROM json_each(?1))",
        "SELECT d.id, d.account_id, d.endpoint_id, d.event_id, COALESCE(d.url, p.url), COALESCE(d.body, e.body),
                p.scheme, CASE WHEN d.endpoint_id IS NULL THEN s.secrets ELSE p.secrets END, d.lane, d.attempts,
                d.tried_before, d.due_at, t.trace, p.key_id, d.task_id
         FROM webhook_deliveries d JOIN webhook_events e ON e.id = d.event_id
         LEFT JOIN webhook_endpoints p ON p.id = d.endpoint_id
         LEFT JOIN webhook_secrets s ON s.account_id = d.account_id
         LEFT JOIN tasks t ON t.id = d.task_id
         WHERE d.id = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(?1 AS TEXT) AS json))))",
    );
    let claimed = conn.all(read, &[(&taken).into()], |row| {
        let due = Due {
            id: row.parse(0, "webhook_deliveries.id")?,
            account: row.parse(1, "webhook_deliveries.account_id")?,
            endpoint: row.parse_or_null(2, "webhook_deliveries.endpoint_id")?,
            event: row.parse(3, "webhook_deliveries.event_id")?,
            // An endpoint that was deleted after the claim: nothing is sent to it.
            url: row.text_or_null(4)?.unwrap_or_default(),
            body: row.text(5)?,
            scheme: row
                .parse_or_null(6, "webhook_endpoints.scheme")?
                .unwrap_or(Scheme::Hmac),
            secrets: row.text_or_null(7)?,
            lane: row.text(8)?,
            attempts: narrow(row.int(9)?),
            before: narrow(row.int(10)?),
            due_at: Timestamp::from_micros(row.int(11)?),
            trace: row.text_or_null(12)?,
        };
        let key: Option<KeyId> = row.parse_or_null(13, "webhook_endpoints.key_id")?;
        Ok((due, key, row.text_or_null(14)?.is_some()))
    })?;
    let mut claimed = cleared(conn, claimed, now)?;
    claimed.sort_by_key(|due| (due.due_at, due.id));
    Ok(claimed)
}

/// Those that may be sent, by the key of their endpoint and whether a task is told of; the others are
/// held.
fn cleared(
    conn: &mut Conn<'_>,
    claimed: Vec<(Due, Option<KeyId>, bool)>,
    now: Timestamp,
) -> Result<Vec<Due>, StoreError> {
    let mut keys: HashMap<KeyId, Option<ApiKey>> = HashMap::new();
    let mut sent = Vec::with_capacity(claimed.len());
    for (due, key, of_task) in claimed {
        if let Some(id) = key
            && !keys.contains_key(&id)
        {
            keys.insert(id, key_by_id(conn, id)?);
        }
        let key = key.and_then(|id| keys.get(&id)?.as_ref());
        match Clearance::of(key, of_task, now) {
            Clearance::Sent => sent.push(due),
            Clearance::Withheld => {
                conn.execute(
                    "UPDATE webhook_deliveries SET state = 'held', lease_owner = NULL, ended_at = ?2 WHERE id = ?1",
                    &[(&due.id.to_string()).into(), now.micros().into()],
                )?;
            }
        }
    }
    Ok(sent)
}

/// Writes a try down and what it means for its delivery, which `owner` must hold. Returns whether it did.
pub fn tried(
    conn: &mut Conn<'_>,
    id: DeliveryId,
    owner: &str,
    attempt: &Attempt,
    state: DeliveryState,
    due_at: Timestamp,
) -> Result<bool, StoreError> {
    let ended = matches!(state, DeliveryState::Delivered | DeliveryState::Failed);
    let changed = conn.execute(
        "UPDATE webhook_deliveries SET state = ?3, attempts = ?4, due_at = ?5, ended_at = ?6, lease_owner = NULL
         WHERE id = ?1 AND lease_owner = ?2 AND state = 'waiting'",
        &[
            (&id.to_string()).into(),
            owner.into(),
            state.name().into(),
            i64::from(attempt.number).into(),
            due_at.micros().into(),
            ended.then(|| attempt.at.micros()).into(),
        ],
    )?;
    if changed == 0 {
        return Ok(false);
    }
    conn.execute(
        "INSERT INTO webhook_attempts (delivery_id, number, at, took_ms, status, error, response)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (delivery_id, number) DO NOTHING",
        &[
            (&id.to_string()).into(),
            i64::from(attempt.number).into(),
            attempt.at.micros().into(),
            i64::try_from(attempt.took_ms).unwrap_or(i64::MAX).into(),
            attempt.status.map(i64::from).into(),
            attempt.error.map(AttemptError::name).into(),
            attempt.response.as_ref().into(),
        ],
    )?;
    Ok(true)
}

/// Puts a lane's waiting deliveries off until then.
pub fn pause(conn: &mut Conn<'_>, lane: &str, until: Timestamp) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE webhook_deliveries SET due_at = ?2
         WHERE lane = ?1 AND state = 'waiting' AND lease_owner IS NULL AND due_at < ?2",
        &[lane.into(), until.micros().into()],
    )?;
    Ok(())
}

/// Makes waiting deliveries due now whose wait began, by the clock, after `now` and some: the clock was set
/// back since. Returns how many.
pub fn pull_near(conn: &mut Conn<'_>, after: Timestamp, now: Timestamp) -> Result<u64, StoreError> {
    conn.execute(
        "UPDATE webhook_deliveries SET due_at = ?2
         WHERE state = 'waiting' AND lease_owner IS NULL AND due_at > ?1
         AND (created_at > ?1 OR EXISTS (SELECT 1 FROM webhook_attempts
                                         WHERE delivery_id = webhook_deliveries.id AND at > ?1))",
        &[after.micros().into(), now.micros().into()],
    )
}

/// Holds what waits for an endpoint that was disabled; one that is being tried is left to its outcome.
pub fn hold(conn: &mut Conn<'_>, endpoint: EndpointId, now: Timestamp) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE webhook_deliveries SET state = 'held', ended_at = ?2
         WHERE endpoint_id = ?1 AND state = 'waiting' AND lease_owner IS NULL",
        &[(&endpoint.to_string()).into(), now.micros().into()],
    )?;
    Ok(())
}

/// Gives up what waits for an endpoint that is deleted, and notes its address with all its deliveries.
pub fn give_up(
    conn: &mut Conn<'_>,
    endpoint: EndpointId,
    url: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    let id = endpoint.to_string();
    conn.execute(
        "UPDATE webhook_deliveries SET state = 'failed', lease_owner = NULL, ended_at = ?2
         WHERE endpoint_id = ?1 AND state IN ('waiting', 'held')",
        &[(&id).into(), now.micros().into()],
    )?;
    conn.execute(
        "UPDATE webhook_deliveries SET url = ?2 WHERE endpoint_id = ?1",
        &[(&id).into(), url.into()],
    )?;
    Ok(())
}

/// Makes a delivery due now, with all its tries before it again. Returns false for one that is being
/// tried at this moment.
pub fn redeliver(conn: &mut Conn<'_>, id: DeliveryId, now: Timestamp) -> Result<bool, StoreError> {
    let changed = conn.execute(
        "UPDATE webhook_deliveries SET state = 'waiting', tried_before = attempts, due_at = ?2, ended_at = NULL
         WHERE id = ?1 AND lease_owner IS NULL",
        &[(&id.to_string()).into(), now.micros().into()],
    )?;
    Ok(changed == 1)
}

/// Makes an endpoint's failed and held deliveries of events since then due now. Returns how many.
pub fn recover(
    conn: &mut Conn<'_>,
    endpoint: EndpointId,
    since: Timestamp,
    now: Timestamp,
) -> Result<u64, StoreError> {
    conn.execute(
        "UPDATE webhook_deliveries SET state = 'waiting', tried_before = attempts, due_at = ?3, ended_at = NULL
         WHERE endpoint_id = ?1 AND state IN ('failed', 'held') AND lease_owner IS NULL AND created_at >= ?2",
        &[
            (&endpoint.to_string()).into(),
            since.micros().into(),
            now.micros().into(),
        ],
    )
}

/// How many deliveries are due.
pub fn due(conn: &mut Conn<'_>, now: Timestamp) -> Result<i64, StoreError> {
    let count = conn.one(
        "SELECT COUNT(*) FROM webhook_deliveries WHERE state = 'waiting' AND lease_owner IS NULL AND due_at <= ?1",
        &[now.micros().into()],
        |row| row.int(0),
    )?;
    Ok(count.unwrap_or(0))
}

pub(super) fn narrow(value: i64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
