//! What the environment says: how much, on what, from which seed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The settings of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Knobs {
    pub(crate) seed: u64,
    pub(crate) rounds: u32,
    /// How long it runs, if that is said.
    pub(crate) seconds: Option<u64>,
    /// Everything comes to its end and is checked after so many rounds.
    pub(crate) settle_every: u32,
    /// Whether clocks are wrong now and then.
    pub(crate) clocks: bool,
}

/// How long the long forms take.
pub(crate) const LONG: Duration = Duration::from_hours(1);

/// Where tasks are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Sqlite,
    Postgres,
}

impl Kept {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    let read = text.parse().ok();
    assert!(read.is_some(), "{name}={text} is no number");
    read
}

impl Knobs {
    pub(crate) fn read() -> Self {
        Self {
            seed: number("MEDIAGATE_TORTURE_SEED").unwrap_or_else(any_seed),
            rounds: number("MEDIAGATE_TORTURE_ROUNDS").unwrap_or(2),
            seconds: number("MEDIAGATE_TORTURE_SECONDS"),
            settle_every: number("MEDIAGATE_TORTURE_SETTLE").unwrap_or(25).max(1),
            clocks: number::<u8>("MEDIAGATE_TORTURE_CLOCKS").is_some_and(|wanted| wanted > 0),
        }
    }

    /// How long it runs: as long as is said, or this long.
    pub(crate) fn or(&self, usual: Duration) -> Duration {
        self.seconds.map_or(usual, Duration::from_secs)
    }

    /// The words that repeat a run.
    pub(crate) fn repeat(&self, kept: Kept) -> String {
        format!(
            "MEDIAGATE_TORTURE_SEED={} MEDIAGATE_TORTURE_ROUNDS={} MEDIAGATE_TORTURE_SETTLE={} MEDIAGATE_TORTURE_DATABASE={} \
             cargo test -p mediagate --test torture torture -- --nocapture",
            self.seed,
            self.rounds,
            self.settle_every,
            kept.name()
        )
    }
}

/// Whether a run on this database is wanted: both are, unless one is named.
pub(crate) fn wants(kept: Kept) -> bool {
    let named = std::env::var("MEDIAGATE_TORTURE_DATABASE").ok();
    let wanted = named.as_deref().is_none_or(|name| name == kept.name());
    if wanted && kept == Kept::Postgres && std::env::var("MEDIAGATE_TEST_POSTGRES").is_err() {
        assert!(named.is_none(), "MEDIAGATE_TEST_POSTGRES names no server");
        println!("NOT RUN on postgres: MEDIAGATE_TEST_POSTGRES names no server");
        return false;
    }
    wanted
}

fn any_seed() -> u64 {
    u64::from(uuid::Uuid::new_v4().as_fields().0)
}

/// Microseconds since the epoch, as the gateway writes instants.
#[expect(
    clippy::disallowed_methods,
    reason = "compared with what the real program wrote by the real clock"
)]
pub(crate) fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_micros()).unwrap()
}
