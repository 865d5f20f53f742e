//! API keys: their settings, secrets and use.

use crate::columns::{FieldReader, TableRecord as _, ToColumn, json_value, record};
use crate::conn::FromColumn;
use crate::conn::to_json;
use crate::money_columns::period_starts;
use crate::page::PageQuery;
use crate::statement::{dialect_sql, sql};
use crate::{Conn, Row, SqlValue, StoreError, account_row};
use mediagate_model::account::{
    ApiKey, Caller, CallerCredential, KeyEnd, KeyEndReason, KeyMoney, KeyRecord, Scope, TasksAtEnd,
};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, KeyId};

record! {
    columns for ApiKey of "api_keys" {
        id: "id",
        account: "account_id",
        name: "name",
        prefix: "prefix",
        sha256: "sha256",
        scopes: "scopes",
        models: "models",
        networks: "networks",
        rpm: "rpm",
        max_running: "max_running",
        budget: "budget_micros",
        budget_period: "budget_period",
        approve_above: "approve_above_micros",
        refuses_housekeeping: "refuse_housekeeping",
        created_at: "created_at",
        expires_at: "expires_at",
        revoked_at: "revoked_at",
    }
}

/// The columns of a key, as `k`, that show whether it has ended.
macro_rules! key_end_columns {
    () => {
        "k.revoked_at AS revoked_at, k.expires_at AS expires_at, k.tasks_at_end AS tasks_at_end"
    };
}
pub(crate) use key_end_columns;

record! {
    record_columns for KeyRecord of "api_keys" {
        key: ..columns!("k"),
        account: "a.handle",
        open_tasks: count("k.open_tasks"),
        last_used_at: "k.last_used_at",
        former_until: "k.former_until",
        money: ..key_money_columns!(),
    }
}

/// A JSON list of names.
impl FromColumn for Vec<Scope> {
    fn from_column(
        row: &Row<'_>,
        index: usize,
        column: &'static str,
    ) -> Result<Option<Self>, StoreError> {
        let names: Option<Vec<String>> = row.json_or_null(index, column)?;
        let scope = |value: String| {
            let scope = value.parse();
            scope.map_err(|_| StoreError::Unreadable { column, value })
        };
        let scopes = names.map(|names| names.into_iter().map(scope).collect());
        scopes.transpose()
    }
}

impl ToColumn for Vec<Scope> {
    fn to_column(&self) -> SqlValue<'_> {
        let names: Vec<&str> = self.iter().map(|scope| scope.name()).collect();
        json_value(&names)
    }
}

pub fn insert_key(conn: &mut Conn<'_>, key: &ApiKey) -> Result<(), StoreError> {
    columns!(insert key into conn)?;
    Ok(())
}

/// Writes the settings of a key; its secret, account and revocation are unchanged.
pub fn update_key(conn: &mut Conn<'_>, key: &ApiKey) -> Result<(), StoreError> {
    sql!(
        "UPDATE api_keys SET name = :name, scopes = :scopes, models = :models, networks = :networks, rpm = :rpm,
         max_running = :max_running,
                budget_micros = :budget, budget_period = :budget_period, approve_above_micros = :approve_above,
                expires_at = :expires_at, refuse_housekeeping = :refuses_housekeeping WHERE id = :id",
        id = key.id,
        name = &key.name,
        scopes = &key.scopes,
        models = &key.models,
        networks = &key.networks,
        rpm = key.rpm,
        max_running = key.max_running,
        budget = key.budget,
        budget_period = key.budget_period,
        approve_above = key.approve_above,
        expires_at = key.expires_at,
        refuses_housekeeping = key.refuses_housekeeping
    )
    .execute(conn)?;
    Ok(())
}

/// Gives a key another secret. The previous one is accepted until `former_until`, any older one is
/// rejected.
pub fn rotate_secret(
    conn: &mut Conn<'_>,
    id: KeyId,
    (prefix, sha256): (&str, &str),
    former_until: Timestamp,
) -> Result<(), StoreError> {
    // Every assignment reads the old row, so the former secret is the one that is replaced.
    sql!(
        "UPDATE api_keys SET former_sha256 = sha256, former_until = :former_until, prefix = :prefix,
         sha256 = :sha256 WHERE id = :id",
        id,
        prefix,
        sha256,
        former_until
    )
    .execute(conn)?;
    Ok(())
}

