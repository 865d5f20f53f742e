//! Time: one type for instants, and a clock that tests can move.
//!
//! Instants are microseconds since the Unix epoch, as stored. Nothing else in the crate reads the
//! system clock (clippy.toml bans it).

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
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
            |_| String::from("9999-12-31T23:59:59.999Z"),
            |t| format!("{t:.3}"),
        )
    }

    /// Parses an RFC 3339 instant, or a date as its first instant in UTC.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(date) = text.parse::<jiff::civil::Date>()
            && text.len() == 10
        {
            let start = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
            return Some(Self(start.timestamp().as_microsecond()));
        }
        let instant: jiff::Timestamp = text.parse().ok()?;
        Some(Self(instant.as_microsecond()))
    }

    /// The first instant of its day, in UTC.
    #[must_use]
    pub const fn start_of_day(self) -> Self {
        const DAY: i64 = 86_400_000_000;
        Self(self.0.div_euclid(DAY) * DAY)
    }

    /// In UTC, from 1 to 31.
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
pub struct Clock(Source);

#[derive(Debug, Clone, Default)]
enum Source {
    #[default]
    System,
    Manual(Arc<AtomicI64>),
}

impl Clock {
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// Starts now and moves only by [`Clock::advance`].
    pub fn manual() -> Self {
        Self(Source::Manual(Arc::new(AtomicI64::new(
            Self::system().now().micros(),
        ))))
    }

    /// The present.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the system clock"
    )]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => Timestamp(jiff::Timestamp::now().as_microsecond()),
            Source::Manual(micros) => Timestamp(micros.load(Ordering::SeqCst)),
        }
    }

    /// Moves a manual clock forward; does nothing to a system clock.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(micros) = &self.0 {
            micros.fetch_add(micros_of(by), Ordering::SeqCst);
        }
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
    fn a_manual_clock_moves_only_when_told() {
        let clock = Clock::manual();
        let start = clock.now();
        assert_eq!(clock.now(), start);
        clock.advance(Duration::from_secs(5));
        assert_eq!(clock.now().since(start), Duration::from_secs(5));
        assert_eq!(start.since(clock.now()), Duration::ZERO);
    }
}
