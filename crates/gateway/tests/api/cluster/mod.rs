//! Several processes on one database.

mod probes;
