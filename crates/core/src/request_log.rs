//! Requests that wait to be logged. Each is noted in memory when its response begins, and a worker
//! writes them in batches: no request waits for its entry.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use locks::lock;

use mediagate_model::bounds::LOGGED_REQUESTS;
use mediagate_model::ids::AccountId;
use mediagate_model::request_log::RequestEntry;

/// The entries of this process that are not written yet.
#[derive(Debug, Default)]
pub struct RequestLog {
    waiting: Mutex<WaitingEntries>,
    /// Held while entries are written, and until they are removed.
    pub writing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct WaitingEntries {
    entries: VecDeque<RequestEntry>,
    /// How many of them each account has, and the callers without one.
    by_account: HashMap<Option<AccountId>, u64>,
    /// The part of an entry that reads have earned since the last one that was logged.
    earned: f64,
}

impl RequestLog {
    /// Adds an entry. Returns false if there is no room for it.
    pub fn push(&self, entry: RequestEntry) -> bool {
        let mut waiting = self.waiting();
        if waiting.entries.len() as u64 >= LOGGED_REQUESTS.total.get() {
            return false;
        }
        let of_account = waiting.by_account.entry(entry.account).or_default();
        if *of_account >= LOGGED_REQUESTS.per_account.get() {
            return false;
        }
        *of_account += 1;
        waiting.entries.push_back(entry);
        true
    }

    /// Whether to log this read, if this share of them is logged: with 0.25 every fourth.
    pub fn takes_read(&self, share: f64) -> bool {
        if share <= 0.0 {
            return false;
        }
        let mut waiting = self.waiting();
        waiting.earned += share;
        if waiting.earned < 1.0 {
            return false;
        }
        waiting.earned -= 1.0;
        true
    }

    /// At most `limit` of the oldest entries. They stay until they are removed.
    pub fn oldest(&self, limit: usize) -> Vec<RequestEntry> {
        self.waiting().entries.iter().take(limit).cloned().collect()
    }

    /// Removes this number of the oldest entries. Only for the one that holds `writing`.
    pub fn remove_oldest(&self, count: usize) {
        let mut waiting = self.waiting();
        for _ in 0..count {
            let Some(entry) = waiting.entries.pop_front() else {
                return;
            };
            if let Some(of_account) = waiting.by_account.get_mut(&entry.account) {
                *of_account -= 1;
                if *of_account == 0 {
                    waiting.by_account.remove(&entry.account);
                }
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingEntries> {
        lock(&self.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mediagate_model::clock::Timestamp;
    use mediagate_model::ids::{RequestEntryId, RequestId};

    fn entry(account: Option<AccountId>) -> RequestEntry {
        let at = Timestamp::from_seconds(1);
        RequestEntry {
            id: RequestEntryId::at(at),
            at,
            request_id: RequestId::generate(),
            method: "GET".into(),
            route: None,
            status: 404,
            code: None,
            message: None,
            account,
            key: None,
            model: None,
            task: None,
            took_ms: 0,
        }
    }

    #[test]
    fn an_account_leaves_room_for_others() {
        let log = RequestLog::default();
        let (busy, quiet) = (Some(AccountId::new()), Some(AccountId::new()));
        let share = LOGGED_REQUESTS.per_account.get();
        assert!((0..share).all(|_| log.push(entry(busy))));
        assert!(!log.push(entry(busy)));
        assert!(log.push(entry(quiet)) && log.push(entry(None)));
        let oldest = log.oldest(2);
        assert!(oldest.iter().all(|entry| entry.account == busy));
        log.remove_oldest(2);
        assert!(log.push(entry(busy)) && log.push(entry(busy)) && !log.push(entry(busy)));
        log.remove_oldest(usize::MAX);
        assert_eq!(log.oldest(9), []);
    }

    #[test]
    fn the_queue_is_bounded() {
        let log = RequestLog::default();
        let room = LOGGED_REQUESTS.total.get();
        let added = (0..room + 9).filter(|_| log.push(entry(Some(AccountId::new()))));
        assert_eq!(added.count() as u64, room);
    }

    #[test]
    fn a_share_of_the_reads_is_taken() {
        let log = RequestLog::default();
        let taken = |share| (0..8).filter(|_| log.takes_read(share)).count();
        assert_eq!([taken(0.0), taken(0.25), taken(1.0)], [0, 2, 8]);
    }
}
