//! What callers see of a Postgres that hangs, is unreachable, or whose answers are lost.

use std::time::Duration;

use mediagate_core::domain::keys::NewKey;
use mediagate_store::StoreError;
use serde_json::json;
use simulator::{ConnectionCut, LinkState, NetworkState};

use crate::support::program::{output, program, text};
use crate::support::{TestGateway, eventually, videos_order};

/// Longer than any answer may take: only a hang exceeds it.
const HANG_TIME: Duration = Duration::from_secs(30);

async fn gateway() -> TestGateway {
    let builder = TestGateway::builder().behind_proxy().without_workers();
    builder.start().await
}

async fn tasks(gateway: &TestGateway) -> i64 {
    let count = gateway.app.store.read(|conn| -> Result<_, StoreError> {
        conn.one("SELECT COUNT(*) FROM tasks", &[], |row| row.int(0))
    });
    count.await.unwrap().unwrap()
}

// The proxy must run while a gateway is opened, which blocks.
#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_database_is_503_and_creates_nothing() {
    let gateway = gateway().await;
    let listed = gateway.get("/v1/tasks").await.ok();
    gateway.proxy().set(NetworkState::both(LinkState::held()));
    let order = videos_order();
    let cancel = format!("/v1/tasks/{}/cancel", uuid::Uuid::now_v7());
    let empty_body = json!({});
    let requests = async {
        tokio::join!(
            gateway.get("/v1/tasks"),
            gateway.get("/v1/models"),
            gateway.get("/v1/usage"),
            gateway.post("/v1/videos", &order),
            gateway.post(&cancel, &empty_body),
        )
    };
    let answers = tokio::time::timeout(HANG_TIME, requests).await.unwrap();
    for answer in [&answers.0, &answers.1, &answers.2, &answers.3, &answers.4] {
        answer.refused(503, "overloaded");
        assert!(answer.header("retry-after").is_some());
    }
    // The database was reachable a moment ago, so a proxy may keep using this process.
    let ready = gateway.get("/readyz").await.ok();
    assert_eq!(ready, json!({"status": "ok", "away": ["database"]}));
    gateway.proxy().heal();
    eventually("the database answers", async || {
        (gateway.get("/v1/tasks").await.status == 200).then_some(())
    })
    .await;
    assert_eq!(gateway.get("/v1/tasks").await.ok(), listed);
    assert_eq!(gateway.get("/readyz").await.ok(), json!({"status": "ok"}));
    assert_eq!(tasks(&gateway).await, 0);
    gateway.stop().await;
}

