//! A database that is restored from a backup: its open orders may have been paid
//! for since, and are not sent again unless the operator says so.

use std::path::Path;
use std::time::Duration;

use mediagate_core::domain::restored_backup;
use mediagate_model::clock::Clock;
use mediagate_store::restored::DatabaseMark;
use mediagate_store::{self as store, DatabaseLocation, StoreError};
use serde_json::{Value, json};
use simulator::{JobPlan, Simulator};

use crate::support::gateway::finished;
use crate::support::postgres::TestDatabase;
use crate::support::program::{Server, output, program, text};
use crate::support::{Client, TestGateway, eventually};

const OPENAI: &str = "openai-videos";

/// One provider with this limit of jobs at a time.
fn settings(simulator: &Simulator, max_running: u32) -> String {
    let url = simulator.url(OPENAI);
    format!(
        "[providers.acme]\nprotocol = \"{OPENAI}\"\nbase_url = \"{url}\"\napi_key = \"sk-simulated-0123456789\"\n\
         idempotency = true\n\
         [models.film]\nkind = \"video\"\nprice = {{ unit = \"second\", usd = \"0.10\" }}\n\
         routes = [{{ provider = \"acme\", model = \"sora-2\", max_running = {max_running} }}]\n"
    )
}

struct Scene {
    simulator: Simulator,
    folder: tempfile::TempDir,
    /// The Postgres database; `None` for `SQLite`.
    database: Option<TestDatabase>,
    key: String,
    tasks: Vec<String>,
}

impl Scene {
    /// Three orders, a backup of the database while one of them is at the provider
    /// and two wait, and then the end of all three.
    async fn set_up(database: Option<TestDatabase>) -> Self {
        let simulator = Simulator::start().await.unwrap();
        let slow = JobPlan {
            running: Duration::from_hours(1),
            ..JobPlan::default()
        };
        simulator.world().set_plan(slow);
        let folder = tempfile::tempdir().unwrap();
        let mut scene = Self {
            simulator,
            folder,
            database,
            key: String::new(),
            tasks: Vec::new(),
        };
        scene.configure(1);
        let server = scene.start(&[]).await;
        scene.key = server.first_key().await;
        let client = scene.client(&server);
        // Tasks that are claimed together may reach the provider in any order: this one goes first.
        scene.order(&client, "one").await;
        eventually("one is at the provider", async || {
            // A task is running before its order is sent and before the answer is recorded.
            let path = format!("/v1/tasks/{}/attempts", scene.tasks[0]);
            let attempts = client.get(&path).await.ok();
            (attempts["data"][0]["status"] == "accepted").then_some(())
        })
        .await;
        scene.order(&client, "two").await;
        scene.order(&client, "three").await;
        server.stop().await;
        if let Some(database) = &scene.database {
            database.back_up();
        } else {
            let backup = scene.folder.path().join("backup");
            copy_database(&scene.data(), &backup);
            copy_all(&scene.data(), &scene.folder.path().join("whole"));
            // A copied folder contains these files, too.
            for name in ["mark", "signing.key"] {
                std::fs::copy(scene.data().join(name), backup.join(name)).unwrap();
            }
        }
        // The job at the provider takes forever, and the others overtake it.
        scene.simulator.world().set_plan(JobPlan::default());
        scene.configure(3);
        let server = scene.start(&[]).await;
        let client = scene.client(&server);
        for task in &scene.tasks[1..] {
            assert_eq!(finished(&client, task).await["status"], "succeeded");
        }
        server.stop().await;
        assert_eq!(scene.simulator.world().accepted_count(OPENAI), 3);
        scene
    }

    async fn order(&mut self, client: &Client, prompt: &str) {
        let order = json!({"model": "film", "prompt": prompt, "seconds": "4"});
        let answer = client.post("/v1/videos", &order).await;
        self.tasks
            .push(answer.header("x-task-id").unwrap().to_owned());
    }

    fn configure(&self, max_running: u32) {
        let mut toml = settings(&self.simulator, max_running);
        if let Some(database) = &self.database {
            toml = format!("database = \"{}\"\n{toml}", database.url);
        }
        std::fs::write(self.folder.path().join("m.toml"), toml).unwrap();
    }

    fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    async fn start(&self, flags: &[&str]) -> Server {
        self.start_in(&self.data(), flags).await
    }

