//! `ledger verify` against a database that somebody changed: each kind of change is found, and the row is named.
//!
//! The database is made by orders over HTTP, of each kind and end. Each change is made in a transaction of its own, looked
//! at, and taken back.

mod changes;

use mediagate_core::domain::accounting;
use mediagate_core::domain::audit::ChangeAuthor;
use mediagate_core::domain::keys::NewKey;
use mediagate_core::domain::{accounts, ledger};
use mediagate_model::account::BudgetPeriod;
use mediagate_model::money::MicroDollars;
use mediagate_store::StoreError;
use mediagate_store::verify::Mismatch;
use serde_json::{Value, json};
use simulator::{Fault, JobPlan, PlannedEnd, RequestRole, Simulator};

use super::{LONG, film, provider, simulator};
use crate::support::gateway::{Builder, finished};
use crate::support::{Client, TestGateway, eventually, mismatches, videos_order};
use changes::{CHANGES, Change};

/// Two providers, one of which says what a job cost, and models at both.
fn settings(simulator: &Simulator) -> String {
    provider("acme", "openai-videos", simulator, "")
        + &provider("dear", "xai", simulator, "")
        + &film(
            r#"{ provider = "acme", model = "sora-2", cost = { unit = "second", usd = "0.04" } }"#,
        )
        + "[models.told]\nkind = \"video\"\nprice = { unit = \"second\", usd = \"0.10\" }\n\
           routes = [{ provider = \"dear\", model = \"grok-imagine-video\" }]\n\
           [models.free]\nkind = \"video\"\nroutes = [{ provider = \"dear\", model = \"grok-imagine-video\" }]\n\
           [models.both]\nkind = \"video\"\nprice = { unit = \"video\", usd = \"0.30\" }\n\
           routes = [{ provider = \"acme\", model = \"sora-2\" }, { provider = \"dear\", model = \"grok-imagine-video\" }]\n\
           [models.animatic-1]\nprice = { unit = \"second\", usd = \"0.10\" }\n"
}

/// Orders a video; its task.
async fn ordered(caller: &Client, body: Value) -> String {
    let answer = caller.post("/v1/videos", &body).await;
    let task = answer.header("x-task-id").map(str::to_owned);
    answer.ok();
    task.unwrap()
}

fn order(model: &str) -> Value {
    json!({"model": model, "prompt": "a lake"})
}

async fn ends(caller: &Client, body: Value, status: &str) -> String {
    let task = ordered(caller, body).await;
    let view = finished(caller, &task).await;
    assert_eq!(view["status"], status, "{view}");
    task
}

/// Cancels a task that its provider works on; waits until its money has moved.
async fn cancelled_at_work(caller: &Client, model: &str, simulator: &Simulator, plan: JobPlan) {
    simulator.world().set_plan(plan);
    let polls = super::arrived(simulator, RequestRole::Poll);
    let task = ordered(caller, order(model)).await;
    super::arrives(simulator, RequestRole::Poll, polls + 1).await;
    let path = format!("/v1/tasks/{task}");
    caller
        .post(&format!("{path}/cancel"), &json!({}))
        .await
        .ok();
    eventually("its money moves", async || {
        let view = caller.get(&path).await.ok();
        (view["billing"]["status"] != "held").then_some(())
    })
    .await;
}

