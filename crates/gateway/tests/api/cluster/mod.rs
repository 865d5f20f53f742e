//! Several processes on one database.

mod agreement;
mod bell;
mod limits;
mod probes;
