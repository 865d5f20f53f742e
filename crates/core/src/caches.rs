//! In-memory caches of database look-ups and of computed results, and key usage that has not been
//! written yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use moka::sync::Cache;
use providers::driver::schedule::DurationQuantiles;
use tokio::time::Instant;

use crate::key_usage::KeyUsage;
use mediagate_media::engines::child::PictureFacts;
use mediagate_model::account::Caller;
use mediagate_model::clock::Timestamp;
use mediagate_model::error::ErrorCode;
use mediagate_model::ids::{AssetId, KeyId, TaskId};
use mediagate_model::task::Task;
use mediagate_store::{ChangeStamp, Store};

/// How long the usual duration of a model's tasks is cached.
const USUAL_DURATION_TTL: Duration = Duration::from_secs(5);
/// How long failed examinations of a film are remembered: longer than the film is retried.
const FAILED_SCAN_TTL: Duration = Duration::from_hours(24);
/// How long the record of an ended task is cached: not long, because another process may delete its
/// film.
const ENDED_TASK_TTL: Duration = Duration::from_secs(10);
/// How long a key's name is cached.
const KEY_NAME_TTL: Duration = Duration::from_secs(1);

/// How long the refusal of an order's content is remembered: as long as its key.
const REFUSED_CONTENT_TTL: Duration = Duration::from_hours(24);
/// How long the same refused call of an operator is not logged again.
const NOTED_REFUSAL_TTL: Duration = Duration::from_mins(1);

pub struct Caches {
    /// Callers, by the hash of their secret.
    pub callers: Cache<String, CachedCaller>,
    /// Counts the changes of keys by this process.
    key_changes: AtomicU64,
    /// Tasks that have ended, and so change only by being deleted.
    pub ended_tasks: Cache<TaskId, Arc<Task>>,
    /// The names of keys.
    pub key_names: Cache<KeyId, String>,
    /// The usual duration of tasks, by the model's id.
    pub usual_durations: Cache<String, Option<DurationQuantiles>>,
    /// Pictures that can be decoded, by the SHA-256 of their files.
    pub pictures: Cache<String, PictureFacts>,
    /// Films that could not be examined: the number of failures, and the time of the next attempt.
    pub misses: Cache<AssetId, (u32, Timestamp)>,
    /// Operators' calls that were refused in the last minute, by key, call and code.
    pub noted_refusals: Cache<(KeyId, String, ErrorCode), ()>,
    /// Refusals of moderation, by the API key, the order's `Idempotency-Key` and a digest of its
    /// content.
    pub refused_content: Cache<(KeyId, String, String), RefusedContent>,
    /// When keys were last used.
    pub key_usage: KeyUsage,
}

impl Default for Caches {
    fn default() -> Self {
        Self {
            callers: Cache::new(10_000),
            key_changes: AtomicU64::new(0),
            ended_tasks: Cache::builder()
                .max_capacity(10_000)
                .time_to_live(ENDED_TASK_TTL)
                .build(),
            key_names: Cache::builder()
                .max_capacity(10_000)
                .time_to_live(KEY_NAME_TTL)
                .build(),
            usual_durations: Cache::builder()
                .max_capacity(1000)
                .time_to_live(USUAL_DURATION_TTL)
                .build(),
            pictures: Cache::new(10_000),
            misses: Cache::builder()
                .max_capacity(10_000)
                .time_to_live(FAILED_SCAN_TTL)
                .build(),
            noted_refusals: Cache::builder()
                .max_capacity(10_000)
                .time_to_live(NOTED_REFUSAL_TTL)
                .build(),
            refused_content: Cache::builder()
                .max_capacity(10_000)
                .time_to_live(REFUSED_CONTENT_TTL)
                .build(),
            key_usage: KeyUsage::default(),
        }
    }
}

impl Caches {
    /// What a cached caller is compared with. It must be taken before the caller's row is read.
    pub fn caller_version(&self, store: &Store) -> CallerVersion {
        CallerVersion {
            key_changes: self.key_changes.load(Ordering::Acquire),
            stamp: store.stamp(),
            read_at: Instant::now(),
        }
    }

    /// Notes that this process has committed a change of a key or a session.
    pub fn note_key_change(&self) {
        self.key_changes.fetch_add(1, Ordering::AcqRel);
    }
}

/// Why moderation refused an order.
#[derive(Debug, Clone)]
pub struct RefusedContent {
    /// The field with the content.
    pub param: String,
    pub message: String,
}

/// The state of the store when a caller was read.
#[derive(Debug, Clone, Copy)]
pub struct CallerVersion {
    key_changes: u64,
    stamp: Option<ChangeStamp>,
    read_at: Instant,
}

/// A caller as it was read from the store.
#[derive(Debug, Clone)]
pub struct CachedCaller {
    pub caller: Arc<Caller>,
    pub version: CallerVersion,
}

impl CachedCaller {
    /// Whether it is still valid: this process has changed no key since, the database's stamp is
    /// the same, and it is not too old. A revocation by this process takes effect at the next
    /// request, one by another process within a second. The stamp alone does not suffice: `SQLite`
    /// changes it a moment before others can read the commit, and Postgres has none.
    pub fn is_fresh(&self, now: &CallerVersion) -> bool {
        self.version.key_changes == now.key_changes
            && self.version.stamp == now.stamp
            && now.read_at.duration_since(self.version.read_at) < Duration::from_secs(1)
    }
}
