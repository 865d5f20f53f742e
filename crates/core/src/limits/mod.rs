//! Limits of one process, for itself and for its callers: requests a minute (together with the
//! others on its database), bytes of bodies, decoding, uploads. This module holds state that
//! requests check, and no rules about money.

mod fair_queue;
mod grants;
mod media_work;
mod open_requests;
mod quotas;
mod rates;
mod unknown_secrets;

use std::sync::Arc;

use tokio::sync::Semaphore;

pub use fair_queue::{FairShareQueue, QueuePermit};
pub use media_work::{MediaWorkPool, WorkKind, WorkSlot};
use mediagate_config::{Config, DatabaseTarget, cores};
use mediagate_model::bounds;
use mediagate_store::Store;
pub use open_requests::{OpenKind, OpenRequest, OpenRequests, count_during};
pub use quotas::{AccountSemaphores, QuotaExhausted, QuotaPool, QuotaShare};
pub use rates::{AddressLimits, RateLimits, RateState};
pub use unknown_secrets::UnknownSecrets;

/// Checks and searches of the documentation per minute of an address, without a key.
const CHECKS_PER_MINUTE: u32 = 10;
const SEARCHES_PER_MINUTE: u32 = 60;

/// The limits of one process.
pub struct ProcessLimits {
    /// Requests a minute.
    pub rates: RateLimits,
    /// Checks of files per minute of addresses without a key.
    pub address_checks: AddressLimits,
    /// Searches of the documentation per minute of addresses.
    pub address_searches: AddressLimits,
    /// Look-ups of keys and sessions that may not exist.
    pub unknown_secrets: UnknownSecrets,
    /// Where media that callers hand in is decoded.
    pub media_work: MediaWorkPool,
    /// Fetches from callers' URLs.
    pub fetches: FairShareQueue,
    /// Bytes of memory for requests to moderation services.
    pub moderation: FairShareQueue,
    /// Event streams, and waits for tasks.
    pub open_requests: OpenRequests,
    /// Downloads of results from providers.
    pub downloads: FairShareQueue,
    /// Simultaneous uploads per account, including those that are being received or fetched.
    pub uploads: AccountSemaphores,
    /// Simultaneous checks without a key. Addresses take turns.
    pub strangers_checks: FairShareQueue,
    /// Bytes of memory for bodies that are being received or wait to be processed.
    pub bodies: QuotaPool,
    /// Limits how many large bodies are parsed at once.
    pub parsing: Arc<Semaphore>,
}

impl ProcessLimits {
    pub fn new(config: &Config, store: &Store) -> Self {
        // On SQLite only one process serves, so it counts on its own.
        let shared = (config.database != DatabaseTarget::Sqlite).then(|| store.clone());
        Self {
            rates: RateLimits::new(shared),
            address_checks: AddressLimits::new(CHECKS_PER_MINUTE),
            address_searches: AddressLimits::new(SEARCHES_PER_MINUTE),
            unknown_secrets: UnknownSecrets::default(),
            media_work: MediaWorkPool::new((config.decoding_memory_mb as u64) << 20, cores()),
            fetches: FairShareQueue::for_bound(&bounds::FETCHES),
            moderation: FairShareQueue::for_bound(&bounds::MODERATION),
            // Half of the connections, so that no account holds all of them.
            open_requests: OpenRequests::new((config.max_connections / 2).max(1)),
            downloads: FairShareQueue::for_bound(&bounds::DOWNLOADS),
            uploads: AccountSemaphores::new(bounds::UPLOADS.per_account.count()),
            strangers_checks: FairShareQueue::for_bound(&bounds::STRANGERS_CHECKS),
            bodies: QuotaPool::new(&bounds::BODIES),
            parsing: Arc::new(Semaphore::new(cores())),
        }
    }
}
