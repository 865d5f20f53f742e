//! Torture: the real program against simulated providers, with `kill -9` at any
//! instant, faults and impatient callers; afterwards nobody may have paid twice.
//!
//! ```text
//! rounds        test: rounds from a seed
//! crash_points  test: the process crashes at each named point in turn
//! stop_points   test: the process is stopped at each named point in turn
//! replicas      test: three processes on one Postgres, and network faults
//! deployment    test: a complete deployment whose parts all fail
//! deliveries    test: a process that crashes at each step of a webhook's delivery
//! model         test: every reachable state of a model
//! run           a gateway that crashes, restarts and is checked once idle
//! stage         its data, its keys, the address at which callers find it
//! intent        what callers want
//! approver      decides about orders that wait for approval
//! callers       how they behave; tries: outcomes of requests; sdk: the official SDK
//! faults        faults of the providers
//! check         what must hold
//! ```
//!
//! ```text
//! MEDIAGATE_TORTURE_SEED      the seed of the dice; each run prints its own
//! MEDIAGATE_TORTURE_ROUNDS    how many rounds [default: 2; of deployment, as many as fit]
//! MEDIAGATE_TORTURE_SECONDS   how long replicas and long forms run [default: 25 s, an hour]
//! MEDIAGATE_TORTURE_SETTLE    rounds between two checks of everything [default: 25]
//! MEDIAGATE_TORTURE_CLOCKS    1: clocks are wrong now and then, as in the long forms
//! MEDIAGATE_TORTURE_DATABASE  sqlite or postgres [default: both]
//! MEDIAGATE_TEST_POSTGRES     a server, for the latter
//! MEDIAGATE_TEST_SDK_PYTHON   a Python that has the `openai` package
//! ```
//!
//! Settings change meanwhile: providers move to another address and key and back, a copy of the
//! folder runs, which must order nothing, and clocks are set.
//!
//! The same seed gives the same random choices; the interleaving of two processes
//! differs from run to run.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![expect(
    clippy::print_stdout,
    reason = "a run prints how to repeat it, and what happened"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a task that a test spawns ends with the test's runtime"
)]

mod approver;
#[path = "../api/support/balancer.rs"]
mod balancer;
#[path = "../api/support/bucket.rs"]
#[expect(dead_code, reason = "the tests of the API use the rest")]
mod bucket;
mod callers;
mod check;
#[path = "../api/support/cluster.rs"]
#[expect(dead_code, reason = "the tests of the API use the rest")]
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
#[expect(dead_code, reason = "the tests of the API use the rest")]
#[path = "../process/mod.rs"]
mod process;
mod program;
mod replicas;
mod rounds;
mod run;
mod sdk;
mod settings;
#[path = "../api/support/sound.rs"]
#[expect(dead_code, reason = "the tests of the API use the rest")]
mod sound;
mod stage;
mod stop_points;
mod totals;
mod tries;
mod twins;
