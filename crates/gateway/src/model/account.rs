//! Accounts, their keys, and what a key may do.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use strum::VariantArray as _;

use crate::clock::Timestamp;
use crate::ids::{AccountId, AssetId, KeyId};
use crate::model::money::Micros;

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
    pub budget: Option<Micros>,
    /// Reserved for open tasks.
    pub held: Micros,
    /// Settled, adjustments included.
    pub spent: Micros,
    /// Paid in, less withdrawn.
    pub credit: Micros,
}

impl AccountMoney {
    /// `credit - spent`; negative if the account owes.
    pub const fn balance(&self) -> Micros {
        self.credit.minus(self.spent)
    }

    /// What can still be reserved; `None` if unlimited.
    pub fn available(&self) -> Option<Micros> {
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
    /// Limit on the total cost of all its tasks.
    pub budget: Option<Micros>,
    /// Reserved for open tasks.
    pub held: Micros,
    /// Settled, adjustments included.
    pub spent: Micros,
}

impl KeyMoney {
    /// What can still be reserved; `None` if unlimited.
    pub fn available(&self) -> Option<Micros> {
        self.budget
            .map(|budget| budget.minus(self.spent).minus(self.held))
    }
}

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
    #[strum(serialize = "admin")]
    Admin,
}

impl Scope {
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The scopes of a key created without any: all but `admin`.
    pub fn usual() -> Vec<Self> {
        let all = Self::ALL.iter().copied();
        all.filter(|scope| *scope != Self::Admin).collect()
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

/// The text names no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no such scope; there are {}", Scope::ALL.iter().map(|scope| scope.name()).collect::<Vec<_>>().join(", "))]
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
    /// Limit of open tasks.
    pub max_running: u32,
    /// Limit on the total cost of all its tasks; none if `None`.
    pub budget: Option<Micros>,
    pub created_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

impl ApiKey {
    /// `admin` includes every scope.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }

    /// Whether the key may name this model.
    pub fn may_use(&self, model: &str) -> bool {
        self.models
            .as_ref()
            .is_none_or(|models| models.iter().any(|allowed| allowed == model))
    }

    /// Whether the key may be used from this address.
    pub fn may_come_from(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks
            .as_ref()
            .is_none_or(|networks| networks.iter().any(|network| network.contains(&address)))
    }
}

/// A valid key and its account.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The key that authenticated the request.
    pub key: ApiKey,
    pub account: Account,
}