/// The caller whose key has this hash of its current or former secret. The account is looked up
/// separately: for a join `SQLite` takes several times as long.
pub fn caller_by_sha256(conn: &mut Conn<'_>, sha256: &str) -> Result<Option<Caller>, StoreError> {
    let current = sql!(
        concat!(
            "SELECT ",
            columns!("k"),
            " FROM api_keys k WHERE k.sha256 = :sha256"
        ),
        sha256
    )
    .one(conn, |row| {
        Ok((ApiKey::from_row(row)?, CallerCredential::Secret))
    })?;
    let key_and_credential = match current {
        Some(current) => Some(current),
        None => sql!(
            concat!(
                "SELECT ",
                columns!("k"),
                ", k.former_until FROM api_keys k WHERE k.former_sha256 = :sha256"
            ),
            sha256
        )
        .one(conn, |row| {
            let mut fields = FieldReader::new(row);
            let key = fields.record()?;
            let until = fields.field("api_keys.former_until")?;
            Ok((key, CallerCredential::FormerSecret { until }))
        })?,
    };
    let Some((key, credential)) = key_and_credential else {
        return Ok(None);
    };
    let account = account_row::account_and_is_limited(conn, key.account)?;
    Ok(account.map(|(account, account_is_limited)| Caller {
        key,
        account,
        account_is_limited,
        credential,
    }))
}

pub fn key_by_id(conn: &mut Conn<'_>, id: KeyId) -> Result<Option<ApiKey>, StoreError> {
    sql!(
        concat!(
            "SELECT ",
            columns!("k"),
            " FROM api_keys k WHERE k.id = :id"
        ),
        id
    )
    .one(conn, ApiKey::from_row)
}

/// The hashes among these that belong to a key, to a key's former secret or to a session: one
/// statement, however many there are.
pub fn known_hashes(conn: &mut Conn<'_>, hashes: &[String]) -> Result<Vec<String>, StoreError> {
    dialect_sql!(
        conn,
        "SELECT sha256 FROM api_keys WHERE sha256 IN (SELECT value FROM json_each(:hashes))
         UNION SELECT former_sha256 FROM api_keys
               WHERE former_sha256 IS NOT NULL AND former_sha256 IN (SELECT value FROM json_each(:hashes))
         UNION SELECT sha256 FROM sessions WHERE sha256 IN (SELECT value FROM json_each(:hashes))",
        "SELECT sha256 FROM api_keys
         WHERE sha256 = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(:hashes AS TEXT) AS json))))
         UNION SELECT former_sha256 FROM api_keys WHERE former_sha256 IS NOT NULL
               AND former_sha256 = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(:hashes AS TEXT) AS json))))
         UNION SELECT sha256 FROM sessions
               WHERE sha256 = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(:hashes AS TEXT) AS json))))",
        hashes = to_json(&hashes)?
    )
    .values::<String>(conn)
}

/// Every key with its account's handle, oldest first.
pub fn keys(conn: &mut Conn<'_>) -> Result<Vec<(ApiKey, String)>, StoreError> {
    sql!(concat!(
        "SELECT ",
        columns!("k"),
        ", a.handle FROM api_keys k JOIN accounts a ON a.id = k.account_id ORDER BY k.id"
    ))
    .all(conn, |row| {
        let mut fields = FieldReader::new(row);
        Ok((fields.record()?, fields.field("accounts.handle")?))
    })
}

macro_rules! records {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            record_columns!(),
            " FROM api_keys k JOIN accounts a ON a.id = k.account_id ",
            $rest
        )
    };
}

