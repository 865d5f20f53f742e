//! Watch times of submissions that this process cannot bring to an end, by the monotonic timer: the
//! clock may be set at any time, and a time that another process wrote may be wrong.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use locks::lock;
use tokio::time::Instant;

use mediagate_model::ids::SubmissionId;

/// A submission that was not looked at for this long is forgotten. Each is looked at every minute.
const FORGET_AFTER: Duration = Duration::from_mins(30);
/// Number of submissions from which on forgotten ones are searched for.
const MANY: usize = 1000;

/// The submissions that are watched.
#[derive(Default)]
pub(super) struct WatchTimes {
    submissions: Mutex<HashMap<SubmissionId, WatchTime>>,
}

/// When a submission was first and last looked at.
struct WatchTime {
    first: Instant,
    last: Instant,
}

impl WatchTimes {
    /// Looks at a submission: the time since this process first did.
    pub(super) fn watch(&self, id: SubmissionId) -> Duration {
        self.watch_at(id, Instant::now())
    }

    fn watch_at(&self, id: SubmissionId, now: Instant) -> Duration {
        let mut submissions = lock(&self.submissions);
        if submissions.len() >= MANY && !submissions.contains_key(&id) {
            submissions.retain(|_, time| now.duration_since(time.last) < FORGET_AFTER);
        }
        let time = submissions.entry(id).or_insert(WatchTime {
            first: now,
            last: now,
        });
        time.last = now;
        now.duration_since(time.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_counts_from_the_first_look() {
        let (times, id) = (WatchTimes::default(), SubmissionId::new());
        let start = Instant::now();
        let later = start + Duration::from_mins(2);
        assert_eq!(times.watch_at(id, start), Duration::ZERO);
        assert_eq!(times.watch_at(SubmissionId::new(), later), Duration::ZERO);
        assert_eq!(times.watch_at(id, later), Duration::from_mins(2));
    }

    #[test]
    fn what_nobody_looks_at_any_more_is_forgotten() {
        let times = WatchTimes::default();
        let start = Instant::now();
        let ids: Vec<SubmissionId> = (0..MANY).map(|_| SubmissionId::new()).collect();
        for id in &ids {
            times.watch_at(*id, start);
        }
        times.watch_at(ids[0], start + FORGET_AFTER / 2);
        times.watch_at(SubmissionId::new(), start + FORGET_AFTER);
        assert_eq!(times.submissions.lock().unwrap().len(), 2);
        let watched = times.watch_at(ids[0], start + FORGET_AFTER);
        assert_eq!(watched, FORGET_AFTER);
    }
}