    async fn start_in(&self, data: &Path, extra: &[&str]) -> Server {
        let config = self.folder.path().join("m.toml");
        let mut flags = vec!["--config", config.to_str().unwrap()];
        flags.extend(extra);
        Server::start(data, &flags).await
    }

    fn client(&self, server: &Server) -> Client {
        Client::new(&server.base, Some(&self.key))
    }

    fn restore(&self) {
        match &self.database {
            Some(database) => database.restore(),
            None => copy_database(&self.folder.path().join("backup"), &self.data()),
        }
    }

    async fn command(&self, args: &[&str]) -> String {
        self.command_in(&self.data(), args).await
    }

    async fn command_in(&self, data: &Path, args: &[&str]) -> String {
        let mut command = program(args);
        command.arg("--data").arg(data);
        command
            .arg("--config")
            .arg(self.folder.path().join("m.toml"));
        let output = output(command).await;
        assert!(output.status.success(), "{args:?}: {output:?}");
        text(&output.stdout).to_owned()
    }
}

/// `cp -a`: files that exist are written over.
fn copy_all(source: &Path, target: &Path) {
    std::fs::create_dir_all(target).unwrap();
    let copied = std::process::Command::new("cp")
        .arg("-a")
        .arg(source.join("."))
        .arg(target)
        .status();
    assert!(copied.unwrap().success());
}

/// Replaces the database's files.
fn copy_database(source: &Path, target: &Path) {
    std::fs::create_dir_all(target).unwrap();
    for name in ["mediagate.db", "mediagate.db-wal", "mediagate.db-shm"] {
        let _ = std::fs::remove_file(target.join(name));
        if source.join(name).exists() {
            std::fs::copy(source.join(name), target.join(name)).unwrap();
        }
    }
}

#[tokio::test]
async fn a_restored_database_waits_for_the_operator_before_it_sends_again() {
    waits_for_the_operator(None).await;
}

#[tokio::test]
async fn a_restored_postgres_waits_for_the_operator_before_it_sends_again() {
    waits_for_the_operator(Some(TestDatabase::create().await)).await;
}

async fn waits_for_the_operator(database: Option<TestDatabase>) {
    let scene = Scene::set_up(database).await;
    scene.restore();
    for _ in 0..2 {
        let server = scene.start(&[]).await;
        let list = scene.command(&["restored", "list"]).await;
        let waiting: Vec<&str> = list
            .lines()
            .skip(1)
            .filter_map(|line| line.split_whitespace().last())
            .collect();
        assert_eq!(waiting, scene.tasks[1..], "tasks wait for the operator");
        server.stop().await;
    }
    let server = scene.start(&[]).await;
    let client = scene.client(&server);
    // The task at the provider is followed, and can be cancelled like the others.
    let at_provider = client.get(&format!("/v1/tasks/{}", scene.tasks[0])).await;
    assert_eq!(at_provider.ok()["status"], "running");
    scene.command(&["restored", "fail", &scene.tasks[1]]).await;
    let failed = finished(&client, &scene.tasks[1]).await;
    assert_eq!(failed["error"]["code"], "submission_unconfirmed");
    assert_eq!(failed["cost_usd"], "0.00");
    assert_eq!(scene.simulator.world().accepted_count(OPENAI), 3);
    client
        .post(
            &format!("/v1/tasks/{}/cancel", scene.tasks[0]),
            &Value::Null,
        )
        .await
        .ok();
    scene.command(&["restored", "resubmit", "--all"]).await;
    let resubmitted = finished(&client, &scene.tasks[2]).await;
    assert_eq!(resubmitted["status"], "succeeded");
    assert_eq!(scene.simulator.world().accepted_count(OPENAI), 4);
    let list = scene.command(&["restored", "list"]).await;
    assert!(list.contains("No tasks"), "{list}");
    let audit = scene.command(&["audit", "--json"]).await;
    let audit: Vec<Value> = serde_json::from_str(&audit).unwrap();
    for (action, command, task, status) in [
        ("task.fail", "restored fail", &scene.tasks[1], "failed"),
        (
            "task.resubmit",
            "restored resubmit",
            &scene.tasks[2],
            "queued",
        ),
    ] {
        let entry = audit.iter().find(|entry| entry["action"] == action);
        let entry = entry.unwrap();
        assert_eq!(
            (&entry["target"], &entry["actor"]["name"]),
            (&json!(task), &json!(command))
        );
        assert_eq!(entry["before"], json!({"status": "queued", "held": true}));
        assert_eq!(entry["after"], json!({"status": status, "held": false}));
    }
    server.stop().await;
    scene.command(&["ledger", "verify"]).await;
}

