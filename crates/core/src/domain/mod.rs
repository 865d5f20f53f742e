//! What the gateway does, one verb or family of verbs per module. Uses the store, the files and the
//! models; no HTTP, no SQL.

pub mod accounts;
pub mod agreement;
pub mod assets;
pub mod audit;
pub mod books;
pub mod copying;
pub mod costs;
pub mod downloads;
pub mod endings;
pub mod feed;
pub mod idempotency;
pub mod keys;
pub mod ledger;
pub mod music;
pub mod operator;
pub mod personas;
pub mod pictures;
pub mod provenance;
pub mod quotes;
pub mod readiness;
pub mod restored;
pub mod routes;
pub mod routing;
pub mod sessions;
pub mod settings;
pub mod songs;
pub mod stances;
pub mod submit;
pub mod tasks;
pub mod time;
pub mod usage;
pub mod video;
pub mod webhooks;
