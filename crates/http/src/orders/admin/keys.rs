//! The requests that create, change and rotate an API key.

use std::time::Duration;

use ipnet::IpNet;
use serde_json::Value;

use super::fields::{
    AmountField, DurationField, InstantField, LineText, ListField, ModelName, PeriodField,
    or_removed,
};
use crate::fields::types::{BooleanField, IntegerField, OptionalText, RequiredField};
use crate::fields::{self, BodyFields, request};
use mediagate_core::domain::accounts;
use mediagate_core::domain::keys::{self, KeyChanges, NewKey};
use mediagate_model::account::Scope;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};

const MAX_LIMIT: i64 = u32::MAX as i64;

request! {
    /// An API key to create.
    pub struct KeyRequest {
        /// Display name, at most 100 characters.
        name: RequiredField<LineText<100>>,
        /// Handle of the account. The account is created if it does not exist. Default: `default`.
        account: OptionalText<40>,
        /// The key's scopes. Default: all scopes except `approve`, and `admin`, which includes all
        /// others but `approve`.
        scopes: ListField<Scope>,
        /// Spending limit in US dollars, as a string.
        budget_usd: AmountField<false>,
        /// Period after which the budget renews: `day`, `week` or `month`, in UTC. Default: it
        /// never renews.
        budget_period: PeriodField,
        /// Price in US dollars, as a string, above which orders wait for approval. Default: no order
        /// does.
        approve_above_usd: AmountField<false>,
        /// Maximum number of requests per minute. Default: 600.
        rpm: IntegerField<1, MAX_LIMIT>,
        /// Maximum number of open tasks. Default: 100.
        max_running: IntegerField<1, MAX_LIMIT>,
        /// Models that the key may use. Default: all models.
        models: ListField<ModelName>,
        /// Networks from which the key may be used, in CIDR notation. Default: any network.
        networks: ListField<IpNet>,
        /// Whether to reject requests that a chat interface sends on its own, for example for
        /// titles, tags or follow-up questions.
        refuse_housekeeping: BooleanField,
        /// Expiry time, RFC 3339. Default: it never expires.
        expires_at: InstantField,
    }
}

request! {
    /// Changes to an API key. Omitted fields stay unchanged. Null removes a limit. `rpm` and
    /// `max_running` then have their defaults.
    pub struct KeyChange {
        /// Display name, at most 100 characters.
        name: LineText<100>,
        /// The key's scopes.
        scopes: ListField<Scope>,
        /// Spending limit in US dollars, as a string.
        budget_usd: AmountField<false>,
        /// Period after which the budget renews: `day`, `week` or `month`, in UTC. The key must
        /// have a budget.
        budget_period: PeriodField,
        /// Price in US dollars, as a string, above which orders wait for approval. Orders that
        /// wait already are not changed.
        approve_above_usd: AmountField<false>,
        /// Maximum number of requests per minute. Null for 600.
        rpm: IntegerField<1, MAX_LIMIT>,
        /// Maximum number of open tasks. Null for 100.
        max_running: IntegerField<1, MAX_LIMIT>,
        /// Models that the key may use.
        models: ListField<ModelName>,
        /// Networks from which the key may be used, in CIDR notation.
        networks: ListField<IpNet>,
        /// Whether to reject requests that a chat interface sends on its own, for example for
        /// titles, tags or follow-up questions.
        refuse_housekeeping: BooleanField,
        /// Expiry time, RFC 3339.
        expires_at: InstantField,
    }
}

request! {
    /// Options of a key rotation.
    pub struct KeyRotation {
        /// How long the previous key stays valid, for example `15m` or `1d`. At most 30 days.
        /// Default: it stops working at once.
        grace: DurationField,
        /// Whether to delete the key's webhook endpoints. Default: they stay active. The response
        /// lists them.
        end_webhooks: BooleanField,
    }
}

/// Reads a new key and the handle of its account.
pub fn read_new(body: &Value, now: Timestamp) -> Result<(Option<String>, NewKey), Error> {
    fields::read_strict(body, &KeyRequest::object(), &[], |body| {
        let request = KeyRequest::read(body);
        // Creating the account checks this too, but knows only its own name of the field.
        let handle = request.account.as_deref();
        if handle.is_some_and(|handle| !accounts::is_handle(handle)) {
            let message = accounts::HANDLE_RULE;
            body.fault("account", ErrorCode::InvalidValue, message);
        }
        // A period without an amount would look like a limit and limit nothing.
        if request.budget_period.is_some() && request.budget_usd.is_none() {
            let message = "This field is required if budget_period is set.";
            body.fault("budget_usd", ErrorCode::MissingField, message);
        }
        if request.expires_at.is_some_and(|at| at <= now) {
            let message = "Must be in the future.";
            body.fault("expires_at", ErrorCode::InvalidValue, message);
        }
        let new_key = NewKey {
            name: request.name?,
            scopes: request.scopes.unwrap_or_default(),
            models: request.models.map(names),
            networks: request.networks,
            rpm: request.rpm.and_then(to_u32),
            max_running: request.max_running.and_then(to_u32),
            budget: request.budget_usd,
            budget_period: request.budget_period,
            approve_above: request.approve_above_usd,
            refuses_housekeeping: request.refuse_housekeeping.unwrap_or(false),
            expires_at: request.expires_at,
        };
        Some((request.account, new_key))
    })
}

/// Reads a change.
pub fn read_change(body: &Value) -> Result<KeyChanges, Error> {
    fields::read_strict(body, &KeyChange::object(), &["account"], |body| {
        let request = KeyChange::read(body);
        Some(KeyChanges {
            name: request.name,
            scopes: request.scopes,
            models: or_removed(body, "models", request.models.map(names)),
            networks: or_removed(body, "networks", request.networks),
            rpm: or_default(body, "rpm", request.rpm, keys::DEFAULT_RPM),
            max_running: or_default(
                body,
                "max_running",
                request.max_running,
                keys::DEFAULT_MAX_RUNNING,
            ),
            budget: or_removed(body, "budget_usd", request.budget_usd),
            budget_period: or_removed(body, "budget_period", request.budget_period),
            approve_above: or_removed(body, "approve_above_usd", request.approve_above_usd),
            refuses_housekeeping: request.refuse_housekeeping,
            expires_at: or_removed(body, "expires_at", request.expires_at),
        })
    })
}

/// Reads how long the previous secret stays valid, and whether to delete the webhook endpoints.
pub fn read_rotation(body: &Value) -> Result<(Duration, bool), Error> {
    fields::read_strict(body, &KeyRotation::object(), &[], |body| {
        let request = KeyRotation::read(body);
        let grace = request.grace.unwrap_or_default();
        Some((grace, request.end_webhooks.unwrap_or(false)))
    })
}

/// A limit of a change, which null sets to its default: every key has this limit.
fn or_default(body: &BodyFields<'_>, name: &str, limit: Option<i64>, default: u32) -> Option<u32> {
    let limit = or_removed(body, name, limit.and_then(to_u32))?;
    Some(limit.unwrap_or(default))
}

fn names(names: Vec<ModelName>) -> Vec<String> {
    names.into_iter().map(|name| name.0).collect()
}

fn to_u32(number: i64) -> Option<u32> {
    u32::try_from(number).ok()
}
