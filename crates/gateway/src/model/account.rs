//! Who asks: accounts, their keys, and what a key may do.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use crate::clock::Timestamp;
use crate::ids::{AccountId, AssetId, KeyId};
use crate::model::money::Micros;

/// Who owns what is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Names it everywhere.
    pub id: AccountId,
    /// Short unique name, `[a-z0-9_-]`.
    pub handle: String,
    /// Name for people.
    pub display_name: String,
    /// Its drawn picture.
    pub avatar: AssetId,
    /// When it was made.
    pub created_at: Timestamp,
}

/// The running sums of an account's ledger, and what bounds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountMoney {
    /// Whether it can spend only what was credited; without bound otherwise.
    pub prepaid: bool,
    /// What all its tasks together may cost.
    pub budget: Option<Micros>,
    /// Reserved for tasks that have not ended.
    pub held: Micros,
    /// Settled.
    pub spent: Micros,
    /// Paid in.
    pub credit: Micros,
}

impl AccountMoney {
    /// What was paid in and not spent; below zero for an account that owes.
    pub const fn balance(&self) -> Micros {
        self.credit.minus(self.spent)
    }

    /// What can still be reserved; `None` without a bound.
    pub fn available(&self) -> Option<Micros> {
        let prepaid = self.prepaid.then(|| self.balance().minus(self.held));
        let budget = self
            .budget
            .map(|budget| budget.minus(self.spent).minus(self.held));
        prepaid.into_iter().chain(budget).min()
    }
}

/// The running sums of a key's ledger, and what bounds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyMoney {
    /// What all its tasks together may cost.
    pub budget: Option<Micros>,
    /// Reserved for tasks that have not ended.
    pub held: Micros,
    /// Settled.
    pub spent: Micros,
}

impl KeyMoney {
    /// What can still be reserved; `None` without a bound.
    pub fn available(&self) -> Option<Micros> {
        self.budget
            .map(|budget| budget.minus(self.spent).minus(self.held))
    }
}

/// One permission of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Make videos.
    VideoCreate,
    /// Separate music.
    MusicCreate,
    /// Make personas.
    PersonaCreate,
    /// Upload source clips.
    MediaUpload,
    /// See tasks, clips and personas.
    TasksRead,
    /// Cancel tasks; delete and restore what the account owns.
    TasksCancel,
    /// Manage webhook endpoints.
    WebhooksManage,
    /// Everything that an operator may.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 8] = [
        Self::VideoCreate,
        Self::MusicCreate,
        Self::PersonaCreate,
        Self::MediaUpload,
        Self::TasksRead,
        Self::TasksCancel,
        Self::WebhooksManage,
        Self::Admin,
    ];

    /// What a key gets when none is named: all but `admin`.
    pub fn usual() -> Vec<Self> {
        Self::ALL
            .into_iter()
            .filter(|scope| *scope != Self::Admin)
            .collect()
    }

    /// The name that people write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::VideoCreate => "video:create",
            Self::MusicCreate => "music:create",
            Self::PersonaCreate => "persona:create",
            Self::MediaUpload => "media:upload",
            Self::TasksRead => "tasks:read",
            Self::TasksCancel => "tasks:cancel",
            Self::WebhooksManage => "webhooks:manage",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no such scope; there are {}", Scope::ALL.map(Scope::name).join(", "))]
pub struct NoSuchScope;

impl FromStr for Scope {
    type Err = NoSuchScope;

    fn from_str(text: &str) -> Result<Self, NoSuchScope> {
        Self::ALL
            .into_iter()
            .find(|scope| scope.name() == text)
            .ok_or(NoSuchScope)
    }
}

/// A key as the store knows it: everything but the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKey {
    /// Names the key.
    pub id: KeyId,
    /// Whose it is.
    pub account: AccountId,
    /// Name for people.
    pub name: String,
    /// First 12 characters of the secret, for recognising it.
    pub prefix: String,
    /// SHA-256 of the secret, in lower-case hex.
    pub sha256: String,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// Models it may name; all when `None`.
    pub models: Option<Vec<String>>,
    /// Addresses it may be used from; all when `None`.
    pub networks: Option<Vec<IpNet>>,
    /// Requests a minute.
    pub rpm: u32,
    /// Open tasks at once.
    pub max_running: u32,
    /// What all its tasks together may cost; unlimited when `None`.
    pub budget: Option<Micros>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

impl ApiKey {
    /// Whether the key has this permission; `admin` has all.
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

/// Who asks now: a key that works, and its account.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The key that was shown.
    pub key: ApiKey,
    /// The account that everything made belongs to.
    pub account: Account,
}