/// A page of keys, of one account or of all, including revoked keys.
pub fn key_page(
    conn: &mut Conn<'_>,
    account: Option<AccountId>,
    page: PageQuery<KeyId>,
    now: Timestamp,
) -> Result<Vec<KeyRecord>, StoreError> {
    // Ids are hexadecimal, so every one sorts after '' and before 'g'.
    let PageQuery { after, limit, .. } = page;
    let [day, week, month] = period_starts(now);
    macro_rules! read {
        ($rest:literal $(, $account:ident)?) => {
            sql!(records!($rest), day, week, month, after, limit $(, $account)?).all(conn, |row| record_at(row, now))
        };
    }
    match (account, page.ascending) {
        (None, true) => read!("WHERE k.id > COALESCE(:after, '') ORDER BY k.id LIMIT :limit"),
        (None, false) => {
            read!("WHERE k.id < COALESCE(:after, 'g') ORDER BY k.id DESC LIMIT :limit")
        }
        (Some(account), true) => read!(
            "WHERE k.account_id = :account AND k.id > COALESCE(:after, '') ORDER BY k.id LIMIT :limit",
            account
        ),
        (Some(account), false) => read!(
            "WHERE k.account_id = :account AND k.id < COALESCE(:after, 'g') ORDER BY k.id DESC LIMIT :limit",
            account
        ),
    }
}

/// A key as it is at `now`: a former secret that has ended, or whose key was revoked, is none.
fn record_at(row: &Row<'_>, now: Timestamp) -> Result<KeyRecord, StoreError> {
    let mut record = KeyRecord::from_row(row)?;
    let is_revoked = record.key.revoked_at.is_some();
    record.former_until = record
        .former_until
        .filter(|until| *until > now && !is_revoked);
    Ok(record)
}

/// A key as the operator sees it.
pub fn key_record(
    conn: &mut Conn<'_>,
    id: KeyId,
    now: Timestamp,
) -> Result<Option<KeyRecord>, StoreError> {
    let [day, week, month] = period_starts(now);
    sql!(records!("WHERE k.id = :id"), day, week, month, id).one(conn, |row| record_at(row, now))
}

/// Every key of an account, including revoked ones, with its money and number of open tasks, oldest
/// first.
pub fn keys_of(
    conn: &mut Conn<'_>,
    account: AccountId,
    now: Timestamp,
) -> Result<Vec<(ApiKey, KeyMoney, u32)>, StoreError> {
    let [day, week, month] = period_starts(now);
    let statement = sql!(
        concat!(
            "SELECT ",
            columns!("k"),
            ", ",
            key_money_columns!(),
            ", k.open_tasks",
            " FROM api_keys k WHERE k.account_id = :account ORDER BY k.id"
        ),
        day,
        week,
        month,
        account
    );
    statement.all(conn, |row| {
        let mut fields = FieldReader::new(row);
        let (key, money) = (fields.record()?, fields.record()?);
        Ok((key, money, count(fields.field("api_keys.open_tasks")?)))
    })
}

/// The name of a key.
pub fn key_name(conn: &mut Conn<'_>, id: KeyId) -> Result<Option<String>, StoreError> {
    sql!("SELECT name FROM api_keys WHERE id = :id", id).value::<String>(conn)
}

/// Notes that a key was used; the time never decreases.
pub fn note_use(conn: &mut Conn<'_>, id: KeyId, at: Timestamp) -> Result<(), StoreError> {
    sql!(
        "UPDATE api_keys SET last_used_at = :at WHERE id = :id AND (last_used_at IS NULL OR last_used_at < :at)",
        id,
        at
    )
    .execute(conn)?;
    Ok(())
}

/// Revokes a key from `now` on. Returns false if it was revoked before.
pub fn revoke_key(conn: &mut Conn<'_>, id: KeyId, now: Timestamp) -> Result<bool, StoreError> {
    let changed = sql!(
        "UPDATE api_keys SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL",
        id,
        now
    )
    .execute(conn)?;
    Ok(changed == 1)
}

/// Sets what becomes of a key's open tasks when it ends.
pub fn set_tasks_at_end(
    conn: &mut Conn<'_>,
    id: KeyId,
    tasks: TasksAtEnd,
) -> Result<(), StoreError> {
    sql!(
        "UPDATE api_keys SET tasks_at_end = :tasks WHERE id = :id",
        id,
        tasks = tasks.name()
    )
    .execute(conn)?;
    Ok(())
}

