//! A process that is cut off from the database, in every way in which networks do it: its tasks are done
//! elsewhere, once, and its callers are told to come again.

use std::time::Duration;

use simulator::{LinkState, NetworkState, PlannedEnd, RequestRole};

use super::{arrives, one_provider, ordered, plan, simulator, submissions};
use crate::support::postgres::{TestDatabase, proxy_to};
use crate::support::{TestGateway, eventually, videos_order};

const HELD: LinkState = LinkState::held();
const OPEN: LinkState = LinkState::with_delay(Duration::ZERO);

async fn replica(url: &str, toml: &str) -> TestGateway {
    let url = url.parse().unwrap();
    let builder = TestGateway::builder().toml(toml);
    builder
        .set(|settings| settings.database = Some(url))
        .start()
        .await
}

async fn is_done_elsewhere(up: LinkState, down: LinkState, refuses: bool) {
    let simulator = simulator().await;
    plan(&simulator, Duration::from_secs(3), PlannedEnd::Success);
    let toml = one_provider(&simulator);
    let database = TestDatabase::create().await;
    let (way, url) = proxy_to(&database.url).await;
    let cut_off = replica(&url, &toml).await;
    let task = ordered(&cut_off, "a lake").await;
    arrives(&simulator, RequestRole::Poll, 1).await;
    let other = replica(&database.url, &toml).await;
    way.set(NetworkState { up, down, refuses });
    if refuses {
        way.reset();
    }
    let caller = other.with_key(cut_off.client.key.as_ref().unwrap());
    let (order, path) = (videos_order(), format!("/v1/tasks/{task}"));
    let (done, refused) = tokio::join!(
        crate::support::gateway::finished(&caller, &task),
        futures_util::future::join(cut_off.get(&path), cut_off.post("/v1/videos", &order)),
    );
    assert_eq!(done["status"], "succeeded", "{done}");
    for answer in [refused.0, refused.1] {
        answer.refused(503, "overloaded");
    }
    way.heal();
    eventually("it is back", async || {
        let same = cut_off.get(&path).await;
        (same.status == 200).then(|| assert_eq!(same.json["status"], "succeeded"))
    })
    .await;
    let task = ordered(&cut_off, "a sea").await;
    assert_eq!(cut_off.finished(&task).await["status"], "succeeded");
    cut_off.stop().await;
    other.stop().await;
    assert_eq!(submissions(&simulator), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_nothing_reaches_is_done_without() {
    tokio::join!(
        is_done_elsewhere(HELD, HELD, false),
        is_done_elsewhere(OPEN, OPEN, true),
    );
}

/// Half of the network is gone: what it sends arrives, or what it is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_hears_nothing_or_is_not_heard_is_done_without() {
    tokio::join!(
        is_done_elsewhere(OPEN, HELD, false),
        is_done_elsewhere(HELD, OPEN, false),
    );
}
