//! Intents: records of requests that create something, so that a repeated request is recognised.
//!
//! Changes are made by compare-and-set on the intent's number of attempts: once a later attempt has
//! begun, changes by an earlier one have no effect.

use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::columns::{TableRecord as _, insert, record, saturated};
use crate::conn::to_json;
use crate::statement::{dialect_sql, sql};
use crate::{Conn, StoreError};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, IntentId, KeyId, TaskId};
use mediagate_model::intent::{Intent, IntentResult, RequestFingerprint};
use mediagate_model::task::Task;

record! {
    columns for Intent of "intents" {
        id: "id",
        account: "account_id",
        body: body("key_id", "fingerprint"),
        idempotency_key: "idempotency_key",
        result: "made",
        answer: "answer",
        holder: "holder",
        attempts: saturated("visits"),
        joinable_until: "joinable_until",
        sent_at: "sent_at",
        created_at: "created_at",
    }
}

const fn body(key: KeyId, fingerprint: String) -> RequestFingerprint {
    RequestFingerprint { key, fingerprint }
}

/// A 64-bit hash of key and body, for an index. Several bodies may share it, so queries also
/// compare the columns themselves.
pub(super) fn fingerprint_hash(body: &RequestFingerprint) -> i64 {
    let mut hash = Sha256::new();
    hash.update(body.key.to_string().as_bytes());
    hash.update(body.fingerprint.as_bytes());
    let digest = hash.finalize();
    let mut start = [0; 8];
    start.copy_from_slice(&digest[..8]);
    i64::from_le_bytes(start)
}

/// The value of the column `state`: whether the intent has a result.
const fn state(intent: &Intent) -> &'static str {
    if intent.result.is_some() {
        "made"
    } else {
        "working"
    }
}

/// Adds an intent. Returns false, and adds nothing, if its `Idempotency-Key` is taken.
pub fn insert(conn: &mut Conn<'_>, new: &Intent) -> Result<bool, StoreError> {
    let changed = insert!(conn, "intents" {
        "id": new.id,
        "account_id": new.account,
        "key_id": new.body.key,
        "idempotency_key": new.idempotency_key,
        "fingerprint": new.body.fingerprint,
        "state": state(new),
        "made": new.result,
        "holder": new.holder,
        "visits": new.attempts,
        "created_at": new.created_at,
        "body": fingerprint_hash(&new.body),
        "answer": new.answer,
    } "ON CONFLICT (account_id, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING")?;
    Ok(changed == 1)
}

/// The intent with this id.
pub fn by_id(conn: &mut Conn<'_>, id: IntentId) -> Result<Option<Intent>, StoreError> {
    sql!(
        concat!("SELECT ", columns!(), " FROM intents WHERE id = :id"),
        id
    )
    .one(conn, Intent::from_row)
}

/// The intent of an account's `Idempotency-Key`.
pub fn by_idempotency_key(
    conn: &mut Conn<'_>,
    account: AccountId,
    idempotency_key: &str,
) -> Result<Option<Intent>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            columns!(),
            " FROM intents WHERE account_id = :account AND idempotency_key = :idempotency_key"
        ),
        account,
        idempotency_key
    )
    .one(conn, Intent::from_row)
}

/// The statement for intents with this body begun after `since`, and a further condition.
macro_rules! with_body {
    ($columns:expr, $body:expr, $since:expr, $rest:literal $(, $name:ident)*) => {
        sql!(
            concat!(
                "SELECT ", $columns, " FROM intents
                 WHERE body = :hash AND key_id = :key AND fingerprint = :fingerprint AND created_at > :since
                 AND ", $rest
            ),
            hash = fingerprint_hash($body),
            key = $body.key,
            fingerprint = &$body.fingerprint,
            since = $since
            $(, $name)*
        )
    };
}

