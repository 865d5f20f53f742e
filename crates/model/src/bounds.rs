//! The table of everything that is bounded for a whole process or deployment: connections, memory,
//! slots, queues, threads.
//!
//! A row is both the limit that the code applies and what `docs/security.md` prints. A test fails
//! for a semaphore, channel, queue or pool of threads in the sources that no row lists.

use std::fmt;

use orders::bounds::{LARGE_ANSWER_MEMORY, LARGE_ANSWERS_OF_PROVIDER};

/// A bounded resource.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// What is bounded, as the documentation names it.
    pub resource: &'static str,
    /// How much of it there is for all.
    pub total: Amount,
    /// The setting that changes the total.
    pub setting: Option<&'static str>,
    /// How much of it one key, one account and one provider may hold.
    pub per_key: Amount,
    pub per_account: Amount,
    pub per_provider: Amount,
    /// Who is next when it is scarce.
    pub turns: &'static str,
    /// What a caller gets when nothing is left.
    pub exhausted: &'static str,
    /// The files that construct it, once for each construction; paths leave out `crates/` and
    /// `src/`. Empty if it is a plain count.
    pub sources: &'static [&'static str],
}

/// How much of a resource there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// There is no share of this kind.
    Unlimited,
    Count(u64),
    Bytes(u64),
    /// Computed from the machine, from the settings or from another limit, as described.
    Computed(&'static str),
}

impl Amount {
    /// The number; the largest one if there is none in the table.
    pub const fn get(self) -> u64 {
        match self {
            Self::Count(amount) | Self::Bytes(amount) => amount,
            Self::Unlimited | Self::Computed(_) => u64::MAX,
        }
    }

    /// Like [`Self::get`], for numbers of objects in memory.
    #[expect(clippy::cast_possible_truncation, reason = "compared before")]
    pub const fn count(self) -> usize {
        let amount = self.get();
        if amount > usize::MAX as u64 {
            return usize::MAX;
        }
        amount as usize
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Unlimited => formatter.write_str("–"),
            Self::Count(count) if count >= 1000 => {
                write!(formatter, "{},{:03}", count / 1000, count % 1000)
            }
            Self::Count(count) => write!(formatter, "{count}"),
            Self::Bytes(bytes) if bytes % (1 << 30) == 0 => {
                write!(formatter, "{} GiB", bytes >> 30)
            }
            Self::Bytes(bytes) if bytes % (1 << 20) == 0 => {
                write!(formatter, "{} MiB", bytes >> 20)
            }
            Self::Bytes(bytes) if bytes % 1_000_000 == 0 => {
                write!(formatter, "{} MB", bytes / 1_000_000)
            }
            Self::Bytes(bytes) => write!(formatter, "{} KiB", bytes >> 10),
            Self::Computed(description) => formatter.write_str(description),
        }
    }
}

use Amount::{Bytes, Computed, Count, Unlimited};

/// A resource that nobody has a share of; rows begin with it.
const UNSHARED: Bound = Bound {
    resource: "",
    total: Unlimited,
    setting: None,
    per_key: Unlimited,
    per_account: Unlimited,
    per_provider: Unlimited,
    turns: "",
    exhausted: "",
    sources: &[],
};

const LEAST_HELD_FIRST: &str =
    "the account that holds least; among equals the one served longest ago";
const ARRIVAL: &str = "in order of arrival";
const WAITS: &str = "waits";
const OVERLOADED: &str = "503 `overloaded`";
const OWN_DATA: &str = "no caller: the gateway's own data";

// The edge.

