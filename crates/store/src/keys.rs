//! API keys: their settings, secrets and use.

use ipnet::IpNet;

use crate::account_row::account;
use crate::conn::to_json;
use crate::money_columns::{key_money, key_money_columns, starts};
use crate::page::Page;
use crate::{Conn, Row, StoreError, Value};
use mediagate_model::account::{
    ApiKey, BudgetPeriod, Caller, Credential, KeyMoney, KeyRecord, Scope,
};
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::{AccountId, KeyId};
use mediagate_model::money::Micros;

macro_rules! columns {
    () => {
        "k.id, k.account_id, k.name, k.prefix, k.sha256, k.scopes, k.models, k.networks, k.rpm, k.max_running,
         k.budget_micros, k.created_at, k.expires_at, k.revoked_at, k.budget_period, k.refuse_housekeeping"
    };
}

/// The settings of a key as JSON columns.
struct Lists {
    scopes: String,
    models: Option<String>,
    networks: Option<String>,
}

impl Lists {
    fn of(key: &ApiKey) -> Result<Self, StoreError> {
        let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.name()).collect();
        Ok(Self {
            scopes: to_json(&scopes)?,
            models: key.models.as_ref().map(to_json).transpose()?,
            networks: key.networks.as_ref().map(to_json).transpose()?,
        })
    }
}

pub fn insert_key(conn: &mut Conn<'_>, key: &ApiKey) -> Result<(), StoreError> {
    let lists = Lists::of(key)?;
    conn.execute(
        "INSERT INTO api_keys (id, account_id, name, prefix, sha256, scopes, models, networks, rpm, max_running,
                               budget_micros, created_at, expires_at, revoked_at, budget_period, refuse_housekeeping)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        &[
            (&key.id.to_string()).into(),
            (&key.account.to_string()).into(),
            (&key.name).into(),
            (&key.prefix).into(),
            (&key.sha256).into(),
            (&lists.scopes).into(),
            lists.models.as_ref().into(),
            lists.networks.as_ref().into(),
            i64::from(key.rpm).into(),
            i64::from(key.max_running).into(),
            key.budget.map(Micros::get).into(),
            key.created_at.micros().into(),
            key.expires_at.map(Timestamp::micros).into(),
            key.revoked_at.map(Timestamp::micros).into(),
            key.budget_period.map(BudgetPeriod::name).into(),
            i64::from(key.refuses_housekeeping).into(),
        ],
    )?;
    Ok(())
}

/// Writes the settings of a key; its secret, account and revocation stay.
pub fn update_key(conn: &mut Conn<'_>, key: &ApiKey) -> Result<(), StoreError> {
    let lists = Lists::of(key)?;
    conn.execute(
        "UPDATE api_keys SET name = ?2, scopes = ?3, models = ?4, networks = ?5, rpm = ?6, max_running = ?7,
                budget_micros = ?8, budget_period = ?9, expires_at = ?10, refuse_housekeeping = ?11 WHERE id = ?1",
        &[
            (&key.id.to_string()).into(),
            (&key.name).into(),
            (&lists.scopes).into(),
            lists.models.as_ref().into(),
            lists.networks.as_ref().into(),
            i64::from(key.rpm).into(),
            i64::from(key.max_running).into(),
            key.budget.map(Micros::get).into(),
            key.budget_period.map(BudgetPeriod::name).into(),
            key.expires_at.map(Timestamp::micros).into(),
            i64::from(key.refuses_housekeeping).into(),
        ],
    )?;
    Ok(())
}

/// Gives a key another secret; the one before it is accepted until `former_until`, and the one
/// before that no longer.
pub fn exchange_secret(
    conn: &mut Conn<'_>,
    id: KeyId,
    (prefix, sha256): (&str, &str),
    former_until: Timestamp,
) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE api_keys SET former_sha256 = sha256, former_until = ?4, prefix = ?2, sha256 = ?3 WHERE id = ?1",
        &[
            (&id.to_string()).into(),
            prefix.into(),
            sha256.into(),
            former_until.micros().into(),
        ],
    )?;
    Ok(())
}

/// The key with this hash and its account. Two lookups: `SQLite` takes several times as long for
/// the join.
pub fn caller_by_sha256(conn: &mut Conn<'_>, sha256: &str) -> Result<Option<Caller>, StoreError> {
    let current = conn.one(
        concat!(
            "SELECT ",
            columns!(),
            " FROM api_keys k WHERE k.sha256 = ?1"
        ),
        &[sha256.into()],
        |row| Ok((key(row)?, Credential::Secret)),
    )?;
    let found = match current {
        Some(current) => Some(current),
        None => conn.one(
            concat!(
                "SELECT ",
                columns!(),
                ", k.former_until FROM api_keys k WHERE k.former_sha256 = ?1"
            ),
            &[sha256.into()],
            |row| {
                let until = Timestamp::from_micros(row.int(16)?);
                Ok((key(row)?, Credential::FormerSecret { until }))
            },
        )?,
    };
    let Some((key, credential)) = found else {
        return Ok(None);
    };
    let account = conn.one(
        "SELECT id, handle, display_name, avatar, created_at FROM accounts WHERE id = ?1",
        &[(&key.account.to_string()).into()],
        |row| account(row, 0),
    )?;
    Ok(account.map(|account| Caller {
        key,
        account,
        credential,
    }))
}

