//! A circuit breaker: a failing route is paused, then tried.
//!
//! A failure that is certain costs a caller nothing: the order goes to the next route. So after such
//! failures one order is the trial. If it is unknown whether the provider took an order, that order
//! is lost to its caller. After such a failure the route is tried by a call that orders nothing, and
//! by an order only if no other route works.

use std::time::Duration;

use mediagate_model::clock::Timestamp;

/// Failures in a row that open it.
const FAILURE_LIMIT: u32 = 3;
/// The first pause; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_mins(5);
/// How long trial calls are not believed after a route answered one and lost the next order.
const DISTRUST_PERIOD: Duration = Duration::from_hours(1);
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
    /// Whether the last failure left an order of which it is unknown whether it was accepted.
    has_lost_order: bool,
    /// Whether the provider answered a trial call since then.
    has_answered: bool,
    /// When the provider's answers to trial calls count again, because an order was lost after one.
    distrusted_until: Option<Timestamp>,
}

/// How an order uses a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteUse {
    /// Other routes may do the order.
    Usual,
    /// No other route works, so the order may be the trial of this one.
    LastResort,
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

    /// Whether a call that orders nothing should be sent now, to try the provider.
    pub fn wants_trial_call(&self, now: Timestamp) -> bool {
        self.awaits_trial_call(now) && self.distrusted_until.is_none_or(|until| until <= now)
    }

    /// Whether the pause is over, and an order passes only as a last resort until the provider has
    /// answered a trial call.
    pub fn awaits_trial_call(&self, now: Timestamp) -> bool {
        let is_suspended = self.open_until.is_some() && self.lets_pass(now);
        is_suspended && self.has_lost_order && !self.has_answered
    }

    /// Asks to send a submission. After a pause only one is allowed until its outcome is known.
    pub fn enter(&mut self, now: Timestamp, route_use: RouteUse) -> bool {
        let is_ready = route_use == RouteUse::LastResort || !self.awaits_trial_call(now);
        let is_allowed = is_ready && self.lets_pass(now) && self.busy_until(now).is_none();
        if is_allowed && self.open_until.is_some() {
            self.trial_until = Some(now.plus(TRIAL_TIMEOUT));
        }
        is_allowed
    }

    /// Records that the route works.
    pub fn record_success(&mut self) {
        *self = Self::default();
    }

    /// Records the outcome of a call that ordered nothing.
    pub fn record_trial_call(&mut self, now: Timestamp, is_answered: bool) {
        if is_answered {
            self.has_answered = true;
        } else {
            self.open(now, None);
        }
    }

    /// Records that it is unknown whether the provider took an order; `at_once` if the next order
    /// has another route to go to.
    pub fn record_lost_order(&mut self, now: Timestamp, at_once: bool) {
        if self.has_answered {
            self.distrusted_until = Some(now.plus(DISTRUST_PERIOD));
        }
        self.record_failure(now, at_once, None);
        (self.has_lost_order, self.has_answered) = (true, false);
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
            self.open(now, pause);
        }
    }

    fn open(&mut self, now: Timestamp, pause: Option<Duration>) {
        // The exponent is capped only against overflow. The pause reaches its own limit before.
        let backoff = FIRST_PAUSE.saturating_mul(1 << self.times_opened.min(10));
        self.times_opened += 1;
        // Capped even if the provider asks for longer, so that no response closes a route for
        // hours.
        self.open_until = Some(now.plus(pause.unwrap_or(backoff).min(MAX_PAUSE)));
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
        let usual = RouteUse::Usual;
        assert!(breaker.enter(at(5), usual) && !breaker.enter(at(5), usual));
        assert!(!breaker.lets_pass(at(6)), "one trial at a time");
        breaker.record_failure(at(6), false, None);
        assert!(!breaker.lets_pass(at(15)), "the pause grows");
        assert!(breaker.lets_pass(at(16)));
        assert!(breaker.enter(at(16), usual));
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
        assert!(breaker.enter(at(5), RouteUse::Usual));
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
        let usual = RouteUse::Usual;
        assert!(!breaker.enter(at(6), usual) && breaker.enter(at(7), usual));
        assert_eq!(breaker.last_open_until(), None);
    }

    #[test]
    fn after_a_lost_order_the_trial_is_a_call_that_orders_nothing() {
        let mut breaker = CircuitBreaker::default();
        breaker.record_lost_order(at(0), true);
        assert!(!breaker.lets_pass(at(4)) && !breaker.awaits_trial_call(at(4)));
        assert!(breaker.awaits_trial_call(at(5)));
        assert!(
            !breaker.enter(at(5), RouteUse::Usual),
            "another route works"
        );
        assert!(breaker.clone().enter(at(5), RouteUse::LastResort));
        breaker.record_trial_call(at(5), false);
        assert_eq!(breaker.last_open_until(), Some(at(15)), "the pause grows");
        breaker.record_trial_call(at(15), true);
        assert!(!breaker.awaits_trial_call(at(15)));
        assert!(breaker.enter(at(15), RouteUse::Usual));
        breaker.record_success();
        assert_eq!(breaker.state(at(15)), BreakerState::Closed);
    }

    #[test]
    fn a_provider_that_answers_and_loses_orders_is_tried_rarely() {
        let mut breaker = CircuitBreaker::default();
        breaker.record_lost_order(at(0), true);
        let mut lost_orders = 0;
        for second in 0..86_400 {
            let now = at(second);
            if breaker.wants_trial_call(now) {
                breaker.record_trial_call(now, true);
            }
            if breaker.enter(now, RouteUse::Usual) {
                breaker.record_lost_order(now, true);
                lost_orders += 1;
            }
        }
        assert!((24..=26).contains(&lost_orders), "{lost_orders}");
        assert!(breaker.enter(at(90_000), RouteUse::LastResort));
    }

    #[test]
    fn a_certain_failure_opens_at_once_for_the_requested_pause() {
        let mut breaker = CircuitBreaker::default();
        breaker.record_failure(at(0), true, Some(Duration::from_secs(30)));
        assert!(!breaker.lets_pass(at(29)) && breaker.lets_pass(at(30)));
    }
}
