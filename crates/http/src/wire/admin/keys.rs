//! API keys as an operator sees them.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use mediagate_core::domain::keys::{IssuedKey, KeyDependents, KeyTasks};
use mediagate_core::domain::webhooks::KeyEndAction;
use mediagate_model::account::{BudgetPeriod, KeyRecord, Scope};
use mediagate_model::clock::Timestamp;
use mediagate_model::money::MicroDollars;
use mediagate_model::webhook::WebhookEndpoint;

/// An API key. All amounts are in US dollars.
#[derive(Debug, Serialize, ToSchema)]
pub struct AdminKey {
    /// The key's id.
    pub id: String,
    /// Always `key`.
    pub object: &'static str,
    /// The secret key. Returned only once, in the response that creates or rotates it; null if that
    /// request is repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub key: Option<Value>,
    /// Number of sessions that ended, if this request revoked or rotated the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions_ended: Option<i64>,
    /// The key's webhook endpoints, if this request revoked or rotated the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhooks: Option<Vec<KeyWebhook>>,
    /// The key's open tasks, if this request revoked the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<KeyTasksObject>,
    /// Display name.
    pub name: String,
    /// The handle of its account.
    pub account: String,
    /// The first characters of the secret.
    pub prefix: String,
    /// The key's scopes.
    pub scopes: Vec<&'static str>,
    /// Spending limit, in total or per `budget_period`. Null if unlimited.
    #[schema(required = true)]
    pub budget_usd: Option<String>,
    /// Period after which the budget renews: `day`, `week` or `month`, in UTC. Null if it never
    /// renews.
    #[schema(required = true)]
    pub budget_period: Option<&'static str>,
    /// Price above which orders wait for approval. Null if no order does.
    #[schema(required = true)]
    pub approve_above_usd: Option<String>,
    /// Amount that can still be reserved within the budget. Null if there is no budget.
    #[schema(required = true)]
    pub available_usd: Option<String>,
    /// Total spent with this key.
    pub spent_usd: String,
    /// Amount spent in the current budget period. Null if the budget does not renew.
    #[schema(required = true)]
    pub period_spent_usd: Option<String>,
    /// Reserved for open tasks.
    pub held_usd: String,
    /// Requests per minute.
    pub rpm: u32,
    /// Maximum number of open tasks.
    pub max_running: u32,
    /// Number of open tasks.
    pub open_tasks: u32,
    /// Models that the key may use. Null if it may use all models.
    #[schema(required = true)]
    pub models: Option<Vec<String>>,
    /// Networks from which the key may be used, in CIDR notation. Null if it may be used from any
    /// network.
    #[schema(required = true)]
    pub networks: Option<Vec<String>>,
    /// Whether the key rejects requests that a chat interface sends on its own, for example for
    /// titles and tags.
    pub refuse_housekeeping: bool,
    /// Time of creation.
    pub created_at: String,
    /// Expiry time. Null if it never expires.
    #[schema(required = true)]
    pub expires_at: Option<String>,
    /// Time of revocation. Null if it is not revoked.
    #[schema(required = true)]
    pub revoked_at: Option<String>,
    /// Time of last use, accurate to one minute.
    #[schema(required = true)]
    pub last_used_at: Option<String>,
    /// Time until which the key before the last rotation works too. Null if it does not work.
    #[schema(required = true)]
    pub former_until: Option<String>,
}

/// A webhook endpoint of a key that was revoked or rotated.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyWebhook {
    /// The endpoint's id.
    pub id: String,
    /// URL that receives the events, without its query.
    pub url: String,
    /// Display name.
    pub description: String,
    /// What happened to the endpoint: `deleted`, `disabled` or `kept`. Another key of the account
    /// can enable a disabled endpoint, which then belongs to that key.
    pub state: &'static str,
}

/// What became of the open tasks of keys that were revoked.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyTasksObject {
    /// Number of tasks that were cancelled.
    pub cancelled: u32,
    /// Number of tasks that continue. Cancelled tasks whose providers have not cancelled their jobs
    /// count as these, because what the providers complete is charged.
    pub continuing: u32,
    /// Amount held for the tasks that continue, in US dollars.
    pub held_usd: String,
}

impl KeyTasksObject {
    pub fn new(tasks: KeyTasks) -> Self {
        Self {
            cancelled: tasks.cancelled,
            continuing: tasks.continuing,
            held_usd: tasks.held.to_string(),
        }
    }
}

impl KeyWebhook {
    fn new(endpoint: &WebhookEndpoint, end: KeyEndAction) -> Self {
        // The query of a receiver's URL may contain a token.
        let url = endpoint.url.split(['?', '#']).next();
        Self {
            id: endpoint.id.to_string(),
            url: url.unwrap_or_default().to_owned(),
            description: endpoint.description.clone(),
            state: match end {
                KeyEndAction::Delete => "deleted",
                KeyEndAction::Disable => "disabled",
                KeyEndAction::Keep => "kept",
            },
        }
    }
}

impl AdminKey {
    pub fn new(record: &KeyRecord) -> Self {
        let (key, money) = (&record.key, &record.money);
        let text = |amount: Option<MicroDollars>| amount.map(|amount| amount.to_string());
        let networks = key.networks.as_ref();
        Self {
            id: key.id.to_string(),
            object: "key",
            key: None,
            sessions_ended: None,
            webhooks: None,
            tasks: None,
            name: key.name.clone(),
            account: record.account.clone(),
            prefix: key.prefix.clone(),
            scopes: key.scopes.iter().copied().map(Scope::name).collect(),
            budget_usd: text(money.budget),
            budget_period: money.period.map(BudgetPeriod::name),
            approve_above_usd: text(key.approve_above),
            available_usd: text(money.available()),
            spent_usd: money.spent.to_string(),
            period_spent_usd: money.period.map(|_| money.counted.to_string()),
            held_usd: money.held.to_string(),
            rpm: key.rpm,
            max_running: key.max_running,
            open_tasks: record.open_tasks,
            models: key.models.clone(),
            networks: networks.map(|networks| networks.iter().map(ToString::to_string).collect()),
            refuse_housekeeping: key.refuses_housekeeping,
            created_at: key.created_at.rfc3339(),
            expires_at: key.expires_at.map(Timestamp::rfc3339),
            revoked_at: key.revoked_at.map(Timestamp::rfc3339),
            last_used_at: record.last_used_at.map(Timestamp::rfc3339),
            former_until: record.former_until.map(Timestamp::rfc3339),
        }
    }

    /// A key with a new secret, which only the first answer contains.
    pub fn with_secret(issued: &IssuedKey, is_first: bool) -> Self {
        let secret = issued.secret.as_ref().filter(|_| is_first);
        let secret = secret.map(|secret| secret.expose().into());
        Self {
            key: Some(secret.unwrap_or(Value::Null)),
            ..Self::with_dependents(issued)
        }
    }

    /// A key with its sessions and webhook endpoints, if it was just revoked or rotated.
    pub fn with_dependents(issued: &IssuedKey) -> Self {
        let dependents = issued.dependents.as_ref();
        let webhooks = |dependents: &KeyDependents| {
            let webhooks = dependents.webhooks.iter();
            webhooks
                .map(|webhook| KeyWebhook::new(webhook, dependents.webhooks_end))
                .collect()
        };
        Self {
            sessions_ended: dependents.map(|dependents| dependents.sessions_ended),
            webhooks: dependents.map(webhooks),
            tasks: dependents
                .and_then(|dependents| dependents.tasks)
                .map(KeyTasksObject::new),
            ..Self::new(&issued.record)
        }
    }
}