/// How a key ended; `None` while it is valid. It has expired if it was to expire at `expired` or
/// before.
pub fn key_end(
    conn: &mut Conn<'_>,
    id: KeyId,
    expired: Timestamp,
) -> Result<Option<KeyEnd>, StoreError> {
    let end = sql!(
        concat!(
            "SELECT ",
            key_end_columns!(),
            " FROM api_keys k WHERE k.id = :id"
        ),
        id
    )
    .one(conn, |row| read_key_end(row, expired))?;
    Ok(end.flatten())
}

/// The key's end in the columns of `key_end_columns`.
pub(crate) fn read_key_end(
    row: &Row<'_>,
    expired: Timestamp,
) -> Result<Option<KeyEnd>, StoreError> {
    let revoked_at: Option<Timestamp> = row.field("revoked_at")?;
    let expires_at: Option<Timestamp> = row.field("expires_at")?;
    let reason = if revoked_at.is_some() {
        KeyEndReason::Revoked
    } else if expires_at.is_some_and(|at| at <= expired) {
        KeyEndReason::Expired
    } else {
        return Ok(None);
    };
    let tasks: Option<String> = row.field("tasks_at_end")?;
    // An unknown value was written by a newer version.
    let tasks = tasks.and_then(|text| text.parse().ok()).unwrap_or_default();
    Ok(Some(KeyEnd { reason, tasks }))
}

/// Up to `limit` keys with open tasks that were revoked or expired from `since` on, with their
/// accounts; without those whose tasks continue.
pub fn ended_with_tasks(
    conn: &mut Conn<'_>,
    since: Timestamp,
    expired: Timestamp,
    limit: u32,
) -> Result<Vec<(AccountId, KeyId)>, StoreError> {
    sql!(
        "SELECT account_id, id FROM api_keys WHERE revoked_at >= :since AND open_tasks > 0
           AND COALESCE(tasks_at_end, '') <> 'keep'
         UNION ALL SELECT account_id, id FROM api_keys WHERE expires_at >= :since AND expires_at <= :expired
           AND revoked_at IS NULL AND open_tasks > 0 LIMIT :limit",
        since,
        expired,
        limit
    )
    .all(conn, |row| {
            Ok((row.field("account_id")?, row.field("id")?))
        })
}

/// Reserves `count` open tasks, unless the key would then have more than `limit`. Returns whether
/// they were reserved; two concurrent requests never both get the last one.
pub fn reserve_open_tasks(
    conn: &mut Conn<'_>,
    id: KeyId,
    count: u32,
    limit: u32,
) -> Result<bool, StoreError> {
    let changed = sql!(
        "UPDATE api_keys SET open_tasks = open_tasks + :count WHERE id = :id AND open_tasks + :count <= :limit",
        id,
        count,
        limit
    )
    .execute(conn)?;
    Ok(changed == 1)
}

/// The number of a key's open tasks.
pub fn open_tasks(conn: &mut Conn<'_>, id: KeyId) -> Result<u32, StoreError> {
    let stored = sql!("SELECT open_tasks FROM api_keys WHERE id = :id", id).value::<i64>(conn)?;
    Ok(count(stored.unwrap_or(0)))
}

/// Records that one of this key's tasks has ended.
pub(super) fn release_open_task(conn: &mut Conn<'_>, id: KeyId) -> Result<(), StoreError> {
    sql!(
        "UPDATE api_keys SET open_tasks = open_tasks - 1 WHERE id = :id",
        id
    )
    .execute(conn)?;
    Ok(())
}

/// Negative counts become 0; `verify` reports them.
fn count(stored: i64) -> u32 {
    u32::try_from(stored.max(0)).unwrap_or(u32::MAX)
}

/// Serialises processes that create the first key.
pub fn lock_first_key(conn: &mut Conn<'_>) {
    // An arbitrary number that no other lock uses. The number before it locks migrations.
    conn.advisory_lock(7_304_283_111);
}