/// The database is silent for longer than a proxy should use a process without a database.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_whose_database_is_silent_for_long_is_not_ready() {
    let gateway = gateway().await;
    gateway.proxy().set(NetworkState::both(LinkState::held()));
    let readiness = gateway.get("/readyz").await.ok();
    assert_eq!(readiness["away"], json!(["database"]));
    let not_ready = eventually("the process is not ready", async || {
        let ready = gateway.get("/readyz").await;
        (ready.status != 200).then_some(ready)
    });
    not_ready.await.refused(503, "overloaded");
    gateway.proxy().heal();
    eventually("the database is back", async || {
        (gateway.get("/readyz").await.json == json!({"status": "ok"})).then_some(())
    })
    .await;
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_gone_is_503() {
    let gateway = gateway().await;
    gateway.proxy().set(NetworkState {
        refuses: true,
        ..NetworkState::default()
    });
    gateway.proxy().reset();
    gateway.get("/v1/tasks").await.refused(503, "overloaded");
    let order = gateway.post("/v1/videos", &videos_order()).await;
    order.refused(503, "overloaded");
    gateway.proxy().heal();
    gateway.post("/v1/videos", &videos_order()).await.ok();
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_idle_connections_are_replaced_unnoticed() {
    let gateway = gateway().await;
    gateway.proxy().reset();
    gateway.post("/v1/videos", &videos_order()).await.ok();
    gateway.proxy().reset();
    gateway.get("/v1/tasks").await.ok();
    assert_eq!(tasks(&gateway).await, 1);
    gateway.stop().await;
}

/// Cuts the commit of a gateway's first order; the commit before it grants the key some requests.
fn commit_of_the_order() -> ConnectionCut {
    ConnectionCut {
        after: 1,
        ..ConnectionCut::new("COMMIT")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_is_looked_up() {
    let gateway = gateway().await;
    gateway.proxy().cut(commit_of_the_order().passing());
    gateway.post("/v1/videos", &videos_order()).await.ok();
    gateway.proxy().wait_for_strikes(1).await;
    assert_eq!(tasks(&gateway).await, 1);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_never_arrived_creates_nothing() {
    let gateway = gateway().await;
    gateway.proxy().cut(commit_of_the_order());
    let lost = gateway.post("/v1/videos", &videos_order()).await;
    lost.refused(503, "overloaded");
    assert_eq!(tasks(&gateway).await, 0);
    gateway.post("/v1/videos", &videos_order()).await.ok();
    assert_eq!(tasks(&gateway).await, 1);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_in_doubt_is_503_and_its_repetition_joins_what_it_made() {
    let gateway = gateway().await;
    gateway
        .proxy()
        .cut(ConnectionCut::new("COMMIT").passing().holding());
    let order = videos_order();
    let (lost, ()) = tokio::join!(gateway.post("/v1/videos", &order), async {
        gateway.proxy().wait_for_strikes(1).await;
        gateway.proxy().set(NetworkState::both(LinkState::held()));
    });
    lost.refused(503, "overloaded");
    gateway.proxy().heal();
    let joined = eventually("the repetition joins the task", async || {
        let answer = gateway.post("/v1/videos", &order).await;
        (answer.status == 200).then_some(answer)
    })
    .await;
    joined.ok();
    assert_eq!(tasks(&gateway).await, 1);
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_order_whose_commit_is_cut_has_one_task() {
    cut_commits(12).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the long form: 1,000 orders"]
async fn long_cut_commits() {
    cut_commits(1000).await;
}

/// Cuts connections before or after the commit of the grant, of the order or of the next
/// transaction.
async fn cut_commits(orders: u32) {
    let gateway = gateway().await;
    let unlimited = NewKey {
        name: "many".into(),
        rpm: Some(1_000_000),
        max_running: Some(1_000_000),
        ..NewKey::default()
    };
    let caller = gateway.caller("default", unlimited).await;
    for number in 0..orders {
        let cut = ConnectionCut {
            after: number / 2 % 3,
            ..ConnectionCut::new("COMMIT")
        };
        let cut = if number.is_multiple_of(2) {
            cut.passing()
        } else {
            cut
        };
        gateway.proxy().cut(cut);
        let key = format!("order-{number}");
        eventually("the order is accepted", async || {
            let request = caller.request(reqwest::Method::POST, "/v1/videos");
            let request = request.header("idempotency-key", &key);
            let answer = caller.send(request.json(&videos_order())).await;
            if answer.status != 200 {
                answer.refused(503, "overloaded");
                return None;
            }
            Some(())
        })
        .await;
        gateway.proxy().clear_cuts();
    }
    assert_eq!(tasks(&gateway).await, i64::from(orders));
    gateway.stop().await;
}

#[tokio::test]
async fn processes_that_start_together_print_one_key() {
    let database = crate::support::postgres::TestDatabase::create().await;
    let data = tempfile::tempdir().unwrap();
    let args = ["--database", database.url.as_str(), "--workers", "1"];
    let folders: Vec<_> = (0..4)
        .map(|number| data.path().join(number.to_string()))
        .collect();
    let starting = folders
        .iter()
        .map(|folder| crate::support::program::Server::start(folder, &args));
    let servers = futures_util::future::join_all(starting).await;
    // The key follows the line with the server's address.
    let count_keys = |stdout: &str| {
        stdout
            .lines()
            .filter(|line| line.trim().starts_with("sk-mg-"))
            .count()
    };
    let mut printed = 0;
    for server in servers {
        printed += count_keys(&server.stop().await);
    }
    assert_eq!(printed, 1);
}

#[tokio::test]
async fn replicas_sign_media_addresses_alike() {
    let database = crate::support::postgres::TestDatabase::create().await;
    let config = |folder: &std::path::Path| {
        let overrides = mediagate_config::Settings {
            data: Some(folder.to_owned()),
            database: Some(database.url.parse().unwrap()),
            ..mediagate_config::Settings::default()
        };
        mediagate_config::Config::load(&overrides).unwrap()
    };
    crate::support::client::install_tls();
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        let config = config(&folder.path().join(name));
        mediagate_core::app::App::open(config, mediagate_model::clock::Clock::system()).unwrap()
    };
    let (first, second) = (open("one"), open("other"));
    let id = mediagate_model::ids::AssetId::new();
    let until = first.clock.now().plus(Duration::from_mins(1));
    let media = mediagate_model::media::MediaType::Png;
    assert_eq!(
        first.secrets.signer.path(id, media, until),
        second.secrets.signer.path(id, media, until)
    );
}

#[tokio::test]
async fn a_database_is_migrated_by_command_where_servers_may_not() {
    let database = crate::support::postgres::TestDatabase::create().await;
    let data = tempfile::tempdir().unwrap();
    let data = data.path().to_str().unwrap();
    let settings = [
        "--data",
        data,
        "--database",
        &database.url,
        "--migrate",
        "never",
    ];
    let run = |args: &[&str]| {
        let mut full_args = args.to_vec();
        full_args.extend(settings);
        output(program(&full_args))
    };
    let refused = run(&["keys", "list"]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("mediagate migrate"));
    let migrated = run(&["migrate"]).await;
    assert!(migrated.status.success(), "{}", text(&migrated.stderr));
    assert!(run(&["keys", "list"]).await.status.success());
}

#[tokio::test]
async fn a_database_that_cannot_be_reached_is_named_with_the_reason() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path().to_str().unwrap();
    let server = format!("127.0.0.1:{}", crate::process::free_port());
    let url = format!("postgres://me:hunter2@{server}/db");
    let args = ["keys", "list", "--data", data, "--database", &url];
    let refused = output(program(&args)).await;
    let stderr = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains(&server) && stderr.contains("refused") && !stderr.contains("hunter2"),
        "{stderr}"
    );
}
