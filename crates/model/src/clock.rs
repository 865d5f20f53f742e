//! Time: one type for instants, and a clock that tests can move.
//!
//! Instants are microseconds since the Unix epoch, as stored. Nothing else in the crate reads the
//! system clock (clippy.toml bans it).
//!
//! The system clock can be wrong for seconds or for days. Irreversible decisions (forgetting an
//! idempotency key, deleting media) therefore use [`Clock::cutoff`], which relies on a second time
//! that follows the clock slowly: the steady time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use locks::lock;

/// The Unix epoch, in UTC.
const EPOCH: jiff::civil::DateTime =
    jiff::civil::date(1970, 1, 1).to_datetime(jiff::civil::Time::midnight());

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The end of the year 9999: RFC 3339 has no later time.
    pub const LATEST: Self = Self(253_402_300_799_999_999);

    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Rounded down.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// RFC 3339 in UTC with milliseconds: `2026-01-02T03:04:05.678Z`.
    pub fn rfc3339(self) -> String {
        jiff::Timestamp::from_microsecond(self.0).map_or_else(
            // `jiff::Timestamp` ends a day and two hours before the year 9999 does.
            |_| {
                let since_epoch = jiff::SignedDuration::from_micros(self.0);
                format!("{:.3}Z", EPOCH.saturating_add(since_epoch))
            },
            |t| format!("{t:.3}"),
        )
    }

    /// Parses an RFC 3339 instant, or a date as its first instant in UTC.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(date) = text.parse::<jiff::civil::Date>()
            && text.len() == 10
        {
            return Self::of_civil(date.to_datetime(jiff::civil::Time::midnight()));
        }
        if let Ok(instant) = text.parse::<jiff::Timestamp>() {
            return Some(Self(instant.as_microsecond()));
        }
        // The end of the year 9999, which `jiff::Timestamp` leaves out.
        let pieces = jiff::fmt::temporal::Pieces::parse(text).ok()?;
        let local = Self::of_civil(pieces.date().to_datetime(pieces.time()?))?;
        let offset = i64::from(pieces.to_numeric_offset()?.seconds());
        let instant = Self(local.0.checked_sub(offset * 1_000_000)?);
        (Self(0)..=Self::LATEST)
            .contains(&instant)
            .then_some(instant)
    }

    fn of_civil(utc: jiff::civil::DateTime) -> Option<Self> {
        let micros = utc.duration_since(EPOCH).as_micros();
        i64::try_from(micros).ok().map(Self)
    }

    /// The first instant of its day, in UTC.
    #[must_use]
    pub const fn start_of_day(self) -> Self {
        const DAY: i64 = 86_400_000_000;
        Self(self.0.div_euclid(DAY) * DAY)
    }

    /// The day of the month in UTC, from 1 to 31.
    pub fn day_of_month(self) -> i8 {
        jiff::Timestamp::from_microsecond(self.0)
            .map_or(1, |t| t.to_zoned(jiff::tz::TimeZone::UTC).day())
    }

    /// Saturating.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(micros_of(by)))
    }

    /// Saturating.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(micros_of(by)))
    }

    /// Time since `earlier`; zero if that is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

fn micros_of(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// A source of the current time.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    source: ClockSource,
    /// How far the clock of the database is ahead of this machine's, in microseconds, where
    /// machines share a database.
    database_offset: Arc<AtomicI64>,
    steady: Arc<Mutex<Option<SteadyTime>>>,
}

#[derive(Debug, Clone, Default)]
enum ClockSource {
    #[default]
    System,
    /// The elapsed time, and how far the clock was set ahead of it.
    Manual(Arc<AtomicI64>, Arc<AtomicI64>),
}

/// A time that never jumps: it follows the clock at no more than ten times the speed of the
/// machine's timer, and waits while the clock is behind it.
#[derive(Debug, Clone, Copy)]
struct SteadyTime {
    at: i64,
    observed_at: Instant,
}

/// How many times faster than real time the steady time may catch up.
const MAX_CATCH_UP: i64 = 10;
/// How far the clock may differ from the steady time while old data is still deleted.
const MAX_SETTLED_DRIFT: i64 = 5 * 60 * 1_000_000;
/// A smaller difference between this machine's clock and the database's is not worth correcting.
const NEGLIGIBLE_OFFSET: i64 = 1_000_000;

impl SteadyTime {
    fn follow(&mut self, clock: i64, now: Instant) {
        let elapsed = now.saturating_duration_since(self.observed_at);
        let max_step = micros_of(elapsed).saturating_mul(MAX_CATCH_UP);
        // The steady time never goes back, so that nothing gets younger. It goes forward by limited
        // steps: a clock that jumps ten days ahead must stay there for more than a day before it is
        // trusted.
        self.at = self.at.saturating_add((clock - self.at).clamp(0, max_step));
        self.observed_at = now;
    }
}

impl Clock {
    pub fn system() -> Self {
        Self::default()
    }

