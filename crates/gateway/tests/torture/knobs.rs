//! Settings from the environment: how much, on what, from which seed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The settings of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Knobs {
    pub(crate) seed: u64,
    pub(crate) rounds: u32,
    /// How long it runs, if the environment says so.
    pub(crate) seconds: Option<u64>,
    /// Rounds between two checks of everything.
    pub(crate) settle_every: u32,
    /// Whether clocks are wrong now and then.
    pub(crate) clocks: bool,
}

/// How long the long forms run that have no end of their own, unless the environment says otherwise.
pub(crate) const LONG: Duration = Duration::from_hours(1);

/// Where tasks are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseKind {
    Sqlite,
    Postgres,
}

impl DatabaseKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

fn number<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    let value = text.parse().ok();
    assert!(value.is_some(), "{name}={text} is not a number");
    value
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

    /// How long it runs: the environment's duration, or this default.
    pub(crate) fn duration_or(&self, default: Duration) -> Duration {
        self.seconds.map_or(default, Duration::from_secs)
    }

    /// The command that repeats the first `rounds` of a run.
    pub(crate) fn repeat(&self, database_kind: DatabaseKind, rounds: u32) -> String {
        format!(
            "MEDIAGATE_TORTURE_SEED={} MEDIAGATE_TORTURE_ROUNDS={rounds} MEDIAGATE_TORTURE_SETTLE={} \
             MEDIAGATE_TORTURE_CLOCKS={} MEDIAGATE_TORTURE_DATABASE={} \
             cargo test -p mediagate --test torture torture_on -- --nocapture",
            self.seed,
            self.settle_every,
            u8::from(self.clocks),
            database_kind.name()
        )
    }
}

/// Whether to run on this database: on both, unless the environment names one. Without a server,
/// Postgres is left out with a message; to name it then is an error.
pub(crate) fn wants(database_kind: DatabaseKind) -> bool {
    let name = std::env::var("MEDIAGATE_TORTURE_DATABASE").ok();
    let is_wanted = name
        .as_deref()
        .is_none_or(|name| name == database_kind.name());
    if is_wanted
        && database_kind == DatabaseKind::Postgres
        && std::env::var("MEDIAGATE_TEST_POSTGRES").is_err()
    {
        assert!(name.is_none(), "MEDIAGATE_TEST_POSTGRES names no server");
        println!("NOT RUN on postgres: MEDIAGATE_TEST_POSTGRES names no server");
        return false;
    }
    is_wanted
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
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(elapsed.as_micros()).unwrap()
}
