//! Entries of the audit log: actor, action, target, before and after.

use serde_json::Value;

use crate::clock::Timestamp;
use crate::ids::{AccountId, AuditId};

/// What kind of actor changed something.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub enum ActorKind {
    /// A request with an API key.
    Key,
    /// A command on the machine.
    Command,
    /// The configuration, as it was read.
    Configuration,
}

impl ActorKind {
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// The author of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    pub kind: ActorKind,
    /// The API key's id.
    pub id: Option<String>,
    /// The API key's name, the command, or the configuration's file.
    pub name: String,
}

/// One change. Never holds a secret.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    pub id: AuditId,
    pub at: Timestamp,
    pub actor: Actor,
    /// Noun and verb: `key.create`.
    pub action: String,
    /// The id or name of what was changed.
    pub target: String,
    pub before: Option<Value>,
    pub after: Option<Value>,
    pub request_id: Option<String>,
    pub address: Option<String>,
    /// The account in whose log it is; `None` for the operators' log.
    pub account: Option<AccountId>,
}
