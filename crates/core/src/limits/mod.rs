//! What this process allows itself and its callers at once: requests a minute (together with the
//! others on its database), bytes of bodies, decoding, uploads. State that requests ask, and no rules about money.

mod grants;
mod line;
mod rates;
mod room;
mod shares;
mod unknown_secrets;

use std::sync::Arc;

use tokio::sync::Semaphore;

pub use line::{Line, Permit};
use mediagate_config::{Config, Database, cores};
use mediagate_store::Store;
pub use rates::{AddressLimits, RateLimits, RateState};
pub use room::{Room, Work, Workplace};
pub use shares::{Exhausted, Share, Stock, Turns};
pub use unknown_secrets::UnknownSecrets;

/// Media that is fetched from callers' addresses at once, for all accounts and for one.
const FETCHES: u64 = 64;
const FETCHES_OF_ACCOUNT: u64 = 8;
/// Uploads of an account that are under way at once.
const UPLOADS: usize = 8;
/// Bytes of bodies in memory at once, of all accounts and of one.
const BODIES: u64 = 512_000_000;
const BODIES_OF_ACCOUNT: u64 = 128_000_000;

/// The limits of one process.
pub struct Limits {
    /// Requests a minute.
    pub rates: RateLimits,
    /// Requests a minute of addresses that have no key.
    pub strangers: AddressLimits,
    /// Look-ups of keys and sessions that nobody may have.
    pub unknown_secrets: UnknownSecrets,
    /// Where media that callers hand in is decoded.
    pub room: Room,
    /// Fetches from callers' addresses.
    pub fetches: Line,
    /// Uploads that an account may have under way, those that arrive or are
    /// fetched included.
    pub uploads: Turns,
    /// Bytes of memory for bodies that arrive or wait to be worked on.
    pub bodies: Stock,
    /// Bounds the large bodies that are parsed at once.
    pub parsing: Arc<Semaphore>,
}

impl Limits {
    pub fn new(config: &Config, store: &Store) -> Self {
        // On SQLite one process serves.
        let shared = (config.database != Database::Sqlite).then(|| store.clone());
        Self {
            rates: RateLimits::new(shared),
            strangers: AddressLimits::default(),
            unknown_secrets: UnknownSecrets::default(),
            room: Room::new((config.decoding_memory_mb as u64) << 20, cores()),
            fetches: Line::new(FETCHES, FETCHES_OF_ACCOUNT),
            uploads: Turns::new(UPLOADS),
            bodies: Stock::new(BODIES, BODIES_OF_ACCOUNT),
            parsing: Arc::new(Semaphore::new(cores())),
        }
    }
}
