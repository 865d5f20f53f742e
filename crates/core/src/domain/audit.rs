//! The audit logs: who changed what, and from where. An entry is written in the transaction of the
//! change that it records; `operator` has the functions that do both.
//!
//! Operators, commands and the configuration write into one log, which is kept forever. What other
//! keys do is in a log of their account, which they can neither fill nor use to bury the operators'
//! entries: a key adds only so many entries an hour, texts in them are cut, and they end.

use std::net::IpAddr;
use std::time::Duration;

use serde_json::{Value, json};

use crate::app::{AppParts, Ctx};
use crate::domain::accounts;
use mediagate_model::account::{ApiKey, Scope};
use mediagate_model::audit::{Actor, ActorKind, AuditEntry};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, AuditId, KeyId, RequestId};
use mediagate_store::audit::{AuditFilter, AuditLog};
use mediagate_store::{self as store, Conn};

/// Maximum number of entries that a key adds to its account's log in an hour.
pub const MAX_HOURLY_CHANGES: u32 = 60;
const HOUR: Duration = Duration::from_hours(1);
/// Longest text in an account's log.
const MAX_TEXT_CHARS: usize = 200;
/// Entries that are removed in one transaction.
const BATCH: u32 = 1000;

/// The author of a change, and how it was made.
#[derive(Debug, Clone)]
pub struct ChangeAuthor {
    actor: Actor,
    /// The account in whose log its changes are; `None` for the operators' log.
    account: Option<AccountId>,
    request_id: Option<RequestId>,
    address: Option<IpAddr>,
}

impl ChangeAuthor {
    /// A user of the command line, with this command.
    pub fn command(name: &str) -> Self {
        Self::without_request(ActorKind::Command, name)
    }

    /// The configuration, read from this file.
    pub fn configuration(file: &str) -> Self {
        Self::without_request(ActorKind::Configuration, file)
    }

    fn without_request(kind: ActorKind, name: &str) -> Self {
        let actor = Actor {
            kind,
            id: None,
            name: name.to_owned(),
        };
        Self {
            actor,
            account: None,
            request_id: None,
            address: None,
        }
    }

    /// A request with this key.
    pub fn key(key: &ApiKey, request_id: RequestId, address: IpAddr) -> Self {
        let actor = Actor {
            kind: ActorKind::Key,
            id: Some(key.id.to_string()),
            name: key.name.clone(),
        };
        Self {
            actor,
            account: (!key.may(Scope::Admin)).then_some(key.account),
            request_id: Some(request_id),
            address: Some(address),
        }
    }

    /// The key of a request.
    pub fn key_id(&self) -> Option<KeyId> {
        let is_key = self.actor.kind == ActorKind::Key;
        self.actor.id.as_ref().filter(|_| is_key)?.parse().ok()
    }

    /// Logs a change, in its transaction. The values must not contain secrets. An error if the key
    /// has made too many changes, none of which may happen without an entry.
    pub fn note(
        &self,
        conn: &mut Conn<'_>,
        action: &'static str,
        target: &impl ToString,
        values: (Option<Value>, Option<Value>),
        now: Timestamp,
    ) -> Result<(), Error> {
        if let Some(wait) = self.wait(conn, now)? {
            let message = format!(
                "The API key has made {MAX_HOURLY_CHANGES} changes within an hour. Try again later."
            );
            let seconds = u32::try_from(wait.as_secs()).unwrap_or(u32::MAX);
            let code = ErrorCode::RateLimitExceeded;
            return Err(Error::retry_later(code, message, seconds.saturating_add(1)));
        }
        self.note_once(conn, action, target, values, now)
    }

    /// Like [`Self::note`], for what must not be refused: without an entry if there were too many.
    pub fn note_if_room(
        &self,
        conn: &mut Conn<'_>,
        action: &'static str,
        target: &impl ToString,
        values: (Option<Value>, Option<Value>),
        now: Timestamp,
    ) -> Result<(), Error> {
        match self.wait(conn, now)? {
            Some(_) => Ok(()),
            None => self.note_once(conn, action, target, values, now),
        }
    }

    /// How long until there is room for another entry of this author; `None` if there is.
    fn wait(&self, conn: &mut Conn<'_>, now: Timestamp) -> Result<Option<Duration>, Error> {
        let (Some(account), Some(key)) = (self.account, &self.actor.id) else {
            return Ok(None);
        };
        let owner = (account, key.as_str());
        let since = now.minus(HOUR);
        let earlier = store::audit::time_of_earlier(conn, owner, MAX_HOURLY_CHANGES, since)?;
        Ok(earlier.map(|at| at.plus(HOUR).since(now)))
    }

