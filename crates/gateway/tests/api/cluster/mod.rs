//! Several processes on one database.

mod bell;
mod limits;
mod probes;