pub fn key_by_id(conn: &mut Conn<'_>, id: KeyId) -> Result<Option<ApiKey>, StoreError> {
    conn.one(
        concat!("SELECT ", columns!(), " FROM api_keys k WHERE k.id = ?1"),
        &[(&id.to_string()).into()],
        key,
    )
}

/// Those of these hashes that are a key's, a former secret's of one or a session's: one statement,
/// however many there are.
pub fn known_hashes(conn: &mut Conn<'_>, hashes: &[String]) -> Result<Vec<String>, StoreError> {
    let sql = conn.dialect(
        "SELECT sha256 FROM api_keys WHERE sha256 IN (SELECT value FROM json_each(?1))
         UNION SELECT former_sha256 FROM api_keys
               WHERE former_sha256 IS NOT NULL AND former_sha256 IN (SELECT value FROM json_each(?1))
         UNION SELECT sha256 FROM sessions WHERE sha256 IN (SELECT value FROM json_each(?1))",
        "SELECT sha256 FROM api_keys
         WHERE sha256 = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(?1 AS TEXT) AS json))))
         UNION SELECT former_sha256 FROM api_keys WHERE former_sha256 IS NOT NULL
               AND former_sha256 = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(?1 AS TEXT) AS json))))
         UNION SELECT sha256 FROM sessions
               WHERE sha256 = ANY (ARRAY(SELECT json_array_elements_text(CAST(CAST(?1 AS TEXT) AS json))))",
    );
    conn.all(sql, &[(&to_json(&hashes)?).into()], |row| row.text(0))
}

/// Every key with its account's handle, oldest first.
pub fn keys(conn: &mut Conn<'_>) -> Result<Vec<(ApiKey, String)>, StoreError> {
    conn.all(
        concat!(
            "SELECT ",
            columns!(),
            ", a.handle FROM api_keys k JOIN accounts a ON a.id = k.account_id ORDER BY k.id"
        ),
        &[],
        |row| Ok((key(row)?, row.text(16)?)),
    )
}

macro_rules! records {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            ", a.handle, k.open_tasks, k.last_used_at, ",
            key_money_columns!(),
            " FROM api_keys k JOIN accounts a ON a.id = k.account_id ",
            $rest
        )
    };
}

/// A page of keys, of one account or of all; with those that were revoked.
pub fn key_page(
    conn: &mut Conn<'_>,
    account: Option<AccountId>,
    page: Page<KeyId>,
    now: Timestamp,
) -> Result<Vec<KeyRecord>, StoreError> {
    let sql = match (account, page.ascending) {
        (None, true) => records!("WHERE k.id > COALESCE(?4, '') ORDER BY k.id LIMIT ?5"),
        (None, false) => records!("WHERE k.id < COALESCE(?4, 'g') ORDER BY k.id DESC LIMIT ?5"),
        (Some(_), true) => {
            records!("WHERE k.account_id = ?6 AND k.id > COALESCE(?4, '') ORDER BY k.id LIMIT ?5")
        }
        (Some(_), false) => {
            records!(
                "WHERE k.account_id = ?6 AND k.id < COALESCE(?4, 'g') ORDER BY k.id DESC LIMIT ?5"
            )
        }
    };
    let after = page.after.map(|id| id.to_string());
    let account = account.map(|id| id.to_string());
    let mut values = Vec::from(starts(now));
    values.push(after.as_ref().into());
    values.push(i64::from(page.limit).into());
    values.extend(account.as_ref().map(Value::from));
    conn.all(sql, &values, record)
}

/// A key as the operator sees it.
pub fn key_record(
    conn: &mut Conn<'_>,
    id: KeyId,
    now: Timestamp,
) -> Result<Option<KeyRecord>, StoreError> {
    let id = id.to_string();
    let mut values = Vec::from(starts(now));
    values.push((&id).into());
    conn.one(records!("WHERE k.id = ?4"), &values, record)
}

fn record(row: &Row<'_>) -> Result<KeyRecord, StoreError> {
    Ok(KeyRecord {
        key: key(row)?,
        account: row.text(16)?,
        open_tasks: count(row.int(17)?),
        last_used_at: row.int_or_null(18)?.map(Timestamp::from_micros),
        money: key_money(row, 19)?,
    })
}

