//! Money as callers and operators see it: quotes, budgets, accounts, usage, prices with dates, and
//! the commands.

mod account;
mod budget_alerts;
mod budgets;
mod commands;
mod cost_limits;
mod end_users;
mod prices;
mod quotes;
mod usage;

use mediagate_core::domain::ledger;
use mediagate_model::error::Error;
use mediagate_store::ledger::LedgerFilter;
use serde_json::{Value, json};

use crate::support::TestGateway;

/// A dime a second for videos, a nickel for each stem.
pub(crate) const PRICES: &str = "[models.animatic-1]\nprice = { unit = \"second\", usd = \"0.10\" }\n\
                      [models.stems-dsp-1]\nprice = { unit = \"stem\", usd = \"0.05\" }\n";

/// An order for this many videos, each a second long.
pub(crate) fn videos(count: u32) -> Value {
    let mut order = crate::support::video_order();
    order["n"] = json!(count);
    order
}

/// The body of a request for a quote.
fn quote_request(endpoint: &str, body: &Value) -> Value {
    json!({"endpoint": endpoint, "body": body})
}

async fn quote(gateway: &TestGateway, endpoint: &str, body: &Value) -> Value {
    gateway
        .post("/v1/quote", &quote_request(endpoint, body))
        .await
        .ok()
}

/// How many tasks, entries and files there are.
async fn rows(gateway: &TestGateway) -> [i64; 3] {
    let count = gateway.app.store.read(|conn| -> Result<_, Error> {
        let sql = "SELECT (SELECT COUNT(*) FROM tasks), (SELECT COUNT(*) FROM ledger), (SELECT COUNT(*) FROM assets)";
        Ok(conn.one(sql, &[], |row| Ok([row.int(0)?, row.int(1)?, row.int(2)?]))?)
    });
    count.await.unwrap().unwrap()
}

/// What all entries of the ledger spend, in micro-dollars.
async fn total_spent(gateway: &TestGateway) -> i64 {
    let read = gateway.app.store.read(|conn| -> Result<_, Error> {
        let entries = mediagate_store::ledger::list(conn, &LedgerFilter::default(), 10_000)?;
        Ok(entries.iter().map(|entry| entry.spent.get()).sum())
    });
    read.await.unwrap()
}

/// Asserts that the ledger adds up, and stops the gateway.
async fn verify_and_stop(gateway: TestGateway) {
    assert_eq!(ledger::verify(&gateway.app).await.unwrap(), []);
    gateway.stop().await;
}
