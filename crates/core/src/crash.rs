//! Crash points: named places at which a test can make a process die or stop, each between two
//! durable writes. Compiled out of release builds.
//!
//! With `MEDIAGATE_CRASH_AT=task-accepted` the process dies when it first reaches the point, with
//! `task-accepted:3` at the third time. `MEDIAGATE_STOP_AT` stops the whole process there instead,
//! as `SIGSTOP` does, until it gets `SIGCONT`.

/// Every point, with a description of what is on disk there and of what is not yet.
pub const POINTS: &[(&str, &str)] = &[
    (
        "intent-reserved",
        "an intent is on disk; nothing has been made for it yet",
    ),
    (
        "about-to-accept",
        "an order was checked; nothing about it is on disk yet",
    ),
    (
        "task-accepted",
        "a task and its reservation are on disk; its caller has no answer yet",
    ),
    (
        "answer-kept",
        "an answer is on disk for its key; none of it has been sent yet",
    ),
    (
        "clip-uploaded",
        "an uploaded clip is on disk; its caller has no answer yet",
    ),
    (
        "persona-intended",
        "an intent is marked as sent on disk; the order for its persona has not been sent yet",
    ),
    (
        "persona-sent",
        "the provider has made a persona; this is not on disk yet",
    ),
    (
        "persona-made",
        "a persona is on disk; its caller has no answer yet",
    ),
    (
        "task-approved",
        "the approval of a task is on disk; no worker has been woken for it yet",
    ),
    (
        "submission-intended",
        "a submission is on disk; its order has not been sent yet",
    ),
    (
        "submission-sent",
        "the provider has answered an order; the answer is not on disk yet",
    ),
    (
        "submission-accepted",
        "the provider's job is on disk; no process polls it yet",
    ),
    (
        "results-stored",
        "the files of a result are on disk; no record names them yet",
    ),
    (
        "task-ended",
        "the end of a task and its charge are on disk; nobody has been notified yet",
    ),
    (
        "task-cancelled",
        "the cancellation of a task is on disk; its provider has not been notified yet",
    ),
    (
        "job-cancelled",
        "the provider has confirmed the cancellation of a job; this is not on disk yet",
    ),
    (
        "delivery-claimed",
        "the claim of a delivery is on disk; its webhook has not been sent yet",
    ),
    (
        "delivery-sent",
        "a webhook was answered; the answer is not on disk yet",
    ),
    ("delivery-written", "the outcome of a webhook is on disk"),
];

/// Dies or stops here if the environment variables name this point.
#[cfg(debug_assertions)]
pub fn point(name: &'static str) {
    debug_assert!(POINTS.iter().any(|point| point.0 == name), "{name}");
    if debug::CRASH.is_reached(name) {
        std::process::abort();
    }
    if debug::STOP.is_reached(name) {
        debug::stop_process();
    }
}

#[cfg(debug_assertions)]
mod debug {
    use std::process::Command;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    pub(super) static CRASH: CrashPoint = CrashPoint::new("MEDIAGATE_CRASH_AT");
    pub(super) static STOP: CrashPoint = CrashPoint::new("MEDIAGATE_STOP_AT");

    /// A point that an environment variable selects, and the pass through it at which it acts.
    pub(super) struct CrashPoint {
        variable: &'static str,
        /// The name of the point, and the number of the pass.
        selection: OnceLock<Option<(String, u32)>>,
        passes: AtomicU32,
    }

    impl CrashPoint {
        const fn new(variable: &'static str) -> Self {
            Self {
                variable,
                selection: OnceLock::new(),
                passes: AtomicU32::new(0),
            }
        }

        pub(super) fn is_reached(&self, name: &str) -> bool {
            let selection = self.selection.get_or_init(|| {
                let text = std::env::var(self.variable).ok()?;
                let (name, count) = text.split_once(':').unwrap_or((&text, "1"));
                Some((name.to_owned(), count.parse().ok()?))
            });
            selection.as_ref().is_some_and(|(selected, number)| {
                // Only passes through the selected point are counted; exactly one has the number.
                selected == name && self.passes.fetch_add(1, Ordering::SeqCst) + 1 == *number
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
