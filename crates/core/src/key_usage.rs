//! Last use of keys: noted in memory by each request, and written later by upkeep.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use locks::lock;
use mediagate_model::clock::Timestamp;
use mediagate_model::ids::KeyId;

/// A key's use is written at most this often.
const WRITE_INTERVAL: Duration = Duration::from_mins(1);
/// Maximum number of keys in memory; beyond that, some uses are not written.
const MAX_KEYS: usize = 100_000;
/// Maximum number of keys per transaction.
const BATCH: usize = 500;

/// The uses of keys by this process.
#[derive(Debug, Default)]
pub struct KeyUsage(Mutex<HashMap<KeyId, LastUse>>);

#[derive(Debug, Clone, Copy)]
struct LastUse {
    latest: Timestamp,
    written: Option<Timestamp>,
}

impl LastUse {
    fn is_due(&self) -> bool {
        self.written
            .is_none_or(|written| self.latest >= written.plus(WRITE_INTERVAL))
    }
}

impl KeyUsage {
    /// Notes that a key is used now.
    pub fn note(&self, key: KeyId, now: Timestamp) {
        let mut uses = lock(&self.0);
        if let Some(last_use) = uses.get_mut(&key) {
            last_use.latest = last_use.latest.max(now);
        } else if uses.len() < MAX_KEYS {
            let first_use = LastUse {
                latest: now,
                written: None,
            };
            uses.insert(key, first_use);
        }
    }

    /// A batch of the uses to write now.
    pub fn due(&self) -> Vec<(KeyId, Timestamp)> {
        let uses = lock(&self.0);
        let due = uses.iter().filter(|(_, last_use)| last_use.is_due());
        due.take(BATCH)
            .map(|(id, last_use)| (*id, last_use.latest))
            .collect()
    }

    /// Records that the use of these keys was written.
    pub fn mark_written(&self, keys: &[(KeyId, Timestamp)]) {
        let mut uses = lock(&self.0);
        for (key, at) in keys {
            if let Some(last_use) = uses.get_mut(key) {
                last_use.written = Some(*at);
            }
        }
        // A key that is written and idle can be forgotten: without an entry its next use is written
        // at once.
        if uses.len() >= MAX_KEYS / 2 {
            uses.retain(|_, last_use| last_use.written != Some(last_use.latest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_key_is_written_once_a_minute() {
        let (uses, key) = (KeyUsage::default(), KeyId::new());
        let at = Timestamp::from_seconds;
        uses.note(key, at(0));
        uses.note(key, at(5));
        assert_eq!(uses.due(), [(key, at(5))]);
        uses.mark_written(&[(key, at(5))]);
        uses.note(key, at(64));
        assert_eq!(uses.due(), []);
        uses.note(key, at(65));
        assert_eq!(uses.due(), [(key, at(65))]);
    }
}
