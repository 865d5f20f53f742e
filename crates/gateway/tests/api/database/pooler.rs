//! Through `PgBouncer`: in session mode, and in transaction mode, which loses prepared statements
//! before 1.21.

use std::process::{Child, Stdio};

use mediagate_config::{Config, Settings};
use mediagate_core::app::App;
use mediagate_core::domain::keys::NewKey;
use mediagate_model::clock::Clock;

use crate::process::free_port;
use crate::support::cluster::{find_program, stop, unprivileged, unprivileged_folder};
use crate::support::postgres::TestDatabase;
use crate::support::{TestGateway, eventually, videos_order};

struct Pooler {
    child: Child,
    url: String,
    _folder: tempfile::TempDir,
}

impl Pooler {
    async fn in_front_of(database: &str, mode: &str) -> Self {
        let server = url::Url::parse(database).unwrap();
        let folder = unprivileged_folder();
        let port = free_port();
        let users = folder.path().join("users");
        std::fs::write(&users, "\"postgres\" \"\"\n").unwrap();
        let settings = folder.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = {mode}\ndefault_pool_size = 40\nadmin_users = postgres\n",
            server.host_str().unwrap(),
            server.port().unwrap_or(5432),
            users.display(),
        );
        std::fs::write(&settings, text).unwrap();
        let program = find_program("pgbouncer")
            .expect("PgBouncer is not installed; ./scripts/test installs it");
        let mut command = unprivileged(program);
        let command = command.arg("--quiet").arg(&settings).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        eventually("the pooler listens", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", port))
                .await
                .ok()
        })
        .await;
        let mut url = server;
        url.set_host(Some("127.0.0.1")).unwrap();
        url.set_port(Some(port)).unwrap();
        Self {
            child,
            url: url.into(),
            _folder: folder,
        }
    }

    /// Changes the running pooler's mode, through its console.
    fn set_mode(&self, mode: &str) {
        let mut console = url::Url::parse(&self.url).unwrap();
        console.set_path("pgbouncer");
        let command = format!("SET pool_mode = '{mode}'");
        let set = move || {
            let client = postgres::Client::connect(console.as_str(), postgres::NoTls);
            client.unwrap().batch_execute(&command).unwrap();
        };
        std::thread::spawn(set).join().unwrap();
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

fn unlimited_key() -> NewKey {
    NewKey {
        rpm: Some(100_000),
        max_running: Some(10_000),
        ..NewKey::default()
    }
}

#[tokio::test]
async fn a_pooler_in_session_mode_changes_nothing() {
    let database = TestDatabase::create().await;
    let pooler = Pooler::in_front_of(&database.url, "session").await;
    let builder = TestGateway::builder().on_database(&pooler.url);
    let gateway = builder.start().await;
    let order = videos_order();
    let orders = (0..6).map(|_| gateway.post("/v1/videos", &order));
    let answers = futures_util::future::join_all(orders).await;
    for answer in answers {
        assert_eq!(answer.status, 200, "{}", answer.text());
        let task = answer.header("x-task-id").unwrap();
        assert_eq!(gateway.finished(task).await["status"], "succeeded");
    }
    assert_eq!(gateway.get("/readyz").await.status, 200);
    gateway.stop().await;
}

#[tokio::test]
async fn a_pooler_in_transaction_mode_is_named_at_the_start() {
    let database = TestDatabase::create().await;
    let pooler = Pooler::in_front_of(&database.url, "transaction").await;
    let data = tempfile::tempdir().unwrap();
    // Later rounds also meet the statements of earlier ones on the pooler's connections.
    for _ in 0..3 {
        let settings = Settings {
            data: Some(data.path().join("data")),
            database: Some(pooler.url.parse().unwrap()),
            ..Settings::default()
        };
        let config = Config::load(&settings).unwrap();
        let refused = App::open(config, Clock::system()).err().expect("it starts");
        let text = refused.to_string();
        for term in ["pooler", "transaction mode", "session mode"] {
            assert!(text.contains(term), "{text}");
        }
    }
}

#[tokio::test]
async fn a_pooler_that_is_set_to_transaction_mode_is_named_while_it_runs() {
    let database = TestDatabase::create().await;
    let pooler = Pooler::in_front_of(&database.url, "session").await;
    let builder = TestGateway::builder().on_database(&pooler.url);
    let gateway = builder.without_workers().start().await;
    let caller = gateway.caller("busy", unlimited_key()).await;
    pooler.set_mode("transaction");
    let order = videos_order();
    eventually("a request meets a lost statement", async || {
        let reads = (0..16).map(|_| caller.get("/v1/tasks?limit=1"));
        let reads = futures_util::future::join_all(reads);
        let (mut answers, order_answer) = tokio::join!(reads, caller.post("/v1/videos", &order));
        answers.push(order_answer);
        let failed = answers.iter().filter(|answer| answer.status != 200);
        failed
            .map(|answer| {
                answer.refused(503, "overloaded");
            })
            .next()
    })
    .await;
    pooler.set_mode("session");
    gateway.stop().await;
}
