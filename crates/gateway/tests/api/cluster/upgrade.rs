//! Three gateways and a worker are replaced one after the other while callers order.

use std::path::PathBuf;

use crate::database::{provider, succeed};
use crate::support::deployment::Deployment;
use crate::support::postgres::TestDatabase;

/// Longer than the proxy takes to see that a gateway is leaving.
const DRAIN: &str = "drain_delay = \"2500ms\"\n";

/// The program of an earlier version, if one is named: it begins, and comes back at the end.
#[expect(clippy::print_stdout, reason = "whoever reads the result must know")]
fn old_program() -> Option<PathBuf> {
    let old = std::env::var_os("MEDIAGATE_TEST_OLD_PROGRAM").map(PathBuf::from);
    if old.is_none() {
        println!("with one version: MEDIAGATE_TEST_OLD_PROGRAM names no other");
    }
    old
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_upgrade_is_not_noticed() {
    let database = TestDatabase::create().await;
    let (simulator, toml) = provider().await;
    let toml = format!("database = \"{}\"\n{DRAIN}{toml}", database.url);
    let mut deployment = Deployment::launch(&toml, old_program()).await;
    let load = deployment.load(4);
    load.more(10).await;
    for gateway in 0..2 {
        deployment.replace(gateway, false).await;
        load.more(10).await;
    }
    // Two versions run side by side, and one goes back.
    deployment.replace(0, true).await;
    load.more(10).await;
    deployment.replace_worker(false).await;
    load.more(10).await;
    for gateway in [0, 2] {
        deployment.replace(gateway, false).await;
    }
    load.more(10).await;
    let told = load.end().await;
    println!("{} orders, answers {:?}", told.tasks.len(), told.answers);
    let unexpected = told
        .answers
        .keys()
        .any(|status| !matches!(status, 200 | 503));
    assert!(!unexpected, "{:?}", told.answers);
    succeed(&deployment.client, &told.tasks).await;
    assert_eq!(simulator.world().all_jobs().len(), told.tasks.len());
    deployment.command(&["ledger", "verify"]).await;
    deployment.stop().await;
}
