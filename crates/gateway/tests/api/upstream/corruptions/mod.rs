//! `ledger verify` on a database that somebody changed: each kind of change is found, and its row
//! is named.
//!
//! The database is filled by orders over HTTP of every kind and outcome. Each change is made in its
//! own transaction, checked, and rolled back.

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

/// Two providers, one of which reports what a job cost, and models at both.
fn settings(simulator: &Simulator) -> String {
    provider("acme", "openai-videos", simulator, "")
        + &provider("dear", "xai", simulator, "")
        + &film(
            r#"{ provider = "acme", model = "sora-2", cost = { unit = "second", usd = "0.04" } }"#,
        )
        + "[models.stated]\nkind = \"video\"\nprice = { unit = \"second\", usd = \"0.10\" }\n\
           routes = [{ provider = \"dear\", model = \"grok-imagine-video\" }]\n\
           [models.free]\nkind = \"video\"\nprice = \"free\"\nroutes = [{ provider = \"dear\", model = \"grok-imagine-video\" }]\n\
           [models.both]\nkind = \"video\"\nprice = { unit = \"video\", usd = \"0.30\" }\n\
           routes = [{ provider = \"acme\", model = \"sora-2\" }, { provider = \"dear\", model = \"grok-imagine-video\" }]\n\
           [models.animatic-1]\nprice = { unit = \"second\", usd = \"0.10\" }\n"
}

/// Orders a video; returns its task's identifier.
async fn order_task(caller: &Client, body: Value) -> String {
    let answer = caller.post("/v1/videos", &body).await;
    let task = answer.header("x-task-id").map(str::to_owned);
    answer.ok();
    task.unwrap()
}

fn order(model: &str) -> Value {
    json!({"model": model, "prompt": "a lake"})
}

async fn order_until(caller: &Client, body: Value, status: &str) -> String {
    let task = order_task(caller, body).await;
    let view = finished(caller, &task).await;
    assert_eq!(view["status"], status, "{view}");
    task
}

/// Cancels a task whose provider has been polled; waits until its reservation is resolved.
async fn cancel_while_polled(caller: &Client, model: &str, simulator: &Simulator, plan: JobPlan) {
    simulator.world().set_plan(plan);
    let polls = super::request_count(simulator, RequestRole::Poll);
    let task = order_task(caller, order(model)).await;
    super::wait_for_requests(simulator, RequestRole::Poll, polls + 1).await;
    let path = format!("/v1/tasks/{task}");
    caller
        .post(&format!("{path}/cancel"), &json!({}))
        .await
        .ok();
    eventually("the reservation is resolved", async || {
        let view = caller.get(&path).await.ok();
        (view["billing"]["status"] != "held").then_some(())
    })
    .await;
}

