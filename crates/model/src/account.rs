//! Accounts, their API keys, and the scopes of a key.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use strum::VariantArray as _;

use crate::clock::Timestamp;
use crate::ids::{AccountId, AssetId, KeyId};
use crate::money::MicroDollars;

/// Owns everything that its keys make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    pub id: AccountId,
    /// Short unique name, `[a-z0-9_-]`.
    pub handle: String,
    pub display_name: String,
    /// A generated picture.
    pub avatar: AssetId,
    pub created_at: Timestamp,
}

/// The running sums of an account's ledger, and its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountMoney {
    /// Whether it can spend only its credit; otherwise it has no limit but the budget.
    pub prepaid: bool,
    /// Limit on the total cost of all its tasks.
    pub budget: Option<MicroDollars>,
    /// Reserved for open tasks.
    pub held: MicroDollars,
    /// Settled, adjustments included.
    pub spent: MicroDollars,
    /// Paid in, less withdrawn.
    pub credit: MicroDollars,
}

impl AccountMoney {
    /// `credit - spent`; negative if the account owes.
    pub const fn balance(&self) -> MicroDollars {
        self.credit.minus(self.spent)
    }

    /// What can still be reserved; `None` if unlimited.
    pub fn available(&self) -> Option<MicroDollars> {
        let prepaid = self.prepaid.then(|| self.balance().minus(self.held));
        let budget = self
            .budget
            .map(|budget| budget.minus(self.spent).minus(self.held));
        prepaid.into_iter().chain(budget).min()
    }
}

/// The running sums of a key's ledger, and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyMoney {
    /// Limit on the cost of its tasks, in all or in each period.
    pub budget: Option<MicroDollars>,
    /// How often the budget renews; never if `None`.
    pub period: Option<BudgetPeriod>,
    /// Reserved for open tasks.
    pub held: MicroDollars,
    /// Settled, adjustments included.
    pub spent: MicroDollars,
    /// The part of `spent` that counts against the budget: that of the current period, or all of
    /// it if the budget never renews.
    pub counted: MicroDollars,
}

impl KeyMoney {
    /// What can still be reserved; `None` if unlimited. Held amounts count, whenever they were
    /// reserved.
    pub fn available(&self) -> Option<MicroDollars> {
        self.budget
            .map(|budget| budget.minus(self.counted).minus(self.held))
    }
}

/// How often a key's budget renews, in UTC.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr, strum::VariantArray,
)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub enum BudgetPeriod {
    Day,
    /// Begins on Monday.
    Week,
    Month,
}

impl BudgetPeriod {
    pub const ALL: &[Self] = Self::VARIANTS;

    pub const fn name(self) -> &'static str {
        self.into_str()
    }

    /// When the period that contains `now` began.
    pub fn start(self, now: Timestamp) -> Timestamp {
        let day = Timestamp::start_of_day(now);
        let days_back = match self {
            Self::Day => 0,
            // The epoch was a Thursday, three days after a Monday.
            Self::Week => (day.seconds().div_euclid(DAY_SECONDS) + 3).rem_euclid(7),
            Self::Month => i64::from(now.day_of_month()) - 1,
        };
        Timestamp::from_seconds(day.seconds() - days_back * DAY_SECONDS)
    }
}

const DAY_SECONDS: i64 = 86_400;

#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[strum(const_into_str, parse_err_ty = NoSuchScope, parse_err_fn = NoSuchScope::of)]
pub enum Scope {
    #[strum(serialize = "video:create")]
    VideoCreate,
    #[strum(serialize = "music:create")]
    MusicCreate,
    #[strum(serialize = "persona:create")]
    PersonaCreate,
    #[strum(serialize = "media:upload")]
    MediaUpload,
    /// Read tasks, clips and personas.
    #[strum(serialize = "tasks:read")]
    TasksRead,
    /// Cancel tasks; delete and restore what the account owns.
    #[strum(serialize = "tasks:cancel")]
    TasksCancel,
    #[strum(serialize = "webhooks:manage")]
    WebhooksManage,
    /// Approve and reject orders that wait for approval.
    #[strum(serialize = "approve")]
    Approve,
    #[strum(serialize = "admin")]
    Admin,
}