pub const CONNECTIONS: Bound = Bound {
    resource: "connections",
    total: Count(8192),
    setting: Some("max_connections"),
    turns: "a new one takes the place of the longest idle one; if all are busy, the account or address with the most gives up its oldest request",
    exhausted: OVERLOADED,
    ..UNSHARED
};
pub const CONNECTIONS_OF_ADDRESS: Bound = Bound {
    resource: "connections from one IP address (one /64 of IPv6), trusted proxies excepted",
    total: Count(1024),
    setting: Some("max_connections_per_peer"),
    turns: "the same, within the address",
    exhausted: OVERLOADED,
    ..UNSHARED
};
pub const OVERFLOW_CONNECTIONS: Bound = Bound {
    resource: "connections beyond these limits, which only answer probes and refuse the rest",
    total: Count(32),
    turns: "a new one takes the place of the longest idle one",
    exhausted: "closed",
    ..UNSHARED
};
pub const OPEN_REQUESTS: Bound = Bound {
    resource: "event streams, and waits for tasks (orders that wait by themselves: up to the key's `max_running`, if that is more)",
    total: Computed("within the connections"),
    per_key: Count(100),
    per_account: Computed("half of `max_connections`"),
    turns: "see connections",
    exhausted: "429 `too_many_open_requests`",
    ..UNSHARED
};
pub const EVENT_FOLLOWERS: Bound = Bound {
    resource: "operators' event streams",
    total: Count(50),
    turns: ARRIVAL,
    exhausted: OVERLOADED,
    ..UNSHARED
};
pub const EVENT_BUFFER: Bound = Bound {
    resource: "events kept for a slow operator's stream",
    total: Count(1024),
    turns: "the oldest is dropped",
    exhausted: "the stream says how many it missed",
    sources: &["core/event_feed.rs"],
    ..UNSHARED
};
pub const LOGGED_REQUESTS: Bound = Bound {
    resource: "requests that wait to be [logged](operations.md#log-of-requests); all callers without a key have the share of an account",
    total: Count(10_000),
    per_account: Count(2500),
    turns: "in order of arrival, every second",
    exhausted: "answered as usual; not logged, and counted",
    ..UNSHARED
};
pub const BODIES: Bound = Bound {
    resource: "bodies in memory",
    total: Bytes(512_000_000),
    per_account: Bytes(128_000_000),
    turns: "none: refused at once",
    exhausted: OVERLOADED,
    sources: &["core/limits/mod.rs"],
    ..UNSHARED
};
pub const PARSING: Bound = Bound {
    resource: "large bodies parsed at once",
    total: Computed("one per core"),
    turns: "in order of arrival; each takes milliseconds",
    exhausted: WAITS,
    sources: &["core/limits/mod.rs"],
    ..UNSHARED
};
pub const UPLOADS: Bound = Bound {
    resource: "uploads in progress, including those fetched by URL",
    per_account: Count(8),
    turns: "in order of arrival within an account; accounts do not wait for each other",
    exhausted: WAITS,
    sources: &["core/limits/mod.rs", "core/limits/quotas.rs"],
    ..UNSHARED
};
pub const FETCHES: Bound = Bound {
    resource: "fetches of callers' URLs",
    total: Count(64),
    per_account: Count(8),
    turns: LEAST_HELD_FIRST,
    exhausted: WAITS,
    sources: &["core/limits/mod.rs"],
    ..UNSHARED
};
pub const MODERATION: Bound = Bound {
    resource: "memory for requests to moderation services",
    total: Bytes(256 << 20),
    per_account: Bytes(128 << 20),
    turns: LEAST_HELD_FIRST,
    exhausted: WAITS,
    sources: &["core/limits/mod.rs"],
    ..UNSHARED
};

// Decoding.

pub const DECODING_MEMORY: Bound = Bound {
    resource: "memory for decoding callers' pictures and recordings; one eighth is for requests of at most 1/32",
    total: Bytes(1 << 30),
    setting: Some("decoding_memory_mb"),
    per_account: Computed("half while others need any, or one larger request"),
    turns: "the account that holds least; among equals a newcomer, then the one served longest ago",
    exhausted: WAITS,
    sources: &["core/limits/media_work.rs", "core/limits/mod.rs"],
    ..UNSHARED
};
pub const PICTURES: Bound = Bound {
    resource: "pictures decoded at once",
    total: Computed("one per core, and one more"),
    per_account: Computed("one per core"),
    turns: LEAST_HELD_FIRST,
    exhausted: WAITS,
    sources: &["core/limits/media_work.rs"],
    ..UNSHARED
};
pub const RESULTS: Bound = Bound {
    resource: "results processed at once: reading their marks, signing",
    total: Computed("one per core, and one more"),
    per_account: Computed("one per core"),
    turns: LEAST_HELD_FIRST,
    exhausted: WAITS,
    sources: &["core/limits/media_work.rs"],
    ..UNSHARED
};
pub const RECORDINGS: Bound = Bound {
    resource: "recordings decoded at once",
    total: Count(2),
    per_account: Count(1),
    turns: LEAST_HELD_FIRST,
    exhausted: WAITS,
    sources: &["core/limits/media_work.rs"],
    ..UNSHARED
};
pub const CHECKS: Bound = Bound {
    resource: "files checked at once",
    total: Count(1),
    turns: "the account served longest ago",
    exhausted: WAITS,
    sources: &["core/limits/media_work.rs"],
    ..UNSHARED
};

