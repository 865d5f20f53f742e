//! A circuit breaker: a failing route is paused, then tried with one submission.

use std::time::Duration;

use mediagate_model::clock::Timestamp;

/// Failures in a row that open it.
const FAILURE_LIMIT: u32 = 3;
/// The first pause; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_mins(5);
/// The pause for a busy provider that names no time.
const DEFAULT_BUSY_PAUSE: Duration = Duration::from_secs(2);
/// How long a trial without an outcome counts.
const TRIAL_TIMEOUT: Duration = Duration::from_mins(1);

/// The breaker of one route.
#[derive(Debug, Clone, Default)]
pub struct CircuitBreaker {
    failures: u32,
    times_opened: u32,
    open_until: Option<Timestamp>,
    trial_until: Option<Timestamp>,
    busy_until: Option<Timestamp>,
}

impl CircuitBreaker {
    /// Whether a submission may be sent: the breaker is closed, or its pause is over and no trial
    /// is under way.
    pub fn lets_pass(&self, now: Timestamp) -> bool {
        let is_over = |instant: Option<Timestamp>| instant.is_none_or(|until| until <= now);
        is_over(self.open_until) && is_over(self.trial_until)
    }

    /// The end of the pause that the provider asked for; such a pause does not count as a failure.
    pub fn busy_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.busy_until.filter(|until| *until > now)
    }

    /// Asks to send a submission. After a pause only one is allowed until its outcome is known.
    pub fn enter(&mut self, now: Timestamp) -> bool {
        let is_allowed = self.lets_pass(now) && self.busy_until(now).is_none();
        if is_allowed && self.open_until.is_some() {
            self.trial_until = Some(now.plus(TRIAL_TIMEOUT));
        }
        is_allowed
    }

    /// Records that the route works.
    pub fn record_success(&mut self) {
        *self = Self::default();
    }

    /// Records that the route failed; `at_once` if one failure is enough to know that the next
    /// would fail too, `pause` if the provider said how long.
    pub fn record_failure(&mut self, now: Timestamp, at_once: bool, pause: Option<Duration>) {
        self.failures += 1;
        self.trial_until = None;
        // Submissions sent before it opened prove nothing about the time after the pause.
        if pause.is_none() && self.open_until.is_some_and(|until| until > now) {
            return;
        }
        // After the first pause one failure is enough: nothing has worked since.
        if at_once || self.failures >= FAILURE_LIMIT || self.times_opened > 0 {
            // The exponent is capped only against overflow. The pause reaches its own limit before.
            let backoff = FIRST_PAUSE.saturating_mul(1 << self.times_opened.min(10));
            self.times_opened += 1;
            // Capped even if the provider asks for longer, so that no response closes a route for
            // hours.
            self.open_until = Some(now.plus(pause.unwrap_or(backoff).min(MAX_PAUSE)));
        }
    }

    /// Records that the provider is busy and asked for a pause. That is not a failure: the work
    /// waits for it.
    pub fn record_busy(&mut self, now: Timestamp, pause: Option<Duration>) {
        self.trial_until = None;
        self.busy_until = Some(now.plus(pause.unwrap_or(DEFAULT_BUSY_PAUSE).min(MAX_PAUSE)));
    }

    /// Ends a trial that showed neither success nor failure.
    pub fn end_trial(&mut self) {
        self.trial_until = None;
    }

    /// Failures in a row.
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    pub fn state(&self, now: Timestamp) -> BreakerState {
        let is_ahead = |instant: Option<Timestamp>| instant.is_some_and(|until| until > now);
        if is_ahead(self.trial_until) {
            BreakerState::Trial
        } else if is_ahead(self.open_until) {
            BreakerState::Open
        } else if is_ahead(self.busy_until) {
            BreakerState::Busy
        } else if self.open_until.is_some() {
            // The pause is over, but nothing has succeeded since. The next submission is the trial.
            BreakerState::Trial
        } else {
            BreakerState::Closed
        }
    }

    /// The time until which it stays open.
    pub const fn last_open_until(&self) -> Option<Timestamp> {
        self.open_until
    }
}

/// What a breaker does with the next submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(const_into_str, serialize_all = "lowercase")]
pub enum BreakerState {
    /// Submissions pass.
    Closed,
    /// Submissions are blocked after failures.
    Open,
    /// One submission is allowed, to find out whether the route works again.
    Trial,
    /// Submissions wait, because the provider asked for a pause.
    Busy,
}

impl BreakerState {
    pub const fn name(self) -> &'static str {
        self.into_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    #[test]
    fn a_breaker_opens_tries_once_and_closes() {
        let mut breaker = CircuitBreaker::default();
        breaker.record_failure(at(0), false, None);
        breaker.record_failure(at(0), false, None);
        assert!(breaker.lets_pass(at(0)));
        breaker.record_failure(at(0), false, None);
        assert!(!breaker.lets_pass(at(4)));
        assert_eq!(breaker.state(at(4)), BreakerState::Open);
        assert_eq!(breaker.state(at(5)), BreakerState::Trial);
        assert!(breaker.lets_pass(at(5)));
        assert!(breaker.enter(at(5)) && !breaker.enter(at(5)));
        assert!(!breaker.lets_pass(at(6)), "one trial at a time");
        breaker.record_failure(at(6), false, None);
        assert!(!breaker.lets_pass(at(15)), "the pause grows");
        assert!(breaker.lets_pass(at(16)));
        assert!(breaker.enter(at(16)));
        breaker.record_success();
        assert!(breaker.lets_pass(at(16)) && breaker.last_open_until().is_none());
    }

    #[test]
    fn failures_of_submissions_under_way_lengthen_no_pause() {
        let mut breaker = CircuitBreaker::default();
        for _ in 0..12 {
            breaker.record_failure(at(0), false, None);
        }
        assert_eq!(
            (breaker.last_open_until(), breaker.failures()),
            (Some(at(5)), 12)
        );
        assert!(breaker.enter(at(5)));
        breaker.record_failure(at(5), false, None);
        assert_eq!(breaker.last_open_until(), Some(at(15)), "the trial failed");
    }

    #[test]
    fn a_busy_provider_is_waited_for_and_has_not_failed() {
        let mut breaker = CircuitBreaker::default();
        for _ in 0..9 {
            breaker.record_busy(at(0), Some(Duration::from_secs(7)));
        }
        assert!(breaker.lets_pass(at(0)), "it works");
        assert!(!breaker.enter(at(6)) && breaker.enter(at(7)));
        assert_eq!(breaker.last_open_until(), None);
    }

    #[test]
    fn a_certain_failure_opens_at_once_for_the_requested_pause() {
        let mut breaker = CircuitBreaker::default();
        breaker.record_failure(at(0), true, Some(Duration::from_secs(30)));
        assert!(!breaker.lets_pass(at(29)) && breaker.lets_pass(at(30)));
    }
}
