//! Replicas whose clocks disagree by an hour.

use std::time::Duration;

use simulator::JobPlan;

use crate::process::faketime;
use crate::support::postgres::TestDatabase;
use crate::support::program::Server;
use crate::support::{Client, eventually};

use super::{add_up, jobs, order, provider, succeed};

async fn count(url: &str, sql: &'static str) -> i64 {
    let url = url.to_owned();
    let count = move || -> i64 {
        let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
        client.query_one(sql, &[]).unwrap().get(0)
    };
    tokio::task::spawn_blocking(count).await.unwrap()
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
    let words = ["--config", file.to_str().unwrap()];
    let library = faketime();
    let at = |offset: &'static str| {
        [
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("FAKETIME", offset),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ]
    };
    let folders = ["early", "late", "right"].map(|name| folder.path().join(name));
    let right = Server::start(&folders[2], &words).await;
    let client = Client::new(&right.base, Some(&right.first_key().await));
    let early = Server::start_with(&folders[0], &words, &at("-1h")).await;
    let late = Server::start_with(&folders[1], &words, &at("+1h")).await;
    let of = |server: &Server| Client {
        base: server.base.clone(),
        ..client.clone()
    };
    let mut tasks = Vec::new();
    for (server, first) in [(&right, 0), (&early, 100), (&late, 200)] {
        tasks.extend(order(&of(server), first..first + 6).await);
    }
    // Two of them die with work under way, which the third takes over. An order whose
    // answer nobody saw is looked for by when it left, which an hour's error prevents:
    // such a task would end unconfirmed.
    eventually("every order is known to have been taken", async || {
        let taken = "SELECT COUNT(*) FROM submissions WHERE state <> 'intended'";
        (count(&database.url, taken).await == 18).then_some(())
    })
    .await;
    early.crash();
    late.crash();
    succeed(&client, &tasks).await;
    assert_eq!(jobs(&simulator), tasks.len());
    let data = folders[2].to_str().unwrap();
    right.stop().await;
    add_up(&["--config", words[1], "--data", data]).await;
}
