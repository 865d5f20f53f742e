//! An operator's changes to keys: issue, change, rotate, revoke. Each leaves an entry in the audit
//! log.

use std::time::Duration;

use ipnet::IpNet;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::open_tasks::{self, KeyTasks};
use super::{NewKey, distinct, draft, generate, hash};
use crate::app::{App, AppParts, Ctx};
use crate::domain::audit::ChangeAuthor;
use crate::domain::operator::OperatorAction;
use crate::domain::webhooks::{self, KeyEndAction};
use mediagate_model::account::{
    Account, AccountRecord, ApiKey, BudgetPeriod, KeyRecord, Scope, TasksAtEnd,
};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, KeyId};
use mediagate_model::money::MicroDollars;
use mediagate_model::secret::Secret;
use mediagate_model::webhook::WebhookEndpoint;
use mediagate_store::tasks::PageQuery;
use mediagate_store::{self as store, Conn, accounts};

/// Longest time for which the previous secret can be accepted after a rotation.
const MAX_GRACE: Duration = Duration::from_hours(30 * 24);

/// A key after a change, with its secret if that is new.
#[derive(Debug)]
pub struct IssuedKey {
    pub record: KeyRecord,
    /// Returned once; it is stored nowhere.
    pub secret: Option<Secret>,
    /// Its sessions and webhook endpoints, after a rotation or a revocation.
    pub dependents: Option<KeyDependents>,
}

/// Things created with a key that outlive the request: some end with the key, others an operator
/// may want to end.
#[derive(Debug)]
pub struct KeyDependents {
    /// Sessions, all of which ended.
    pub sessions_ended: i64,
    /// Webhook endpoints of the key, as they were before the change.
    pub webhooks: Vec<WebhookEndpoint>,
    pub webhooks_end: KeyEndAction,
    /// Its open tasks, after a revocation.
    pub tasks: Option<KeyTasks>,
}

impl KeyDependents {
    fn end_endpoints_and_count_sessions(
        conn: &mut Conn<'_>,
        (account, key): (AccountId, KeyId),
        webhooks_end: KeyEndAction,
        author: &ChangeAuthor,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let sessions_ended = store::sessions::count(conn, key, now)?;
        let webhooks =
            webhooks::end_key_endpoints(conn, (account, key), webhooks_end, author, now)?;
        Ok(Self {
            sessions_ended,
            webhooks,
            webhooks_end,
            tasks: None,
        })
    }

    /// The value that the audit log records.
    fn audit_value(&self) -> Value {
        let ids = self.webhooks.iter().map(|webhook| webhook.id.to_string());
        let mut value =
            json!({"sessions_ended": self.sessions_ended, "webhooks": ids.collect::<Vec<_>>()});
        if let Some(tasks) = self.tasks {
            value["tasks"] = json!({
                "cancelled": tasks.cancelled,
                "continuing": tasks.continuing,
                "held_usd": tasks.held.to_string(),
            });
        }
        value
    }
}

/// The error for an id that is malformed or unknown.
pub fn not_found() -> Error {
    Error::plain(ErrorCode::KeyNotFound, "There is no API key with this id.")
}

/// Creates a key for this account.
pub async fn issue(
    app: &App,
    operation: OperatorAction<'_, IssuedKey>,
    account: &Account,
    new: NewKey,
) -> Result<IssuedKey, Error> {
    check_models(app, new.models.as_deref())?;
    let (key, secret) = draft(app, account, new)?;
    let now = app.clock.now();
    operation
        .write(app, move |conn, author| {
            insert(conn, author, &key, now)?;
            read_issued_key(conn, key.id, Some(secret), now)
        })
        .await
}

/// Adds a key and logs it.
pub(super) fn insert(
    conn: &mut Conn<'_>,
    author: &ChangeAuthor,
    key: &ApiKey,
    now: Timestamp,
) -> Result<(), Error> {
    if accounts::lock_and_check_closed(conn, key.account)? {
        let message = "The account was closed and gets no new API keys.";
        return Err(Error::at_field(
            ErrorCode::AccountClosed,
            "account",
            message,
        ));
    }
    accounts::insert_key(conn, key)?;
    let account = accounts::account_by_id(conn, key.account)?;
    let handle = account.map(|account| account.handle).unwrap_or_default();
    author.note(
        conn,
        "key.create",
        &key.id,
        (None, Some(audit_value(key, &handle))),
        now,
    )
}

fn read_issued_key(
    conn: &mut Conn<'_>,
    id: KeyId,
    secret: Option<Secret>,
    now: Timestamp,
) -> Result<IssuedKey, Error> {
    let record = accounts::key_record(conn, id, now)?.ok_or_else(not_found)?;
    Ok(IssuedKey {
        record,
        secret,
        dependents: None,
    })
}