pub const STRANGERS_CHECKS: Bound = Bound {
    resource: "checks of files without a key; each IP address counts as an account",
    total: Count(32),
    per_account: Count(2),
    turns: LEAST_HELD_FIRST,
    exhausted: WAITS,
    sources: &["core/limits/mod.rs"],
    ..UNSHARED
};

// Engines.

pub const ENGINES: Bound = Bound {
    resource: "tasks run by engines at once",
    total: Computed("one per core"),
    setting: Some("workers"),
    turns: "the account with the fewest tasks running; among equals the one served longest ago",
    exhausted: "the task is queued",
    ..UNSHARED
};
pub const CRASHED_TASKS: Bound = Bound {
    resource: "tasks that killed their process before, run again",
    total: Count(1),
    turns: ARRIVAL,
    exhausted: "the task is queued",
    sources: &["worker/lib.rs"],
    ..UNSHARED
};
pub const CHILD_STARTS: Bound = Bound {
    resource: "child processes being started",
    total: Count(1),
    turns: "in order of arrival, each in milliseconds; who may ask is limited by the slots of the work",
    exhausted: WAITS,
    sources: &[
        "media/engines/child/launcher.rs",
        "media/engines/child/launcher.rs",
        "media/engines/child/launcher.rs",
    ],
    ..UNSHARED
};
pub const CHILD_THREADS: Bound = Bound {
    resource: "threads and frames of one child process",
    total: Computed("one job"),
    turns: "none: a child does one job and ends",
    exhausted: WAITS,
    sources: &[
        "animatic/film.rs",
        "animatic/film.rs",
        "media/engines/child/child_side.rs",
        "media/engines/child/child_side.rs",
        "stems/onnx/runtime.rs",
    ],
    ..UNSHARED
};

// Providers.

pub const PROVIDER_JOBS: Bound = Bound {
    resource: "jobs at a provider",
    total: Computed("unlimited unless set"),
    setting: Some("max_running"),
    turns: "the account with the fewest jobs; among equals the one served longest ago",
    exhausted: "the task is queued",
    ..UNSHARED
};
pub const SUBMITTING: Bound = Bound {
    resource: "tasks of one model that are being submitted or followed by a process",
    total: Count(256),
    setting: Some("max_submitting"),
    turns: "the account with the fewest tasks running; among equals the one served longest ago",
    exhausted: "the task is queued",
    sources: &["worker/upstream/submit_slots.rs"],
    ..UNSHARED
};
pub const PROVIDER_SUBMISSIONS: Bound = Bound {
    resource: "submissions in flight",
    per_provider: Computed("`max_submitting`, at least 256"),
    turns: "in order of arrival; providers do not wait for each other",
    exhausted: WAITS,
    sources: &["providers/driver/provider.rs"],
    ..UNSHARED
};
pub const PROVIDER_CALLS: Bound = Bound {
    resource: "polls and other calls in flight",
    per_provider: Computed("a quarter of `max_polls`, 256 to 2,500"),
    turns: "in order of arrival; providers do not wait for each other",
    exhausted: WAITS,
    sources: &["providers/driver/provider.rs"],
    ..UNSHARED
};
pub const DOWNLOADS: Bound = Bound {
    resource: "downloads of results",
    total: Count(96),
    per_account: Count(64),
    per_provider: Count(32),
    turns: "the account that holds least, then its provider of which it holds least; among equals the one served longest ago; a quarter of all, and of each provider's, is only for accounts that hold none of it",
    exhausted: "waits; a download slower than 1 MiB in 2 minutes ends",
    sources: &["core/limits/mod.rs"],
    ..UNSHARED
};

pub const LARGE_ANSWERS: Bound = Bound {
    resource: "memory for parsing providers' responses of more than 32 kB",
    total: Bytes(LARGE_ANSWER_MEMORY),
    per_provider: Count(LARGE_ANSWERS_OF_PROVIDER as u64),
    turns: "in order of arrival; a provider's third response waits for its first",
    exhausted: WAITS,
    sources: &["providers/driver/answer.rs", "providers/driver/provider.rs"],
    ..UNSHARED
};

// Storage.