#[tokio::test]
async fn a_copied_folder_orders_nothing_again() {
    let scene = Scene::set_up(None).await;
    let copied = scene.folder.path().join("backup");
    orders_nothing_again(&scene, &copied).await;
    // From now on the copied folder has a location of its own.
    let server = scene.start_in(&copied, &[]).await;
    let order = json!({"model": "film", "prompt": "four", "seconds": "4"});
    let client = scene.client(&server);
    let answer = client.post("/v1/videos", &order).await;
    let task = answer.header("x-task-id").unwrap();
    assert_eq!(finished(&client, task).await["status"], "succeeded");
    server.stop().await;
}

/// The database keeps its inode and its creation time, and its mark comes back with it.
#[tokio::test]
async fn a_whole_folder_that_is_put_back_orders_nothing_again() {
    let scene = Scene::set_up(None).await;
    copy_all(&scene.folder.path().join("whole"), &scene.data());
    orders_nothing_again(&scene, &scene.data()).await;
    // The next start holds nothing more.
    let server = scene.start(&[]).await;
    scene.command(&["restored", "resubmit", "--all"]).await;
    let client = scene.client(&server);
    for task in &scene.tasks[1..] {
        assert_eq!(finished(&client, task).await["status"], "succeeded");
    }
    server.stop().await;
}

/// A backup that is put back although nothing was ordered since then is as good as the original.
#[tokio::test]
async fn a_folder_that_did_not_change_holds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for copy in ["first", "second", "third"] {
        let server = Server::start(&data, &[]).await;
        server.stop().await;
        // A new folder each time: an older copy's write-ahead log would be put back with this one.
        let copy = folder.path().join(copy);
        copy_all(&data, &copy);
        copy_all(&copy, &data);
    }
    let mut list = program(&["restored", "list"]);
    list.arg("--data").arg(&data);
    let list = output(list).await;
    assert!(text(&list.stdout).contains("No tasks"), "{list:?}");
    let mark = std::fs::read_to_string(data.join("mark")).unwrap();
    assert!(mark.split(' ').nth(1) == Some("3"), "{mark}");
}

#[tokio::test]
async fn a_copied_postgres_beside_a_new_folder_orders_nothing_again() {
    let scene = Scene::set_up(Some(TestDatabase::create().await)).await;
    let database = scene.database.as_ref().unwrap();
    let toml = settings(&scene.simulator, 3);
    let toml = format!("database = \"{}_backup\"\n{toml}", database.url);
    std::fs::write(scene.folder.path().join("m.toml"), toml).unwrap();
    let fresh = scene.folder.path().join("fresh");
    orders_nothing_again(&scene, &fresh).await;
}

/// The provider may refuse that order after the copy was made, and another one may make it.
#[tokio::test]
async fn an_order_that_was_being_sent_waits_in_a_copy() {
    let simulator = Simulator::start().await.unwrap();
    let mut scene = Scene {
        simulator,
        folder: tempfile::tempdir().unwrap(),
        database: None,
        key: String::new(),
        tasks: Vec::new(),
    };
    scene.configure(1);
    let config = scene.folder.path().join("m.toml");
    let flags = ["--config", config.to_str().unwrap()];
    let stop_when_sent = [("MEDIAGATE_STOP_AT", "submission-sent")];
    let original = Server::start_with(&scene.data(), &flags, &stop_when_sent).await;
    scene.key = original.first_key().await;
    let client = scene.client(&original);
    scene.order(&client, "one").await;
    original.wait_until_stopped().await;
    for (decision, status, attempt) in [
        ("fail", "failed", "unconfirmed"),
        ("resubmit", "succeeded", "succeeded"),
    ] {
        let copied = scene.folder.path().join(decision);
        copy_database(&scene.data(), &copied);
        let key = "signing.key";
        std::fs::copy(scene.data().join(key), copied.join(key)).unwrap();
        let sent = scene.simulator.world().journal().len();
        let server = scene.start_in(&copied, &[]).await;
        let list = scene.command_in(&copied, &["restored", "list"]).await;
        assert!(list.contains(&scene.tasks[0]), "{list}");
        assert_eq!(scene.simulator.world().journal().len(), sent);
        let decided = ["restored", decision, &scene.tasks[0]];
        scene.command_in(&copied, &decided).await;
        let client = scene.client(&server);
        let task = finished(&client, &scene.tasks[0]).await;
        assert_eq!(task["status"], status, "{task}");
        let path = format!("/v1/tasks/{}/attempts", scene.tasks[0]);
        let attempts = client.get(&path).await.ok();
        assert_eq!(attempts["data"][0]["status"], attempt, "{attempts}");
        server.stop().await;
        scene.command_in(&copied, &["ledger", "verify"]).await;
    }
    // The repetition had the same idempotency key.
    assert_eq!(scene.simulator.world().accepted_count(OPENAI), 1);
    original.crash();
}