    /// Starts now and moves only by [`Clock::advance`] and [`Clock::set_ahead`].
    pub fn manual() -> Self {
        let now = Arc::new(AtomicI64::new(Self::system().now().micros()));
        Self {
            source: ClockSource::Manual(now, Arc::default()),
            ..Self::default()
        }
    }

    /// The present.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the system clock"
    )]
    pub fn now(&self) -> Timestamp {
        let micros = match &self.source {
            ClockSource::System => {
                let offset = self.database_offset.load(Ordering::Relaxed);
                jiff::Timestamp::now()
                    .as_microsecond()
                    .saturating_add(offset)
            }
            ClockSource::Manual(micros, ahead) => {
                micros.load(Ordering::SeqCst) + ahead.load(Ordering::SeqCst)
            }
        };
        Timestamp(micros)
    }

    /// The time elapsed since some moment of this process, by the machine's monotonic timer.
    pub fn monotonic_time(&self) -> Duration {
        static START: OnceLock<Instant> = OnceLock::new();
        match &self.source {
            ClockSource::System => START.get_or_init(Instant::now).elapsed(),
            ClockSource::Manual(micros, _) => {
                let micros = micros.load(Ordering::SeqCst);
                Duration::from_micros(u64::try_from(micros).unwrap_or(0))
            }
        }
    }

    /// Moves a manual clock forward; does nothing to a system clock.
    pub fn advance(&self, by: Duration) {
        if let ClockSource::Manual(micros, _) = &self.source {
            micros.fetch_add(micros_of(by), Ordering::SeqCst);
        }
    }

    /// Sets a manual clock this far ahead of the elapsed time; does nothing to a system clock.
    pub fn set_ahead(&self, by: Duration) {
        if let ClockSource::Manual(_, ahead) = &self.source {
            ahead.store(micros_of(by), Ordering::SeqCst);
        }
    }

    /// Corrects the clock by that of the database, which all machines share: the time there was
    /// `database` when [`Clock::now`] returned `local`.
    pub fn sync_to_database(&self, local: Timestamp, database: Timestamp) {
        let difference = database.0.saturating_sub(local.0);
        if difference.abs() > NEGLIGIBLE_OFFSET {
            // Added, because `local` already includes the earlier corrections.
            self.database_offset
                .fetch_add(difference, Ordering::Relaxed);
        }
    }

    /// Continues from the steady time that was last recorded; called once, at startup.
    pub fn continue_from(&self, steady: Timestamp) {
        let now = Instant::now();
        *self.lock_steady() = Some(SteadyTime {
            at: steady.0,
            observed_at: now,
        });
    }

    /// The present steady time: the latest time that has certainly been reached.
    pub fn steady(&self) -> Timestamp {
        // Tests can move the elapsed time and the clock independently.
        if let ClockSource::Manual(micros, _) = &self.source {
            return Timestamp(micros.load(Ordering::SeqCst));
        }
        let (clock, now) = (self.now().0, Instant::now());
        let mut steady = self.lock_steady();
        // Without a recorded time, as with a new database, only the clock can be used.
        let steady = steady.get_or_insert(SteadyTime {
            at: clock,
            observed_at: now,
        });
        steady.follow(clock, now);
        Timestamp(steady.at)
    }

    /// The time to record if an age is later computed from it ([`Clock::cutoff`]): the present, but
    /// never before the steady time. Otherwise, records made while the clock is far behind would be
    /// too old once it is right again.
    pub fn record_time(&self) -> Timestamp {
        self.now().max(self.steady())
    }

    /// How far the clock is ahead of the steady time; negative if it is behind.
    pub fn drift(&self) -> TimeDelta {
        TimeDelta(self.now().0.saturating_sub(self.steady().0))
    }

    /// Whether `at` has passed. `None` if the clock says so and the steady time does not: the clock
    /// was set, or the process has just started after a pause.
    pub fn has_passed(&self, at: Timestamp) -> Option<bool> {
        if self.steady() > at {
            Some(true)
        } else if self.now() > at {
            None
        } else {
            Some(false)
        }
    }

    /// Whether the clock can be trusted: the steady time has nearly caught up with it.
    pub fn is_settled(&self) -> bool {
        self.drift().0.abs() <= MAX_SETTLED_DRIFT
    }

    /// Data that is to be kept for `ttl` may be deleted if it is older than this. While the clock
    /// is not settled, nothing may be deleted: the clock was set, or the process has just started
    /// after a pause.
    pub fn cutoff(&self, ttl: Duration) -> Timestamp {
        if self.is_settled() {
            self.steady().minus(ttl)
        } else {
            // The epoch: nothing is older.
            Timestamp(0)
        }
    }

    fn lock_steady(&self) -> MutexGuard<'_, Option<SteadyTime>> {
        lock(&self.steady)
    }
}

/// A difference of two times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeDelta(i64);