/// Changes to a key; `None` leaves a value as it is, `Some(None)` removes the limit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeyChanges {
    pub name: Option<String>,
    pub scopes: Option<Vec<Scope>>,
    pub models: Option<Option<Vec<String>>>,
    pub networks: Option<Option<Vec<IpNet>>>,
    pub rpm: Option<u32>,
    pub max_running: Option<u32>,
    pub budget: Option<Option<MicroDollars>>,
    pub budget_period: Option<Option<BudgetPeriod>>,
    pub approve_above: Option<Option<MicroDollars>>,
    pub refuses_housekeeping: Option<bool>,
    pub expires_at: Option<Option<Timestamp>>,
}

impl KeyChanges {
    fn apply(self, key: &mut ApiKey) {
        fn set<T>(to: &mut T, from: Option<T>) {
            if let Some(value) = from {
                *to = value;
            }
        }
        set(&mut key.name, self.name);
        set(&mut key.scopes, self.scopes.map(distinct));
        set(
            &mut key.models,
            self.models.map(|models| models.map(distinct)),
        );
        set(
            &mut key.networks,
            self.networks.map(|networks| networks.map(distinct)),
        );
        set(&mut key.rpm, self.rpm);
        set(&mut key.max_running, self.max_running);
        set(&mut key.budget, self.budget);
        set(&mut key.budget_period, self.budget_period);
        set(&mut key.approve_above, self.approve_above);
        set(&mut key.refuses_housekeeping, self.refuses_housekeeping);
        set(&mut key.expires_at, self.expires_at);
    }
}

/// Changes a key's settings, from its next request on.
pub async fn change(
    app: &App,
    operation: OperatorAction<'_, IssuedKey>,
    id: KeyId,
    change: KeyChanges,
) -> Result<IssuedKey, Error> {
    check_models(app, change.models.as_ref().and_then(Option::as_deref))?;
    let now = app.clock.now();
    operation
        .write(app, move |conn, author| {
            let KeyRecord {
                mut key, account, ..
            } = changeable_key(conn, id, now)?;
            let before = audit_value(&key, &account);
            let sets_period = change.budget_period.flatten().is_some();
            change.apply(&mut key);
            if key.budget.is_none() {
                if sets_period {
                    let message = "A key without a budget cannot have a budget period.";
                    let code = ErrorCode::MissingField;
                    return Err(Error::at_field(code, "budget_usd", message));
                }
                // The period of a removed budget would silently apply to the next budget.
                key.budget_period = None;
            }
            accounts::update_key(conn, &key)?;
            let changed = (Some(before), Some(audit_value(&key, &account)));
            author.note(conn, "key.update", &id, changed, now)?;
            read_issued_key(conn, id, None, now)
        })
        .await
}

/// Gives a key another secret. The previous secret is accepted for `grace`; older ones are not
/// accepted any more. Sessions end at once; the key's webhook endpoints stay active unless
/// `ends_webhooks`.
pub async fn rotate(
    app: &App,
    operation: OperatorAction<'_, IssuedKey>,
    id: KeyId,
    grace: Duration,
    ends_webhooks: bool,
) -> Result<IssuedKey, Error> {
    if grace > MAX_GRACE {
        let message = "Must be at most 30 days.";
        return Err(Error::at_field(ErrorCode::InvalidValue, "grace", message));
    }
    let secret = generate().map_err(Error::internal)?;
    let now = app.clock.now();
    operation
        .write(app, move |conn, author| {
            let key = changeable_key(conn, id, now)?.key;
            let prefix: String = secret.expose().chars().take(12).collect();
            let new_secret = (prefix.as_str(), hash(secret.expose()));
            let until = now.plus(grace);
            accounts::rotate_secret(conn, id, (new_secret.0, &new_secret.1), until)?;
            let end_action = if ends_webhooks {
                KeyEndAction::Delete
            } else {
                KeyEndAction::Keep
            };
            // Called before the sessions are deleted below, because it counts them.
            let dependents = KeyDependents::end_endpoints_and_count_sessions(conn, (key.account, id), end_action, author, now)?;
            // Sessions were begun with the former secret, which may have leaked.
            store::sessions::delete_of_key(conn, id)?;
            let after =
                json!({"prefix": prefix, "former_until": until.rfc3339(), "ties": dependents.audit_value()});
            let changed = (Some(json!({"prefix": key.prefix})), Some(after));
            author.note(conn, "key.rotate", &id, changed, now)?;
            Ok(IssuedKey {
                dependents: Some(dependents),
                ..read_issued_key(conn, id, Some(secret), now)?
            })
        })
        .await
}