/// Every key of an account, including revoked ones, with its money and number of open tasks, oldest
/// first.
pub fn keys_of(
    conn: &mut Conn<'_>,
    account: AccountId,
    now: Timestamp,
) -> Result<Vec<(ApiKey, KeyMoney, u32)>, StoreError> {
    let account = account.to_string();
    let mut values = Vec::from(starts(now));
    values.push((&account).into());
    conn.all(
        concat!(
            "SELECT ",
            columns!(),
            ", k.open_tasks, ",
            key_money_columns!(),
            " FROM api_keys k WHERE k.account_id = ?4 ORDER BY k.id"
        ),
        &values,
        |row| Ok((key(row)?, key_money(row, 17)?, count(row.int(16)?))),
    )
}

/// The name of a key.
pub fn key_name(conn: &mut Conn<'_>, id: KeyId) -> Result<Option<String>, StoreError> {
    conn.one(
        "SELECT name FROM api_keys WHERE id = ?1",
        &[(&id.to_string()).into()],
        |row| row.text(0),
    )
}

/// Notes that a key was used; never goes back.
pub fn note_use(conn: &mut Conn<'_>, id: KeyId, at: Timestamp) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE api_keys SET last_used_at = ?2 WHERE id = ?1 AND (last_used_at IS NULL OR last_used_at < ?2)",
        &[(&id.to_string()).into(), at.micros().into()],
    )?;
    Ok(())
}

/// Revokes a key from `now` on. Returns whether it was valid before.
pub fn revoke_key(conn: &mut Conn<'_>, id: KeyId, now: Timestamp) -> Result<bool, StoreError> {
    let changed = conn.execute(
        "UPDATE api_keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
        &[(&id.to_string()).into(), now.micros().into()],
    )?;
    Ok(changed == 1)
}

/// Reserves `count` open tasks, unless the key would then have more than `most`. Returns whether it
/// did; two concurrent requests never both get the last one.
pub fn take_places(
    conn: &mut Conn<'_>,
    id: KeyId,
    count: u32,
    most: u32,
) -> Result<bool, StoreError> {
    let changed = conn.execute(
        "UPDATE api_keys SET open_tasks = open_tasks + ?2 WHERE id = ?1 AND open_tasks + ?2 <= ?3",
        &[
            (&id.to_string()).into(),
            i64::from(count).into(),
            i64::from(most).into(),
        ],
    )?;
    Ok(changed == 1)
}

/// The number of a key's open tasks.
pub fn open_tasks(conn: &mut Conn<'_>, id: KeyId) -> Result<u32, StoreError> {
    let open = conn.one(
        "SELECT open_tasks FROM api_keys WHERE id = ?1",
        &[(&id.to_string()).into()],
        |row| row.int(0),
    )?;
    Ok(count(open.unwrap_or(0)))
}

/// One of this key's tasks has ended.
pub(super) fn give_place_back(conn: &mut Conn<'_>, id: KeyId) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE api_keys SET open_tasks = open_tasks - 1 WHERE id = ?1",
        &[(&id.to_string()).into()],
    )?;
    Ok(())
}

/// Negative counts become 0; `verify` reports them.
fn count(stored: i64) -> u32 {
    u32::try_from(stored.max(0)).unwrap_or(u32::MAX)
}

/// Serialises processes that create the first key.
pub fn exclude_other_first_keys(conn: &mut Conn<'_>) {
    conn.exclude_others(7_304_283_111);
}

fn key(row: &Row<'_>) -> Result<ApiKey, StoreError> {
    let unreadable = |value: String| StoreError::Unreadable {
        column: "api_keys",
        value,
    };
    let small = |value: i64| u32::try_from(value).map_err(|_| unreadable(value.to_string()));
    let scopes: Vec<String> = row.json(5, "api_keys.scopes")?;
    let scopes = scopes
        .into_iter()
        .map(|name| name.parse::<Scope>().map_err(|_| unreadable(name)))
        .collect::<Result<_, _>>()?;
    let models = row
        .text_or_null(6)?
        .map(|_| row.json(6, "api_keys.models"))
        .transpose()?;
    let networks: Option<Vec<IpNet>> = row
        .text_or_null(7)?
        .map(|_| row.json(7, "api_keys.networks"))
        .transpose()?;
    Ok(ApiKey {
        id: row.parse(0, "api_keys.id")?,
        account: row.parse::<AccountId>(1, "api_keys.account_id")?,
        name: row.text(2)?,
        prefix: row.text(3)?,
        sha256: row.text(4)?,
        scopes,
        models,
        networks,
        rpm: small(row.int(8)?)?,
        max_running: small(row.int(9)?)?,
        budget: row.int_or_null(10)?.map(Micros::new),
        created_at: Timestamp::from_micros(row.int(11)?),
        expires_at: row.int_or_null(12)?.map(Timestamp::from_micros),
        revoked_at: row.int_or_null(13)?.map(Timestamp::from_micros),
        budget_period: row.parse_or_null(14, "api_keys.budget_period")?,
        refuses_housekeeping: row.int(15)? != 0,
    })
}
