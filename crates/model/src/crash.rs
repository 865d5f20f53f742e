//! Crash points: named places at which test builds can be made to die or to stop, each between two durable
//! writes. Compiled out of release builds.
//!
//! `MEDIAGATE_CRASH_AT=task-accepted` dies the first time that the point is reached,
//! `task-accepted:3` the third time. `MEDIAGATE_STOP_AT` stops the whole process there instead, as
//! `SIGSTOP` does, until it gets `SIGCONT`.

/// Every point, with a description of what is on disk there and what is not yet.
pub const POINTS: [(&str, &str); 18] = [
    (
        "intent-reserved",
        "an intent is on disk; nothing is made for it",
    ),
    (
        "about-to-accept",
        "an order was checked; nothing of it is on disk",
    ),
    (
        "task-accepted",
        "a task and its reservation are on disk; its caller has no answer yet",
    ),
    (
        "answer-kept",
        "an answer is stored for its key; nothing of it is sent",
    ),
    (
        "clip-uploaded",
        "an uploaded clip is on disk; its caller has no answer yet",
    ),
    (
        "persona-intended",
        "a persona is about to be ordered at a provider",
    ),
    (
        "persona-sent",
        "the provider made a persona; that is not on disk yet",
    ),
    (
        "persona-made",
        "a persona is on disk; its caller has no answer yet",
    ),
    (
        "submission-intended",
        "an order is about to leave for a provider",
    ),
    (
        "submission-sent",
        "the provider answered; that is not on disk yet",
    ),
    (
        "submission-accepted",
        "the provider's job is on disk; nobody polls it yet",
    ),
    (
        "results-stored",
        "the files of a result are in place; no record names them",
    ),
    (
        "task-ended",
        "a task has ended and its money with it; nobody was notified",
    ),
    (
        "task-cancelled",
        "a task is cancelled; its provider was not notified",
    ),
    (
        "job-called-off",
        "a provider called a job off; that is not on disk yet",
    ),
    ("delivery-claimed", "a webhook is about to be sent"),
    (
        "delivery-sent",
        "a webhook was answered; that is not on disk yet",
    ),
    ("delivery-written", "the outcome of a webhook is on disk"),
];

/// Dies or stops here if the environment variables name this point.
#[cfg(debug_assertions)]
pub fn point(name: &'static str) {
    debug_assert!(POINTS.iter().any(|point| point.0 == name), "{name}");
    if armed::CRASH.is_reached(name) {
        std::process::abort();
    }
    if armed::STOP.is_reached(name) {
        armed::stop_process();
    }
}

#[cfg(debug_assertions)]
mod armed {
    use std::process::Command;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    pub(super) static CRASH: CrashPoint = CrashPoint::new("MEDIAGATE_CRASH_AT");
    pub(super) static STOP: CrashPoint = CrashPoint::new("MEDIAGATE_STOP_AT");

    /// A point named by an environment variable, and the visit at which it acts.
    pub(super) struct CrashPoint {
        variable: &'static str,
        armed: OnceLock<Option<(String, u32)>>,
        reached: AtomicU32,
    }

    impl CrashPoint {
        const fn new(variable: &'static str) -> Self {
            Self {
                variable,
                armed: OnceLock::new(),
                reached: AtomicU32::new(0),
            }
        }

        pub(super) fn is_reached(&self, name: &str) -> bool {
            let armed = self.armed.get_or_init(|| {
                let text = std::env::var(self.variable).ok()?;
                let (name, count) = text.split_once(':').unwrap_or((&text, "1"));
                Some((name.to_owned(), count.parse().ok()?))
            });
            armed.as_ref().is_some_and(|(armed, count)| {
                // Counted only for the armed point, and exactly once on the requested visit.
                armed == name && self.reached.fetch_add(1, Ordering::SeqCst) + 1 == *count
            })
        }
    }

    /// The signal reaches the threads soon after the command ends; the caller must not continue
    /// before it does.
    pub(super) fn stop_process() {
        let id = std::process::id().to_string();
        let stopped = Command::new("kill").args(["-STOP", &id]).status();
        debug_assert!(stopped.is_ok_and(|status| status.success()), "cannot stop");
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Does nothing in a release build.
#[cfg(not(debug_assertions))]
#[inline]
pub fn point(_: &'static str) {}
