//! Several processes on one database.

mod bell;
mod probes;