/// A gateway on the copy holds the tasks that were not submitted when the copy was made.
async fn orders_nothing_again(scene: &Scene, copied: &Path) {
    let server = scene.start_in(copied, &[]).await;
    let list = scene.command_in(copied, &["restored", "list"]).await;
    assert_eq!(list.lines().skip(1).count(), 2, "{list}");
    assert_eq!(scene.simulator.world().accepted_count(OPENAI), 3);
    server.stop().await;
}

#[tokio::test]
async fn the_operator_says_that_a_database_was_restored() {
    let scene = Scene::set_up(None).await;
    scene.restore();
    // As on another machine, where only the database was restored.
    std::fs::remove_file(scene.data().join("mark")).unwrap();
    let server = scene.start(&["--after-restore"]).await;
    let list = scene.command(&["restored", "list"]).await;
    assert_eq!(list.lines().skip(1).count(), 2, "{list}");
    server.stop().await;
    // Later orders are not held.
    let server = scene.start(&[]).await;
    let client = scene.client(&server);
    client
        .post(
            &format!("/v1/tasks/{}/cancel", scene.tasks[0]),
            &Value::Null,
        )
        .await
        .ok();
    let order = json!({"model": "film", "prompt": "four", "seconds": "4"});
    let answer = client.post("/v1/videos", &order).await;
    let task = answer.header("x-task-id").unwrap();
    assert_eq!(finished(&client, task).await["status"], "succeeded");
    assert_eq!(scene.simulator.world().accepted_count(OPENAI), 4);
    server.stop().await;
}

/// Processes that survived the promotion may renew their leases, which expired during the outage.
#[tokio::test]
async fn a_start_after_a_promotion_waits_for_surviving_processes() {
    let simulator = Simulator::start().await.unwrap();
    for is_alive in [true, false] {
        let builder = TestGateway::builder().on_postgres().without_workers();
        let gateway = builder.toml(&settings(&simulator, 1)).start().await;
        let order = json!({"model": "film", "prompt": "a lake"});
        gateway.post("/v1/videos", &order).await.ok();
        restored_backup::check(&gateway.app, false).await.unwrap();
        let promoted = gateway.app.store.write(|conn| -> Result<_, StoreError> {
            let location = store::restored::location(conn)?.unwrap();
            let previous = DatabaseLocation {
                timeline: Some("0".into()),
                ..location
            };
            store::restored::set_location(conn, &previous)?;
            // The mark outside the database is older.
            let mark = store::restored::mark(conn)?.unwrap();
            let mark = DatabaseMark {
                count: mark.count + 1,
                ..mark
            };
            store::restored::set_mark(conn, &mark)?;
            let now = store::workers::now(conn, Clock::system().now())?;
            store::workers::register(conn, "living", now.minus(Duration::from_secs(1)))?;
            Ok(now.plus(Duration::from_hours(1)))
        });
        let until = promoted.await.unwrap();
        let app = gateway.app.clone();
        let heartbeat = async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if is_alive {
                let extended = app
                    .store
                    .write(move |conn| store::workers::prolong(conn, "living", until));
                assert!(extended.await.unwrap());
            }
        };
        let (check, ()) = tokio::join!(restored_backup::check(&gateway.app, false), heartbeat);
        check.unwrap();
        let held_tasks = restored_backup::list(&gateway.app).await.unwrap();
        assert_eq!(held_tasks.len(), usize::from(!is_alive));
        gateway.stop().await;
    }
}
