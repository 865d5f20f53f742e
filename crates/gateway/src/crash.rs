//! Named places at which a build for tests can be made to die, each between two
//! durable writes. Compiled out of release builds.
//!
//! `MEDIAGATE_CRASH_AT=task-accepted` dies the first time that the place is
//! reached, `task-accepted:3` the third time.

/// Every place, with what is on disk there and what is not yet.
pub const POINTS: [(&str, &str); 14] = [
    (
        "intent-reserved",
        "an intent is on disk; nothing is made for it",
    ),
    (
        "task-accepted",
        "a task and its reservation are on disk; its caller knows nothing",
    ),
    (
        "answer-kept",
        "an answer is kept for its key; nothing of it is sent",
    ),
    (
        "clip-uploaded",
        "an uploaded clip is on disk; its caller knows nothing",
    ),
    (
        "persona-intended",
        "a persona is about to be ordered at a provider",
    ),
    (
        "persona-sent",
        "the provider made a persona; nothing here says so",
    ),
    (
        "persona-made",
        "a persona is on disk; its caller knows nothing",
    ),
    (
        "submission-intended",
        "an order is about to leave for a provider",
    ),
    (
        "submission-sent",
        "the provider answered; nothing here says so",
    ),
    (
        "submission-accepted",
        "the provider's job is on disk; nobody asks for it yet",
    ),
    (
        "results-stored",
        "the files of a result are in place; no record names them",
    ),
    (
        "task-ended",
        "a task has ended and its money with it; nobody was told",
    ),
    (
        "task-cancelled",
        "a task is cancelled; its provider was not told",
    ),
    (
        "job-called-off",
        "a provider called a job off; nothing here says so",
    ),
];

/// Dies here when the environment says so.
#[cfg(debug_assertions)]
pub fn point(name: &'static str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    static ARMED: OnceLock<Option<(String, u32)>> = OnceLock::new();
    static REACHED: AtomicU32 = AtomicU32::new(0);
    debug_assert!(POINTS.iter().any(|point| point.0 == name), "{name}");
    let armed = ARMED.get_or_init(|| {
        let text = std::env::var("MEDIAGATE_CRASH_AT").ok()?;
        let (name, count) = text.split_once(':').unwrap_or((&text, "1"));
        Some((name.to_owned(), count.parse().ok()?))
    });
    if let Some((armed, count)) = armed
        && armed == name
        && REACHED.fetch_add(1, Ordering::SeqCst) + 1 == *count
    {
        std::process::abort();
    }
}

/// Nothing, in a release.
#[cfg(not(debug_assertions))]
#[inline]
pub fn point(_: &'static str) {}
