//! Accounts and their keys.

use ipnet::IpNet;

use crate::clock::Timestamp;
use crate::ids::{AccountId, KeyId};
use crate::model::account::{Account, AccountMoney, ApiKey, Caller, KeyMoney, Scope};
use crate::model::money::Micros;
use crate::store::conn::to_json;
use crate::store::ledger::account_money;
use crate::store::{Conn, Row, StoreError};

/// Does nothing if the handle is taken.
pub fn insert(conn: &mut Conn<'_>, account: &Account) -> Result<(), StoreError> {
    conn.execute(
        "INSERT INTO accounts (id, handle, display_name, avatar, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (handle) DO NOTHING",
        &[
            (&account.id.to_string()).into(),
            (&account.handle).into(),
            (&account.display_name).into(),
            (&account.avatar.to_string()).into(),
            account.created_at.micros().into(),
        ],
    )?;
    Ok(())
}

/// The account with this handle.
pub fn by_handle(conn: &mut Conn<'_>, handle: &str) -> Result<Option<Account>, StoreError> {
    conn.one(
        "SELECT id, handle, display_name, avatar, created_at FROM accounts WHERE handle = ?1",
        &[handle.into()],
        |row| account(row, 0),
    )
}

/// The account with this id.
pub fn account_by_id(conn: &mut Conn<'_>, id: AccountId) -> Result<Option<Account>, StoreError> {
    conn.one(
        "SELECT id, handle, display_name, avatar, created_at FROM accounts WHERE id = ?1",
        &[(&id.to_string()).into()],
        |row| account(row, 0),
    )
}

fn account(row: &Row<'_>, at: usize) -> Result<Account, StoreError> {
    Ok(Account {
        id: row.parse(at, "accounts.id")?,
        handle: row.text(at + 1)?,
        display_name: row.text(at + 2)?,
        avatar: row.parse(at + 3, "accounts.avatar")?,
        created_at: Timestamp::from_micros(row.int(at + 4)?),
    })
}

/// Every account with its money and its number of keys that are not revoked, oldest first.
pub fn all(conn: &mut Conn<'_>) -> Result<Vec<(Account, AccountMoney, i64)>, StoreError> {
    conn.all(
        "SELECT a.id, a.handle, a.display_name, a.avatar, a.created_at,
                a.prepaid, a.budget_micros, a.held_micros, a.spent_micros, a.credit_micros,
                (SELECT COUNT(*) FROM api_keys k WHERE k.account_id = a.id AND k.revoked_at IS NULL)
         FROM accounts a ORDER BY a.created_at, a.id",
        &[],
        |row| Ok((account(row, 0)?, account_money(row, 5)?, row.int(10)?)),
    )
}

/// Changes an account's display name.
pub fn rename(conn: &mut Conn<'_>, id: AccountId, name: &str) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE accounts SET display_name = ?2 WHERE id = ?1",
        &[(&id.to_string()).into(), name.into()],
    )?;
    Ok(())
}

/// Changes the limit on the total cost of an account's tasks.
pub fn set_budget(
    conn: &mut Conn<'_>,
    id: AccountId,
    budget: Option<Micros>,
) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE accounts SET budget_micros = ?2 WHERE id = ?1",
        &[(&id.to_string()).into(), budget.map(Micros::get).into()],
    )?;
    Ok(())
}

pub fn insert_key(conn: &mut Conn<'_>, key: &ApiKey) -> Result<(), StoreError> {
    let scopes = to_json(
        &key.scopes
            .iter()
            .map(|scope| scope.name())
            .collect::<Vec<_>>(),
    )?;
    let models = key.models.as_ref().map(to_json).transpose()?;
    let networks = key.networks.as_ref().map(to_json).transpose()?;
    conn.execute(
        "INSERT INTO api_keys (id, account_id, name, prefix, sha256, scopes, models, networks, rpm, max_running,
                               budget_micros, created_at, expires_at, revoked_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        &[
            (&key.id.to_string()).into(),
            (&key.account.to_string()).into(),
            (&key.name).into(),
            (&key.prefix).into(),
            (&key.sha256).into(),
            (&scopes).into(),
            models.as_ref().into(),
            networks.as_ref().into(),
            i64::from(key.rpm).into(),
            i64::from(key.max_running).into(),
            key.budget.map(Micros::get).into(),
            key.created_at.micros().into(),
            key.expires_at.map(Timestamp::micros).into(),
            key.revoked_at.map(Timestamp::micros).into(),
        ],
    )?;
    Ok(())
}

/// The key with this hash and its account. Two lookups: `SQLite` takes several times as long for
/// the join.
pub fn caller_by_sha256(conn: &mut Conn<'_>, sha256: &str) -> Result<Option<Caller>, StoreError> {
    let found = conn.one(
        "SELECT id, account_id, name, prefix, sha256, scopes, models, networks, rpm, max_running,
                budget_micros, created_at, expires_at, revoked_at
         FROM api_keys WHERE sha256 = ?1",
        &[sha256.into()],
        key,
    )?;
    let Some(key) = found else { return Ok(None) };
    let account = conn.one(
        "SELECT id, handle, display_name, avatar, created_at FROM accounts WHERE id = ?1",
        &[(&key.account.to_string()).into()],
        |row| account(row, 0),
    )?;
    Ok(account.map(|account| Caller { key, account }))
}

/// Every key with its account's handle, oldest first.
pub fn keys(conn: &mut Conn<'_>) -> Result<Vec<(ApiKey, String)>, StoreError> {
    conn.all(
        "SELECT k.id, k.account_id, k.name, k.prefix, k.sha256, k.scopes, k.models, k.networks, k.rpm, k.max_running,
                k.budget_micros, k.created_at, k.expires_at, k.revoked_at, a.handle
         FROM api_keys k JOIN accounts a ON a.id = k.account_id ORDER BY k.id",
        &[],
        |row| Ok((key(row)?, row.text(14)?)),
    )
}

/// Every key of an account, including revoked ones, with its money and number of open tasks, oldest
/// first.
pub fn keys_of(
    conn: &mut Conn<'_>,
    account: AccountId,
) -> Result<Vec<(ApiKey, KeyMoney, u32)>, StoreError> {
    conn.all(
        "SELECT id, account_id, name, prefix, sha256, scopes, models, networks, rpm, max_running, budget_micros,
                created_at, expires_at, revoked_at, held_micros, spent_micros, open_tasks
         FROM api_keys WHERE account_id = ?1 ORDER BY id",
        &[(&account.to_string()).into()],
        |row| {
            let key = key(row)?;
            let money = KeyMoney {
                budget: key.budget,
                held: Micros::new(row.int(14)?),
                spent: Micros::new(row.int(15)?),
            };
            Ok((key, money, count(row.int(16)?)))
        },
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

/// Whether an account can spend only its credit.
pub fn set_prepaid(
    conn: &mut Conn<'_>,
    account: AccountId,
    prepaid: bool,
) -> Result<(), StoreError> {
    conn.execute(
        "UPDATE accounts SET prepaid = ?2 WHERE id = ?1",
        &[(&account.to_string()).into(), prepaid.into()],
    )?;
    Ok(())
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
    })
}
