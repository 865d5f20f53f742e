//! The gateway's operations, one group of them per module. They use the store, the files and the
//! models; no HTTP, no SQL.

pub mod accounting;
pub mod accounts;
pub mod assets;
pub mod audit;
pub mod clock_sync;
pub mod confinement;
pub mod costs;
pub mod downloads;
pub mod endings;
pub mod feed;
pub mod keys;
pub mod ledger;
pub mod media_copy;
pub mod music;
pub mod operator;
pub mod order_terms;
pub mod personas;
pub mod pictures;
pub mod provenance;
pub mod quotes;
pub mod readiness;
pub mod restored_backup;
pub mod route_states;
pub mod routes;
pub mod routing;
pub mod sessions;
mod settings_changes;
pub mod settings_drift;
pub mod settings_reload;
pub mod songs;
pub mod storage_room;
pub mod task_acceptance;
pub mod tasks;
pub mod usage;
pub mod video;
pub mod webhooks;
