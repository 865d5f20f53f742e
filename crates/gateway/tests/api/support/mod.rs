//! What all tests share: a gateway, a caller, things to send, things to expect.

pub(crate) mod balancer;
pub(crate) mod bucket;
pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod collector;
pub(crate) mod deployment;
pub(crate) mod files;
pub(crate) mod gateway;
pub(crate) mod pair;
pub(crate) mod postgres;
pub(crate) mod program;
pub(crate) mod schema;
pub(crate) mod sound;
pub(crate) mod spec;
pub(crate) mod sse;

pub(crate) use client::{Answer, Client};
pub(crate) use gateway::TestGateway;

pub(crate) use crate::process::eventually;

use mediagate_store::verify::{LedgerAudit, Mismatch};
use mediagate_store::{Conn, StoreError};
use serde_json::{Value, json};

/// A video order that is made in a moment.
pub(crate) fn video_order() -> Value {
    json!({
        "model": "animatic-1",
        "messages": [{"role": "user", "content": "a lake at dawn"}],
        "video": {"size": "480x480", "seconds": 1},
    })
}

/// Like [`video_order`], for `/v1/videos`.
pub(crate) fn videos_order() -> Value {
    json!({"model": "animatic-1", "prompt": "a lake at dawn", "size": "480x480", "seconds": "1"})
}

/// The path and query of an absolute address.
pub(crate) fn path_of(address: &str) -> String {
    let url = url::Url::parse(address).unwrap();
    url[url::Position::BeforePath..].to_owned()
}

/// Everything about the money that does not add up.
pub(crate) fn mismatches(conn: &mut Conn<'_>) -> Result<Vec<Mismatch>, StoreError> {
    let mut check = LedgerAudit::whole();
    while check.step(conn)? {}
    Ok(check.mismatches)
}
