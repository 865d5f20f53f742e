//! Requests that stay open: event streams, and waits for tasks. Each holds a connection for as long
//! as its caller likes, so a key and an account have a limit of them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};

use futures_util::{Stream, StreamExt as _};
use locks::lock;

use mediagate_model::account::Caller;
use mediagate_model::bounds;
use mediagate_model::error::{Error, ErrorCode};
use mediagate_model::ids::{AccountId, KeyId};

/// Requests that are open now. Cheap to clone.
#[derive(Clone)]
pub struct OpenRequests {
    per_account: usize,
    counts: Arc<Mutex<OpenCounts>>,
}

#[derive(Default)]
struct OpenCounts {
    keys: HashMap<(KeyId, OpenKind), usize>,
    accounts: HashMap<AccountId, usize>,
}

/// What an open request does. Each kind is counted by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpenKind {
    /// It follows what exists.
    Follow,
    /// It waits for the tasks that it ordered.
    Order,
}

/// An open request, counted until it is dropped.
pub struct OpenRequest {
    requests: OpenRequests,
    key: (KeyId, OpenKind),
    account: AccountId,
}

impl OpenRequests {
    /// At most `per_account` of one account.
    pub fn new(per_account: usize) -> Self {
        Self {
            per_account,
            counts: Arc::default(),
        }
    }

    /// Counts a request that stays open, if its key and its account have room for it.
    pub fn enter(&self, caller: &Caller, kind: OpenKind) -> Result<OpenRequest, Error> {
        let per_key = bounds::OPEN_REQUESTS.per_key.count();
        let per_key = match kind {
            OpenKind::Follow => per_key,
            // A key that may have more tasks may wait for all of them.
            OpenKind::Order => per_key.max(caller.key.max_running as usize),
        };
        let (key, account) = ((caller.key.id, kind), caller.account.id);
        let mut counts = self.counts();
        let of_key = counts.keys.get(&key).copied().unwrap_or_default();
        let of_account = counts.accounts.get(&account).copied().unwrap_or_default();
        if of_key >= per_key {
            return Err(too_many("API key", per_key));
        }
        if of_account >= self.per_account {
            return Err(too_many("account", self.per_account));
        }
        *counts.keys.entry(key).or_default() += 1;
        *counts.accounts.entry(account).or_default() += 1;
        drop(counts);
        Ok(OpenRequest {
            requests: self.clone(),
            key,
            account,
        })
    }

    fn counts(&self) -> MutexGuard<'_, OpenCounts> {
        lock(&self.counts)
    }
}

fn too_many(owner: &str, limit: usize) -> Error {
    let message = format!(
        "The {owner} has {limit} event streams and waits open, which is its limit. Close one first."
    );
    Error::retry_later(ErrorCode::TooManyOpenRequests, message, 5)
}

/// The stream, during which the request is counted.
pub fn count_during<S: Stream>(
    open: impl Into<Option<OpenRequest>>,
    stream: S,
) -> impl Stream<Item = S::Item> {
    let open = open.into();
    stream.inspect(move |_| {
        let _counted = &open;
    })
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut counts = self.requests.counts();
        leave(&mut counts.keys, &self.key);
        leave(&mut counts.accounts, &self.account);
    }
}

/// Counts one less. Unused entries are removed: the maps would grow with every key ever seen.
fn leave<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
