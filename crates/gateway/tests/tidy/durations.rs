//! Durations of orders at hosted providers: they come from what a process watched, because the clock
//! may be set at any time. Differences between two times of the clock decide nothing there.

use super::{files, root};

/// Functions that compute with times of the clock.
const ARITHMETIC: [&str; 3] = [".since(", ".plus(", ".minus("];

/// The places that may, with their reason.
const ALLOWED: &[(&str, &str, &str)] = &[
    (
        "follow.rs",
        "let elapsed = app.clock.now().since(job.accepted_at);",
        "determines only how often a job is polled, and the guess of its progress",
    ),
    (
        "stray.rs",
        "let elapsed = app.clock.now().since(since);",
        "determines only how often a job is polled",
    ),
    (
        "stray.rs",
        "let (id, due) = (submission.id, context.app.clock.now().plus(pause));",
        "a time at which something is due is pulled forward if it is absurdly late",
    ),
    (
        "resolve.rs",
        "Some(app.clock.now().plus(FIRST_RECHECK)),",
        "when to look for the operator",
    ),
    (
        "resolve.rs",
        "let next_lookup = pause.map(|(_, pause)| now.plus(*pause));",
        "when to look for the operator",
    ),
    (
        "resolve.rs",
        "|age: Duration| app.clock.has_passed(submission.created_at.plus(age)) != Some(true);",
        "`has_passed` does not trust the clock alone",
    ),
    (
        "resolve.rs",
        "let since = submission.created_at.minus(MATCH_WINDOW);",
        "two stored times are compared, and a match needs more than that",
    ),
    (
        "recover.rs",
        "match clock.has_passed(submission.created_at.plus(MAX_REPEAT_AGE)) {",
        "`has_passed` does not trust the clock alone",
    ),
    (
        "submit.rs",
        "let is_over = clock.has_passed(started_at.plus(BUSY_TIMEOUT)) == Some(true);",
        "`has_passed` does not trust the clock alone",
    ),
    (
        "submit.rs",
        "return Err((RunOutcome::RetryLater(until.since(now)), None));",
        "a pause that the provider asked for; the order is not sent yet",
    ),
    (
        "capacity.rs",
        "counts.recent = store::submissions::count_since(conn, provider, now.minus(MINUTE))?;",
        "a limit of orders per minute, before anything is sent",
    ),
    (
        "route_trial.rs",
        "let since = app.clock.now().minus(MAX_JOB_AGE);",
        "which job is asked for; nothing is ordered or ended by it",
    ),
    (
        "signed_urls.rs",
        "Some(signed_at?.plus(Duration::from_secs(validity_seconds?)))",
        "the time is in the URL",
    ),
];

#[test]
fn durations_of_orders_come_from_what_a_process_watched() {
    let mut unused: Vec<_> = ALLOWED.iter().collect();
    for path in files(&root().join("../worker/src/upstream"), "rs") {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let program = text.split("#[cfg(test)]").next().unwrap_or_default();
        for line in program.lines().map(str::trim) {
            if !ARITHMETIC.iter().any(|function| line.contains(function)) {
                continue;
            }
            let is_this = |place: &&(&str, &str, &str)| place.0 == name && place.1 == line;
            let allowed = ALLOWED.iter().any(|place| is_this(&place));
            assert!(
                allowed,
                "{name}: {line}\nThe clock may be set at any time: use the time that this process watched, or \
                 `Clock::has_passed`. A place that decides nothing is named in tidy/durations.rs."
            );
            unused.retain(|place| !is_this(place));
        }
    }
    assert!(unused.is_empty(), "these places are gone: {unused:?}");
}
