//! An account and its keys: what they hold, spent and may.

use std::sync::atomic::Ordering;

use serde::Serialize;
use utoipa::ToSchema;

use crate::app::Parts;
use crate::clock::Timestamp;
use crate::domain::books::Standing;
use crate::model::account::{Account, ApiKey, Caller, KeyMoney, Scope};
use crate::model::money::Micros;

/// An account as it stands. All amounts are dollars.
#[derive(Debug, Serialize, ToSchema)]
pub struct AccountObject {
    /// Always `account`.
    pub object: &'static str,
    /// Names it.
    pub id: String,
    /// Its short unique name.
    pub handle: String,
    /// Its name for people.
    pub display_name: String,
    /// `unlimited`, or `prepaid`: it can spend only what was credited.
    pub policy: &'static str,
    /// What was credited less what was spent.
    pub balance_usd: String,
    /// What is held for tasks that have not ended.
    pub held_usd: String,
    /// What was spent.
    pub spent_usd: String,
    /// What was credited.
    pub credit_usd: String,
    /// What can still be held; null without a bound.
    #[schema(required = true)]
    pub available_usd: Option<String>,
    /// What all its tasks together may cost; null without a bound.
    #[schema(required = true)]
    pub budget_usd: Option<String>,
    /// How many bytes of files it may keep.
    pub storage_limit: u64,
    /// How many it keeps.
    pub storage_bytes: u64,
    /// The key that asked.
    pub key: KeyObject,
    /// Every key of the account for one with the scope `admin`, else just its own.
    pub keys: Vec<KeyObject>,
    /// How much of the ledger did not add up when it was last checked; for keys
    /// with the scope `admin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger_mismatches: Option<u32>,
}

/// A key as it stands. All amounts are dollars.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyObject {
    /// Names it.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// Its first characters.
    pub prefix: String,
    /// What all its tasks together may cost; null without a bound.
    #[schema(required = true)]
    pub budget_usd: Option<String>,
    /// What was spent with it.
    pub spent_usd: String,
    /// What is held for its tasks that have not ended.
    pub held_usd: String,
    /// What can still be held by its budget; null without one.
    #[schema(required = true)]
    pub available_usd: Option<String>,
    /// What else bounds it.
    pub limits: KeyLimits,
    /// When it stops working.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
}

/// What bounds a key beside its budget.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyLimits {
    /// Requests that it may make a minute.
    pub requests_per_minute: u32,
    /// Tasks that it may have open at once.
    pub max_running_tasks: u32,
    /// Tasks that it has open now.
    pub open_tasks: u32,
}

impl AccountObject {
    /// As far as the caller may see it.
    pub fn new(app: &Parts, caller: &Caller, standing: &Standing) -> Self {
        let is_operator = caller.key.may(Scope::Admin);
        let money = &standing.money;
        let Account {
            id,
            handle,
            display_name,
            ..
        } = &caller.account;
        let is_own = |key: &ApiKey| key.id == caller.key.id;
        let keys = standing
            .keys
            .iter()
            .filter(|(key, ..)| is_operator || is_own(key));
        let own = standing.keys.iter().find(|(key, ..)| is_own(key));
        Self {
            object: "account",
            id: id.to_string(),
            handle: handle.clone(),
            display_name: display_name.clone(),
            policy: if money.prepaid {
                "prepaid"
            } else {
                "unlimited"
            },
            balance_usd: money.balance().to_string(),
            held_usd: money.held.to_string(),
            spent_usd: money.spent.to_string(),
            credit_usd: money.credit.to_string(),
            available_usd: text(money.available()),
            budget_usd: text(money.budget),
            storage_limit: app.config.storage_limit.0,
            storage_bytes: standing.storage_bytes,
            key: own.map_or_else(|| KeyObject::new(&caller.key, &unused(&caller.key), 0), key),
            keys: keys.map(key).collect(),
            ledger_mismatches: is_operator.then(|| app.mismatches.load(Ordering::Relaxed)),
        }
    }
}

fn key((key, money, open): &(ApiKey, KeyMoney, u32)) -> KeyObject {
    KeyObject::new(key, money, *open)
}

/// The money of a key that was made a moment ago.
const fn unused(key: &ApiKey) -> KeyMoney {
    KeyMoney {
        budget: key.budget,
        held: Micros::ZERO,
        spent: Micros::ZERO,
    }
}

impl KeyObject {
    fn new(key: &ApiKey, money: &KeyMoney, open_tasks: u32) -> Self {
        Self {
            id: key.id.to_string(),
            name: key.name.clone(),
            prefix: key.prefix.clone(),
            budget_usd: text(money.budget),
            spent_usd: money.spent.to_string(),
            held_usd: money.held.to_string(),
            available_usd: text(money.available()),
            limits: KeyLimits {
                requests_per_minute: key.rpm,
                max_running_tasks: key.max_running,
                open_tasks,
            },
            expires_at: key.expires_at.map(Timestamp::rfc3339),
            revoked_at: key.revoked_at.map(Timestamp::rfc3339),
        }
    }
}

fn text(amount: Option<Micros>) -> Option<String> {
    amount.map(|amount| amount.to_string())
}