/// A gateway whose ledger has an entry of every kind, from every outcome. Its workers are stopped.
async fn gateway_with_every_outcome(builder: Builder) -> TestGateway {
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
    let author = || ChangeAuthor::command("a test");
    let account = accounts::ensure(app, "owls").await.unwrap().id;
    let credit = "20".parse().unwrap();
    let credited = accounting::credit(app, author().into(), account, credit, None).await;
    assert!(credited.unwrap().money.prepaid);

    let to_adjust = order_until(&owls, order("film"), "succeeded").await;
    order_until(&owls, order("film"), "succeeded").await;
    order_until(&owls, order("stated"), "succeeded").await;
    order_until(&owls, order("free"), "succeeded").await;
    order_until(&owls, videos_order(), "succeeded").await;
    order_until(&second, videos_order(), "succeeded").await;
    order_until(&gateway, order("stated"), "succeeded").await;
    let refund = MicroDollars::new(-40_000);
    let note = "too dark".into();
    let to_adjust = accounting::adjust(
        app,
        author().into(),
        to_adjust.parse().unwrap(),
        refund,
        note,
    )
    .await;
    to_adjust.unwrap();

    let plan = |end| JobPlan {
        end,
        ..JobPlan::default()
    };
    world.set_plan(plan(PlannedEnd::Failure));
    order_until(&owls, order("film"), "failed").await;
    let four_polls = JobPlan {
        polls: 4,
        ..JobPlan::default()
    };
    cancel_while_polled(&owls, "stated", &simulator, four_polls).await;
    let long = JobPlan {
        running: LONG,
        ..JobPlan::default()
    };
    cancel_while_polled(&owls, "film", &simulator, long).await;
    world.set_plan(JobPlan::default());

    world.order_fault(Fault::DropAfter, None, Some(RequestRole::Submit), 1);
    world.order_fault(super::status(500), None, Some(RequestRole::Find), 1000);
    order_until(&owls, order("film"), "failed").await;
    world.clear_faults();
    world.order_fault(
        super::status(429),
        Some("openai-videos"),
        Some(RequestRole::Submit),
        1,
    );
    order_until(&owls, order("both"), "succeeded").await;

    world.set_plan(long);
    let earlier_orders = super::submissions(&simulator);
    order_task(&owls, order("stated")).await;
    super::wait_for_requests(&simulator, RequestRole::Submit, earlier_orders + 1).await;
    eventually("the acceptance is recorded", async || {
        (count(
            &gateway,
            "SELECT COUNT(*) FROM submissions WHERE state = 'accepted'",
        )
        .await
            == 1)
            .then_some(())
    })
    .await;
    let gateway = gateway.restart_without_workers().await;
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

/// Why a transaction was rolled back: the check is done, or a statement failed.
enum RolledBack {
    Checked(u64, Vec<Mismatch>),
    Failed(StoreError),
}

impl From<StoreError> for RolledBack {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// The number of rows that the statements change, and the mismatches that the check then finds.
async fn mismatches_after(
    gateway: &TestGateway,
    sql: &'static [&'static str],
) -> (u64, Vec<Mismatch>) {
    let outcome = gateway
        .app
        .store
        .write(move |conn| -> Result<(), RolledBack> {
            // Foreign keys do not stop somebody who changes the database by hand either.
            let ignore_references = conn.dialect(
                "PRAGMA defer_foreign_keys = ON",
                "SET LOCAL session_replication_role = replica",
            );
            conn.execute(ignore_references, &[])?;
            let mut row_count = 0;
            for sql in sql {
                row_count += conn.execute(sql, &[])?;
            }
            Err(RolledBack::Checked(row_count, mismatches(conn)?))
        });
    match outcome.await {
        Err(RolledBack::Checked(row_count, found)) => (row_count, found),
        Err(RolledBack::Failed(error)) => panic!("{sql:?}: {error}"),
        Ok(()) => unreachable!(),
    }
}

async fn every_change_is_found(builder: Builder) {
    let gateway = gateway_with_every_outcome(builder).await;
    let mut missed = Vec::new();
    let changes: Vec<&Change> = CHANGES.iter().copied().flatten().collect();
    for change in &changes {
        let (row_count, found) = mismatches_after(&gateway, change.sql).await;
        assert!(row_count > 0, "{}: nothing was changed", change.name);
        let is_found = found.iter().any(|mismatch| {
            mismatch.kind == change.kind && mismatch.detail.contains(change.detail)
        });
        if !is_found {
            missed.push(format!(
                "{}: wanted {} with {:?}, found {found:#?}",
                change.name, change.kind, change.detail
            ));
        }
    }
    assert!(
        missed.is_empty(),
        "{} of {} were not found:\n{}",
        missed.len(),
        changes.len(),
        missed.join("\n")
    );
    assert_eq!(ledger::verify(&gateway.app).await.unwrap(), []);
    gateway.stop().await;
}

#[tokio::test]
async fn every_change_of_the_ledger_is_found_on_sqlite() {
    Box::pin(every_change_is_found(TestGateway::builder())).await;
}

#[tokio::test]
async fn every_change_of_the_ledger_is_found_on_postgres() {
    Box::pin(every_change_is_found(TestGateway::builder().on_postgres())).await;
}