/// The intents with this body that a request may still join, except those of the process `holder`;
/// at most 100 begun after `since`, oldest first.
pub fn open_elsewhere(
    conn: &mut Conn<'_>,
    body: &RequestFingerprint,
    since: Timestamp,
    holder: &str,
    now: Timestamp,
) -> Result<Vec<Intent>, StoreError> {
    // Almost every request runs this and finds nothing. One statement for both cases would sort,
    // and take twice as long.
    let mut intents = with_body!(
        columns!(),
        body,
        since,
        "joinable_until IS NULL AND (holder IS NULL OR holder <> :holder) LIMIT 100",
        holder
    )
    .all(conn, Intent::from_row)?;
    let joinable = with_body!(
        columns!(),
        body,
        since,
        "joinable_until > :now AND (holder IS NULL OR holder <> :holder) LIMIT 100",
        holder,
        now
    );
    intents.extend(joinable.all(conn, Intent::from_row)?);
    intents.sort_by_key(|intent| intent.id);
    intents.truncate(100);
    Ok(intents)
}

/// The intents with this body begun after `since`: at most 100 open ones, and at most 100 whose
/// answer was delivered, the last delivered first.
pub fn all_with(
    conn: &mut Conn<'_>,
    body: &RequestFingerprint,
    since: Timestamp,
) -> Result<Vec<Intent>, StoreError> {
    let open = with_body!(columns!(), body, since, "joinable_until IS NULL LIMIT 100");
    let mut intents = open.all(conn, Intent::from_row)?;
    let delivered = with_body!(
        columns!(),
        body,
        since,
        "joinable_until IS NOT NULL ORDER BY joinable_until DESC LIMIT 100"
    );
    intents.extend(delivered.all(conn, Intent::from_row)?);
    Ok(intents)
}

/// The task of an intent with this body begun after `since`: of the one whose answer was delivered
/// last, otherwise of an open one.
pub fn latest_task(
    conn: &mut Conn<'_>,
    body: &RequestFingerprint,
    since: Timestamp,
) -> Result<Option<TaskId>, StoreError> {
    let delivered = with_body!(
        "made",
        body,
        since,
        "state = 'made' AND joinable_until IS NOT NULL ORDER BY joinable_until DESC LIMIT 1"
    );
    let mut latest = delivered.value(conn)?;
    if latest.is_none() {
        let open = with_body!(
            "made",
            body,
            since,
            "state = 'made' AND joinable_until IS NULL LIMIT 1"
        );
        latest = open.value(conn)?;
    }
    Ok(match latest {
        Some(IntentResult::Tasks(tasks)) => tasks.first().copied(),
        _ => None,
    })
}

/// Records the result of attempt number `attempt` at an intent in progress. Returns whether that
/// attempt is still the latest.
pub fn set_result(
    conn: &mut Conn<'_>,
    id: IntentId,
    attempt: u32,
    result: &IntentResult,
) -> Result<bool, StoreError> {
    let changed = sql!(
        "UPDATE intents SET state = 'made', made = :result WHERE id = :id AND visits = :attempt AND state = 'working'",
        id,
        attempt,
        result = to_json(result)?
    )
    .execute(conn)?;
    Ok(changed == 1)
}

/// Records the next attempt at an intent that was read before. Returns false if another attempt was
/// first, or if something was made or sent for it since it was read.
pub fn begin_attempt(
    conn: &mut Conn<'_>,
    intent: &Intent,
    holder: &str,
) -> Result<bool, StoreError> {
    let changed = sql!(
        "UPDATE intents SET visits = visits + 1, holder = :holder, joinable_until = NULL
         WHERE id = :id AND visits = :attempts AND state = :state AND sent_at IS NOT DISTINCT FROM :sent_at",
        id = intent.id,
        attempts = intent.attempts,
        holder,
        state = state(intent),
        sent_at = intent.sent_at
    )
    .execute(conn)?;
    Ok(changed == 1)
}

/// Records when something other than a task is about to be sent to a provider for attempt number
/// `attempt`; `None` removes that record. Returns whether that attempt is still the latest.
pub fn set_sent_at(
    conn: &mut Conn<'_>,
    id: IntentId,
    attempt: u32,
    now: Option<Timestamp>,
) -> Result<bool, StoreError> {
    let changed = sql!(
        "UPDATE intents SET sent_at = :now WHERE id = :id AND visits = :attempt AND state = 'working'",
        id,
        attempt,
        now
    )
    .execute(conn)?;
    Ok(changed == 1)
}

