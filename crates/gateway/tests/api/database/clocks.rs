//! Replicas whose clocks disagree by an hour.

use std::time::Duration;

use simulator::JobPlan;

use crate::process::faketime;
use crate::support::postgres::TestDatabase;
use crate::support::program::Server;
use crate::support::{Client, eventually};

use super::{assert_all_succeed, order, provider, submission_count, verify_ledger};

async fn count(url: &str, sql: &'static str) -> i64 {
    let url = url.to_owned();
    let query = move || -> i64 {
        let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
        client.query_one(sql, &[]).unwrap().get(0)
    };
    tokio::task::spawn_blocking(query).await.unwrap()
}

#[tokio::test]
async fn replicas_an_hour_apart_finish_each_others_tasks() {
    let database = TestDatabase::create().await;
    let (simulator, toml) = provider().await;
    simulator.world().set_plan(JobPlan {
        running: Duration::from_secs(5),
        ..JobPlan::default()
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("m.toml");
    std::fs::write(&file, format!("database = \"{}\"\n{toml}", database.url)).unwrap();
    let args = ["--config", file.to_str().unwrap()];
    let library = faketime();
    let clock_environment = |offset: &'static str| {
        [
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("FAKETIME", offset),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ]
    };
    // Shared, because they have no bucket.
    let data = folder.path().join("data");
    let correct = Server::start(&data, &args).await;
    let client = Client::new(&correct.base, Some(&correct.first_key().await));
    let early = Server::start_with(&data, &args, &clock_environment("-1h")).await;
    let late = Server::start_with(&data, &args, &clock_environment("+1h")).await;
    let client_of = |server: &Server| Client {
        base: server.base.clone(),
        ..client.clone()
    };
    let mut tasks = Vec::new();
    for (server, first) in [(&correct, 0), (&early, 100), (&late, 200)] {
        tasks.extend(order(&client_of(server), first..first + 6).await);
    }
    // Two servers die with work under way, which the third takes over. They die only once the
    // provider has answered every order: without the answer, an order is looked up by its time of
    // sending. With an hour's error this fails, and the task would end unconfirmed.
    eventually("every order is known to have been taken", async || {
        let accepted = "SELECT COUNT(*) FROM submissions WHERE state <> 'intended'";
        (count(&database.url, accepted).await == 18).then_some(())
    })
    .await;
    early.crash();
    late.crash();
    assert_all_succeed(&client, &tasks).await;
    assert_eq!(submission_count(&simulator), tasks.len());
    correct.stop().await;
    verify_ledger(&["--config", args[1], "--data", data.to_str().unwrap()]).await;
}
