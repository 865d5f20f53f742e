//! The requests that create, change and rotate an API key.

use std::time::Duration;

use ipnet::IpNet;
use serde_json::Value;

use super::fields::{
    AmountField, DurationField, InstantField, ListField, ModelName, PeriodField, or_removed,
};
use crate::fields::types::{BooleanField, IntegerField, NonBlankText, OptionalText, RequiredField};
use crate::fields::{self, BodyFields, request};
use mediagate_core::domain::keys::{KeyChanges, NewKey};
use mediagate_model::account::Scope;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::{Error, ErrorCode};

const MOST: i64 = u32::MAX as i64;

request! {
    /// An API key to create.
    pub struct KeyRequest {
        /// Name for people, up to 100 characters.
        name: RequiredField<NonBlankText<100>>,
        /// The handle of its account, which is made if there is none; `default` by default.
        account: OptionalText<40>,
        /// What it may do; all but `admin` by default.
        scopes: ListField<Scope>,
        /// Limit on the cost of its tasks in US dollars, as text.
        budget_usd: AmountField<false>,
        /// How often the budget renews, in UTC: `day`, `week` or `month`; never by default.
        budget_period: PeriodField,
        /// Requests per minute, 600 by default.
        rpm: IntegerField<1, MOST>,
        /// Limit of open tasks, 100 by default.
        max_running: IntegerField<1, MOST>,
        /// Models that it may use; all by default.
        models: ListField<ModelName>,
        /// Networks that it may be used from, as CIDR; any by default.
        networks: ListField<IpNet>,
        /// Whether chats that an interface holds on its own, for titles, tags or follow-up questions, are refused.
        refuse_housekeeping: BooleanField,
        /// When it expires, RFC 3339; never by default.
        expires_at: InstantField,
    }
}

request! {
    /// What to change of an API key: what is left out stays, and null removes a limit.
    pub struct KeyChange {
        /// Name for people, up to 100 characters.
        name: NonBlankText<100>,
        /// What it may do.
        scopes: ListField<Scope>,
        /// Limit on the cost of its tasks in US dollars, as text.
        budget_usd: AmountField<false>,
        /// How often the budget renews, in UTC: `day`, `week` or `month`.
        budget_period: PeriodField,
        /// Requests per minute.
        rpm: IntegerField<1, MOST>,
        /// Limit of open tasks.
        max_running: IntegerField<1, MOST>,
        /// Models that it may use.
        models: ListField<ModelName>,
        /// Networks that it may be used from, as CIDR.
        networks: ListField<IpNet>,
        /// Whether chats that an interface holds on its own, for titles, tags or follow-up questions, are refused.
        refuse_housekeeping: BooleanField,
        /// When it expires, RFC 3339.
        expires_at: InstantField,
    }
}

request! {
    /// How an API key is exchanged.
    pub struct KeyRotation {
        /// How long the key before is still accepted, as `15m` or `1d`, 30 days at most; not at all by
        /// default.
        grace: DurationField,
        /// Whether its webhook endpoints are deleted; by default they go on, and the answer names them.
        end_webhooks: BooleanField,
    }
}

/// Reads a new key and the handle of its account.
pub fn read_new(body: &Value, now: Timestamp) -> Result<(Option<String>, NewKey), Error> {
    fields::read(body, |body| {
        let request = KeyRequest::read(body);
        if request.budget_period.is_some() && request.budget_usd.is_none() {
            let message = "A budget that renews needs an amount.";
            body.fault("budget_usd", ErrorCode::MissingField, message);
        }
        let expires_in = request.expires_at.map(|at| lifetime(body, at, now));
        let new = NewKey {
            name: request.name?,
            scopes: request.scopes.unwrap_or_default(),
            models: request.models.map(names),
            networks: request.networks,
            rpm: request.rpm.and_then(small),
            max_running: request.max_running.and_then(small),
            budget: request.budget_usd,
            budget_period: request.budget_period,
            refuses_housekeeping: request.refuse_housekeeping.unwrap_or(false),
            expires_in,
        };
        Some((request.account, new))
    })
}

/// Reads a change.
pub fn read_change(body: &Value) -> Result<KeyChanges, Error> {
    fields::read(body, |body| {
        let request = KeyChange::read(body);
        Some(KeyChanges {
            name: request.name,
            scopes: request.scopes,
            models: or_removed(body, "models", request.models.map(names)),
            networks: or_removed(body, "networks", request.networks),
            rpm: request.rpm.and_then(small),
            max_running: request.max_running.and_then(small),
            budget: or_removed(body, "budget_usd", request.budget_usd),
            budget_period: or_removed(body, "budget_period", request.budget_period),
            refuses_housekeeping: request.refuse_housekeeping,
            expires_at: or_removed(body, "expires_at", request.expires_at),
        })
    })
}

/// Reads for how long the key before is accepted, and whether its webhook endpoints end.
pub fn read_rotation(body: &Value) -> Result<(Duration, bool), Error> {
    fields::read(body, |body| {
        let request = KeyRotation::read(body);
        let grace = request.grace.unwrap_or_default();
        Some((grace, request.end_webhooks.unwrap_or(false)))
    })
}

fn lifetime(body: &BodyFields<'_>, at: Timestamp, now: Timestamp) -> Duration {
    if at <= now {
        body.fault(
            "expires_at",
            ErrorCode::InvalidValue,
            "Must be in the future.",
        );
    }
    at.since(now)
}

fn names(names: Vec<ModelName>) -> Vec<String> {
    names.into_iter().map(|name| name.0).collect()
}

fn small(number: i64) -> Option<u32> {
    u32::try_from(number).ok()
}
