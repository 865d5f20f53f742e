//! Several processes on one database.

mod agreement;
mod bell;
mod fail_over;
mod limits;
mod probes;
mod upgrade;
