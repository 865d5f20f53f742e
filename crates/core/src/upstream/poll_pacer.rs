//! Poll pacer: how many polls a second are sent with one credential, and in which order its jobs
//! are polled when more are due.
//!
//! The rate starts at `INITIAL_RATE` (or the limit, if that is lower). While polls have to wait
//! for it and the provider answers them, it doubles each second. When the provider refuses a poll
//! as one too many (429), it halves, and from then on grows by a twentieth a second: a slow start
//! and a decrease as in TCP (Jacobson, "Congestion Avoidance and Control", 1988). It never exceeds
//! the limit that the operator set or the provider documents.
//!
//! Polls that wait are sent in the order of their deadlines: the time at which they were due plus
//! the interval at which their job is polled. A job near its expected end has a short interval and
//! overtakes one that is not expected to end soon.
//!
//! It is independent of jobs and tasks: a poll is a deadline and its share of a call.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use locks::lock;
use providers::{ErrorClass, ProviderError};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Polls a second before the provider has shown what it allows.
const INITIAL_RATE: f64 = 1000.0;
/// Time for which unused polls are saved up. Timers have a resolution of a millisecond.
const BURST: Duration = Duration::from_millis(20);
/// Growth a second after a refusal, as a share of the rate.
const CAREFUL_GROWTH: f64 = 0.05;
/// Refusals within this time count as one: the polls were sent at the same rate.
const REFUSAL_WINDOW: Duration = Duration::from_secs(1);
/// The rate never falls below this.
const MIN_RATE: f64 = 1.0;

/// Paces the polls with one credential.
#[derive(Debug)]
pub struct PollPacer {
    /// Held by the one waiting poll that grants turns to all.
    granting: tokio::sync::Mutex<()>,
    state: Mutex<PacerState>,
}

#[derive(Debug)]
struct PacerState {
    /// Polls a second.
    rate: f64,
    max_rate: f64,
    /// The rate below which it doubles each second.
    slow_start_below: f64,
    refused_at: Option<Instant>,
    /// Polls that may be sent now.
    tokens: f64,
    refilled_at: Instant,
    /// By deadline, then by the number of their arrival.
    waiting: BTreeMap<(Instant, u64), WaitingPoll>,
    arrivals: u64,
}

#[derive(Debug)]
struct WaitingPoll {
    share: f64,
    turn: oneshot::Sender<()>,
}

impl PollPacer {
    /// A pacer for at most `max_rate` polls a second.
    pub fn new(max_rate: u32) -> Self {
        let max_rate = f64::from(max_rate).max(MIN_RATE);
        let state = PacerState {
            rate: INITIAL_RATE.min(max_rate),
            max_rate,
            slow_start_below: max_rate,
            refused_at: None,
            tokens: 0.0,
            refilled_at: Instant::now(),
            waiting: BTreeMap::new(),
            arrivals: 0,
        };
        Self {
            granting: tokio::sync::Mutex::default(),
            state: Mutex::new(state),
        }
    }

    /// The polls that are allowed in a second now.
    pub fn polls_per_second(&self) -> f64 {
        self.state().rate
    }

    /// Waits until a poll is due and may be sent. `interval` is the time between polls of its job.
    /// `share` is its share of a call: less than 1 if one call polls several jobs.
    pub async fn wait_turn(&self, due: Instant, interval: Duration, share: f64) {
        tokio::time::sleep_until(due).await;
        let Some(mut turn) = self.state().enter(due + interval, share) else {
            return;
        };
        tokio::select! {
            biased;
            _ = &mut turn => {}
            // One of those that wait grants turns, until its own has come.
            _granting = self.granting.lock() => loop {
                let next = self.state().grant();
                if turn.try_recv().is_ok() {
                    return;
                }
                tokio::time::sleep_until(next).await;
            }
        }
    }

    /// Notes the result of a poll.
    pub fn note_result<T>(&self, result: &Result<T, ProviderError>, share: f64) {
        match result {
            Ok(_) => self.note_answer(share),
            Err(error) if error.class == ErrorClass::RateLimited => self.note_refusal(),
            // Other errors show nothing about the provider's limits.
            Err(_) => {}
        }
    }

    /// The provider has answered a poll.
    fn note_answer(&self, share: f64) {
        let mut state = self.state();
        // If no poll waits, the rate is not the limit, and an answer does not show that more would
        // be allowed.
        if state.waiting.is_empty() {
            return;
        }
        // The number of answers in a second is the rate, so each answer adds the natural logarithm
        // of the growth in a second.
        let growth = if state.rate < state.slow_start_below {
            std::f64::consts::LN_2
        } else {
            CAREFUL_GROWTH
        };
        state.rate = (state.rate + growth * share).min(state.max_rate);
    }

    /// The provider has refused a poll as one too many.
    fn note_refusal(&self) {
        let now = Instant::now();
        let mut state = self.state();
        let refused_at = state.refused_at;
        if refused_at.is_some_and(|at| now.duration_since(at) < REFUSAL_WINDOW) {
            return;
        }
        state.refused_at = Some(now);
        state.rate = (state.rate / 2.0).max(MIN_RATE);
        state.slow_start_below = state.rate;
    }