/// A gateway whose money has gone every way that it can go. Nobody works any more.
async fn scene(builder: Builder) -> TestGateway {
    let simulator = simulator().await;
    let world = simulator.world();
    let gateway = builder.toml(&settings(&simulator)).start().await;
    let owls = gateway
        .caller(
            "owls",
            NewKey {
                budget: Some("9".parse().unwrap()),
                budget_period: Some(BudgetPeriod::Day),
                ..NewKey::default()
            },
        )
        .await;
    let second = gateway.caller("owls", NewKey::default()).await;
    let app = &gateway.app;
    let by = || ChangeAuthor::command("a test");
    let account = accounts::ensure(app, "owls").await.unwrap().id;
    let credit = "20".parse().unwrap();
    let credited = accounting::credit(app, by().into(), account, credit, None).await;
    assert!(credited.unwrap().money.prepaid);

    let adjusted = ends(&owls, order("film"), "succeeded").await;
    ends(&owls, order("film"), "succeeded").await;
    ends(&owls, order("told"), "succeeded").await;
    ends(&owls, order("free"), "succeeded").await;
    ends(&owls, videos_order(), "succeeded").await;
    ends(&second, videos_order(), "succeeded").await;
    ends(&gateway, order("told"), "succeeded").await;
    let refund = MicroDollars::new(-40_000);
    let note = "too dark".into();
    let adjusted =
        accounting::adjust(app, by().into(), adjusted.parse().unwrap(), refund, note).await;
    adjusted.unwrap();

    let plan = |end| JobPlan {
        end,
        ..JobPlan::default()
    };
    world.set_plan(plan(PlannedEnd::Failure));
    ends(&owls, order("film"), "failed").await;
    let at_work = JobPlan {
        polls: 4,
        ..JobPlan::default()
    };
    cancelled_at_work(&owls, "told", &simulator, at_work).await;
    let long = JobPlan {
        running: LONG,
        ..JobPlan::default()
    };
    cancelled_at_work(&owls, "film", &simulator, long).await;
    world.set_plan(JobPlan::default());

    world.order_fault(Fault::DropAfter, None, Some(RequestRole::Submit), 1);
    world.order_fault(super::status(500), None, Some(RequestRole::Find), 1000);
    ends(&owls, order("film"), "failed").await;
    world.clear_faults();
    world.order_fault(
        super::status(429),
        Some("openai-videos"),
        Some(RequestRole::Submit),
        1,
    );
    ends(&owls, order("both"), "succeeded").await;

    world.set_plan(long);
    let orders = super::submissions(&simulator);
    ordered(&owls, order("told")).await;
    super::arrives(&simulator, RequestRole::Submit, orders + 1).await;
    eventually("it is written that it was taken", async || {
        (count(
            &gateway,
            "SELECT COUNT(*) FROM submissions WHERE state = 'accepted'",
        )
        .await
            == 1)
            .then_some(())
    })
    .await;
    let gateway = gateway.restart_idle().await;
    assert_eq!(ledger::verify(&gateway.app).await.unwrap(), []);
    gateway
}

async fn count(gateway: &TestGateway, sql: &'static str) -> i64 {
    let read = gateway
        .app
        .store
        .read(move |conn| conn.one(sql, &[], |row| row.int(0)));
    let count: Result<Option<i64>, StoreError> = read.await;
    count.unwrap().unwrap()
}

/// What ends a transaction that is only to be looked at.
enum TakenBack {
    Seen(u64, Vec<Mismatch>),
    Failed(StoreError),
}

impl From<StoreError> for TakenBack {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// How many rows a change changes, and what the check says of it.
async fn seen(gateway: &TestGateway, sql: &'static [&'static str]) -> (u64, Vec<Mismatch>) {
    let written = gateway
        .app
        .store
        .write(move |conn| -> Result<(), TakenBack> {
            // Whoever changes a database by hand is not stopped by its references either.
            let unbound = conn.dialect(
                "PRAGMA defer_foreign_keys = ON",
                "SET LOCAL session_replication_role = replica",
            );
            conn.execute(unbound, &[])?;
            let mut changed = 0;
            for sql in sql {
                changed += conn.execute(sql, &[])?;
            }
            Err(TakenBack::Seen(changed, mismatches(conn)?))
        });
    match written.await {
        Err(TakenBack::Seen(changed, found)) => (changed, found),
        Err(TakenBack::Failed(error)) => panic!("{sql:?}: {error}"),
        Ok(()) => unreachable!(),
    }
}

async fn every_change_is_found(builder: Builder) {
    let gateway = scene(builder).await;
    let mut passed = Vec::new();
    let changes: Vec<&Change> = CHANGES.iter().copied().flatten().collect();
    for change in &changes {
        let (changed, found) = seen(&gateway, change.sql).await;
        assert!(changed > 0, "{}: nothing was changed", change.name);
        let is_found = found
            .iter()
            .any(|one| one.kind == change.what && one.detail.contains(change.why));
        if !is_found {
            passed.push(format!(
                "{}: wanted {} with {:?}, found {found:#?}",
                change.name, change.what, change.why
            ));
        }
    }
    assert!(
        passed.is_empty(),
        "{} of {} are not found:\n{}",
        passed.len(),
        changes.len(),
        passed.join("\n")
    );
    assert_eq!(ledger::verify(&gateway.app).await.unwrap(), []);
    gateway.stop().await;
}

#[tokio::test]
async fn every_change_of_the_books_is_found_on_sqlite() {
    Box::pin(every_change_is_found(TestGateway::builder())).await;
}

#[tokio::test]
async fn every_change_of_the_books_is_found_on_postgres() {
    Box::pin(every_change_is_found(TestGateway::builder().on_postgres())).await;
}