/// What a revocation does besides ending the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RevocationOptions {
    /// Whether the key's webhook endpoints are deleted, instead of disabled.
    pub ends_webhooks: bool,
    /// What becomes of its open tasks.
    pub tasks: TasksAtEnd,
}

/// Revokes a key from its next request on; one that was revoked before stays as it is. Its sessions
/// end, its webhook endpoints receive nothing any more, and its tasks end as `options` say. Returns
/// the key, and whether it was valid.
pub async fn revoke(
    app: &App,
    operation: OperatorAction<'_, (IssuedKey, bool)>,
    id: KeyId,
    options: RevocationOptions,
) -> Result<(IssuedKey, bool), Error> {
    let now = app.clock.now();
    let revocation = operation.write(app, move |conn, author| {
        revoke_in(conn, author, id, options, now)
    });
    let (mut issued, was_valid) = revocation.await?;
    let account = issued.record.key.account;
    let deadline = Instant::now() + open_tasks::PROVIDER_WAIT;
    let tasks = open_tasks::cancel(app, (account, id), options.tasks, deadline).await;
    match tasks {
        // What really happened: a provider may have got a task while the key was being revoked, or
        // be unable to cancel its job.
        Ok(tasks) => {
            issued.record = get(app, id).await?;
            if let Some(dependents) = &mut issued.dependents {
                dependents.tasks = Some(tasks);
            }
        }
        // The key is revoked and nothing more is sent. Upkeep cancels the rest.
        Err(error) => {
            tracing::warn!(inside = ?error.internal_cause(), key_id = %id, "cannot cancel the tasks of a revoked key yet");
        }
    }
    Ok((issued, was_valid))
}

/// An account that was closed, and what ended with it.
#[derive(Debug)]
pub struct ClosedAccount {
    pub record: AccountRecord,
    /// The number of its keys that were valid, or had expired.
    pub keys_revoked: u32,
    /// The open tasks of all of its keys.
    pub tasks: KeyTasks,
}

/// Closes an account: all of its keys are revoked, as [`revoke`] does it, and it gets no new ones.
/// May be repeated with other options.
pub async fn close_account(
    app: &App,
    operation: OperatorAction<'_, ClosedAccount>,
    account: AccountId,
    options: RevocationOptions,
) -> Result<ClosedAccount, Error> {
    let now = app.clock.now();
    let closing = operation.write(app, move |conn, author| {
        close_account_in(conn, author, account, options, now)
    });
    let mut closed = closing.await?;
    let read = app
        .store
        .read(move |conn| accounts::keys_of(conn, account, now));
    let mut tasks = KeyTasks::default();
    // One for all keys.
    let deadline = Instant::now() + open_tasks::PROVIDER_WAIT;
    for (key, money, open_tasks) in read.await? {
        // Money is also held for cancelled tasks whose jobs continue.
        if open_tasks > 0 || money.held > MicroDollars::ZERO {
            let key = (account, key.id);
            tasks.add(open_tasks::cancel(app, key, options.tasks, deadline).await?);
        }
    }
    closed.tasks = tasks;
    let read = app
        .store
        .read(move |conn| accounts::record_of(conn, account));
    closed.record = read
        .await?
        .ok_or_else(|| Error::internal("an account vanished"))?;
    Ok(closed)
}

fn close_account_in(
    conn: &mut Conn<'_>,
    author: &ChangeAuthor,
    account: AccountId,
    options: RevocationOptions,
    now: Timestamp,
) -> Result<ClosedAccount, Error> {
    let (mut keys_revoked, mut tasks) = (0, KeyTasks::default());
    let mut revoke_all = |conn: &mut Conn<'_>, only_valid: bool| -> Result<(), Error> {
        for (key, _, open_tasks) in accounts::keys_of(conn, account, now)? {
            let is_valid = key.revoked_at.is_none();
            if is_valid || (!only_valid && open_tasks > 0) {
                let (issued, was_valid) = revoke_in(conn, author, key.id, options, now)?;
                keys_revoked += u32::from(was_valid);
                let dependents = issued.dependents;
                tasks.add(
                    dependents
                        .and_then(|dependents| dependents.tasks)
                        .unwrap_or_default(),
                );
            }
        }
        Ok(())
    };
    // The keys' rows first, as in the transactions that accept and end tasks.
    revoke_all(conn, false)?;
    let was_open = accounts::close(conn, account, now)?;
    // A key that was created meanwhile.
    revoke_all(conn, true)?;
    let record = accounts::record_of(conn, account)?
        .ok_or_else(|| Error::internal("an account vanished"))?;
    if was_open {
        let after = json!({"closed_at": now.rfc3339(), "keys_revoked": keys_revoked});
        let handle = &record.account.handle;
        author.note(conn, "account.close", handle, (None, Some(after)), now)?;
    }
    Ok(ClosedAccount {
        record,
        keys_revoked,
        tasks,
    })
}

