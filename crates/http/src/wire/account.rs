//! An account and its keys: money and limits.

use std::sync::atomic::Ordering;

use serde::Serialize;
use utoipa::ToSchema;

use crate::wire::money::{AccountAmounts, text};
use mediagate_core::app::AppParts;
use mediagate_core::domain::accounting::AccountSummary;
use mediagate_model::account::{Account, ApiKey, BudgetPeriod, Caller, KeyMoney, Scope};
use mediagate_model::clock::Timestamp;
use mediagate_model::money::MicroDollars;

/// An account's money and storage. All amounts are in US dollars.
#[derive(Debug, Serialize, ToSchema)]
pub struct AccountObject {
    /// Always `account`.
    pub object: &'static str,
    /// The account's id.
    pub id: String,
    /// Short unique name.
    pub handle: String,
    /// Display name.
    pub display_name: String,
    /// `unlimited` or `prepaid`. A prepaid account can spend only its credit.
    pub policy: &'static str,
    #[serde(flatten)]
    pub amounts: AccountAmounts,
    /// Storage limit in bytes.
    pub storage_limit: u64,
    /// Storage used in bytes.
    pub storage_bytes: u64,
    /// Storage that the open tasks are expected to need, in bytes. It counts against the limit.
    pub storage_expected_bytes: u64,
    /// The API key of this request.
    pub key: KeyObject,
    /// All keys of the account if this key has the scope `admin`; otherwise only this key.
    pub keys: Vec<KeyObject>,
    /// Number of ledger mismatches at the last check. Only for keys with the scope `admin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger_mismatches: Option<u32>,
}

/// A key's spending and limits. All amounts are in US dollars.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyObject {
    /// The key's id.
    pub id: String,
    /// Display name.
    pub name: String,
    /// The first characters of the secret.
    pub prefix: String,
    /// Spending limit, in total or per `budget_period`. Null if unlimited.
    #[schema(required = true)]
    pub budget_usd: Option<String>,
    /// Period after which the budget renews: `day`, `week` or `month`, in UTC. Null if it never
    /// renews.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_period: Option<&'static str>,
    /// Total spent with this key.
    pub spent_usd: String,
    /// Reserved for open tasks.
    pub held_usd: String,
    /// Amount that can still be reserved within the budget. Null if there is no budget.
    #[schema(required = true)]
    pub available_usd: Option<String>,
    /// The key's scopes.
    pub scopes: Vec<&'static str>,
    /// The key's other limits.
    pub limits: KeyLimits,
    /// Expiry time. Null if it never expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Time of revocation. Null if it is not revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
}

/// A key's limits other than the budget.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyLimits {
    /// Requests per minute.
    pub requests_per_minute: u32,
    /// Maximum number of open tasks.
    pub max_running_tasks: u32,
    /// Number of open tasks.
    pub open_tasks: u32,
}

impl AccountObject {
    /// Limited to what the caller may see.
    pub fn new(app: &AppParts, caller: &Caller, summary: &AccountSummary) -> Self {
        let is_operator = caller.key.may(Scope::Admin);
        let money = &summary.money;
        let Account {
            id,
            handle,
            display_name,
            ..
        } = &caller.account;
        let is_own = |key: &ApiKey| key.id == caller.key.id;
        let keys = summary
            .keys
            .iter()
            .filter(|(key, ..)| is_operator || is_own(key));
        let own_key = summary.keys.iter().find(|(key, ..)| is_own(key));
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
            amounts: money.into(),
            storage_limit: app.config.storage_limit.0,
            storage_bytes: summary.storage_bytes,
            storage_expected_bytes: summary.storage_expected_bytes,
            key: own_key.map_or_else(
                || KeyObject::new(&caller.key, &unused_key_money(&caller.key), 0),
                key,
            ),
            keys: keys.map(key).collect(),
            ledger_mismatches: is_operator.then(|| app.process.mismatches.load(Ordering::Relaxed)),
        }
    }
}

fn key((key, money, open): &(ApiKey, KeyMoney, u32)) -> KeyObject {
    KeyObject::new(key, money, *open)
}

/// The money of a key that was created after the sums were read.
const fn unused_key_money(key: &ApiKey) -> KeyMoney {
    KeyMoney {
        budget: key.budget,
        period: key.budget_period,
        held: MicroDollars::ZERO,
        spent: MicroDollars::ZERO,
        counted: MicroDollars::ZERO,
    }
}

impl KeyObject {
    fn new(key: &ApiKey, money: &KeyMoney, open_tasks: u32) -> Self {
        Self {
            id: key.id.to_string(),
            name: key.name.clone(),
            prefix: key.prefix.clone(),
            budget_usd: text(money.budget),
            budget_period: money.period.map(BudgetPeriod::name),
            spent_usd: money.spent.to_string(),
            held_usd: money.held.to_string(),
            available_usd: text(money.available()),
            scopes: key.scopes.iter().copied().map(Scope::name).collect(),
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