impl Scope {
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The scopes of a key created without any: all but `admin` and `approve`.
    pub fn default_scopes() -> Vec<Self> {
        let all = Self::ALL.iter().copied();
        all.filter(|scope| !matches!(scope, Self::Admin | Self::Approve))
            .collect()
    }

    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text is not the name of a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown scope; the scopes are {}", Scope::ALL.iter().map(|scope| scope.name()).collect::<Vec<_>>().join(", "))]
pub struct NoSuchScope;

impl NoSuchScope {
    const fn of(_: &str) -> Self {
        Self
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    pub id: KeyId,
    pub account: AccountId,
    pub name: String,
    /// First 12 characters of the secret, to recognise it by.
    pub prefix: String,
    /// SHA-256 of the secret, in lower-case hex.
    pub sha256: String,
    /// What the key may do.
    pub scopes: Vec<Scope>,
    /// Models it may use; all if `None`.
    pub models: Option<Vec<String>>,
    /// Addresses it may be used from; any if `None`.
    pub networks: Option<Vec<IpNet>>,
    /// Requests per minute.
    pub rpm: u32,
    /// Limit of open tasks, both queued and running.
    pub max_running: u32,
    /// Limit on the cost of its tasks; none if `None`.
    pub budget: Option<MicroDollars>,
    /// How often the budget renews; never if `None`.
    pub budget_period: Option<BudgetPeriod>,
    /// Orders that reserve more than this wait for approval; none do if `None`.
    pub approve_above: Option<MicroDollars>,
    /// Whether it refuses requests that a chat interface sends on its own, for titles and tags.
    pub refuses_housekeeping: bool,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

impl ApiKey {
    /// `admin` includes every scope but `approve`: who runs the gateway need not be who approves
    /// what is spent.
    pub fn may(&self, scope: Scope) -> bool {
        let is_included = scope != Scope::Approve && self.scopes.contains(&Scope::Admin);
        is_included || self.scopes.contains(&scope)
    }

    /// Whether an order that reserves this much waits for approval.
    pub fn needs_approval(&self, reserve: MicroDollars) -> bool {
        self.approve_above.is_some_and(|limit| reserve > limit)
    }

    /// Whether the key may use this model.
    pub fn may_use(&self, model: &str) -> bool {
        self.models
            .as_ref()
            .is_none_or(|models| models.iter().any(|allowed| allowed == model))
    }

    /// Whether it is neither revoked nor expired.
    pub fn is_valid_at(&self, now: Timestamp) -> bool {
        let has_passed = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
        !has_passed(self.revoked_at) && !has_passed(self.expires_at)
    }

    /// Whether the key may be used from this address.
    pub fn may_come_from(&self, address: IpAddr) -> bool {
        // A socket that accepts both IPv4 and IPv6 reports an IPv4 address in its IPv4-mapped IPv6
        // form, which would be in no IPv4 network.
        let address = address.to_canonical();
        self.networks
            .as_ref()
            .is_none_or(|networks| networks.iter().any(|network| network.contains(&address)))
    }
}

/// What becomes of the open tasks of a key when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::EnumString, strum::IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum TasksAtEnd {
    /// All of them continue.
    Keep,
    /// Those that were not sent to a provider, and have not begun here, are cancelled.
    #[default]
    CancelUnsent,
    /// All of them are cancelled.
    Cancel,
}

impl TasksAtEnd {
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

/// Why a key is no longer valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyEndReason {
    Revoked,
    Expired,
}

/// A key that is no longer valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyEnd {
    pub reason: KeyEndReason,
    pub tasks: TasksAtEnd,
}

/// The open tasks of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenTaskSums {
    /// Those that were neither sent to a provider nor begun here.
    pub unsent: u32,
    /// What these have reserved.
    pub unsent_held: MicroDollars,
    /// All others.
    pub sent: u32,
    /// What these have reserved.
    pub sent_held: MicroDollars,
}

/// A valid key and its account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The key that authenticated the request.
    pub key: ApiKey,
    pub account: Account,
    /// Whether the account has a budget or is prepaid.
    pub account_is_limited: bool,
    pub credential: CallerCredential,
}

/// The credential with which a caller authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerCredential {
    /// The key's secret.
    Secret,
    /// The secret that the key had before its latest rotation.
    FormerSecret { until: Timestamp },
    /// The cookie of a session.
    Session { until: Timestamp },
}

impl CallerCredential {
    /// When it expires, unless it lasts as long as the key.
    pub const fn ends_at(self) -> Option<Timestamp> {
        match self {
            Self::Secret => None,
            Self::FormerSecret { until } | Self::Session { until } => Some(until),
        }
    }
}

/// A key as the operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRecord {
    pub key: ApiKey,
    /// The handle of its account.
    pub account: String,
    pub money: KeyMoney,
    pub open_tasks: u32,
    /// The time of the last use, to the minute.
    pub last_used_at: Option<Timestamp>,
    /// When its former secret ends; `None` if none works.
    pub former_until: Option<Timestamp>,
}

/// An account as the operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountRecord {
    pub account: Account,
    pub money: AccountMoney,
    /// Keys that are not revoked.
    pub keys: i64,
    /// When it was closed: since then it has no keys, and gets none.
    pub closed_at: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_renew_at_midnight_on_mondays_and_on_the_first() {
        let at = |text| Timestamp::parse(text).unwrap();
        for (period, now, start) in [
            (BudgetPeriod::Day, "2026-03-01T23:59:59Z", "2026-03-01"),
            (BudgetPeriod::Week, "2026-03-01T23:59:59Z", "2026-02-23"),
            (BudgetPeriod::Week, "2026-03-02T00:00:00Z", "2026-03-02"),
            (BudgetPeriod::Month, "2026-03-31T23:59:59Z", "2026-03-01"),
            (BudgetPeriod::Month, "2024-02-29T12:00:00Z", "2024-02-01"),
        ] {
            assert_eq!(period.start(at(now)), at(start), "{period:?} {now}");
        }
    }
}