/// The part of [`revoke`] that is one transaction. The numbers of tasks are those that will be
/// cancelled, and continue.
fn revoke_in(
    conn: &mut Conn<'_>,
    author: &ChangeAuthor,
    id: KeyId,
    options: RevocationOptions,
    now: Timestamp,
) -> Result<(IssuedKey, bool), Error> {
    // A second revocation changes no date, but may still end what the first one left.
    let was_valid = accounts::revoke_key(conn, id, now)?;
    let mut issued = read_issued_key(conn, id, None, now)?;
    accounts::set_tasks_at_end(conn, id, options.tasks)?;
    let end_action = if options.ends_webhooks {
        KeyEndAction::Delete
    } else {
        KeyEndAction::Disable
    };
    let account = issued.record.key.account;
    let mut dependents = KeyDependents::end_endpoints_and_count_sessions(
        conn,
        (account, id),
        end_action,
        author,
        now,
    )?;
    let sums = store::tasks::open_sums_of_key(conn, account, id)?;
    let tasks = KeyTasks::of_sums(sums, options.tasks);
    dependents.tasks = Some(tasks);
    // The sessions ended with the first revocation.
    if !was_valid {
        dependents.sessions_ended = 0;
    }
    if was_valid || tasks.cancelled > 0 {
        let revoked_at = issued.record.key.revoked_at.map(Timestamp::rfc3339);
        let after = json!({"revoked_at": revoked_at, "ties": dependents.audit_value()});
        author.note(conn, "key.revoke", &id, (None, Some(after)), now)?;
    }
    issued.dependents = Some(dependents);
    Ok((issued, was_valid))
}

/// A key with its money and use.
pub async fn get(app: &Ctx, id: KeyId) -> Result<KeyRecord, Error> {
    let now = app.clock.now();
    let read = app
        .store
        .read(move |conn| accounts::key_record(conn, id, now));
    read.await?.ok_or_else(not_found)
}

/// A page of keys, of one account or of all, and whether more follow.
pub async fn page(
    app: &Ctx,
    account: Option<AccountId>,
    page: PageQuery<KeyId>,
) -> Result<(Vec<KeyRecord>, bool), Error> {
    let (limit, one_more, now) = (page.limit, page.with_one_more(), app.clock.now());
    let read = app
        .store
        .long_read(move |conn| accounts::key_page(conn, account, one_more, now));
    let mut records = read.await?;
    let has_more = store::page::truncate_to_limit(&mut records, limit);
    Ok((records, has_more))
}

/// A key that can still be changed.
fn changeable_key(conn: &mut Conn<'_>, id: KeyId, now: Timestamp) -> Result<KeyRecord, Error> {
    let record = accounts::key_record(conn, id, now)?.ok_or_else(not_found)?;
    if record.key.revoked_at.is_some() {
        let message = "The API key was revoked. Create a new key.";
        return Err(Error::plain(ErrorCode::KeyRevoked, message));
    }
    Ok(record)
}

/// Refuses names that no model has.
pub fn check_models(app: &AppParts, models: Option<&[String]>) -> Result<(), Error> {
    let catalog = app.models.catalog.load();
    let is_known = |name: &String| catalog.models().iter().any(|model| model.id == *name);
    let unknown = models
        .unwrap_or_default()
        .iter()
        .position(|name| !is_known(name));
    match unknown {
        None => Ok(()),
        Some(index) => {
            let message = "There is no model with this name.";
            let param = format!("models[{index}]");
            Err(Error::at_field(ErrorCode::InvalidValue, param, message))
        }
    }
}

/// A key's settings for the audit log.
fn audit_value(key: &ApiKey, account: &str) -> Value {
    json!({
        "name": key.name,
        "account": account,
        "prefix": key.prefix,
        "scopes": key.scopes.iter().map(|scope| scope.name()).collect::<Vec<_>>(),
        "models": key.models,
        "networks": key.networks,
        "rpm": key.rpm,
        "max_running": key.max_running,
        "budget_usd": key.budget.map(|budget| budget.to_string()),
        "budget_period": key.budget_period.map(BudgetPeriod::name),
        "approve_above_usd": key.approve_above.map(|amount| amount.to_string()),
        "refuse_housekeeping": key.refuses_housekeeping,
        "expires_at": key.expires_at.map(Timestamp::rfc3339),
    })
}