    /// Like [`Self::note`], without its limit: for what can be done only once to each task.
    pub fn note_once(
        &self,
        conn: &mut Conn<'_>,
        action: &'static str,
        target: &impl ToString,
        (mut before, mut after): (Option<Value>, Option<Value>),
        now: Timestamp,
    ) -> Result<(), Error> {
        if self.account.is_some() {
            for value in [&mut before, &mut after].into_iter().flatten() {
                cut_texts(value);
            }
        }
        let entry = AuditEntry {
            id: AuditId::new(),
            at: now,
            actor: self.actor.clone(),
            action: action.to_owned(),
            target: target.to_string(),
            before,
            after,
            request_id: self.request_id.as_ref().map(ToString::to_string),
            address: self.address.map(|address| address.to_string()),
            account: self.account,
        };
        Ok(store::audit::insert(conn, &entry)?)
    }
}

/// Cuts the long texts in a value.
fn cut_texts(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(MAX_TEXT_CHARS) {
                text.truncate(end);
                text.push('…');
            }
        }
        Value::Array(items) => items.iter_mut().for_each(cut_texts),
        Value::Object(members) => members.values_mut().for_each(cut_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Removes old entries of accounts' logs.
pub async fn forget_old(app: &Ctx) -> Result<(), Error> {
    let before = app.clock.cutoff(app.config.audit_ttl);
    loop {
        let deletion = app
            .store
            .write(move |conn| store::audit::forget(conn, before, BATCH));
        if deletion.await? < u64::from(BATCH) {
            return Ok(());
        }
    }
}

/// Logs that an operator's call was refused, at most once a minute for the same call.
pub async fn note_refused(
    app: &AppParts,
    author: ChangeAuthor,
    key: KeyId,
    call: String,
    code: ErrorCode,
) -> Result<(), Error> {
    // One atomic step: of many simultaneous refusals only one sees that the entry is new. Without a
    // limit, a key could fill the audit log with calls that it may not make.
    let entry = app
        .caches
        .noted_refusals
        .entry((key, call.clone(), code))
        .or_insert(());
    if !entry.is_fresh() {
        return Ok(());
    }
    let now = app.clock.now();
    let write = app.store.write(move |conn| -> Result<(), Error> {
        let after = json!({"status": code.status(), "code": code.name()});
        author.note_if_room(conn, "operator.refused", &call, (None, Some(after)), now)
    });
    store::await_within_limit(write).await
}

/// The log of the account with this handle, or those of all accounts for `*`; the operators' log if
/// no account is named.
pub async fn log_of(app: &Ctx, account: Option<&str>) -> Result<AuditLog, Error> {
    Ok(match account {
        None => AuditLog::Operators,
        Some("*") => AuditLog::Accounts,
        Some(handle) => {
            let account = accounts::by_handle(app, handle).await?;
            AuditLog::Account(account.ok_or_else(accounts::not_found)?.id)
        }
    })
}

/// An entry, and the handle of the account in whose log it is.
pub type ListedEntry = (AuditEntry, Option<String>);

/// At most `limit` entries, newest first, and whether more follow. `after` is the last entry of the
/// page before.
pub async fn page(
    app: &Ctx,
    filter: AuditFilter,
    after: Option<AuditId>,
    limit: u32,
) -> Result<(Vec<ListedEntry>, bool), Error> {
    let read = app.store.long_read(move |conn| -> Result<_, Error> {
        let start = match after {
            None => None,
            Some(id) => match store::audit::time_of(conn, id)? {
                Some(at) => Some((at, id)),
                None => return Err(Error::unknown_cursor()),
            },
        };
        Ok(store::audit::newest(conn, &filter, start, limit + 1)?)
    });
    let mut entries = store::await_within_limit(read).await?;
    let has_more = store::page::truncate_to_limit(&mut entries, limit);
    let ids = entries.iter().filter_map(|entry| entry.account);
    let handles = accounts::handles(app, ids).await?;
    let listed = entries.into_iter().map(|entry| {
        let handle = entry.account.and_then(|id| handles.get(&id).cloned());
        (entry, handle)
    });
    Ok((listed.collect(), has_more))
}
