//! What the gateway does, one verb or family of verbs per module. Uses the store, the files and the
//! models; no HTTP, no SQL.

pub mod accounts;
pub mod assets;
pub mod books;
pub mod catalog;
pub mod endings;
pub mod intents;
pub mod keys;
pub mod ledger;
pub mod limits;
pub mod music;
pub mod offers;
pub mod personas;
pub mod pictures;
pub mod quotes;
pub mod readiness;
pub mod restored;
pub mod room;
pub mod routing;
pub mod shares;
pub mod slips;
pub mod songs;
pub mod submit;
pub mod tasks;
pub mod usage;
pub mod video;