impl TimeDelta {
    /// Rounded towards zero; negative for a time before.
    pub const fn as_seconds(self) -> i64 {
        self.0 / 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_in_utc_with_milliseconds() {
        assert_eq!(
            Timestamp::from_micros(1_767_322_245_678_901).rfc3339(),
            "2026-01-02T02:50:45.678Z"
        );
        assert_eq!(
            Timestamp::from_seconds(0).rfc3339(),
            "1970-01-01T00:00:00.000Z"
        );
    }

    #[test]
    fn the_end_of_the_last_year_is_read_and_written() {
        for (text, shown) in [
            ("9999-12-31", "9999-12-31T00:00:00.000Z"),
            ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59.000Z"),
            ("9999-12-31T23:59:59+02:00", "9999-12-31T21:59:59.000Z"),
            ("2026-01-02", "2026-01-02T00:00:00.000Z"),
            ("2026-01-02T03:04:05-01:00", "2026-01-02T04:04:05.000Z"),
        ] {
            assert_eq!(Timestamp::parse(text).unwrap().rfc3339(), shown, "{text}");
        }
        for text in [
            "9999-12-31T23:59:59",
            "9999-12-31T23:59:59-01:00",
            "10000-01-01",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
        let end = "9999-12-31T23:59:59.999Z";
        assert_eq!(Timestamp::LATEST.rfc3339(), end);
        assert_eq!(Timestamp::from_micros(i64::MAX).rfc3339(), end);
    }

    /// The steady time after the clock was ahead by `ahead` for the time `elapsed`.
    fn steady_after(ahead: Duration, elapsed: Duration) -> Duration {
        let start = Instant::now();
        let mut steady = SteadyTime {
            at: 0,
            observed_at: start,
        };
        let seconds = elapsed.as_secs();
        for second in 1..=seconds {
            let now = Duration::from_secs(second);
            steady.follow(micros_of(now + ahead), start + now);
        }
        Duration::from_micros(steady.at.unsigned_abs())
    }

    #[test]
    fn a_clock_that_jumps_is_followed_slowly() {
        let minute = Duration::from_mins(1);
        assert_eq!(steady_after(Duration::ZERO, minute), minute);
        let days = Duration::from_hours(40 * 24);
        assert_eq!(steady_after(days, minute), 10 * minute);
        // It has caught up and continues with the clock.
        assert_eq!(steady_after(9 * minute, 2 * minute), 11 * minute);
    }

    #[test]
    fn a_clock_that_is_set_back_is_waited_for() {
        let start = Instant::now();
        let mut steady = SteadyTime {
            at: 60_000_000,
            observed_at: start,
        };
        steady.follow(5_000_000, start + Duration::from_secs(5));
        assert_eq!(steady.at, 60_000_000);
        steady.follow(61_000_000, start + Duration::from_secs(61));
        assert_eq!(steady.at, 61_000_000);
    }

    #[test]
    fn records_made_while_the_clock_is_behind_are_not_too_old_later() {
        let clock = Clock::system();
        let true_time = clock.now();
        clock.continue_from(true_time);
        clock.sync_to_database(true_time, true_time.minus(Duration::from_hours(24 * 40)));
        assert!(clock.now() < true_time);
        let made_at = clock.record_time();
        assert!(made_at >= true_time);
        let local = clock.now();
        clock.sync_to_database(local, true_time);
        assert!(made_at > clock.cutoff(Duration::from_hours(24)));
    }

    #[test]
    fn nothing_is_old_while_the_clock_is_not_settled() {
        let clock = Clock::manual();
        let hour = Duration::from_hours(1);
        assert_eq!(clock.cutoff(hour), clock.now().minus(hour));
        clock.set_ahead(Duration::from_hours(24 * 40));
        assert_eq!(clock.cutoff(hour), Timestamp(0));
        clock.set_ahead(Duration::ZERO);
        assert_eq!(clock.cutoff(hour), clock.now().minus(hour));
    }

    #[test]
    fn a_time_has_passed_only_if_both_times_say_so() {
        let clock = Clock::manual();
        let hour = Duration::from_hours(1);
        let deadline = clock.now().plus(hour);
        assert_eq!(clock.has_passed(deadline), Some(false));
        clock.set_ahead(2 * hour);
        assert_eq!(clock.has_passed(deadline), None);
        clock.set_ahead(Duration::ZERO);
        clock.advance(2 * hour);
        assert_eq!(clock.has_passed(deadline), Some(true));
    }

    #[test]
    fn the_clock_follows_that_of_the_database() {
        let clock = Clock::system();
        let local = clock.now();
        clock.sync_to_database(local, local.plus(Duration::from_hours(7)));
        assert!(clock.now().since(local) >= Duration::from_hours(7));
        let local = clock.now();
        clock.sync_to_database(local, local.minus(Duration::from_hours(7)));
        assert!(clock.now().since(local) == Duration::ZERO);
    }

    #[test]
    fn a_manual_clock_moves_only_when_it_is_advanced() {
        let clock = Clock::manual();
        let start = clock.now();
        assert_eq!(clock.now(), start);
        clock.advance(Duration::from_secs(5));
        assert_eq!(clock.now().since(start), Duration::from_secs(5));
        assert_eq!(start.since(clock.now()), Duration::ZERO);
    }
}
