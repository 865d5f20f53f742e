//! Entries of the audit log.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use mediagate_model::audit::AuditEntry;
use mediagate_model::csv;

/// An entry of the audit log: one change, or one refused operator request.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditObject {
    /// The entry's id.
    pub id: String,
    /// Always `audit_entry`.
    pub object: &'static str,
    /// Time of the change.
    pub at: String,
    /// Who made the change.
    pub actor: AuditActor,
    /// The action, such as `key.create`.
    pub action: String,
    /// The id or name of the changed object.
    pub target: String,
    /// State before the change. Null if the object is new.
    #[schema(required = true, value_type = Option<Object>)]
    pub before: Option<Value>,
    /// State after the change. Null if the object was deleted.
    #[schema(required = true, value_type = Option<Object>)]
    pub after: Option<Value>,
    /// Id of the request that made the change.
    #[schema(required = true)]
    pub request_id: Option<String>,
    /// IP address of the client that made the change.
    #[schema(required = true)]
    pub address: Option<String>,
    /// Handle of the account in whose log the entry is. Null for the operators' log.
    #[schema(required = true)]
    pub account: Option<String>,
}

/// Who made a change.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditActor {
    /// `key`, `command` or `configuration`.
    pub kind: &'static str,
    /// The API key's id.
    #[schema(required = true)]
    pub id: Option<String>,
    /// The API key's name, the command, or the configuration's file.
    pub name: String,
}

impl AuditObject {
    /// An entry; `account` is the handle of the account in whose log it is.
    pub fn new(entry: AuditEntry, account: Option<String>) -> Self {
        Self {
            id: entry.id.to_string(),
            object: "audit_entry",
            at: entry.at.rfc3339(),
            actor: AuditActor {
                kind: entry.actor.kind.name(),
                id: entry.actor.id,
                name: entry.actor.name,
            },
            action: entry.action,
            target: entry.target,
            before: entry.before,
            after: entry.after,
            request_id: entry.request_id,
            address: entry.address,
            account,
        }
    }
}

/// The entries as CSV, with a header.
pub fn audit_csv(entries: &[AuditObject]) -> String {
    let names = [
        "id",
        "at",
        "actor_kind",
        "actor_id",
        "actor_name",
        "action",
        "target",
        "before",
        "after",
        "request_id",
        "address",
        "account",
    ];
    let mut text = String::new();
    csv::line(&mut text, names.map(csv::text));
    let json = |value: &Option<Value>| value.as_ref().map(ToString::to_string).unwrap_or_default();
    for entry in entries {
        let line = [
            csv::plain(&entry.id),
            csv::plain(&entry.at),
            csv::plain(entry.actor.kind),
            csv::text(entry.actor.id.as_deref().unwrap_or_default()),
            csv::text(&entry.actor.name),
            csv::text(&entry.action),
            csv::text(&entry.target),
            csv::text(json(&entry.before)),
            csv::text(json(&entry.after)),
            csv::text(entry.request_id.as_deref().unwrap_or_default()),
            csv::text(entry.address.as_deref().unwrap_or_default()),
            csv::text(entry.account.as_deref().unwrap_or_default()),
        ];
        csv::line(&mut text, line);
    }
    text
}