    fn state(&self) -> MutexGuard<'_, PacerState> {
        lock(&self.state)
    }
}

impl PacerState {
    /// `None` if the poll may be sent at once.
    fn enter(&mut self, deadline: Instant, share: f64) -> Option<oneshot::Receiver<()>> {
        self.refill();
        if self.waiting.is_empty() && self.tokens >= 1.0 {
            self.tokens -= share;
            return None;
        }
        let (turn, granted) = oneshot::channel();
        self.arrivals += 1;
        let poll = WaitingPoll { share, turn };
        self.waiting.insert((deadline, self.arrivals), poll);
        Some(granted)
    }

    /// Grants the turns that are due; returns when the next one is.
    fn grant(&mut self) -> Instant {
        self.refill();
        while self.tokens >= 1.0
            && let Some((_, poll)) = self.waiting.pop_first()
        {
            // A job whose task was cancelled no longer waits.
            if poll.turn.send(()).is_ok() {
                self.tokens -= poll.share;
            }
        }
        self.refilled_at + Duration::from_secs_f64((1.0 - self.tokens).max(0.0) / self.rate)
    }

    fn refill(&mut self) {
        let now = Instant::now();
        let elapsed = now.duration_since(self.refilled_at).as_secs_f64();
        let max_tokens = (self.rate * BURST.as_secs_f64()).max(1.0);
        self.tokens = (self.tokens + elapsed * self.rate).min(max_tokens);
        self.refilled_at = now;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Sends `polls` polls that are due now; returns the seconds until each had its turn.
    async fn turns(pacer: &Arc<PollPacer>, polls: u32, answered: bool) -> Vec<f64> {
        let start = Instant::now();
        let polls = (0..polls).map(|_| async {
            pacer.wait_turn(start, Duration::ZERO, 1.0).await;
            if answered {
                pacer.note_answer(1.0);
            }
            start.elapsed().as_secs_f64()
        });
        futures_util::future::join_all(polls).await
    }

    #[tokio::test(start_paused = true)]
    async fn polls_are_spread_at_the_rate() {
        let pacer = Arc::new(PollPacer::new(100));
        let turns = turns(&pacer, 300, false).await;
        let last = turns.iter().copied().fold(0.0, f64::max);
        assert!((2.9..3.1).contains(&last), "{last}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_rate_doubles_while_the_provider_answers() {
        let pacer = Arc::new(PollPacer::new(100_000));
        let turns = turns(&pacer, 10_000, true).await;
        let last = turns.iter().copied().fold(0.0, f64::max);
        // 1000 × (2^t - 1) / ln 2 polls after t seconds.
        assert!((2.7..3.3).contains(&last), "{last}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_halves_the_rate_once_and_growth_is_slow_afterwards() {
        let pacer = Arc::new(PollPacer::new(1000));
        pacer.note_refusal();
        pacer.note_refusal();
        assert!((pacer.polls_per_second() - 500.0).abs() < 1.0);
        tokio::time::advance(REFUSAL_WINDOW).await;
        pacer.note_refusal();
        assert!((pacer.polls_per_second() - 250.0).abs() < 1.0);
        let turns = turns(&pacer, 500, true).await;
        let last = turns.iter().copied().fold(0.0, f64::max);
        assert!((1.7..2.05).contains(&last), "{last}");
    }

    #[tokio::test(start_paused = true)]
    async fn answers_do_not_raise_a_rate_that_nobody_waits_for() {
        let pacer = Arc::new(PollPacer::new(100_000));
        for _ in 0..100 {
            pacer.note_answer(1.0);
        }
        assert!((pacer.polls_per_second() - INITIAL_RATE).abs() < 1.0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_near_its_end_is_polled_first() {
        let pacer = Arc::new(PollPacer::new(10));
        let now = Instant::now();
        let order = Mutex::new(Vec::new());
        let poll = async |interval: u64| {
            pacer
                .wait_turn(now, Duration::from_secs(interval), 1.0)
                .await;
            order.lock().unwrap().push(interval);
        };
        tokio::join!(poll(60), poll(30), poll(1), poll(2));
        assert_eq!(*order.lock().unwrap(), [1, 2, 30, 60]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_poll_that_no_longer_waits_takes_no_turn() {
        let pacer = Arc::new(PollPacer::new(10));
        let now = Instant::now();
        // This poll grants the turns until it is cancelled. Then the other must take over.
        let granting = tokio::time::timeout(
            Duration::from_millis(1),
            pacer.wait_turn(now, Duration::from_secs(9), 1.0),
        );
        let (granted, ()) = tokio::join!(granting, pacer.wait_turn(now, Duration::ZERO, 1.0));
        assert!(granted.is_err());
        assert!(now.elapsed() < Duration::from_millis(150));
    }

    #[tokio::test(start_paused = true)]
    async fn jobs_of_one_call_share_its_turn() {
        let pacer = Arc::new(PollPacer::new(10));
        let start = Instant::now();
        let polls = (0..200).map(|_| pacer.wait_turn(start, Duration::ZERO, 0.02));
        futures_util::future::join_all(polls).await;
        assert!(start.elapsed() < Duration::from_millis(600));
    }
}
