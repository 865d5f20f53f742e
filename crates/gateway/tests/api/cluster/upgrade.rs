//! Three gateways and a worker are replaced one after the other while callers order.

use std::path::PathBuf;

use crate::database::{assert_all_succeed, provider};
use crate::support::deployment::Deployment;
use crate::support::postgres::TestDatabase;

/// Longer than the proxy takes to notice that a gateway drains.
const DRAIN: &str = "drain_delay = \"2500ms\"\n";

/// The program of an earlier version, if one is named: it runs at first, and again for a while
/// later.
#[expect(clippy::print_stdout, reason = "whoever reads the result must know")]
fn old_program() -> Option<PathBuf> {
    let path = std::env::var_os("MEDIAGATE_TEST_OLD_PROGRAM").map(PathBuf::from);
    if path.is_none() {
        println!("with one version: MEDIAGATE_TEST_OLD_PROGRAM names no other");
    }
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_upgrade_loses_no_order() {
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
    let report = load.end().await;
    println!(
        "{} orders, answers {:?}",
        report.tasks.len(),
        report.answers
    );
    let unexpected = report
        .answers
        .keys()
        .any(|status| !matches!(status, 200 | 503));
    assert!(!unexpected, "{:?}", report.answers);
    assert_all_succeed(&deployment.client, &report.tasks).await;
    assert_eq!(simulator.world().all_jobs().len(), report.tasks.len());
    deployment.command(&["ledger", "verify"]).await;
    deployment.stop().await;
}