/// Keeps the first answer; a later one changes nothing.
pub fn answer(conn: &mut Conn<'_>, id: IntentId, answer: &str) -> Result<(), StoreError> {
    sql!(
        "UPDATE intents SET answer = :answer WHERE id = :id AND answer IS NULL",
        id,
        answer
    )
    .execute(conn)?;
    Ok(())
}

/// Lets requests with the same body join the intent of this task until `until`, although its answer
/// was delivered. The intent is searched among those that were begun at most `window` before the
/// task.
pub fn extend_joinable(
    conn: &mut Conn<'_>,
    task: &Task,
    window: Duration,
    until: Timestamp,
) -> Result<(), StoreError> {
    // Ids begin with the time at which they were made.
    let from = task.created_at.minus(window).micros() / 1000;
    let from = format!("{:08x}-{:04x}", from >> 16, from & 0xffff);
    sql!(
        "UPDATE intents SET joinable_until = :until WHERE id >= :from AND id <= :id AND key_id = :key
         AND made LIKE '%' || CAST(:id AS TEXT) || '%' AND joinable_until < :until",
        from = &from,
        id = task.id,
        key = task.key,
        until
    )
    .execute(conn)?;
    Ok(())
}

/// Forgets an intent for which attempt number `attempt` has made nothing and sent nothing. Returns
/// false if something was made or sent, or if there was a later attempt.
pub fn abandon(conn: &mut Conn<'_>, id: IntentId, attempt: u32) -> Result<bool, StoreError> {
    let deleted = sql!(
        "DELETE FROM intents WHERE id = :id AND visits = :attempt AND state = 'working' AND sent_at IS NULL",
        id,
        attempt
    )
    .execute(conn)?;
    Ok(deleted == 1)
}

/// Records the end of attempt number `attempt`. An intent that made nothing, which is in the
/// database only if it was `reserved`, is deleted. Any other can be joined by requests with its
/// body until `joinable_until`, unless there was a later attempt. Returns false if the intent is
/// not, or not yet, in the database.
pub fn leave(
    conn: &mut Conn<'_>,
    id: IntentId,
    attempt: u32,
    reserved: bool,
    joinable_until: Option<Timestamp>,
) -> Result<bool, StoreError> {
    if reserved && abandon(conn, id, attempt)? {
        return Ok(true);
    }
    let changed = sql!(
        "UPDATE intents SET holder = NULL, joinable_until = :joinable_until WHERE id = :id AND visits = :attempt",
        id,
        attempt,
        joinable_until
    )
    .execute(conn)?;
    Ok(changed == 1 || by_id(conn, id)?.is_some())
}

/// Detaches the intent from its key, so that the key's next request makes something new.
pub fn free_key(conn: &mut Conn<'_>, id: IntentId) -> Result<(), StoreError> {
    sql!(
        "UPDATE intents SET idempotency_key = NULL WHERE id = :id",
        id
    )
    .execute(conn)?;
    Ok(())
}

/// Forgets intents from before an instant, at most `limit`. Returns how many.
pub fn forget_before(
    conn: &mut Conn<'_>,
    before: Timestamp,
    limit: u32,
) -> Result<u64, StoreError> {
    // Ids sort by creation: the oldest come first without a separate index. For an IN, Postgres may
    // choose a join that reads the whole table; the ids of an array are looked up one by one.
    dialect_sql!(
        conn,
        "DELETE FROM intents WHERE id IN (SELECT id FROM (SELECT id, created_at FROM intents ORDER BY id
         LIMIT :limit) AS oldest
         WHERE created_at < :before)",
        "DELETE FROM intents WHERE id = ANY (ARRAY(SELECT id FROM (SELECT id, created_at FROM intents ORDER BY id
         LIMIT :limit) AS oldest
         WHERE created_at < :before))",
        before,
        limit
    )
    .execute(conn)
}
