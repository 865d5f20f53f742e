//! Torture: the real program against played providers, with `kill -9` at any
//! instant, faults and impatient callers; and then whether anybody paid twice.
//!
//! ```text
//! rounds        the test: rounds from a seed
//! crash_points  the test: each named point in turn, the process dies there
//! stop_points   the same, and it stands still there
//! replicas      the test: three processes on one Postgres, and what parts them
//! deployment    the test: all that is deployed together, and all of it fails
//! deliveries    the test: a process that dies at each step of telling what happened
//! model         the test: every reachable state of a model of it all
//! run           a gateway that dies and comes back, and is checked at rest
//! stage         its data, its keys, the door that callers knock at
//! intent        what callers want
//! callers       how they behave; tries: what came of it; sdk: the official one
//! faults        what goes wrong at the providers
//! check         what must hold
//! ```
//!
//! ```text
//! MEDIAGATE_TORTURE_SEED      where the dice begin; printed by each run
//! MEDIAGATE_TORTURE_ROUNDS    how many rounds [default: a few; of the cluster, as many as there is time for]
//! MEDIAGATE_TORTURE_SECONDS   how long replicas and long forms run [default: 25 s, an hour]
//! MEDIAGATE_TORTURE_SETTLE    rounds between two checks of everything [default: 25]
//! MEDIAGATE_TORTURE_CLOCKS    1: clocks are wrong now and then, as in the long forms
//! MEDIAGATE_TORTURE_DATABASE  sqlite or postgres [default: both]
//! MEDIAGATE_TEST_POSTGRES     a server, for the latter
//! MEDIAGATE_TEST_SDK_PYTHON   a Python that has the `openai` package
//! ```
//!
//! Settings change meanwhile: providers move to another address and key and back, the folder is copied and
//! lives elsewhere, where it must order nothing, and clocks are set.
//!
//! The dice fall the same way for the same seed; what two processes do at the
//! same time does not.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![expect(
    clippy::print_stdout,
    reason = "a run says how to repeat it, and what happened"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "what a test starts ends with its runtime"
)]

#[path = "../api/support/balancer.rs"]
mod balancer;
#[path = "../api/support/bucket.rs"]
#[expect(dead_code, reason = "the tests of the API look into it")]
mod bucket;
mod callers;
mod check;
#[path = "../api/support/cluster.rs"]
#[expect(dead_code, reason = "the tests of the API want more of it")]
mod cluster;
mod crash_points;
mod db;
mod deliveries;
mod deployment;
mod dice;
mod faults;
mod intent;
mod knobs;
mod model;
#[path = "../api/support/pair.rs"]
mod pair;
#[path = "../api/support/postgres.rs"]
#[expect(dead_code, reason = "no backup is made here")]
mod postgres;
#[expect(dead_code, reason = "the tests of the API need more of it")]
#[path = "../process/mod.rs"]
mod process;
mod program;
mod replicas;
mod rounds;
mod run;
mod sdk;
mod settings;
#[path = "../api/support/sound.rs"]
#[expect(dead_code, reason = "not everything that can be heard is needed here")]
mod sound;
mod stage;
mod stop_points;
mod totals;
mod tries;
