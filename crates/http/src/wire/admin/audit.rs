//! Entries of the audit log.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use mediagate_model::audit::AuditEntry;
use mediagate_model::csv;

/// One change.
#[derive(Debug, Serialize, ToSchema)]
pub struct AuditObject {
    /// The entry's id.
    pub id: String,
    /// Always `audit_entry`.
    pub object: &'static str,
    /// When it was changed.
    pub at: String,
    /// Who changed it.
    pub actor: AuditActor,
    /// Noun and verb, as `key.create`.
    pub action: String,
    /// The id or name of what was changed.
    pub target: String,
    /// What was there before; null of what is new.
    #[schema(required = true, value_type = Option<Object>)]
    pub before: Option<Value>,
    /// What is there now; null of what is gone.
    #[schema(required = true, value_type = Option<Object>)]
    pub after: Option<Value>,
    /// The request that changed it.
    #[schema(required = true)]
    pub request_id: Option<String>,
    /// The address that the request came from.
    #[schema(required = true)]
    pub address: Option<String>,
}

/// Who changed something.
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
    pub fn new(entry: AuditEntry) -> Self {
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
        ];
        csv::line(&mut text, line);
    }
    text
}