pub const STORED_FILES: Bound = Bound {
    resource: "stored files, and those that open tasks are expected to add",
    per_account: Computed("20 GB"),
    setting: Some("storage_limit"),
    turns: "none: accounts do not wait for each other",
    exhausted: "413 `storage_full`; accepted tasks are delivered",
    ..UNSHARED
};
pub const DISK: Bound = Bound {
    resource: "the disk",
    total: Computed("all but 500 MB"),
    setting: Some("disk_floor"),
    turns: "none: refused at once",
    exhausted: "503 `overloaded`; accepted tasks are delivered",
    ..UNSHARED
};

pub const BUCKET_REQUESTS: Bound = Bound {
    resource: "requests to the bucket",
    total: Count(64),
    turns: ARRIVAL,
    exhausted: "503 `overloaded` after 4 s and 1 s for each MiB",
    sources: &["media/blob/bucket.rs"],
    ..UNSHARED
};
pub const WAITING_STATEMENTS: Bound = Bound {
    resource: "reads, writes, and urgent writes that wait for the database",
    total: Count(1000),
    turns: "in order of arrival; 256 writes share one commit",
    exhausted: OVERLOADED,
    sources: &["store/sqlite.rs", "store/sqlite.rs"],
    ..UNSHARED
};
pub const DATABASE_THREADS: Bound = Bound {
    resource: "threads with a connection to the database",
    total: Computed("one that writes (SQLite), or one per connection (Postgres)"),
    setting: Some("database_connections"),
    turns: "the oldest read or write; long reads last, at most 4 at once",
    exhausted: "waits, see above",
    sources: &[
        "store/postgres/in_doubt.rs",
        "store/postgres/mod.rs",
        "store/sqlite.rs",
    ],
    ..UNSHARED
};

// The process.

pub const SERVING_THREADS: Bound = Bound {
    resource: "threads that serve",
    total: Computed("one per core"),
    turns: "requests alternate at every wait; work of more than a millisecond runs elsewhere",
    exhausted: WAITS,
    sources: &["gateway/cli/mod.rs"],
    ..UNSHARED
};
pub const WEBHOOKS: Bound = Bound {
    resource: "webhooks being sent (10 to one receiver)",
    total: Count(500),
    per_account: Count(50),
    turns: "the delivery that is due first, of an account and a receiver with room",
    exhausted: "sent later",
    sources: &["worker/deliver/mod.rs"],
    ..UNSHARED
};
pub const BELL_MESSAGES: Bound = Bound {
    resource: "notifications for other processes",
    total: Count(2048),
    turns: OWN_DATA,
    exhausted: "dropped: the others find the change when they poll",
    sources: &["core/bell/mod.rs"],
    ..UNSHARED
};
pub const CANCELLATIONS: Bound = Bound {
    resource: "cancellations that running tasks have not read",
    total: Count(256),
    turns: OWN_DATA,
    exhausted: "dropped: the tasks are looked up instead",
    sources: &["core/bell/local_bell.rs"],
    ..UNSHARED
};
pub const TRACE_SPANS: Bound = Bound {
    resource: "spans that wait for export",
    total: Count(8192),
    turns: OWN_DATA,
    exhausted: "dropped and counted",
    sources: &["telemetry/traces/export.rs", "telemetry/traces/export.rs"],
    ..UNSHARED
};

/// All rows, in the order of the documentation.
pub const ALL: &[Bound] = &[
    CONNECTIONS,
    CONNECTIONS_OF_ADDRESS,
    OVERFLOW_CONNECTIONS,
    OPEN_REQUESTS,
    EVENT_FOLLOWERS,
    EVENT_BUFFER,
    LOGGED_REQUESTS,
    BODIES,
    PARSING,
    UPLOADS,
    FETCHES,
    MODERATION,
    DECODING_MEMORY,
    PICTURES,
    RESULTS,
    RECORDINGS,
    CHECKS,
    STRANGERS_CHECKS,
    ENGINES,
    CRASHED_TASKS,
    CHILD_STARTS,
    CHILD_THREADS,
    PROVIDER_JOBS,
    SUBMITTING,
    PROVIDER_SUBMISSIONS,
    PROVIDER_CALLS,
    DOWNLOADS,
    LARGE_ANSWERS,
    STORED_FILES,
    DISK,
    BUCKET_REQUESTS,
    WAITING_STATEMENTS,
    DATABASE_THREADS,
    SERVING_THREADS,
    WEBHOOKS,
    BELL_MESSAGES,
    CANCELLATIONS,
    TRACE_SPANS,
];
