//! The audit log: who changed what, and from where. An entry is written in the transaction of the
//! change that it records; `operator` has the functions that do both.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::app::{AppParts, Ctx};
use mediagate_model::account::ApiKey;
use mediagate_model::audit::{Actor, ActorKind, AuditEntry};
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AuditId, KeyId, RequestId};
use mediagate_store::audit::AuditFilter;
use mediagate_store::{self as store, Conn};

/// The author of a change, and how it was made.
#[derive(Debug, Clone)]
pub struct ChangeAuthor {
    actor: Actor,
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
            request_id: Some(request_id),
            address: Some(address),
        }
    }

    /// The key of a request.
    pub fn key_id(&self) -> Option<KeyId> {
        let is_key = self.actor.kind == ActorKind::Key;
        self.actor.id.as_ref().filter(|_| is_key)?.parse().ok()
    }

    /// Logs a change, in its transaction. The values must not contain secrets.
    pub fn note(
        &self,
        conn: &mut Conn<'_>,
        action: &'static str,
        target: &impl ToString,
        (before, after): (Option<Value>, Option<Value>),
        now: Timestamp,
    ) -> Result<(), Error> {
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
        };
        Ok(store::audit::insert(conn, &entry)?)
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
        author.note(conn, "operator.refused", &call, (None, Some(after)), now)
    });
    store::await_within_limit(write).await
}

/// At most `limit` entries, newest first, and whether more follow. `after` is the last entry of the
/// page before.
pub async fn page(
    app: &Ctx,
    filter: AuditFilter,
    after: Option<AuditId>,
    limit: u32,
) -> Result<(Vec<AuditEntry>, bool), Error> {
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
    Ok((entries, has_more))
}
